"""Random documents through every command that changes them: their own bytes stay the same."""

import json
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import admin
from esdedup.models import FIELD
from esdedup.stores.json_text import rewritten_number
from tests.conftest import delete_indices
from tests.helpers.commands import call, run_command, words
from tests.helpers.places import Place, clusters, local

ODD = [
    '{"text":"%s","price":100.10,"ref":7.50,"acct":{"v":1e3},"k":1.2345678901234567890123456789}',
    '{ "text" : "%s", "n":[1.0, 1E400, -0.0,0.10e-7] , "long":123456789012345678901234567890 }',
    r'{"text":"%s","\u0065sc":"\/ \u00e9 \ud800","when":["2026-01-02T03:04:05.100Z","10","010"]}',
    '{"text":"%s","esdedupe":1.50,"obj":{"esdedup":{"group":2.50}},"null":null,"s":"\\"esdedup\\":"}',
]
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,2})?", fullmatch=True),
)
KEYS = st.text(max_size=8).filter(lambda key: key.strip() and not key.startswith((FIELD, "text")))
STRINGS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["2026-01-02", "2026-01-02T03:04:05.100+09:00", "1.50", "1e3", "esdedup", ""]),
)
BLANKS = st.sampled_from(["", "", "", " ", "  ", "\t"])


@st.composite
def written(draw: st.DrawFn, depth: int = 2) -> str:
    """A value as JSON, with blanks and escapes as any program may write them."""
    kind = draw(st.sampled_from(["number", "number", "text", "word", "array", "object"]))
    if depth == 0 and kind in ("array", "object"):
        kind = "number"
    if kind == "number":
        return draw(NUMBERS)
    if kind == "text":
        return json.dumps(draw(STRINGS), ensure_ascii=draw(st.booleans()))
    if kind == "word":
        return draw(st.sampled_from(["true", "false", "null"]))
    blank = draw(BLANKS)
    values = draw(st.lists(written(depth - 1), max_size=3))
    if kind == "array":
        return f"[{blank}{f'{blank},'.join(values)}]"
    return members_of(draw, values, blank)


def members_of(draw: st.DrawFn, values: list[str], blank: str) -> str:
    names = draw(st.lists(KEYS, min_size=len(values), max_size=len(values), unique=True))
    ascii = draw(st.booleans())
    parts = [
        f"{json.dumps(name, ensure_ascii=ascii)}{blank}:{value}{blank}"
        for name, value in zip(names, values, strict=True)
    ]
    return f"{{{blank}{','.join(parts)}}}"


@st.composite
def documents(draw: st.DrawFn) -> dict[str, str]:
    """Documents by id, each text twice, with other fields of any form."""
    found = {}
    for number in range(draw(st.integers(2, 12))):
        form = draw(written(2).map(lambda value: f'"x":{value}'))
        found[f"d{number}"] = f'{{"text":"{words(number // 2)}",{form},"id":"d{number}"}}'
    for number, odd in enumerate(ODD * 2):
        found[f"o{number}"] = odd % words(100 + number % len(ODD))
    return found


class Kept:
    """An index of these documents, and what is stored of them."""

    def __init__(self, place: Place, raws: dict[str, str]) -> None:
        self.place, self.raws = place, raws

    def read(self, index: str, id: str) -> str | None:
        if isinstance(self.place.target, Path):
            store = Place(self.place.target, index).open()
            try:
                held = store.hold([id]) if store.meta() is not None else []
            finally:
                store.close()
            return held[0].document.raw if held else None
        try:
            with urllib.request.urlopen(f"{self.place.target}/{index}/_source/{id}") as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError:
            return None
        return body.decode("utf-8", "surrogatepass")

    def check(self, *gone_to: str, added: tuple[str, ...] = ()) -> None:
        """Each document is there, in this index or those, with its own bytes before ours."""
        for id, raw in self.raws.items():
            stored = self.read(self.place.index, id)
            for index in gone_to:
                stored = stored or self.read(index, id)
            assert stored is not None, id
            before, brace, after = raw.rpartition("}")
            assert brace == "}"
            assert after == ""
            assert stored.startswith(before), (raw, stored)
            rest = stored[len(before) :]
            ours = json.loads("{" + rest.lstrip(","))
            assert all(name.startswith(FIELD) or name in added for name in ours), (raw, stored)


