"""The stop list of an index: tokens whose buckets searches skip, like stop words.

An entry is a token behind its field, such as "minhash:0abcde", as tokens of two sketches may be
equal. The index itself holds the list, beside the scheme, so that every reader leaves out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.models import CandidateQuery
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import decode_tokens, token_length
from esdedup.text.arrays import I64, U64

if TYPE_CHECKING:
    from esdedup.stores.base import Store
    from esdedup.stores.mapping import IndexMeta

MAX_STOPPED = 1_000
"""Maximum number of entries; every node of a cluster holds them in memory, in the mapping."""


class StopList:
    """The stop list of the index of a store: `Index.stop_list`."""

    def __init__(
        self, store: Store, current: Callable[[], IndexMeta], outdate: Callable[[], None]
    ) -> None:
        """current: returns the description of the index. outdate: lets `current` read it again."""
        self._store, self._current, self._outdate = store, current, outdate

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the list, sorted, each with its kind."""
        return self._current().stop

    def entries(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Return tokens as the list holds them, as `stop_entries`."""
        return stop_entries(tokens, self._current().full_scheme)

    def sketches(self) -> list[Sketch]:
        """Return the sketches that have tokens in the list."""
        meta = self._current()
        return [
            sketch for sketch in meta.full_scheme.sketches if stopped_tokens(meta.stop, sketch.key)
        ]

    def sizes(self) -> dict[str, int]:
        """Return the number of documents that hold each token of the list."""
        meta, sizes = self._current(), dict[str, int]()
        for sketch in self.sketches():
            tokens = sorted(stopped_tokens(meta.stop, sketch.key))
            counts = self._store.bucket_sizes(sketch.key, tokens, meta.of(sketch.name))
            for token, documents in zip(tokens, counts, strict=True):
                sizes[f"{sketch.key}:{token}"] = documents
        return sizes

    def replace(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Replace the stop list, and return it as it is stored.

        Programs that have the index open leave the tokens out of searches within 10 seconds. Raises
        UsageError if one is not a token of the index's scheme.
        """
        self._outdate()
        meta = self._current()
        entries = stop_entries(tokens, meta.full_scheme)
        self._store.renew(meta, replace(meta, stop=entries))
        self._outdate()
        return entries


def stop_entries(tokens: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return tokens as a stop list, sorted, each once. Raises UsageError for other or too many.

    tokens: each with its kind, unless it can only be of one.
    """
    check_list("tokens", tokens)
    entries = tuple(sorted({_entry(token, scheme) for token in tokens}))
    if len(entries) > MAX_STOPPED:
        raise UsageError(
            f"a stop list of {len(entries):,} tokens: use at most {MAX_STOPPED:,}. Stop the largest"
            " buckets only, or remove the boilerplate from the texts before you index them"
        )
    return entries


def is_token(token: str, sketch: Sketch) -> bool:
    """Return whether a text has the form of a sketch's tokens."""
    try:
        decode_tokens([token], sketch.tokens, sketch.bits)
    except ValueError:
        return False
    return True


def stopped_tokens(stop: Sequence[str], key: str) -> frozenset[str]:
    """Return the tokens of one field in a stop list."""
    return frozenset(entry.partition(":")[2] for entry in stop if entry.startswith(f"{key}:"))


def stopped_buckets(stop: Sequence[str], sketch: Sketch) -> tuple[I64, U64]:
    """Return the buckets of a sketch in a stop list: positions and values, each of shape (m,)."""
    tokens = sorted(stopped_tokens(stop, sketch.key))
    return decode_tokens(tokens, sketch.tokens, sketch.bits)


def without(query: CandidateQuery, tokens: Collection[str]) -> CandidateQuery:
    """Return a query without some tokens; its `stopped` counts the groups that lost any."""
    # A group whose first token leads is left out with all of its probes.
    groups = [
        []
        if query.leads and group[0] in tokens
        else [token for token in group if token not in tokens]
        for group in query.groups
    ]
    stopped = sum(
        len(group) < len(before) for group, before in zip(groups, query.groups, strict=True)
    )
    return replace(query, groups=[group for group in groups if group], stopped=stopped)


def _entry(text: str, scheme: Scheme) -> str:
    """Return the entry of a token, which may name its kind."""
    check_type("token", text, "str")
    kind, colon, token = text.rpartition(":")
    sketches = {sketch.key: sketch for sketch in scheme.sketches if sketch.stoppable}
    keys = [
        key for key, sketch in sketches.items() if kind in ("", key) and is_token(token, sketch)
    ]
    if not keys or (colon and not kind):
        examples = [
            f"{key}:{'x' * token_length(sketch.tokens, sketch.bits)}"
            for key, sketch in sketches.items()
        ]
        raise UsageError(
            f"{text!r} is not a token of the index's scheme, such as {' or '.join(examples)}:"
            " `esdedup stats` with `hot` set shows some"
        )
    if len(keys) > 1:
        choices = " or ".join(f"{key}:{token}" for key in keys)
        raise UsageError(f"several sketches have the token {token!r}: use {choices}")
    return f"{keys[0]}:{token}"
