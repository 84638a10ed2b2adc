"""Files of every kind on the command line: what is read, and what is told of the rest."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import esdedup
from esdedup.exceptions import InputError
from esdedup.records.files import BadRecord, ReadSizes, Record, read_records
from tests.helpers.commands import read_lines, run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place

SAME = "the council met on monday and voted for the bridge"
CHINESE = "今天下午三点，市图书馆举行读书会"


def letters(name: str = "pairs") -> list[dict[str, Any]]:
    return read_lines(f"{name}.dead-letter.jsonl")


@pytest.mark.parametrize(
    ("count", "option", "field"),
    [(3, "text", "of.body"), (1_500, "text", "body"), (2, "id", "key")],
)
def test_a_wrong_field_stops_at_once(count: int, option: str, field: str) -> None:
    given = [{"id": n, "key": None, "text": SAME, "of": {"n": n}} for n in range(count)]
    write_lines(Path("a.jsonl"), given)
    for command in ("index", "pairs"):
        done = run_command(command, "a.jsonl", f"--{option}-field", field)
        assert (done.status, done.out) == (2, "")
        assert f"none of the first {min(count, 1_000):,} records has the " in done.err
        assert f"field '{field}'" in done.err
        assert option == "id" or "There are: id, key, text, of" in done.err
    assert sorted(path.name for path in Path().iterdir()) == ["a.jsonl"]
    # The index was not made with the wrong name.
    run_command("index", "a.jsonl", status=0)


def test_a_record_in_the_dead_letter_has_its_digits() -> None:
    lines = ['{"id": "1", "text": 5, "n":1.00}', f'{{"id": "2", "text": "{SAME}"}}']
    for name, text in {"a.jsonl": "\n".join(lines), "b.json": f"[{', '.join(lines)}]"}.items():
        Path(name).write_text(text)
        run_command("index", name, "--dead-letter", f"{name}.dead.jsonl", status=1)
        assert [letter["record"] for letter in read_lines(f"{name}.dead.jsonl")] == lines[:1]


@pytest.mark.parametrize(
    ("encoding", "text", "told"),
    [
        ("utf-16", CHINESE, "it is UTF-16, not UTF-8: --encoding utf-16"),
        ("utf-16-le", SAME, "it is UTF-16-LE, not UTF-8: --encoding utf-16-le"),
        ("utf-32", CHINESE, "it is UTF-32"),
        ("latin-1", "les élèves du collège ont visité le musée", "--encoding, such as latin-1"),
        ("gb18030", CHINESE, "is not valid UTF-8"),
    ],
)
def test_encodings(encoding: str, text: str, told: str) -> None:
    records = [json.dumps({"id": n, "text": text}, ensure_ascii=False) + "\n" for n in range(2)]
    Path("a.jsonl").write_bytes("".join(records).encode(encoding))
    Path("a.txt").write_bytes(text.encode(encoding))
    plain = run_command("pairs", "a.jsonl")
    assert plain.status in (1, 2)
    assert told in plain.err
    done = run_command("pairs", "a.jsonl", "--encoding", encoding, "--json")
    assert (done.status, [pair["similarity"] for pair in done.json]) == (0, [1.0])
    run_command("index", "a.jsonl", "--encoding", encoding, status=0)
    for more in (["--batch", "a.jsonl"], ["--file", "a.txt"]):
        found = run_command("similar", *more, "--encoding", encoding, "--json", status=0)
        assert found.json[0]["matches"][0]["similarity"] == 1.0


def test_text_that_is_not_valid_in_its_encoding_is_left_out() -> None:
    good, bad = f"{SAME}\n".encode("utf-16-le"), b"a\0\x00\xd8b\0\n\0"
    Path("a.txt").write_bytes(good + bad + good)
    done = run_command("pairs", "a.txt", "--encoding", "utf-16-le", "--json")
    assert (done.status, len(done.json), letters()[0]["line"]) == (1, 1, 2)
    wrong = run_command("index", "a.txt", "--encoding", "rot13")
    assert "--encoding rot13: use a name such as utf-16" in wrong.err


@pytest.mark.parametrize(("indent", "workers"), [(None, "1"), (2, "2")])
def test_a_json_array(indent: int | None, workers: str) -> None:
    # So long that a chunk, of about 1 MiB, holds two of them.
    long = {"note": "x" * 600_000}
    given: list[Any] = [{"id": 1, "text": SAME, **long}, {"text": SAME, **long}, 7]
    given += [{"id": 4, "text": CHINESE, **long}, {"text": None}, {"text": "——", **long}]
    Path("a.json").write_text(json.dumps(given, indent=indent), "utf-8")
    done = run_command("index", "a.json", "--json", "--workers", workers)
    (report,) = done.json
    assert (done.status, report["created"], report["failed"]) == (1, 4, 2)
    assert report["without_words"] == 1
    said = "1 document has no words"
    assert said in done.err
    assert said in run_command("pairs", "a.json").err
    assert [letter["line"] for letter in letters("documents")] == [3, 5]
    with esdedup.open() as index:
        assert index.get("a.json:2").source["text"] == SAME
        assert index.get("4").source["text"] == CHINESE


@pytest.mark.parametrize("ending", ["jsonl", "csv", "txt", "jsonl.gz", "jsonl.zst"])
def test_a_line_that_is_too_long_is_left_out(ending: str) -> None:
    before, after = f'{{"id": 1, "text": "{SAME}"}}', f'{{"id": 2, "text": "{SAME}"}}'
    if ending == "csv":
        before, after = f"id,text\n1,{SAME}", f"2,{SAME}"
    data = "\n".join([before, "x" * 2_000_000, after]).encode()
    if ending.endswith("gz"):
        data = gzip.compress(data)
    elif ending.endswith("zst"):
        data = zstandard.compress(data)
    Path(f"a.{ending}").write_bytes(data)
    first, long, last = read_records(f"a.{ending}", sizes=ReadSizes(longest=4_000))
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(long, BadRecord)
    assert "longer than 4,000 characters" in long.reason
    assert (long.line, long.raw.strip()) == (3 if ending == "csv" else 2, "x" * 1_000)


def test_a_line_of_more_than_64_million_characters_goes_to_the_dead_letter() -> None:
    lines = [SAME, "x" * 64_000_001, SAME]
    Path("a.txt").write_text("\n".join(lines), "utf-8")
    done = run_command("pairs", "a.txt", "--json")
    assert (done.status, len(done.json)) == (1, 1)
    assert "longer than 64 million characters" in done.err
    (letter,) = letters()
    assert (letter["line"], letter["record"]) == (2, "x" * 1_000)


@pytest.mark.parametrize(("ending", "compress"), [("bz2", bz2.compress), ("xz", lzma.compress)])
def test_bz2_and_xz_are_read_and_a_part_of_one_is_an_error(
    ending: str, compress: Callable[[bytes], bytes]
) -> None:
    path = Path(f"a.jsonl.{ending}")
    lines = [json.dumps({"id": str(number), "text": SAME}) for number in range(300)]
    # Several streams, as parallel packers write them.
    whole = b"".join(compress(f"{line}\n".encode()) for line in lines)
    path.write_bytes(whole)
    assert len([*read_records(str(path))]) == 300
    for data, reason in (
        (whole[:-9], "can't be read to its end: .* Replace the file, or leave it out"),
        (b"", "it is empty"),
        (b"{}\n", "can't be read to its end"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=reason):
            [*read_records(str(path))]


def test_a_quote_that_is_not_closed_takes_no_more_than_a_record() -> None:
    rows = ["id,text", f"1,{SAME}", f'2,"{SAME}', *(f"{n},{SAME} {n}" for n in range(3, 200))]
    Path("a.csv").write_text("\n".join(rows), "utf-8")
    records = [*read_records("a.csv", sizes=ReadSizes(longest=4_000))]
    (bad,) = [record for record in records if isinstance(record, BadRecord)]
    assert "or a quote not closed?" in bad.reason
    # The rows that it took are all in the bad record.
    assert len(records) - 1 + bad.raw.count("\n") == 199


def test_a_zst_of_several_frames_that_is_cut_is_told() -> None:
    halves = ["".join(f'{{"text": "text {n}"}}\n' for n in range(a, a + 4_500)) for a in (0, 4_500)]
    frames = b"".join(zstandard.compress(half.encode()) for half in halves)
    Path("a.jsonl.zst").write_bytes(frames)
    assert run_command("index", "a.jsonl.zst").json[0]["created"] == 9_000
    Path("a.jsonl.zst").write_bytes(frames[: 3 * len(frames) // 4])
    assert "a.jsonl.zst can't be read to its end" in run_command("index", "a.jsonl.zst").err


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonl", '{"text":' + "[" * 100_000, "not valid JSON: nested too deeply"),
        ("a.jsonl", '{"n": ' + "[" * 600 + "]" * 600 + "}", "nested too deeply: more than 500"),
        ("a.jsonl", '{"n": {"x": 1, "x": 2}}', "the key 'x' comes twice in an object"),
        ("a.jsonl", '{"text":"abc', "not valid JSON: Unterminated string at character 9"),
        ("a.csv", "id,text\n1,one two\r2,three\r", "not valid CSV: lines end with CR alone"),
        ("a.csv", 'id,text\n1,"one\n2,two\n', "a quote is never closed"),
        ("a.json", '[{"text": "one"},\n{"text": }]', "not valid JSON: Expecting value at line 2"),
        ("a.json", '[{"text": "one"}]\n{"text": "two"}', "the array is not valid JSON: Extra data"),
        ("a.json", f'[{{"n":{"1" * 5_000}}}]', "in the array, a number has more than 4300 digits"),
    ],
)
def test_reasons_are_in_plain_words(name: str, text: str, reason: str) -> None:
    Path(name).write_text(text, newline="")
    ran = run_command("index", name, status=1)
    assert reason in ran.err


def test_a_failed_first_try_leaves_the_index_free(place: Place) -> None:
    """Until it has documents, an index takes another scheme and another text field."""
    with esdedup.open(place.target, place.index, text_field="title") as index:
        index.create()
    scheme = esdedup.Scheme([esdedup.SimHash()])
    with open_index(place, [{"id": "a", "text": SAME}], scheme=scheme, text_field="text") as index:
        assert [match.id for match in index.similar(SAME)] == ["a"]
        with pytest.raises(esdedup.exceptions.SchemeMismatch):
            esdedup.open(place.target, place.index, text_field="title").create()


def test_bytes_that_are_not_utf8_are_reported_once() -> None:
    Path("latin.jsonl").write_bytes('{"text": "les élèves"}\n'.encode("latin-1"))
    done = run_command("clean", "latin.jsonl", "-o", "out.jsonl")
    assert (done.status, done.err.count("byte 0xe9 is not valid UTF-8")) == (1, 1), done.err


def test_each_file_is_one_document() -> None:
    contents = {
        "in/README": b"what these files are, and where they are from",
        "in/a/_10.py": f"{SAME}\n\r\n{SAME}".encode(),
        "in/a/_9.py": f"{SAME}\n\n{SAME}".encode(),
        "in/b.gz": gzip.compress(CHINESE.encode()),
        "in/c.text": CHINESE.encode(),
        "in/empty": b"",
        "in/latin.txt": "les élèves".encode("latin-1"),
        "in/wide.txt": CHINESE.encode("utf-16"),
        "in/.hidden": SAME.encode(),
    }
    Path("in/a").mkdir(parents=True)
    for name, content in contents.items():
        Path(name).write_bytes(content)
    for workers in ("1", "2"):
        done = run_command("pairs", "in", "--format", "file", "--workers", workers, "--json")
        found = {(pair["left"], pair["right"]) for pair in done.json}
        assert (done.status, found) == (
            1,
            {("in/a/_9.py", "in/a/_10.py"), ("in/b.gz", "in/c.text")},
        )
    bad = {each["file"]: each["reason"] for each in letters()}
    assert bad == {
        "in/latin.txt": "byte 0xe9 is not valid UTF-8; name another encoding by --encoding, such as"
        " latin-1 or gb18030",
        "in/wide.txt": "it is UTF-16, not UTF-8: --encoding utf-16",
    }
    for change in ("", "!"):
        # A file that has changed is its document anew.
        Path("in/c.text").write_text(CHINESE + change, "utf-8")
        done = run_command("index", "in", "--format", "file", "--json")
        assert (done.json[0]["failed"], done.json[0]["read"]) == (2, 8)
        with esdedup.open() as index:
            assert index.get("in/c.text").source["text"] == CHINESE + change
            assert index.statistics().documents == 6
    done = run_command("clean", "in", "--format", "file", "-o", "out", "--json")
    assert (done.status, done.json[0]["removed"]) == (1, 2)
    names = sorted(
        str(each.relative_to("out")) for each in Path("out").rglob("*") if each.is_file()
    )
    about = ["_removed.jsonl.zst", "_removed.report.json"]
    assert names == ["README", *about, "a/_9.py", "b.gz", "empty"]
    assert all(
        Path("out", each).read_bytes() == contents[f"in/{each}"] for each in names if each[0] != "_"
    )
    again = run_command("clean", "out", "--format", "file", "--dry-run", "--json")
    assert (again.json[0]["documents"], again.json[0]["removed"]) == (4, 0)
    for out in ("one.jsonl", "-"):
        wrong = run_command("clean", "in", "--format", "file", "-o", out, status=2)
        assert "name a folder" in wrong.err
