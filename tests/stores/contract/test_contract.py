"""What `esdedup/stores/base.py` promises, one promise a test, of every store.

Most tokens here are made by hand, so that what meets is known and not a matter of hashes.
"""

import contextlib
import functools
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.exceptions import StoreUnavailable
from esdedup.models import FIELD, CandidateQuery, Candidates, Document, WriteReport
from esdedup.stores import Store
from esdedup.stores.changes import delete, update
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from tests.helpers.places import (
    META,
    OTHER,
    OpenStore,
    Place,
    ask,
    clusters,
    document,
    ids_of,
    local,
    plain,
    query,
    ranked,
    scanned,
    with_tokens,
    write,
)
from tests.helpers.processes import at_once

# Making an index


def test_an_index_says_what_it_was_made_with(open_store: OpenStore) -> None:
    scheme = esdedup.Scheme(
        [esdedup.MinHash(permutations=64, bands=16, rows=4), esdedup.SimHash(128, 8)],
        shingling=esdedup.Shingling("char", 7, ("的", "the")),
        seed=2**64 - 1,
    )
    meta = IndexMeta(scheme, ("标题", "article.正文"))
    first, second = open_store(), open_store()
    first.create(meta)
    write(first, [document("1", ["a"])])
    # To make it again changes nothing.
    for store in (first, second):
        store.create(meta)
    assert second.meta() == meta
    assert ids_of(ask(second, query("a"))) == ["1"]


OTHERS = [
    (IndexMeta(esdedup.Scheme(seed=2)), r"seed 1, not 2"),
    (IndexMeta(esdedup.Scheme(shingling=esdedup.Shingling(size=4))), r"shingling\.size 3, not 4"),
    (
        IndexMeta(esdedup.Scheme([esdedup.MinHash(bands=20), esdedup.SimHash()])),
        r"minhash\.bands 12, not 20",
    ),
    (IndexMeta(esdedup.Scheme([esdedup.MinHash()])), r"simhash\.segments 4, not absent"),
    (IndexMeta(esdedup.Scheme(), ("body",)), r"'text', not the field 'body'"),
]


def test_another_scheme_or_field_is_refused_by_name(place: Place, open_store: OpenStore) -> None:
    open_store().create(META)
    for other, reason in OTHERS:
        with pytest.raises(esdedup.exceptions.SchemeMismatch, match=reason) as caught:
            open_store().create(other)
        assert place.index in str(caught.value)
    assert open_store().meta() == META


def test_only_an_index_without_documents_takes_another_scheme(open_store: OpenStore) -> None:
    store = open_store()
    store.create(META)
    (other, _), *_ = OTHERS
    store.renew(META, other)
    with pytest.raises(esdedup.exceptions.StoreError):
        open_store().renew(META, OTHERS[1][0])
    write(store, with_tokens([Document("1", {"text": "one two three four"})], other))
    assert open_store().meta() == other
    with pytest.raises(esdedup.exceptions.SchemeMismatch, match="seed 2, not 1"):
        open_store().renew(other, META)
    assert [each.id for each in store.get(["1"])] == ["1"]


def test_of_many_that_make_it_at_once_one_decides(open_store: OpenStore) -> None:
    metas = [IndexMeta(esdedup.Scheme(seed=seed)) for seed in (1, 2, 1, 2, 1, 2)]
    stores = [open_store() for _ in metas]
    works = [functools.partial(one.create, meta) for one, meta in zip(stores, metas, strict=True)]
    outcomes = at_once(works)
    stored = stores[0].meta()
    for meta, outcome in zip(metas, outcomes, strict=True):
        assert (
            outcome is None
            if meta == stored
            else isinstance(outcome, esdedup.exceptions.SchemeMismatch)
        )
    assert outcomes.count(None) == 3


# An index that others made


NOT_OURS: list[dict[str, Any]] = [
    {"properties": {FIELD: {"type": "keyword"}}},
    {"_meta": {FIELD: {"scheme": {"version": 99}}}},
]


