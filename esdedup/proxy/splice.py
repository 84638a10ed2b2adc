"""Puts tokens into the JSON of documents, and changes nothing else.

Numbers keep their digits and keys their order, because nothing is serialised again: the token field
is inserted before the last brace of the document's own text.
"""

import json
import logging
import re
import threading
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import JSONDecoder
from typing import Literal, NamedTuple

from esdedup.exceptions import EsdedupError, RecordError, json_fault
from esdedup.ingest.enrich import text_change, warn_of_parts
from esdedup.models import FIELD
from esdedup.proxy.clearing import DOCUMENTS, LongSource
from esdedup.records.documents import merged_fields
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch, token_json
from esdedup.stores.json_text import SHAPES, VALUES, JsonMember, members, value_of
from esdedup.stores.mapping import IndexMeta, SketchedFields, holds_vectors

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
    "refused",
    "not_json",
    "failed",
]
"""added: it has tokens. pipeline: it has tokens, and the request names an ingest pipeline, which
can change its text afterwards. removed: it has no text any more. no_scheme: its index has no
tokens. no_right: the client may not see the mapping. no_index: its request creates the index, and
no template has its mapping. no_text: it has no text. part: an update of some of the text fields.
too_long: its text is longer than 1/256 of the memory, or to parse it takes too much. refused: it is
not strict JSON, and replaced by what the servers reject. not_json: a request whose documents the
proxy can't read, and passes by `pass_unread`. failed: see the log."""


class SentSource(NamedTuple):
    """The JSON of a document, or of the body of an update.

    body: its bytes.
    index_name: of its index.
    update: whether it is the body of an update.
    line: the bytes before it in a body, such as an action; they stay as they are.
    has_more: it is a piece of one that is too long to be parsed, and not the last one.
    is_continuation: it is a piece of such a one, and not the first one.
    pipeline: the ingest pipeline that its action names, if any.
    """

    body: bytes
    index_name: str | None = None
    update: bool = False
    line: bytes = b""
    has_more: bool = False
    is_continuation: bool = False
    pipeline: str | None = None

    @property
    def is_piece(self) -> bool:
        """Whether it is a piece of a source that is too long to be parsed."""
        return self.has_more or self.is_continuation


class _Edit(NamedTuple):
    """What replaces characters of a source.

    start, end: the characters are those of [start, end).
    glue: the text before the value.
    value: JSON.
    """

    start: int
    end: int
    glue: str
    value: str = "null"


class _Spot(NamedTuple):
    """A place for the tokens of a text in a source.

    row: of the source.
    start, end, glue: as of an `_Edit`.
    text: whose tokens they are.
    partial: whether the source is a part of a document, as of an update.
    scheme: of the tokens.
    """

    row: int
    start: int
    end: int
    glue: str
    text: str
    partial: bool
    scheme: Scheme

    def cleared(self) -> list[_Edit]:
        """Return how the field is cleared without tokens; of a document, only if it is there."""
        needed = self.partial or not self.glue
        return [_Edit(self.start, self.end, self.glue)] if needed else []


class _Places(NamedTuple):
    """The places for values of ours in a source.

    spots: for tokens.
    edits: of fields that get none.
    outcome: if there are no tokens.
    """

    spots: list[_Spot]
    edits: list[_Edit]
    outcome: Outcome


class Ours(NamedTuple):
    """The fields of ours in an index.

    written: those whose tokens are in documents.
    fields: the names of all, those with marks included.
    marks: the name of that with marks.
    decoder: parses what the sketches read of a document.
    """

    written: Sequence[SketchedFields]
    fields: frozenset[str]
    marks: str
    decoder: JSONDecoder = SHAPES

    @staticmethod
    def of(meta: IndexMeta) -> "Ours":
        """Return the fields of an index, while it changes its scheme those of both."""
        sketched = meta.sketched_with_next
        names = frozenset({meta.marks_field, *(part.field for part in sketched)})
        # Fractions take longer to parse, and only vectors have any that is used.
        decoder = VALUES if holds_vectors(sketched) else SHAPES
        written = [part for part in sketched if part.in_documents]
        return Ours(written, names, meta.marks_field, decoder)

    def has(self, key: str) -> bool:
        """Return whether a key names a field of ours, or with dots one below it."""
        return key.partition(".")[0] in self.fields


