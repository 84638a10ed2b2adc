"""What a user with each role does: the commands and options that the role is for."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import esdedup
from esdedup.admin.roles import ROLES, role
from tests.helpers.commands import Ran, words, write_lines
from tests.security.users import Secured

DOCUMENTS = [{"id": f"d{n}", "text": words(n // 2)} for n in range(8)]
MORE = [*DOCUMENTS[:2], {"id": "e1", "text": f"{words(1)} more", "of": "a new field"}]
ITEMS = [{"text": words(1)}]
"""Items that documents hold."""

Prepare = Callable[[Secured, str], object]
"""Makes, as the administrator, an index as the commands need it."""


@dataclass(frozen=True)
class Scenario:
    """Commands of one role. INDEX and INDEX-to stand for the names of its indices.

    reads: the commands change nothing, so that others may use the same index.
    """

    role: str
    prepare: Prepare
    commands: Sequence[str]
    reads: bool = False

    def role_for(self, server: Secured, name: str) -> dict[str, Any]:
        """The role of this scenario, for an index of this name."""
        other = f"{name}-to" if "other" in ROLES[self.role] else None
        return role(self.role, server.product, name, other)

    def make(self, server: Secured, name: str) -> None:
        """Make the index, and a judgement if the role reads them."""
        self.prepare(server, name)
        if "judgements" in ROLES[self.role]:
            server.judge(name)

    def run(self, server: Secured, name: str, user: str) -> Ran:
        """Run the commands as a user. Returns the first that fails, or the last."""
        for command in self.commands:
            ran = server.run(*command.replace("INDEX", name).split(), user=user)
            if ran.status:
                break
        return ran


def nothing(server: Secured, name: str) -> None:
    """No index, the files that commands take, and none that a command before it wrote."""
    Path("log.zst").unlink(missing_ok=True)
    Path("out.jsonl").unlink(missing_ok=True)
    write_lines(Path("documents.jsonl"), DOCUMENTS)
    write_lines(Path("more.jsonl"), MORE)
    write_lines(Path("items.jsonl"), ITEMS)
    Path("new.json").write_text(json.dumps(esdedup.Scheme(seed=9).to_json()))


def plain(server: Secured, name: str) -> None:
    """An index of others, without our fields."""
    server.ask("PUT", f"/{name}", {"mappings": {"properties": {"text": {"type": "text"}}}})
    lines = [part for one in DOCUMENTS for part in ({"index": {"_id": one["id"]}}, one)]
    server.ask("POST", f"/{name}/_bulk?refresh=true", lines)


def attached(server: Secured, name: str) -> None:
    plain(server, name)
    server.run("attach", "-i", name, status=0)


def filled(server: Secured, name: str) -> None:
    """An index with tokens."""
    nothing(server, name)
    server.run("index", "documents.jsonl", "-i", name, status=0)


def with_passages(server: Secured, name: str) -> None:
    """An index with tokens of passages, by which items are found."""
    nothing(server, name)
    server.run("index", "documents.jsonl", "-i", name, "--passages", status=0)


def by_server(server: Secured, name: str) -> None:
    """An index that computes the tokens."""
    nothing(server, name)
    server.run("index", "documents.jsonl", "-i", name, "--server", status=0)


def attached_by_server(server: Secured, name: str) -> None:
    plain(server, name)
    server.run("attach", "-i", name, "--server", "--yes", status=0)


def with_passages_and_target(server: Secured, name: str) -> None:
    """As `with_passages`, and an index without our fields to move documents to."""
    with_passages(server, name)
    server.ask("PUT", f"/{name}-to")


def with_target(server: Secured, name: str) -> None:
    """An index with tokens, and one without our fields to move documents to."""
    filled(server, name)
    server.ask("PUT", f"/{name}-to")


def with_values(server: Secured, name: str) -> None:
    """An index with tokens, whose documents have values to collect, and one that lacks some."""
    nothing(server, name)
    documents = [{**one, "tag": f"t{n}", "author": "a"} for n, one in enumerate(DOCUMENTS)]
    del documents[0]["author"]
    write_lines(Path("documents.jsonl"), documents)
    server.run("index", "documents.jsonl", "-i", name, status=0)


def after(action: str, made: Prepare = filled) -> Prepare:
    """Return what removes duplicates from the index that `made` makes."""

    def prepare(server: Secured, name: str) -> None:
        made(server, name)
        command = f"dedup -i {name} --apply --yes --log log.zst --action {action}"
        server.run(*command.replace("INDEX", name).split(), status=0)

    return prepare


def reading(role: str, *commands: str) -> Scenario:
    return Scenario(role, filled, commands, reads=True)


TEXT = DOCUMENTS[1]["text"].replace(" ", "_")
ADD = "index more.jsonl -i INDEX --on-duplicate"
APPLY = "dedup -i INDEX --apply --yes --log log.zst --action"
MERGE = "--collect tag --fill author"
CLEAN = "clean more.jsonl -o out.jsonl --against INDEX"
DECONTAMINATE = "decontaminate -i INDEX --against items.jsonl"
CUT = f"{DECONTAMINATE} --apply --yes --log log.zst --action"

SCENARIOS = (
    Scenario("index", filled, [f"{ADD} {action}" for action in ("keep", "mark", "group")]),
    # The same documents again, as after a stop.
    Scenario(
        "index-new",
        nothing,
        ["index documents.jsonl -i INDEX", "index documents.jsonl -i INDEX --on-duplicate mark"],
    ),
    reading("similar", f"similar --text {TEXT} -i INDEX", "similar --id d1 -i INDEX"),
    reading("query", f"query --text {TEXT} -i INDEX"),
    reading("explain", "explain d0 d1 -i INDEX"),
    reading("weights", "weights -i INDEX -o words.tsv --least 1"),
    reading("pairs", "pairs -i INDEX"),
    reading("stats", "stats -i INDEX --hot 3"),
    reading("report", "report -i INDEX -o report.html"),
    reading("scheme", "scheme --sample 5 -i INDEX -o tuned.json"),
    Scenario("group", filled, ["group -i INDEX"]),
    reading("dedup", "dedup -i INDEX"),
    # The roles of `pairs` and `dedup` are for `clean` and `decontaminate`, too.
    Scenario("pairs", filled, [CLEAN]),
    Scenario("dedup", with_passages, [DECONTAMINATE]),
    Scenario("dedup-delete", with_passages, [f"{CUT} delete"]),
    Scenario("dedup-move", with_passages, [f"{CUT} move --to INDEX-to"]),
    Scenario("dedup-move", with_passages_and_target, [f"{CUT} move --to INDEX-to"]),
    Scenario("dedup-mark", filled, [f"{APPLY} mark"]),
    Scenario("dedup-delete", filled, [f"{APPLY} delete"]),
    Scenario("dedup-move", filled, [f"{APPLY} move --to INDEX-to"]),
    Scenario("dedup-move", with_target, [f"{APPLY} move --to INDEX-to"]),
    Scenario("dedup-merge", with_values, [f"{APPLY} delete {MERGE}"]),
    Scenario("dedup-mark", with_values, [f"{APPLY} mark {MERGE}"]),
    Scenario("undo", after(f"delete {MERGE}", with_values), ["undo log.zst -i INDEX --yes"]),
    Scenario("undo", after("delete"), ["undo log.zst -i INDEX --yes"]),
    Scenario("undo", after("mark"), ["undo log.zst -i INDEX --yes"]),
    Scenario("undo-move", after("move --to INDEX-to"), ["undo log.zst -i INDEX --yes"]),
    Scenario("stop", filled, ["stop -i INDEX --over 1 --yes", "stop -i INDEX --clear"]),
    Scenario("attach", plain, ["attach -i INDEX"]),
    Scenario("template", filled, ["template -i INDEX", "template -i INDEX --install"]),
    Scenario("backfill", attached, ["backfill -i INDEX", "backfill -i INDEX --stale"]),
    Scenario("switch", filled, ["switch -i INDEX --scheme new.json"]),
    reading("check", "check -i INDEX"),
    Scenario("attach-server", plain, ["attach -i INDEX --server --yes"]),
    Scenario("backfill", attached_by_server, ["backfill -i INDEX"]),
    Scenario("index-new", nothing, ["index documents.jsonl -i INDEX --server"]),
    Scenario("index", by_server, [f"{ADD} {action}" for action in ("keep", "mark", "group")]),
    Scenario("template", nothing, ["template -i INDEX --server --text-field text --install"]),
    Scenario("similar", by_server, [f"similar --text {TEXT} -i INDEX", "similar --id d1 -i INDEX"]),
    Scenario("query", by_server, [f"query --text {TEXT} -i INDEX"]),
    Scenario("explain-server", by_server, ["explain d0 d1 -i INDEX"]),
    Scenario("pairs", by_server, ["pairs -i INDEX"]),
    Scenario("group", by_server, ["group -i INDEX"]),
    Scenario("check", by_server, ["check -i INDEX"]),
)