@clusters
@pytest.mark.parametrize("mapping", NOT_OURS, ids=str)
def test_what_is_not_ours_is_refused_and_left_alone(
    place: Place, open_store: OpenStore, mapping: dict[str, Any]
) -> None:
    place.call("PUT", "", {"mappings": mapping})
    with pytest.raises(esdedup.EsdedupError, match=FIELD):
        open_store().create(META)
    if "_meta" in mapping:
        with pytest.raises(esdedup.UsageError):
            open_store().meta()
    assert place.call("GET", "/_mapping")[place.index]["mappings"] == mapping


@clusters
def test_an_alias_stands_for_indices_of_one_scheme(place: Place, open_store: OpenStore) -> None:
    alias, second = f"{place.index}-alias", Place(place.target, f"{place.index}-second")
    open_store().create(META)
    place.call("PUT", f"/_alias/{alias}")
    by_alias = open_store(alias)
    assert by_alias.meta() == META
    write(by_alias, [document("1", ["a"])])
    assert ids_of(ask(by_alias, query("a"))) == ["1"]
    assert [found.id for found in scanned(by_alias)] == ["1"]
    second.call("PUT", "", {"aliases": {alias: {}}})
    assert by_alias.meta() == META
    assert by_alias.unattached().indices == (second.index,)
    # What is written there would have no tokens.
    for change in (by_alias.require_attached, functools.partial(by_alias.create, META)):
        with pytest.raises(
            esdedup.exceptions.StoreError, match=r"names 2 indices.*-second has no esdedup field"
        ):
            change()
    made = open_store(second.index)
    made.create(META)
    write(made, [document("2", ["a", "b"]), document("3", ["c"])])
    assert by_alias.meta() == META
    assert not by_alias.unattached()
    assert ranked(ask(by_alias, query("a", "b"))) == [("2", 2), ("1", 1)]
    assert [found.id for found in by_alias.get(["3", "no", "1"])] == ["3", "1"]
    assert sorted(found.id for found in scanned(by_alias)) == ["1", "2", "3"]
    with pytest.raises(esdedup.UsageError, match="none of which is its write index"):
        by_alias.write([document("4", ["a"])])
    assert delete(by_alias, ["1", "2", "no"]) == 2
    by_alias.refresh()
    assert [found.id for found in scanned(by_alias)] == ["3"]


# Documents


def test_what_is_written_is_read_in_the_order_asked_for(store: Store) -> None:
    report = store.write([document(str(number)) for number in range(1_200)])
    assert report == WriteReport(created=1_200)
    wanted = [str(number) for number in range(1_199, -1, -1)]
    asked = [*wanted[:600], "absent", *wanted[600:], "0"]
    assert [found.id for found in store.get(asked)] == [*wanted, "0"]
    assert store.get([]) == []
    assert store.get(["absent"]) == []
    assert store.get([""]) == []
    assert store.hold([""]) == []
    assert store.write([]) == WriteReport()


ODD_IDS = [
    "../_search?q=x#y and /slash/", "%2F%00", "字" * 170 + "ab", "🙂" * 128, "e\u0301\u200b",
    " ", "line\nfeed\ttab", "\x00", "a\"b'c\\d", "a,b*c", "_id", "null", "0", "00",
]  # fmt: skip


def test_ids_may_be_any_text_of_512_bytes(store: Store) -> None:
    assert max(len(id.encode()) for id in ODD_IDS) == 512
    write(store, [document(id, ["a", f"t{n}"]) for n, id in enumerate(ODD_IDS)])
    assert [found.id for found in store.get(ODD_IDS)] == ODD_IDS
    assert ids_of(ask(store, query("a"))) == sorted(ODD_IDS)
    assert sorted(found.id for found in scanned(store)) == sorted(ODD_IDS)
    for number, id in enumerate(ODD_IDS):
        assert ids_of(ask(store, query(f"t{number}"))) == [id]
        assert ids_of(ask(store, query(f"t{number}", exclude=id))) == []
    again = store.write([document(id) for id in ODD_IDS])
    assert again == WriteReport(updated=len(ODD_IDS))
    assert delete(store, ODD_IDS) == len(ODD_IDS)
    assert store.get(ODD_IDS) == []


