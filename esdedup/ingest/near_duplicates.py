"""Finds near-duplicates as documents come in.

A document is compared with the documents of the store, and with those that came just before
(`recent`), because searches may not see them yet. The later one is the duplicate. Equal texts are
found first, by their digests alone.

Grouping is the leader algorithm (Hartigan, "Clustering Algorithms", Wiley 1975, chapter 3). Here a
document joins the nearest representative, not the first one that is near enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from esdedup.exceptions import RecordError, UsageError
from esdedup.ingest.documents import MARKS
from esdedup.ingest.recent import (
    Arrival,
    Batch,
    Earlier,
    Likeness,
    Near,
    Row,
    Verdict,
    follows,
    sketched_again,
)
from esdedup.models import CandidateQuery, Candidates, Metric, Query, natural, tokens_in
from esdedup.search.limits import ACTING, ONE_BAND, Limits
from esdedup.search.similar import similar
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of, value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.normalise import normalise

OnDuplicate = Literal["keep", "mark", "skip", "fail"]
PolicyAction = Literal["keep", "mark", "skip", "fail", "group"]
_RECENT_DOCUMENTS = 20_000
_RECENT_CHARACTERS = 100_000_000
"""A generation of recent documents. Bulk helpers run behind by a few thousand at most."""
_DIGESTS_AT_ONCE = 200
_OF_ONE_TEXT = 10
"""Documents of one text to read. Any of them will do, but the first ones may have changed."""


@dataclass(frozen=True)
class DuplicatePolicy:
    """Says how to treat a near-duplicate of an earlier document.

    action: "keep" it like any other; "mark" it with the original's id and the similarity; "skip"
    it; "fail" it, as an error; or "group" it: mark it as a duplicate of the nearest representative.
    A document that is like no representative becomes one.
    metric: "jaccard" or "hamming".
    threshold: least Jaccard similarity.
    distance: most Hamming distance in bits, or None for the distance that the scheme's segments
    guarantee by equality alone.
    candidates: most documents of the store to compare with; the report counts documents with more.

    Raises UsageError for values out of range.
    """

    action: PolicyAction = "keep"
    threshold: float = ACTING
    candidates: int = 100
    metric: Metric = "jaccard"
    distance: int | None = None

    def __post_init__(self) -> None:
        if self.action not in ("keep", "mark", "skip", "fail", "group"):
            raise UsageError(f"on duplicate {self.action!r}: use keep, mark, skip, fail or group")
        if self.metric == "jaccard" and self.distance is not None:
            raise UsageError(f"distance {self.distance}: it goes with the metric hamming")
        _ = self.limits

    @property
    def limits(self) -> Limits:
        """The limits of the search in the store."""
        most = self.candidates
        # One band, because documents that came just before are compared if they share one.
        return Limits(self.metric, self.threshold, self.distance, most, most, ONE_BAND)

    @property
    def writes(self) -> bool:
        """True if near-duplicates are written, and marked."""
        return self.action in ("mark", "group")

    @property
    def groups(self) -> bool:
        """True if documents are compared only with representatives."""
        return self.action == "group"

    def takes(self, verdict: Verdict) -> bool:
        """Returns True if a document with this verdict is written."""
        return verdict.original is None or self.writes


class Originals:
    """Finds the originals of the documents of one run, batch by batch.

    It remembers the documents of the last batches. A refresh has made older ones visible.

    meta: returns the index's current meta, which may change during the run. truncated: number of
    documents so far that had more candidates than the policy compares with, or only buckets of
    the stop list.

    Raises UsageError if the index lacks the tokens of the policy's metric.
    """

    def __init__(
        self, store: Store, meta: Callable[[], IndexMeta], policy: DuplicatePolicy
    ) -> None:
        self.truncated = 0
        self._store = store
        self._current = meta
        self._meta = meta()
        self._policy = policy
        self._recent: list[Row] = []
        self._older: list[Row] = []
        self._doubted: set[str] = set()
        self._begun = False
        _require_tokens(self._meta, policy)
        self._like = Likeness(self._meta.scheme, policy.limits)

    def find(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        """Returns a verdict for each document of a batch, in order."""
        if not arrivals:
            return []
        self._begin()
        batch = self._batch(arrivals)
        self._compare(batch)
        verdicts = [self._verdict(batch, row) for row in range(len(arrivals))]
        self.truncated += sum(verdict.truncated for verdict in verdicts)
        self._doubted.difference_update(batch.counts)
        self._remember(batch, verdicts)
        return verdicts

    def forget(self, ids: Iterable[str]) -> None:
        """Forgets documents that were not written after all."""
        gone = set(ids)
        self._recent = [row for row in self._recent if row.id not in gone]
        self._older = [row for row in self._older if row.id not in gone]

    def doubt(self, ids: Iterable[str]) -> None:
        """Ignores the stored verdicts of documents until they come again."""
        doubted = set(ids)
        self.forget(doubted)
        self._doubted |= doubted

    def _begin(self) -> None:
        if not self._begun:
            # A run that was killed may have written the first documents just before.
            self._store.refresh()
            self._begun = True
        meta = self._current()
        if meta.scheme.id != self._meta.scheme.id:
            self._like = Likeness(meta.scheme, self._policy.limits)
            self._older, self._recent = (
                sketched_again(rows, self._like, meta.scheme.normalisation)
                for rows in (self._older, self._recent)
            )
        self._meta = meta

    def _batch(self, arrivals: Sequence[Arrival]) -> Batch:
        texts, digests = normalised_digests(
            [each.text for each in arrivals], self._meta.scheme.normalisation
        )
        contents = dict(zip(digests, texts, strict=True))
        counts = Counter(arrival.id for arrival in arrivals)
        before = self._older + self._recent
        known: dict[str, tuple[str, Verdict]] = {}
        if self._policy.groups:
            known = _verdicts_of(self._store, self._meta, list(counts))
            known = {id: said for id, said in known.items() if id not in self._doubted}
            known |= {row.id: (row.digest, row.verdict) for row in before if row.id in counts}
        earlier = Earlier(before, leaders=self._policy.groups)
        equal = _of_equal_texts(self._store, self._meta, contents)
        filled = self._like.filled({text: contents[text] for text in equal})
        equal = {text: found for text, found in equal.items() if text in filled}
        return Batch(arrivals, digests, contents, counts, earlier, known, equal)

    def _compare(self, batch: Batch) -> None:
        """Sketches the texts that equal no earlier one, and finds similar documents."""
        lasting = {text: self._lasting(batch, text) for text in batch.contents}
        askers: dict[str, set[str]] = {}
        kept: set[str] = set()
        for row, (arrival, text) in enumerate(zip(batch.arrivals, batch.digests, strict=True)):
            former = batch.former(row) if batch.counts[arrival.id] == 1 else None
            equal = lasting[text]
            if former is None and (equal is None or follows(equal.verdict, arrival.id)):
                askers.setdefault(text, set()).add(arrival.id)
            elif self._is_compared_later(former) and batch.earlier.column(text) is None:
                kept.add(text)
        wanted = {text: batch.contents[text] for text in (*askers, *kept)}
        batch.columns.update(self._like.columns(wanted))
        batch.empty.update(askers.keys() - batch.columns.keys())
        asked = [text for text in batch.columns if text in askers]
        batch.earlier.compare(batch.contents, batch.columns, asked, self._like)
        queries = [
            Query(
                batch.contents[text],
                next(iter(askers[text])) if len(askers[text]) == 1 else None,
                originals=self._policy.groups,
            )
            for text in asked
        ]
        found = _of_similar_texts(self._store, self._meta, queries, self._policy.limits)
        batch.similar.update(zip(asked, found, strict=True))

    def _lasting(self, batch: Batch, text: str) -> Near | None:
        """Returns a document of an equal text that no document of the batch replaces."""
        if (near := batch.earlier.equal(text, "", but=batch.counts)) is not None:
            return near
        found = self._standing(batch.equal.get(text, ()), "", batch.earlier)
        return next((near for near in found if near.id not in batch.counts), None)

    def _is_compared_later(self, former: Verdict | None) -> bool:
        """Returns True if later documents are compared with one. former: its verdict before."""
        if self._policy.groups:
            return former is not None and former.original is None
        return self._policy.writes

    def _verdict(self, batch: Batch, row: int) -> Verdict:
        """Returns the verdict on a document, and adds the document to the earlier ones."""
        id, text = batch.arrivals[row].id, batch.digests[row]
        verdict = batch.former(row) or self._judged(batch, id, text)
        if self._policy.takes(verdict):
            batch.earlier.add("" if text in batch.empty else text, id, verdict)
        if self._policy.groups:
            batch.known[id] = text, verdict
        return verdict

    def _judged(self, batch: Batch, id: str, text: str) -> Verdict:
        if text in batch.empty:
            return Verdict(id)
        equal = self._standing(batch.equal.get(text, ()), id, batch.earlier)
        if (same := batch.earlier.equal(text, id)) is not None:
            equal.append(same)
        if equal:
            return self._of_equal(equal)
        found, truncated = batch.similar[text]
        near = self._standing(found, id, batch.earlier) + batch.earlier.near(text, id)
        if not near:
            return Verdict(id, truncated=truncated)
        best = min(near, key=lambda each: (self._like.order(each.value), natural(each.id)))
        return self._following(best, truncated=truncated)

    def _of_equal(self, equal: Sequence[Near]) -> Verdict:
        best = min(equal, key=lambda each: (each.verdict.original is not None, natural(each.id)))
        if self._policy.groups and best.verdict.original is not None:
            # Every document of this text gets the same verdict.
            return replace(best.verdict, truncated=False, exact=True)
        return self._following(replace(best, value=self._like.equal), exact=True)

    def _following(self, near: Near, *, truncated: bool = False, exact: bool = False) -> Verdict:
        similarity, distance = self._like.measured(near.value)
        return Verdict(near.verdict.group, near.id, similarity, distance, truncated, exact)

    def _standing(self, found: Iterable[Near], id: str, earlier: Earlier) -> list[Near]:
        """Returns the documents that are still as the store has them and may be the original."""
        return [
            near
            for near in found
            # The store still has the former version of a document of this run.
            if near.id != id
            and near.id not in earlier
            and near.id not in self._doubted
            and not follows(near.verdict, id)
        ]

    def _remember(self, batch: Batch, verdicts: Sequence[Verdict]) -> None:
        written = [row for row, verdict in enumerate(verdicts) if self._policy.takes(verdict)]
        again = {batch.arrivals[row].id for row in written}
        if any(row.id in again for row in (*self._older, *self._recent)):
            self.forget(again)
        latest = {batch.arrivals[row].id: row for row in written}
        for id, at in latest.items():
            text = batch.digests[at]
            column = batch.columns.get(text, batch.earlier.column(text))
            is_empty = column is None and verdicts[at].original is None
            self._recent.append(
                Row(id, batch.arrivals[at].text, verdicts[at], "" if is_empty else text, column)
            )
        if len(self._recent) >= _RECENT_DOCUMENTS or (
            len(self._recent) >= _RECENT_DOCUMENTS // 4
            and sum(len(row.text) for row in self._recent) >= _RECENT_CHARACTERS
        ):
            # Documents before this generation have long been written. Now they are visible too.
            self._store.refresh()
            self._older, self._recent = self._recent, []


def _require_tokens(meta: IndexMeta, policy: DuplicatePolicy) -> None:
    kind, has = ("MinHash", meta.scheme.minhash is not None)
    if policy.metric == "hamming":
        kind, has = ("SimHash", meta.scheme.simhash is not None)
    if not has:
        raise UsageError(
            f"to {policy.action} near-duplicates as they come in needs {kind} tokens, and the index"
            f" has none: keep them, or make an index of a scheme with {kind}"
        )


def _verdicts_of(
    store: Store, meta: IndexMeta, ids: Sequence[str]
) -> dict[str, tuple[str, Verdict]]:
    """Returns the digest and the stored verdict of each document that has a group, by id."""
    paths = {name: f"{meta.field}.{name}" for name in ("digest", *MARKS)}
    found = {}
    for document in store.get(ids, list(paths.values())):
        ours = {name: value_at(document.source, path) for name, path in paths.items()}
        if ours["group"] is not None:
            found[document.id] = ours["digest"] or "", Verdict.stored(document.id, ours)
    return found


def _of_equal_texts(
    store: Store, meta: IndexMeta, texts: Mapping[str, str]
) -> dict[str, list[Near]]:
    """Finds documents of equal texts: by digest, a few of each.

    texts: normalised texts by digest.
    """
    near: dict[str, list[Near]] = {}
    digests = list(texts)
    for first in range(0, len(digests), _DIGESTS_AT_ONCE):
        for candidates in _with_digests(store, meta, digests[first : first + _DIGESTS_AT_ONCE]):
            for digest, text, found in _read(candidates, meta):
                # Somebody may have changed the text since, or another text has the same digest.
                if texts.get(digest) == text:
                    near.setdefault(digest, []).append(found)
    return near


def _with_digests(store: Store, meta: IndexMeta, digests: list[str]) -> Iterator[Candidates]:
    together = CandidateQuery("digest", [digests], field=meta.field)
    (found,) = store.candidates([together], 2 * len(digests))
    if not found.truncated:
        yield found
        return
    # One text of thousands of documents would hide the others.
    for digest in digests:
        yield from store.candidates(
            [CandidateQuery("digest", [[digest]], field=meta.field)], _OF_ONE_TEXT
        )


def _read(candidates: Candidates, meta: IndexMeta) -> Iterator[tuple[str, str, Near]]:
    """Yields the digest and normalised text of each document that has a text."""
    rows, texts = [], []
    for candidate in candidates.found:
        document = candidate.document
        try:
            texts.append(text_of(document.source, meta.text_field))
        except RecordError:
            # Another client's update may have removed the text and left the tokens.
            continue
        ours = document.tokens_in(meta.field)
        rows.append(
            (ours.get("digest", ""), Near(document.id, Verdict.stored(document.id, ours), 0))
        )
    normalised = normalise(texts, meta.scheme.normalisation)
    for (digest, near), text in zip(rows, normalised, strict=True):
        yield digest, text, near


def _of_similar_texts(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[tuple[list[Near], bool]]:
    """Returns for each query the similar documents, and whether candidates were left out."""
    answers = []
    for result in similar(store, meta, queries, limits):
        near = []
        for match in result.matches:
            verdict = Verdict.stored(match.id, tokens_in(match.source, meta.field))
            value = match.similarity if match.distance is None else match.distance
            near.append(Near(match.id, verdict, value or 0.0))
        answers.append((near, result.truncated or result.blind))
    return answers
