"""Find the earlier document that each arriving document resembles.

Documents of earlier batches are in the store, those of the same batch are compared in memory: the
later one is the duplicate. Equal texts are found first, as documents that share all tokens.

Grouping is the leader algorithm (Hartigan, "Clustering Algorithms", Wiley 1975, chapter 3), but a
document joins the nearest representative instead of the first one that is near enough.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.ingest.policies import DuplicatePolicy, Verdict
from esdedup.models import MARKS, Document, Match, Query, natural, value_in
from esdedup.search.buckets import bucket_column
from esdedup.search.candidates import equal_text_queries
from esdedup.search.similar import similar, with_texts
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, normalised_digests, sketch
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.judgements import read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.text.jaccard import hamming, jaccard_with

Measure = tuple[float | None, int | None]
"""A Jaccard similarity and a Hamming distance in bits, of which one is None."""


@dataclass(frozen=True)
class Original:
    """An earlier document that a new one resembles or equals. digest: of its text."""

    id: str
    digest: str
    verdict: Verdict
    measure: Measure = (None, None)


class Originals:
    """Finds the originals of the documents of one run, batch by batch.

    A document never follows one that was judged different from it, nor one in the group of that
    one. current: returns the index's meta, which may change during the run. Raises UsageError if
    the index lacks the policy's sketch.
    """

    def __init__(
        self, store: Store, current: Callable[[], IndexMeta], policy: DuplicatePolicy
    ) -> None:
        self.store, self.policy, self._current = store, policy, current
        self.meta = current()
        self._read_judgements(self.meta)

    def find(
        self, ids: Sequence[str], texts: Sequence[str], *, again: bool = False
    ) -> list[Verdict]:
        """Return a verdict for each document of a batch. again: the stored verdicts are wrong."""
        if not ids:
            return []
        # Searches must see the batch before, and documents that a killed run wrote.
        self.store.refresh()
        meta = self._current()
        if meta.scheme.id != self.meta.scheme.id:
            self._read_judgements(meta)
        self.meta = meta
        return [*_Arrivals(self, ids, texts, ids if again else ()).verdicts()]

    def apart(self, id: str, digest: str) -> set[str]:
        """Return the ids of documents that a document of this text was judged different from."""
        return self._apart.get((id, digest), set())

    def may_have(self, id: str, digest: str, verdict: Verdict) -> bool:
        """Return False if a document was judged different from those that a verdict names."""
        apart = self.apart(id, digest)
        groups = {self._group_of.get(each) for each in apart}
        return apart.isdisjoint((verdict.group, verdict.original)) and verdict.group not in groups

    def note(self, id: str, verdict: Verdict) -> None:
        """Note the group of a document that is written, if it was judged."""
        if self.policy.writes and id in self._group_of:
            self._group_of[id] = verdict.group

    def _read_judgements(self, meta: IndexMeta) -> None:
        """Read the judgements, and the groups that the judged documents have now."""
        chosen = meta.scheme.for_pairs(self.policy.limits)
        if chosen.varies:
            raise UsageError(f"duplicates are not found by {chosen.name!r}: use another sketch")
        self._apart: dict[tuple[str, str], set[str]] = defaultdict(set)
        for each in read_judgements(self.store, meta).of("different"):
            ids = each.left, each.right
            for id, digest, other in zip(ids, each.digests, reversed(ids), strict=True):
                self._apart[id, digest].add(other)
        judged, path = [*{id for id, _ in self._apart}], f"{meta.marks_field}.group"
        self._group_of: dict[str, str | None] = dict.fromkeys(judged)
        for document in self.store.get(judged, [path]) if judged else ():
            self._group_of[document.id] = value_in(document.source, path)


class _Arrivals:
    """Documents that arrive together. Texts are named by their digests.

    known: former digest and verdict of each id. last: the last text of each id. near: stored
    documents similar to a text, and whether some may be missing. written: verdicts on the documents
    written so far, by text. outdated: ids whose stored verdicts are not those of now. gone: ids of
    originals that stored documents are marked with, and that do not exist any more.
    """

    def __init__(
        self, run: Originals, ids: Sequence[str], texts: Sequence[str], doubted: Iterable[str]
    ) -> None:
        self.run, self.policy, self.meta, self.ids = run, run.policy, run.meta, ids
        normalised, self.digests = normalised_digests(texts, self.meta.scheme.normalisation)
        self.contents = dict(zip(self.digests, normalised, strict=True))
        self.last = dict(zip(ids, self.digests, strict=True))
        self.known = self._known() if self.policy.groups and not doubted else {}
        self.gone: set[str] = set()
        self.equal = self._of_equal_texts()
        self.peers = _Peers(self.contents, self.meta.scheme, self.policy.limits)
        self.near: dict[str, tuple[list[Original], bool]] = {}
        self.outdated = {*doubted}
        self.written: dict[str, dict[str, Verdict]] = defaultdict(dict)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdict on each document, adding each to the earlier ones."""
        for row, (id, text) in enumerate(zip(self.ids, self.digests, strict=True)):
            if row % QUERIES_AT_ONCE == 0:
                block = range(row, min(row + QUERIES_AT_ONCE, len(self.ids)))
                self.near = self._stored_near(
                    [each for each in block if not (self._former(each) or self._equal(each))]
                )
            verdict = self._former(row) or self._judged(row)
            if self.policy.takes(verdict):
                self.run.note(id, verdict)
                self.outdated.add(id)
                self.written[text][id] = verdict
                if not self.policy.groups or verdict.original is None:
                    self.peers.add(text)
            if self.policy.groups:
                self.known[id] = text, verdict
            yield verdict

    def _known(self) -> dict[str, tuple[str, Verdict]]:
        """Return the former digest and verdict of each document that has a group, by id."""
        meta = self.meta
        paths = [*meta.digest_paths, *(f"{meta.marks_field}.{name}" for name in MARKS)]
        known = {}
        for document in self.run.store.get(list(self.last), paths):
            ours = meta.ours_in(document.source)
            if ours.get("group") is not None:
                known[document.id] = ours.get("digest") or "", Verdict.stored(document.id, ours)
        return known

    def _former(self, row: int) -> Verdict | None:
        """Return the former verdict on a document, if it came before with the same text."""
        id, digest = self.ids[row], self.digests[row]
        text, verdict = self.known.get(id, ("", None))
        kept = verdict and text == digest and self.run.may_have(id, digest, verdict)
        return verdict if kept else None

    def _of_equal_texts(self) -> dict[str, list[Original]]:
        """Find stored documents of equal texts, by the digests of the texts."""
        near: dict[str, list[Original]] = {}
        texts = [*filter(None, self.contents.values())]
        chosen = self.meta.scheme.chosen(self.policy.limits)
        sketches = sketch(texts, self.meta.scheme.only(chosen))
        queries = [Query(text, marked=True) for text in texts]
        wanted = equal_text_queries(self.meta, chosen, sketches, queries)
        for first in range(0, len(wanted), QUERIES_AT_ONCE):
            some = wanted[first : first + QUERIES_AT_ONCE]
            for found in self.run.store.candidates(some, self.policy.candidates):
                for document, text in with_texts(self.meta, found):
                    one = self._stored(document)
                    # Another client may have changed the text, or another text has this digest.
                    if self.contents.get(one.digest) == text:
                        near.setdefault(one.digest, []).append(one)
        self._look_for_originals(itertools.chain.from_iterable(near.values()))
        return near

    def _look_for_originals(self, found: Iterable[Original]) -> None:
        """Note which of the originals that stored documents are marked with are gone."""
        named = {near.verdict.original for near in found if self.policy.writes}
        wanted = sorted(id for id in named if id is not None and id not in self.last)
        if wanted:
            self.gone.update(wanted)
            self.gone.difference_update(one.id for one in self.run.store.get(wanted, []))

    def _is_bereft(self, near: Original) -> bool:
        """Return whether a document is marked as the duplicate of one that is gone."""
        return near.verdict.original in self.gone

    def _stored(self, found: Document | Match, measure: Measure = (None, None)) -> Original:
        ours = self.meta.ours_in(found.source)
        return Original(found.id, ours.get("digest", ""), Verdict.stored(found.id, ours), measure)

    def _equal(self, row: int) -> list[Original]:
        """Return the documents of an equal text that a document may follow."""
        id, text = self.ids[row], self.digests[row]
        may_follow = partial(self._may_follow, id, text)
        stored = filter(may_follow, self._now(self.equal.get(text, ())))
        live = itertools.filterfalse(self._is_bereft, stored)
        return [*live, *self._first(text, may_follow)]

    def _leading(self, row: int, near: Iterable[Original] = (), truncated: bool = False) -> Verdict:
        """Return the verdict on a document that follows none.

        If all that it resembles are duplicates of a document that is gone, it takes the place of
        that one in their group: they are hidden, and the group needs a document that is not.
        """
        id, may_follow = self.ids[row], partial(self._may_follow, self.ids[row], self.digests[row])
        alike = [*self._now(self.equal.get(self.digests[row], ())), *near]
        for one in filter(may_follow, filter(self._is_bereft, alike)):
            return Verdict(one.verdict.group, truncated=truncated)
        return Verdict(id, truncated=truncated)

    def _judged(self, row: int) -> Verdict:
        id, text = self.ids[row], self.digests[row]
        if text == NO_TEXT:
            return Verdict(id)
        if equal := self._equal(row):
            best = min(equal, key=lambda one: (one.verdict.original is not None, natural(one.id)))
            if self.policy.groups and best.verdict.original is not None:
                # Every document of this text gets the same verdict.
                return replace(best.verdict, truncated=False, exact=True)
            measure: Measure = self.peers.measure.marks(self.peers.measure.equal)
            return Verdict(best.verdict.group, best.id, *measure, exact=True)
        if text not in self.peers:
            return self._leading(row)
        if text not in self.near:
            # Its equal document was replaced within the block.
            self.near |= self._stored_near([row])
        stored, truncated = self.near[text]
        may_lead = partial(self._may_lead, id, text)
        stored = [*filter(may_lead, self._now(stored))]
        near = [*itertools.filterfalse(self._is_bereft, stored)]
        peers, more = self.peers.near(text)
        for other, measure in peers:
            near += self._first(other, may_lead, measure)
        truncated = truncated or more
        if not near:
            return self._leading(row, stored, truncated)
        # One part of a measure is None: the other one decides.
        best = min(
            near, key=lambda one: (one.measure[1] or -(one.measure[0] or 0), natural(one.id))
        )
        return Verdict(best.verdict.group, best.id, *best.measure, truncated)

    def _may_follow(self, id: str, text: str, near: Original) -> bool:
        """Return False if a document can't be the duplicate of another one."""
        if id in (near.id, near.verdict.group, near.verdict.original):
            return False
        if self.last.get(near.id, near.digest) != near.digest:
            return False  # The batch replaces that text.
        apart = self.run.apart(id, text)
        return near.id not in apart and self.run.may_have(id, text, near.verdict)

    def _may_lead(self, id: str, text: str, near: Original) -> bool:
        """Return False if a document can't be the duplicate of a similar one."""
        is_member = self.policy.groups and near.verdict.original is not None
        return not is_member and self._may_follow(id, text, near)

    def _now(self, found: Iterable[Original]) -> list[Original]:
        """Return stored documents as they are after the documents that were written so far."""
        return [
            replace(near, verdict=self.written[near.digest].get(near.id, near.verdict))
            for near in found
            if near.id in self.written[near.digest] or near.id not in self.outdated
        ]

    def _first(
        self, text: str, may_follow: Callable[[Original], bool], measure: Measure = (None, None)
    ) -> list[Original]:
        """Return the first written document of a text that may be followed, or nothing."""
        found = (Original(id, text, one, measure) for id, one in self.written[text].items())
        return [*itertools.islice(filter(may_follow, found), 1)]

    def _stored_near(self, rows: Sequence[int]) -> dict[str, tuple[list[Original], bool]]:
        """Return the stored documents similar to the texts, and whether some may be missing."""
        asked = [text for text in {self.digests[row]: None for row in rows} if text in self.peers]
        wanted = partial(Query, originals=self.policy.groups, marked=True)
        queries = [wanted(self.contents[text]) for text in asked]
        near = {}
        results = similar(self.run.store, self.meta, queries, self.policy.limits)
        for text, result in zip(asked, results, strict=True):
            found = [
                self._stored(each, (each.similarity, each.distance)) for each in result.matches
            ]
            near[text] = found, result.truncated or result.blind
        self._look_for_originals(itertools.chain.from_iterable(each for each, _ in near.values()))
        return near


