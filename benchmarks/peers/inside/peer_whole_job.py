"""A file of documents to a file of verified pairs, by a peer; runs in the peers' own environment.

    python inside/peer_whole_job.py datasketch|gaoya|rensa DOCUMENTS OUT THRESHOLD BANDSxROWS
        [--unverified]

DOCUMENTS: JSON lines of `id` and `text`; OUT: JSON lines of `left`, `right` and `similarity`.
Texts in lower case are split into words, the sets are of three words in a row, as esdedup's are by
default, so that all look for the same pairs. datasketch makes 128 permutations, the others as many
as bands and rows take. Verified: the Jaccard similarity of the sets is worked out for each
candidate, which is kept from the threshold on.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PERMUTATIONS = 128
AT_ONCE = 1_000
WORD = re.compile(r"\w+")

Candidates = Iterator[tuple[int, Iterable[int]]]
Shape = tuple[int, int]


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def shingles(text: str) -> set[str]:
    found = words(text)
    if len(found) < 3:
        return {" ".join(found)} if found else set()
    return {" ".join(three) for three in zip(found, found[1:], found[2:], strict=False)}


class Sets:
    """The sets of texts, each made when it is first asked for."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self._made: list[set[str] | None] = [None] * len(texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> set[str]:
        made = self._made[row]
        if made is None:
            made = self._made[row] = shingles(self.texts[row])
        return made


def documents(file: Path) -> Iterator[tuple[str, str]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            yield document["id"], document["text"]


def by_datasketch(sets: Sets, shape: Shape) -> Candidates:
    """Each document's earlier candidates: it is asked for before it is put in."""
    import xxhash
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=PERMUTATIONS, params=shape)
    coded = ([shingle.encode() for shingle in sets[row]] for row in range(len(sets)))
    made = MinHash.generator(coded, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)
    for row, each in enumerate(made):
        if sets[row]:
            yield row, index.query(each)
            index.insert(row, each, check_duplication=False)


def by_rensa(sets: Sets, shape: Shape) -> Candidates:
    from rensa import RMinHash, RMinHashLSH

    bands, rows = shape
    index = RMinHashLSH(0.0, bands * rows, bands)
    tokens = [list(sets[row]) for row in range(len(sets))]
    made = RMinHash.from_token_sets(tokens, bands * rows, 42)
    index.insert_many(made)
    for first in range(0, len(made), AT_ONCE):
        for row, found in enumerate(index.query_all(made[first : first + AT_ONCE]), first):
            yield row, (other for other in found if other < row)


def by_gaoya(sets: Sets, shape: Shape) -> Candidates:
    """By its own splitting, on all cores; sets are made of candidates only."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(32, 0.0, *shape, None, "word", True, (3, 3), id_container="smallvec")
    for first in range(0, len(sets), AT_ONCE):
        part = sets.texts[first : first + AT_ONCE]
        index.par_bulk_insert_docs(list(range(first, first + len(part))), part)
    for first in range(0, len(sets), AT_ONCE):
        answers = index.par_bulk_query(sets.texts[first : first + AT_ONCE])
        for row, found in enumerate(answers, first):
            yield row, (other for other in found if other < row)


WAYS: dict[str, Callable[[Sets, Shape], Candidates]] = {
    "datasketch": by_datasketch,
    "gaoya": by_gaoya,
    "rensa": by_rensa,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=sorted(WAYS))
    parser.add_argument("documents", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("threshold", type=float)
    parser.add_argument("shape", metavar="BANDSxROWS")
    parser.add_argument("--unverified", action="store_true")
    options = parser.parse_args()
    bands, rows = map(int, options.shape.split("x"))
    ids: list[str] = []
    texts: list[str] = []
    for id, text in documents(options.documents):
        ids.append(id)
        texts.append(text)
    sets = Sets(texts)
    with options.out.open("w", encoding="utf-8") as file:
        for row, found in WAYS[options.peer](sets, (bands, rows)):
            for other in found:
                pair: dict[str, object] = {"left": ids[other], "right": ids[row]}
                if not options.unverified:
                    # Two texts without words are no pair.
                    shared = len(sets[row] & sets[other])
                    similarity = shared / max(1, len(sets[row]) + len(sets[other]) - shared)
                    if similarity < options.threshold:
                        continue
                    pair["similarity"] = similarity
                file.write(json.dumps(pair) + "\n")


if __name__ == "__main__":
    main()
