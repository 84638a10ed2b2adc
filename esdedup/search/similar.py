"""Finds similar documents: fetches candidates by shared tokens, then verifies each one exactly.

Without a threshold, the k nearest documents are searched in levels: first by bands, which few
documents share, then by single values of the signature (`kinds.signature`). The similarity of the
k-th match so far decides how many tokens a nearer document would share, and how likely it was
missed. Bawa, Condie, Ganesan, "LSH Forest: self-tuning indexes for similarity search", WWW 2005,
find the nearest in the same sense, with prefixes of a tree's paths as levels.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from esdedup.models import CandidateQuery, Candidates, Cover, Document, Match, Query, Result
from esdedup.search.candidates import (
    candidate_queries,
    in_pieces,
    merged,
    with_least,
    without_stopped,
    wordless_queries,
)
from esdedup.search.cover import covered_matches, with_passages
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, Sketches, known_sets, sketch, stored_values
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.elastic.queries import candidates_body, unread_paths
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, U64, Mask, Ragged
from esdedup.text.jaccard import hamming, jaccard_with
from esdedup.text.normalise import normalise


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """Return the documents similar to each query, in the order of the queries.

    A text without any shingle matches equal texts only. Without a threshold in the limits, the
    nearest documents that share a token are returned, so that there may be fewer than `limits.k`;
    a query gets no further level once it reaches `limits.wanted_recall`.
    """
    if len(queries) <= QUERIES_AT_ONCE:
        return _answers(store, meta, queries, limits)
    starts = range(0, len(queries), QUERIES_AT_ONCE)
    blocks = (queries[start : start + QUERIES_AT_ONCE] for start in starts)
    answers = store.window.in_order(lambda block: _answers(store, meta, block, limits), blocks)
    return [*itertools.chain.from_iterable(answers)]


def sharing(
    store: Store, meta: IndexMeta, texts: Sequence[str], limits: Limits
) -> Iterator[tuple[list[CandidateQuery], list[Candidates]]]:
    """Yield the queries of some texts after others, and their candidates, which are not verified.

    A text without tokens, or of stopped ones only, has no candidates.
    """
    level = meta.scheme.chosen(limits)

    def look_up(start: int) -> tuple[list[CandidateQuery], list[Candidates]]:
        some = texts[start : start + QUERIES_AT_ONCE]
        sketches = sketch(some, meta.scheme.only(level), limits=limits)
        every = candidate_queries(meta, level, sketches, [*map(Query, some)])
        every = without_stopped(meta, every)
        return every, _candidates(store, [one for one in every if one.groups], limits.candidates)

    return store.window.in_order(look_up, range(0, len(texts), QUERIES_AT_ONCE))


@dataclass
class _Answer:
    """The state of one query, level after level.

    seen: ids of the candidates that were fetched. excluded: number of those that were not, because
    they can't be in the answer. matching: how many of these match.
    """

    limits: Limits
    near: list[Match] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    excluded: int = 0
    matching: int = 0
    truncated: bool = False
    recall: float | None = None
    asked: int = 0
    stopped: int = 0

    @property
    def done(self) -> bool:
        return self.recall is not None and self.recall >= self.limits.wanted_recall

    @property
    def farthest(self) -> float | None:
        """The similarity of the k-th of the nearest; None if there are fewer, or a threshold."""
        nearest = self.limits.threshold is None and len(self.near) >= self.limits.k
        return self.near[self.limits.k - 1].similarity if nearest else None

    def add(
        self, query: CandidateQuery, level: Sketch, found: Candidates, matches: list[Match]
    ) -> None:
        """Add the candidates of a query at a level, and those that match."""
        self.asked += len(query.groups)
        self.seen.update(each.id for each in found.documents)
        self.excluded += found.excluded
        self.matching += found.matching
        self.truncated = found.truncated
        kept = self.limits.k if self.limits.threshold is None else None
        every = {each.id: each for each in (*self.near, *matches)}.values()
        self.near = sorted(every, key=_order)[:kept]
        least = query.least
        if found.truncated:
            # Some that share as many tokens as the last candidate were not looked at.
            least = found.missed + 1
        # How many similar documents share only stopped tokens depends on the texts.
        if not query.stopped and (kept is None or self.farthest is not None):
            groups = query.shingles or level.tokens
            recall = level.recall(self.limits, groups, least, self.farthest)
            self.recall = recall if self.recall is None else max(recall or 0.0, self.recall)

    def result(self, level: Sketch) -> Result:
        nearest, k = self.limits.threshold is None, self.limits.k
        passage = max(level.passage, self.limits.words or 0) if level.passage else None
        return Result(
            self.near[:k],
            len(self.seen) + self.excluded,
            self.truncated and not (nearest and self.done),
            self.recall,
            self.asked,
            self.stopped,
            None if nearest else len(self.near) + self.matching,
            None if self.truncated or self.stopped else passage,
        )


def _answers(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    chosen, nearest = meta.scheme.chosen(limits), limits.threshold is None
    levels = levels_of(meta.scheme, chosen) if nearest else [chosen]
    texts, by_sets = [query.text for query in queries], chosen.metric == "jaccard"
    sketches = sketch(texts, meta.scheme.only(*levels), with_shingles=by_sets, limits=limits)
    sets, answers = sketches.shingles, [_Answer(limits) for _ in queries]
    filled = np.flatnonzero(sketches.filled).tolist()
    for level in levels:
        every = candidate_queries(meta, level, sketches, queries)
        some = [every[row] for row in filled]
        asked = {}
        for row, query in zip(filled, without_stopped(meta, some), strict=True):
            answer = answers[row]
            query = with_least(query, level, limits, answer.farthest)
            answer.stopped = answer.stopped or query.stopped
            if query.groups and not (nearest and answer.done):
                if sets is not None and len(levels) == 1:
                    # Candidates of several levels are counted by their ids.
                    query = replace(query, verify=_verifier(sets[row], limits))
                asked[row] = query
        if not asked:
            continue
        found = _candidates(store, [*asked.values()], limits.candidates)
        if level.metric == "cover":
            matches = covered_matches(meta, level, [texts[row] for row in asked], found, limits)
        else:
            matches = _matches(meta, level, sketches, [*asked], found, limits)
        for row, each, near in zip(asked, found, matches, strict=True):
            answers[row].add(asked[row], level, each, near)
        # Free the candidates before the next level fetches its own.
        del found, matches, each, near
    results = [answer.result(chosen) for answer in answers]
    if meta.scheme.by_server:
        # How many shingles are across two strings of a list depends on the list.
        results = [
            each if query.parts == 1 else replace(each, recall=None)
            for each, query in zip(results, queries, strict=True)
        ]
    if chosen.metric == "cover":
        results = [
            replace(each, matches=with_passages(meta, chosen, text, each.matches, limits))
            for each, text in zip(results, texts, strict=True)
        ]
    for row in np.flatnonzero(~sketches.filled).tolist():
        results[row] = _of_equal_text(store, meta, queries[row], sketches.digests[row], limits)
    return results


def _candidates(store: Store, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
    """Return the candidates of each query, which may have any number of groups."""
    pieces = [in_pieces(query) for query in queries]
    found = iter(store.candidates([*itertools.chain.from_iterable(pieces)], limit))
    return [merged([*itertools.islice(found, len(some))]) for some in pieces]


def _verifier(own: U64, limits: Limits) -> Callable[[Ragged], tuple[F64, Mask, int]]:
    """Return the `verify` of a query. own: the set of its shingles."""

    def verify(sets: Ragged) -> tuple[F64, Mask, int]:
        similarities, least = jaccard_with(own, sets), _least(limits)
        matches = int(np.count_nonzero(similarities >= least))
        if limits.k < len(sets):
            # Ties are in the order of ids.
            least = max(least, np.partition(similarities, -limits.k)[-limits.k])
        kept = similarities >= least
        return similarities, kept, matches - int(np.count_nonzero(kept))

    return verify


def _least(limits: Limits) -> float:
    """Return the least similarity of a match."""
    # Without a threshold, any shared shingle counts.
    return limits.threshold or sys.float_info.min


def _matches(
    meta: IndexMeta,
    level: Sketch,
    sketches: Sketches,
    rows: Sequence[int],
    candidates: Sequence[Candidates],
    limits: Limits,
) -> list[list[Match]]:
    """Return the verified candidates of each query of `rows` within the limits, unordered."""
    matches: list[list[Match]] = [[] for _ in rows]
    documents = [each for some in candidates for each in some.documents]
    if (sets := sketches.shingles) is None:
        owners = [at for at, some in enumerate(candidates) for _ in some.documents]
        matched = [each for some in candidates for each in some.matched]
        ours = [each.tokens_in(meta.field) for each in documents]
        # Another client may have written other tokens.
        stored, whole = stored_values([tokens.get(level.key) for tokens in ours], level)
        kept = np.flatnonzero(whole).tolist()
        own = sketches.values[level.name][[rows[owners[row]] for row in kept]]
        most = level.max_distance(limits)
        for row, distance in zip(kept, hamming(stored, own).tolist(), strict=True):
            if distance <= most:
                each = documents[row]
                others = {name: value for name, value in ours[row].items() if name != level.key}
                source = {**each.source, meta.field: others}
                found = Match(each.id, None, distance, matched[row], source)
                matches[owners[row]].append(found)
        return matches
    least = _least(limits)
    # Other clients may have removed a text and left its tokens.
    unknown = (each for some in candidates if not some.similarities for each in some.documents)
    texts = [text_at(each.source, meta.text_fields) or "" for each in unknown]
    theirs, last = known_sets(texts, meta.scheme), 0
    for row, some, near in zip(rows, candidates, matches, strict=True):
        similarities = some.similarities
        if not similarities:
            first, last = last, last + len(some.documents)
            similarities = jaccard_with(sets[row], Ragged.of_rows(theirs[first:last])).tolist()
        every = zip(some.documents, similarities, some.matched, strict=True)
        near += [
            Match(each.id, value, None, shared, each.source)
            for each, value, shared in every
            if value >= least
        ]
    return matches


def _of_equal_text(
    store: Store, meta: IndexMeta, query: Query, digest: str, limits: Limits
) -> Result:
    """Return the documents of the same text, which has no shingle; none for an empty text."""
    metric = meta.scheme.chosen(limits).metric
    similarity = 1.0 if metric == "jaccard" else None
    distance = 0 if metric == "hamming" else None
    cover = Cover(0, 1.0, 1.0) if metric == "cover" else None
    if digest == NO_TEXT:
        return Result([], 0, False, similarity, total=0)
    (found,) = store.candidates(wordless_queries(meta, [digest], [query]), limits.candidates)
    (own,) = normalise([query.text], meta.scheme.normalisation)
    matches = [
        Match(document.id, similarity, distance, 0, document.source, cover)
        for document, text in with_texts(meta, found)
        if text == own
    ]
    near, total = sorted(matches, key=_order)[: limits.k], len(matches)
    recall = None if found.truncated else similarity
    return Result(near, len(found.documents), found.truncated, recall, total=total)


def with_texts(meta: IndexMeta, found: Candidates) -> list[tuple[Document, str]]:
    """Return the documents of candidates with their texts, normalised.

    Other clients may have changed or removed a text and left its tokens.
    """
    texts = [text_at(document.source, meta.text_fields) or "" for document in found.documents]
    return [*zip(found.documents, normalise(texts, meta.scheme.normalisation), strict=True)]


def request_body(meta: IndexMeta, query: Query, limits: Limits) -> dict[str, Any]:
    """Return the body of a `_search` for the candidates of a query, which the client must verify.

    A text without any shingle finds nothing, nor does one whose tokens are all in the stop list.
    """
    chosen = meta.scheme.chosen(limits)
    if limits.threshold is None:
        # Single values meet at any similarity.
        chosen = levels_of(meta.scheme, chosen)[-1]
    sketches = sketch([query.text], meta.scheme.only(chosen), with_shingles=True, limits=limits)
    (wanted,) = without_stopped(meta, candidate_queries(meta, chosen, sketches, [query]))
    body = candidates_body(with_least(wanted, chosen, limits), limits.candidates)
    body["_source"] = {"excludes": unread_paths([wanted])}
    if not sketches.filled[0] or not wanted.groups:
        body["query"] = {"match_none": {}}
    return body


def levels_of(scheme: Scheme, chosen: Sketch) -> list[Sketch]:
    """Return a sketch, and the others of its measure: together they find the nearest documents."""
    same = [each for each in scheme.sketches if each.metric == chosen.metric]
    return [chosen, *(each for each in same if each != chosen)]


def _order(match: Match) -> tuple[float, int, str]:
    """Sort matches by similarity, distance or covered words, the nearest first, ties by id."""
    near = match.similarity or 0.0 if match.cover is None else match.cover.words
    return -near, match.distance or 0, match.id
