"""Store judgements of people: on pairs of documents, and on the representatives of groups.

They are stored in an index of their own, named for the index that they are about. That index's
mapping and documents don't change, and a new index of the same name keeps the judgements.

A judgement holds only while both documents have the text that was judged, by its digest. If the
index changes to another normalisation, digests of unchanged texts are computed again. The text is
that of the index, also if the documents are compared by another field (`IndexMeta.judged`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import xxhash

from esdedup.arguments import check_fields
from esdedup.exceptions import PermissionDenied, StoreError, UsageError
from esdedup.models import FIELD, Document, natural
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import digest_words, normalised_digests
from esdedup.stores.base import Store
from esdedup.stores.changes import delete
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.normalise import Normalisation

Verdict = Literal["duplicate", "different", "unsure"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
PREFIX = "esdedup-judgements-"
"""The prefix of an index of judgements. A suffix would match patterns of other templates."""


@dataclass(frozen=True)
class Judgement:
    """A verdict on two documents.

    left, right: their ids, in natural order.
    verdict: "unsure" has no effect.
    digests: of both texts when they were judged.
    normalisation: of the texts, for the digests.
    similarity: exact Jaccard similarity, 0 to 1, or None.
    judged: the time, ISO 8601, UTC.
    drawn: whether the pair was drawn at random and so represents others.

    Raises UsageError for another verdict or similarity.
    """

    left: str
    right: str
    verdict: Verdict
    digests: tuple[str, str]
    normalisation: Normalisation
    similarity: float | None = None
    judged: str = ""
    drawn: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.left == self.right:
            raise UsageError(f"{self.left!r} is given twice: judge two documents")
        if self.similarity is not None and not 0 <= self.similarity <= 1:
            raise UsageError(f"similarity {self.similarity}: use a number from 0 to 1")

    def to_json(self) -> dict[str, object]:
        """Return the judgement as a JSON object."""
        normalisation = {**self.normalisation.to_json(), "version": self.normalisation.version}
        return {
            **asdict(self),
            "digests": list(self.digests),
            "normalisation": normalisation,
        }

    @staticmethod
    def from_json(document: Any) -> Judgement:
        """Return the judgement of a JSON object. Raises UsageError for another form."""
        try:
            values = {name: document[name] for name in _FIELDS}
            left, right = values["digests"]
            digest_words([left, right])
            values["digests"] = left, right
            # Judgements of earlier releases are of version 3, and do not have it.
            values["normalisation"] = Normalisation(**{"version": 3, **values["normalisation"]})
            judgement = Judgement(**values)
            if natural(judgement.right) < natural(judgement.left):
                judgement = replace(
                    judgement, left=judgement.right, right=judgement.left, digests=(right, left)
                )
            return judgement
        except KeyError as error:
            raise UsageError(f"it has no {error.args[0]}") from error
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error


_FIELDS = [field.name for field in fields(Judgement)]
_PATHS = [*_FIELDS, "representative"]


class ChangedSince(UsageError):
    """A text or a judgement is not the one that a person saw, so that nothing was stored.

    kind: of the change.
    ids: of the documents that it is about.
    """

    def __init__(self, message: str, kind: Literal["text", "judged"], ids: Sequence[str]) -> None:
        super().__init__(message)
        self.kind, self.ids = kind, tuple(ids)


@dataclass(frozen=True)
class Judgements:
    """All judgements about an index.

    pairs: judgements on pairs, in the order of their times.
    representatives: ids of the documents that were chosen to represent their groups.
    """

    pairs: tuple[Judgement, ...] = ()
    representatives: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs or self.representatives)

    def of(self, verdict: Verdict) -> list[Judgement]:
        """Return the judgements with a verdict."""
        return [judgement for judgement in self.pairs if judgement.verdict == verdict]

    def between(self, left: str, right: str) -> Judgement | None:
        """Return the judgement on two documents, given by id in any order; None if none."""
        ids = {left, right}
        return next(
            (judgement for judgement in self.pairs if {judgement.left, judgement.right} == ids),
            None,
        )

    @property
    def acting(self) -> str:
        """A digest of the judgements that change groups; "" if none does."""
        acting = [judgement for judgement in self.pairs if judgement.verdict != "unsure"]
        if not acting and not self.representatives:
            return ""
        pairs = sorted(
            (judgement.left, judgement.right, judgement.verdict, judgement.digests)
            for judgement in acting
        )
        text = json.dumps([pairs, sorted(self.representatives)])
        return xxhash.xxh3_128_hexdigest(text.encode())


def read_judgements(store: Store, meta: IndexMeta) -> Judgements:
    """Return the judgements about the index of a store, with digests of its scheme.

    Judgements of another normalisation are skipped if a text is gone or has changed. Raises the
    errors of the store: a user who can't read judgements must not act without them.
    """
    beside = store.beside(PREFIX + store.index)
    if (beside_meta := beside.meta()) is None:
        return Judgements()
    pairs: list[Judgement] = []
    representatives: list[tuple[str, str]] = []
    for batch in beside.scan(_PATHS, beside_meta):
        for document in batch:
            id = document.source.get("representative")
            if isinstance(id, str):
                representatives.append((str(document.source.get("judged")), id))
                continue
            try:
                pairs.append(Judgement.from_json(document.source))
            except UsageError as error:
                raise StoreError(
                    f"{beside.where}: document {document.id!r} is not a judgement: {error}."
                    " Remove it"
                ) from error
    # Times of several clients may be equal.
    pairs.sort(
        key=lambda judgement: (judgement.judged, natural(judgement.left), natural(judgement.right))
    )
    representatives.sort()
    return Judgements(_renewed(pairs, store, meta), tuple(id for _, id in representatives))


def judged_elsewhere(store: Store) -> tuple[str, ...]:
    """Return other names of the index that have judgements, if the user may read these."""
    with suppress(PermissionDenied):
        return tuple(name for name in store.names() if store.beside(PREFIX + name).meta())
    return ()


class StoredJudgements:
    """The judgements about the index of a store: `Index.judgements`.

    Documents are given by id.
    """

    def __init__(self, store: Store, current: Callable[[], IndexMeta]) -> None:
        """current: returns the description of the index."""
        self._store, self._current = store, current

    def read(self) -> Judgements:
        """Return all judgements, and the representatives that were chosen."""
        return read_judgements(self._store, self._current())

    def judge(
        self,
        left: str,
        right: str,
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
    ) -> Judgement:
        """Store a judgement on two documents, in place of an earlier one on them.

        verdict: "different" keeps them in different groups, "duplicate" in one; "unsure" has no
        effect. It holds while both have the text that they have now, for groups by any sketch. A
        document without a text is judged by the next field that is sketched.
        similarity: exact Jaccard similarity, stored with it.
        drawn: the pair was drawn at random (`analysis.judging`).

        Raises UsageError for equal ids or another verdict, StoreError if a document has no text.
        """
        return self.judge_pairs([(left, right)], verdict, similarity, drawn=drawn)[0]

    def judge_pairs(
        self,
        pairs: Sequence[tuple[str, str]],
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
        digests: Mapping[str, str] | None = None,
    ) -> list[Judgement]:
        """Store a verdict on pairs of documents, as `judge` does on one.

        digests: of the texts that were judged, by id; by default they are the texts of
        now. Raises ChangedSince for other texts, and stores nothing.
        """
        sorted_pairs = [
            sorted((checked_id(left), checked_id(right)), key=natural) for left, right in pairs
        ]
        meta, judged = self._current(), _now()
        normalisation = meta.scheme.normalisation
        ids = list(dict.fromkeys(id for pair in sorted_pairs for id in pair))
        digest_of = judged_digests(self._store.get(ids, meta.judged_paths), meta, normalisation)
        if missing := [id for id in ids if id not in digest_of]:
            raise StoreError(f"{self._store.where} has no document {missing[0]!r} with a text")
        if digests is not None and (
            changed_ids := [id for id in ids if digests.get(id) != digest_of[id]]
        ):
            text = f"the text of {changed_ids[0]!r} has changed since you saw it: look at it again"
            raise ChangedSince(text, "text", changed_ids)
        judgements = [
            Judgement(
                left,
                right,
                verdict,
                (digest_of[left], digest_of[right]),
                normalisation,
                similarity,
                judged,
                drawn,
            )
            for left, right in sorted_pairs
        ]
        self.write(judgements)
        return judgements

    def stored_on(self, pairs: Iterable[tuple[str, str]]) -> list[Judgement]:
        """Return the judgements on pairs of documents. Raises UsageError for another form."""
        beside = self._beside
        if beside.meta() is None:
            return []
        documents = beside.hold([_id_of(*pair) for pair in pairs], _PATHS)
        return [Judgement.from_json(document.source) for document in documents]

    def renewed(self, judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
        """Return stored judgements as `read` does, with digests of the scheme of now."""
        return _renewed(judgements, self._store, self._current())

    def write(self, judgements: Iterable[Judgement]) -> None:
        """Write judgements; they are durable when this returns."""
        self._write(
            {
                _id_of(judgement.left, judgement.right): judgement.to_json()
                for judgement in judgements
            }
        )

    def remove(self, left: str, right: str) -> None:
        """Remove the judgement on two documents, if there is one."""
        self.remove_pairs([(checked_id(left), checked_id(right))])

    def remove_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Remove the judgements on pairs of documents, if there are any."""
        self._delete([_id_of(*pair) for pair in pairs])

    def represent(self, id: str, instead_of: Sequence[str] = ()) -> None:
        """Let a document represent its group from now on.

        instead_of: ids of documents that were chosen before, and are not to any more.
        """
        id = checked_id(id)
        self._write({_id_of(id): {"representative": id, "judged": _now()}})
        self._delete([_id_of(former) for former in instead_of if former != id])

    def unrepresent(self, id: str) -> None:
        """Remove the choice of a document as a representative, if there is one."""
        self._delete([_id_of(checked_id(id))])

    def drop(self) -> None:
        """Delete all judgements about the index."""
        beside = self._beside
        if beside.meta() is not None:
            beside.drop()

    @property
    def _beside(self) -> Store:
        """The index that holds the judgements."""
        return self._store.beside(PREFIX + self._store.index)

    def _write(self, sources: Mapping[str, Mapping[str, object]]) -> None:
        """Write documents into the index of judgements, by id."""
        if not sources:
            return
        beside = self._beside
        meta = beside.meta()
        if meta is None:
            # No tokens: scans find documents by the scheme.
            beside.create(IndexMeta(Scheme()), mapped=False)
            meta = beside.meta() or IndexMeta(Scheme())
        tokens = {FIELD: {"scheme": meta.scheme.id}}
        report = beside.write(
            [Document(id, {**source, **tokens}) for id, source in sources.items()]
        )
        for failure in report.failures:
            raise StoreError(f"{beside.where}: the judgement was not stored: {failure.reason}")
        beside.refresh()

    def _delete(self, ids: Sequence[str]) -> None:
        """Delete documents of the index of judgements."""
        beside = self._beside
        if ids and beside.meta() is not None:
            delete(beside, ids)
            beside.refresh()


