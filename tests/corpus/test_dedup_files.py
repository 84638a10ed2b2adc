"""`esdedup clean FILES -o OUT`: the same shards without duplicates, and what was removed."""

import gzip
import io
import json
import shutil
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
import esdedup.cleaning.near_duplicates
import esdedup.cleaning.outputs
from esdedup.cleaning.near_duplicates import MemoryOfJob
from esdedup.cli.surroundings import Surroundings
from esdedup.runs.run import ShareSizes
from tests.helpers.commands import Ran, read_lines, run_command, words, write_lines
from tests.helpers.processes import start_command
from tests.helpers.surroundings import at_step, killed_at

FEW_IN_A_SHARE = Surroundings(sizes=ShareSizes(documents=50))
SENTENCE = "the council met on monday and voted for a new bridge over the river near the old town"


def texts(count: int) -> list[str]:
    """Some equal, some alike, in two languages."""
    made = []
    for n in range(count):
        if n % 3 == 2:
            made.append(f"市图书馆今天下午举行第{n % 7}次读书会，欢迎大家带上自己喜欢的书参加。")
        else:
            made.append(
                " ".join([*SENTENCE.split()[: 12 + n % 6], *(f"w{n}" for _ in range(n % 4))])
            )
    return made


def shards() -> list[Path]:
    """Three files of 60 records, in two formats, one of them compressed."""
    every = texts(180)
    lines = [f'{{"text":  {json.dumps(text)}, "n": {n}.0}}\n' for n, text in enumerate(every)]
    Path("in/more").mkdir(parents=True)
    files = [Path("in/a.jsonl"), Path("in/more/b.jsonl.gz"), Path("in/more/c.jsonl.zst")]
    files[0].write_text("".join(lines[:60]), "utf-8")
    files[1].write_bytes(gzip.compress("".join(lines[60:120]).encode()))
    files[2].write_bytes(zstandard.compress("".join(lines[120:]).encode()))
    return files


def unpacked(file: Path) -> bytes:
    """Return the content of a file."""
    raw = file.read_bytes()
    if file.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    return gzip.decompress(raw) if file.suffix == ".gz" else raw


def lines_in(files: Sequence[Path]) -> list[list[bytes]]:
    """Return the lines of files."""
    return [unpacked(file).splitlines(keepends=True) for file in files]


def removed_in(file: Path) -> list[dict[str, Any]]:
    """Return the list of removed documents."""
    return [json.loads(line) for line in unpacked(file).splitlines()]


def by_groups(every: list[str], **options: Any) -> set[int]:
    """Return the numbers of the texts that an index of them has as duplicates."""
    found = esdedup.group(every, **options)
    return {int(member.id) for group in found for member in group.members}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_stays_is_as_it_came(workers: str) -> None:
    files = shards()
    before = lines_in(files)
    command = ["clean", "in", "-o", "out", "--workers", workers, "--json"]
    done = run_command(*command, surroundings=FEW_IN_A_SHARE)
    (report,) = done.json
    removed = by_groups(texts(180))
    assert (done.status, report["documents"], report["removed"]) == (0, 180, len(removed))
    assert report["kept"] == 180 - len(removed)
    made = [Path("out", *file.parts[1:]) for file in files]
    stay = [
        [line for n, line in enumerate(lines, 60 * number) if n not in removed]
        for number, lines in enumerate(before)
    ]
    assert lines_in(made) == stay
    assert lines_in(files) == before
    # What was removed is listed with its original.
    rows = removed_in(Path("out/_removed.jsonl.zst"))
    place = {(str(file), n): 60 * f + n - 1 for f, file in enumerate(files) for n in range(1, 61)}
    assert [place[each["file"], each["line"]] for each in rows] == sorted(removed)
    every = texts(180)
    for each in rows:
        original = place[each["original_file"], each["original_line"]]
        assert original not in removed
        own = every[place[each["file"], each["line"]]]
        assert each["similarity"] == esdedup.similarity(own, every[original]) >= 0.8
        assert each["id"] == f"{each['file']}:{each['line']}"
    assert {path.name for path in Path().iterdir()} == {"in", "out"}
    # A second run finds nothing more, and the output is not overwritten.
    assert run_command("clean", "out", "-o", "again", "--json").json[0]["removed"] == 0
    refused = run_command("clean", "in", "-o", "out", status=2)
    assert "exists: name another --output" in refused.err


