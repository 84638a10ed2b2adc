"""The stop list of an index: tokens whose buckets searches leave out, as a language's stop words.

An entry is a token behind its kind, "minhash:0abcde", as tokens of two kinds may look the same. The
list is kept beside the scheme, in the index itself, so that every reader leaves out the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import UsageError
from esdedup.models import RecallQuery
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import decode_tokens, token_length
from esdedup.text.arrays import U64

MAX_STOPPED = 1_000
"""Entries of a list, few enough for a mapping that every node of a cluster holds in memory."""


def stop_entries(tokens: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Tokens, each with its kind or where that is clear without, as a stop list: sorted, each once.

    Raises UsageError for what is no token of the scheme, and for too many.
    """
    entries = tuple(sorted({_entry(token, scheme) for token in tokens}))
    if len(entries) > MAX_STOPPED:
        raise UsageError(
            f"a stop list of {len(entries):,} tokens: it takes {MAX_STOPPED:,}. Stop the largest"
            " buckets only, or take the boilerplate out of the texts before they are indexed"
        )
    return entries


def stored_stop(document: Any, scheme: Scheme) -> tuple[str, ...]:
    """The stop list that an index's own `_meta` gives. Raises UsageError where it is none."""
    if not isinstance(document, list) or not all(isinstance(entry, str) for entry in document):
        raise UsageError("the index's _meta.esdedup.stop is no list of tokens")
    return stop_entries(document, scheme)


def is_token(token: str, kind: str, scheme: Scheme) -> bool:
    """Whether a scheme's tokens of a kind may look so."""
    try:
        decode_tokens([token], *_forms(scheme)[kind])
    except ValueError:
        return False
    return True


def stopped_tokens(stop: Sequence[str], kind: str) -> frozenset[str]:
    """The tokens of one kind that a stop list holds."""
    parts = [entry.partition(":") for entry in stop]
    return frozenset(token for own, _, token in parts if own == kind)


def stopped_buckets(
    stop: Sequence[str], kind: str, scheme: Scheme
) -> tuple[NDArray[np.int64], U64]:
    """The buckets of one kind that a stop list names: positions and values, each of shape (m,).

    The position is the band's or segment's number, the value is what `tokens.decode` gives there.
    """
    return decode_tokens(sorted(stopped_tokens(stop, kind)), *_forms(scheme)[kind])


def without(query: RecallQuery, tokens: Collection[str]) -> RecallQuery:
    """A query that leaves tokens out; its `stopped` says from how many groups."""
    groups = [[token for token in group if token not in tokens] for group in query.groups]
    lost = sum(len(left) < len(group) for left, group in zip(groups, query.groups, strict=True))
    return replace(query, groups=[group for group in groups if group], stopped=lost)


def _forms(scheme: Scheme) -> dict[str, tuple[int, int]]:
    """For each kind of token the number of positions, and the bits of a value."""
    forms: dict[str, tuple[int, int]] = {}
    if scheme.minhash is not None:
        forms["minhash"] = scheme.minhash.bands, scheme.minhash.token_bits
    if scheme.simhash is not None:
        layout = scheme.simhash.layout
        forms["simhash"] = len(layout.widths), layout.segment_bits
    return forms


def _entry(text: str, scheme: Scheme) -> str:
    """A token with its kind."""
    kind, colon, token = text.rpartition(":")
    forms = _forms(scheme)
    fitting = [own for own in forms if kind in ("", own) and is_token(token, own, scheme)]
    if not fitting or (colon and not kind):
        shapes = [f"{own}:{'x' * token_length(*form)}" for own, form in forms.items()]
        raise UsageError(
            f"{text!r} is no token of the index's scheme, which are like {' or '.join(shapes)}:"
            " esdedup stats --hot shows some"
        )
    if len(fitting) > 1:
        choices = " or ".join(f"{own}:{token}" for own in fitting)
        raise UsageError(f"the token {token!r} may be of either kind: say {choices}")
    return f"{fitting[0]}:{token}"