def _renewed(pairs: Sequence[Judgement], store: Store, meta: IndexMeta) -> tuple[Judgement, ...]:
    """Convert the judgements to digests of the index's normalisation."""
    current = meta.scheme.normalisation
    former = [judgement for judgement in pairs if judgement.normalisation != current]
    if not former:
        return tuple(pairs)
    ids = {id for judgement in former for id in (judgement.left, judgement.right)}
    documents = store.get(list(ids), meta.judged_paths)
    normalisations = {current, *(judgement.normalisation for judgement in former)}
    digest_of = {
        normalisation: judged_digests(documents, meta, normalisation)
        for normalisation in normalisations
    }

    def renewed(judgement: Judgement) -> Judgement | None:
        """Return a judgement with new digests, or None if a text is gone or has changed."""
        if judgement.normalisation == current:
            return judgement
        ids = judgement.left, judgement.right
        if tuple(map(digest_of[judgement.normalisation].get, ids)) != judgement.digests:
            return None
        left, right = map(digest_of[current].__getitem__, ids)
        return replace(judgement, digests=(left, right), normalisation=current)

    return tuple(judgement for judgement in map(renewed, pairs) if judgement is not None)


def digests_of(
    documents: Iterable[Document], text_fields: Sequence[str], normalisation: Normalisation
) -> dict[str, str]:
    """Return the digests of documents' texts, by id, if they have a text."""
    texts = {document.id: text_at(document.source, text_fields) for document in documents}
    return _digests(texts, normalisation)


def judged_digests(
    documents: Iterable[Document], meta: IndexMeta, normalisation: Normalisation
) -> dict[str, str]:
    """Return the digests that judgements on documents have, by id, if they have a text.

    documents: with the fields of `IndexMeta.judged_paths`.
    """
    texts = {document.id: meta.judged_text(document.source) for document in documents}
    return _digests(texts, normalisation)


def _digests(texts: Mapping[str, str | None], normalisation: Normalisation) -> dict[str, str]:
    """Return the digests of texts, by id, without those that are None."""
    with_text = {id: text for id, text in texts.items() if text is not None}
    _, digests = normalised_digests(list(with_text.values()), normalisation)
    return dict(zip(with_text, digests, strict=True))


def checked_id(id: object) -> str:
    """Return an id as text: an integer is accepted too. Raises UsageError for others."""
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise UsageError(f"id {id!r}: use text or a whole number")
    return str(id)


def _id_of(*ids: str) -> str:
    """Return the id of the judgement on two documents, or on a representative."""
    # A hash, because ids of documents may be too long to be joined.
    text = json.dumps(sorted(ids, key=natural))
    return xxhash.xxh3_128_hexdigest(text.encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