def test_a_dry_run_writes_nothing_and_shows_what_would_go() -> None:
    shards()
    done = run_command("clean", "in", "--dry-run", "--table", status=0)
    assert "The largest of" in done.out
    assert "similarity" in done.out
    assert {path.name for path in Path().iterdir()} == {"in"}
    # As without an output.
    assert run_command("clean", "in", "--table").out == done.out
    assert {path.name for path in Path().iterdir()} == {"in"}


@pytest.mark.parametrize(
    "options", [[], ["--keep", "longest"], ["--keep", "last", "--method", "components"]]
)
def test_the_result_does_not_depend_on_memory(options: list[str]) -> None:
    files = [Path("out", *file.parts[1:]) for file in shards()]
    files.append(Path("out/_removed.jsonl.zst"))
    # A dozen rows are sorted at once, five pairs are compared, and two texts are read.
    found = []
    base = MemoryOfJob().base
    for memory in ([], ["--max-memory", f"{base + 12_288}"]):
        command = ["clean", "in", "-o", "out", *options, *memory]
        run_command(*command, surroundings=FEW_IN_A_SHARE, status=0)
        found.append(lines_in(files))
        shutil.rmtree("out")
    assert found[0] == found[1]
    assert len(found[0][-1]) > 50
    few = run_command("clean", "in", "-o", "out", "--max-memory", f"{base + 10_240}", status=2)
    assert "180 documents require" in few.err


def test_a_run_that_is_killed_resumes() -> None:
    files = shards()
    run_command("clean", "in", "-o", "whole", "--json", status=0)
    # Before the first file, and after each of three.
    for last in range(5):
        killed = killed_at("Writing", last)
        first = run_command("clean", "in", "-o", f"out{last}", "--json", surroundings=killed)
        assert first.status == (130 if last < 4 else 0)
        if last < 4:
            others = run_command("clean", "in", "-o", f"out{last}", "-t", "0.9", status=2)
            assert "unfinished run with another threshold" in others.err
            again = run_command("clean", "in", "-o", f"out{last}", "--json")
            assert (again.status, again.json[0]["documents"]) == (0, 180)
        for file in [*(file.relative_to("in") for file in files), Path("_removed.jsonl.zst")]:
            assert Path(f"out{last}", file).read_bytes() == Path("whole", file).read_bytes()
        assert not Path(f"out{last}.work").exists()


def test_a_run_resumes_with_all_of_its_options_and_files_only() -> None:
    shards()
    Path("others").mkdir()
    for name, text in zip("cd", texts(2), strict=True):
        Path("others", f"{name}.jsonl").write_text(json.dumps({"text": text}))
    for number, (options, name) in enumerate(
        (
            (["--within", "n:50s"], "within"),
            (["--against", "others", "--only-between"], "only between"),
            (["--against", "others", "--against-field", "text"], "against field"),
            (["--collect", "n"], "collect"),
        )
    ):
        command = ["clean", "in", "-o", f"out{number}"]
        run_command(*command, *options, surroundings=killed_at("Writing"), status=130)
        fewer = [] if "--against" not in options else ["--against", "others"]
        refused = run_command(*command, *fewer, status=2)
        assert f"unfinished run with another {name} (" in refused.err
        assert ", not None)" in refused.err
        run_command(*command, *options, status=0)
    command = ["clean", "in", "-o", "out", "--against", "others"]
    run_command(*command, surroundings=killed_at("Writing"), status=130)
    Path("others/d.jsonl").rename("d.jsonl")
    refused = run_command(*command, status=2)
    assert "another state of others/d.jsonl" in refused.err
    Path("d.jsonl").rename("others/d.jsonl")
    run_command(*command, status=0)


def test_a_run_that_resumes_names_a_dead_letter_file_that_exists() -> None:
    write_lines(Path("in.jsonl"), [{"text": "one text"}, {"text": "one text"}, {"n": 1}])
    command = ["clean", "in.jsonl", "-o", "out.jsonl"]
    first = ["--dead-letter", "first.jsonl"]
    run_command(*command, *first, surroundings=killed_at("Writing"), status=130)
    resumed = run_command(*command, "--dead-letter", "second.jsonl", status=1)
    assert "1 record skipped: see the dead-letter file of the run that was inter" in resumed.err
    assert not Path("second.jsonl").exists()
    assert len(read_lines(Path("first.jsonl"))) == 1


