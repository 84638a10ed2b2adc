"""A file of documents to a file of verified pairs, by a peer; runs in the peers' own environment.

    python peer_whole_job.py datasketch|gaoya|rensa DOCUMENTS OUT THRESHOLD BANDSxROWS
        [--unverified]

DOCUMENTS: JSON lines of `id` and `text`; OUT: JSON lines of `left`, `right` and `similarity`.
Texts in lower case are split into words, the sets are of three words in a row, as esdedup's are by
default, so that all look for the same pairs. datasketch makes 128 permutations, the others as many
as bands and rows take. Verified: the Jaccard similarity of the sets is worked out for each
candidate, which is kept from the threshold on.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PERMUTATIONS = 128
AT_ONCE = 1_000
WORD = re.compile(r"\w+")

Sets = list[set[str]]
Candidates = Iterator[tuple[int, Iterable[int]]]
Shape = tuple[int, int]


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def shingles(text: str) -> set[str]:
    found = words(text)
    if len(found) < 3:
        return {" ".join(found)} if found else set()
    return {" ".join(three) for three in zip(found, found[1:], found[2:], strict=False)}


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
    coded = ([shingle.encode() for shingle in each] for each in sets)
    made = MinHash.generator(coded, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)
    for row, each in enumerate(made):
        if sets[row]:
            yield row, index.query(each)
            index.insert(row, each, check_duplication=False)


def by_rensa(sets: Sets, shape: Shape) -> Candidates:
    from rensa import RMinHash, RMinHashLSH

    bands, rows = shape
    index = RMinHashLSH(0.0, bands * rows, bands)
    made = RMinHash.from_token_sets([list(each) for each in sets], bands * rows, 42)
    index.insert_many(made)
    for first in range(0, len(made), AT_ONCE):
        for row, found in enumerate(index.query_all(made[first : first + AT_ONCE]), first):
            if sets[row]:
                yield row, (other for other in found if other < row)


def by_gaoya(sets: Sets, shape: Shape) -> Candidates:
    from gaoya.minhash import MinHashStringIndex

    # Sets that are made already are cheaper than its own splitting, and those that are verified.
    index = MinHashStringIndex(
        32, 0.0, *shape, None, lambda row: list(sets[row]), False, None, id_container="smallvec"
    )
    filled = [row for row, each in enumerate(sets) if each]
    parts = [filled[first : first + AT_ONCE] for first in range(0, len(filled), AT_ONCE)]
    for part in parts:
        index.par_bulk_insert_docs(part, part)
    for part in parts:
        for row, found in zip(part, index.par_bulk_query(part), strict=True):
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
    sets: Sets = []
    for id, text in documents(options.documents):
        ids.append(id)
        sets.append(shingles(text))
    with options.out.open("w", encoding="utf-8") as file:
        for row, found in WAYS[options.peer](sets, (bands, rows)):
            own = sets[row]
            for other in found:
                pair: dict[str, object] = {"left": ids[other], "right": ids[row]}
                if not options.unverified:
                    shared = len(own & sets[other])
                    similarity = shared / (len(own) + len(sets[other]) - shared)
                    if similarity < options.threshold:
                        continue
                    pair["similarity"] = similarity
                file.write(json.dumps(pair) + "\n")


if __name__ == "__main__":
    main()