@contextmanager
def fresh(place: Place) -> Iterator[tuple[Place, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        index = f"{place.index}-{uuid.uuid4().hex[:6]}"
        if isinstance(place.target, Path):
            yield Place(Path(folder) / "a.db", index), Path(folder)
            return
        try:
            yield Place(place.target, index), Path(folder)
        finally:
            delete_indices(str(place.target), index)


def fill(place: Place, raws: dict[str, str]) -> None:
    """Attach an index, and write documents into it as another client does."""
    properties = {"text": {"type": "text"}, "esc": {"type": "keyword"}}
    for name in (place.index, f"{place.index}-moved"):
        mapping = {"dynamic": False, "properties": properties}
        call(str(place.target), "PUT", f"/{name}", {"mappings": mapping})
        admin.attach(str(place.target), name, text_field="text")
    lines = "".join(f'{{"index":{{"_id":"{id}"}}}}\n{raw}\n' for id, raw in raws.items()).encode(
        "utf-8", "surrogatepass"
    )
    request = urllib.request.Request(
        f"{place.target}/{place.index}/_bulk?refresh=true",
        lines,
        {"content-type": "application/x-ndjson"},
    )
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["errors"] is False


def run_all(place: Place, folder: Path, kept: Kept) -> None:
    """Group, remove in each way, and undo, with a look at the bytes after each step."""
    with esdedup.open(place.target, place.index) as index:
        index.group()
        kept.check()
        moved = f"{place.index}-moved"
        for action in ("mark", "delete", "move"):
            log = folder / f"{action}.jsonl"
            if action == "mark":
                index.group(keep="last")
            to = moved if action == "move" else None
            done = index.dedup(action, to=to, log=log).apply().report
            assert done is not None
            assert done.done > 0, (action, done)
            assert not done.failures, (action, done)
            if action != "delete":
                kept.check(moved)
            undone = index.undo(log)
            assert undone.restored == done.done
            assert not undone.failures
            kept.check()
        index.update([{"id": id, "added": {"by": 1.5}} for id in kept.raws])
        kept.check(added=("added", "id"))


SETTINGS = settings(
    max_examples=max(1, settings.default.max_examples // 15) if settings.default else 1,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@clusters
@SETTINGS
@given(documents())
def test_in_a_cluster(place: Place, raws: dict[str, str]) -> None:
    with fresh(place) as (own, folder):
        fill(own, raws)
        kept = Kept(own, raws)
        kept.check()
        report = admin.backfill(str(own.target), own.index)
        assert (report.written, report.failed) == (len(raws), 0)
        kept.check()
        run_all(own, folder, kept)


@local
@SETTINGS
@given(documents())
@example({id: f'{{"text":"{words(0)}","x":"\\ud800\\ude0c","id":"{id}"}}' for id in ("d0", "d1")})
def test_in_a_local_file(place: Place, raws: dict[str, str]) -> None:
    with fresh(place) as (own, folder):
        # Records with these are rejected. Only the half of a pair ends its string.
        known = {id: raw.replace("1E400", "1E40") for id, raw in raws.items()}
        lines = [with_id(id, raw.replace('\\ud800"', '\\u00ff"')) for id, raw in known.items()]
        (folder / "in.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        run_command("index", str(folder / "in.jsonl"), *own.options, status=0)
        kept = Kept(own, {json.loads(line)["id"]: line for line in lines})
        kept.check()
        run_all(own, folder, kept)


def with_id(id: str, raw: str) -> str:
    if '"id":' in raw:
        return raw
    return f'{raw[: raw.rindex("}")]},"id":"{id}"}}'


@pytest.mark.parametrize("place", ["elasticsearch"], indirect=True)
def test_switch(place: Place) -> None:
    raws = {f"d{at}": odd % words(at) for at, odd in enumerate(ODD)}
    with fresh(place) as (own, _):
        fill(own, raws)
        admin.backfill(str(own.target), own.index)
        report = admin.switch(str(own.target), own.index, esdedup.Scheme(seed=3))
        assert report.written == len(raws)
        Kept(own, raws).check()


@clusters
def test_a_document_with_comments_and_line_feeds(place: Place) -> None:
    raw = '{\n "text": "one two three four five six", // a comment "}"\n "n": [1.50,\n 2] }'
    place.call(
        "PUT", "", {"mappings": {"dynamic": False, "properties": {"text": {"type": "text"}}}}
    )
    request = urllib.request.Request(
        f"{place.target}/{place.index}/_doc/a?refresh=true",
        raw.encode(),
        {"content-type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    admin.attach(str(place.target), place.index, text_field="text")
    assert admin.backfill(str(place.target), place.index).written == 1
    stored = place.call("GET", "/_source/a")
    assert stored["n"] == [1.5, 2]
    assert FIELD in stored
    with urllib.request.urlopen(f"{place.target}/{place.index}/_source/a") as answer:
        assert b'"n": [1.50,  2]' in answer.read()


@clusters
def test_where_a_pipeline_would_run_again(place: Place) -> None:
    """A final pipeline runs for each document that is written whole: its index is updated."""
    url = str(place.target)
    pipeline = f"{place.index}-p"
    call(url, "PUT", f"/_ingest/pipeline/{pipeline}", {"processors": []})
    fields = {"dynamic": False, "properties": {"text": {"type": "text"}}}
    place.call("PUT", "", {"mappings": fields})
    place.call("PUT", "/_doc/plain?refresh=true", {"text": words(1), "n": 1.5})
    request = urllib.request.Request(
        f"{url}/{place.index}/_doc/odd?refresh=true",
        ODD[0].replace("%s", words(2)).encode(),
        {"content-type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request).close()
    # Documents that have passed a pipeline have been rewritten by it.
    place.call("PUT", "/_settings", {"index.final_pipeline": pipeline})
    admin.attach(url, place.index, text_field="text")
    report = admin.backfill(url, place.index)
    assert (report.written, report.failed) == (1, 1), report
    (failure,) = report.failures
    assert failure.id == f"{place.index}/odd"
    assert "the number 100.10" in failure.reason
    assert pipeline in failure.reason
    # Without it, the other one is written too.
    place.call("PUT", "/_settings", {"index.final_pipeline": "_none"})
    assert admin.backfill(url, place.index).written == 1
    call(url, "DELETE", f"/_ingest/pipeline/{pipeline}")


def test_numbers_that_a_server_would_rewrite() -> None:
    kept: list[Any] = ["1", "-5", "0.5", "100.1", "1234567.25", "12345678901234567890123", "-0.0"]
    assert [rewritten_number(f'{{"a":[{each}]}}') for each in kept] == [None] * len(kept)
    changed = ["100.10", "1e3", "1E400", "7.50", "1.2345678901234567890", "12345678.5", "0.0001"]
    assert [rewritten_number(f'{{"a":[{each}]}}') for each in changed] == changed
