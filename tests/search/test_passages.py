"""Documents that share passages with a text, in all stores."""

import json
import random
from pathlib import Path

import pytest

from esdedup import MinHash, Passages, Scheme
from esdedup.models import Candidates, Document, Query
from esdedup.search.candidates import candidate_queries
from esdedup.sketch.sketch import sketch
from esdedup.stores import Store
from esdedup.stores.changes import delete
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import call, esdedup_command, fill
from tests.helpers.places import Place, clusters, ranked, scanned, with_tokens, write

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
    assert esdedup_command(url, "attach", *at, "--scheme", "scheme.json").status == 0
    assert esdedup_command(url, "backfill", *at).json[0]["written"] == len(TEXTS)
    assert esdedup_command(url, "check", *at).status == 0
    assert ranked(asked(place.open(), TEXTS["p040"]))[0][0] == "p040"
    call(url, "POST", f"/{name}/_update/p040?refresh=true", {"doc": {"text": TEXTS["other"]}})
    assert esdedup_command(url, "check", *at).json[0]["stale"]["count"] == 1
    assert esdedup_command(url, "backfill", *at, "--stale").json[0]["written"] == 1
    assert {each for each, _ in ranked(asked(place.open(), TEXTS["other"]))} == {"other", "p040"}
