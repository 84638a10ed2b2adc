"""Ingest pipelines and lost answers beside each command: whatever was acknowledged is somewhere.

A record that a command read is in an index, in the dead letters, or a near-duplicate of one that is
in an index. A document that was in an index is in one now, or in a log.
"""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from esdedup.removal.log import Entry, LogReader
from tests.conftest import delete_index
from tests.helpers.commands import Ran, all_documents, call, esdedup_command, words, write_lines
from tests.helpers.pipelines import (
    Processor,
    copy_field,
    drop,
    fail,
    is_opensearch,
    lowercase,
    pipeline,
    set_field,
    use_pipeline,
)
from tests.helpers.reference import jaccard, normalise, shingles
from tests.helpers.reference import words as words_of
from tests.servers.enriching import Enriching
from tests.servers.modules import require_pipelines
from tests.servers.proxy import Proxy

TEXT_A, TEXT_B = words(1), words(2)
POLICIES = ["keep", "mark", "skip", "fail", "group"]
FATES = ["plain", "plain", "dropped", "refused", "changed", "renamed", "moved"]
Documents = dict[str, dict[str, Any]]


def attached(url: str, name: str, processors: list[Processor], kind: str = "default") -> ExitStack:
    """Create an index with a pipeline; both are deleted at the end."""
    ended = ExitStack()
    pipe = ended.enter_context(pipeline(url, *processors))
    ended.callback(delete_index, url, name)
    body = {
        "settings": {f"index.{kind}_pipeline": pipe},
        "mappings": {"properties": {"message": {"type": "text"}}},
    }
    call(url, "PUT", f"/{name}", body)
    esdedup_command(url, "attach", "-i", name, "--text-field", "message", status=0)
    return ended


def written(url: str, name: str, action: str, *options: str) -> Ran:
    write_lines(
        Path("q.jsonl"),
        [
            {"id": "2", "message": TEXT_A},
            {"id": "3", "message": TEXT_A + "!"},
            {"id": "4", "message": TEXT_B},
        ],
    )
    return esdedup_command(
        url, "index", "q.jsonl", "-i", name, "--on-duplicate", action, "--json", *options
    )


def letters(name: str) -> dict[str, str]:
    """Return the reasons of the dead letters by the ids of the records."""
    file = Path(f"{name}.dead-letter.jsonl")
    lines = map(json.loads, file.read_text("utf-8").splitlines() if file.exists() else [])
    return {json.loads(line["record"])["id"]: line["reason"] for line in lines}


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", POLICIES)
def test_a_dropped_document_is_no_original(url: str, name: str, action: str) -> None:
    with attached(url, name, [drop("ctx.id == '2'")]):
        ran = written(url, name, action)
        (report,) = ran.json
        assert (ran.status, report["created"], report["dropped"]) == (1, 2, 1), ran.err
        assert (report["updated"], report["failed"], report["duplicates"]) == (0, 0, 0)
        assert "no other record is treated as a duplicate of these" in ran.err
        assert letters(name) == {"2": "dropped by the ingest pipeline of the index"}
        stored = all_documents(url, name)
        assert stored.keys() == {"3", "4"}
        assert all("original" not in source["esdedup"] for source in stored.values())


