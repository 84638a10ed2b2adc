"""Puts tokens into the JSON of documents, and changes nothing else.

Numbers keep their digits and keys their order, because nothing is serialised again: the token field
is inserted before the last brace of the document's own text.
"""

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from esdedup.exceptions import EsdedupError
from esdedup.ingest.enrich import text_change, warn_of_parts
from esdedup.records.documents import merged_fields
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch, token_json
from esdedup.stores.json_text import members, value_of
from esdedup.stores.mapping import IndexMeta

_SMALL = 2 << 20
"""Bytes to read a source, up to which threads need not take turns."""
WORK = 32
"""Bytes that tokens take while they are made, for each byte of a text: of Chinese 25."""

log = logging.getLogger(__name__)

Outcome = Literal[
    "added",
    "pipeline",
    "removed",
    "no_scheme",
    "no_right",
    "no_index",
    "no_text",
    "part",
    "too_long",
    "not_json",
    "failed",
]
"""added: it has tokens. pipeline: it has tokens, and the request names an ingest pipeline, which
can change its text afterwards. removed: it has no text any more. no_scheme: its index has no
tokens. no_right: the client may not see the mapping. no_index: its request creates the index, and
no template has its mapping. no_text: it has no text, or the servers reject it. part: an update of
some of the text fields. too_long: its text is longer than 1/256 of the memory, or to parse it takes
too much. not_json: a request whose documents the proxy can't read. failed: see the log."""


class Source(NamedTuple):
    """The JSON of a document, or of the body of an update. name: of its index.

    line: the bytes before it in a body, such as an action; they stay as they are.
    """

    body: bytes
    name: str | None = None
    update: bool = False
    line: bytes = b""


class _Spot(NamedTuple):
    """A place for a token field in a source: instead of [start, end), with `glue` before it.

    text: None if the field becomes null.
    """

    row: int
    start: int
    end: int
    glue: str
    text: str | None
    partial: bool
    scheme: Scheme


