"""Reads the texts of an index, all or a random sample, and estimates how alike they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.analysis.tuning import Neighbours, from_pairs, least_met, with_found
from esdedup.models import Document, Query, Result
from esdedup.search.similar import similar
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta

OnDocuments = Callable[[int], None]


@dataclass(frozen=True)
class Sampled:
    """The neighbours of a document of an index, estimated from a sample.

    sampled: documents with a text. without_text: others, left out. truncated: sampled documents
    with more candidates than were verified, so that neighbours of little similarity are lacking.
    """

    neighbours: Neighbours = field(repr=False)
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
    """The texts of documents with tokens, in batches, without those that lost their text since.

    sample: number of random documents; None for all.
    on_read: called with the number of documents read so far.
    """
    paths = [*meta.text_fields]
    batches = (
        store.scan(paths, meta) if sample is None else [store.sample(paths, meta, sample, seed)]
    )
    read = 0
    for batch in batches:
        read += len(batch)
        if on_read is not None:
            on_read(read)
        yield [text for _, text in with_text(batch, meta)]


def sample_neighbours(
    store: Store,
    meta: IndexMeta,
    count: int,
    seed: int = 1,
    candidates: int = 1_000,
    on_query: OnDocuments | None = None,
) -> Sampled:
    """Estimate the neighbours of an index's documents from a random sample.

    All pairs of the sample tell of little similarity. Much similarity is too rare there, so that
    the index is queried for each sampled text.

    candidates: maximum number of documents to verify for a query.
    on_query: called with the number of texts asked for so far.

    Raises UsageError if the index has no sketch with bands, or fewer than two texts.
    """
    banded = meta.scheme.banded
    documents = store.sample([*meta.text_fields], meta, count, seed)
    found = with_text(documents, meta)
    sets = shingle_sets([text for _, text in found], meta.scheme)
    corpus = max(store.statistics(meta).sketched, len(found))
    neighbours = from_pairs(sets, corpus)
    least = least_met(banded, len(found), corpus)
    truncated = done = 0
    if least <= 1.0:
        values: list[float] = []
        queries = [Query(text, each.id) for each, text in found]
        for some in neighbours_of(store, meta, queries, least, candidates):
            for result in some:
                truncated += result.truncated
                values += [match.similarity or 0.0 for match in result.matches]
            done += len(some)
            if on_query is not None:
                on_query(done)
        neighbours = with_found(neighbours, np.array(values), len(found), banded, least)
    return Sampled(neighbours, len(found), len(documents) - len(found), truncated)


def neighbours_of(
    store: Store,
    meta: IndexMeta,
    queries: Sequence[Query],
    least: float,
    candidates: int,
    swaps: int = 0,
) -> Iterator[list[Result]]:
    """Ask for the neighbours of texts from a similarity on, in batches; a result for each query.

    The bands find a neighbour with the chance that `tuning.meeting` tells for these swaps. So there
    is no stop list, and one shared band is enough. candidates: maximum number to verify of each.
    """
    whole, most = replace(meta, stop=()), candidates
    limits = Limits(meta.scheme.banded.name, least, k=most, candidates=most, least=1, swaps=swaps)
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        yield similar(store, whole, queries[first : first + QUERIES_AT_ONCE], limits)


def with_text(documents: Sequence[Document], meta: IndexMeta) -> list[tuple[Document, str]]:
    """The documents that have a text, with it."""
    found = ((document, text_at(document.source, meta.text_fields)) for document in documents)
    return [(document, text) for document, text in found if text is not None]
