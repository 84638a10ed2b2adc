"""The reference of JSON output names the fields that commands print, and no others."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esdedup import MinHash, Passages, Scheme
from tests.conftest import delete_index
from tests.helpers.commands import call, esdedup_command, fill, run_command
from tools.docs import ROOT

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text("utf-8")
ARTICLES = str(ROOT / "examples" / "articles.jsonl")
SAME_AS = {"right": "left"}
"""Objects whose fields the page gives under another name."""
MERGED = {
    "merged.documents",
    "merged.values",
    "merged.untaken",
    *(f"merged.samples[].{name}" for name in ("file", "line", "id", "values")),
}
CONFLICTS = [f"conflicts.{name}" for name in ("field", "groups", "documents", "samples")]
NOT_OF_ITEMS = {"samples[].similarity", "unscoped", "blank", *MERGED, *CONFLICTS}
NOT_OF_SPANS = NOT_OF_ITEMS | {"samples[].original_text"}
EXTENDED = {
    "decontaminate": ("clean", NOT_OF_ITEMS),
    "clean --unit span": ("clean", NOT_OF_SPANS),
}
"""Sections that have the fields of another one, too, except for these."""

SEVERAL = {
    "similar": {"matches[].index", "unattached"},
    "pairs": {"left_index", "right_index"},
    "group": {"unattached"},
    "dedup": {"keep_index", "duplicates[].index"},
    "report": {"unattached"},
    "stats": {"unattached"},
}
"""Fields that only a name of several indices has, or of one of them without our fields."""

LOCAL = {
    "index": [
        ["index", ARTICLES],
        [
            *["index", "scoped.jsonl", "--db", "scoped.db"],
            *["--on-duplicate", "mark", "--within", "source"],
        ],
    ],
    "similar": [
        ["similar", "--id", "en-08", "--source"],
        ["similar", "--id", "en-06", "--sketch", "simhash"],
        ["index", ARTICLES, "--db", "passages.db", "--scheme", "passages.json"],
        ["similar", "--db", "passages.db", "--id", "en-08", "--sketch", "passages"],
    ],
    "pairs": [
        ["pairs"],
        ["pairs", "--sketch", "simhash"],
        ["pairs", "--db", "passages.db", "--sketch", "passages"],
        ["pairs", "scoped.jsonl", "dump.jsonl", "--id-field", "source"],
        ["pairs", ARTICLES, "--against", "items.jsonl", "--source", "title"],
    ],
    "pairs --output": [["pairs", "--output", "pairs.parquet"]],
    "group": [
        ["group"],
        ["group", "--within", "lang"],
        ["group", "--conflict", "title"],
        ["index", "images.jsonl", "--db", "images.db", "--bits", "phash:64"],
        ["group", "--db", "images.db"],
    ],
    "dedup": [
        ["dedup"],
        ["dedup", "--sketch", "simhash"],
        ["dedup", "--collect", "date"],
        ["dedup", "--conflict", "title"],
    ],
    "dedup --apply": [
        ["dedup", "--apply", "--yes", "--action", "delete", "--log", "deleted", "--fill", "date"],
        ["dedup", "--apply", "--yes", "--action", "delete", "--conflict", "title"],
        ["undo", "deleted", "--yes"],
        ["dedup", "--apply", "--yes", "--action", "mark", "--log", "marked"],
        ["dedup", "--apply", "--yes", "--action", "move", "--to", "other", "--log", "moved"],
    ],
    "undo": [
        ["index", ARTICLES],
        ["undo", "moved", "--yes"],
        ["index", ARTICLES, "--db", "moved.db"],
        [
            *["dedup", "--db", "moved.db", "--apply", "--yes", "--action", "move"],
            *["--to", "gone", "--log", "gone"],
        ],
        ["drop", "--db", "moved.db", "--index", "gone", "--yes"],
        ["undo", "gone", "--db", "moved.db", "--yes"],
    ],
    "clean": [
        ["clean", ARTICLES, "-o", "clean"],
        ["clean", "scoped.jsonl", "-o", "scoped", "--within", "source"],
        ["clean", ARTICLES, "-o", "merged", "--collect", "date"],
        ["clean", ARTICLES, "--conflict", "title"],
        ["clean", "images.jsonl", "-o", "images", "--bits", "phash:64", "--distance", "4"],
    ],
    "decontaminate": [
        ["decontaminate", ARTICLES, "--against", "items.jsonl", "-o", "masked", "--mask"],
        ["decontaminate", "--db", "passages.db", "--against", "items.jsonl"],
    ],
    "clean --unit": [["clean", ARTICLES, "--unit", "paragraph"]],
    "clean --unit span": [["clean", "spans.jsonl", "--unit", "span", "--min-words", "3"]],
    "explain": [["explain", "en-08", "en-10"]],
    "weights": [["weights", "-o", "weights.tsv"]],
    "stats": [["stats", "--hot", "2"]],
    "stop": [["stop", ".U0DeO"], ["stop", "--clear"]],
    "report": [
        ["report"],
        ["report", "--conflict", "lang"],
        ["report", "--within", "lang"],
        ["report", "--db", "images.db"],
    ],
    "scheme --sample": [["scheme", "--sample", "20"]],
    "doctor": [["doctor", "--json"]],
}
CLUSTER = {"attach": [["attach"]], "backfill": [["backfill"]], "check": [["check"]]}


def documented(section: str, page: str = PAGE) -> set[str]:
    """Return the fields in the table of a section."""
    (body,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    cells = re.findall(r"^\| (`.*?) \|", body, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def fields(value: Any, known: set[str], path: str = "") -> Iterator[str]:
    """Return the paths of the fields in a value, down to those that the page describes whole.

    A path that ends with "*" stands for the fields below an empty list or a null.
    """
    deeper = any(name.startswith((f"{path}.", f"{path}[]")) for name in known)
    if path and not deeper:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from fields(inner, known, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from fields(inner, known, f"{path}[]")
    else:
        yield f"{path}*"


def check(section: str, printed: list[dict[str, Any]]) -> None:
    known = documented(section) - SEVERAL.get(section, set())
    if section in EXTENDED:
        other, left_out = EXTENDED[section]
        known |= documented(other) - left_out
    renamed = [{SAME_AS.get(key, key): each[key] for key in each} for each in printed]
    seen = {path for each in (*printed, *renamed) for path in fields(each, known)}
    empty = tuple(path[:-1] for path in seen if path.endswith("*"))
    assert {path for path in seen if not path.endswith("*")} <= known | set(SAME_AS)
    whole = {
        name for name in known if any(other.startswith((f"{name}.", f"{name}[")) for other in known)
    }
    assert not [name for name in known - seen - whole if not name.startswith(empty or ("*",))]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """The output of the commands on a local file, run in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("json"))
        scheme = Scheme([MinHash(), Passages()]).to_json()
        Path("passages.json").write_text(json.dumps(scheme), "utf-8")
        item = json.loads(Path(ARTICLES).read_text("utf-8").splitlines()[0])["text"]
        # Pairs show the file of an id that both have.
        Path("items.jsonl").write_text(json.dumps({"id": "en-01", "text": item}), "utf-8")
        scoped = [{"text": item, "source": "a"}, {"text": item}]
        for name in ("scoped.jsonl", "dump.jsonl", "spans.jsonl"):
            Path(name).write_text("\n".join(map(json.dumps, scoped)), "utf-8")
        images = [{"id": f"{number}", "phash": "0" * 16} for number in range(2)]
        Path("images.jsonl").write_text("\n".join(map(json.dumps, images)), "utf-8")
        answers = {}
        for section, commands in LOCAL.items():
            done = [run_command(*command) for command in commands]
            name = section.split()[0]
            answers[section] = [
                line
                for command, ran in zip(commands, done, strict=True)
                if command[0] == name
                for line in ran.json
            ]
        yield answers


