"""Finds near-duplicates on arrival.

Each document is compared with those of the store, and with the ones just before it (`arrivals`),
which searches may not see yet. The later one is the duplicate. Equal texts are found first, as
documents that share all tokens.

Grouping is the leader algorithm (Hartigan, "Clustering Algorithms", Wiley 1975, chapter 3), but a
document joins the nearest representative instead of the first one that is near enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.ingest.arrivals import Earlier, Likeness, Measure, Original, Row, Verdict
from esdedup.models import Query, natural, tokens_in, value_in
from esdedup.records.documents import MARKS
from esdedup.search.candidates import equal_text_queries
from esdedup.search.similar import similar, with_texts
from esdedup.sketch.limits import ACTING, Limits
from esdedup.sketch.sketch import NO_TEXT, normalised_digests, sketch
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.judgements import Judgements, read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64

OnDuplicate = Literal["keep", "mark", "skip", "fail"]
PolicyAction = Literal["keep", "mark", "skip", "fail", "group"]
_RECENT_DOCUMENTS = 20_000
_RECENT_CHARACTERS = 100_000_000
"""A generation of recent documents. Bulk helpers run behind by a few thousand at most."""


@dataclass(frozen=True)
class DuplicatePolicy:
    """How to treat a near-duplicate of an earlier document.

    action: "keep" it as any other document; "mark" it with the original's id and the similarity;
    "skip" it; "fail" it, as an error; or "group" it: mark it as a duplicate of the nearest
    representative. A document that is similar to no representative becomes one.
    sketch: name of the sketch to compare by; the scheme's first by default.
    threshold: minimum Jaccard similarity.
    distance: maximum Hamming distance in bits, None for the distance that the scheme's segments
    guarantee by equality alone.
    candidates: maximum number of stored documents to compare with; the report counts documents
    with more.

    Raises UsageError for values out of range.
    """

    action: PolicyAction = "keep"
    threshold: float = ACTING
    candidates: int = 100
    sketch: str | None = None
    distance: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.action not in get_args(PolicyAction):
            raise UsageError(f"on duplicate {self.action!r}: use keep, mark, skip, fail or group")
        _ = self.limits

    @property
    def limits(self) -> Limits:
        """The limits of the search in the store."""
        most = self.candidates
        # One band, because documents that came just before are compared if they share one.
        return Limits(self.sketch, self.threshold, self.distance, most, most, least=1)

    @property
    def writes(self) -> bool:
        """True if near-duplicates are written, and marked."""
        return self.action in ("mark", "group")

    @property
    def groups(self) -> bool:
        """True if documents are compared only with representatives."""
        return self.action == "group"

    def takes(self, verdict: Verdict) -> bool:
        """Return True if a document with this verdict is written."""
        return verdict.original is None or self.writes


class Originals:
    """Finds the originals of the documents of one run, batch by batch.

    It keeps the documents of the last batches; a refresh has made older ones visible. A document
    never follows one that was judged different from it, nor one in the group of that one
    (`stores.judgements`).

    current: returns the index's meta, which may change during the run. truncated: number of
    documents with more candidates than the policy compares with, or only buckets of the stop list.

    Raises UsageError if the index lacks the policy's sketch.
    """

    def __init__(
        self, store: Store, current: Callable[[], IndexMeta], policy: DuplicatePolicy
    ) -> None:
        self.truncated = 0
        self.store, self.policy, self.meta = store, policy, current()
        self.doubted: set[str] = set()
        self._current = current
        self._read_judgements(self.meta)
        self._recent: list[Row] = []
        self._older: list[Row] = []
        self._begun = False
        self.like = Likeness(self.meta.scheme, policy.limits)

    @property
    def before(self) -> list[Row]:
        """The documents of the last batches."""
        return self._older + self._recent

    def find(self, ids: Sequence[str], texts: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each document of a batch, in order."""
        if not ids:
            return []
        if not self._begun:
            # A run that was killed may have written the first documents just before.
            self.store.refresh()
            self._begun = True
        meta = self._current()
        if meta.scheme.id != self.meta.scheme.id:
            self.like = Likeness(meta.scheme, self.policy.limits)
            self._read_judgements(meta)
            self._older = self.like.again(self._older)
            self._recent = self.like.again(self._recent)
        self.meta = meta
        batch = _Arrivals(self, ids, texts)
        verdicts = [batch.verdict(row) for row in range(len(ids))]
        self.truncated += sum(verdict.truncated for verdict in verdicts)
        self.doubted.difference_update(ids)
        written = [row for row, verdict in enumerate(verdicts) if self.policy.takes(verdict)]
        latest = {ids[row]: row for row in written}
        if any(row.id in latest for row in self.before):
            self.forget(latest)
        self._recent += [
            Row(id, texts[row], verdicts[row], *batch.content(row)) for id, row in latest.items()
        ]
        if len(self._recent) >= _RECENT_DOCUMENTS or (
            len(self._recent) >= _RECENT_DOCUMENTS // 4
            and sum(len(row.text) for row in self._recent) >= _RECENT_CHARACTERS
        ):
            # Documents before this generation have long been written. Now they are visible too.
            self.store.refresh()
            self._older, self._recent = self._recent, []
        return verdicts

    def may_have(self, id: str, digest: str, verdict: Verdict) -> bool:
        """Return False if a document was judged different from those that a verdict names.

        digest: of its text.
        """
        apart = self.apart(id, digest)
        groups = {self._group_of.get(each) for each in apart}
        return apart.isdisjoint((verdict.group, verdict.original)) and verdict.group not in groups

    def note(self, id: str, verdict: Verdict) -> None:
        """Note the group of a document that is written, if it was judged."""
        if self.policy.writes and id in self._group_of:
            self._group_of[id] = verdict.group

    def _read_judgements(self, meta: IndexMeta) -> None:
        """Read the judgements, and the groups that the judged documents have now."""
        self._apart = _apart(read_judgements(self.store, meta))
        ids, path = [*{id for id, _ in self._apart}], f"{meta.field}.group"
        self._group_of: dict[str, str | None] = dict.fromkeys(ids)
        for each in self.store.get(ids, [path]) if ids else ():
            self._group_of[each.id] = value_in(each.source, path)

    def apart(self, id: str, digest: str) -> frozenset[str]:
        """Return the ids of the documents that a document was judged different from."""
        return self._apart.get((id, digest), frozenset())

    def forget(self, ids: Iterable[str]) -> None:
        """Forget documents that were not written."""
        gone = set(ids)
        self._recent = [row for row in self._recent if row.id not in gone]
        self._older = [row for row in self._older if row.id not in gone]

    def doubt(self, ids: Sequence[str]) -> None:
        """Ignore the stored verdicts of documents until they arrive again."""
        self.forget(ids)
        self.doubted.update(ids)


