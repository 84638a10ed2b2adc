"""Groups whose documents differ in a field are left whole: in files, records and indices."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

import esdedup
from esdedup import UsageError
from esdedup.files import left_whole_file
from esdedup.results import Groups
from tests.helpers.commands import run_command, write_lines
from tests.helpers.indices import fill_index, open_index
from tests.helpers.packages import imported
from tests.helpers.places import Place
from tests.helpers.scoped_documents import components, corpus, leaders

THRESHOLD = 0.6
LABELS = [None, "", "a", ["a"], "a", []]
RECORDS = [
    {
        "id": f"{row:03d}",
        "text": document["text"],
        "label": "b" if row % 37 == 0 else LABELS[row % len(LABELS)],
    }
    for row, document in enumerate(corpus(240, seed=5))
]
"""Most have one label, or an equal one, or none; a few have another one."""
NONE: tuple[object, ...] = (None, "", [])


def left_whole(representatives: Mapping[int, int]) -> dict[int, list[int]]:
    """Return the documents of each group that has two labels, by its representative."""
    groups = dict[int, list[int]]()
    for row, representative in representatives.items():
        groups.setdefault(representative, [representative]).append(row)
    conflicts = dict[int, list[int]]()
    for representative, rows in groups.items():
        labels = [RECORDS[row]["label"] for row in rows if RECORDS[row]["label"] not in NONE]
        if len({*map(str, labels)} - {"['a']"}) > 1:
            conflicts[representative] = sorted(rows)
    return conflicts


def expected_of(method: str) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return the representative of each duplicate, and the groups that are left whole."""
    scope: Sequence[str] = ()
    representatives = (leaders if method == "leader" else components)(RECORDS, scope)
    conflicts = left_whole(representatives)
    duplicates = {row: first for row, first in representatives.items() if first not in conflicts}
    assert len(conflicts) > 3
    assert len(duplicates) > 20
    return duplicates, conflicts


def of_groups(groups: Groups) -> tuple[dict[int, int], dict[int, list[int]]]:
    duplicates = {
        int(member.id): int(group.representative) for group in groups for member in group.members
    }
    conflicts = {int(conflict.ids[0]): [*map(int, conflict.ids)] for conflict in groups.conflicts}
    return duplicates, conflicts


@pytest.mark.parametrize("method", ["leader", "components"])
def test_groups_of_records_are_left_whole(method: Any) -> None:
    expected = expected_of(method)
    result = esdedup.dedup(RECORDS, threshold=THRESHOLD, method=method, conflict="label")
    assert of_groups(result.groups) == expected
    assert [duplicate.row for duplicate in result.duplicates] == sorted(expected[0])
    groups = esdedup.group(RECORDS, threshold=THRESHOLD, method=method, conflict="label")
    assert of_groups(groups) == expected
    labels = {
        id: label for c in groups.conflicts for id, label in zip(c.ids, c.labels, strict=True)
    }
    assert labels == {id: RECORDS[int(id)]["label"] for id in labels}
    figures = groups.to_json()["conflicts"]
    assert figures == {"field": "label", "groups": len(expected[1]), "documents": len(labels)}


@pytest.mark.on_every_server
@pytest.mark.parametrize("method", ["leader", "components"])
def test_groups_of_an_index_are_left_whole(place: Place, method: Any) -> None:
    expected = expected_of(method)
    with open_index(place, RECORDS) as index:
        groups = index.groups(threshold=THRESHOLD, method=method, conflict="label")
        assert of_groups(groups) == expected
        with pytest.raises(UsageError, match="find all groups again"):
            index.regroup(groups, [RECORDS[0]["id"]])
    command = ["dedup", *place.options, "-t", str(THRESHOLD), "--method", method]
    command += ["--conflict", "label", "--json"]
    shown = run_command(*command, status=0)
    listed = {
        int(line["documents"][0]["id"]): [int(document["id"]) for document in line["documents"]]
        for line in shown.json
        if "conflict" in line
    }
    assert listed == expected[1]
    applied = run_command(*command, "--apply", "--action", "delete", "-y", status=0)
    assert applied.json[-1]["conflicts"]["groups"] == len(expected[1])
    with esdedup.open(place.target, place.index) as index:
        stored = {int(id) for id in index.groups(exact=True).ids}
    assert stored == {*range(len(RECORDS))} - {*expected[0]}