@pytest.mark.parametrize("action", POLICIES)
def test_equal_documents_of_which_many_are_dropped(url: str, name: str, action: str) -> None:
    """One after the other is tried until one is stored, whose duplicates the others are."""
    records = [
        {"id": str(number), "message": TEXT_A, "kind": "plain" if number >= 10 else "dropped"}
        for number in range(20)
    ]
    records += [{"id": f"b{number}", "message": TEXT_B, "kind": "dropped"} for number in range(10)]
    write_lines(Path("many.jsonl"), records)
    with attached(url, name, [drop("ctx.kind == 'dropped'")]):
        ran = esdedup_command(
            url, "index", "many.jsonl", "-i", name, "--on-duplicate", action, "--json"
        )
        (report,) = ran.json
        assert (ran.status, report["dropped"]) == (1, 20), ran.err
        stored = all_documents(url, name)
        left_out = report["skipped"] + report["failed"]
        assert (report["created"], left_out) == ((1, 9) if action in ("skip", "fail") else (10, 0))
        assert report["duplicates"] == (0 if action == "keep" else 9)
        originals = {source["esdedup"].get("original") for source in stored.values()}
        assert originals == ({None, "10"} if action in ("mark", "group") else {None})


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["keep", "mark", "skip"])
def test_a_moved_document_is_no_original(url: str, name: str, action: str) -> None:
    with attached(url, name, [set_field("_index", f"{name}-other", "ctx.id == '2'")]):
        ran = written(url, name, action)
        (report,) = ran.json
        assert (ran.status, report["created"], report["moved"]) == (1, 2, 1), ran.err
        assert letters(name) == {"2": f"moved to index '{name}-other' by the ingest pipeline"}
        assert all_documents(url, name).keys() == {"3", "4"}
        # Again: the record is moved again, and no client deleted it.
        ran = written(url, name, action)
        (report,) = ran.json
        left = ["skipped" if action == "skip" else "moved"]
        assert [report["unchanged"], *(report[count] for count in left)] == [2, 1], ran.err
        assert action == "skip" or "where its id is taken" in letters(name)["2"]


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["keep", "mark"])
def test_a_pipeline_that_changes_ids_is_named(url: str, name: str, action: str) -> None:
    with attached(url, name, [copy_field(url, "message", "_id", "ctx.id != '4'")]):
        for times in ("first", "second"):
            ran = written(url, name, action)
            (report,) = ran.json
            assert (ran.status, report["renamed"]) == (1, 2), (times, ran.err)
            reasons = letters(name)
            assert reasons.keys() == {"2", "3"}
            assert all(
                "the ingest pipeline of the index changed its id" in reasons[id] for id in reasons
            )
        stored = all_documents(url, name)
        assert stored.keys() == {TEXT_A, TEXT_A + "!", "4"}
        originals = {source["esdedup"].get("original") for source in stored.values()}
        assert originals <= {None, *stored}


@pytest.mark.on_every_server
def test_undo_reports_what_a_pipeline_drops(url: str, name: str) -> None:
    with attached(url, name, [drop("ctx.id == '3'")], "final"):
        use_pipeline(url, name, None, "final")
        assert written(url, name, "keep").status == 0
        dedup = partial(esdedup_command, url, "dedup", "-i", name, "--apply", "--json", "--yes")
        assert dedup("--action", "delete", "--log", "l.zst").json[0]["deleted"] == 1
        with pipeline(url, drop("ctx.id == '3'")) as dropping:
            use_pipeline(url, name, dropping, "final")
            ran = esdedup_command(url, "undo", "l.zst", "-i", name, "--json", "--yes")
            (report,) = ran.json
            assert (ran.status, report["restored"], report["failed"]) == (1, 0, 1), ran.err
            assert "dropped by the ingest pipeline" in report["failures"][0]["reason"]
            use_pipeline(url, name, None, "final")
        ran = esdedup_command(url, "undo", "l.zst", "-i", name, "--json", "--yes")
        assert (ran.status, ran.json[0]["restored"]) == (0, 1), ran.err
        assert all_documents(url, name).keys() == {"2", "3", "4"}


@pytest.mark.on_every_server
def test_nothing_is_deleted_that_did_not_arrive(url: str, name: str) -> None:
    to = f"{name}-to"
    with attached(url, to, [drop("ctx.id == '3'")], "final"):
        call(url, "PUT", f"/{name}", {"mappings": {"properties": {"message": {"type": "text"}}}})
        esdedup_command(url, "attach", "-i", name, "--text-field", "message", status=0)
        assert written(url, name, "keep").status == 0
        moving = ("dedup", "-i", name, "--apply", "--action", "move", "--to", to, "--log", "l.zst")
        ran = esdedup_command(url, *moving, "--json", "--yes")
        (report,) = ran.json
        assert (ran.status, report["moved"], report["failed"]) == (1, 0, 1), ran.err
        assert all_documents(url, name).keys() == {"2", "3", "4"}
        assert all_documents(url, to) == {}


# The random model


@pytest.fixture(scope="module", params=["elasticsearch", "opensearch"])
def address(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="module")
def proxy(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enriching]:
    require_pipelines(address)
    with Enriching(address, tmp_path_factory.mktemp("proxy")) as started:
        yield started


@pytest.mark.parametrize(
    ("first", "sequences"), [(0, 2), pytest.param(100, 40, marks=pytest.mark.nightly)]
)
def test_whatever_was_acknowledged_is_somewhere(
    address: str, proxy: Enriching, folder: Path, first: int, sequences: int
) -> None:
    for seed in range(first, first + sequences):
        model = Model(seed, address, proxy.url, folder / str(seed))
        try:
            model.run(10)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {model.steps}") from error
        finally:
            model.close()


