"""Find the earlier document that each arriving document resembles.

Documents of earlier batches are in the store, those of the same batch are compared in memory: the
later one is the duplicate. Equal texts are found first, as documents that share all tokens.

Grouping is the leader algorithm (Hartigan, "Clustering Algorithms", Wiley 1975, chapter 3), but a
document joins the nearest representative instead of the first one that is near enough.

Where a name stands for several indices, a stored document of another index than the one that is
written to is another document than the arriving one of its id. Marks name it with its index.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.ingest.chains import Chains
from esdedup.ingest.policies import DuplicatePolicy, Verdict
from esdedup.models import (
    MARKS,
    Document,
    Match,
    Query,
    QueryScope,
    StoredDocument,
    id_with_place,
    natural,
    value_in,
)
from esdedup.search.buckets import bucket_column
from esdedup.search.candidates import equal_text_queries
from esdedup.search.scopes import WORDS_OF_FIELDS, is_one_scope, query_scope, scope_of
from esdedup.search.similar import similar, with_texts
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, normalised_digests, sketch
from esdedup.sketch.within import Within
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.judgements import read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, U64, SeenValues


@dataclass(frozen=True)
class Original:
    """An earlier document that a new one resembles or equals.

    id: of the document.
    digest: of its text.
    verdict: on the document itself.
    value: how similar it is to the new one, by the measure of the policy; None if the texts are
        equal.
    index: that `id` begins with, if another index has the id too.
    """

    id: str
    digest: str
    verdict: Verdict
    value: float | None = None
    index: str | None = None

    @property
    def id_in_index(self) -> str:
        """The id that it has in its index."""
        return self.id if self.index is None else self.id.removeprefix(f"{self.index}/")

    def is_earlier_generation_of(self, id: str) -> bool:
        """Return whether it has the id of an arriving document, in another index."""
        return self.index is not None and self.id == id_with_place(self.index, id)


class Originals:
    """Finds the originals of the documents of one run, batch by batch.

    A document never follows one that was judged different from it, nor one in the group of that
    one.

    store: of the earlier documents.
    current: returns the index's meta, which may change during the run.
    policy: what is a near-duplicate, and what happens to it.

    Raises UsageError if the index lacks the policy's sketch, or has it of other fields.
    """

    def __init__(
        self, store: Store, current: Callable[[], IndexMeta], policy: DuplicatePolicy
    ) -> None:
        self.store, self.policy, self._current = store, policy, current
        self.meta = current()
        self._read_judgements(self.meta)
        # 8 bytes for each that records were left out for, of which a run may have many.
        self._followed = SeenValues()

    def find(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        scope_fields: Sequence[Mapping[str, object]] = (),
        *,
        again: bool = False,
    ) -> list[Verdict]:
        """Return a verdict for each document of a batch.

        scope_fields: of each document, those that the policy's scope needs; none without one.
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
        arriving = _Arriving(ids, texts, scope_fields)
        arrivals = _Arrivals(self, arriving, ids if again else ())
        verdicts = [*arrivals.verdicts()]
        if arrivals.followed and not self.policy.writes:
            self._followed.add(_hashes(arrivals.followed))
        return verdicts

    def replaced(
        self, stored: Sequence[StoredDocument], documents: Sequence[Document]
    ) -> list[str]:
        """Return the ids of originals that get another text, or come into another scope.

        Records of this run were left out for these. stored: as they are. documents: that replace
        them.
        """
        if not self._followed.size:
            return []
        digests = [self.meta.ours_in(current.source).get("digest", "") for current in stored]
        are_followed = self._followed.among(
            _hashes([*zip((current.id for current in stored), digests, strict=True)])
        )
        return [
            current.id
            for current, digest, document, is_followed in zip(
                stored, digests, documents, are_followed, strict=True
            )
            if is_followed
            and (
                digest != self.meta.ours_in(document.source).get("digest")
                or self.is_moved(current.source, document.source)
            )
        ]

    def apart(self, id: str, digest: str) -> set[str]:
        """Return the ids of documents that a document of this text was judged different from."""
        return self._apart.get((id, digest), set())

    def may_have(self, id: str, digest: str, verdict: Verdict) -> bool:
        """Return False if a document was judged different from those that a verdict names."""
        apart = self.apart(id, digest)
        groups = {self._group_of.get(other_id) for other_id in apart}
        return apart.isdisjoint((verdict.group, verdict.original)) and verdict.group not in groups

    def is_moved(self, before: Mapping[str, object], after: Mapping[str, object]) -> bool:
        """Return whether a document with other fields is in another scope."""
        within = self.policy.within
        return bool(within) and scope_of(within, before) != scope_of(within, after)

    def note(self, id: str, verdict: Verdict) -> None:
        """Note the group of a document that is written, if it was judged."""
        if self.policy.writes and id in self._group_of:
            self._group_of[id] = verdict.group

    def _read_judgements(self, meta: IndexMeta) -> None:
        """Read the judgements, and the groups that the judged documents have now."""
        self.policy.check_sketch(meta)
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


