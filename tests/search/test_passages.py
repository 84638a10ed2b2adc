"""Documents that share passages with a text, in all stores."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import Limits, MinHash, Normalisation, Passages, Scheme, Shingling
from esdedup.models import Candidates, Document, Query
from esdedup.search.candidates import candidate_queries
from esdedup.search.warnings import missing_matches
from esdedup.sketch.sketch import sketch
from esdedup.stores import Store
from esdedup.stores.changes import delete
from esdedup.stores.mapping import IndexMeta
from esdedup.text.normalise import normalise
from esdedup.text.words import tokenise
from tests.helpers.commands import call, esdedup_command, fill, run_command, write_lines
from tests.helpers.indices import attach_index, open_index
from tests.helpers.places import Place, clusters, ranked, scanned, with_tokens, write
from tests.unit.text.test_passages import longest_runs

SCHEME = Scheme((MinHash(), Passages()))
META = IndexMeta(SCHEME)
KEY = "esdedup.passages"


def prose(seed: int, count: int) -> list[str]:
    """Return words, none of which another text has."""
    draw = random.Random(seed)
    return [f"w{seed}x{draw.randrange(10**9)}" for _ in range(count)]


ARTICLE = prose(0, 400)


def holding(seed: int, first: int, count: int) -> str:
    """Return a text with a passage of the article amid words of its own."""
    own = prose(seed, 60)
    return " ".join([*own[:30], *ARTICLE[first : first + count], *own[30:]])


TEXTS = {
    "copy": " ".join(ARTICLE),
    **{f"p{count:03}": holding(count, 7 * count % 150, count) for count in (5, 12, 13, 40, 200)},
    "other": " ".join(prose(1_000, 90)),
    "short": " ".join(prose(1_001, 3)),
    "one": "word",
    "none": "!",
}


def asked(store: Store, text: str, limit: int = 100) -> Candidates:
    """Return the documents that share tokens of passages with a text."""
    queries = [Query(text)]
    every = candidate_queries(META, SCHEME.sketch("passages"), sketch([text], SCHEME), queries)
    (found,) = store.candidates(every, limit)
    return found


@pytest.mark.on_every_server
def test_documents_that_share_most_tokens_come_first(place: Place) -> None:
    store = place.open()
    store.create(META)
    given = [Document(id, {"text": text}) for id, text in TEXTS.items()]
    write(store, with_tokens(given, META))
    found = asked(store, TEXTS["copy"])
    ids, shared = [each.id for each in found.documents], found.matched
    assert ids[:5] == ["copy", "p200", "p040", *sorted(ids[3:5])]
    assert {"p012", "p013"} <= {*ids} <= {*TEXTS} - {"other", "short", "one", "none"}
    assert shared == sorted(shared, reverse=True)
    assert asked(store, TEXTS["copy"], 2).truncated
    made = {each.id: each.tokens["passages"] for each in with_tokens(given, META)[:-1]}
    for id, tokens in made.items():
        assert ranked(asked(store, TEXTS[id]))[0] == (id, len(tokens))
    for each in scanned(store, KEY, meta=META):
        assert each.tokens.get("passages") == made.get(each.id)
    write(store, with_tokens([Document("p200", {"text": TEXTS["other"]})], META))
    delete(store, ["copy"])
    store.refresh()
    assert asked(store, TEXTS["copy"]).documents[0].id == "p040"
    assert sorted(ranked(asked(store, TEXTS["other"]))) == [
        (id, len(made["other"])) for id in ("other", "p200")
    ]


@clusters
def test_an_index_in_use_gets_passages(place: Place, folder: Path) -> None:
    url, name = str(place.target), place.index
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    fill(url, name, {id: {"text": text} for id, text in TEXTS.items()})
    (folder / "scheme.json").write_text(json.dumps(SCHEME.to_json()))
    at = ("--index", name)
    assert attach_index(url, name, "--scheme", "scheme.json") == len(TEXTS)
    esdedup_command(url, "check", *at, status=0)
    assert ranked(asked(place.open(), TEXTS["p040"]))[0][0] == "p040"
    call(url, "POST", f"/{name}/_update/p040?refresh=true", {"doc": {"text": TEXTS["other"]}})
    assert esdedup_command(url, "check", *at).json[0]["stale"]["count"] == 1
    assert esdedup_command(url, "backfill", *at, "--stale").json[0]["written"] == 1
    assert {each for each, _ in ranked(asked(place.open(), TEXTS["other"]))} == {"other", "p040"}


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with open_index(place, scheme=SCHEME) as opened:
        yield opened


def covers(result: esdedup.results.Result) -> dict[str, tuple[int, float, float]]:
    """Return what each match and the query share, the best first."""
    found = {}
    for match in result.matches:
        assert match.cover is not None
        assert (match.similarity, match.distance) == (None, None)
        found[match.id] = match.cover.words, match.cover.of_query, match.cover.of_document
    return found


@pytest.mark.on_every_server
def test_matches_have_the_passages_that_they_share(index: esdedup.Index) -> None:
    index.add({"id": id, "text": text} for id, text in TEXTS.items())
    result = index.similar(TEXTS["copy"], sketch="passages")
    expected = {
        "copy": (400, 1.0, 1.0),
        **{f"p{n:03}": (n, n / 400, n / (n + 60)) for n in (200, 40, 13, 12)},
    }
    assert [*covers(result).items()] == [*expected.items()]
    assert (result.guarantee, result.truncated, result.total, result.recall) == (12, False, 5, None)
    for match in result.matches:
        assert match.cover is not None
        (passage,) = match.cover.passages
        count = match.cover.words
        first = 7 * count % 150 if match.id != "copy" else 0
        assert (passage.words, passage.query_word) == (count, first)
        assert passage.document_word == (30 if match.id != "copy" else 0)
        passed = " ".join(ARTICLE[first : first + count])
        assert TEXTS["copy"][slice(*passage.query_span)] == passed
        assert TEXTS[match.id][slice(*passage.document_span)] == passed

    def found(**limits: Any) -> list[str]:
        return [*covers(index.similar(TEXTS["copy"], sketch="passages", **limits))]

    assert found(words=13) == ["copy", "p200", "p040", "p013"]
    assert found(words=14) == ["copy", "p200", "p040"]
    # Of the query or of the document.
    assert found(cover=0.4) == ["copy", "p200", "p040"]
    assert found(cover=0.41) == ["copy", "p200"]
    assert found(cover=0.7, k=1) == ["copy"]
    assert [*covers(index.similar(id="p040", sketch="passages"))] == ["copy", "p200"]
    # Texts of fewer words than a passage have to be equal.
    for id in ("short", "one", "none"):
        result = index.similar(TEXTS[id], sketch="passages")
        assert [each[1:] for each in covers(result).values()] == [(1.0, 1.0)]
    assert len(index.similar("?", sketch="passages")) == 0
    assert len(index.similar("", sketch="passages")) == 0
    assert [match.id for match in index.similar(id="p200", threshold=0.3)] == ["copy"]


WORDS = [*"abcdefgh", "straße", "STRASSE", "e\u0301t\u00e9", *"市图书馆开放"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=40)


@settings(max_examples=60)
@given(st.lists(TEXT, min_size=1, max_size=6), TEXT, st.integers(1, 9), st.booleans())
def test_all_that_share_a_passage_are_found(
    texts: list[list[str]], query: list[str], words: int, joined: bool
) -> None:
    scheme = Scheme([Passages(3, 4)])
    between = "" if joined else " "
    written = {f"d{at}": between.join(text) for at, text in enumerate(texts)}
    asked = between.join(query)
    with open_index(":memory:", written, scheme=scheme) as index:
        result = index.similar(asked, sketch="passages", words=words, k=100)
    every = tokenise(normalise([asked, *written.values()], Normalisation()), Shingling(), 1)
    exact = {}
    for id, own in zip(written, [*every][1:], strict=True):
        runs = longest_runs(every[0].tolist(), own.tolist(), words)
        sides = [{at for run in runs for at in range(run[k], run[k] + run[2])} for k in (0, 1)]
        exact[id] = runs, len(sides[0]), len(sides[1]) / max(1, own.size)
    found = {match.id: match.cover for match in result.matches}
    for id, (runs, count, share) in exact.items():
        if runs and max(run[2] for run in runs) >= 6:
            assert id in found
        if (cover := found.get(id)) is not None and cover.words:
            assert (cover.words, cover.of_document) == (count, share)
            passages = [
                (each.query_word, each.document_word, each.words) for each in cover.passages
            ]
            assert {*passages} <= {*runs}
            covering = {at for first, _, many in passages for at in range(first, first + many)}
            assert len(covering) == count
            # A text that holds a passage twice has both places.
            covering = {at for _, first, many in passages for at in range(first, first + many)}
            assert len(covering) == len(
                {at for run in runs for at in range(run[1], run[1] + run[2])}
            )
            for each in cover.passages:
                spans = asked[slice(*each.query_span)], written[id][slice(*each.document_span)]
                one, other = tokenise(normalise(spans, Normalisation()), Shingling(), 1)
                assert one.tolist() == other.tolist() or not joined
                assert each.words <= one.size


@pytest.mark.on_every_server
def test_a_query_may_have_any_number_of_tokens(index: esdedup.Index) -> None:
    long = prose(7, 12_000)
    parts = {f"at{at}": " ".join(long[at : at + 400]) for at in range(0, 12_000, 1_000)}
    index.add({"id": id, "text": text} for id, text in {**parts, "long": " ".join(long)}.items())
    found = covers(index.similar(" ".join(long), sketch="passages", k=100))
    assert found == {"long": (12_000, 1.0, 1.0), **dict.fromkeys(parts, (400, 400 / 12_000, 1.0))}


@pytest.mark.on_every_server
def test_stopped_tokens_leave_no_guarantee(index: esdedup.Index) -> None:
    index.add({"id": id, "text": text} for id, text in TEXTS.items())
    hot = index.hot_buckets(sketches=["passages"], over=2).buckets
    assert hot[0].token.startswith("passages:.")
    index.stop_list.replace([each.token for each in hot])
    result = index.similar(TEXTS["copy"], sketch="passages")
    assert result.guarantee is None
    assert result.stopped == len(hot)
    limits = Limits("passages")
    (warning,) = missing_matches(result, limits, index.scheme)
    assert "Some tokens of the text were skipped" in warning
    (warning,) = missing_matches(
        index.similar(TEXTS["other"], sketch="passages", words=5),
        Limits("passages", words=5),
        index.scheme,
    )
    assert warning == "A passage of fewer than 12 words may be missing"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"cover": 0.5}, "cover 0.5: the sketch 'minhash' compares by Jaccard similarity"),
        ({"sketch": "passages", "distance": 3}, "compares by shared passages, so use a cover"),
        ({"sketch": "passages", "threshold": None}, "can't be combined with the nearest documents"),
        ({"cover": 0.0}, "cover 0.0: use a share above 0, up to 1"),
        ({"words": 0}, "words 0: use at least 1"),
    ],
)
def test_limits_of_another_measure(limits: dict[str, Any], message: str) -> None:
    with open_index(":memory:", scheme=SCHEME) as index:
        with pytest.raises(esdedup.UsageError, match=re.escape(message)):
            index.similar("a text", **limits)
        policy = esdedup.DuplicatePolicy("skip", sketch="passages")
        with pytest.raises(esdedup.UsageError, match="not found by 'passages'"):
            index.add([{"id": "1", "text": "a text"}], on_duplicate=policy)


def test_commands_list_passages(folder: Path) -> None:
    (folder / "scheme.json").write_text(json.dumps(SCHEME.to_json()))
    write_lines(folder / "texts.jsonl", [{"id": id, "text": text} for id, text in TEXTS.items()])
    (folder / "article.txt").write_text(TEXTS["copy"])
    run_command("index", "texts.jsonl", "--scheme", "scheme.json", status=0)
    asked = ["similar", "--file", "article.txt", "--sketch", "passages"]
    (found,) = run_command(*asked, "--cover", "0.4").json
    assert [match["id"] for match in found["matches"]] == ["copy", "p200", "p040"]
    assert found["matches"][2] == {
        "id": "p040",
        "cover": {
            "words": 40,
            "of_query": 0.1,
            "of_document": 0.4,
            "passages": [
                {
                    "words": 40,
                    "query_word": 130,
                    "query_span": [1680, 2194],
                    "document_word": 30,
                    "document_span": [417, 931],
                }
            ],
        },
        "matched": 6,
    }
    assert (found["guarantee"], found["expected_recall"]) == (12, None)
    shown = run_command(*asked, "--words", "25", terminal=True).out
    assert re.search(r"40 │ +0\.10 │ +0\.40 │ p040 │ " + ARTICLE[130], shown), shown
    wrong = run_command(*asked, "-t", "0.8", status=2)
    assert "compares by shared passages: use --cover" in wrong.err


def shares(texts: dict[str, str], words: int = 12) -> dict[tuple[str, str], float]:
    """Return the larger share of either text of each pair that is in passages."""
    hashed = tokenise([*texts.values()], Shingling(), 1)
    own = dict(zip(texts, (each.tolist() for each in hashed), strict=True))
    found = {}
    for left, right in itertools.combinations(sorted(texts), 2):
        runs = longest_runs(own[left], own[right], words)
        sides = [{at for run in runs for at in range(run[k], run[k] + run[2])} for k in (0, 1)]
        counts = zip(sides, (own[left], own[right]), strict=True)
        found[left, right] = max(len(side) / max(1, len(text)) for side, text in counts)
    return {ids: share for ids, share in found.items() if share}


def nested(seed: int) -> dict[str, str]:
    """Return texts of which some hold parts of others."""
    draw, words = random.Random(seed), prose(seed, 500)
    found = {}
    for at in range(60):
        first, size = draw.randrange(400), draw.randrange(1, 100)
        own = prose(1_000 * seed + at, draw.choice((0, 3, 40)))
        found[f"n{at:02}"] = " ".join([*words[first : first + size], *own])
    return found


@pytest.mark.on_every_server
def test_pairs_and_groups_by_containment(index: esdedup.Index) -> None:
    texts = nested(1)
    index.add({"id": id, "text": text} for id, text in texts.items())
    exact = shares(texts)
    for cover in (0.05, 0.8, 1.0):
        pairs = index.pairs(sketch="passages", cover=cover)
        found = {(pair.left, pair.right): pair.similarity for pair in pairs}
        assert found == {ids: share for ids, share in exact.items() if share >= cover}
        assert (pairs.recall, str(pairs.basis)) == (1.0, "texts")
    assert len(index.pairs(sketch="passages")) == sum(share >= 0.5 for share in exact.values())
    longer = index.pairs(sketch="passages", cover=0.05, words=30)
    assert {(pair.left, pair.right) for pair in longer} == {
        ids for ids, share in shares(texts, 30).items() if share >= 0.05
    }
    groups = index.groups(sketch="passages")
    assert groups.duplicates > 10
    for group in groups:
        for member in group.members:
            assert len(texts[member.id].split()) <= len(texts[group.representative].split())
    leaders = index.groups(sketch="passages", method="leader")
    for group in leaders:
        for member in group.members:
            ids = tuple(sorted((group.representative, member.id)))
            assert member.similarity == exact[ids] >= 0.8  # type: ignore[index]
    first = index.groups(sketch="passages", keep="first")
    assert 0 < first.duplicates < groups.duplicates
    assert all(group.representative < each.id for group in first for each in group.members)
    removed = index.dedup("delete", sketch="passages", method="leader", apply=True, log="-").report
    assert removed is not None
    assert removed.done == leaders.duplicates


def test_pairs_of_files_and_of_texts(folder: Path) -> None:
    texts = nested(2)
    exact = {ids: share for ids, share in shares(texts).items() if share >= 0.7}
    write_lines(folder / "texts.jsonl", [{"id": id, "text": text} for id, text in texts.items()])
    (folder / "scheme.json").write_text(json.dumps(SCHEME.to_json()))
    of = ["--scheme", "scheme.json", "--sketch", "passages", "--cover", "0.7"]
    pairs = run_command("pairs", "texts.jsonl", *of, "--workers", "2").json
    assert {(each["left"], each["right"]): each["similarity"] for each in pairs} == exact
    alone = Scheme([Passages()])
    numbers = [*texts]
    in_memory = esdedup.pairs([*texts.values()], scheme=alone, cover=0.7)
    assert {
        tuple(sorted((numbers[int(each.left)], numbers[int(each.right)]))): each.similarity
        for each in in_memory
    } == exact
    run_command("clean", "texts.jsonl", *of, "--method", "leader", "--output", "out", status=0)
    kept = {
        json.loads(each)["id"] for each in (folder / "out/texts.jsonl").read_text().splitlines()
    }
    assert 0 < len(texts) - len(kept) < len(texts)
    assert not [ids for ids in exact if kept.issuperset(ids)]


def test_stopped_tokens_and_full_buckets_of_pairs() -> None:
    texts = {f"d{at}": holding(at + 2_000, 0, 40) for at in range(8)}
    with open_index(":memory:", texts, scheme=SCHEME) as index:
        assert len(index.pairs(sketch="passages", cover=0.3)) == 28
        capped = index.pairs(sketch="passages", cover=0.3, max_per_bucket=2)
        assert (len(capped) < 28, capped.recall) == (True, None)
        hot = index.hot_buckets(sketches=["passages"], over=2).buckets
        index.stop_list.replace([each.token for each in hot])
        stopped = index.pairs(sketch="passages", cover=0.3)
        assert (len(stopped), stopped.recall) == (0, None)
