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
from esdedup.text.arrays import U64


@dataclass(frozen=True)
class Original:
    """An earlier document that a new one resembles or equals.

    id: of the document.
    digest: of its text.
    verdict: on the document itself.
    value: how similar it is to the new one, by the measure of the policy; None if the texts are
        equal.
    """

    id: str
    digest: str
    verdict: Verdict
    value: float | None = None


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
        if chosen.varies or chosen.measure.directed:
            raise UsageError(f"duplicates are not found by {chosen.name!r}: use another sketch")
        self._apart: dict[tuple[str, str], set[str]] = defaultdict(set)
        for judgement in read_judgements(self.store, meta).of("different"):
            ids = judgement.left, judgement.right
            for id, digest, other_id in zip(ids, judgement.digests, reversed(ids), strict=True):
                self._apart[id, digest].add(other_id)
        judged = [*{id for id, _ in self._apart}]
        path = f"{meta.marks_field}.group"
        self._group_of: dict[str, str | None] = dict.fromkeys(judged)
        for document in self.store.get(judged, [path]) if judged else ():
            self._group_of[document.id] = value_in(document.source, path)


_NaturalId = tuple[tuple[str | tuple[int, str], ...], str]


def _representatives_first(original: Original) -> tuple[bool, _NaturalId]:
    """Return a key that orders originals: representatives first, then by id."""
    return original.verdict.original is not None, natural(original.id)


@dataclass(frozen=True)
class _StoredNear:
    """The stored documents that are similar to a text.

    originals: these documents, with their values.
    is_truncated: whether some may be missing.
    """

    originals: list[Original]
    is_truncated: bool