def test_an_output_in_no_folder_is_refused() -> None:
    Path("file").write_text("")
    write_lines(Path("in.jsonl"), [{"text": "one text"}])
    for output, parent in (("new/out", "new"), ("file/out.jsonl", "file")):
        refused = run_command("clean", "in.jsonl", "-o", output, status=2)
        assert f"{output}: {parent} is no folder: make it first" in refused.err


def test_a_damaged_file_can_be_mended() -> None:
    files = shards()
    whole = files[1].read_bytes()
    run_command("clean", "in", "-o", "whole", status=0)
    for stopped in (False, True):
        files[1].write_bytes(whole if stopped else whole[:-9])
        killed = killed_at("Comparing") if stopped else None
        first = run_command("clean", "in", "-o", "out", surroundings=killed)
        assert first.status == (130 if stopped else 1)
        # As there are no results yet, the run begins again with the files as they are.
        files[1].write_bytes(whole)
        run_command("clean", "in", "-o", "out", status=0)
        for file in (file.relative_to("in") for file in files):
            assert Path("out", file).read_bytes() == Path("whole", file).read_bytes()
        assert not Path("out.work").exists()
        shutil.rmtree("out")
    # Results of other files do not fit.
    killed = killed_at("Writing")
    run_command("clean", "in", "-o", "out", surroundings=killed, status=130)
    files[1].write_bytes(gzip.compress(gzip.decompress(whole) * 2))
    refused = run_command("clean", "in", "-o", "out", status=2)
    assert "another state of in/more/b.jsonl.gz" in refused.err


def test_a_file_that_changes_while_it_is_read_is_an_error() -> None:
    files = shards()

    def change() -> None:
        with files[0].open("a") as file:
            file.write('{"text": "one more"}\n')

    done = run_command(
        "clean", "in", "-o", "out", surroundings=at_step("Writing", change), status=1
    )
    assert "in/a.jsonl has changed since it was read" in done.err
    assert not Path("out/a.jsonl").exists()


def test_the_keep_rule_chooses_what_stays() -> None:
    same = "the same text of several words"
    write_lines(
        Path("a.jsonl"),
        [
            {"id": "x", "text": same, "quality": 1},
            {"id": "x", "text": same, "quality": 3},
            {"id": "y", "text": f"{same}!", "quality": 2},
        ],
    )
    rules = {
        "first": 0,
        "last": 2,
        "longest": 2,
        "highest:quality": 1,
        "first:quality=2,3": 2,
    }
    for rule, stays in rules.items():
        out = f"{rule.partition(':')[0]}-{stays}.jsonl"
        done = run_command("clean", "a.jsonl", "-o", out, "--keep", rule, "--json")
        assert (done.status, done.json[0]["kept"]) == (0, 1)
        assert Path(out).read_bytes() == lines_in([Path("a.jsonl")])[0][stays]
    options = ["-o", "-", "--keep", "last", "--json"]
    process = start_command("clean", "a.jsonl", *options, stdout=PIPE, stderr=PIPE)
    out, err = process.communicate()
    assert out == lines_in([Path("a.jsonl")])[0][2].decode()
    assert "2 duplicates of 3 documents" in err


def test_later_keep_rules_decide_ties() -> None:
    same = "the same text of several words"
    records = [
        {"id": "1", "text": same, "source": "blog", "day": "2026-03-09"},
        {"id": "2", "text": same, "source": "ap", "day": "2026-03-01"},
        {"id": "3", "text": same, "source": "ap", "day": "2026-03-02"},
        {"id": "4", "text": same, "source": "ap", "day": "2026-03-02"},
    ]
    write_lines(Path("a.jsonl"), records)
    preferred = ["first:source=reuters,ap", "newest:day"]
    options = ["--keep", preferred[0], "--keep", preferred[1]]
    run_command("clean", "a.jsonl", "-o", "two.jsonl", *options, status=0)
    run_command("clean", "a.jsonl", "-o", "three.jsonl", *options, "--keep", "last", status=0)
    two, three = (Path(name).read_bytes() for name in ("two.jsonl", "three.jsonl"))
    assert [two, three] == lines_in([Path("a.jsonl")])[0][2:]
    assert [record["id"] for record in esdedup.dedup(records, keep=preferred).kept] == ["3"]

    Path("esdedup.toml").write_text(f"[clean]\nkeep = {preferred}\n")
    shown = run_command("clean", "a.jsonl", "--show-settings")
    assert f"keep = {json.dumps(preferred)}  # esdedup.toml" in shown.out
    run_command("clean", "a.jsonl", "-o", "file.jsonl", status=0)
    assert Path("file.jsonl").read_bytes() == two
    wrong = run_command("clean", "a.jsonl", "--keep", "first", "--keep", "longest", status=2)
    assert "must be the last rule" in wrong.err


