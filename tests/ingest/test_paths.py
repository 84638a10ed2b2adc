"""Files that arguments name: patterns, folders in shards, and folders of the library `datasets`."""

from pathlib import Path

import pytest

from esdedup.exceptions import UsageError
from esdedup.records.files import Format
from esdedup.records.paths import files_named
from tests.helpers.commands import run_command


def named(arguments: list[str], format: Format | None = None) -> list[str]:
    return files_named(arguments, format)[0]


def touch(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def test_a_pattern_is_read_in_natural_order() -> None:
    touch("data/a10.jsonl", "data/a2.jsonl", "data/b/a1.jsonl", "data/.a3.jsonl", "data/_a.jsonl")
    assert named(["data/*.jsonl"]) == ["data/a2.jsonl", "data/a10.jsonl"]
    assert named(["data/**/a1*.jsonl"]) == ["data/a10.jsonl", "data/b/a1.jsonl"]
    assert named(["data/**"]) == ["data/a2.jsonl", "data/a10.jsonl", "data/b/a1.jsonl"]
    touch("data/[a].jsonl", "data/.hidden/a1.jsonl")
    assert named(["data/[a].jsonl"]) == ["data/[a].jsonl"]
    assert named(["data/**"]) == named(["data"])


def test_a_folder_is_read_without_what_is_no_data() -> None:
    touch(
        *("part-10.jsonl.gz", "part-9.jsonl.gz", "_SUCCESS", ".part-9.jsonl.gz.crc", "x.crc"),
        *("README.md", "readme.txt", ".gitattributes", "dataset_infos.json", "_temporary/a.csv"),
        *("documents.dead-letter.jsonl", "train/part-1.ndjson", ".cache/a.jsonl"),
    )
    touch("train/cache-0123456789abcdef.arrow", "train/state.json", "LICENSE", "train/notes.pdf")
    Path("linked").symlink_to("..")
    files = ["part-9.jsonl.gz", "part-10.jsonl.gz", "train/part-1.ndjson"]
    assert files_named(["."]) == (files, ["LICENSE", "linked", "train/notes.pdf"])
    ran = run_command("pairs", ".")
    assert "3 files are skipped, a link or of unknown ending: first LICENSE" in ran.err
    assert "If each file is one document, name --format file" in ran.err
    touch("out/part-00000", "out/_SUCCESS")
    assert named(["out"], "jsonl") == ["out/part-00000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["*.csv"], "*.csv: there is no such file"),
        (["mixed"], "mixed: it holds files of several formats, jsonl (mixed/a.jsonl) and parquet"),
        (["mixed"], "pattern in quotes, such as 'mixed/**/*.jsonl*'"),
        (
            ["empty"],
            "known format. Name that of empty/notes.pdf and the others, such as `format` file",
        ),
        (["mixed/*.jsonl", "mixed/../mixed/a.json*"], "name the same file, or standard"),
        (["-", "-"], "-: name the same file, or standard input, only once"),
        (["x.what"], "x.what: unknown ending '.what'; name the format: `format` jsonl, csv, tsv,"),
    ],
)
def test_what_names_no_files_is_told(arguments: list[str], said: str) -> None:
    touch("a.jsonl", "b.jsonl", "mixed/a.jsonl", "mixed/b/b.parquet", "empty/notes.pdf", "x.what")
    with pytest.raises(UsageError) as caught:
        named(arguments)
    assert said in str(caught.value)
    run_command("index", *arguments, status=2)
    assert not Path("esdedup.db").exists()
