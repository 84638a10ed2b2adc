"""Files written again without some records: the others stay byte for byte, in their order."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from esdedup.exceptions import InputError, StoreError, UsageError
from esdedup.records.files import BadRecord, Format, Record, read_records
from esdedup.records.rewrite import RetainedFile, rewrite
from esdedup.stores.fields import value_at
from tests.helpers.full_disk import largest_file
from tests.helpers.fuzz import fuzz
from tests.unit.ingest.test_files import content

ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "gb18030", "cp932", "latin-1"]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}
MARKS = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def pack(data: bytes, ending: str) -> bytes:
    """Return a file's content, a compressed one of two frames."""
    half = len(data) // 2
    parts = (data[:half], data[half:])
    return b"".join(map(COMPRESS[ending], parts)) if ending in COMPRESS else data


def unpacked(file: Path) -> bytes:
    raw = file.read_bytes()
    if file.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
    return DECOMPRESS[file.suffix](raw) if file.suffix in DECOMPRESS else raw


def all_kept(file: Path, format: Format | None = None, encoding: str | None = None) -> RetainedFile:
    """Return the records of a file, which all stay."""
    starts = np.array([each.line for each in read_records(str(file), format, encoding)], np.int64)
    return RetainedFile(str(file), starts, np.ones(starts.size, np.bool_))


def plain(record: Record | BadRecord) -> Any:
    return record.source if isinstance(record, Record) else record.raw


text = st.text("ab ,;\t'\\\u00e9\u0a0a第二行\U0001f600", max_size=6).map(lambda text: f"x{text}x")


def piece(format: Format, words: list[str], end: str) -> str:
    """Return a record as text, of more than one line if its format has such."""
    first = words[0]
    if format in ("csv", "tsv"):
        quoted = first.replace('"', '""') + f"{end}second line"
        return f'"{quoted}"{"," if format == "csv" else chr(9)}{len(first)}{end}'
    if format == "text":
        return first + end
    return json.dumps({"text": first, "more": words}, ensure_ascii=False) + end


@pytest.mark.parametrize("ending", [*COMPRESS])
@pytest.mark.parametrize("first", range(1, 6))
def test_a_short_first_part_does_not_hide_what_a_file_is(
    tmp_path: Path, ending: str, first: int
) -> None:
    data = b'\xef\xbb\xbf[{"text": "a"}]'
    file = tmp_path / f"in.jsonl{ending}"
    file.write_bytes(b"".join(map(COMPRESS[ending], (data[:first], data[first:]))))
    for encoding in (None, "utf-8-sig"):
        assert [plain(record) for record in read_records(str(file), "jsonl", encoding)] == [
            {"text": "a"}
        ]


@dataclass(frozen=True)
class Pairs:
    """An object of JSON, in which a key may be repeated."""

    members: list[tuple[str, Any]]

    def json(self) -> str:
        members = (f"{json.dumps(name)} :{written(value)}" for name, value in self.members)
        return "{" + ", ".join(members) + "}"


def written(value: Any) -> str:
    """Return a value as JSON."""
    if isinstance(value, Pairs):
        return value.json()
    if isinstance(value, list):
        return "[" + " , ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@fuzz
