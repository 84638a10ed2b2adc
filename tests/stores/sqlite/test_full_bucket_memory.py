"""A bucket of most documents of a local file is counted, not sorted."""

import subprocess
import sys
from pathlib import Path

import pytest

import esdedup
from esdedup.stores import LocalStore
from esdedup.stores.sqlite.sizes import StoreSizes
from tests.helpers.indices import open_index

TEXT = "the council met on monday and voted for a new bridge over the river near the old town"
PROGRAM = """
import sys, esdedup

def peak():
    # `getrusage` would count the memory of the process that started this one.
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

with esdedup.open(sys.argv[1]) as index:
    before = peak()
    found = index.similar(sys.argv[2], k=3)
    print(peak() - before, found.candidates, found.truncated)
"""


def test_counting_finds_what_sorting_finds(folder: Path) -> None:
    words = TEXT.split()
    rows = [
        {
            "id": f"d{n}",
            "text": " ".join([*words[: 8 + n % 9], *(f"w{n % 5}" for _ in range(n % 4))]),
        }
        for n in range(400)
    ]
    with open_index(folder / "a.db", rows) as index:
        index.delete([f"d{n}" for n in range(0, 400, 7)])
        queries = [(text, k) for text in (TEXT, rows[5]["text"]) for k in (3, 50)]

        def answers(index: esdedup.Index) -> list[object]:
            limits = (0.3, 0.8, None)
            results: list[object] = []
            results += [
                index.similar(text, k=k, threshold=threshold)
                for text, k in queries
                for threshold in limits
            ]
            results += [index.similar(id=f"d{n}", k=5) for n in range(1, 60, 9) if n % 7]
            return results

        from_sorting = answers(index)
    with esdedup.open(folder / "a.db") as index:
        sizes = StoreSizes(counted_entries=10, counters_per_entry=1 << 40)
        index.store = LocalStore(folder / "a.db", "documents", sizes)
        assert answers(index) == from_sorting


@pytest.mark.nightly
def test_a_full_bucket_takes_bytes_a_document_and_not_hundreds(folder: Path) -> None:
    with open_index(
        folder / "a.db", ({"id": f"d{n}", "text": TEXT} for n in range(600_000))
    ) as index:
        index.similar(TEXT)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "a.db"), TEXT],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    kilobytes, candidates, truncated = ran.stdout.split()
    assert (candidates, truncated) == ("1000", "True")
    # 136 MB, of which 100 MB are blocks of entries of any number of documents; sorted 284 MB.
    assert int(kilobytes) < 190_000
