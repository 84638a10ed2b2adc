"""Groups of text-dedup, for whole_job.py; runs in its own environment.

    python inside/peer_text_dedup.py UF DOCUMENTS OUT

UF: the file that its command leaves with --debug. OUT gets the group of each document.
"""

import pickle
import sys
from pathlib import Path

import numpy as np


def main(source: str, documents: str, out: str) -> None:
    with Path(source).open("rb") as file:
        found = pickle.load(file)
    np.save(out, np.array([found.find(row) for row in range(int(documents))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
