"""Rewrites the bodies of requests: the actions of a `_bulk` body, or one document, with tokens.

A body is stored until it has arrived as a whole, as nginx does, so slow clients and a slow cluster
hold files and no memory. A body with an action that can't be parsed is refused: after a line that
was misunderstood, actions would be taken for documents.
"""

import asyncio
import functools
import gzip
import io
import itertools
import json
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from esdedup.exceptions import RecordError, UsageError, json_fault
from esdedup.proxy.http import Failed, Refused, Request
from esdedup.proxy.metadata import LookUp, Schemes
from esdedup.proxy.pipelines import Pipelines, pipeline_of
from esdedup.proxy.splice import WORK, LongSources, SentSource, Splicer
from esdedup.stores.json_text import value_of
from esdedup.text.characters import is_unicode

PLAIN = ("", "identity")
READABLE = (*PLAIN, "gzip", "x-gzip")
"""Content encodings of bodies that can be read."""
_OPERATIONS = ("create", "delete", "index", "update")
_BLANK = b" \t\r\n"
_LONGEST_ACTION = 1 << 16
"""Bytes of a line that names an operation, an index and an id."""
_LARGEST_BODY = 512 << 20
"""Bytes of a body as it came, and with tokens. The servers accept 100 MB unless configured."""
_IN_MEMORY = 1 << 12
"""Bytes of a body up to which no file is needed. A thousand clients may send one each."""
_PIECE = 1 << 18
_PROCESS = 88 << 20
"""Bytes of a process that serves clients and holds no body."""


@dataclass(frozen=True)
class Batches:
    """How bodies are rewritten: in batches, so that a long one delays no other for long.

    bytes: maximum of a batch.
    actions: maximum of a batch.
    threads: maximum number of batches that are rewritten at the same time.
    small_body: bytes of a body that is rewritten without waiting for a thread.
    """

    bytes: int = 1 << 19
    actions: int = 1_000
    threads: int = 3
    small_body: int = 1 << 14


class _Target(NamedTuple):
    """Where an action writes a source to.

    index_name: of the index.
    update: whether the action is an update.
    pipeline: the ingest pipeline that the action names, if any.
    """

    index_name: str | None
    update: bool
    pipeline: str | None = None


def bulk(body: IO[bytes], index: str | None, longest: int) -> Iterator[SentSource]:
    """Yield the actions of a `_bulk` body.

    index: of actions that name none.
    longest: bytes of a source that can get tokens; of a longer one, the rest follows in pieces.

    Raises Failed for an action that must not be sent.
    """
    last_line, target = b"", None
    number = 0
    while line := body.readline(_LONGEST_ACTION):
        number += 1
        if _is_truncated(line, _LONGEST_ACTION):
            raise _too_long("an action line", _LONGEST_ACTION)
        if line == b"\n" == last_line:
            continue  # The servers skip empty lines. There may be millions, which pack well.
        # Many clients send the same line for each document.
        if line != last_line:
            last_line, target = line, _target(line, index, number)
        if target is None:
            yield SentSource(b"", line=line)
            continue
        number += 1
        piece = body.readline(longest)
        has_more = _is_truncated(piece, longest)
        yield SentSource(
            piece, target.index_name, target.update, line, has_more, pipeline=target.pipeline
        )
        while has_more:
            piece = body.readline(longest)
            has_more = _is_truncated(piece, longest)
            yield SentSource(
                piece, target.index_name, target.update, has_more=has_more, is_continuation=True
            )


def _is_truncated(line: bytes, longest: int) -> bool:
    """Return whether `readline` with a limit returned only a part of a line."""
    return len(line) == longest and not line.endswith(b"\n")


def document(
    body: IO[bytes], index: str | None, longest: int, update: bool
) -> Iterator[SentSource]:
    """Yield the document that is a whole body, as `bulk` does."""
    piece, is_continuation = body.read(longest), False
    while piece or not is_continuation:
        next_piece = body.read(_PIECE)
        has_more = bool(next_piece)
        yield SentSource(piece, index, update, has_more=has_more, is_continuation=is_continuation)
        piece, is_continuation = next_piece, True