SOURCES: list[dict[str, Any]] = [
    {"nested": {"a": {"b": [{"c": "ü"}, {"c": None}]}, "d": []}},
    {"dotted.name": "x", "half": {"dotted.too": 1, "object": {"in": "side"}}},
    {"null": None, "list": [None, "a", None], "empty": "", "object": {}, "flag": False},
    {"long": 2**63 - 1, "beyond_double": 2**53 + 1, "whole": 1.0, "tiny": 1e-300},
    {"control": "\x00\x1f\u2028", "键": "🙂", "markup": "<b>&\"'\\", "chinese": "中文"},
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
def test_fields_come_back_as_they_were(store: Store, source: dict[str, Any]) -> None:
    write(store, [document("1", ["a"], **source)])
    found = [*store.get(["1"]), ask(store, query("a")).documents[0]]
    for each in found:
        # By their text, because 1 == 1.0 == True.
        given = {"text": "text of 1", **source}
        assert json.dumps(plain(each), sort_keys=True) == json.dumps(given, sort_keys=True)


def test_tokens_are_stored_and_not_returned(place: Place, store: Store) -> None:
    (made,) = with_tokens([Document("1", {"text": "one two three four"})], META)
    write(store, [made])
    tokens = {"minhash", "simhash"}
    kept = {name: value for name, value in made.tokens.items() if name not in tokens}
    assert set(kept) == {"scheme", "digest"}
    wanted = query(*made.tokens["minhash"])
    found = ask(store, replace(wanted, marked=True))
    for each in (*store.get(["1"]), found.documents[0]):
        assert each.tokens == kept
    # A store may leave out fields that were not requested.
    assert ask(store, wanted).documents[0].tokens.items() <= kept.items()
    paths = [f"{FIELD}.{name}" for name in made.tokens]
    (stored,) = scanned(store, *paths)
    for path, value in zip(paths, made.tokens.values(), strict=True):
        assert value_at(stored.source, path) == value
    if not isinstance(place.target, Path):
        assert place.call("GET", "/_doc/1")["_source"] == made.source


@pytest.mark.parametrize("kind", ["minhash", "simhash"])
def test_an_update_takes_the_old_tokens_away(store: Store, kind: Any) -> None:
    write(store, [document("1", ["a", "b"], kind), document("2", ["a"], kind)])
    assert store.write([document("1", ["b", "c"], kind, n=2)]) == WriteReport(updated=1)
    store.refresh()
    for token, expected in (("a", ["2"]), ("b", ["1"]), ("c", ["1"])):
        assert ids_of(ask(store, CandidateQuery(kind, [[token]]))) == expected
    assert store.get(["1"])[0].source["n"] == 2
    write(store, [Document("1", {"text": "bare"})])
    assert ids_of(ask(store, CandidateQuery(kind, [["b"]]))) == []
    assert store.get(["1"]) == [Document("1", {"text": "bare"})]
    numbers = store.statistics(META)
    assert (numbers.documents, numbers.sketched, numbers.other) == (2, 1, 0)


def test_to_create_leaves_a_document_as_it_is(store: Store) -> None:
    write(store, [document("1", ["a"], n=1)])
    given = [document("1", ["b"], n=2), *(document("2", [t], n=n) for n, t in enumerate("bcd"))]
    report = store.write(given, create=True)
    assert (report.created, report.updated) == (1, 0)
    refused = [("1", True), ("2", True), ("2", True)]
    assert [(failure.id, failure.conflict) for failure in report.failures] == refused
    assert report.failures[0].reason
    store.refresh()
    # Of equal ids in a batch, the first is created.
    assert [found.source["n"] for found in store.get(["1", "2"])] == [1, 0]
    assert [ids_of(ask(store, query(token))) for token in "abcd"] == [["1"], ["2"], [], []]


def test_the_last_of_equal_ids_in_a_batch_stays(store: Store) -> None:
    given = [document("1", [token], n=n) for n, token in enumerate("abc")]
    assert store.write([*given, document("2")]) == WriteReport(created=2, updated=2)
    store.refresh()
    assert store.get(["1"])[0].source["n"] == 2
    assert [ids_of(ask(store, query(token))) for token in "abc"] == [[], [], ["1"]]
    assert store.statistics(META).documents == 2


def test_deleting_takes_tokens_away_and_counts_what_was_there(store: Store) -> None:
    many = [f"m{number}" for number in range(1_100)]
    write(store, [document(id, ["a"]) for id in [*many, "kept"]])
    assert delete(store, ["absent", *many, "m0"]) == 1_100
    assert delete(store, many) == 0
    assert delete(store, []) == 0
    store.refresh()
    assert ids_of(ask(store, query("a"))) == ["kept"]
    assert [found.id for found in scanned(store)] == ["kept"]
    assert store.statistics(META).documents == 1
    assert store.write([document("m0")]) == WriteReport(created=1)


# Recall


def test_most_groups_come_first_and_as_many_must_meet_as_are_asked_for(store: Store) -> None:
    tokens = [f"{position}x" for position in range(8)]
    write(store, [document(f"d{n}", [*tokens[:n], f"own{n}"]) for n in range(9)])
    for least in range(1, 9):
        expected = [(f"d{n}", n) for n in range(8, least - 1, -1)]
        assert ranked(ask(store, query(*tokens, least=least))) == expected
        one_out = ask(store, query(*tokens, exclude="d8", least=least))
        assert ranked(one_out) == expected[1:]
    assert ranked(ask(store, query(*tokens), limit=3)) == [("d8", 8), ("d7", 7), ("d6", 6)]
    assert ranked(ask(store, query(*tokens, least=9))) == []
    # What shares fewer is no candidate, so that it makes none of them a truncated answer.
    assert not ask(store, query(*tokens, least=6), limit=3).truncated
    assert ask(store, query(*tokens, least=5), limit=3).truncated
    mixed = [query(*tokens, least=8), query(*tokens), query("0x", "absent", least=2)]
    assert [len(found.documents) for found in store.candidates(mixed, 100)] == [1, 8, 0]


def test_truncation_is_told_exactly(store: Store) -> None:
    write(store, [document(f"d{n}", ["a"]) for n in range(7)])
    found = {limit: ask(store, query("a"), limit) for limit in (100, 8, 7, 6, 1)}
    assert [len(each.documents) for each in found.values()] == [7, 7, 7, 6, 1]
    assert {limit for limit, each in found.items() if each.truncated} == {1, 6}
    assert not ask(store, query("absent"), 1).truncated
    # The same question has the same answer, where ranks are equal too.
    for longer, shorter in itertools.pairwise(map(ranked, found.values())):
        assert longer[: len(shorter)] == shorter
    # What is left out is not counted.
    others = ask(store, query("a", exclude="d1"), limit=6)
    assert (ids_of(others), others.truncated) == ([f"d{n}" for n in (0, 2, 3, 4, 5, 6)], False)
    assert ask(store, query("a", exclude="d1"), limit=5).truncated
    for none in ("absent", ""):
        assert len(ask(store, query("a", exclude=none)).documents) == 7


def test_a_group_counts_once_whatever_its_token(store: Store) -> None:
    write(store, [document("1", ["0a", "1a"], "simhash"), document("2", ["0c", "1z"], "simhash")])
    groups = [["0a", "0b", "0c"], ["1a", "1b", "1c"], ["2a"]]
    assert ranked(ask(store, CandidateQuery("simhash", groups))) == [("1", 2), ("2", 1)]
    assert ranked(ask(store, CandidateQuery("simhash", groups, least=2))) == [("1", 2)]
    assert ranked(ask(store, CandidateQuery("minhash", groups))) == []
    many = [["0a", *(f"0t{n}" for n in range(10_000))], [f"1t{n}" for n in range(10_000)]]
    assert ranked(ask(store, CandidateQuery("simhash", many))) == [("1", 1)]


def marked(found: Document, **marks: Any) -> Document:
    return Document(found.id, {**found.source, FIELD: {**found.tokens, **marks}})


def test_only_originals_where_they_are_asked_for(store: Store) -> None:
    followers = [
        marked(document(f"f{n}", ["a", "b"]), group="x", original="x", similarity=0.9)
        for n in range(20)
    ]
    first = marked(document("x", ["a"]), group="x")
    freed = marked(document("n", ["a"]), original=None)
    write(store, [*followers, first, freed, document("plain", ["a", "b"])])
    wanted = CandidateQuery("minhash", [["a"], ["b"]], originals=True)
    found = ask(store, wanted, limit=3)
    assert ranked(found)[0] == ("plain", 2)
    assert ids_of(found) == ["n", "plain", "x"]
    assert not found.truncated
    assert ask(store, wanted, limit=2).truncated
    others = CandidateQuery("minhash", [["a"]], exclude="x", originals=True)
    assert ids_of(ask(store, others)) == ["n", "plain"]
    assert len(ask(store, query("a")).documents) == 23


def test_many_queries_are_answered_in_their_order(store: Store) -> None:
    write(store, [document(f"d{n}", [f"t{n}", "all"]) for n in range(130)])
    mixed = [query("all"), query("absent"), query("t7", "all", exclude="d7"), query("t7")] * 30
    answers = store.candidates(mixed, 130)
    assert [len(answer.documents) for answer in answers] == [130, 0, 129, 1] * 30
    assert not any(answer.truncated for answer in answers)
    assert store.candidates([], 5) == []


# Scans


def of_another_scheme(count: int) -> list[Document]:
    ours = {"scheme": OTHER.scheme.id, "minhash": ["t1"]}
    return [Document(f"o{n}", {"text": "x", FIELD: ours}) for n in range(count)]


def test_a_scan_gives_each_document_of_the_scheme_once(store: Store) -> None:
    ours = [document(f"d{n}", [f"t{n}"], nested={"a": n, "b": 2}) for n in range(4_100)]
    write(store, [*ours, *of_another_scheme(50), Document("bare", {"text": "x"})])
    paths = [f"{FIELD}.minhash", "nested.a", "nested.b", "text", f"{FIELD}.digest"]
    found = scanned(store, *paths[:2], "absent")
    assert len(found) == 4_100
    values = {each.id: [value_at(each.source, path) for path in paths] for each in found}
    assert values == {f"d{n}": [[f"t{n}"], n, None, None, None] for n in range(4_100)}
    assert {each.id: each.source for each in scanned(store, meta=OTHER)} == {
        f"o{n}": {} for n in range(50)
    }
    assert scanned(store, meta=IndexMeta(esdedup.Scheme(seed=3))) == []


def test_a_scan_of_marked_documents(store: Store) -> None:
    write(store, [document(f"d{n}") for n in range(4)])
    update(store, [Document(f"d{n}", {FIELD: {"group": "d1"}}) for n in (1, 2, 3)])
    update(store, [Document("d3", {FIELD: {"group": None}})])
    store.refresh()
    found = scanned(store, f"{FIELD}.group", marked=True)
    groups = {each.id: value_at(each.source, f"{FIELD}.group") for each in found}
    assert groups == {"d1": "d1", "d2": "d1"}
    assert scanned(store, meta=OTHER, marked=True) == []


def test_a_scan_sees_the_index_as_it_was(store: Store, open_store: OpenStore) -> None:
    write(store, [document(f"d{n}") for n in range(2_500)])
    scan = store.scan([], META)
    seen = [found.id for found in next(scan)]
    assert 0 < len(seen) < 2_500
    other = open_store()
    write(other, [document(f"d{n}") for n in range(2_400)])
    write(other, [document(f"new{n}") for n in range(100)])
    delete(other, [f"d{n}" for n in range(2_400, 2_500)])
    other.refresh()
    seen += [found.id for batch in scan for found in batch]
    assert sorted(seen) == sorted(f"d{n}" for n in range(2_500))


@clusters
@pytest.mark.parametrize("most", [2, 7, 65_536])
def test_lists_of_terms_are_as_long_as_the_index_allows(
    place: Place, open_store: OpenStore, most: int
) -> None:
    place.call("PUT", "", {"settings": {"index.max_terms_count": most}})
    store = open_store()
    store.create(META)
    write(store, [document(f"d{n}", [f"t{n}", "b"]) for n in range(40)])
    groups = [[f"t{n}" for n in range(20)], ["b", "c", "d"], ["t3"]]
    found = ask(store, CandidateQuery("minhash", groups, least=2))
    assert ids_of(found) == sorted(f"d{n}" for n in range(20))
    # Each group counts once, in however many lists it is.
    assert ranked(found)[0] == ("d3", 3)
    assert {shared for _, shared in ranked(found)[1:]} == {2}


@clusters
def test_several_shards_are_one_index(place: Place, open_store: OpenStore) -> None:
    place.call("PUT", "", {"settings": {"number_of_shards": 5, "number_of_replicas": 0}})
    store = open_store()
    store.create(META)
    tokens = [f"{position}x" for position in range(6)]
    write(store, [document(f"d{n}", tokens[: n % 6 + 1]) for n in range(4_200)])
    found = [each.id for each in scanned(store)]
    assert len(found) == len(set(found)) == 4_200
    drawn = [each.id for each in store.sample([], META, 10_000, 1)]
    assert sorted(drawn) == sorted(found)
    assert [each.id for each in store.sample([], META, 3_000, 1)] == drawn[:3_000]
    best = ask(store, query(*tokens), limit=700)
    assert {matched for _, matched in ranked(best)} == {6}
    assert best.truncated
    assert not ask(store, query(tokens[-1]), limit=700).truncated
    assert ask(store, query(tokens[-1]), limit=699).truncated


# Samples


def test_a_sample_is_of_the_scheme_and_without_repeats(store: Store, open_store: OpenStore) -> None:
    ours = [document(f"d{n}", [f"t{n}"], n=n) for n in range(3_000)]
    write(store, [*of_another_scheme(2_000), *ours, Document("bare", {"text": "x"})])
    found = store.sample(["n"], META, 2_500, 1)
    assert len(found) == len({each.id for each in found}) == 2_500
    assert all(each.source == {"n": int(each.id[1:])} for each in found)
    # Not the first or last ones that were written: a mean of 2,500 of 0 to 2,999 is near 1,499.5,
    # with a standard deviation of 7.
    assert 1_450 < sum(each.source["n"] for each in found) / 2_500 < 1_550
    assert {each.id for each in store.sample([], META, 10_000, 1)} == {each.id for each in ours}
    first = store.sample([], META, 300, 7)
    assert open_store().sample([], META, 300, 7) == first
    other = {each.id for each in store.sample([], META, 300, 8)}
    assert len(other & {each.id for each in first}) < 150


def test_a_sample_of_few_or_none(store: Store) -> None:
    assert store.sample([], META, 5, 1) == []
    write(store, [document(f"d{n}", ["a"], title="t") for n in range(10)])
    assert delete(store, ["d3", "d9"]) == 2
    store.refresh()
    found = store.sample(["title", "absent"], META, 10_000, 1)
    assert sorted(each.id for each in found) == ["d0", "d1", "d2", "d4", "d5", "d6", "d7", "d8"]
    assert all(each.source == {"title": "t"} for each in found)
    for count in (0, -1, 10_001):
        with pytest.raises(esdedup.UsageError, match=f"sample {count}: use 1 to 10000"):
            store.sample([], META, count, 1)


# Several at once


def test_two_that_write_lose_nothing(open_store: OpenStore) -> None:
    names = ["one", "two"]
    stores = [open_store() for _ in names]
    stores[0].create(META)

    def work(store: Store, name: str) -> None:
        for batch in range(12):
            ids = [f"{name}-{n}" for n in range(batch * 50, batch * 50 + 50)]
            written = [document(id, ["all", f"of-{name}"]) for id in ids]
            assert store.write(written).created == 50
            # Both writers write this id: whichever is first, it is one document.
            store.write([document(f"both-{batch}", ["all"], by=name)])

    works = [functools.partial(work, *each) for each in zip(stores, names, strict=True)]
    assert at_once(works) == [None, None]
    stores[0].refresh()
    for name in names:
        expected = sorted(f"{name}-{n}" for n in range(600))
        assert ids_of(ask(stores[0], query(f"of-{name}"), 1_000)) == expected
    assert stores[0].statistics(META).documents == 1_212
    assert len(ask(stores[0], query("all"), 2_000).documents) == 1_212


# Buckets


def test_sizes_of_buckets(store: Store) -> None:
    write(store, [document(str(n), ["all", f"m{n % 7}"]) for n in range(700)])
    write(store, [document(f"s{n}", ["all", "s"], "simhash") for n in range(3)])
    tokens = [f"m{n % 9}" for n in range(450)]
    sizes = store.bucket_sizes("minhash", tokens, META)
    assert sizes == [100 if n % 9 < 7 else 0 for n in range(450)]
    assert store.bucket_sizes("minhash", ["all", "s", "all"], META) == [700, 0, 700]
    assert store.bucket_sizes("simhash", ["all", "s"], META) == [3, 3]
    assert store.bucket_sizes("minhash", [], META) == []
    write(store, [document("0", ["m1"])])
    delete(store, ["1", "8", "s0"])
    store.refresh()
    assert store.bucket_sizes("minhash", ["all", "m0", "m1"], META) == [697, 99, 99]
    assert store.bucket_sizes("simhash", ["s"], META) == [2]


STOP = ("minhash:.12345", "simhash:.123")


def test_a_stop_list_is_kept(open_store: OpenStore, store: Store) -> None:
    write(store, [document("1", ["a"])])
    stopped = IndexMeta(META.scheme, stop=STOP)
    store.renew(META, stopped)
    other = open_store()
    assert other.meta() == stopped
    assert ids_of(ask(other, query("a"))) == ["1"]
    # To make the index again, with what was asked for at first, leaves the list.
    other.create(META)
    assert other.meta() == stopped
    with pytest.raises(esdedup.exceptions.StoreError, match="changed"):
        other.renew(META, IndexMeta(META.scheme, stop=STOP[:1]))
    assert store.meta() == stopped
    other.renew(stopped, META)
    assert store.meta() == META


# Indices that are not there, and names that are none

WORKS: dict[str, Callable[[Store], object]] = {
    "write": lambda store: store.write([document("1", ["a"])]),
    "create": lambda store: store.write([document("1", ["a"])], create=True),
    "get": lambda store: store.get(["1"]),
    "hold": lambda store: store.hold(["1"]),
    "hold fields": lambda store: store.hold(["1"], ["text"]),
    "recall": lambda store: store.candidates([query("a")], 5),
    "scan": lambda store: scanned(store),
    "sample": lambda store: store.sample([], META, 5, 1),
    "delete": lambda store: delete(store, ["1"]),
    "statistics": lambda store: store.statistics(META),
    "bucket sizes": lambda store: store.bucket_sizes("minhash", ["a"], META),
    "renew": lambda store: store.renew(META, META),
}


@pytest.mark.parametrize("work", WORKS)
def test_an_index_that_is_not_there(place: Place, open_store: OpenStore, work: str) -> None:
    if work in ("write", "create") and isinstance(place.target, str):
        return  # A cluster makes an index that is written to, unless it is told not to.
    store = open_store(retry_for=0.1)
    with pytest.raises(esdedup.exceptions.IndexNotFound, match=place.index):
        WORKS[work](store)
    assert open_store().meta() is None


WRONG_NAMES = [
    "", " ", "a b", "a,b", "a*", "?", "<now>", "a/b", "a\\b", "#a", 'a"b', "Upper", ".", "..",
    "_under", "-minus", "+plus", "a:b", "x" * 300, "\ud800",
]  # fmt: skip


def test_some_ids_are_of_documents_with_tokens_and_without(place: Place) -> None:
    store = place.open()
    assert store.some_ids(3) == []
    store.create(META)
    assert store.some_ids(3) == []
    documents = [document(f"d{n}", ["a"]) for n in range(5)]
    write(store, [*documents, Document("plain", {"text": "without tokens"})])
    every = {*(f"d{n}" for n in range(5)), "plain"}
    assert {*store.some_ids(10)} == every
    assert len({*store.some_ids(4)}) == 4
    assert every > {*store.some_ids(4)}
    store.close()


def test_names_that_no_index_can_have(place: Place) -> None:
    names = WRONG_NAMES if isinstance(place.target, str) else ["", "a\x00b", "\ud800"]
    for name in names:
        with pytest.raises(esdedup.EsdedupError) as caught:
            Place(place.target, name).open(retry_for=0).create(META)
        assert not isinstance(caught.value, StoreUnavailable)
        assert name[:100] in str(caught.value) or repr(name)[1:-1] in str(caught.value)


@local
def test_indices_of_one_file_do_not_meet(open_store: OpenStore) -> None:
    names = ["docs", "docs:documents", "zwei 二", 'quote"', "semi;--", "%", "sqlite_x", "Docs"]
    stores = [open_store(name) for name in names]
    for number, store in enumerate(stores):
        store.create(IndexMeta(esdedup.Scheme(seed=number)))
        write(store, [document(str(n), ["a"]) for n in range(number + 1)])
    for number, store in enumerate(stores):
        meta = store.meta()
        assert meta is not None
        assert meta.scheme.seed == number
        assert len(ask(store, query("a")).documents) == number + 1
        assert store.statistics(META).documents == number + 1


def test_an_id_that_is_no_unicode(store: Store) -> None:
    """No store accepts it: only errors of ours may leave, or the answer that there is none."""
    works: list[tuple[Callable[[], object], object]] = [
        (lambda: store.write([document("\ud800")]), None),
        (lambda: store.get(["\ud800"]), []),
        (lambda: delete(store, ["\ud800"]), 0),
        (lambda: store.candidates([query("a", exclude="\ud800")], 5), [Candidates([], [])]),
    ]
    for work, none in works:
        with contextlib.suppress(esdedup.EsdedupError):
            assert work() == none


def test_a_document_that_is_no_json(store: Store) -> None:
    for value in (float("nan"), object(), "\ud800"):
        with pytest.raises(esdedup.exceptions.RecordError, match="'bad'"):
            store.write([document("bad", value=value)])


# Words


def test_texts_are_searched_for_words(open_store: OpenStore) -> None:
    store = open_store()
    store.create(META)
    texts = {
        "1": "The old Bridge over the river is closed",
        "2": "Over the bridge: an old river",
        "3": "A closed book",
        "zh": "台风预计明天夜里在东部沿海登陆",
    }
    write(store, [document(id, ["a"], text=text) for id, text in texts.items()])
    store.refresh()

    def stop(documents: int) -> None:
        raise InterruptedError(documents)

    if not store.has_read_texts():
        with pytest.raises(InterruptedError, match="4"):
            store.read_texts(META, stop)
        assert not store.has_read_texts()
    store.read_texts(META, lambda documents: None)
    assert store.has_read_texts()
    # There is nothing more to read.
    store.read_texts(META, stop)
    ids, total = store.full_text("BRIDGE river", META, 10)
    assert (sorted(ids), total) == (["1", "2"], 2)
    # In a row comes first.
    assert store.full_text("over the river", META, 1) == (["1"], 2)
    assert store.full_text("东部沿海", META, 10) == (["zh"], 1)
    assert store.full_text("closed tomorrow", META, 10) == ([], 0)
    assert store.full_text('" ( *', META, 10) == ([], 0)
    write(store, [document("4", ["a"], text="A bridge of boats on the river")])
    store.refresh()
    assert store.full_text("bridge river", META, 1)[1] == 3
