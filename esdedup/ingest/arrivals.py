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

SimilarityOrDistance = tuple[float | None, int | None]
"""A Jaccard similarity and a Hamming distance in bits, of which one is None."""


@dataclass(frozen=True)
class Original:
    """An earlier document that a new one resembles or equals.

    id: of the document.
    digest: of its text.
    verdict: on the document itself.
    values: how near it is to the new one.
    """

    id: str
    digest: str
    verdict: Verdict
    values: SimilarityOrDistance = (None, None)


class Originals:
    """Finds the originals of the documents of one run, batch by batch.

    A document never follows one that was judged different from it, nor one in the group of that
    one.

    store: of the earlier documents.
    current: returns the index's meta, which may change during the run.
    policy: what is a near-duplicate, and what happens to it.

    Raises UsageError if the index lacks the policy's sketch.
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
        """Return a verdict for each document of a batch.

        again: the stored verdicts on these documents are wrong.
        """
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
        groups = {self._group_of.get(other_id) for other_id in apart}
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
        for judgement in read_judgements(self.store, meta).of("different"):
            ids = judgement.left, judgement.right
            for id, digest, other_id in zip(ids, judgement.digests, reversed(ids), strict=True):
                self._apart[id, digest].add(other_id)
        judged, path = [*{id for id, _ in self._apart}], f"{meta.marks_field}.group"
        self._group_of: dict[str, str | None] = dict.fromkeys(judged)
        for document in self.store.get(judged, [path]) if judged else ():
            self._group_of[document.id] = value_in(document.source, path)


_NaturalId = tuple[tuple[str | tuple[int, str], ...], str]


def _representatives_first(original: Original) -> tuple[bool, _NaturalId]:
    """Return a key that orders originals: representatives first, then by id."""
    return original.verdict.original is not None, natural(original.id)


def _nearest_first(original: Original) -> tuple[float, _NaturalId]:
    """Return a key that orders originals: the nearest first, then by id."""
    similarity, distance = original.values
    # One of them is None: the other one decides.
    return distance or -(similarity or 0), natural(original.id)


class _Arrivals:
    """Documents that arrive together. Texts are named by their digests.

    former: former digest and verdict of each id.
    last: the last text of each id.
    near: stored documents similar to a text, and whether some may be missing.
    written: verdicts on the documents written so far, by text.
    outdated: ids whose stored verdicts are not those of now.
    gone: ids of originals that stored documents are marked with, and that do not exist any more.
    """

    def __init__(
        self, run: Originals, ids: Sequence[str], texts: Sequence[str], doubted: Iterable[str]
    ) -> None:
        self.run, self.policy, self.meta, self.ids = run, run.policy, run.meta, ids
        normalised, self.digests = normalised_digests(texts, self.meta.scheme.normalisation)
        self.contents = dict(zip(self.digests, normalised, strict=True))
        self.last = dict(zip(ids, self.digests, strict=True))
        self.former = self._former_verdicts() if self.policy.groups and not doubted else {}
        self.gone: set[str] = set()
        self.equal = self._of_equal_texts()
        self.peers = _Peers(self.contents, self.meta.scheme, self.policy.limits)
        self.near: dict[str, tuple[list[Original], bool]] = {}
        self.outdated = {*doubted}
        self.written: dict[str, dict[str, Verdict]] = defaultdict(dict)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdict on each document, adding each to the earlier ones."""
        for row, (id, digest) in enumerate(zip(self.ids, self.digests, strict=True)):
            if row % QUERIES_AT_ONCE == 0:
                block = range(row, min(row + QUERIES_AT_ONCE, len(self.ids)))
                self.near = self._stored_near([*filter(self._needs_search, block)])
            verdict = self._former(row) or self._judged(row)
            if self.policy.takes(verdict):
                self.run.note(id, verdict)
                self.outdated.add(id)
                self.written[digest][id] = verdict
                if not self.policy.groups or verdict.original is None:
                    self.peers.add(digest)
            if self.policy.groups:
                self.former[id] = digest, verdict
            yield verdict

    def _needs_search(self, row: int) -> bool:
        """Return whether neither an earlier run nor an equal text decides on a document."""
        return not (self._former(row) or self._equal(row))

    def _former_verdicts(self) -> dict[str, tuple[str, Verdict]]:
        """Return the former digest and verdict of each document that has a group, by id."""
        meta = self.meta
        paths = [*meta.digest_paths, *(f"{meta.marks_field}.{name}" for name in MARKS)]
        former = {}
        for document in self.run.store.get(list(self.last), paths):
            ours = meta.ours_in(document.source)
            if ours.get("group") is not None:
                former[document.id] = ours.get("digest") or "", Verdict.stored(document.id, ours)
        return former

    def _former(self, row: int) -> Verdict | None:
        """Return the former verdict on a document, if it came before with the same text."""
        id, digest = self.ids[row], self.digests[row]
        former_digest, verdict = self.former.get(id, ("", None))
        is_unchanged = (
            verdict and former_digest == digest and self.run.may_have(id, digest, verdict)
        )
        return verdict if is_unchanged else None

    def _of_equal_texts(self) -> dict[str, list[Original]]:
        """Find stored documents of equal texts, by the digests of the texts."""
        originals: dict[str, list[Original]] = {}
        texts = [*filter(None, self.contents.values())]
        chosen = self.meta.scheme.chosen(self.policy.limits)
        sketches = sketch(texts, self.meta.scheme.only(chosen))
        queries = [Query(text, marked=True) for text in texts]
        queries_of_texts = equal_text_queries(self.meta, chosen, sketches, queries)
        for first in range(0, len(queries_of_texts), QUERIES_AT_ONCE):
            page = queries_of_texts[first : first + QUERIES_AT_ONCE]
            for candidates in self.run.store.candidates(page, self.policy.candidates):
                for document, text in with_texts(self.meta, candidates):
                    original = self._stored(document)
                    # Another client may have changed the text, or another text has this digest.
                    if self.contents.get(original.digest) == text:
                        originals.setdefault(original.digest, []).append(original)
        self._look_for_originals(itertools.chain.from_iterable(originals.values()))
        return originals

    def _look_for_originals(self, stored: Iterable[Original]) -> None:
        """Note which of the originals that stored documents are marked with are gone."""
        names = {original.verdict.original for original in stored if self.policy.writes}
        ids = sorted(id for id in names if id is not None and id not in self.last)
        if ids:
            self.gone.update(ids)
            self.gone.difference_update(document.id for document in self.run.store.get(ids, []))

    def _is_bereft(self, original: Original) -> bool:
        """Return whether a document is marked as the duplicate of one that is gone."""
        return original.verdict.original in self.gone

    def _stored(
        self, document: Document | Match, values: SimilarityOrDistance = (None, None)
    ) -> Original:
        fields = self.meta.ours_in(document.source)
        verdict = Verdict.stored(document.id, fields)
        return Original(document.id, fields.get("digest", ""), verdict, values)

    def _equal(self, row: int) -> list[Original]:
        """Return the documents of an equal text that a document may follow."""
        id, digest = self.ids[row], self.digests[row]
        may_follow = partial(self._may_follow, id, digest)
        candidates = filter(may_follow, self._now(self.equal.get(digest, ())))
        originals = itertools.filterfalse(self._is_bereft, candidates)
        return [*originals, *self._first(digest, may_follow)]

    def _leading(
        self, row: int, similar: Iterable[Original] = (), truncated: bool = False
    ) -> Verdict:
        """Return the verdict on a document that follows none.

        If all that it resembles are duplicates of a document that is gone, it takes the place of
        that one in their group: they are hidden, and the group needs a document that is not.
        """
        id, may_follow = self.ids[row], partial(self._may_follow, self.ids[row], self.digests[row])
        originals = [*self._now(self.equal.get(self.digests[row], ())), *similar]
        for original in filter(may_follow, filter(self._is_bereft, originals)):
            return Verdict(original.verdict.group, truncated=truncated)
        return Verdict(id, truncated=truncated)

    def _judged(self, row: int) -> Verdict:
        id, digest = self.ids[row], self.digests[row]
        if digest == NO_TEXT:
            return Verdict(id)
        if equals := self._equal(row):
            nearest = min(equals, key=_representatives_first)
            if self.policy.groups and nearest.verdict.original is not None:
                # Every document of this text gets the same verdict.
                return replace(nearest.verdict, truncated=False, exact=True)
            values: SimilarityOrDistance = self.peers.measure.marks(self.peers.measure.equal)
            return Verdict(nearest.verdict.group, nearest.id, *values, exact=True)
        if digest not in self.peers:
            return self._leading(row)
        if digest not in self.near:
            # Its equal document was replaced within the block.
            self.near |= self._stored_near([row])
        stored, some_stored_missing = self.near[digest]
        may_lead = partial(self._may_lead, id, digest)
        stored = [*filter(may_lead, self._now(stored))]
        originals = [*itertools.filterfalse(self._is_bereft, stored)]
        peers, some_peers_missing = self.peers.near(digest)
        for peer, values in peers:
            originals += self._first(peer, may_lead, values)
        truncated = some_stored_missing or some_peers_missing
        if not originals:
            return self._leading(row, stored, truncated)
        nearest = min(originals, key=_nearest_first)
        return Verdict(nearest.verdict.group, nearest.id, *nearest.values, truncated)

    def _may_follow(self, id: str, digest: str, original: Original) -> bool:
        """Return False if a document can't be the duplicate of another one."""
        if id in (original.id, original.verdict.group, original.verdict.original):
            return False
        if self.last.get(original.id, original.digest) != original.digest:
            return False  # The batch replaces that text.
        apart = self.run.apart(id, digest)
        return original.id not in apart and self.run.may_have(id, digest, original.verdict)

    def _may_lead(self, id: str, digest: str, original: Original) -> bool:
        """Return False if a document can't be the duplicate of a similar one."""
        is_member = self.policy.groups and original.verdict.original is not None
        return not is_member and self._may_follow(id, digest, original)

    def _now(self, originals: Iterable[Original]) -> list[Original]:
        """Return stored documents as they are after the documents that were written so far."""
        return [
            replace(original, verdict=written.get(original.id, original.verdict))
            for original in originals
            for written in [self.written[original.digest]]
            if original.id in written or original.id not in self.outdated
        ]

    def _first(
        self,
        digest: str,
        may_follow: Callable[[Original], bool],
        values: SimilarityOrDistance = (None, None),
    ) -> list[Original]:
        """Return the first written document of a text that may be followed, or nothing."""
        verdicts = self.written[digest].items()
        originals = (Original(id, digest, verdict, values) for id, verdict in verdicts)
        return [*itertools.islice(filter(may_follow, originals), 1)]

    def _stored_near(self, rows: Sequence[int]) -> dict[str, tuple[list[Original], bool]]:
        """Return the stored documents similar to the texts, and whether some may be missing."""
        texts = dict.fromkeys(self.digests[row] for row in rows)
        digests = [text for text in texts if text in self.peers]
        queries = [
            Query(self.contents[digest], originals=self.policy.groups, marked=True)
            for digest in digests
        ]
        originals: dict[str, tuple[list[Original], bool]] = {}
        results = similar(self.run.store, self.meta, queries, self.policy.limits)
        for digest, result in zip(digests, results, strict=True):
            similar_documents = [
                self._stored(match, (match.similarity, match.distance)) for match in result.matches
            ]
            originals[digest] = similar_documents, result.truncated or result.blind
        # One request for all of them.
        all_similar = (similar_documents for similar_documents, _ in originals.values())
        self._look_for_originals(itertools.chain.from_iterable(all_similar))
        return originals