async def _in_this_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do what `asyncio.to_thread` does in another thread."""
    return work(*arguments)


class Rewriter:
    """Rewrites bodies. Raises UsageError if the memory does not suffice for long texts."""

    def __init__(self, schemes: Schemes, memory: int, batches: Batches = Batches()) -> None:
        """Set the limits of texts. memory: bytes of the process."""
        self._schemes = schemes
        self._batches = batches
        self._pipelines = Pipelines()
        longest_text = memory >> 8
        self._splicer = Splicer(longest_text)
        # Three bytes of memory for each of a longer source are more than the splicer accepts.
        self._longest = WORK * longest_text // 3 + 1
        self._threads = asyncio.Semaphore(batches.threads)
        memory_for_bodies = WORK * longest_text + batches.threads * self._longest
        if memory < _PROCESS + memory_for_bodies:
            # Bodies need the same fraction of any memory, and the process must fit into the rest.
            least_memory = _PROCESS * memory // (memory - memory_for_bodies)
            least = 1 + (least_memory >> 20)
            raise UsageError(
                f"`max_memory` of {memory >> 20} MB for each process is too small: use {least} MB"
            )

    async def rewrite(
        self, request: Request, index: str | None, kind: str, files: ExitStack
    ) -> tuple[IO[bytes], Counter[str]]:
        """Return the unpacked body with tokens, in a file, and the number of each outcome.

        kind: "bulk", "document" or "update".
        files: closes the returned file.

        Raises Failed if the body or the mappings can't be read.
        """
        try:
            with ExitStack() as arrived:
                body: IO[bytes] = arrived.enter_context(SpooledTemporaryFile(_IN_MEMORY))
                async for chunk in request:
                    body.write(chunk)
                    if request.received > _LARGEST_BODY:
                        raise _too_long("a body", _LARGEST_BODY)
                body.seek(0)
                plain = request.encoding in PLAIN
                unpacked: Any = body if plain else gzip.GzipFile(fileobj=body, mode="rb")
                body = io.BufferedReader(unpacked)
                if kind == "bulk":
                    actions = bulk(body, index, self._longest)
                else:
                    actions = document(body, index, self._longest, kind == "update")
                output = files.enter_context(SpooledTemporaryFile(_IN_MEMORY))
                write_all = functools.partial(self._write_all, actions, output, request)
                if plain and request.received <= self._batches.small_body:
                    return output, await write_all(nullcontext(), _in_this_thread)
                return output, await write_all(self._threads, asyncio.to_thread)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = f"the compressed body can't be unpacked: {error}"
            raise Failed.error(400, "parse_exception", reason) from error
        except OSError as error:
            reason = f"no room to store a body in the folder for temporary files: {error.strerror}"
            raise Failed.error(503, "io_exception", reason, retry=1) from error

    async def _write_all(
        self,
        actions: Iterator[SentSource],
        output: IO[bytes],
        request: Request,
        turn: AbstractAsyncContextManager[None],
        call: Callable[..., Awaitable[Any]],
    ) -> Counter[str]:
        """Write the actions with tokens, a batch in each turn, and return their outcomes.

        turn: begins when a batch may be rewritten, and ends with it.
        call: runs the work between the look-ups, in this thread or in another one.
        """
        outcomes: Counter[str] = Counter()
        long_sources, pipeline = LongSources(), pipeline_of(request)
        look_ups: dict[str | None, LookUp] = {}
        while True:
            async with turn:
                if not (batch := await call(self._next_batch, actions)):
                    return outcomes
                for index in dict.fromkeys(source.index_name for source in batch if source.body):
                    if index not in look_ups:
                        look_ups[index] = await self._schemes.find(index, request.headers)
                outcomes += await call(self._write, batch, look_ups, output, pipeline, long_sources)

    def _next_batch(self, actions: Iterator[SentSource]) -> list[SentSource]:
        """Return the next actions, none at the end.

        None is read ahead, as it would be in memory while the body waits for its next turn.
        """
        batch: list[SentSource] = []
        size = 0
        for action in actions:
            batch.append(action)
            size += len(action.line) + len(action.body)
            if size >= self._batches.bytes or len(batch) == self._batches.actions:
                break
        return batch

    def _write(
        self,
        batch: list[SentSource],
        look_ups: Mapping[str | None, LookUp],
        output: IO[bytes],
        pipeline: str | None,
        long_sources: LongSources,
    ) -> Counter[str]:
        """Write a batch with tokens, and return its outcomes.

        pipeline: the ingest pipeline that the request names.
        """
        metas = {index: look_up.meta for index, look_up in look_ups.items()}
        try:
            bodies, outcomes = self._splicer.with_tokens(batch, metas, long_sources)
        except RecordError as error:
            reason = f"a document of more than {self._longest} bytes is not JSON: {error}"
            raise Refused.error(400, "parsing_exception", reason) from error
        lines = zip((source.line for source in batch), bodies, strict=True)
        output.write(b"".join(itertools.chain.from_iterable(lines)))
        if output.tell() > _LARGEST_BODY:
            raise _too_long("a body with tokens", _LARGEST_BODY)
        counts = Counter[str]()
        for source, outcome in zip(batch, outcomes, strict=True):
            # Actions without a source do not count, such as a deletion, and a long source once.
            if not source.body or source.is_continuation:
                continue
            if outcome == "added" and self._pipelines.changes(source, pipeline):
                counts["pipeline"] += 1
            else:
                counts[outcome or look_ups[source.index_name].reason] += 1
        return counts


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield what a file holds."""
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def _target(line: bytes, default: str | None, number: int) -> _Target | None:
    """Return the target of an action line; None if no source follows. number: of the line, from 1.

    Raises Refused unless the line is blank or one known action in strict JSON: the servers accept
    more than that, such as comments and UTF-16, and what they take for the action must be known.
    Elasticsearch 9.5 tries to make an index that is named by half a surrogate pair, fails to store
    it, and elects masters for a minute.
    """
    text = line.removeprefix(BOM_UTF8)
    if not text.strip(_BLANK):
        return None
    try:
        # In an id, the servers accept half of a surrogate pair.
        actions = value_of(text.decode("utf-8", "surrogatepass"), _ACTION)[0]
    except (ValueError, RecursionError) as error:
        raise _malformed(number, json_fault(error)) from error
    if not isinstance(actions, dict) or len(actions) != 1:
        raise _malformed(number, "use an object with a single action")
    ((operation, metadata),) = actions.items()
    if operation not in _OPERATIONS:
        raise _malformed(number, f"{operation!r:.40} is none of {', '.join(_OPERATIONS)}")
    if not isinstance(metadata, dict):
        raise _malformed(number, f"the value of {operation!r} is not an object")
    index = metadata.get("_index")
    if not isinstance(index, str | None):
        raise _malformed(number, "the value of '_index' is not a string")
    if index is not None and not is_unicode(index):
        reason = f"the index name {index!r} is not Unicode"
        raise Refused.error(400, "invalid_index_name_exception", reason)
    if operation == "delete":
        return None
    pipeline = metadata.get("pipeline")
    pipeline_name = pipeline if isinstance(pipeline, str) else None
    return _Target(index or default, operation == "update", pipeline_name)


def _distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    """Return the members of an object. Raises ValueError for a repeated key.

    OpenSearch reads the first action of several, and Python the last one.
    """
    distinct = dict(members)
    if len(distinct) < len(members):
        raise ValueError("a key is repeated")
    return distinct


# The servers accept a number for a name, and read its digits.
_ACTION = json.JSONDecoder(object_pairs_hook=_distinct, parse_float=str, parse_int=str)


def _malformed(number: int, reason: str) -> Refused:
    reason = f"Malformed action/metadata line [{number}]: {reason}"
    return Refused.error(400, "illegal_argument_exception", reason)


def _too_long(name: str, limit: int) -> Failed:
    reason = f"{name} of more than {limit} bytes"
    return Failed.error(413, "content_too_long_exception", reason)