@given(
    format=st.sampled_from(["jsonl", "array", "csv", "tsv", "text"]),
    records=st.lists(st.tuples(st.lists(text, min_size=1, max_size=3), st.booleans()), max_size=8),
    encoding=st.sampled_from([None, *ENCODINGS]),
    ending=st.sampled_from(["", *COMPRESS]),
    end=st.sampled_from(["\n", "\r\n"]),
    is_ended=st.booleans(),
    spaces=st.sampled_from(["", " ", "\n\n", "\t\r\n"]),
)
def test_what_stays_is_as_it_came(
    tmp_path: Path,
    format: Any,
    records: list[tuple[list[str], bool]],
    encoding: str | None,
    ending: str,
    end: str,
    is_ended: bool,
    spaces: str,
) -> None:
    mark = "\ufeff" if encoding in MARKS else ""
    codec = MARKS.get(encoding or "", encoding or "utf-8")

    def encode(text: str) -> bytes:
        # Bytes that are not valid stay too.
        errors = "ignore" if codec in ("cp932", "latin-1") else "strict"
        return text.encode(codec, errors)

    is_array = format == "array"
    kind: Format = "jsonl" if is_array else format
    kept = [stays for _, stays in records]
    if is_array:
        elements = [piece(kind, words, spaces) for words, _ in records]
        before = mark + spaces + "[" + spaces
        separator, after = f",{spaces}", "]" + spaces
        whole = before + separator.join(elements) + after
    else:
        before = mark + {"csv": f'"a{end}b",c{end}', "tsv": f'"a{end}b"\tc{end}'}.get(kind, end * 2)
        pieces = [piece(kind, words, end) + end * len(words[1:]) for words, _ in records]
        if pieces and not is_ended:
            pieces[-1] = pieces[-1].rstrip("\r\n")
        whole = before + "".join(pieces)
    file = tmp_path / f"in.{kind}{ending}"
    out = tmp_path / f"out.{kind}{ending}"
    file.write_bytes(pack(encode(whole), ending))
    if ending and not whole:
        return
    every = [*read_records(str(file), kind, encoding)]
    assert len(every) == len(records)
    starts = np.array([each.line for each in every], np.int64)
    rewrite([RetainedFile(str(file), starts, np.array(kept, np.bool_))], str(out), kind, encoding)
    if is_array:
        stay = [each.rstrip() for each, stays in zip(elements, kept, strict=True) if stays]
        written = unpacked(out)
        for each in map(encode, stay):
            assert each in written
            written = written[written.index(each) + len(each) :]
    else:
        stay = [each for each, stays in zip(pieces, kept, strict=True) if stays]
        assert unpacked(out) == encode(before + "".join(stay))
    found = [plain(each) for each in read_records(str(out), kind, encoding)]
    assert found == [plain(each) for each, stays in zip(every, kept, strict=True) if stays]
    assert not [*tmp_path.glob(".*")]


NAMES = st.sampled_from(["a", "b", "a.b", "text", 'a"'])
OBJECTS = st.recursive(
    st.none() | st.integers() | text | st.lists(text, max_size=2),
    lambda values: st.lists(st.tuples(NAMES, values), max_size=4).map(Pairs) | st.lists(values),
)


@fuzz
@given(
    pairs=st.lists(st.tuples(NAMES, OBJECTS), max_size=5).map(Pairs),
    path=st.sampled_from(["text", "a", "a.b", "a.text", "a.b.text", 'a".b']),
    new=text,
    is_array=st.booleans(),
)
@example(
    pairs=Pairs([("a", []), ("a.b", Pairs([("text", "xx")]))]),
    path="a.b.text",
    new="yy",
    is_array=False,
)
def test_a_new_text_replaces_a_string_and_nothing_else(
    tmp_path: Path, pairs: Pairs, path: str, new: str, is_array: bool
) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    record = pairs.json()
    around = ("[{}, ", "]") if is_array else ("{}\n", "\n")
    file.write_text(record.join(around), "utf-8")
    number = 2
    old = value_at(json.loads(record), path)
    source = RetainedFile(
        str(file), np.array([1, number]), np.array([True, True]), path, {number: new}
    )
    if not isinstance(old, str):
        with pytest.raises(InputError, match="it has no string"):
            rewrite([source], str(out))
        return
    rewrite([source], str(out))
    begin, end = around
    changed = out.read_text("utf-8").removeprefix(begin).removesuffix(end)
    assert value_at(json.loads(changed), path) == new
    # The old text in its place gives the old record.
    restored = RetainedFile(str(out), source.starts, source.stays, path, {number: old})
    rewrite([restored], str(file))
    assert file.read_text("utf-8") == record.join(around)


@fuzz
@given(
    data=content,
    format=st.sampled_from(["jsonl", "csv", "tsv", "text"]),
    encoding=st.sampled_from([None, None, "utf-16", "utf-8", "big5", "utf-7", "gb18030"]),
    seed=st.integers(0, 99),
)
def test_any_bytes_stay(
    tmp_path: Path, data: bytes, format: Format, encoding: str | None, seed: int
) -> None:
    """Each line that stays is copied as bytes, or the file is rejected."""
    file, out = tmp_path / "in", tmp_path / "out"
    out.unlink(missing_ok=True)
    file.write_bytes(data)
    try:
        records = [*read_records(str(file), format, encoding)]
    except (InputError, UsageError):
        return
    starts = np.array([each.line for each in records], np.int64)
    kept = np.random.default_rng(seed).random(starts.size) < 0.6
    try:
        rewrite([RetainedFile(str(file), starts, kept)], str(out), format, encoding)
    except InputError:
        assert encoding is not None
        assert not out.exists()
        return
    if encoding is None and not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        stays, expected = True, mark
        of = dict(zip(starts.tolist(), kept.tolist(), strict=True))
        for number, line in enumerate(data.removeprefix(mark).split(b"\n"), 1):
            stays = of.get(number, stays)
            expected += (line + b"\n") * stays
        assert out.read_bytes() in (expected, expected.removesuffix(b"\n"))


