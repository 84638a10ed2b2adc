"""Looks up the schemes of indices in the upstream's mappings, with the clients' own credentials."""

import asyncio
import functools
import json
import logging
import re
import time
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Answer, Failed, Headers
from esdedup.proxy.pipelines import warn_of_pipeline
from esdedup.proxy.upstream import Upstream
from esdedup.stores.mapping import IndexMeta, meta_of

_SECONDS = 10.0
"""For which the mapping of several indices is kept, unless their uuids change."""
_ENTRIES = 1_000
_LOOK_UP_SECONDS = 60.0
"""Long bodies wait for each other's look-ups."""
_NO_IDENTITY = re.compile(
    rb"accept.*|content-.*|cache-control|connection|date|expect|host|if-.*|keep-alive|origin|pragma"
    rb"|priority|range|referer|te|trailer|transfer-encoding|upgrade|user-agent|via"
    rb"|baggage|b3|traceparent|tracestate|x-amzn-trace-id|x-b3-.*|x-correlation-id"
    rb"|x-elastic-client-meta|x-opaque-id|x-request-id"
)
"""Headers that do not identify the user. Any other one may."""
# The uuid is requested because an index without the other fields would be missing in the answer.
_ASKED = (
    b"?filter_path=*.mappings._meta." + FIELD.encode() + b",*.aliases.*.is_write_index"
    b",*.settings.index.uuid,*.settings.index.default_pipeline,*.settings.index.final_pipeline"
)
_UUIDS = b"/_settings/index.uuid?filter_path=*.settings.index.uuid"
_TEMPLATE = b"/_index_template/_simulate_index/"
_EXISTS = b"conflicts with index"
"""OpenSearch's error where a template is simulated for a data stream that has just been created."""
_GENERATION = re.compile(r"\.ds-.*-(\d{6,})$")
"""The end of the name of a data stream's index. A lifecycle puts more before it."""

log = logging.getLogger(__name__)

Uuids = dict[str, str]


class Found(NamedTuple):
    """The meta of an index, and why there is none.

    no_index: the index does not exist, and no template has its mapping.
    """

    meta: IndexMeta | None
    reason: Literal["", "no_scheme", "no_right", "no_index", "failed"] = ""


class Schemes:
    """Looks up the metas of indices for each request, with the credentials of its client.

    What a mapping of many indices says, as that of a data stream, is kept for some seconds, for
    each user apart, as long as the name stands for the same indices.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._kept: dict[Any, tuple[Found, Uuids, float]] = {}

    async def find(self, index: str | None, headers: Headers) -> Found:
        """Return the meta of an index, alias or data stream, or of one that a template will make.

        headers: of the client, whose privileges count. Raises Failed if the upstream rejects the
        credentials, does not answer, or asks to try again later.
        """
        # Only one index to write to, not several, nor a path of the API.
        if not index or index[0] in "_-" or set(index) & set("*,") or not index.strip("."):
            return Found(None, "no_scheme")
        identity = [pair for pair in headers if not _NO_IDENTITY.fullmatch(pair[0])]
        path = b"/" + quote(index, safe="").encode()
        key = (index, *sorted(identity))
        found, uuids, until = self._kept.get(key, (Found(None), {}, 0.0))
        if until > time.monotonic():
            answer = await self._ask("GET", path + _UUIDS, identity)
            if answer.status == 200 and _uuids(_read(answer)) == uuids:
                return found
        for _ in range(2):
            answer = await self._ask("GET", path + _ASKED, identity)
            if answer.status != 404:
                break
            if (made := await self._made_by_template(index, path, identity)) is not None:
                return made
        if answer.status == 403:
            log.warning("no right to read the mapping of %r: its documents have no tokens", index)
            return Found(None, "no_right")
        if answer.status != 200:
            return Found(None, "no_scheme")
        found, uuids = _parsed(index, answer.body)
        if len(uuids) > 1:
            self._kept[key] = found, uuids, time.monotonic() + _SECONDS
            while len(self._kept) > _ENTRIES:
                del self._kept[next(iter(self._kept))]
        return found

    def forget(self) -> None:
        """Clear what is kept, because a mapping may have changed."""
        self._kept.clear()

    async def _made_by_template(self, index: str, path: bytes, identity: Headers) -> Found | None:
        """Return the meta of an index that the first document creates, None if it exists by now."""
        template = None
        # OpenSearch looks for a template of the expression, not of the date.
        if not index.startswith("<"):
            answer = await self._ask("POST", _TEMPLATE + path[1:], identity)
            if answer.status == 500:
                return None
            template = _read(answer).get("template") if answer.status == 200 else None
            if answer.status == 403:
                log.warning(
                    "no right to simulate the template of %r: the documents that create it pass"
                    " without tokens (run esdedup backfill)",
                    index,
                )
        if not isinstance(template, dict):
            # Forbidden, or no template of this kind; one of the older kind may apply.
            return Found(None, "no_index")
        try:
            meta = meta_of(template.get("mappings") or {})
        except (UsageError, AttributeError) as error:
            log.warning("the template of %r can't be read: %s", index, error)
            return Found(None, "failed")
        return Found(meta, "" if meta else "no_scheme")

    async def _ask(self, method: str, target: bytes, identity: Headers) -> Answer:
        try:
            async with asyncio.timeout(_LOOK_UP_SECONDS):
                answer = await self._upstream.ask(method, target, identity)
        except TimeoutError:
            reason = f"no answer about an index in {_LOOK_UP_SECONDS:g} s: nothing was written"
            raise Failed.error(504, "gateway_timeout", reason, retry=1) from None
        # To try bad credentials again with the documents could lock the user out.
        exists = answer.status == 500 and _EXISTS in answer.body
        if answer.status in (401, 429) or (answer.status >= 500 and not exists):
            raise Failed(f"status {answer.status}", answer)
        return answer


@functools.lru_cache(64)
def _parsed(index: str, body: bytes) -> tuple[Found, Uuids]:
    """Return the meta of the index that takes the documents. body: the answer to `_ASKED`."""
    try:
        known = json.loads(body)
        written = _write_index(index, known)
        meta = None if written is None else meta_of(known[written].get("mappings", {}))
        if meta is not None and not all(part.scheme.by_server for part in meta.sketched):
            settings = known[written].get("settings", {}).get("index", {})
            for name in ("default_pipeline", "final_pipeline"):
                warn_of_pipeline(settings.get(name), f"index.{name}", f"index {index!r}")
        return Found(meta, "" if meta else "no_scheme"), _uuids(known)
    except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("the mapping of %r can't be read, its documents pass: %s", index, error)
        return Found(None, "failed"), {}


def _read(answer: Answer) -> dict[str, Any]:
    """Return the object of an answer, empty if it is none."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _uuids(answer: dict[str, Any]) -> Uuids:
    """Return the uuids of the indices behind a name."""
    return {
        name: str(found.get("settings", {}).get("index", {}).get("uuid"))
        for name, found in answer.items()
        if isinstance(found, dict)
    }


def _write_index(name: str, answer: dict[str, Any]) -> str | None:
    """Return the index that takes the documents of a name. answer: to a request of `_ASKED`."""
    if len(answer) <= 1:
        return next(iter(answer), None)
    numbers = {index: int(found[1]) for index in answer if (found := _GENERATION.search(index))}
    if len(numbers) == len(answer):
        # A data stream writes to its last index.
        return max(numbers, key=numbers.__getitem__)
    chosen = [
        index
        for index, found in answer.items()
        if str(found.get("aliases", {}).get(name, {}).get("is_write_index", "")).lower() == "true"
    ]
    return chosen[0] if len(chosen) == 1 else None
