"""`esdedup clean FILES --unit`: paragraphs and lines that a corpus repeats are removed, exactly."""

import gzip
import json
import re
from pathlib import Path

import pytest

from esdedup.tabular import require_pyarrow
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.surroundings import killed_at

NOTICE, CHINESE = (
    "Subscribe to our weekly letter, and never miss a story.",
    "版权所有，未经许可不得转载。",
)


def texts(count: int) -> list[str]:
    """Texts of some paragraphs, many of which end with the same notice, in another writing."""
    made = []
    for n in range(count):
        parts = [words(n, 12), CHINESE if n % 3 == 0 else f"第{n}段：这里写的是别处没有的内容。"]
        parts += [NOTICE.upper() if n % 4 == 0 else NOTICE] * (n % 2)
        made.append(("\n\n" if n % 2 else "\r\n \r\n").join(parts) + "\n" * (n % 2))
    return [*made, "two words", "two words", CHINESE]


def expected(every: list[str], between: str, least: int) -> list[str | None]:
    """Return the texts without units that came before, by a set; None for no text."""
    seen: set[str] = set()
    made: list[str | None] = []
    for text in every:
        pieces = re.split(between, text)
        kept = ""
        for unit, after in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
            key = " ".join(unit.split()).casefold()
            # Each Han character is a word.
            long = len(re.findall(r"[㐀-鿿]|[a-z0-9]+", key)) >= max(1, least)
            if not (long and key in seen):
                kept += unit + after
            seen |= {key} if long else set()
        made.append(kept if kept.strip() else None)
    return made


# Units are found in the same way in every format, so that one unit is enough for a packed one.
@pytest.mark.parametrize(
    ("unit", "least", "ending"),
    [
        ("paragraph", 1, "jsonl"),
        ("paragraph", 5, "jsonl"),
        ("line", 1, "jsonl"),
        ("paragraph", 5, "jsonl.gz"),
        ("line", 1, "parquet"),
    ],
)
def test_each_unit_stays_where_it_is_first(unit: str, least: int, ending: str) -> None:
    every = texts(60)
    Path("in").mkdir()
    for shard, some in enumerate((every[:30], every[30:])):
        records = [{"n": n, "text": text, "more": [1.50]} for n, text in enumerate(some)]
        file = Path(f"in/{shard}.{ending}")
        if ending == "parquet":
            pa = require_pyarrow()
            pa.parquet.write_table(pa.Table.from_pylist(records), file, row_group_size=7)
        else:
            lines = "".join(json.dumps(each, separators=(" , ", ":  ")) + "\n" for each in records)
            file.write_bytes(gzip.compress(lines.encode()) if "gz" in ending else lines.encode())
    options = ["--unit", unit, "--min-words", str(least), "--json"]
    (report,) = run_command("clean", "in", "-o", "out", *options).json
    between = r"(\r?\n(?:[^\S\n]*\n)+)" if unit == "paragraph" else r"(\r?\n)"
    stay = expected(every, between, least)
    found: list[str] = []
    for shard in range(2):
        file = Path(f"out/{shard}.{ending}")
        if ending == "parquet":
            found += require_pyarrow().parquet.read_table(file)["text"].to_pylist()
            continue
        raw = file.read_bytes()
        for line in (gzip.decompress(raw) if "gz" in ending else raw).splitlines():
            found.append(json.loads(line)["text"])
            # The other fields are as they came.
            assert b'"more":  [1.5]' in line
    assert found == [each for each in stay if each is not None]
    changed = [old != new for old, new in zip(every, stay, strict=True) if new is not None]
    assert (report["dropped"], report["changed"]) == (stay.count(None), sum(changed))
    assert report["removed"] >= report["changed"] > 10
    assert report["memory"] == 16 * report["different"]


def test_what_loses_nothing_stays_as_it_came() -> None:
    write_lines(Path("a.jsonl"), [{"text": "one line"}, "no JSON", {"n": 1}, {"text": ""}])
    done = run_command("clean", "a.jsonl", "-o", "out", "--unit", "line", "--json")
    assert (done.status, done.json[0]["failed"]) == (1, 2)
    before = Path("a.jsonl").read_bytes().splitlines()
    assert Path("out/a.jsonl").read_bytes().splitlines() == [before[0], before[3]]
    Path("pages").mkdir()
    for name, text in (("a.txt", "same line\nown a\n"), ("b.txt", "same line\nown b\n")):
        Path("pages", name).write_text(text, "utf-8")
    run_command("clean", "pages", "-o", "y", "--format", "file", "--unit", "line", status=0)
    assert Path("y/b.txt").read_text("utf-8") == "own b\n"


def test_csv_of_another_delimiter_loses_its_repeated_lines() -> None:
    rows = [f'{n};"{words(n)}\n{NOTICE}"\n' for n in range(3)]
    Path("a.csv").write_text("id;text\n" + "".join(rows))
    command = ["clean", "a.csv", "-o", "b.csv", "--unit", "line", "--delimiter", ";", "--json"]
    (report,) = run_command(*command, status=0).json
    assert (report["documents"], report["failed"]) == (3, 0)
    cut = [rows[0], *(row.replace(NOTICE, "") for row in rows[1:])]
    assert Path("b.csv").read_text() == "id;text\n" + "".join(cut)


def test_a_text_in_an_object_loses_its_repeated_lines() -> None:
    texts = [f"{words(n)}\\n{NOTICE}" for n in range(2)]
    lines = [f'{{"a": {{"text": "old", "n": 1.0, "text":"{text}"}}, "b": 2}}' for text in texts]
    command = ["clean", "--unit", "line", "--text-field", "a.text"]
    for file, separator, around in (("a.jsonl", "\n", ("", "")), ("b.jsonl", " ,\n", ("[", "\n]"))):
        Path(file).write_text(separator.join(lines).join(around))
        run_command(*command, file, "-o", f"new-{file}", status=0)
        cut = [lines[0], lines[1].replace(NOTICE, "")]
        assert Path(f"new-{file}").read_text() == separator.join(cut).join(around)
    pyarrow = require_pyarrow()
    table = pyarrow.table({"a": [{"text": NOTICE}], "b": [[NOTICE]]})
    pyarrow.parquet.write_table(table, "c.parquet")
    for field in ("a.text", "b", "a"):
        command = ["clean", "c.parquet", "-o", "d.parquet", "--unit", "line"]
        refused = run_command(*command, "--text-field", field, status=2)
        assert f"--unit can't change texts in structs and lists, as {field!r} is" in refused.err


def test_a_run_that_is_killed_resumes() -> None:
    Path("in").mkdir()
    for shard in range(3):
        some = texts(60)[shard * 20 : shard * 20 + 20]
        write_lines(Path(f"in/{shard}.jsonl"), [{"text": text} for text in some])
    command = ["clean", "in", "--unit", "paragraph", "--json"]
    whole = run_command(*command, "-o", "whole").json[0]

    # After the first file is written.
    killed = killed_at("Writing")
    run_command(*command, "-o", "out", surroundings=killed, status=130)
    assert {file.name for file in Path("out").iterdir()} == {"0.jsonl"}
    other = run_command(*command, "-o", "out", "--encoding", "latin-1", status=2)
    assert "unfinished run with another encoding" in other.err
    assert run_command(*command, "-o", "out").json[0] == {**whole, "output": "out"}
    for shard in range(3):
        file = f"{shard}.jsonl"
        assert Path("out", file).read_bytes() == Path("whole", file).read_bytes()
    assert not Path("out.work").exists()