@pytest.mark.on_every_server
def test_an_answer_that_was_lost_beside_a_pipeline(url: str, name: str) -> None:
    """The request is repeated, and finds its own documents, also those that are elsewhere."""
    processors = [
        drop("ctx.kind == 'dropped'"),
        copy_field(url, "other", "_id", "ctx.kind == 'renamed'"),
        set_field("_index", f"{name}-other", "ctx.kind == 'moved'"),
    ]
    kinds = ["plain", "dropped", "renamed", "moved", "plain"]
    records = [
        {"id": f"{kind}-{row}", "message": words(row), "kind": kind, "other": f"x{row}"}
        for row, kind in enumerate(kinds * 3)
    ]
    write_lines(Path("kinds.jsonl"), records)
    product = "opensearch" if is_opensearch(url) else "elasticsearch"
    with attached(url, name, processors), Proxy(url, product) as lossy:
        for action in ("keep", "mark"):
            lossy.drop_after = 1
            ran = esdedup_command(
                lossy.url, "index", "kinds.jsonl", "-i", name, "--on-duplicate", action, "--json"
            )
            (report,) = ran.json
            counts = [report[count] for count in ("dropped", "renamed", "moved", "failed")]
            assert counts == [3, 3, 3, 0], ran.err
            assert report["read"] == 15
            stored = all_documents(url, name)
            assert len(stored) == 9
            assert len(all_documents(url, f"{name}-other")) == 3
            lost = [reason for reason in letters(name).values() if "deleted" in reason]
            assert lost == []


