"""Gives a scheme weights for SimHash: from a corpus, from document frequencies, or by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.weights import (
    FeatureWeights,
    Frequencies,
    count_documents,
    given_weights,
    inverse_document_frequency,
)
from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import Ragged
from esdedup.text.normalise import normalise
from esdedup.text.shingles import shingle
from esdedup.text.words import tokenise

_LIMIT = 4096
"""Maximum number of features with a weight of their own."""


def count_corpus(scheme: Scheme, batches: Iterable[Sequence[str]]) -> Frequencies:
    """Number of texts that have each of the scheme's features, see `count_documents`."""
    size = _feature_size(scheme)
    return count_documents(shingle(_tokens(batch, scheme), size) for batch in batches)


def weighted_by_corpus(scheme: Scheme, counted: Frequencies) -> Scheme:
    """The scheme with the inverse document frequencies of a corpus frozen into it."""
    # One more than the limit gives the weight of all others.
    most = counted.most(_LIMIT + 1)
    return _with_table(scheme, inverse_document_frequency(most, counted.documents, _LIMIT))


def weighted_by_table(scheme: Scheme, table: Mapping[str, Any]) -> Scheme:
    """The scheme with the weights of a table, or with inverse document frequencies from it.

    table: "weights" by feature, 0 to 255, and the "default" weight of every other feature, else 1.
    Or "frequencies", the number of documents by feature, and "documents", the number of all that
    were counted. A feature has the scheme's feature size in words.

    Raises UsageError for a name that is not exactly one feature, KeyError for another table.
    """
    if "weights" in table:
        weights = _hashed(table["weights"], scheme)
        return _with_table(scheme, given_weights(weights, table.get("default", 1.0)))
    counted = _hashed(table["frequencies"], scheme)
    return _with_table(scheme, inverse_document_frequency(counted, table["documents"], _LIMIT))


def _feature_size(scheme: Scheme) -> int:
    if scheme.simhash is None:
        raise UsageError("feature weights go with a scheme that has SimHash")
    return scheme.simhash.feature_size


def _tokens(texts: Sequence[str], scheme: Scheme) -> Ragged:
    return tokenise(normalise(texts, scheme.normalisation), scheme.shingling, scheme.seed)


def _hashed(table: Mapping[str, Any], scheme: Scheme) -> dict[int, Any]:
    """The table with hashes in place of the names of features."""
    size, names = _feature_size(scheme), list(table)
    tokens = _tokens(names, scheme)
    for name, count in zip(names, tokens.counts.tolist(), strict=True):
        if count != size:
            raise UsageError(
                f"feature {name!r} is {count} {scheme.shingling.unit} tokens; the scheme's"
                f" features are of {size}"
            )
    return dict(zip(shingle(tokens, size).hashes.tolist(), table.values(), strict=True))


def _with_table(scheme: Scheme, table: FeatureWeights) -> Scheme:
    assert scheme.simhash is not None
    return replace(scheme, simhash=replace(scheme.simhash, table=table))
