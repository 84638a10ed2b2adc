"""Looks up the schemes of indices in the upstream's mappings, with the clients' own credentials."""

import asyncio
import functools
import json
import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Failed, Header, Headers, ProxyAnswer
from esdedup.proxy.pipelines import warn_of_pipeline
from esdedup.proxy.upstream import Upstream
from esdedup.stores.mapping import IndexMeta, meta_of

_SECONDS = 10.0
"""For which the mapping of several indices is kept, unless their uuids change."""
_ENTRIES = 1_000
LOOK_UP_SECONDS = 60.0
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
    b",*.data_stream"
)
_STREAM = b"/_data_stream/"
_WRITE_STREAM = b"?filter_path=*.aliases.*.is_write_index"
_UUIDS = b"/_settings/index.uuid?filter_path=*.settings.index.uuid"
_TEMPLATE = b"/_index_template/_simulate_index/"
_EXISTS = b"conflicts with index"
"""OpenSearch's error where a template is simulated for a data stream that has just been created."""
_GENERATION = re.compile(r"\.ds-.*-(\d{6,})$")
"""The end of the name of a data stream's index. A lifecycle puts more before it."""

log = logging.getLogger(__name__)

Uuids = dict[str, str]
"""The uuids of indices, by name."""
Body = Mapping[str, Any]
"""The JSON of an answer of the servers."""
_Key = tuple[str | Header, ...]
"""The name of an index, and the headers that identify a user."""


class LookUp(NamedTuple):
    """What a look-up of an index found.

    meta: describes its tokens; None if there are none.
    reason: why there are none. no_index: the index does not exist, and no template has its mapping.
    """

    meta: IndexMeta | None
    reason: Literal["", "no_scheme", "no_right", "no_index", "failed"] = ""


class _SeveralIndices(NamedTuple):
    """What is remembered of a name of several indices, such as a data stream.

    look_up: its result.
    uuids: of the indices; if they change, the name stands for other ones.
    until: when it is forgotten, by the monotonic clock.
    """

    look_up: LookUp
    uuids: Uuids
    until: float


class Schemes:
    """Looks up the metas of indices for each request, with the credentials of its client.

    The mapping of many indices, as of a data stream, is large: what it says is remembered for some
    seconds, for each user apart, as long as the name stands for the same indices.
    """

    def __init__(self, upstream: Upstream, seconds: float = LOOK_UP_SECONDS) -> None:
        """Begin without any. seconds: after which a look-up without an answer fails."""
        self._upstream = upstream
        self._seconds = seconds
        self._remembered: dict[_Key, _SeveralIndices] = {}

    async def find(self, index: str | None, headers: Headers) -> LookUp:
        """Return the meta of an index, alias or data stream, or of one that a template will make.

        headers: of the client, whose privileges count. Raises Failed if the upstream rejects the
        credentials, does not answer, or asks to try again later.
        """
        # Only one index to write to, not several, nor a path of the API.
        if not index or index[0] in "_-" or set(index) & set("*,") or not index.strip("."):
            return LookUp(None, "no_scheme")
        identity = [header for header in headers if not _NO_IDENTITY.fullmatch(header[0])]
        path = b"/" + quote(index, safe="").encode()
        key: _Key = (index, *sorted(identity))
        remembered = self._remembered.get(key)
        if remembered is not None and remembered.until > time.monotonic():
            answer = await self._ask("GET", path + _UUIDS, identity)
            if answer.status == 200 and _uuids(_read(answer)) == remembered.uuids:
                return remembered.look_up
        # The second time, if another client creates the index meanwhile.
        for _ in range(2):
            answer = await self._ask("GET", path + _ASKED, identity)
            if answer.status != 404:
                break
            by_template = await self._made_by_template(index, path, identity)
            if by_template is not None:
                return by_template
        if answer.status == 403:
            log.warning("no right to read the mapping of %r: its documents have no tokens", index)
            return LookUp(None, "no_right")
        if answer.status != 200:
            return LookUp(None, "no_scheme")
        write_stream = await self._write_stream(index, answer.body, identity)
        last_index = None
        if write_stream is not None:
            last_index = await self._last_index(write_stream, answer.body, identity)
            if isinstance(last_index, LookUp):
                return last_index
        look_up, uuids = _parsed(index, answer.body, last_index)
        if len(uuids) > 1:
            until = time.monotonic() + _SECONDS
            self._remembered[key] = _SeveralIndices(look_up, uuids, until)
            while len(self._remembered) > _ENTRIES:
                del self._remembered[next(iter(self._remembered))]
        return look_up

    def forget(self) -> None:
        """Forget what is remembered, because a mapping may have changed."""
        self._remembered.clear()

    async def _write_stream(self, index: str, body: bytes, identity: Headers) -> str | None:
        """Return the data stream that takes the documents of a name; None if none does.

        body: the answer to `_ASKED`, which names the write index of an alias only among indices.
        """
        streams = _streams(body)
        if len(streams) <= 1:
            return next(iter(streams), None)
        name = quote(index, safe="").encode()
        # `/NAME/_alias/NAME` would list indices only.
        answer = await self._ask("GET", b"/_alias/" + name + _WRITE_STREAM, identity)
        if answer.status != 200:
            return None
        write_streams = streams.intersection(_marked_to_write(index, _read(answer)))
        return next(iter(write_streams), None)

    async def _last_index(self, stream: str, body: bytes, identity: Headers) -> str | LookUp:
        """Return the index that a data stream writes to, or what is found without it.

        body: the answer to `_ASKED`, whose indices are in no order.
        """
        last_index = _last_by_name(stream, body)
        if last_index is not None:
            return last_index
        answer = await self._ask("GET", _STREAM + quote(stream, safe="").encode(), identity)
        if answer.status == 200:
            with suppress(LookupError, TypeError):
                return str(_read(answer)["data_streams"][0]["indices"][-1]["index_name"])
        log.warning(
            "the answer %d does not say which index of the data stream %r is written to: its"
            " documents have no tokens",
            answer.status,
            stream,
        )
        return LookUp(None, "no_right" if answer.status == 403 else "failed")

    async def _made_by_template(self, index: str, path: bytes, identity: Headers) -> LookUp | None:
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
                    " without tokens (run `esdedup backfill -i %s`)",
                    index,
                    index,
                )
        if not isinstance(template, dict):
            # Forbidden, or no template of this kind; one of the older kind may apply.
            return LookUp(None, "no_index")
        try:
            meta = meta_of(template.get("mappings") or {})
        except (UsageError, AttributeError) as error:
            log.warning("the template of %r can't be read: %s", index, error)
            return LookUp(None, "failed")
        return LookUp(meta, "" if meta else "no_scheme")

    async def _ask(self, method: str, target: bytes, identity: Headers) -> ProxyAnswer:
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._upstream.ask(method, target, identity)
        except TimeoutError:
            reason = f"no answer about an index in {self._seconds:g} s: nothing was written"
            raise Failed.error(504, "gateway_timeout", reason, retry=1) from None
        # To try bad credentials again with the documents could lock the user out.
        was_created = answer.status == 500 and _EXISTS in answer.body
        if answer.status in (401, 429) or (answer.status >= 500 and not was_created):
            raise Failed(f"status {answer.status}", answer)
        return answer