class _Arrivals:
    """Documents that arrive together. Texts are named by their digests.

    former: former digest and verdict of each id.
    last: the last text of each id.
    equal: stored documents of each text.
    peers: the texts of the batch.
    measure: by which texts are compared.
    near: stored documents that are similar to a text.
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
        self.measure = self.peers.measure
        self.near: dict[str, _StoredNear] = {}
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
        if verdict is None or former_digest != digest:
            return None
        return verdict if self.run.may_have(id, digest, verdict) else None

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

    def _stored(self, document: Document | Match, value: float | None = None) -> Original:
        """Return a stored document as an original, with its verdict."""
        fields = self.meta.ours_in(document.source)
        verdict = Verdict.stored(document.id, fields)
        return Original(document.id, fields.get("digest", ""), verdict, value)

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
        """Return the verdict on a document that no earlier run decided on."""
        id, digest = self.ids[row], self.digests[row]
        if digest == NO_TEXT:
            return Verdict(id)
        if equals := self._equal(row):
            return self._following_equal(equals)
        if digest not in self.peers:
            return self._leading(row)
        return self._following_similar(row)

    def _following_equal(self, equals: Iterable[Original]) -> Verdict:
        """Return the verdict on a document that has the text of earlier ones."""
        original = min(equals, key=_representatives_first)
        if self.policy.groups and original.verdict.original is not None:
            # Every document of this text gets the same verdict.
            return replace(original.verdict, truncated=False, exact=True)
        marks = self.measure.marks(self.measure.equal)
        return Verdict(original.verdict.group, original.id, *marks, exact=True)

    def _following_similar(self, row: int) -> Verdict:
        """Return the verdict on a document by those of similar texts, if there are any."""
        digest = self.digests[row]
        if digest not in self.near:
            # Its equal document was replaced within the block.
            self.near |= self._stored_near([row])
        stored_near, peers = self.near[digest], self.peers.near(digest)
        may_lead = partial(self._may_lead, self.ids[row], digest)
        stored = [*filter(may_lead, self._now(stored_near.originals))]
        originals = [*itertools.filterfalse(self._is_bereft, stored)]
        for peer_digest, value in peers.values.items():
            originals += self._first(peer_digest, may_lead, value)
        is_truncated = stored_near.is_truncated or peers.is_truncated
        if not originals:
            return self._leading(row, stored, is_truncated)
        nearest = min(originals, key=self._nearest_first)
        assert nearest.value is not None
        marks = self.measure.marks(nearest.value)
        return Verdict(nearest.verdict.group, nearest.id, *marks, is_truncated)

    def _nearest_first(self, original: Original) -> tuple[float, _NaturalId]:
        """Return a key that orders similar originals: the nearest first, then by id."""
        assert original.value is not None
        return -self.measure.nearness(original.value), natural(original.id)

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
        current = []
        for original in originals:
            written = self.written[original.digest]
            if original.id in written:
                current.append(replace(original, verdict=written[original.id]))
            elif original.id not in self.outdated:
                current.append(original)
        return current

    def _first(
        self,
        digest: str,
        may_follow: Callable[[Original], bool],
        value: float | None = None,
    ) -> list[Original]:
        """Return the first written document of a text that may be followed, or nothing."""
        verdicts = self.written[digest].items()
        originals = (Original(id, digest, verdict, value) for id, verdict in verdicts)
        return [*itertools.islice(filter(may_follow, originals), 1)]

    def _stored_near(self, rows: Sequence[int]) -> dict[str, _StoredNear]:
        """Return the stored documents that are similar to the texts of rows, by digest."""
        distinct_digests = dict.fromkeys(self.digests[row] for row in rows)
        digests = [digest for digest in distinct_digests if digest in self.peers]
        queries = [
            Query(self.contents[digest], originals=self.policy.groups, marked=True)
            for digest in digests
        ]
        results = similar(self.run.store, self.meta, queries, self.policy.limits)
        near = {}
        for digest, result in zip(digests, results, strict=True):
            originals = [self._stored(match, match.value) for match in result.matches]
            near[digest] = _StoredNear(originals, result.truncated or result.blind)
        # One request for all of them.
        originals_of_texts = (stored_near.originals for stored_near in near.values())
        self._look_for_originals(itertools.chain.from_iterable(originals_of_texts))
        return near


@dataclass(frozen=True)
class _NearPeers:
    """The texts of a batch that are similar to another one.

    values: of the similar texts, by their digests.
    is_truncated: whether more texts shared a band than were compared.
    """

    values: Mapping[str, float]
    is_truncated: bool = False


class _Peers:
    """Compares texts of one batch, by their digests, with those that were added.

    A text is compared with at most `candidates` others, which share the most bands, unless stored
    values are compared: these are compared with all. Texts without any shingle are left out.

    measure: by which texts are compared.
    """

    def __init__(self, texts: Mapping[str, str], scheme: Scheme, limits: Limits) -> None:
        chosen = scheme.for_pairs(limits).for_texts(limits)
        self.measure = chosen.measure
        self._comparison = chosen.comparison(limits)
        self._least = self.measure.nearness(self.measure.limit_of(chosen.settled(limits)))
        # Stored values are compared with those of all others.
        self._most_compared = len(texts) if self.measure.by_values else limits.candidates
        sketches = sketch([*texts.values()], scheme.only(chosen), comparison=self._comparison)
        self._operands = sketches.operands_of(chosen)
        self._digests = [*texts]
        rows = enumerate(zip(texts, sketches.filled.tolist(), strict=True))
        self._rows = {digest: row for row, (digest, is_filled) in rows if is_filled}
        self._added: dict[int, None] = {}
        self._members: dict[int, list[int]] = defaultdict(list)
        self._buckets: list[list[int]] = [[] for _ in texts]
        if not self.measure.by_values:
            self._fill_buckets(sketches.values[chosen.name])

    def _fill_buckets(self, bands: U64) -> None:
        """Note the buckets of each text, by numbers. bands: shape (texts, positions)."""
        positions = bands.shape[1]
        for position in range(positions):
            column = bucket_column(bands[:, position])
            buckets = (column.first.astype(np.int64) * positions + position).tolist()
            for row, bucket in zip(column.rows.tolist(), buckets, strict=True):
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

    def near(self, digest: str) -> _NearPeers:
        """Return the added texts that are similar to a text."""
        row = self._rows[digest]
        if self.measure.by_values:
            candidates = [added for added in self._added if added != row]
        else:
            candidates = self._sharing_bands(row)
        compared = np.array(candidates[: self._most_compared], np.int64)
        if not compared.size:
            return _NearPeers({})
        (nearness,) = self._comparison.nearness_to(self._operands[row], self._operands[compared])
        is_near = nearness >= self._least
        near_rows, near = compared[is_near].tolist(), nearness[is_near].tolist()
        values = {
            self._digests[near_row]: self.measure.value_of(value)
            for near_row, value in zip(near_rows, near, strict=True)
        }
        return _NearPeers(values, compared.size < len(candidates))

    def _sharing_bands(self, row: int) -> list[int]:
        """Return the added texts that share bands with a text, the most bands first.

        They are all of them only if there are no more than can be compared.
        """
        most = self._most_compared + 1
        members = [self._members[bucket][:most] for bucket in self._buckets[row]]
        shared_bands = Counter(itertools.chain.from_iterable(members))
        shared_bands.pop(row, None)
        return [sharing_row for sharing_row, _ in shared_bands.most_common(most)]