class _Peers:
    """Compares texts of one batch, by their digests, with those that were added.

    Sets are compared with at most `candidates` others, which share the most bands; fingerprints
    with all. Texts without any shingle are left out.
    """

    def __init__(self, texts: Mapping[str, str], scheme: Scheme, limits: Limits) -> None:
        chosen = scheme.for_pairs(limits).for_texts(limits)
        self.measure = chosen.measure
        self.by_sets = self.measure.compares == "shingles"
        sketches = sketch([*texts.values()], scheme.only(chosen), with_shingles=self.by_sets)
        self._limits, self._chosen = limits, chosen
        self._digests = [*texts]
        rows = enumerate(zip(texts, sketches.filled.tolist(), strict=True))
        self._rows = {digest: row for row, (digest, is_filled) in rows if is_filled}
        self._values, self._sets = sketches.values[chosen.name], sketches.shingles
        self._added: dict[int, None] = {}
        self._members: dict[int, list[int]] = defaultdict(list)
        self._buckets: list[list[int]] = [[] for _ in texts]
        for position in range(chosen.tokens if self.by_sets else 0):
            column = bucket_column(self._values[:, position])
            firsts = (column.first.astype(np.int64) * chosen.tokens + position).tolist()
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

    def near(self, digest: str) -> tuple[list[tuple[str, SimilarityOrDistance]], bool]:
        """Return the added texts similar to a text, and whether more shared a band."""
        row = self._rows[digest]
        return self._near_sets(row) if self.by_sets else (self._near_fingerprints(row), False)

    def _near_fingerprints(self, row: int) -> list[tuple[str, SimilarityOrDistance]]:
        """Return the added texts within the distance of a text."""
        rows = np.array([added for added in self._added if added != row], np.int64)
        distances = hamming(self._values[rows], self._values[row][None, :])
        is_near = distances <= self._chosen.max_distance(self._limits)
        pairs = zip(rows[is_near].tolist(), distances[is_near].tolist(), strict=True)
        return [(self._digests[near_row], (None, distance)) for near_row, distance in pairs]

    def _near_sets(self, row: int) -> tuple[list[tuple[str, SimilarityOrDistance]], bool]:
        """Return the added texts at the threshold, and whether more shared a band."""
        limit = self._limits.candidates
        members = [self._members[bucket][: limit + 1] for bucket in self._buckets[row]]
        shared_bands = Counter(itertools.chain.from_iterable(members))
        shared_bands.pop(row, None)
        if not shared_bands:
            return [], False
        assert self._sets is not None
        rows = [candidate for candidate, _ in shared_bands.most_common(limit)]
        values = jaccard_with(self._sets[row], self._sets.of(np.array(rows))).tolist()
        peers: list[tuple[str, SimilarityOrDistance]] = [
            (self._digests[candidate], (similarity, None))
            for candidate, similarity in zip(rows, values, strict=True)
            if similarity >= self._limits.least_similarity
        ]
        return peers, len(shared_bands) > limit