class LongSources:
    """The long source of a request that is read piece by piece, if any."""

    def __init__(self) -> None:
        self._source = LongSource((), False)

    def cleared(self, source: SentSource, ours: Ours) -> bytes:
        """Return a piece of a source without the values of our fields.

        Raises RecordError if it is not JSON.
        """
        if not source.is_continuation:
            self._source = LongSource(ours.fields, source.update)
        cleared = self._source.cleared(source.body)
        if not source.has_more:
            self._source.end()
        return cleared


class Splicer:
    """Adds tokens to sources.

    longest: bytes of a text that gets tokens.

    Threads may share it. They take turns at sources that need much memory.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._large_source = threading.Lock()

    def with_tokens(
        self,
        sources: Sequence[SentSource],
        metas: Mapping[str | None, IndexMeta | None],
        long_sources: LongSources | None = None,
    ) -> tuple[list[bytes], list[Outcome | None]]:
        """Return the sources with their tokens, and the outcome of each that has a scheme.

        metas: of the indices, by name.
        long_sources: of the request, if sources come in pieces.

        Sources have no other values in our fields: where they get no tokens, the fields are null.
        Raises RecordError if a source in pieces is not JSON.
        """
        ours_by_index = {name: Ours.of(meta) for name, meta in metas.items() if meta is not None}
        outcomes: list[Outcome | None] = [None] * len(sources)
        bodies = [source.body for source in sources]
        small_rows: list[int] = []
        for row, source in enumerate(sources):
            body = source.body
            if source.index_name not in ours_by_index or not (body or source.is_continuation):
                continue
            if body.startswith(BOM_UTF8) and not source.is_continuation:
                # The servers return it within their JSON, which clients can't parse then.
                bodies[row] = body = body.removeprefix(BOM_UTF8)
            memory = _memory_to_parse(body)
            if memory <= _SMALL and not source.is_piece:
                small_rows.append(row)
            elif memory <= WORK * self._longest and not source.is_piece:
                with self._large_source:
                    self._splice(sources, [row], ours_by_index, bodies, outcomes)
            else:
                outcomes[row] = None if source.is_continuation else "too_long"
                ours = ours_by_index[source.index_name]
                try:
                    bodies[row] = (long_sources or LongSources()).cleared(
                        source._replace(body=body), ours
                    )
                except RecordError as error:
                    if source.is_piece:
                        raise
                    bodies[row], outcomes[row] = _rejected(source, ours, error), "refused"
        self._splice(sources, small_rows, ours_by_index, bodies, outcomes)
        self._warn(outcomes)
        return bodies, outcomes

    def _warn(self, outcomes: Sequence[Outcome | None]) -> None:
        """Log how many documents pass without tokens, and why."""
        warn_of_parts(outcomes.count("part"))
        if count := outcomes.count("too_long"):
            log.warning(
                "%d documents are too long, and pass without tokens: the limit is %d bytes of text,"
                " and %d of memory to read them (`max_memory`)",
                count,
                self._longest,
                WORK * self._longest,
            )
        if count := outcomes.count("refused"):
            log.warning("%d documents are not strict JSON: the cluster rejects them", count)

    def _splice(
        self,
        sources: Sequence[SentSource],
        rows: Iterable[int],
        ours_by_index: Mapping[str | None, Ours],
        bodies: list[bytes],
        outcomes: list[Outcome | None],
    ) -> None:
        """Replace the rows that change, and set their outcomes."""
        decoded: dict[int, str] = {}
        spots_by_scheme: dict[str, list[_Spot]] = {}
        edits: dict[int, list[_Edit]] = {}
        for row in rows:
            source = sources[row]
            ours = ours_by_index[source.index_name]
            outcomes[row] = "no_text"
            try:
                # Half a surrogate pair in three bytes is none of UTF-8, but the servers accept it.
                text = bodies[row].decode("utf-8", "surrogatepass")
                places = _places(row, text, ours, source.update)
            except (ValueError, RecursionError) as error:
                bodies[row], outcomes[row] = _rejected(source, ours, error), "refused"
                continue
            except Exception as error:
                log.warning("a document passes without tokens: %s: %s", type(error).__name__, error)
                body = LongSources().cleared(source._replace(body=bodies[row]), ours)
                bodies[row], outcomes[row] = body, "failed"
                continue
            decoded[row], outcomes[row] = text, places.outcome
            if places.edits:
                edits[row] = places.edits
            for spot in places.spots:
                if len(spot.text.encode("utf-8", "surrogatepass")) > self._longest:
                    edits.setdefault(row, []).extend(spot.cleared())
                    outcomes[row] = "too_long"
                else:
                    spots_by_scheme.setdefault(spot.scheme.id, []).append(spot)
        for spots in spots_by_scheme.values():
            for spot, tokens in _sketched(spots, spots[0].scheme):
                outcomes[spot.row] = "failed" if tokens is None else "added"
                changes = edits.setdefault(spot.row, [])
                if tokens is None:
                    changes += spot.cleared()
                else:
                    changes.append(_Edit(spot.start, spot.end, spot.glue, tokens))
        for row, changes in edits.items():
            bodies[row] = _edited(decoded[row], changes).encode("utf-8", "surrogatepass")


def _memory_to_parse(body: bytes) -> int:
    """Return about the bytes of memory that it takes to parse a source."""
    most = 67 * len(body)
    if most <= _SMALL:
        return most
    # Values take much more memory than characters, and each follows one of these.
    return 3 * len(body) + 64 * sum(map(body.count, (b",", b"[", b"{")))


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    """Return a text with the replaced characters of edits, which do not overlap."""
    pieces, unchanged_from = list[str](), 0
    for edit in sorted(edits):
        pieces += [text[unchanged_from : edit.start], edit.glue, edit.value]
        unchanged_from = edit.end
    pieces.append(text[unchanged_from:])
    return "".join(pieces)


def _rejected(source: SentSource, ours: Ours, error: Exception) -> bytes:
    """Return what the servers reject in place of a source, by a reason that names the error.

    What is not strict JSON, such as JSON with a comment or in UTF-16, may be accepted by them, with
    any values in our fields.
    """
    words = re.findall(r"[A-Za-z0-9]+", json_fault(error))
    reason = f"rejected_by_esdedup_proxy_{'_'.join(words)[:80]}"
    rejected = f'{{"{FIELD}":{reason}}}'
    if source.update and source.line:
        # Of a `_bulk` with an update that is not JSON, the servers reject all actions. The mapping
        # has a string here.
        rejected = f'{{"doc":{{"{ours.marks}":{{"group":{{"{reason}":0}}}}}}}}'
    end = b"\n" if source.body.endswith(b"\n") else b""
    return rejected.encode("ascii") + end


def _places(row: int, text: str, ours: Ours, update: bool) -> _Places:
    """Return the places for values of ours in a source. Raises ValueError if it is not JSON."""
    spots, edits = list[_Spot](), list[_Edit]()
    outcome: Outcome = "no_text"
    for document in _documents_in(text, update, ours.decoder):
        fields = document.value
        if not isinstance(fields, dict):
            continue
        partial = document.key == "doc"
        present: dict[str, _Edit] = {}
        # Nearly no document brings a field of ours.
        if FIELD in "\n".join(fields) and any(map(ours.has, fields)):
            present = {
                member.key: _Edit(member.start, member.end, "")
                for member in members(text, document.start)
                if ours.has(member.key)
            }
        last_brace = document.end - 1
        for meta in ours.written:
            change, value = text_change(fields, meta, partial)
            if change == "part":
                outcome = "part"
            elif change in ("new", "gone"):
                edit = _Edit(last_brace, last_brace, f',"{meta.field}":')
                edit = present.pop(meta.field, edit)
                if value is not None:
                    spot = _Spot(row, edit.start, edit.end, edit.glue, value, partial, meta.scheme)
                    spots.append(spot)
                    continue
                edits.append(edit)
                outcome = "removed" if outcome == "no_text" else outcome
        for key, edit in present.items():
            # An empty object changes nothing in an update. Dotted names are further values.
            merged = partial and key in ours.fields
            edits.append(edit._replace(value="{}" if merged else "null"))
    return _Places(spots, edits, outcome)


def _documents_in(text: str, update: bool, decoder: JSONDecoder) -> list[JsonMember]:
    """Return the documents of a source: itself, without a key, or those of an update."""
    source, start, end = value_of(text, decoder)
    if not (update and isinstance(source, dict)):
        return [JsonMember("", start, start, end, source)]
    # A script or a flag needs no second reading.
    if source.keys().isdisjoint(DOCUMENTS):
        return []
    return [member for member in members(text, start, decoder) if member.key in DOCUMENTS]


def _sketched(spots: list[_Spot], scheme: Scheme) -> Iterator[tuple[_Spot, str | None]]:
    """Yield each spot with its tokens as JSON, or None if that fails, which is logged."""
    try:
        tokens = token_json(sketch([spot.text for spot in spots], scheme), scheme)
        for row, spot in enumerate(spots):
            if spot.partial:
                merged = merged_fields(json.loads(tokens[row]), scheme)
                tokens[row] = json.dumps(merged, separators=(",", ":"))
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
        yield from zip(spots, tokens, strict=True)