class _Peers:
    """Compares texts of one batch, by their digests, with those that were added.

    Sets are compared with at most `candidates` others, which share the most bands; fingerprints
    with all. Texts without any shingle are left out.
    """

    def __init__(self, texts: Mapping[str, str], scheme: Scheme, limits: Limits) -> None:
        chosen = scheme.for_pairs(limits).for_texts(limits)
        self.measure = chosen.measure
        self.by_sets = self.measure.compares == "shingles"
        made = sketch([*texts.values()], scheme.only(chosen), with_shingles=self.by_sets)
        self._limits, self._chosen = limits, chosen
        self._digests = [*texts]
        rows = enumerate(zip(texts, made.filled.tolist(), strict=True))
        self._rows = {digest: row for row, (digest, is_filled) in rows if is_filled}
        self._values, self._sets = made.values[chosen.name], made.shingles
        self._added: dict[int, None] = {}
        self._members: dict[int, list[int]] = defaultdict(list)
        self._buckets: list[list[int]] = [[] for _ in texts]
        for at in range(chosen.tokens if self.by_sets else 0):
            column = bucket_column(self._values[:, at])
            firsts = (column.first.astype(np.int64) * chosen.tokens + at).tolist()
            for row, bucket in zip(column.rows.tolist(), firsts, strict=True):
                self._buckets[row].append(bucket)

    def __contains__(self, digest: str) -> bool:
        return digest in self._rows

    def add(self, digest: str) -> None:
        """Compare later texts with this one."""
        row = self._rows.get(digest)
        if row is not None and row not in self._added:
            self._added[row] = None
            for bucket in self._buckets[row]:
                self._members[bucket].append(row)

    def near(self, digest: str) -> tuple[list[tuple[str, Measure]], bool]:
        """Return the added texts similar to a text, and whether more shared a band."""
        own, most = self._rows[digest], self._limits.candidates
        if not self.by_sets:
            rows = np.array([row for row in self._added if row != own], np.int64)
            apart = hamming(self._values[rows], self._values[own][None, :])
            close = apart <= self._chosen.max_distance(self._limits)
            found = zip(rows[close].tolist(), apart[close].tolist(), strict=True)
            return [(self._digests[row], (None, value)) for row, value in found], False
        members = [self._members[bucket] for bucket in self._buckets[own]]
        shared = Counter(itertools.chain.from_iterable(each[: most + 1] for each in members))
        shared.pop(own, None)
        if not shared:
            return [], False
        assert self._sets is not None
        chosen = [row for row, _ in shared.most_common(most)]
        values = jaccard_with(self._sets[own], self._sets.of(np.array(chosen))).tolist()
        near: list[tuple[str, Measure]] = [
            (self._digests[row], (value, None))
            for row, value in zip(chosen, values, strict=True)
            if value >= self._limits.least_similarity
        ]
        return near, len(shared) > most
