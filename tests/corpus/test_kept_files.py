"""NumPy alone reads kept sketches, as docs/reference/kept-sketches.md documents them."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.corpus.test_kept import FEW_IN_A_SHARE, KEPT, dedup, months
from tools.docs import ROOT

PAGE = ROOT / "docs" / "reference" / "kept-sketches.md"


def joined(raw: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[str]:
    """Return the strings that an array of bytes joins."""
    bounds = itertools.pairwise(offsets.tolist())
    return [raw[start:end].tobytes().decode() for start, end in bounds]


def test_all_columns_are_those_of_the_page() -> None:
    months(2)
    documents = list[tuple[str, str, str, int]]()
    for month in range(2):
        update = ["--against", str(KEPT), "--update", "--keep", "highest:quality"]
        assert dedup(month, *update, surroundings=FEW_IN_A_SHARE).status == 1
    rows = re.findall(r"^\| `(\w+)` \| (.+?), \(", PAGE.read_text(), re.M)
    types = {name: text.split(" or ") for name, text in rows}
    shares = 0
    for described in sorted(KEPT.glob("run-*.json")):
        run = json.loads(described.read_text())
        folder = KEPT / run["folder"]
        records = iter(np.fromfile(folder / "records", "<i8").tolist())
        files = iter(np.repeat(run["files"], run["counts"]).tolist())
        for number in range(1, run["shares"] + 1):
            with np.load(folder / f"share-{number:04d}.npz") as share:
                arrays = dict(share)
            # These runs have no scope and no labels.
            assert arrays.keys() == types.keys() - {"scopes", "labels", "label_offsets"}
            for name, array in arrays.items():
                assert str(array.dtype) in types[name]
            ids = joined(arrays["ids"], arrays["id_offsets"])
            raw = np.fromfile(folder / f"texts-{number:04d}", np.uint8)
            texts = joined(raw, arrays["text_offsets"])
            keys = arrays["key_offsets"].size - 1
            assert len({len(ids), len(texts), keys, *arrays["values"].shape[1:]}) == 1
            assert arrays["digests"].shape == (len(ids), 2)
            assert arrays["words"].tolist() == [len(text.split()) for text in texts]
            assert arrays["filled"].all()
            # Equal digests are those of equal texts.
            digests = [digest.tobytes() for digest in arrays["digests"]]
            assert len({*zip(digests, texts, strict=True)}) == len({*texts}) == len({*digests})
            documents += zip(ids, texts, files, records, strict=False)
            shares += 1
    assert shares > 2
    written = list[tuple[str, str]]()
    for month in range(2):
        for name in ("a", "b"):
            lines = Path(f"out{month}/{name}.jsonl").read_text().splitlines()
            written += [(record["id"], record["text"]) for record in map(json.loads, lines)]
    assert [document[:2] for document in documents] == written
    for id, _, file, record in documents[:: len(documents) // 9]:
        lines = Path(file).read_text().splitlines()
        assert json.loads(lines[record - 1])["id"] == id