def listed_in(output: str) -> list[dict[str, Any]]:
    """Return the rows of the list of groups that are left whole."""
    import zstandard

    with Path(left_whole_file(output)).open("rb") as file:
        content = zstandard.ZstdDecompressor().stream_reader(file).read()
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["delete", "mark"])
def test_a_label_that_changes_before_the_removal_keeps_its_document(
    place: Place, action: Literal["delete", "mark"]
) -> None:
    texts = ["a long text about a bridge over a river", "another one about bread and butter"]
    records = [
        {"id": f"{group}{copy}", "text": text, "label": "x", "tags": [f"{group}{copy}"]}
        for group, text in zip("ab", texts, strict=True)
        for copy in range(3)
    ]
    with open_index(place, records) as index:
        planned = index.dedup(conflict="label", collect="tags", action=action, log="log.jsonl")
        index.update([{"id": "a1", "label": "y"}, {"id": "b0", "label": ["x", "y"]}])
        report = planned.apply().report
        assert report is not None
        reasons = {failure.id: failure.reason for failure in report.failures}
        # A representative is marked too.
        assert {*reasons} - {"b0"} == {"a1", "b1", "b2"}
        assert ("b0" in reasons) == (action == "mark")
        assert "its value of 'label' changed since it was compared" in reasons["a1"]
        assert "its original 'b0' is gone, or its text or its value of 'label'" in reasons["b1"]
        assert index.get("a0").source["tags"] == ["a0", "a2"]
        assert index.get("b0").source["tags"] == ["b0"]
        assert index.get("a1").source["label"] == "y"
        index.undo("log.jsonl")
        tags = {f"{record['id']}": record["tags"] for record in records}
        assert {id: index.get(id).source["tags"] for id in tags} == tags


@pytest.mark.parametrize("tasks", [0, 2])
def test_groups_of_files_are_left_whole_and_listed(tasks: int) -> None:
    duplicates, conflicts = expected_of("leader")
    Path("in").mkdir()
    write_lines(Path("in/a.jsonl"), RECORDS[:100])
    write_lines(Path("in/b.jsonl"), RECORDS[100:])
    options = ["clean", "in", "-o", "out", "-t", str(THRESHOLD), "--conflict", "label", "--json"]
    for stage in ("sketch", "group", "write") if tasks else ("",):
        for task in range(1, (1 if stage == "group" else tasks) + 1) or [0]:
            of_task = ["--task", f"{task}/{tasks}", "--stage", stage] if tasks else []
            run = run_command(*options, *of_task, status=0)
    report = run.json[0]
    assert report["removed"] == len(duplicates)
    assert report["conflicts"]["groups"] == len(conflicts)
    documents = sorted(row for rows in conflicts.values() for row in rows)
    assert report["conflicts"]["documents"] == len(documents)
    assert esdedup.CleanReport.open("out").conflicts is not None
    rows = listed_in("out")
    assert sorted(int(row["id"]) for row in rows) == documents
    by_group = dict[int, list[int]]()
    for row in rows:
        by_group.setdefault(row["group"], []).append(int(row["id"]))
        record = RECORDS[int(row["id"])]
        assert (row["file"], row["line"]) in (
            ("in/a.jsonl", int(row["id"]) + 1),
            ("in/b.jsonl", int(row["id"]) - 99),
        )
        label = record["label"]
        expected = label if label is None or isinstance(label, str) else json.dumps(label)
        assert row.get("label") == expected
    assert {ids[0]: ids for ids in by_group.values()} == conflicts
    # The list is no input of the next run.
    again = run_command("clean", "out", "-t", str(THRESHOLD), "--conflict", "label", "--json")
    assert again.json[0]["documents"] == len(RECORDS) - len(duplicates)
    assert tasks or not Path("out.work").exists()


