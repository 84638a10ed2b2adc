"""A new measure and a new kind of sketch are one definition each, by which every door compares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup import MinHash, Scheme
from esdedup.sketch.comparisons import ShingleComparison, TextComparison
from esdedup.sketch.hashed_texts import HashedTexts
from esdedup.sketch.kinds.base import Block, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD
from esdedup.sketch.scheme import KINDS
from esdedup.sketch.tokens import decode_any
from esdedup.text.arrays import F64, I64, Ragged
from esdedup.text.jaccard import jaccard
from esdedup.text.passages import winnow
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.places import Place


class Containment(ShingleComparison):
    """The shingles that two documents share, divided by those of the smaller one."""

    def nearness(self, operands: Ragged, left: I64, right: I64) -> F64:
        similarity = jaccard(operands, left, right)
        sizes = np.stack([operands.counts[left], operands.counts[right]])
        shared = np.rint(similarity * sizes.sum(axis=0) / (1 + similarity))
        fractions: F64 = shared / np.maximum(sizes.min(axis=0), 1)
        return fractions[None]


class SharedStart(TextComparison):
    """The fraction of the bytes of the longer text with which both begin."""

    def operands(self, texts: HashedTexts) -> Ragged:
        rows = [np.frombuffer(text.encode("utf-8"), np.uint8) for text in texts.texts]
        return Ragged.of_rows([row.astype(np.uint64) for row in rows])

    def nearness(self, operands: Ragged, left: I64, right: I64) -> F64:
        fractions = []
        for left_bytes, right_bytes in zip(operands[left], operands[right], strict=True):
            shorter, longer = sorted((left_bytes.size, right_bytes.size))
            is_equal = left_bytes[:shorter] == right_bytes[:shorter]
            fractions.append(np.logical_and.accumulate(is_equal).sum() / max(longer, 1))
        return np.array([fractions], np.float64)


CONTAINMENT = replace(JACCARD, name="containment", words="containment", comparison=Containment())


@dataclass(frozen=True)
class Bands(MinHash):
    """Bands, as of MinHash, compared by containment."""

    kind = "contained"
    measure = CONTAINMENT


@dataclass(frozen=True)
class Triples(Sketch):
    """All runs of three words, as tokens."""

    kind = "triples"
    measure = CONTAINMENT
    varies = True
    tokens = 1
    bits = 36

    def values(self, block: Block) -> Ragged:
        return winnow(block.words, 3, 1, self.bits)

    def decode(self, tokens: Sequence[Sequence[str]]) -> Ragged:
        return decode_any(tokens, self.bits)

    def query(self, block: Block, limits: Limits) -> tuple[Ragged, None]:
        return self.values(block), None

    def describe(self) -> str:
        return "all runs of three words"


@dataclass(frozen=True)
class Starts(Triples):
    """The same tokens, compared by how texts begin."""

    kind = "starts"
    measure = replace(JACCARD, name="start", words="shared start", comparison=SharedStart())


ARTICLE = words(1, 60)
DOCUMENTS = {
    "article": ARTICLE,
    "beginning": " ".join(ARTICLE.split()[:20]),
    "quoting": f"{words(2, 60)} {' '.join(ARTICLE.split()[10:40])}",
    "longer": f"{ARTICLE} {words(3, 12)}",
    "unrelated": words(4, 40),
}


def contained(left: str, right: str) -> float:
    left_triples, right_triples = triples_of(left), triples_of(right)
    shared = len(left_triples & right_triples)
    return shared / min(len(left_triples), len(right_triples))


def triples_of(text: str) -> set[tuple[str, ...]]:
    all_words = text.split()
    return {*zip(all_words, all_words[1:], all_words[2:], strict=False)}


def shared_start(left: str, right: str) -> float:
    longer = max(len(left), len(right))
    starts = (length for length in range(longer + 1) if left[:length] == right[:length])
    return min(max(starts), len(left), len(right)) / longer


VALUES = {"triples": contained, "starts": shared_start}


@pytest.fixture
def kinds() -> Iterator[None]:
    """Register the new kinds."""
    new_kinds: dict[str, type[Sketch]] = {kind.kind: kind for kind in (Triples, Starts, Bands)}
    KINDS.update(new_kinds)
    yield
    for name in new_kinds:
        del KINDS[name]


@pytest.fixture
def index(folder: Path, kinds: None) -> Iterator[esdedup.Index]:
    scheme = Scheme([Triples(), Starts()])
    with open_index(
        Place(folder / "documents.db", "documents"), DOCUMENTS, scheme=scheme
    ) as opened:
        yield opened


@pytest.mark.parametrize("sketch", VALUES)
@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.9])
def test_searches_and_pairs_are_those_of_brute_force(
    index: esdedup.Index, sketch: str, threshold: float
) -> None:
    value = {
        (left, right): VALUES[sketch](DOCUMENTS[left], DOCUMENTS[right])
        for left, right in combinations(sorted(DOCUMENTS), 2)
    }
    similar = {pair: nearness for pair, nearness in value.items() if nearness >= threshold}
    pairs = index.pairs(sketch=sketch, threshold=threshold)
    assert {(pair.left, pair.right): pair.similarity for pair in pairs} == pytest.approx(similar)
    for id in DOCUMENTS:
        near = {
            other: nearness
            for pair, nearness in similar.items()
            if id in pair
            for other in {*pair} - {id}
        }
        result = index.similar(id=id, sketch=sketch, threshold=threshold)
        assert {match.id: match.similarity for match in result} == pytest.approx(near)


def test_groups_of_an_index_and_of_texts(index: esdedup.Index) -> None:
    records = [{"id": id, "text": text} for id, text in DOCUMENTS.items()]
    for groups in (
        index.groups(sketch="triples", threshold=0.9),
        esdedup.group(records, id="id", sketch="triples", threshold=0.9),
    ):
        (group,) = groups
        assert group.representative == "article"
        similarities = {member.id: member.similarity for member in group.members}
        assert similarities == {"beginning": 1.0, "longer": 1.0}


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("batches", [1, 2], ids=["in one batch", "after another"])
def test_documents_that_arrive_are_marked(folder: Path, batches: int) -> None:
    documents = [{"id": id, "text": DOCUMENTS[id]} for id in ("article", "longer")]
    with esdedup.open(folder / "documents.db", "documents", scheme=Scheme([Bands()])) as index:
        for start in range(0, 2, 2 // batches):
            index.add(documents[start : start + 2 // batches], on_duplicate="mark")
        original, duplicate = (index.get(document["id"]) for document in documents)
    assert original is not None
    assert duplicate is not None
    assert "original" not in original.source["esdedup"]
    marks = duplicate.source["esdedup"]
    assert (marks["original"], marks["similarity"]) == ("article", 1.0)
