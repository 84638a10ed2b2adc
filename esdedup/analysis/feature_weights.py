"""Gives a scheme weights for SimHash: from a corpus, from document frequencies, or by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from esdedup.exceptions import UsageError
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.weights import (
    FeatureWeights,
    Frequencies,
    count_documents,
    given_weights,
    inverse_document_frequency,
)
from esdedup.text.arrays import Ragged
from esdedup.text.normalise import normalise
from esdedup.text.shingles import shingle
from esdedup.text.words import tokenise


def count_corpus(scheme: Scheme, batches: Iterable[Sequence[str]]) -> Frequencies:
    """Number of texts that have each of the scheme's features, see `count_documents`."""
    return count_documents(_features(batch, scheme) for batch in batches)


def weighted_by_corpus(scheme: Scheme, counted: Frequencies, limit: int = 4096) -> Scheme:
    """The scheme with the inverse document frequencies of a corpus frozen into it."""
    # One more than the limit gives the weight of all others.
    most = counted.most(limit + 1)
    return _with_table(scheme, inverse_document_frequency(most, counted.documents, limit))


def weighted_by_frequencies(
    scheme: Scheme, frequencies: Mapping[str, int], documents: int, limit: int = 4096
) -> Scheme:
    """The scheme with inverse document frequencies from a table.

    frequencies: number of documents by feature; a feature has the scheme's feature size in words.
    documents: number of all that were counted.

    Raises UsageError for a name that is not exactly one feature.
    """
    hashes = _named(list(frequencies), scheme)
    counted = dict(zip(hashes, frequencies.values(), strict=True))
    return _with_table(scheme, inverse_document_frequency(counted, documents, limit))


def weighted_as_given(scheme: Scheme, weights: Mapping[str, float], default: float = 1.0) -> Scheme:
    """The scheme with weights by feature, 0 to 255; every other feature weighs `default`."""
    hashes = _named(list(weights), scheme)
    table = given_weights(dict(zip(hashes, weights.values(), strict=True)), default)
    return _with_table(scheme, table)


def _feature_size(scheme: Scheme) -> int:
    if scheme.simhash is None:
        raise UsageError("feature weights go with a scheme that has SimHash")
    return scheme.simhash.feature_size


def _features(texts: Sequence[str], scheme: Scheme) -> Ragged:
    normalised = normalise(texts, scheme.normalisation)
    return shingle(tokenise(normalised, scheme.shingling, scheme.seed), _feature_size(scheme))


def _named(names: list[str], scheme: Scheme) -> list[int]:
    size = _feature_size(scheme)
    tokens = tokenise(normalise(names, scheme.normalisation), scheme.shingling, scheme.seed)
    for name, count in zip(names, tokens.counts.tolist(), strict=True):
        if count != size:
            raise UsageError(
                f"feature {name!r} is {count} {scheme.shingling.unit} tokens; the scheme's"
                f" features are of {size}"
            )
    return [int(feature) for feature in shingle(tokens, size).hashes]


def _with_table(scheme: Scheme, table: FeatureWeights) -> Scheme:
    assert scheme.simhash is not None
    return replace(scheme, simhash=replace(scheme.simhash, table=table))
