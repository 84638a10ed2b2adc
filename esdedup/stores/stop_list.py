"""The stop list of an index: tokens whose buckets searches skip, like stop words.

An entry is a token behind its field, such as "minhash:0abcde", as tokens of two sketches may be
equal. The index itself holds the list, beside the scheme, so that every reader leaves out the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.models import CandidateQuery
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import decode_tokens, token_length
from esdedup.text.arrays import I64, U64

MAX_STOPPED = 1_000
"""Maximum number of entries; every node of a cluster holds them in memory, in the mapping."""


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
    return frozenset(each.partition(":")[2] for each in stop if each.startswith(f"{key}:"))


def stopped_buckets(stop: Sequence[str], sketch: Sketch) -> tuple[I64, U64]:
    """Return the buckets of a sketch in a stop list: positions and values, each of shape (m,)."""
    tokens = sorted(stopped_tokens(stop, sketch.key))
    return decode_tokens(tokens, sketch.tokens, sketch.bits)


def without(query: CandidateQuery, tokens: Collection[str]) -> CandidateQuery:
    """Return a query without some tokens; its `stopped` counts the groups that lost any."""
    # A group whose first token leads is left out with all of its probes.
    groups = [
        [] if query.leads and group[0] in tokens else [each for each in group if each not in tokens]
        for group in query.groups
    ]
    lost = sum(len(left) < len(group) for left, group in zip(groups, query.groups, strict=True))
    return replace(query, groups=[group for group in groups if group], stopped=lost)


def _entry(text: str, scheme: Scheme) -> str:
    check_type("token", text, "str")
    key, colon, token = text.rpartition(":")
    sketches = {each.key: each for each in scheme.sketches if each.stoppable}
    fitting = [own for own, each in sketches.items() if key in ("", own) and is_token(token, each)]
    if not fitting or (colon and not key):
        shapes = [
            f"{own}:{'x' * token_length(each.tokens, each.bits)}" for own, each in sketches.items()
        ]
        raise UsageError(
            f"{text!r} is not a token of the index's scheme, such as {' or '.join(shapes)}:"
            " esdedup stats --hot shows some"
        )
    if len(fitting) > 1:
        choices = " or ".join(f"{own}:{token}" for own in fitting)
        raise UsageError(f"several sketches have the token {token!r}: use {choices}")
    return f"{fitting[0]}:{token}"
