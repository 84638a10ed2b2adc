"""What equal texts cost as they come in: documents a second into a local file, by their share."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import texts as made_up

import esdedup
from esdedup.ingest.near_duplicates import DuplicatePolicy


def seconds(texts: Sequence[str], policy: DuplicatePolicy) -> float:
    """Processor time of this process."""
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "x.db") as index:
        index.create()
        began = time.process_time()
        index.add(({"id": str(n), "text": t} for n, t in enumerate(texts)), on_duplicate=policy)
        return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    parser.add_argument("--actions", nargs="+", default=["keep", "mark", "skip"])
    options = parser.parse_args()
    distinct = getattr(made_up, options.language)(options.documents, options.characters)
    rng = np.random.default_rng(1)
    half = rng.permutation(np.arange(options.documents) % (options.documents // 2)).tolist()
    for name, texts in (("none", distinct), ("half", [distinct[row] for row in half])):
        for action in options.actions:
            policy = DuplicatePolicy(action)
            best = min(seconds(texts, policy) for _ in range(options.rounds))
            rate = len(texts) / best
            print(f"{name} of them equal, {action:8}{rate:8,.0f} documents/s", flush=True)


if __name__ == "__main__":
    main()