class Model:
    """An index with random pipelines, and what was acknowledged of it."""

    def __init__(self, seed: int, url: str, proxy: str, folder: Path) -> None:
        self.random, self.url, self.proxy, self.folder = random.Random(seed), url, proxy, folder
        folder.mkdir()
        self.name = f"esdedup-test-pipelines-{seed}"
        self.to, self.elsewhere = f"{self.name}-to", f"{self.name}-elsewhere"
        self.names = [self.name, self.to, self.elsewhere]
        self.ended, self.steps, self.next = ExitStack(), list[str](), 0
        self.acknowledged: set[str] = set()
        self.logs: list[Path] = []
        families = [[f"w{self.random.randrange(10**6)}" for _ in range(40)] for _ in range(3)]
        self.texts = [
            " ".join([*family[: 40 - cut], *("x" * cut)])
            for family in families
            for cut in (0, 0, 1)
        ]
        for name in self.names:
            delete_index(url, name)
            call(url, "PUT", f"/{name}", {"mappings": {"properties": {"text": {"type": "text"}}}})
            self.command("attach", "-i", name)

    def close(self) -> None:
        for name in self.names:
            delete_index(self.url, name)
        self.ended.close()

    def command(self, *arguments: str) -> Ran:
        ran = esdedup_command(self.url, *arguments)
        assert ran.status in (0, 1), ran.err
        assert "Traceback" not in ran.err
        return ran

    def run(self, steps: int) -> None:
        operations = [self.pipe, self.index, self.send, self.dedup, self.undo]
        self.pipe()
        self.index()
        for operation in self.random.choices(operations, [3, 4, 3, 4, 2], k=steps):
            operation()
            missing = self.acknowledged - self.stored().keys() - self.logged()
            assert not missing, missing

    def stored(self) -> dict[str, dict[str, Any]]:
        """Return all documents of all indices, by what no pipeline changes."""
        sources = (all_documents(self.url, name).values() for name in self.names)
        return {source["uid"]: source for page in sources for source in page}

    def logged(self) -> set[str]:
        return {entry.stored.document.source.get("uid", "") for entry in self.entries()}

    def entries(self) -> list[Entry]:
        """Return all documents of all logs."""
        pages = [page for log in self.logs if log.exists() for page in LogReader(log).pages()]
        return [entry for page in pages for entry in page]

    def pipe(self) -> None:
        """Give an index another pipeline, of some processors."""
        processors = {
            "dropped": drop("ctx.fate == 'dropped'"),
            "refused": fail("ctx.fate == 'refused'"),
            "changed": lowercase("text", "ctx.fate == 'changed'"),
            "renamed": copy_field(self.url, "other", "_id", "ctx.fate == 'renamed'"),
            "moved": set_field("_index", self.elsewhere, "ctx.fate == 'moved'"),
        }
        index, kind = self.random.choice(self.names[:2]), self.random.choice(["default", "final"])
        if kind == "final":
            # Servers refuse a final pipeline that moves documents.
            del processors["moved"]
        chosen = self.random.sample(sorted(processors), self.random.randint(1, len(processors)))
        self.steps.append(f"{kind} pipeline of {index}: {chosen}")
        name = self.ended.enter_context(pipeline(self.url, *(processors[fate] for fate in chosen)))
        use_pipeline(self.url, index, name, kind)

    def records(self) -> list[dict[str, Any]]:
        records = []
        for _ in range(self.random.randint(2, 8)):
            self.next += 1
            id, fate = f"d{self.next}", self.random.choice(FATES)
            text = self.random.choice(self.texts)
            records.append(
                {"id": id, "uid": id, "other": f"x{id}", "fate": fate, "text": text.upper()}
            )
        return records

    def index(self) -> None:
        records, action = self.records(), self.random.choice(POLICIES)
        self.steps.append(
            f"index {action}: {[(record['id'], record['fate']) for record in records]}"
        )
        file, dead = self.folder / "records.jsonl", self.folder / f"dead-{self.next}.jsonl"
        write_lines(file, records)
        options = ("-i", self.name, "--on-duplicate", action, "--dead-letter", str(dead), "--json")
        ran = self.command("index", str(file), *options)
        (report,) = ran.json
        lines = dead.read_text("utf-8").splitlines() if dead.exists() else []
        refused = {json.loads(json.loads(line)["record"])["id"] for line in lines}
        causes = ("failed", "dropped", "moved", "renamed")
        assert len(refused) == sum(report[cause] for cause in causes)
        assert report["read"] == len(records)
        parts = ("created", "updated", "unchanged", "skipped", *causes)
        assert report["read"] == sum(report[part] for part in parts)
        assert ran.status == bool(refused)
        here, stored = all_documents(self.url, self.name), self.stored()
        removed = {entry.id for entry in self.entries()}
        skipped = 0
        for record in records:
            if record["id"] in refused:
                continue
            if record["id"] in here:
                self.acknowledged.add(record["id"])
                original = here[record["id"]]["esdedup"].get("original")
                # Of an original that `dedup` deleted, copies keep the mark.
                assert original in {None, *here, *removed}, record
                continue
            skipped += 1
            assert any(similar(source["text"], record["text"]) for source in here.values()), record
        assert skipped == report["skipped"], stored.keys()

    def send(self) -> None:
        """Write through the proxy, which passes on what the server says of each document."""
        records = self.records()
        self.steps.append(f"proxy: {[(record['id'], record['fate']) for record in records]}")
        body = [line for record in records for line in ({"index": {"_id": record["id"]}}, record)]
        answer = call(self.proxy, "POST", f"/{self.name}/_bulk", body)
        results = [item["index"] for item in answer["items"]]
        by_other = {record["other"]: record["uid"] for record in records}
        self.acknowledged |= {
            by_other.get(result["_id"], result["_id"])
            for result in results
            if result.get("result") in ("created", "updated")
        }

    def dedup(self) -> None:
        action = self.random.choice(["delete", "mark", "move"])
        log = self.folder / f"log-{len(self.logs)}.zst"
        self.steps.append(f"dedup {action} to {log.name}")
        self.logs.append(log)
        call(self.url, "POST", f"/{self.name}/_refresh")
        before = all_documents(self.url, self.name)
        to = ("--to", self.to) if action == "move" else ()
        options = ("--apply", "--action", action, *to, "--log", str(log), "--json", "--yes")
        ran = self.command("dedup", "-i", self.name, *options)
        if ran.json:
            (report,) = ran.json
            gone = before.keys() - all_documents(self.url, self.name).keys()
            count = report.get({"delete": "deleted", "mark": "marked", "move": "moved"}[action], 0)
            assert len(gone) == (0 if action == "mark" else count), report

    def undo(self) -> None:
        logs = [log for log in self.logs if log.exists()]
        if not logs:
            return
        log = self.random.choice(logs)
        self.steps.append(f"undo {log.name}")
        before = all_documents(self.url, self.name)
        ran = self.command("undo", str(log), "-i", self.name, "--json", "--yes")
        if ran.json and LogReader(log).header.action != "mark":
            (report,) = ran.json
            here = all_documents(self.url, self.name)
            assert len(here.keys() - before.keys()) >= report["restored"], report


def similar(left: str, right: str) -> bool:
    sets = [set(shingles(words_of(normalise(text)), 3, 0)) for text in (left, right)]
    return normalise(left) == normalise(right) or jaccard(*sets) >= 0.8