def test_several_files_become_one(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def files(*contents: bytes, suffix: str = "csv") -> list[RetainedFile]:
        paths = [tmp_path / f"{number}.{suffix}" for number in range(len(contents))]
        for path, each in zip(paths, contents, strict=True):
            path.write_bytes(each)
        return [*map(all_kept, paths)]

    bom = b"\xef\xbb\xbf"
    some = files(b"", bom + b"a,b\n1,2", bom + b"a,b\r\n", b"a,b\n\n3,4\n5,6", b"\n", b"a,b\n7,8")
    some[3].stays[0] = False
    target = tmp_path / "one.csv.gz"
    rewrite(some, str(target))
    assert unpacked(target) == bom + b"a,b\n1,2\n5,6\n7,8"
    rewrite(files(b'{"a":1}', b' {"a": 2}\n\n', suffix="jsonl"), "-")
    assert capfdbinary.readouterr().out == b'{"a":1}\n {"a": 2}\n\n'
    for others, kind in ((("a,b\n1,2", "b,a\n1,2"), "csv"), (('{"a":1}', '[{"a":1}]'), "jsonl")):
        with pytest.raises(UsageError, match=r"1\.\w+: .* name a folder to write to"):
            rewrite(files(*map(str.encode, others), suffix=kind), str(tmp_path / "two"), None)
    wide = [
        all_kept(path, None, "utf-16")
        for path in (tmp_path / "l.txt", tmp_path / "b.txt")
        if path.write_bytes(("\ufeff" + path.name).encode(f"utf-16-{path.name[0]}e"))
    ]
    with pytest.raises(UsageError, match="its encoding differs"):
        rewrite(wide, str(tmp_path / "two"), None, "utf-16")
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    "name",
    [*(f"a.jsonl{ending}" for ending in ("", *COMPRESS)), "a.parquet", "a.arrow"],
)
def test_a_file_that_changed_or_a_full_disk_leaves_nothing(tmp_path: Path, name: str) -> None:
    def write(count: int) -> None:
        table = pa.table({"text": [f"{n * 7**20}" for n in range(count)]})
        if name.endswith("parquet"):
            pa.parquet.write_table(table, file)
        elif name.endswith("arrow"):
            write_arrow(pa.ipc.new_file, None, table, file)
        else:
            lines = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
            file.write_bytes(pack(lines.encode(), file.suffix))

    file, target = tmp_path / name, tmp_path / "new" / name
    write(9_000)
    records = all_kept(file)
    records.stays[5] = False
    with pytest.raises(StoreError, match=rf"new/{name}: No such file"):
        rewrite([records], str(target))
    target.parent.mkdir()
    for size in (0, 10_000):
        with (
            largest_file(size),
            pytest.raises(StoreError, match=rf"new/{name}: File too large"),
        ):
            rewrite([records], str(target))
    write(8_999)
    with pytest.raises(InputError, match="has changed"):
        rewrite([records], str(target))
    if name == "a.jsonl":
        file.write_bytes(b"[{}, {}]")
        with pytest.raises(InputError, match="has changed"):
            rewrite([records], str(target))
    assert not [*target.parent.iterdir()]


ROWS = 40
COLUMNS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "text": (pa.string(), lambda n: f"text {n}"),
    "kind": (pa.dictionary(pa.int8(), pa.string()), lambda n: "ab"[n % 2]),
    "more": (pa.list_(pa.struct({"a": pa.list_(pa.int16())})), lambda n: [{"a": [n]}, None] * n),
    "of": (pa.map_(pa.string(), pa.float32()), lambda n: [("x", n / 2)]),
    "time": (pa.timestamp("ns", "Asia/Shanghai"), lambda n: n if n % 3 else None),
    "view": (pa.string_view(), lambda n: f"a view of text that is stored elsewhere {n}"),
}


def table_of(names: list[str]) -> pa.Table:
    fields = [pa.field(each, COLUMNS[each][0], metadata={"of": each}) for each in names]
    arrays = [pa.array(map(COLUMNS[each][1], range(ROWS)), COLUMNS[each][0]) for each in names]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"pandas": "{}", "other": "第"}))