_Scope = tuple[int, ...]
"""As of `scope_of`; empty if all documents are in one scope."""


def _hashes(originals: Sequence[tuple[str, str]]) -> I64:
    """Return a number for each original, given by its id in its index and the text's digest."""
    return np.fromiter(map(hash, originals), np.int64, len(originals))


class _ScopedText(NamedTuple):
    """A text in a scope, which decides on the originals of a document.

    digest: of the text.
    scope: None for a document without one.
    """

    digest: str
    scope: _Scope | None

    @property
    def values(self) -> tuple[str, _Scope | None]:
        """The digest, and the scope without times."""
        return self.digest, self.scope and self.scope[:WORDS_OF_FIELDS]


@dataclass(frozen=True)
class _Arriving:
    """Documents that arrive together.

    ids: of the documents.
    texts: of the documents.
    scope_fields: as of `Originals.find`.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    scope_fields: Sequence[Mapping[str, object]]

    def scopes(self, within: Within) -> list[_Scope | None]:
        """Return the scope of each document."""
        if not within:
            return [()] * len(self.ids)
        return [scope_of(within, fields) for fields in self.scope_fields]


_NaturalId = tuple[tuple[str | tuple[int, str], ...], str]


def _representatives_first(original: Original) -> tuple[bool, _NaturalId]:
    """Return a key that orders originals: representatives first, then by id."""
    return original.verdict.original is not None, natural(original.id)


def _id_in_index(document: Document | Match) -> str:
    """Return the id that a document has in its index."""
    if isinstance(document, Match) and document.index is not None:
        return document.id.removeprefix(f"{document.index}/")
    return document.id


@dataclass(frozen=True)
class _StoredNear:
    """The stored documents that are similar to a text.

    originals: these documents, with their values.
    is_truncated: whether some may be missing.
    """

    originals: list[Original]
    is_truncated: bool


class _Arrivals:
    """Decides on documents that arrive together. Texts are named by their digests.

    texts: the normalised text of each digest.
    contents: of each document.
    scopes: of the queries for the originals of each content; None if all documents are in one.
    former: former content and verdict of each id.
    last: the last content of each id.
    equal: stored documents of each text and scope.
    peers: the texts of the batch.
    measure: by which texts are compared.
    near: stored documents that are similar to a text, in a scope.
    written: verdicts on the documents written so far, by text and values of the scope.
    outdated: ids whose stored verdicts are not those of now.
    write_index: that the documents come into, if the name stands for several.
    stored: the stored documents of the ids, with their digests, marks and fields of the scope.
    names: of the documents whose id another index has too, by id, with their index.
    repeated: names of stored documents likewise.
    chains: where the marks of documents lead, if the policy writes marks.
    followed: the originals of the verdicts: the id of each in its index, and the text's digest.
    """

    def __init__(self, run: Originals, arriving: _Arriving, doubted: Iterable[str]) -> None:
        self.run, self.policy, self.meta, self.ids = run, run.policy, run.meta, arriving.ids
        normalised, digests = normalised_digests(arriving.texts, self.meta.scheme.normalisation)
        self.texts = dict(zip(digests, normalised, strict=True))
        scopes = arriving.scopes(self.policy.within)
        self.contents = [*map(_ScopedText, digests, scopes)]
        self.scopes = self._query_scopes(arriving.scope_fields)
        self.last = dict(zip(self.ids, self.contents, strict=True))
        self.write_index = run.store.write_index()
        self.stored = run.store.hold([*self.last], self._paths_of_verdicts())
        self.names = self._names_with_indices()
        self.repeated = set[str]()
        self.former = {} if doubted else self._former_verdicts()
        self.chains = self._chains()
        self.followed: list[tuple[str, str]] = []
        self.equal = self._of_equal_texts()
        self.peers = _Peers(self.texts, self.meta.scheme, self.policy.limits)
        self.measure = self.peers.measure
        self.near: dict[_ScopedText, _StoredNear] = {}
        self.outdated = {*doubted}
        self.written: dict[object, dict[str, Verdict]] = defaultdict(dict)

    def _names_with_indices(self) -> dict[str, str]:
        """Return the names, with their index, of the documents whose id another index has too."""
        if self.write_index is None:
            return {}
        return {
            stored.id: id_with_place(self.write_index, stored.id)
            for stored in self.stored
            if stored.index != self.write_index or stored.is_ambiguous
        }

    def _name(self, id: str) -> str:
        """Return the name of an arriving document in marks."""
        return self.names.get(id, id)

    def _query_scopes(
        self, scope_fields: Sequence[Mapping[str, object]]
    ) -> dict[_ScopedText, QueryScope]:
        """Return the scope of the stored documents that each content may have as originals."""
        within = self.policy.within
        if not within:
            return {}
        fields_of_contents = dict(zip(self.contents, scope_fields, strict=True))
        return {
            content: query_scope(within, fields) for content, fields in fields_of_contents.items()
        }

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdict on each document, adding each to the earlier ones."""
        for row, (id, content) in enumerate(zip(self.ids, self.contents, strict=True)):
            if row % QUERIES_AT_ONCE == 0:
                block = range(row, min(row + QUERIES_AT_ONCE, len(self.ids)))
                self.near = self._stored_near([*filter(self._needs_search, block)])
            verdict = self._former(row) or self._judged(row)
            if self.policy.takes(verdict):
                self.run.note(id, verdict)
                self.outdated.add(id)
                self.written[content.values][id] = verdict
                self.former[id] = content, verdict
                self.chains.mark(self._name(id), self._original_name(verdict))
                if not self.policy.groups or verdict.original is None:
                    self.peers.add(content)
            yield verdict

    def _needs_search(self, row: int) -> bool:
        """Return whether neither an earlier run nor an equal text decides on a document."""
        return not (self._former(row) or self._equal(row))

    def _paths_of_verdicts(self) -> list[str]:
        """Return the names of the fields that former contents and verdicts are read from."""
        meta, within = self.meta, self.policy.within
        paths = [*meta.digest_paths, *(f"{meta.marks_field}.{name}" for name in MARKS)]
        return [*paths, *within.fields, *(window.field for window in within.windows)]

    def _replaced(self) -> dict[str, StoredDocument]:
        """Return the stored documents that those of the batch replace, by id."""
        return {
            stored.id: stored for stored in self.stored if self.write_index in (None, stored.index)
        }

    def _former_verdicts(self) -> dict[str, tuple[_ScopedText, Verdict]]:
        """Return the former content and verdict of each document that is replaced, by id.

        If it has no group, it leads its own: which of several is the duplicate is not known.
        """
        within, former = self.policy.within, dict[str, tuple[_ScopedText, Verdict]]()
        for id, stored in self._replaced().items():
            ours, name = self.meta.ours_in(stored.source), self._name(id)
            scope = scope_of(within, stored.source) if within else ()
            has_group = ours.get("group") is not None
            verdict = Verdict.stored(name, ours) if has_group else Verdict(name)
            if not self.policy.writes:
                # It is in the index, so that it is not left out.
                verdict = Verdict(verdict.group)
            former[id] = _ScopedText(ours.get("digest") or "", scope), verdict
        return former

    def _chains(self) -> Chains:
        """Return where the marks of stored documents lead, so far those of the batch's ids."""
        originals = {
            self._name(id): Verdict.stored(id, self.meta.ours_in(stored.source)).original
            for id, stored in self._replaced().items()
        }
        chains = Chains(self.run.store, self.meta.marks_field, map(self._name, self.ids), originals)
        if self.policy.writes:
            chains.read(originals)
        return chains

    def _former(self, row: int) -> Verdict | None:
        """Return the former verdict on a document that came before with its text and scope."""
        id, content = self.ids[row], self.contents[row]
        former_content, verdict = self.former.get(id, (None, None))
        if verdict is None or former_content != content:
            return None
        return verdict if self.run.may_have(id, content.digest, verdict) else None

    def _of_equal_texts(self) -> dict[_ScopedText, list[Original]]:
        """Find stored documents of equal texts in the scopes of the documents."""
        documents_of = defaultdict[_ScopedText, list[tuple[Document, str]]](list)
        contents = [
            content
            for content in dict.fromkeys(self.contents)
            if self.texts[content.digest] and content.scope is not None
        ]
        texts = [self.texts[content.digest] for content in contents]
        chosen = self.meta.scheme.chosen(self.policy.limits)
        sketches = sketch(texts, self.meta.scheme.only(chosen))
        queries = [
            Query(text, marked=True, scope=self.scopes.get(content))
            for content, text in zip(contents, texts, strict=True)
        ]
        queries_of_texts = equal_text_queries(self.meta, chosen, sketches, queries)
        for first in range(0, len(queries_of_texts), QUERIES_AT_ONCE):
            page = slice(first, first + QUERIES_AT_ONCE)
            candidates_of_page = self.run.store.candidates(
                queries_of_texts[page], self.policy.candidates
            )
            for content, candidates in zip(contents[page], candidates_of_page, strict=True):
                documents_of[content] += with_texts(self.meta, candidates)
        self._note_repeated(
            document for documents in documents_of.values() for document, _ in documents
        )
        originals: dict[_ScopedText, list[Original]] = {}
        for content, documents in documents_of.items():
            for document, text in documents:
                original = self._stored(document)
                # Another client may have changed the text, or another text has this digest.
                is_equal = self.texts[content.digest] == text
                if is_equal and original.digest == content.digest:
                    originals.setdefault(content, []).append(original)
        self._look_for_originals(itertools.chain.from_iterable(originals.values()))
        return originals

    def _look_for_originals(self, stored: Iterable[Original]) -> None:
        """Read where the marks of stored documents lead."""
        if self.policy.writes:
            self.chains.read(
                {
                    self._name(original.id): self._original_name(original.verdict)
                    for original in stored
                }
            )

    def _original_name(self, verdict: Verdict) -> str | None:
        """Return the name of the original of a verdict in marks."""
        original = verdict.original_name or verdict.original
        return None if original is None else self._name(original)

    def _is_bereft(self, original: Original) -> bool:
        """Return whether the marks of a document lead to none that is shown."""
        return self._is_marked(original) and self.chains.are_broken(self._name(original.id))

    def _is_marked(self, original: Original) -> bool:
        """Return whether an earlier document has a mark that the policy follows.

        Records that are left out write none that could lead back to a document.
        """
        return self.policy.writes and original.verdict.original is not None

    def _stored(self, document: Document | Match, value: float | None = None) -> Original:
        """Return a stored document as an original, with its verdict."""
        fields = self.meta.ours_in(document.source)
        id, index = _id_in_index(document), document.index
        name = id_with_place(index, id)
        is_replaced = index == self.write_index and id in self.last
        if is_replaced or (id not in self.last and name not in self.repeated):
            name, index = id, None
        return Original(name, fields.get("digest", ""), Verdict.stored(name, fields), value, index)

    def _note_repeated(self, documents: Iterable[Document | Match]) -> None:
        """Note the names of those documents whose id another index has too."""
        if self.write_index is not None:
            ids = {*map(_id_in_index, documents)} - self.last.keys()
            self.repeated.update(self.run.store.ids_with_indices(sorted(ids)))

    def _equal(self, row: int) -> list[Original]:
        """Return the documents of an equal text that a document may follow."""
        content, may_follow = self.contents[row], partial(self._may_follow, row)
        if self.policy.groups and self.policy.within.windows:
            # The representative of an equal text may be out of the window.
            may_follow = partial(self._may_lead, row)
        originals = filter(may_follow, self._now(self.equal.get(content, ())))
        shown = itertools.filterfalse(self._is_bereft, originals)
        return [*shown, *self._first(content, may_follow)]

    def _leading(
        self, row: int, similar: Iterable[Original] = (), truncated: bool = False
    ) -> Verdict:
        """Return the verdict on a document that follows none.

        If all that it resembles are duplicates of a document that is gone, it takes the place of
        that one in their group: they are hidden, and the group needs a document that is not.
        """
        id, may_follow = self.ids[row], partial(self._may_follow, row)
        originals = [*self._now(self.equal.get(self.contents[row], ())), *similar]
        for original in filter(may_follow, filter(self._is_bereft, originals)):
            return Verdict(original.verdict.group, truncated=truncated)
        return Verdict(self._name(id), truncated=truncated)

    def _judged(self, row: int) -> Verdict:
        """Return the verdict on a document that no earlier run decided on."""
        id, content = self.ids[row], self.contents[row]
        if content.digest == NO_TEXT or content.scope is None:
            return Verdict(self._name(id))
        if equals := self._equal(row):
            return self._following_equal(equals)
        if content.digest not in self.peers:
            return self._leading(row)
        return self._following_similar(row)

    def _following_equal(self, equals: Iterable[Original]) -> Verdict:
        """Return the verdict on a document that has the text of earlier ones."""
        original = min(equals, key=_representatives_first)
        self.followed.append((original.id_in_index, original.digest))
        if self.policy.groups and original.verdict.original is not None:
            # Every document of this text gets the same verdict.
            return replace(original.verdict, truncated=False, exact=True)
        marks = self.measure.marks(self.measure.equal)
        name = self.names.get(original.id)
        group = original.verdict.group
        return Verdict(group, original.id, *marks, exact=True, original_name=name)

    def _following_similar(self, row: int) -> Verdict:
        """Return the verdict on a document by those of similar texts, if there are any."""
        content = self.contents[row]
        if content not in self.near:
            # Its equal document was replaced within the block.
            self.near |= self._stored_near([row])
        stored_near, peers = self.near[content], self.peers.near(content)
        may_lead = partial(self._may_lead, row)
        stored = [*filter(may_lead, self._now(stored_near.originals))]
        originals = [*itertools.filterfalse(self._is_bereft, stored)]
        for peer_digest, value in peers.values.items():
            peer = _ScopedText(peer_digest, content.scope)
            originals += self._first(peer, may_lead, value)
        is_truncated = stored_near.is_truncated or peers.is_truncated
        if not originals:
            return self._leading(row, stored, is_truncated)
        nearest = min(originals, key=self._nearest_first)
        assert nearest.value is not None
        self.followed.append((nearest.id_in_index, nearest.digest))
        marks = self.measure.marks(nearest.value)
        name = self.names.get(nearest.id)
        group = nearest.verdict.group
        return Verdict(group, nearest.id, *marks, is_truncated, original_name=name)

    def _nearest_first(self, original: Original) -> tuple[float, _NaturalId]:
        """Return a key that orders similar originals: the nearest first, then by id."""
        assert original.value is not None
        return -self.measure.nearness(original.value), natural(original.id)

    def _may_follow(self, row: int, original: Original) -> bool:
        """Return False if a document can't be the duplicate of another one."""
        id, content = self.ids[row], self.contents[row]
        names = {original.id, original.verdict.group, original.verdict.original}
        # The group of an earlier generation may have the name of the time without this one.
        is_same = not names.isdisjoint((id, self._name(id)))
        if is_same and not original.is_earlier_generation_of(id):
            return False
        # A text may have come in very many scopes, so that scopes are looked at before marks.
        if (last := self.last.get(original.id)) is not None:
            if last.digest != original.digest:
                return False  # The batch replaces that text.
            if not self._is_one_scope(content.scope, last.scope):
                return False
        if self._is_led(original, id):
            return False
        apart = self.run.apart(id, content.digest)
        may_have = self.run.may_have(id, content.digest, original.verdict)
        return original.id not in apart and may_have

    def _is_led(self, original: Original, id: str) -> bool:
        """Return whether the marks of a document lead to one of the batch."""
        return self._is_marked(original) and self.chains.lead(
            self._name(original.id), self._name(id)
        )

    def _is_one_scope(self, scope: _Scope | None, other_scope: _Scope | None) -> bool:
        if scope is None or other_scope is None:
            return False
        within = self.policy.within
        return not within or is_one_scope(within, scope, other_scope)

    def _may_lead(self, row: int, original: Original) -> bool:
        """Return False if a document can't be the duplicate of a similar one."""
        is_member = self.policy.groups and original.verdict.original is not None
        return not is_member and self._may_follow(row, original)

    def _now(self, originals: Iterable[Original]) -> list[Original]:
        """Return stored documents as they are after the documents that were written so far."""
        current = []
        for original in originals:
            last = self.last.get(original.id, _ScopedText(original.digest, ()))
            written = self.written[last._replace(digest=original.digest).values]
            if original.id in written:
                current.append(replace(original, verdict=written[original.id]))
            elif original.id not in self.outdated:
                current.append(original)
        return current

    def _first(
        self,
        content: _ScopedText,
        may_follow: Callable[[Original], bool],
        value: float | None = None,
    ) -> list[Original]:
        """Return the first written document of a content that may be followed, or nothing."""
        verdicts, digest = self.written[content.values].items(), content.digest
        originals = (Original(id, digest, verdict, value) for id, verdict in verdicts)
        shown = itertools.filterfalse(self._is_bereft, filter(may_follow, originals))
        return [*itertools.islice(shown, 1)]

    def _stored_near(self, rows: Sequence[int]) -> dict[_ScopedText, _StoredNear]:
        """Return the stored documents that are similar to the texts of rows, in their scopes."""
        distinct_contents = dict.fromkeys(self.contents[row] for row in rows)
        contents = [content for content in distinct_contents if content.digest in self.peers]
        queries = [
            Query(
                self.texts[content.digest],
                originals=self.policy.groups,
                marked=True,
                scope=self.scopes.get(content),
            )
            for content in contents
        ]
        results = similar(self.run.store, self.meta, queries, self.policy.limits)
        self._note_repeated(match for result in results for match in result.matches)
        near = {}
        for content, result in zip(contents, results, strict=True):
            originals = [self._stored(match, match.value) for match in result.matches]
            near[content] = _StoredNear(originals, result.truncated or result.blind)
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
    values are compared: these are compared with all. Texts without any shingle are left out. Only
    texts of documents whose scopes have the same values are compared.

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
        self._added: dict[_Scope | None, dict[int, None]] = defaultdict(dict)
        self._members: dict[tuple[_Scope | None, int], list[int]] = defaultdict(list)
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

    def add(self, content: _ScopedText) -> None:
        """Compare later texts with this one."""
        digest, values = content.values
        row = self._rows.get(digest)
        if row is not None and row not in self._added[values]:
            self._added[values][row] = None
            for bucket in self._buckets[row]:
                self._members[values, bucket].append(row)

    def near(self, content: _ScopedText) -> _NearPeers:
        """Return the added texts that are similar to a text."""
        digest, values = content.values
        row = self._rows[digest]
        if self.measure.by_values:
            candidates = [added for added in self._added[values] if added != row]
        else:
            candidates = self._sharing_bands(row, values)
        compared = np.array(candidates[: self._most_compared], np.int64)
        if not compared.size:
            return _NearPeers({})
        (nearness,) = self._comparison.nearness_to(self._operands[row], self._operands[compared])
        is_near = nearness >= self._least
        near_rows, near = compared[is_near].tolist(), nearness[is_near].tolist()
        value_of_near = {
            self._digests[near_row]: self.measure.value_of(value)
            for near_row, value in zip(near_rows, near, strict=True)
        }
        return _NearPeers(value_of_near, compared.size < len(candidates))

    def _sharing_bands(self, row: int, values: _Scope | None) -> list[int]:
        """Return the added texts that share bands with a text, the most bands first.

        They are all of them only if there are no more than can be compared.
        """
        most = self._most_compared + 1
        members = [self._members[values, bucket][:most] for bucket in self._buckets[row]]
        shared_bands = Counter(itertools.chain.from_iterable(members))
        shared_bands.pop(row, None)
        return [sharing_row for sharing_row, _ in shared_bands.most_common(most)]
