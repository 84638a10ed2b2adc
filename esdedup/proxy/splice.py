"""Puts tokens into the JSON of documents, and changes nothing else.

Numbers keep their digits and keys their order, because nothing is serialised again: the token field
is inserted before the last brace of the document's own text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from esdedup.exceptions import EsdedupError
from esdedup.ingest.enrich import added_fields, holds_part, text_to_sketch, warn_of_parts
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta

# Integers are read as floats, because Python refuses integers of more than 4,300 digits. Their
# values are not used.
_JSON = json.JSONDecoder(parse_int=float)
_BLANK = " \t\n\r"

log = logging.getLogger(__name__)


class Source(NamedTuple):
    """The JSON of a document, or of the body of an update. meta: None if it gets no tokens."""

    body: bytes
    meta: IndexMeta | None
    update: bool = False


class _Spot(NamedTuple):
    """A place for a token field in a source: instead of [start, end), with `glue` before it."""

    row: int
    start: int
    end: int
    glue: str
    text: str
    partial: bool
    scheme: Scheme


def with_tokens(sources: Sequence[Source]) -> list[bytes]:
    """The sources with their tokens. One without a text, or not valid JSON, is unchanged."""
    decoded: dict[int, str] = {}
    spots: dict[str, list[_Spot]] = {}
    unfinished = 0
    for row, (body, meta, update) in enumerate(sources):
        if meta is None:
            continue
        try:
            decoded[row] = body.decode()
            found, part = _spots(row, decoded[row], meta, update)
            unfinished += part
        except ValueError:
            continue  # Not valid JSON: the server reports it.
        except Exception as error:
            log.warning("a document passes without tokens: %s: %s", type(error).__name__, error)
            continue
        for spot in found:
            spots.setdefault(spot.scheme.id, []).append(spot)
    warn_of_parts(unfinished)
    put: dict[int, list[tuple[_Spot, str]]] = {}
    for group in spots.values():
        for spot, tokens in _sketched(group, group[0].scheme):
            put.setdefault(spot.row, []).append((spot, tokens))
    done = [source.body for source in sources]
    for row, places in put.items():
        parts, at = [], 0
        for spot, tokens in sorted(places, key=lambda pair: pair[0].start):
            parts += [decoded[row][at : spot.start], spot.glue, tokens]
            at = spot.end
        done[row] = "".join([*parts, decoded[row][at:]]).encode()
    return done


def _spots(row: int, whole: str, meta: IndexMeta, update: bool) -> tuple[list[_Spot], bool]:
    """The places for tokens, and True for an update of a part of the text, which gets none."""
    document = _JSON.decode(whole)
    if not isinstance(document, dict):
        return [], False
    first, last = whole.index("{"), whole.rindex("}") + 1
    parts = [("", first, last, document)]
    if update:
        # A script or a flag needs no second reading.
        given = {"doc", "upsert"} & document.keys()
        parts = [part for part in _members(whole, first) if part[0] in given] if given else []
    found: list[_Spot] = []
    part = False
    for name, start, end, value in parts:
        if not isinstance(value, dict):
            continue
        partial = name == "doc"
        part = part or (partial and holds_part(value, meta))
        # While an index changes its scheme, a document gets the tokens of both.
        for one in meta.all:
            text = text_to_sketch(value, one, partial)
            if text is None:
                continue
            place = end - 1, end - 1, f',"{one.field}":'
            if one.field in value:
                places = [(a, b, "") for key, a, b, _ in _members(whole, start) if key == one.field]
                place = places[-1]
            found.append(_Spot(row, *place, text, partial, one.scheme))
    return found, part


def _members(whole: str, start: int) -> Iterator[tuple[str, int, int, Any]]:
    """Yields each key of the valid object at `start`, and its value's start, end and value."""
    at = _skip(whole, start + 1)
    while whole[at] != "}":
        key, at = _JSON.raw_decode(whole, at)
        value_start = _skip(whole, _skip(whole, at) + 1)  # After the colon.
        value, at = _JSON.raw_decode(whole, value_start)
        yield key, value_start, at, value
        at = _skip(whole, at)
        if whole[at] == ",":
            at = _skip(whole, at + 1)


def _skip(whole: str, at: int) -> int:
    while whole[at] in _BLANK:
        at += 1
    return at


def _sketched(spots: list[_Spot], scheme: Scheme) -> Iterator[tuple[_Spot, str]]:
    """Yields each spot with its tokens as JSON. A spot that fails is logged and left out."""
    try:
        fields = added_fields(
            [spot.text for spot in spots], [spot.partial for spot in spots], scheme
        )
        done = [json.dumps(tokens, separators=(",", ":")) for tokens in fields]
    except Exception as error:
        if len(spots) == 1 or isinstance(error, EsdedupError):
            what = f"{len(spots)} documents pass" if len(spots) > 1 else "a document passes"
            log.warning("%s without tokens: %s: %s", what, type(error).__name__, error)
            return
        for spot in spots:
            yield from _sketched([spot], scheme)
    else:
        yield from zip(spots, done, strict=True)
