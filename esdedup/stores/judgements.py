"""Store judgements of people: on pairs of documents, and on the representatives of groups.

They are stored in an index of their own, named for the index that they are about. That index's
mapping and documents don't change, and a new index of the same name keeps the judgements.

A judgement holds only while both documents have the text that was judged, by its digest. If the
index changes to another normalisation, digests of unchanged texts are computed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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

    left, right: their ids, in natural order. verdict: "unsure" has no effect. digests: of both
    texts when they were judged. normalisation: of the texts, for the digests. similarity: exact
    Jaccard similarity, 0 to 1, or None. judged: ISO 8601, UTC. drawn: the pair was drawn at random
    and so represents others. Raises UsageError for another verdict or similarity.
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

    def to_json(self) -> dict[str, Any]:
        normalisation = {**self.normalisation.to_json(), "version": self.normalisation.version}
        return {
            **asdict(self),
            "digests": list(self.digests),
            "normalisation": normalisation,
        }

    @staticmethod
    def from_json(found: Any) -> Judgement:
        """Return the judgement of a JSON object. Raises UsageError for another form."""
        try:
            given = {each.name: found[each.name] for each in fields(Judgement)}
            left, right = given["digests"]
            digest_words([left, right])
            given |= {"digests": (left, right)}
            # Judgements of earlier releases are of version 3, and do not have it.
            given["normalisation"] = Normalisation(**{"version": 3, **given["normalisation"]})
            return Judgement(**given)
        except KeyError as error:
            raise UsageError(f"it has no {error.args[0]}") from error
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error


_PATHS = [*(each.name for each in fields(Judgement)), "representative"]


@dataclass(frozen=True)
class Judgements:
    """All judgements about an index.

    pairs: in the order of their times. representatives: ids of the documents that were chosen to
    represent their groups.
    """

    pairs: tuple[Judgement, ...] = ()
    representatives: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs or self.representatives)

    def of(self, verdict: Verdict) -> list[Judgement]:
        """Return the judgements with a verdict."""
        return [each for each in self.pairs if each.verdict == verdict]

    def between(self, one: str, other: str) -> Judgement | None:
        """Return the judgement on two documents, given by id in any order; None if none."""
        both = {one, other}
        return next((each for each in self.pairs if {each.left, each.right} == both), None)

    @property
    def acting(self) -> str:
        """A digest of the judgements that change groups; "" if none does."""
        acting = [each for each in self.pairs if each.verdict != "unsure"]
        if not acting and not self.representatives:
            return ""
        pairs = sorted((each.left, each.right, each.verdict, each.digests) for each in acting)
        written = json.dumps([pairs, sorted(self.representatives)])
        return xxhash.xxh3_128_hexdigest(written.encode())


def read_judgements(store: Store, meta: IndexMeta) -> Judgements:
    """Return the judgements about the index of a store, with digests of its scheme.

    Judgements of another normalisation are skipped if a text is gone or has changed. Raises the
    errors of the store: a user who can't read judgements must not act without them.
    """
    beside = store.beside(PREFIX + store.index)
    if (own := beside.meta()) is None:
        return Judgements()
    pairs: list[Judgement] = []
    chosen: list[tuple[str, str]] = []
    for batch in beside.scan(_PATHS, own):
        for each in batch:
            id = each.source.get("representative")
            if isinstance(id, str):
                chosen.append((str(each.source.get("judged")), id))
                continue
            try:
                pairs.append(Judgement.from_json(each.source))
            except UsageError as error:
                raise StoreError(
                    f"{beside.where}: document {each.id!r} is not a judgement: {error}. Remove it"
                ) from error
    # Times of several clients may be equal.
    pairs.sort(key=lambda each: (each.judged, natural(each.left), natural(each.right)))
    chosen.sort()
    return Judgements(_renewed(pairs, store, meta), tuple(id for _, id in chosen))


def judged_elsewhere(store: Store) -> tuple[str, ...]:
    """Return other names of the index that have judgements, if the user may read these."""
    with suppress(PermissionDenied):
        return tuple(name for name in store.names() if store.beside(PREFIX + name).meta())
    return ()


def judge(
    store: Store,
    meta: IndexMeta,
    pairs: Sequence[tuple[str, str]],
    verdict: Verdict,
    similarity: float | None = None,
    drawn: bool = False,
) -> list[Judgement]:
    """Store a verdict on pairs of documents, given by id, in place of earlier ones.

    Raises UsageError for equal ids, and StoreError if a document does not exist or has no text.
    """
    sorted_pairs = [sorted(pair, key=natural) for pair in pairs]
    normalisation, now = meta.scheme.normalisation, _now()
    ids = dict.fromkeys(id for pair in sorted_pairs for id in pair)
    documents = store.get(list(ids), [*meta.text_fields])
    digest_of = digests_of(documents, meta.text_fields, normalisation)
    if missing := [id for id in ids if id not in digest_of]:
        raise StoreError(f"{store.where} has no document {missing[0]!r} with a text")
    same = normalisation, similarity, now, drawn
    made = [
        Judgement(left, right, verdict, (digest_of[left], digest_of[right]), *same)
        for left, right in sorted_pairs
    ]
    keep_judgements(store, made)
    return made


def stored_judgements(store: Store, pairs: Iterable[tuple[str, str]]) -> list[Judgement]:
    """Return the stored judgements on pairs of documents. Raises UsageError for another form."""
    beside = store.beside(PREFIX + store.index)
    if beside.meta() is None:
        return []
    found = beside.hold([_id(*pair) for pair in pairs], _PATHS)
    return [Judgement.from_json(each.document.source) for each in found]


def keep_judgements(store: Store, judgements: Iterable[Judgement]) -> None:
    """Write judgements; they are durable when this returns."""
    _write(store, {_id(each.left, each.right): each.to_json() for each in judgements})


def forget_judgements(store: Store, judged: Iterable[Sequence[str]]) -> None:
    """Remove judgements on pairs of documents, or on representatives, given by ids."""
    beside = store.beside(PREFIX + store.index)
    ids = [_id(*each) for each in judged]
    if ids and beside.meta() is not None:
        delete(beside, ids)
        beside.refresh()


def choose_representative(store: Store, id: str, instead_of: Sequence[str] = ()) -> None:
    """Let a document represent its group. instead_of: ids that represent theirs no longer."""
    _write(store, {_id(id): {"representative": id, "judged": _now()}})
    forget_judgements(store, [[each] for each in instead_of if each != id])


def _write(store: Store, sources: Mapping[str, dict[str, Any]]) -> None:
    if not sources:
        return
    beside = store.beside(PREFIX + store.index)
    meta = beside.meta()
    if meta is None:
        # No tokens: scans find documents by the scheme.
        beside.create(IndexMeta(Scheme()), mapped=False)
        meta = beside.meta() or IndexMeta(Scheme())
    own = {FIELD: {"scheme": meta.scheme.id}}
    report = beside.write([Document(id, source | own) for id, source in sources.items()])
    for failure in report.failures:
        raise StoreError(f"{beside.where}: the judgement was not stored: {failure.reason}")
    beside.refresh()


def _renewed(pairs: Sequence[Judgement], store: Store, meta: IndexMeta) -> tuple[Judgement, ...]:
    """Convert the judgements to digests of the index's normalisation."""
    wanted = meta.scheme.normalisation
    former = [each for each in pairs if each.normalisation != wanted]
    if not former:
        return tuple(pairs)
    ids = {id for each in former for id in (each.left, each.right)}
    used = {wanted, *(each.normalisation for each in former)}
    documents = store.get(list(ids), [*meta.text_fields])
    digest_of = {each: digests_of(documents, meta.text_fields, each) for each in used}

    def now(judged: Judgement) -> Judgement | None:
        if judged.normalisation == wanted:
            return judged
        both = judged.left, judged.right
        if tuple(map(digest_of[judged.normalisation].get, both)) != judged.digests:
            return None
        left, right = map(digest_of[wanted].__getitem__, both)
        return replace(judged, digests=(left, right), normalisation=wanted)

    return tuple(each for each in map(now, pairs) if each is not None)


def digests_of(
    documents: Iterable[Document], text_fields: Sequence[str], normalisation: Normalisation
) -> dict[str, str]:
    """Return the digests of documents' texts, by id, if they have a text."""
    texts = {each.id: text_at(each.source, text_fields) for each in documents}
    with_text = {id: text for id, text in texts.items() if text is not None}
    _, digests = normalised_digests(list(with_text.values()), normalisation)
    return dict(zip(with_text, digests, strict=True))


def _id(*ids: str) -> str:
    # A hash, because ids of documents may be too long to be joined.
    written = json.dumps(sorted(ids, key=natural))
    return xxhash.xxh3_128_hexdigest(written.encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
