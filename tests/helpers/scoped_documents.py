"""Documents with scopes, and what brute force finds among them."""

import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import esdedup
from esdedup.results import Groups, SimilarPairs

THRESHOLD = 0.6
DAYS = 3
SCOPES = [("source",), (f"date:{DAYS}d",), ("source", f"date:{DAYS}d"), ("date:3d", "seen:1d")]
Documents = Sequence[Mapping[str, Any]]


def corpus(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Documents near some texts, with sources of several types, times, and values that lack."""
    chance = random.Random(seed)
    words = [f"w{word}" for word in range(200)]
    texts = [chance.choices(words, k=20) for _ in range(number // 20)]
    start = datetime(2026, 1, 1)
    documents = []
    for id in range(number):
        text = [*chance.choice(texts)]
        for _ in range(chance.choice([0, 0, 1, 2])):
            text[chance.randrange(20)] = chance.choice(words)
        date = start + timedelta(hours=chance.randrange(24 * 15))
        document = {
            "id": str(id),
            "text": "!!!" if chance.random() < 0.05 else " ".join(text),
            "source": chance.choice(["a", "b", 1, "1", ["b", "a"], ["a", "b"], None]),
            "date": date.isoformat() if chance.random() < 0.95 else "soon",
            "seen": (date + timedelta(hours=chance.randrange(72))).isoformat(),
        }
        documents.append(document)
    return documents


def value_of(source: object) -> object:
    return sorted(source) if isinstance(source, list) else str(source)


def in_scope(left: Mapping[str, Any], right: Mapping[str, Any], within: Sequence[str]) -> bool:
    for scope in within:
        field, _, length = scope.partition(":")
        values = left[field], right[field]
        if None in values or "soon" in values:
            return False
        if not length:
            if value_of(values[0]) != value_of(values[1]):
                return False
            continue
        times = [datetime.fromisoformat(value) for value in values]
        if abs(times[0] - times[1]) > timedelta(days=int(length[:-1])):
            return False
    return True


def similarities(documents: Documents) -> Mapping[tuple[int, int], float]:
    """The Jaccard similarity of pairs that are similar, whatever their scopes."""
    return _similarities(tuple(document["text"] for document in documents))


@functools.cache
def _similarities(texts: tuple[str, ...]) -> Mapping[tuple[int, int], float]:
    words = [text.split() for text in texts]
    shingles = [{tuple(row[at : at + 3]) for at in range(len(row) - 2)} for row in words]
    # Similar documents have a shingle in common, or equal texts.
    holders = defaultdict[object, list[int]](list)
    for row, text in enumerate(texts):
        for key in (text, *shingles[row]):
            holders[key].append(row)
    pairs = {pair for rows in holders.values() for pair in itertools.combinations(rows, 2)}
    similar = {}
    for left, right in sorted(pairs):
        if texts[left] == texts[right]:
            similar[left, right] = 1.0
            continue
        both = len(shingles[left] & shingles[right])
        value = both / len(shingles[left] | shingles[right])
        if value >= THRESHOLD:
            similar[left, right] = value
    return similar


def earlier_of(documents: Documents) -> list[list[int]]:
    """The earlier documents that are similar to each document, whatever their scopes."""
    earlier: list[list[int]] = [[] for _ in documents]
    for left, right in similarities(documents):
        earlier[right].append(left)
    return earlier


def components(documents: Documents, within: Sequence[str]) -> dict[int, int]:
    """The representative of each duplicate, if chains form groups."""
    first = {row: row for row in range(len(documents))}

    def root(row: int) -> int:
        return row if first[row] == row else root(first[row])

    for left, right in similarities(documents):
        if in_scope(documents[left], documents[right], within):
            earlier, later = sorted((root(left), root(right)))
            first[later] = earlier
    return {row: root(row) for row in first if root(row) != row}


def leaders(documents: Documents, within: Sequence[str]) -> dict[int, int]:
    """The representative of each duplicate, which is similar to it and in its scope."""
    similar, earlier = similarities(documents), earlier_of(documents)
    leader: dict[int, int] = {}
    first_of_class: dict[str, int] = {}
    for row, document in enumerate(documents):
        if not in_scope(document, document, within):
            leader[row] = row
            continue
        # Documents of one text, with the same values and times, are one thing.
        values = [value_of(document[scope.partition(":")[0]]) for scope in within]
        first = first_of_class.setdefault(repr([document["text"], *values]), row)
        if first != row:
            leader[row] = leader[first]
            continue
        near = [
            (-similar[other, row], other)
            for other in earlier[row]
            if leader[other] == other and in_scope(documents[other], document, within)
        ]
        leader[row] = min(near)[1] if near else row
    return {row: first for row, first in leader.items() if row != first}


def of_groups(groups: Groups) -> dict[int, int]:
    return {
        int(member.id): int(group.representative) for group in groups for member in group.members
    }


def of_pairs(pairs: SimilarPairs) -> set[tuple[int, int]]:
    ids = ((int(pair.left), int(pair.right)) for pair in pairs)
    return {(min(pair), max(pair)) for pair in ids}


def one_type_a_field(documents: Documents) -> list[dict[str, Any]]:
    """Return documents whose sources are texts and whose dates are times, for a cluster.

    It maps a field by the first value, and leaves long values out of what it searches.
    """
    sources = {"b": "b" * 300, "None": None}
    texts = [
        sources.get(str(document["source"]), str(document["source"])) for document in documents
    ]
    typed = [
        {**document, "source": source}
        for document, source in zip(documents, texts, strict=True)
        if document["date"] != "soon"
    ]
    return [{**document, "id": str(row)} for row, document in enumerate(typed)]


def originals_of(documents: Documents, within: Sequence[str], action: str) -> dict[int, int]:
    """The original of each document that is the duplicate of an earlier one."""
    similar, earlier = similarities(documents), earlier_of(documents)
    originals = dict[int, int]()
    has_window = any(":" in scope for scope in within)
    for row, document in enumerate(documents):
        near = [other for other in earlier[row] if in_scope(documents[other], document, within)]
        if action == "skip":
            near = [other for other in near if other not in originals]
        equal = [other for other in near if documents[other]["text"] == document["text"]]
        if action == "group":
            near = [other for other in near if other not in originals]
            if has_window:
                equal = [other for other in equal if other in near]
        if equal:
            _, original = min((other in originals, other) for other in equal)
            is_member = action == "group" and original in originals
            originals[row] = originals[original] if is_member else original
        elif near:
            originals[row] = min((-similar[other, row], other) for other in near)[1]
    return originals


def stored_originals(index: esdedup.Index) -> dict[int, int]:
    """The originals that the documents of an index are marked with."""
    (documents,) = [
        [
            document
            for batch in index.store.scan(["esdedup.original"], index.meta)
            for document in batch
        ]
    ]
    ours = {document.id: document.source.get("esdedup", {}) for document in documents}
    return {int(id): int(marks["original"]) for id, marks in ours.items() if "original" in marks}
