"""esdedup's jobs of sketching.py, one in a process: raw text to tokens."""

from typing import Any

from benchmarks.peers.inside import in_process
from esdedup import MinHash, Scheme, Shingling, SimHash
from esdedup.sketch.sketch import sketch, token_json

SIZE = 5
AT_ONCE = 2_000
"""Texts sketched at once, as documents are on their way into an index."""


def bands(minhash: MinHash) -> in_process.Job:
    return _job(Scheme([minhash], shingling=Shingling("word", SIZE)))


def fields(minhash: MinHash) -> in_process.Job:
    return _job(Scheme([minhash, SimHash()], shingling=Shingling("word", SIZE)))


def _job(scheme: Scheme) -> in_process.Job:
    def job(texts: list[str]) -> Any:
        made: list[str] = []
        for first in range(0, len(texts), AT_ONCE):
            made += token_json(sketch(texts[first : first + AT_ONCE], scheme), scheme)
        return made

    return job


def main() -> None:
    options = in_process.options(__doc__).parse_args()
    in_process.use_one_core()
    minhash = MinHash(options.permutations, options.permutations // options.rows, options.rows)
    jobs = {
        "esdedup": lambda: bands(minhash),
        "esdedup, all its fields": lambda: fields(minhash),
    }
    in_process.report(jobs[options.job](), options.file, options.rounds, "esdedup")


if __name__ == "__main__":
    main()
