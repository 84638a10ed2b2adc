"""The bytes that repeat earlier ones, by a suffix array and its common prefixes (libdivsufsort).

    python peer_suffix_array.py FILE LENGTH

prints the fraction of the bytes of the texts of a JSONL file that are in a run of LENGTH bytes
which occurs before, wherever it begins. It writes no texts.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydivsufsort import divsufsort, kasai


def repeated(data: NDArray[np.uint8], length: int) -> float:
    suffixes = divsufsort(data)
    prefixes = kasai(data, suffixes)
    # Suffixes that share `length` bytes follow each other; the first of them in the text stays.
    begins = np.append(0, np.flatnonzero(prefixes[:-1] < length) + 1)
    del prefixes
    firsts = np.minimum.reduceat(suffixes, begins)
    counts = np.diff(np.append(begins, data.size))
    later = np.sort(suffixes[suffixes != np.repeat(firsts, counts)])
    if not later.size:
        return 0.0
    covered = np.minimum(np.diff(later), length).sum() + length
    return float(covered / data.size)


def main() -> None:
    file, length = Path(sys.argv[1]), int(sys.argv[2])
    with file.open(encoding="utf-8") as lines:
        data = bytearray(b"\xff".join(json.loads(line)["text"].encode() for line in lines))
    # The library accepts no array that is read-only.
    fraction = repeated(np.frombuffer(data, np.uint8), length)
    print(json.dumps({"removed": fraction}))


if __name__ == "__main__":
    main()
