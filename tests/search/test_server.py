"""Tokens that the index computes, whoever writes its documents."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup import Bits, Limits, MinHash, Scheme, Server, UsageError
from esdedup.analysis import sampling
from esdedup.groups.marks import mark_groups
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.jaccard import jaccard
from tests.helpers.commands import all_documents, call, esdedup_command, fill, run_command, words
from tests.helpers.indices import open_index
from tests.helpers.places import Place, clusters

SCHEME = Scheme([Server()])
ON_EVERY_SERVER = pytest.mark.on_every_server
SPACES = {"en": " ", "zh": ""}


def word(draw: random.Random, language: str) -> str:
    return f"w{draw.randrange(5_000)}" if language == "en" else chr(0x4E00 + draw.randrange(3_000))


def edited(draw: random.Random, language: str, size: int, edits: int) -> tuple[str, str]:
    """Return a text and the same one with some words replaced."""
    own = [word(draw, language) for _ in range(size)]
    other = [*own]
    for at in draw.sample(range(size), edits):
        other[at] = word(draw, language)
    space = SPACES[language]
    return space.join(own), space.join(other)


def exact(left: str, right: str) -> float:
    sets = shingle_sets([left, right], SCHEME)
    return float(jaccard(sets, np.array([0]), np.array([1]))[0])


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with open_index(place, scheme=SCHEME) as opened:
        yield opened


def texts_of_pairs() -> dict[str, tuple[str, str]]:
    """Return pairs of a text and an edited one, short and long, in English and Chinese."""
    draw, found = random.Random(3), {}
    for at in range(600):
        language, size = draw.choice(["en", "zh"]), draw.choice([4, 6, 10, 25, 60, 300])
        edits = draw.randrange(1 + size // 6)
        found[f"p{at:03}"] = edited(draw, language, size, edits)
    return found


@clusters
@ON_EVERY_SERVER
def test_searches_find_what_the_recall_promises(place: Place, index: esdedup.Index) -> None:
    pairs = texts_of_pairs()
    # Any writer: these know nothing of tokens.
    fill(str(place.target), place.index, {id: {"text": own} for id, (own, _) in pairs.items()})
    for threshold in (0.3, 0.5, 0.8):
        due = {id for id, both in pairs.items() if exact(*both) >= threshold}
        queries = [index.query(pairs[id][1]) for id in sorted(due)]
        results = index.similar_many(queries, Limits(threshold=threshold, recall=0.99))
        found = 0
        for id, result in zip(sorted(due), results, strict=True):
            for match in result:
                assert match.similarity == exact(pairs[id][1], pairs[match.id][0]) >= threshold
            found += id in [match.id for match in result]
            assert result.recall is not None
            assert result.recall > 0.95
        # All but few are more similar than the threshold.
        assert found >= 0.995 * len(due)
        assert len(due) > 100
    # Without a threshold, by any equal value.
    assert [match.id for match in index.similar(pairs["p000"][0], threshold=None, k=1)] == ["p000"]


@clusters
@ON_EVERY_SERVER
def test_an_index_in_use_gets_tokens(place: Place) -> None:
    url, name = str(place.target), place.index
    settings = {"number_of_replicas": 0, "number_of_shards": 2}
    body = {"type": "text", "fields": {"raw": {"type": "keyword"}}}
    mappings = {"properties": {"doc": {"properties": {"body": body}}}}
    call(url, "PUT", f"/{name}", {"settings": settings, "mappings": mappings})
    texts = {f"d{at}": words(at // 2, 30) for at in range(20)}
    fill(url, name, {id: {"doc": {"body": text}} for id, text in texts.items()})
    fill(url, name, {"without": {"title": "none"}})
    attach = ["attach", "--index", name, "--text-field", "doc.body", "--server"]
    shown = esdedup_command(url, *attach, "--dry-run")
    closing = (f"POST {name}/_close", f"PUT {name}/_settings?reopen=true")
    assert (shown.status, any(request in shown.out for request in closing)) == (0, True)
    refused = esdedup_command(url, *attach, status=2)
    assert "pass --yes" in refused.err
    assert esdedup_command(url, "check", "--index", name).json[0]["attached"] is False
    esdedup_command(url, *attach, "--yes", status=0)
    again = esdedup_command(url, *attach, status=0)
    assert "attached already" in again.out
    checked = esdedup_command(url, "check", "--index", name)
    assert (checked.status, checked.json[0]["without_tokens"]["count"]) == (1, 20)
    filled = esdedup_command(url, "backfill", "--index", name, "--workers", "2").json[0]
    assert (filled["written"], filled["failed"]) == (20, 0)
    checked = esdedup_command(url, "check", "--index", name)
    assert (checked.status, checked.json[0]["stale"]["count"]) == (0, 0)
    assert "none can be stale" in checked.err
    sources = all_documents(url, name)
    assert {id: sources[id] for id in texts} == {
        id: {"doc": {"body": text}} for id, text in texts.items()
    }
    mapping = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    assert mapping["properties"]["doc"]["properties"]["body"]["fields"]["raw"] == {
        "type": "keyword"
    }
    call(url, "POST", f"/{name}/_update/d0?refresh=true", {"doc": {"doc": {"body": texts["d7"]}}})
    with esdedup.open(url, name) as index:
        assert sorted(match.id for match in index.similar(texts["d7"])) == ["d0", "d6", "d7"]
        assert [match.id for match in index.similar(texts["d1"])] == ["d1"]
        assert index.update([{"id": "d2", "doc": {"body": texts["d1"]}}]) == 1
        assert sorted(match.id for match in index.similar(texts["d1"])) == ["d1", "d2"]
    other = esdedup_command(url, "switch", "--index", name, "--text-field", "title", status=2)
    assert "can't change between" in other.err


@clusters
@ON_EVERY_SERVER
def test_several_fields_and_lists_are_one_text(place: Place) -> None:
    url, name, draw = str(place.target), place.index, random.Random(9)
    plain: dict[str, Any] = {"type": "text"}
    properties = {"title": {**plain, "copy_to": ["all"]}, "all": plain, "body": plain}
    mappings = {"properties": {**properties, "meta": {"properties": {"tags": {"type": "keyword"}}}}}
    call(url, "PUT", f"/{name}", {"mappings": mappings})
    fields = [f"--text-field={each}" for each in ("title", "meta.tags", "body")]
    esdedup_command(url, "attach", "--index", name, *fields, "--server", "--yes", status=0)
    texts = {}
    for at in range(60):
        own, other = edited(draw, "en", draw.choice([20, 60]), draw.randrange(3))
        parts = own.split(" ")
        tags = [" ".join(parts[4:8]), " ".join(parts[8:12])]
        source = {
            "title": " ".join(parts[:4]),
            "meta": {"tags": tags},
            "body": " ".join(parts[12:]),
        }
        fill(url, name, {f"d{at}": source})
        texts[f"d{at}"] = other
    mapping = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["properties"]
    assert mapping["title"]["copy_to"] == ["all", "esdedup_server"]
    with esdedup.open(url, name) as index:
        found = [[match.id for match in index.similar(text)] for text in texts.values()]
        assert found == [[id] for id in texts]
        similarity = index.similar(texts["d0"]).matches[0].similarity
        assert similarity == exact(texts["d0"], index.query(id="d0").text)
        assert index.get("d0").source.keys() == {"title", "meta", "body"}
    esdedup_command(url, "check", "--index", name, status=0)


@clusters
@ON_EVERY_SERVER
def test_pairs_groups_and_dedup_read_the_texts(place: Place, index: esdedup.Index) -> None:
    url, name = str(place.target), place.index
    pairs = list(texts_of_pairs().values())[:120]
    texts = {f"d{at}": text for at, text in enumerate(itertools.chain(*pairs))}
    texts |= {"c1": "?!", "c2": "!?", "c3": texts["d0"], "c4": "", "c5": ""}
    report = index.add({"id": id, "text": text} for id, text in texts.items())
    assert (report.created, report.failed) == (len(texts), 0)
    assert index.add([{"id": "c3", "text": texts["c3"]}]).unchanged == 1
    assert all_documents(url, name)["c3"] == {"id": "c3", "text": texts["c3"]}
    with open_index(":memory:", texts) as local:
        for threshold in (0.5, 0.8):
            found = index.pairs(threshold=threshold)
            assert [*found] == [*local.pairs(threshold=threshold)]
            assert str(found.basis).startswith("texts")
        options: list[dict[str, Any]] = [{"threshold": 0.5}, {"exact": True}, {"keep": "longest"}]
        for each in options:
            groups, same = index.groups(**each), local.groups(**each)
            assert [*groups.table_rows()] == [*same.table_rows()]
    written = index.group(threshold=0.5).marks
    assert written.written > 100
    again = index.group(threshold=0.5, collapse_ready=True).marks
    assert (again.written, again.stale) == (again.read - written.written, 0)
    assert index.get("c3").source["esdedup"]["group"] == index.get("d0").source["esdedup"]["group"]
    # A text that changes after it was compared is left as it is.
    groups = index.groups(threshold=0.3)
    index.update([{"id": "d1", "text": words(1)}])
    assert mark_groups(index.store, index.meta, groups).stale == 1
    dedup = index.dedup("delete", threshold=0.8, apply=True)
    assert dedup.report is not None
    assert dedup.report.done == dedup.groups.duplicates > 20
    assert dedup.report.failures == []
    assert dedup.log is not None
    before = len(all_documents(url, name))
    index.undo(dedup.log)
    assert len(all_documents(url, name)) == before + dedup.report.done


@clusters
def test_arriving_duplicates_are_marked(index: esdedup.Index) -> None:
    draw = random.Random(5)
    texts = [edited(draw, "en", 50, 1) for _ in range(40)]
    index.add({"id": f"a{at}", "text": own} for at, (own, _) in enumerate(texts))
    later = [{"id": f"b{at}", "text": other} for at, (_, other) in enumerate(texts)]
    later += [{"id": f"c{at}", "text": own} for at, (own, _) in enumerate(texts)]
    report = index.add(later, on_duplicate="group")
    assert (report.duplicates, report.exact) == (80, 40)
    for at in range(40):
        marks = [index.get(f"{letter}{at}").source["esdedup"] for letter in "bc"]
        assert [each["original"] for each in marks] == [f"a{at}", f"a{at}"]
    # Again: nothing changes.
    assert index.add(later, on_duplicate="group").unchanged == 80
    assert index.add([later[0] | {"id": "new"}], on_duplicate="skip").skipped == 1


@clusters
def test_pairs_are_drawn_to_judge(index: esdedup.Index) -> None:
    pairs = list(texts_of_pairs().values())
    index.add({"id": f"d{at}", "text": text} for at, text in enumerate(itertools.chain(*pairs)))
    # Of half the index, whose neighbours are searched: the estimate is off by a twentieth or so.
    drawn = sampling.draw_sample(index.store, index.meta, 600)
    assert (drawn.sampled, drawn.truncated) == (600, 0)
    # Equal texts need no judgement.
    due = sum(1.0 > exact(*both) >= 0.5 for both in pairs)
    assert drawn.weight[drawn.similarity >= 0.5].sum() == pytest.approx(due, rel=0.25)


@clusters
def test_explain_reads_the_tokens_of_the_server(place: Place, index: esdedup.Index) -> None:
    draw = random.Random(6)
    own, other = edited(draw, "en", 80, 8)
    index.add([{"id": "1", "text": own}, {"id": "2", "text": other}])
    found = index.explain("1", "2")
    (sketch,) = found.sketches
    (match,) = index.similar(id="1", threshold=0.3)
    assert (sketch.tokens, len(sketch.met), sketch.probed) == (64, match.matched, match.matched)
    assert sketch.chance is not None
    assert sketch.chance > 0.999
    assert found.warnings == []
    with pytest.raises(UsageError, match="no bucket of server is ever hot"):
        index.hot_buckets()
    shown = run_command("query", "--text", own, *place.options).json[0]
    hits = place.call("POST", "/_search", shown)["hits"]["hits"]
    assert [(hit["_id"], hit["_score"]) for hit in hits] == [("1", 64.0), ("2", match.matched)]


@clusters
@ON_EVERY_SERVER
def test_next_indices_get_tokens_by_the_template(place: Place) -> None:
    url, name = str(place.target), place.index
    described = ["--index", name, "--server", "--text-field", "message"]
    esdedup_command(url, "template", *described, "--install", status=0)
    template: dict[str, Any] = {"index_patterns": [f"{name}-*"], "composed_of": [f"esdedup-{name}"]}
    template["template"] = {"settings": {"number_of_replicas": 0}, "aliases": {name: {}}}
    call(url, "PUT", f"/_index_template/{name}", {**template, "priority": 500})
    texts = {f"d{at}": words(at // 3, 30) for at in range(30)}
    for day in range(3):
        some = {
            id: {"message": text} for at, (id, text) in enumerate(texts.items()) if at % 3 == day
        }
        fill(url, f"{name}-{day}", some)
    with esdedup.open(url, name) as index:
        for id in ("d0", "d4", "d29"):
            found = sorted(match.id for match in index.similar(texts[id]))
            assert found == [each for each in texts if texts[each] == texts[id]]
        assert index.group().groups.duplicates == 20
        assert index.explain("d0", "d1").similarity == 1.0
    esdedup_command(url, "check", "--index", name, status=0)


@clusters
def test_tokens_of_the_server_and_of_the_client_in_one_index(place: Place) -> None:
    texts = {f"d{at}": words(at // 2, 30) for at in range(10)}
    bits = Bits(64, distance=8, name="phash", fields=("phash",))
    documents = [{"id": id, "body": text, "phash": "5a3c" + "0" * 12} for id, text in texts.items()]
    for sketches, of_text in (
        ((Server(), bits), "server"),
        ((MinHash(), Server(fields=("title",)), bits), "minhash"),
    ):
        name = f"{place.index}-{of_text}"
        options: dict[str, Any] = {"scheme": Scheme(sketches), "text_field": "body"}
        with esdedup.open(place.target, name, **options) as index:
            given = [each | {"title": each["body"]} for each in documents]
            index.add(given)
            for sketch in {of_text, "server"}:
                found = index.similar(texts["d4"], sketch=sketch)
                assert [match.id for match in found] == ["d4", "d5"]
                assert len(index.pairs(sketch=sketch, threshold=0.9)) == 5
                assert index.groups(sketch=sketch).duplicates == 5
            assert len(index.similar("5a3c" + "0" * 11 + "1", sketch="phash", k=20)) == 10
            assert index.add(given).unchanged == 10
        checked = esdedup_command(str(place.target), "check", "--index", name)
        assert (checked.status, checked.json[0]["stale"]["count"]) == (0, 0)


@ON_EVERY_SERVER
@pytest.mark.parametrize("place", ["opensearch"], indirect=True)
def test_words_are_those_of_the_tokenizer(place: Place) -> None:
    scheme = Scheme([Server(tokenizer="whitespace")])
    with open_index(
        place, [{"id": "1", "text": "one-two three-four five-six"}], scheme=scheme
    ) as index:
        assert len(index.similar("one-two three-four five-six")) == 1
        # Six words here, and three for the server.
        assert exact("one-two three-four five-six", "one two three four five six") == 1.0
        assert len(index.similar("one two three four five six")) == 0


def test_a_local_file_computes_no_tokens(folder: Path) -> None:
    with (
        esdedup.open(folder / "x.db", scheme=SCHEME) as index,
        pytest.raises(UsageError, match="a local file has none: use `url`"),
    ):
        index.create()
    (folder / "texts.jsonl").write_text(
        '{"id": "1", "text": "a b c"}\n{"id": "2", "text": "a b c"}\n'
    )
    run_command("scheme", "--server", "-o", "server.json", status=0)
    refused = run_command("index", "texts.jsonl", "--server", "--scheme", "server.json", status=2)
    assert "--server can't be combined" in refused.err
    # Files have no server: their texts are compared by what reaches the recall.
    (pair,) = run_command("pairs", "texts.jsonl", "--scheme", "server.json").json
    assert (pair["left"], pair["right"], pair["similarity"]) == ("1", "2", 1.0)


def test_tokens_of_the_server_beside_those_of_the_client(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"text": ["a b c d"]})
    with pytest.raises(UsageError, match="an index computes the tokens of 'server'"):
        esdedup.arrow.tokens(table, SCHEME)
    with pytest.raises(UsageError, match="name a field of its own"):
        Scheme([MinHash(), Server()])


@clusters
def test_the_recall_of_a_list_is_unknown(place: Place) -> None:
    """The index makes no shingles across two strings of a list."""
    text = "the council met on monday and voted for a new bridge"
    scheme = esdedup.Scheme([esdedup.Server()])
    with esdedup.open(place.target, place.index, scheme=scheme) as index:
        rows = {"list": ["red", "blue", "green"], "copy": ["red", "blue", "green"], "text": text}
        index.add({"id": id, "text": value} for id, value in rows.items())
        found = index.similar(id="list", threshold=0.5)
        assert (len(found), found.recall) == (0, None)
        assert (index.similar(id="text", threshold=0.5).recall or 0) > 0.9
