"""What a store knows of documents that come in: their former verdicts, and who is like them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from esdedup.exceptions import RecordError
from esdedup.ingest.documents import MARKS
from esdedup.ingest.recent import Near, Verdict
from esdedup.models import Candidates, Query, RecallQuery, tokens_in
from esdedup.search.limits import Limits
from esdedup.search.similar import similar
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of, value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.normalise import normalise

_DIGESTS_AT_ONCE = 200
_OF_ONE_TEXT = 10
"""Of the documents of one text any will do; the first ones may be no longer what they were."""


def verdicts_of(
    store: Store, meta: IndexMeta, ids: Sequence[str]
) -> dict[str, tuple[str, Verdict]]:
    """The digest of each document that has a group, and what was said of it, by id."""
    paths = {name: f"{meta.field}.{name}" for name in ("digest", *MARKS)}
    found = {}
    for document in store.get(ids, list(paths.values())):
        ours = {name: value_at(document.source, path) for name, path in paths.items()}
        if ours["group"] is not None:
            found[document.id] = ours["digest"] or "", Verdict.stored(document.id, ours)
    return found


def of_equal_texts(
    store: Store, meta: IndexMeta, texts: Mapping[str, str]
) -> dict[str, list[Near]]:
    """Documents of just these texts, a few of each, by digest.

    texts: normalised, by digest.
    """
    near: dict[str, list[Near]] = {}
    digests = list(texts)
    for first in range(0, len(digests), _DIGESTS_AT_ONCE):
        for candidates in _with_digests(store, meta, digests[first : first + _DIGESTS_AT_ONCE]):
            for digest, text, found in _read(candidates, meta):
                # The digest may be that of a text that somebody changed, or by chance another's.
                if texts.get(digest) == text:
                    near.setdefault(digest, []).append(found)
    return near


def _with_digests(store: Store, meta: IndexMeta, digests: list[str]) -> Iterator[Candidates]:
    together = RecallQuery("digest", [digests], field=meta.field)
    (found,) = store.recall([together], 2 * len(digests))
    if not found.truncated:
        yield found
        return
    # One text of thousands of documents would hide the others.
    for digest in digests:
        yield from store.recall([RecallQuery("digest", [[digest]], field=meta.field)], _OF_ONE_TEXT)


def _read(candidates: Candidates, meta: IndexMeta) -> Iterator[tuple[str, str, Near]]:
    """Digest, normalised text, and id of the documents that have a text."""
    rows, texts = [], []
    for candidate in candidates.found:
        document = candidate.document
        try:
            texts.append(text_of(document.source, meta.text_field))
        except RecordError:
            # A foreign update may have taken it away and left the tokens.
            continue
        ours = document.tokens_in(meta.field)
        rows.append(
            (ours.get("digest", ""), Near(document.id, Verdict.stored(document.id, ours), 0))
        )
    normalised = normalise(texts, meta.scheme.normalisation)
    for (digest, near), text in zip(rows, normalised, strict=True):
        yield digest, text, near


def of_similar_texts(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[tuple[list[Near], bool]]:
    """For each query the similar documents, and whether there were more candidates."""
    answers = []
    for result in similar(store, meta, queries, limits):
        near = []
        for match in result.matches:
            verdict = Verdict.stored(match.id, tokens_in(match.source, meta.field))
            value = match.similarity if match.distance is None else match.distance
            near.append(Near(match.id, verdict, value or 0.0))
        answers.append((near, result.truncated or result.blind))
    return answers