def write_arrow(new: Any, codec: str | None, table: pa.Table, path: Path) -> None:
    with new(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        out.write_table(table, max_chunksize=7)


WRITERS: list[tuple[Callable[[pa.Table, Path], None], str]] = [
    *(
        (partial(pa.parquet.write_table, row_group_size=7, compression=each), "parquet")
        for each in ("none", "snappy", "gzip", "brotli", "zstd", "lz4", {"text": "zstd"})
    ),
    (partial(pa.parquet.write_table, use_dictionary=["kind"], row_group_size=30), "parquet"),
    *(
        (partial(write_arrow, new, codec), "arrow")
        for new in (pa.ipc.new_file, pa.ipc.new_stream)
        for codec in (None, "lz4", "zstd")
    ),
]


def form_of(path: Path) -> Any:
    """Return the rows in each part of a table, and how these are packed."""
    if path.suffix == ".parquet":
        metadata = pa.parquet.ParquetFile(path).metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        columns = [each.column(at) for each in groups for at in range(each.num_columns)]
        packed = {(c.path_in_schema, c.compression, c.has_dictionary_page) for c in columns}
        return [each.num_rows for each in groups], packed
    raw = path.read_bytes()
    is_file = raw.startswith(b"ARROW1")
    sizes = [len(each) for each in read_arrow(path).to_batches() if len(each)]
    # Nothing but the codec's frames begins so.
    codecs = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}
    return sizes, {is_file, *(name for magic, name in codecs.items() if magic in raw)}


@pytest.mark.parametrize("which", ["some", "none", "all", "a part"])
@pytest.mark.parametrize(("write", "format"), WRITERS)
def test_rows_that_stay_in_tables(
    tmp_path: Path, write: Callable[[pa.Table, Path], None], format: Format, which: str
) -> None:
    table = table_of([*COLUMNS][: None if format == "arrow" else -1])
    file, out = tmp_path / f"a.{format}", tmp_path / f"b.{format}"
    write(table, file)
    kept = np.arange(ROWS) % 3 > 0 if which == "some" else np.full(ROWS, which != "none")
    if which == "a part":
        kept[7:14] = False
    records = RetainedFile(str(file), np.arange(1, ROWS + 1), kept)
    rewrite([records], str(out))
    if which == "all":
        assert out.read_bytes() == file.read_bytes()
        return
    read = pa.parquet.read_table if format == "parquet" else read_arrow
    found, before = read(out), read(file)
    assert found.schema.equals(before.schema, check_metadata=True)
    stay = [before[at : at + 1] for at in np.flatnonzero(kept)]
    assert found.equals(pa.concat_tables([before[:0], *stay]))
    sizes, form = form_of(file)
    edges = np.cumsum([0, *sizes])
    left = [int(kept[a:b].sum()) for a, b in itertools.pairwise(edges)]
    written = form_of(out)
    assert written[0] == [each for each in left if each]
    assert written[1] == form or not any(left)
    with pytest.raises(InputError, match="has changed"):
        rewrite([records._replace(stays=kept[1:])], str(out))
    assert read(out).num_rows == kept.sum()


def read_arrow(path: Path) -> pa.Table:
    raw = path.read_bytes()
    return (pa.ipc.open_file if raw.startswith(b"ARROW1") else pa.ipc.open_stream)(raw).read_all()


_FIELDS = st.text(st.sampled_from("ab\"\n ,;\t'\u00e9"), max_size=6)


@given(
    st.lists(st.lists(_FIELDS, min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.data(),
)
def test_a_field_of_csv_changes_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    delimiter: str,
    line_end: str,
    quoting: Any,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    starts, lines = list[int](), io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    for row in [["first", "text", "last"], *rows]:
        starts.append(lines.getvalue().count("\n") + 1)
        writer.writerow(row)
    (folder / "a.csv").write_bytes(lines.getvalue().encode())
    changed = data.draw(st.dictionaries(st.sampled_from(starts[1:]), _FIELDS, min_size=1))
    stays = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    changed = {line: text for line, text in changed.items() if stays[starts.index(line) - 1]}
    source = RetainedFile(
        str(folder / "a.csv"), np.array(starts[1:], np.int64), stays, "text", changed
    )
    rewrite([source], str(folder / "out.csv"), delimiter=delimiter)
    expected = [
        [row[0], changed.get(start, row[1]), row[2]]
        for start, row, is_retained in zip(starts[1:], rows, stays.tolist(), strict=True)
        if is_retained
    ]
    with (folder / "out.csv").open(newline="", encoding="utf-8") as written:
        header, *written_rows = csv.reader(written, delimiter=delimiter, strict=True)
    assert header == ["first", "text", "last"]
    assert written_rows == expected
