"""Texts of an index: all of them, or a random sample; and how alike they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.analysis.tuning import Neighbours, from_pairs, least_met, with_found
from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Document, Query
from esdedup.search.limits import ONE_BAND, Limits
from esdedup.search.similar import similar
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.base import Store
from esdedup.stores.elastic.queries import QUERIES_AT_ONCE
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta

OnDocuments = Callable[[int], None]


@dataclass(frozen=True)
class Sampled:
    """What a sample says of an index.

    neighbours: of a document of it. sampled: documents with a text. without_text: others, left
    out. truncated: sampled documents with more candidates than were looked at, so that neighbours
    of little similarity are missing from what is expected.
    """

    neighbours: Neighbours
    sampled: int
    without_text: int
    truncated: int


def texts_of_index(
    store: Store,
    meta: IndexMeta,
    sample: int | None = None,
    seed: int = 1,
    on_read: OnDocuments | None = None,
) -> Iterator[list[str]]:
    """The texts of all documents with tokens, or of a random sample, in batches.

    on_read: called with the documents of each batch. Documents whose text was taken away since are
    left out.
    """
    paths = [meta.text_field]
    batches = (
        store.scan(paths, meta) if sample is None else [store.sample(paths, meta, sample, seed)]
    )
    for batch in batches:
        if on_read is not None:
            on_read(len(batch))
        yield [text for _, text in _with_text(batch, meta)]


def sample_neighbours(
    store: Store,
    meta: IndexMeta,
    count: int,
    seed: int = 1,
    candidates: int = 1_000,
    on_query: OnDocuments | None = None,
) -> Sampled:
    """The neighbours of an index's documents, by a random sample.

    What is little alike is counted in all pairs of the sample; what is much alike, and too rare
    to be met there, by queries of the index for each sampled text.

    candidates: to verify, for a query. on_query: called with the texts asked for since.
    Raises UsageError where the index has no MinHash tokens or not two texts.
    """
    minhash = meta.scheme.minhash
    if minhash is None:
        raise UsageError(f"{store.where} has no MinHash tokens to learn similarities from")
    documents = store.sample([meta.text_field], meta, count, seed)
    found = _with_text(documents, meta)
    sets = shingle_sets([text for _, text in found], meta.scheme)
    corpus = max(store.statistics(meta).sketched, len(found))
    neighbours = from_pairs(sets, corpus)
    least = least_met(minhash, len(found), corpus)
    truncated = 0
    if least <= 1.0:
        # By the S-curve of all bands, which says how many were not found.
        whole = replace(meta, stop=())
        limits = Limits(
            "jaccard", least, matches=candidates, candidates=candidates, recall=ONE_BAND
        )
        queries = [Query(text, document.id) for document, text in found]
        values, truncated = _found(store, whole, queries, limits, on_query)
        neighbours = with_found(neighbours, np.array(values), len(found), minhash, least)
    return Sampled(neighbours, len(found), len(documents) - len(found), truncated)


def _found(
    store: Store,
    meta: IndexMeta,
    queries: Sequence[Query],
    limits: Limits,
    on_query: OnDocuments | None,
) -> tuple[list[float], int]:
    """The similarities of all matches, and how many queries had too many candidates."""
    values: list[float] = []
    truncated = 0
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        some = queries[first : first + QUERIES_AT_ONCE]
        for result in similar(store, meta, some, limits):
            truncated += result.truncated
            values += [match.similarity or 0.0 for match in result.matches]
        if on_query is not None:
            on_query(len(some))
    return values, truncated


def _with_text(documents: Sequence[Document], meta: IndexMeta) -> list[tuple[Document, str]]:
    found = []
    for document in documents:
        try:
            found.append((document, text_of(document.source, meta.text_field)))
        except RecordError:
            continue
    return found
