"""Files that are packed in several ways, and damaged."""

import gzip
import io
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

ENDINGS = ["jsonl.gz", "jsonl.zst", "parquet"]
DAMAGES = ["truncated", "overwritten", "empty"]


def packed(lines: Sequence[str], ending: str) -> bytes:
    """Return the content of a file of JSON lines with one of the endings."""
    raw = "".join(f"{line}\n" for line in lines).encode()
    if ending == "jsonl.gz":
        return gzip.compress(raw)
    if ending == "jsonl.zst":
        return zstandard.compress(raw)
    table = pa.Table.from_pylist([json.loads(line) for line in lines])
    pq.write_table(table, file := io.BytesIO(), row_group_size=100)
    return file.getvalue()


def damaged(raw: bytes, damage: str) -> bytes:
    """Return the content of a file with one of the damages."""
    half = len(raw) // 2
    if damage == "overwritten":
        flipped = bytes(byte ^ 255 for byte in raw[half : half + 64])
        return raw[:half] + flipped + raw[half + 64 :]
    return raw[:half] if damage == "truncated" else b""