def test_conflicts_are_shown() -> None:
    text = "the same text of four copies"
    labels = ["pos", "neg", None, "pos"]
    write_lines(Path("in.jsonl"), [{"text": text, "label": label} for label in labels])
    run = run_command("clean", "in.jsonl", "--conflict", "label", "--table")
    assert "1 group of 4 documents left whole, because of different values of 'label'" in run.err
    for cell in ("Left whole: 1 group", "│ pos ", "│ neg ", "│ -  ", "in.jsonl:2"):
        assert cell in run.out
    run_command("clean", "in.jsonl", "--conflict", "label", "-o", "one.jsonl", status=0)
    assert [row["line"] for row in listed_in("one.jsonl")] == [1, 2, 3, 4]


def test_labels_count_in_what_files_are_compared_with() -> None:
    text = "the same text of four copies"
    write_lines(Path("old.jsonl"), [{"text": text, "label": "pos"}])
    write_lines(Path("new.jsonl"), [{"text": text, "label": "neg"}])
    report = esdedup.clean("new.jsonl", None, against="old.jsonl", conflict="label")
    assert (report.removed, report.kept) == (0, 1)
    assert report.conflicts is not None
    assert [document["file"] for document in report.conflicts.samples[0]] == [
        "old.jsonl", "new.jsonl",
    ]  # fmt: skip
    fill_index("old.db", [{"text": text, "label": "pos"}])
    assert esdedup.clean("new.jsonl", None, against="old.db", conflict="label").kept == 1
    assert esdedup.clean("new.jsonl", None, against="old.db").kept == 0
    esdedup.clean("old.jsonl", "kept", against="all.sketches", update=True, conflict="label")
    report = esdedup.clean("new.jsonl", None, against="all.sketches", conflict="label")
    assert (report.removed, report.kept) == (0, 1)
    with pytest.raises(UsageError, match=r"it has sketches of another conflict \(label, not None"):
        esdedup.clean("new.jsonl", None, against="all.sketches")


def test_records_to_compare_with_need_no_labels() -> None:
    polars = imported("polars")
    text = "the same text of four copies"
    new = polars.DataFrame([{"text": text, "label": "neg"}])
    old = polars.DataFrame([{"text": text}])
    assert len(esdedup.dedup(new, against=old, conflict="label").removed) == 1
    assert len(esdedup.dedup(new, against=[text], conflict="label").removed) == 1
    other = old.with_columns(label=polars.lit("pos"))
    assert len(esdedup.dedup(new, against=other, conflict="label").removed) == 0


def test_labels_are_compared_as_texts() -> None:
    def removed(*labels: object) -> int:
        text = "the same text of some copies"
        records = [{"text": text, "label": label} for label in labels]
        return len(esdedup.dedup(records, conflict="label").removed)

    assert removed(1, "1", 1.0, None, float("nan")) == 4
    assert removed(["a", "b"], ["b", "a"], "") == 2
    assert removed({"x": 1, "y": 2}, {"y": 2, "x": 1}) == 1
    assert removed("a", "A") == removed(["a", "b"], "a") == removed(True, 1) == 0


def test_a_field_that_no_document_has_is_an_error() -> None:
    write_lines(Path("in.jsonl"), RECORDS)
    message = "no document has a value of the field 'lable'"
    with pytest.raises(UsageError, match=message):
        esdedup.clean("in.jsonl", None, conflict="lable")
    with pytest.raises(UsageError, match=message):
        esdedup.dedup(RECORDS, conflict="lable")