class Splicer:
    """Adds tokens to sources. longest: bytes of a text that gets tokens.

    Threads may share it. They take turns at sources that need much memory.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._large_ones = threading.Lock()

    def with_tokens(
        self, sources: Sequence[Source], metas: Mapping[str | None, IndexMeta | None]
    ) -> tuple[list[bytes], list[Outcome | None]]:
        """Return the sources with their tokens, and the outcome of each that has a scheme.

        metas: of the indices, by name. A source without a text, or not valid JSON, is unchanged.
        """
        # While an index changes its scheme, a document gets the tokens of both.
        wanted = {name: meta.written for name, meta in metas.items() if meta is not None}
        outcomes: list[Outcome | None] = [None] * len(sources)
        done = [source.body for source in sources]
        small: list[int] = []
        for row, (body, name, *_) in enumerate(sources):
            if not body or name not in wanted:
                continue
            # An estimate of the bytes that it takes to read the source, at first the most.
            needed = 67 * len(body)
            if needed > _SMALL:
                needed = 3 * len(body) + 64 * sum(map(body.count, (b",", b"[", b"{")))
            if needed <= _SMALL:
                small.append(row)
            elif needed <= WORK * self._longest:
                with self._large_ones:
                    self._splice(sources, [row], wanted, done, outcomes)
            else:
                outcomes[row] = "too_long"
        self._splice(sources, small, wanted, done, outcomes)
        warn_of_parts(outcomes.count("part"))
        if count := outcomes.count("too_long"):
            log.warning(
                "%d documents are too long, and pass without tokens: the limit is %d bytes of text,"
                " and %d of memory to read them (--max-memory)",
                count,
                self._longest,
                WORK * self._longest,
            )
        return done, outcomes

    def _splice(
        self,
        sources: Sequence[Source],
        rows: Iterable[int],
        wanted: Mapping[str | None, Sequence[IndexMeta]],
        done: list[bytes],
        outcomes: list[Outcome | None],
    ) -> None:
        """Replace the rows that get tokens, and set their outcomes."""
        decoded: dict[int, str] = {}
        spots: dict[str, list[_Spot]] = {}
        put: dict[int, list[tuple[int, int, str]]] = {}
        for row in rows:
            body, name, update, _ = sources[row]
            outcomes[row] = "no_text"
            try:
                decoded[row] = whole = body.decode()
                found, part = _spots(row, whole, wanted[name], update)
            except ValueError:
                continue  # Not valid JSON: the server reports it.
            except Exception as error:
                log.warning("a document passes without tokens: %s: %s", type(error).__name__, error)
                outcomes[row] = "failed"
                continue
            if part:
                outcomes[row] = "part"
            for spot in found:
                if spot.text is None:
                    put.setdefault(row, []).append((spot.start, spot.end, f"{spot.glue}null"))
                    outcomes[row] = "removed"
                elif len(spot.text.encode("utf-8", "surrogatepass")) > self._longest:
                    outcomes[row] = "too_long"
                else:
                    spots.setdefault(spot.scheme.id, []).append(spot)
        for group in spots.values():
            for spot, tokens in _sketched(group, group[0].scheme):
                outcomes[spot.row] = "failed" if tokens is None else "added"
                if tokens is not None:
                    place = spot.start, spot.end, f"{spot.glue}{tokens}"
                    put.setdefault(spot.row, []).append(place)
        for row, places in put.items():
            whole, parts, at = decoded[row], [], 0
            for start, end, value in sorted(places):
                parts += [whole[at:start], value]
                at = end
            done[row] = "".join([*parts, whole[at:]]).encode()


def _spots(
    row: int, whole: str, wanted: Sequence[IndexMeta], update: bool
) -> tuple[list[_Spot], bool]:
    """Return the places for tokens, and True for an update of some text fields, which gets none."""
    document, first, last = value_of(whole)
    if not isinstance(document, dict):
        return [], False
    parts = [("", first, last, document)]
    if update:
        # A script or a flag needs no second reading.
        given = {"doc", "upsert"} & document.keys()
        parts = []
        if given:
            parts = [
                (key, a, b, value) for key, _, a, b, value in members(whole, first) if key in given
            ]
    found: list[_Spot] = []
    part = False
    for name, start, end, value in parts:
        if not isinstance(value, dict):
            continue
        partial = name == "doc"
        keys = "\n".join(value)
        for one in wanted:
            place = end - 1, end - 1, f',"{one.field}":'
            if one.field in keys:
                for key, _, a, b, _ in members(whole, start):
                    if key == one.field:
                        place = a, b, ""
                    elif key.startswith(f"{one.field}."):
                        # A server would index it as a value of ours.
                        found.append(_Spot(row, a, b, "", None, partial, one.scheme))
            change, text = text_change(value, one, partial)
            part = part or change == "part"
            if change in ("new", "gone"):
                found.append(_Spot(row, *place, text, partial, one.scheme))
    return found, part


def _sketched(spots: list[_Spot], scheme: Scheme) -> Iterator[tuple[_Spot, str | None]]:
    """Yield each spot with its tokens as JSON, or None if that fails, which is logged."""
    try:
        done = token_json(sketch([spot.text or "" for spot in spots], scheme), scheme)
        for row, spot in enumerate(spots):
            if spot.partial:
                merged = merged_fields(json.loads(done[row]), scheme)
                done[row] = json.dumps(merged, separators=(",", ":"))
    except Exception as error:
        if len(spots) > 1 and not isinstance(error, EsdedupError):
            for spot in spots:
                yield from _sketched([spot], scheme)
            return
        log.warning(
            "%d documents pass without tokens: %s: %s", len(spots), type(error).__name__, error
        )
        yield from ((spot, None) for spot in spots)
    else:
        yield from zip(spots, done, strict=True)