@pytest.mark.parametrize("section", LOCAL)
def test_fields_of_commands(section: str, printed: dict[str, list[dict[str, Any]]]) -> None:
    check(section, printed[section])


def test_fields_of_commands_on_a_cluster(elasticsearch_url: str, tmp_path: Path) -> None:
    index = "docs-json"
    delete_index(elasticsearch_url, index)
    call(elasticsearch_url, "PUT", f"/{index}", {"settings": {"number_of_replicas": 0}})
    fill(elasticsearch_url, index, {"1": {"text": "one two three four"}})
    try:
        for section, commands in CLUSTER.items():
            for command in commands:
                ran = esdedup_command(elasticsearch_url, *command, "--index", index, "--json")
                check(section, ran.json)
    finally:
        delete_index(elasticsearch_url, index)


def test_fields_of_a_name_of_several_indices(elasticsearch_url: str) -> None:
    url, alias = elasticsearch_url, "docs-json-several"
    indices = [f"{alias}-{number}" for number in (1, 2, 3)]
    try:
        for index in indices:
            delete_index(url, index)
            call(url, "PUT", f"/{index}")
            fill(url, index, {"1": {"text": "one two three four"}})
        for index in indices[:2]:
            call(url, "PUT", f"/{index}/_alias/{alias}")
        for command in ("attach", "backfill"):
            assert esdedup_command(url, command, "--index", alias).status == 0
        call(url, "PUT", f"/{indices[2]}/_alias/{alias}")
        ids = {"similar": ["--id", f"{indices[0]}/1"]}
        for section, names in SEVERAL.items():
            options = ids.get(section, [])
            ran = esdedup_command(url, section, *options, "--index", alias, "--json")
            paths = {path for line in ran.json for path in fields(line, documented(section))}
            assert names <= paths
    finally:
        for index in indices:
            delete_index(url, index)


def test_a_scheme_has_the_fields_that_the_reference_gives() -> None:
    page = (ROOT / "docs" / "reference" / "mapping-and-tokens.md").read_text("utf-8")
    known = documented("Scheme", page)
    Path("weights.tsv").write_text("the\t0\n")
    schemes = [
        "--signature 8 --bits phash:64",
        "--bits phash:64:hex:all",
        "--vectors embedding:64",
        "--passages --fold marks --punctuation",
        "--weights weights.tsv",
        "--server",
    ]
    made = [run_command("scheme", *each.split()).json[0] for each in schemes]
    assert {name for scheme in made for name in fields(scheme, known)} == known