class _Arrivals:
    """Documents that come in together, and the documents to compare them with.

    last: the digest of the last text of each id. earlier: documents before in this run. known:
    former digest and verdict of each id. These are by digest: contents, the normalised texts;
    equal, documents of the store with the same text; columns, bands or fingerprints; wordless,
    texts without any shingle; similar, documents of the store, and whether candidates were left
    out.
    """

    def __init__(self, run: Originals, ids: Sequence[str], texts: Sequence[str]) -> None:
        self.run, self.store, self.meta, self.policy = run, run.store, run.meta, run.policy
        normalised, digests = normalised_digests(texts, self.meta.scheme.normalisation)
        contents = dict(zip(digests, normalised, strict=True))
        self.ids, self.digests, self.counts = ids, digests, Counter(ids)
        self.last = dict(zip(ids, digests, strict=True))
        self.earlier = Earlier(run.before, leaders=self.policy.groups)
        self.known = self._known() if self.policy.groups else {}
        self.equal = self._of_equal_texts({text: each for text, each in contents.items() if each})
        # Texts that equal no earlier one are sketched, and compared.
        askers, kept = self._askers()
        self.columns = run.like.columns({text: contents[text] for text in (*askers, *kept)})
        self.wordless = askers.keys() - self.columns.keys()
        asked = {text: askers[text] for text in self.columns if text in askers}
        self.earlier.compare(contents, self.columns, asked.keys(), run.like)
        queries = [
            Query(contents[text], min(own) if len(own) == 1 else None, originals=self.policy.groups)
            for text, own in asked.items()
        ]
        results = similar(self.store, self.meta, queries, self.policy.limits)
        self.similar = dict(zip(asked, results, strict=True))

    def verdict(self, row: int) -> Verdict:
        """Return the verdict on a document, and add the document to the earlier ones."""
        id, text = self.ids[row], self.digests[row]
        verdict = self._former(row) or self._judged(id, text)
        if self.policy.takes(verdict):
            self.earlier.add(text, id, verdict)
            self.run.note(id, verdict)
        if self.policy.groups:
            self.known[id] = text, verdict
        return verdict

    def content(self, row: int) -> tuple[str, U64 | None]:
        """Return the digest and the column of a document for `Row`."""
        text = self.digests[row]
        return text, self.columns.get(text, self.earlier.columns.get(text))

    def _former(self, row: int) -> Verdict | None:
        """Return the former verdict on a document, if it came before with the same text."""
        id, digest = self.ids[row], self.digests[row]
        text, verdict = self.known.get(id, ("", None))
        if verdict is None or text != digest or not self.run.may_have(id, digest, verdict):
            return None
        return verdict

    def _may_follow(self, id: str, text: str, near: Original) -> bool:
        """Return False if a document can't be the duplicate of another one."""
        if near.id == id or near.verdict.follows(id):
            return False
        if self.last.get(near.id, near.digest) != near.digest:
            return False  # The batch replaces that text.
        apart = self.run.apart(id, text)
        return near.id not in apart and self.run.may_have(id, text, near.verdict)

    def _askers(self) -> tuple[dict[str, set[str]], set[str]]:
        """Return the texts to find similar ones of, with their ids, and others to sketch.

        The others are only compared with later documents.
        """
        lasting = {text: self._lasting(text) for text in dict.fromkeys(self.digests)}
        askers: dict[str, set[str]] = {}
        kept: set[str] = set()
        for row, (id, text) in enumerate(zip(self.ids, self.digests, strict=True)):
            former = self._former(row) if self.counts[id] == 1 else None
            equal = lasting[text]
            compared_later = self.policy.writes
            if self.policy.groups:
                compared_later = former is not None and former.original is None
            follows = equal is not None and not equal.verdict.follows(id)
            # A judged document may follow neither the equal text nor its former verdict.
            if self.run.apart(id, text) or (former is None and not follows):
                askers.setdefault(text, set()).add(id)
            elif compared_later and self.earlier.columns.get(text) is None:
                kept.add(text)
        return askers, kept

    def _lasting(self, text: str) -> Original | None:
        """Return a document of an equal text that no document of the batch replaces."""
        stays = self.earlier.equal(text, lambda near: near.id not in self.counts)
        if stays is not None:
            return stays
        found = self._standing(self.equal.get(text, ()), "")
        return next((near for near in found if near.id not in self.counts), None)

    def _judged(self, id: str, text: str) -> Verdict:
        if text == NO_TEXT:
            return Verdict(id)
        may_follow = partial(self._may_follow, id, text)
        equal = [*filter(may_follow, self._standing(self.equal.get(text, ()), id))]
        if (same := self.earlier.equal(text, may_follow)) is not None:
            equal.append(same)
        if equal:
            best = min(equal, key=lambda one: (one.verdict.original is not None, natural(one.id)))
            if self.policy.groups and best.verdict.original is not None:
                # Every document of this text gets the same verdict.
                return replace(best.verdict, truncated=False, exact=True)
            measure: Measure = (1.0, None) if self.run.like.by_sets else (None, 0)
            return Verdict(best.verdict.group, best.id, *measure, exact=True)
        if text in self.wordless:
            return Verdict(id)
        result = self.similar[text]
        found = []
        for match in result.matches:
            ours = tokens_in(match.source, self.meta.field)
            alike = match.similarity, match.distance
            verdict = Verdict.stored(match.id, ours)
            found.append(Original(match.id, ours.get("digest", ""), verdict, alike))
        near = [*filter(may_follow, self._standing(found, id))]
        near += self.earlier.near(text, may_follow)
        truncated = result.truncated or result.blind
        if not near:
            return Verdict(id, truncated=truncated)
        # One part of a measure is None: the other one decides.
        best = min(
            near, key=lambda one: (one.measure[1] or -(one.measure[0] or 0), natural(one.id))
        )
        return Verdict(best.verdict.group, best.id, *best.measure, truncated)

    def _standing(self, found: Iterable[Original], id: str) -> list[Original]:
        """Return the documents that are still as the store has them and may be the original."""
        return [
            near
            for near in found
            # The store still has the former version of a document of this run.
            if near.id != id
            and near.id not in self.earlier
            and near.id not in self.run.doubted
            and not near.verdict.follows(id)
        ]

    def _known(self) -> dict[str, tuple[str, Verdict]]:
        """Return the former digest and verdict of each document that has a group, by id."""
        field = self.meta.field
        paths = [f"{field}.{name}" for name in ("digest", *MARKS)]
        known = {}
        for document in self.store.get(list(self.counts), paths):
            ours = document.tokens_in(field)
            if ours.get("group") is not None and document.id not in self.run.doubted:
                known[document.id] = ours.get("digest") or "", Verdict.stored(document.id, ours)
        own = [row for row in self.run.before if row.id in self.counts]
        return known | {row.id: (row.digest, row.verdict) for row in own}

    def _of_equal_texts(self, texts: Mapping[str, str]) -> dict[str, list[Original]]:
        """Find documents of the store of equal texts, by the digests of the texts."""
        near: dict[str, list[Original]] = {}
        queries = [Query(text) for text in texts.values()]
        chosen = self.policy.limits.chosen(self.meta.scheme)
        sketches = sketch([*texts.values()], self.meta.scheme.only(chosen))
        wanted = equal_text_queries(self.meta, chosen, sketches, queries)
        for first in range(0, len(wanted), QUERIES_AT_ONCE):
            some = wanted[first : first + QUERIES_AT_ONCE]
            for found in self.store.candidates(some, self.policy.candidates):
                for document, text in with_texts(self.meta, found):
                    ours = document.tokens_in(self.meta.field)
                    digest = ours.get("digest", "")
                    # Another client may have changed the text, or another text has this digest.
                    if texts.get(digest) == text:
                        verdict = Verdict.stored(document.id, ours)
                        near.setdefault(digest, []).append(Original(document.id, digest, verdict))
        return near


def _apart(judgements: Judgements) -> dict[tuple[str, str], frozenset[str]]:
    """Return the ids that a document was judged different from, by its id and its digest."""
    found: dict[tuple[str, str], set[str]] = {}
    for each in judgements.of("different"):
        ids = each.left, each.right
        for id, digest, other in zip(ids, each.digests, reversed(ids), strict=True):
            found.setdefault((id, digest), set()).add(other)
    return {key: frozenset(ids) for key, ids in found.items()}