def test_a_run_that_can_not_complete_leaves_nothing() -> None:
    shards()
    Path("full").mkdir()
    Path("full/other.txt").touch()
    Path("empty").mkdir()
    for out, more, said in (
        ("full", [], "full exists: name another --output"),
        (
            "new",
            ["--keep", "newest:none"],
            "keep newest:none: no document has a time",
        ),
        ("a.csv", [], "name a folder; one file can't hold csv and jsonl"),
    ):
        done = run_command("clean", "in", "-o", out, *more, status=2)
        assert said in done.err
    assert {path.name for path in Path().iterdir()} == {"in", "full", "empty"}
    run_command("clean", "in", "-o", "empty", status=0)


def test_bad_records_are_kept_apart() -> None:
    write_lines(Path("a.jsonl"), [{"text": "some words"}, "no JSON", {"id": "b"}, {"text": ""}])
    done = run_command("clean", "a.jsonl", "-o", "out", "--json")
    assert (done.status, done.json[0]["failed"], done.json[0]["kept"]) == (1, 2, 2)
    assert "2 records skipped: see clean.dead-letter.jsonl" in done.err
    letters = read_lines("clean.dead-letter.jsonl")
    assert [letter["line"] for letter in letters] == [2, 3]
    before = lines_in([Path("a.jsonl")])[0]
    assert lines_in([Path("out/a.jsonl")]) == [[before[0], before[3]]]


def test_what_is_near_another_corpus_goes_too() -> None:
    held = "a question of the benchmark, which models must not have seen in training"
    near = held.replace("models", "people")
    other = "another text that has nothing to do with it, and that stays where it is"
    write_lines(Path("held.jsonl"), [{"id": "q1", "text": held}, {"id": "q2", "text": near}])
    write_lines(
        Path("a.jsonl"),
        [{"id": 1, "text": near + "!"}, {"id": 2, "text": other}, {"id": 3, "text": other}],
    )
    run_command("index", "held.jsonl", "--db", "held.db", status=0)
    for number, against in enumerate(("held.jsonl", "held.db")):
        options = ["-o", f"out{number}", "--against", against, "-t", "0.6", "--json"]
        done = run_command("clean", "a.jsonl", *options)
        (report,) = done.json
        assert (report["documents"], report["kept"], report["against"]) == (3, 1, 1)
        rows = removed_in(Path(f"out{number}/_removed.jsonl.zst"))
        # Each document of the other corpus counts, though they resemble each other.
        assert [(each["id"], each["original_id"]) for each in rows] == [("1", "q2"), ("3", "2")]
    assert not Path("out0/held.jsonl").exists()
    twice = run_command("clean", "a.jsonl", "-o", "x", "--against", "a.jsonl", status=2)
    assert "a.jsonl: it is named in --against too" in twice.err


def test_each_shard_is_compared_with_all_earlier_ones() -> None:
    every = texts(180)
    for number in range(3):
        write_lines(
            Path(f"{number}.jsonl"),
            [{"id": n, "text": every[n]} for n in range(60 * number, 60 * number + 60)],
        )
        options = ["-o", f"out{number}", "--against", "all.db", "--update", "--json"]
        run_command("clean", f"{number}.jsonl", *options, status=0)
    kept = [
        json.loads(line)["id"]
        for n in range(3)
        for line in lines_in([Path(f"out{n}/{n}.jsonl")])[0]
    ]
    with esdedup.open("all.db") as index:
        assert index.statistics().documents == len(kept) < 180
        assert not len(index.pairs(threshold=0.8))
        assert {int(index.get(str(n)).id) for n in kept} == {*kept}


def test_a_shard_that_replaces_documents_of_the_index_says_so() -> None:
    options = ["--against", "all.db", "--update"]
    said = [
        "1 document added to",
        "0 documents added to",
        "replaced by others with their ids, and not compared with later",
    ]
    for number, expected in enumerate((said[:1], said[1:])):
        write_lines(Path("in.jsonl"), [{"id": 1, "text": words(number)}])
        done = run_command("clean", "in.jsonl", "-o", f"out{number}.jsonl", *options, status=0)
        for sentence in expected:
            assert sentence in done.err
        assert (said[2] in done.err) == (number == 1)


