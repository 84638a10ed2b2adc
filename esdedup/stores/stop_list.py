"""The stop list of an index: tokens whose buckets searches leave out, like stop words.

An entry is a token behind its kind, "minhash:0abcde", because tokens of two kinds may look the
same. The index itself holds the list, beside the scheme, so that every reader leaves out the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.models import CandidateQuery
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import decode_tokens, token_length
from esdedup.text.arrays import I64, U64

MAX_STOPPED = 1_000
"""Maximum number of entries; every node of a cluster holds them in memory, in the mapping."""


def stop_entries(tokens: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return tokens as a stop list, sorted, each once.

    tokens: each with its kind, unless it can only be of one. Raises UsageError if one is not a
    token of the scheme, and for too many.
    """
    check_list("tokens", tokens)
    entries = tuple(sorted({_entry(token, scheme) for token in tokens}))
    if len(entries) > MAX_STOPPED:
        raise UsageError(
            f"a stop list of {len(entries):,} tokens: it takes {MAX_STOPPED:,}. Stop the largest"
            " buckets only, or take the boilerplate out of the texts before they are indexed"
        )
    return entries


def is_token(token: str, kind: str, scheme: Scheme) -> bool:
    """Return whether a text has the form of a scheme's tokens of a kind."""
    try:
        decode_tokens([token], *_forms(scheme)[kind])
    except ValueError:
        return False
    return True


def stopped_tokens(stop: Sequence[str], kind: str) -> frozenset[str]:
    """Return the tokens of one kind in a stop list."""
    parts = [entry.partition(":") for entry in stop]
    return frozenset(token for own, _, token in parts if own == kind)


def stopped_buckets(stop: Sequence[str], kind: str, scheme: Scheme) -> tuple[I64, U64]:
    """Return the buckets of one kind in a stop list: positions and values, each of shape (m,)."""
    return decode_tokens(sorted(stopped_tokens(stop, kind)), *_forms(scheme)[kind])


def without(query: CandidateQuery, tokens: Collection[str]) -> CandidateQuery:
    """Return a query without some tokens; its `stopped` counts the groups that lost any.

    A band without its own token, the first of its group, is left out with all of its probes.
    """
    by_bands = query.kind == "minhash"
    groups = [
        [] if by_bands and group[0] in tokens else [each for each in group if each not in tokens]
        for group in query.groups
    ]
    lost = sum(len(left) < len(group) for left, group in zip(groups, query.groups, strict=True))
    return replace(query, groups=[group for group in groups if group], stopped=lost)


def _forms(scheme: Scheme) -> dict[str, tuple[int, int]]:
    """The number of positions and the bits of a value, for each kind of token."""
    forms: dict[str, tuple[int, int]] = {}
    if scheme.minhash is not None:
        forms["minhash"] = scheme.minhash.bands, scheme.minhash.token_bits
    if scheme.simhash is not None:
        layout = scheme.simhash.layout
        forms["simhash"] = len(layout.widths), layout.segment_bits
    return forms


def _entry(text: str, scheme: Scheme) -> str:
    check_type("token", text, "str")
    kind, colon, token = text.rpartition(":")
    forms = _forms(scheme)
    fitting = [own for own in forms if kind in ("", own) and is_token(token, own, scheme)]
    if not fitting or (colon and not kind):
        shapes = [f"{own}:{'x' * token_length(*form)}" for own, form in forms.items()]
        raise UsageError(
            f"{text!r} is not a token of the index's scheme, like {' or '.join(shapes)}:"
            " esdedup stats --hot shows some"
        )
    if len(fitting) > 1:
        choices = " or ".join(f"{own}:{token}" for own in fitting)
        raise UsageError(f"the token {token!r} may be of either kind: say {choices}")
    return f"{fitting[0]}:{token}"