@functools.lru_cache(64)
def _streams(body: bytes) -> frozenset[str]:
    """Return the data streams that indices belong to. body: the answer to `_ASKED`."""
    try:
        described = json.loads(body).values()
        return frozenset(str(index["data_stream"]) for index in described if "data_stream" in index)
    except (ValueError, TypeError, AttributeError):
        return frozenset()


@functools.lru_cache(64)
def _last_by_name(stream: str, body: bytes) -> str | None:
    """Return the index of a data stream that it writes to; None if the names do not show it.

    body: the answer to `_ASKED`.
    """
    indices = {
        index: described
        for index, described in json.loads(body).items()
        if described.get("data_stream") == stream
    }
    if len(indices) == 1 or not any(described.get("mappings") for described in indices.values()):
        return next(iter(indices), None)  # If none has our fields, the last one has none either.
    generations = {index: _GENERATION.search(index) for index in indices}
    numbers = {index: int(match[1]) for index, match in generations.items() if match is not None}
    # One that was indexed again, or given to the stream, has any name.
    return max(numbers, key=numbers.__getitem__) if len(numbers) == len(indices) else None


@functools.lru_cache(64)
def _parsed(index: str, body: bytes, last_index: str | None) -> tuple[LookUp, Uuids]:
    """Return the meta of the index that takes the documents.

    body: the answer to `_ASKED`. last_index: that of the data stream that takes them, if one does.
    """
    try:
        indices = json.loads(body)
        write_index = last_index or _write_index(index, indices)
        meta = None if write_index is None else meta_of(indices[write_index].get("mappings", {}))
        if meta is not None and not all(sketched.scheme.by_server for sketched in meta.sketched):
            settings = indices[write_index].get("settings", {}).get("index", {})
            for name in ("default_pipeline", "final_pipeline"):
                warn_of_pipeline(settings.get(name), f"index.{name}", f"index {index!r}")
        return LookUp(meta, "" if meta else "no_scheme"), _uuids(indices)
    except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("the mapping of %r can't be read, its documents pass: %s", index, error)
        return LookUp(None, "failed"), {}


def _read(answer: ProxyAnswer) -> Body:
    """Return the object of an answer, empty if it is none."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _uuids(indices: Body) -> Uuids:
    """Return the uuids of the indices behind a name."""
    return {
        name: str(described.get("settings", {}).get("index", {}).get("uuid"))
        for name, described in indices.items()
        if isinstance(described, dict)
    }


def _write_index(name: str, indices: Body) -> str | None:
    """Return the index that takes the documents of a name.

    indices: behind the name, as the answer to a request of `_ASKED` describes them.
    """
    if len(indices) <= 1:
        return next(iter(indices), None)
    write_indices = _marked_to_write(name, indices)
    return write_indices[0] if len(write_indices) == 1 else None


def _marked_to_write(name: str, described: Body) -> list[str]:
    """Return the indices or data streams that the servers name as those an alias writes to."""
    return [
        target
        for target, description in described.items()
        if isinstance(description, dict) and _is_written_by(description, name)
    ]


def _is_written_by(description: Body, alias: str) -> bool:
    """Return whether an index or data stream is the one that an alias writes to."""
    settings = description.get("aliases", {}).get(alias, {})
    return str(settings.get("is_write_index", "")).lower() == "true"
