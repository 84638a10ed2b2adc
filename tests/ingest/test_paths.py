"""Files that arguments name: patterns, folders in shards, and folders of the library `datasets`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from esdedup.exceptions import UsageError
from esdedup.records.paths import files_named
from tests.helpers.commands import run_command, write_lines


def touch(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def save_to_disk(folder: str, shards: list[list[dict[str, Any]]]) -> None:
    """Write a folder as `datasets.Dataset.save_to_disk` 5.0 does."""
    Path(folder).mkdir(parents=True)
    names = [f"data-{n:05}-of-{len(shards):05}.arrow" for n in range(len(shards))]
    for name, rows in zip(names, shards, strict=True):
        table = pa.Table.from_pylist(rows)
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {}})})
        with pa.ipc.new_stream(Path(folder, name), table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "bc6f"}
    Path(folder, "state.json").write_text(json.dumps({**state, "_split": None}, indent=2))
    Path(folder, "dataset_info.json").write_text(json.dumps({"features": {}}, indent=2))


SENTENCE = ["the", "council", "met", "on", "monday", "and", "voted", "for", "a", "new", "bridge"]
ROWS = [{"id": f"d{n}", "text": f"one two three {n // 2}", "label": n % 2} for n in range(12)]


def test_a_pattern_is_read_in_natural_order() -> None:
    touch("data/a10.jsonl", "data/a2.jsonl", "data/b/a1.jsonl", "data/.a3.jsonl", "data/_a.jsonl")
    assert files_named(["data/*.jsonl"]).files == ["data/a2.jsonl", "data/a10.jsonl"]
    assert files_named(["data/**/a1*.jsonl"]).files == ["data/a10.jsonl", "data/b/a1.jsonl"]
    assert files_named(["data/**"]).files == ["data/a2.jsonl", "data/a10.jsonl", "data/b/a1.jsonl"]
    assert files_named(["d*"]).files == files_named(["data"]).files
    touch("data/[a].jsonl", "h/a.parquet", "h/_temporary/0/b.parquet", "h/.hidden/c.parquet")
    assert files_named(["data/[a].jsonl"]).files == ["data/[a].jsonl"]
    assert files_named(["h/**/*.parquet"]).files == ["h/a.parquet"]
    assert files_named(["h/_temporary/*/*.parquet"]).files == ["h/_temporary/0/b.parquet"]


def test_a_folder_is_read_without_what_is_no_data() -> None:
    touch(
        *("part-10.jsonl.gz", "part-9.jsonl.gz", "_SUCCESS", ".part-9.jsonl.gz.crc", "x.crc"),
        *("README.md", "readme.txt", ".gitattributes", "dataset_infos.json", "_temporary/a.csv"),
        *("documents.dead-letter.jsonl", "train/part-1.ndjson", ".cache/a.jsonl"),
    )
    named = files_named(["."])
    assert named.files == ["part-9.jsonl.gz", "part-10.jsonl.gz", "train/part-1.ndjson"]
    assert not named.left_out
    touch("LICENSE", "train/notes.pdf")
    assert files_named(["."]).left_out == ["LICENSE", "train/notes.pdf"]
    touch("out/part-00000", "out/_SUCCESS")
    assert files_named(["out"], "jsonl").files == ["out/part-00000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["*.csv"], "*.csv: no file has such a name"),
        (["gone.jsonl"], "gone.jsonl: there is no such file"),
        (["mixed"], "mixed: it holds files of several formats, jsonl (mixed/a.jsonl) and parquet"),
        (["empty"], "empty: the folder has no files of a known format"),
        (["a.jsonl", "*.jsonl"], "a.jsonl: name the same file only once"),
        (["mixed/*.jsonl", "mixed/../mixed/a.json*"], "name the same file only once"),
        (["-", "-"], "standard input (-) can be read only once"),
        (["x.what"], "x.what: unknown ending '.what'; name the format: --format jsonl, csv, tsv,"),
        (["saved"], "saved/data-00000-of-00001.arrow: saved/state.json names it, but there is no"),
    ],
)
def test_what_names_no_files_is_told(arguments: list[str], said: str) -> None:
    touch("a.jsonl", "b.jsonl", "mixed/a.jsonl", "mixed/b/b.parquet", "empty/notes.pdf", "x.what")
    save_to_disk("saved", [ROWS])
    Path("saved/data-00000-of-00001.arrow").unlink()
    with pytest.raises(UsageError) as caught:
        files_named(arguments)
    assert said in str(caught.value)
    assert run_command("index", *arguments).status == 2
    assert not Path("esdedup.db").exists()


def write_lines_of(rows: list[dict[str, Any]]) -> list[str]:
    write_lines(Path("rows.jsonl"), rows)
    return ["rows.jsonl"]


def test_what_is_left_out_of_a_folder_is_told() -> None:
    write_lines(Path("a.jsonl"), ROWS[:3])
    write_lines(Path("readme-2.jsonl"), ROWS[3:])
    touch("LICENSE", "notes.pdf", "README.txt")
    Path("linked").symlink_to("..")
    ran = run_command("pairs", ".", "--json")
    assert (ran.status, len(ran.json)) == (0, len(run_command("pairs", *write_lines_of(ROWS)).json))
    assert "3 files are skipped, a link or of unknown ending: first linked" in ran.err


def test_index_reads_the_columns_that_it_is_told() -> None:
    rows = [{**row, "image": {"bytes": b"\xff\xd8", "path": "a.jpg"}} for row in ROWS]
    pa.parquet.write_table(pa.Table.from_pylist(rows), "rows.parquet")
    refused = run_command("index", "rows.parquet", "--json")
    assert (refused.status, refused.json[0]["failed"]) == (1, 12)
    assert "the column 'image' holds bytes that are not text in UTF-8" in refused.err
    columns = ["--column", "label"]
    assert run_command("index", "rows.parquet", *columns).status == 0
    found = run_command("similar", "--id", "d0", "--source").json[0]["matches"][0]
    assert found["source"] == {
        "id": "d1",
        "text": ROWS[1]["text"],
        "label": 1,
    }
    wrong = run_command("index", "rows.parquet", "--column", "lable")
    assert wrong.status == 2
    assert "there is no column 'lable'. There are: id, text, label, image" in " ".join(
        wrong.err.split()
    )
    write_lines(Path("rows.jsonl"), ROWS)
    assert run_command("index", "rows.jsonl", "--column", "label").status == 2


def test_folders_of_data_sets_are_read_by_their_state() -> None:
    save_to_disk("all/train", [ROWS[:4], ROWS[4:8]])
    save_to_disk("all/test", [ROWS[8:]])
    # The library keeps what `map` made beside the data.
    touch("all/train/cache-0123456789abcdef.arrow", "all/dataset_dict.json")
    assert files_named(["all"]).files == [
        "all/test/data-00000-of-00001.arrow",
        "all/train/data-00000-of-00002.arrow",
        "all/train/data-00001-of-00002.arrow",
    ]
    for text, said in {
        '{"_data_files": [{"fil': "it is damaged",
        "[]": "it is damaged",
        '{"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}': "flatten_indices",
    }.items():
        Path("all/train/state.json").write_text(text)
        with pytest.raises(UsageError, match=said):
            files_named(["all"])