def test_a_dataset_of_huggingface_loads_again() -> None:
    pa = pytest.importorskip("pyarrow")
    for split, number in (("train", 3), ("test", 5)):
        folder = Path("in", split)
        folder.mkdir(parents=True)
        table = pa.table({"text": ["a text that comes twice", f"a text of its own, {number}"] * 2})
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as out:
            out.write_table(table)
        state = {"_fingerprint": "0123", "_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
        (folder / "state.json").write_text(json.dumps(state), "utf-8")
    Path("in/dataset_dict.json").write_text('{"splits": ["train", "test"]}', "utf-8")
    assert run_command("clean", "in", "-o", "out", "--json").json[0]["removed"] == 5
    assert Path("out/dataset_dict.json").read_bytes() == Path("in/dataset_dict.json").read_bytes()
    made = json.loads(Path("out/test/state.json").read_bytes())
    assert made["_data_files"] == [{"filename": "data-00000-of-00001.arrow"}]
    # Results of functions on the former documents are saved under the former name.
    assert made["_fingerprint"] != "0123"
    with pa.ipc.open_stream("out/test/data-00000-of-00001.arrow") as rows:
        assert rows.read_all().to_pydict() == {
            "text": ["a text that comes twice", "a text of its own, 5"]
        }


OF_TEXTS = ("minhash", "simhash", "signature", "passages")
"""Sketches of texts, of which the default scheme has two."""
PLACES = ("", "-o out", "-o out.jsonl", "-o -", "-o out --dry-run", "-o out --task 1/1")
RULES = (
    "-t 0.6",
    "-d 3",
    "--cover 0.5",
    "--words 6",
    "--recall 0.9",
    "--exact",
    "--split-templates",
    "--method components",
    "--keep longest",
    "--conflict label",
    "--collect url",
    "--passages",
    "--unit line",
    "--unit span",
)
"""Options that decide which records are removed. Some can't be combined."""


def cleaned(*options: str, status: int | None = None) -> Ran:
    """Run `clean in.jsonl`, also with records on standard output."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8")
    ran = run_command("clean", "in.jsonl", *options, status=status, out=out)
    out.flush()
    return replace(ran, out=raw.getvalue().decode())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sketch", OF_TEXTS)
def test_each_sketch_of_texts_removes_what_the_function_removes(sketch: str, place: str) -> None:
    write_lines(Path("in.jsonl"), [{"text": text} for text in texts(60)])
    expected = esdedup.clean("in.jsonl", None, sketch=sketch)
    ran = cleaned("--sketch", sketch, *place.split(), status=0)
    kept = len(ran.json) if place == "-o -" else ran.json[0]["kept"]
    assert kept == expected.kept < 60


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("--sketch passages --cover 0.5", "that the representative holds of 0.5 or more"),
        ("--sketch passages", "that the representative holds of 0.8 or more"),
        ("--sketch signature -t 0.6", "Jaccard similarity of 0.6 or more"),
        ("--sketch simhash", "Hamming distance of 3 bits or less"),
    ],
)
def test_the_rule_of_a_sketch_is_shown(options: str, rule: str) -> None:
    write_lines(Path("in.jsonl"), [{"text": text} for text in texts(9)])
    assert rule in cleaned("-o", "-", *options.split(), status=0).err


@settings(deadline=None)
@given(
    st.sampled_from([*OF_TEXTS, "none"]),
    st.lists(st.sampled_from(RULES), max_size=2, unique_by=lambda rule: rule.split()[0]),
    st.sampled_from(PLACES),
)
def test_a_run_that_fails_has_written_nothing(sketch: str, rules: list[str], place: str) -> None:
    with TemporaryDirectory() as folder, chdir(folder):
        records = [{"text": text, "label": n % 2} for n, text in enumerate(texts(20))]
        write_lines(Path("in.jsonl"), records)
        ran = cleaned("--sketch", sketch, *" ".join([*rules, place]).split())
        assert "Traceback" not in ran.err
        if ran.status:
            assert [path.name for path in Path().iterdir()] == ["in.jsonl"], ran.err
            assert ran.out == ""
