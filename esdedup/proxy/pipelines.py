"""Finds the ingest pipelines that requests name, and warns of them.

A pipeline runs in the cluster, after the proxy: it may change a text whose tokens are computed
already, and its documents are then found by the text that was sent.
"""

import logging
from codecs import BOM_UTF8

from esdedup.proxy.http import Request
from esdedup.proxy.splice import SentSource
from esdedup.stores.json_text import value_of

NO_PIPELINE = "_none"
"""The value with which a request bypasses the pipeline of its index."""
_MOST_WARNINGS = 100
"""Names that are remembered; a client may send any number."""

log = logging.getLogger(__name__)


def pipeline_of(request: Request) -> str | None:
    """Return the pipeline that the query string of a request names, or None."""
    return _named(request.parameter("pipeline"))


def warn_of_pipeline(pipeline: str | None, setting: str, where: str) -> None:
    """Log that documents pass a pipeline of the servers, if they do.

    setting: that names it.
    where: the index or request with this setting.
    """
    if pipeline not in (None, "", NO_PIPELINE):
        # The setting is part of the template, because few lines of one template are written.
        log.warning(
            f"%s: documents pass the ingest pipeline %r ({setting}), which may change, rename or"
            " drop texts after their tokens were computed. If it does, use a new index with"
            " `server`",
            where,
            pipeline,
        )


class Pipelines:
    """Finds the pipelines of documents, and warns once of each."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def changes(self, source: SentSource, pipeline: str | None) -> bool:
        """Return whether a document passes a pipeline that its request names.

        pipeline: that of the whole request. An action may name another.
        """
        if source.pipeline is not None:
            pipeline = _named(source.pipeline)
        if pipeline is None or (source.update and not _may_write_whole(source.body)):
            return False
        if pipeline not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(pipeline)
            warn_of_pipeline(pipeline, "the parameter pipeline", f"index {source.index_name!r}")
        return True


def _named(pipeline: str | None) -> str | None:
    return None if pipeline in ("", NO_PIPELINE) else pipeline


def _may_write_whole(update: bytes) -> bool:
    """Return whether an update writes a document that does not exist yet: it passes pipelines."""
    text = update.removeprefix(BOM_UTF8).decode("utf-8", "surrogatepass")
    members = value_of(text)[0]
    return "upsert" in members or members.get("doc_as_upsert") not in (None, False)
