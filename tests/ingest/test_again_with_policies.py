"""Policies for near-duplicates, and documents that the index has already, also without marks."""

import functools
import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import esdedup
from esdedup import DuplicatePolicy
from esdedup.ingest.chains import Chains
from esdedup.ingest.ingest import IngestReport, IngestSettings
from esdedup.models import Change
from esdedup.records.files import ReadSizes, Record, chunks_of_records
from tests.helpers.arrivals import family
from tests.helpers.indices import open_index

ACTIONS: list[Any] = ["keep", "mark", "group", "skip", "fail"]
THRESHOLD = 0.8
OTHER = family(500, 0)


def drifting(seed: int, versions: int) -> list[str]:
    """Return versions of a text, of which neighbours are similar, but not first and last."""
    old, new = family(seed, 0).split(), family(seed + 700, 0).split()
    return [" ".join(new[: 2 * version] + old[2 * version :]) for version in range(versions)]


TEXTS = drifting(100, 5) + drifting(200, 5)
IDS = [f"d{number}" for number in range(7)]
MARKS = ("group", "original", "similarity")
Document = Mapping[str, Any]
Documents = Mapping[str, Document]

similarity = functools.cache(esdedup.similarity)


@dataclass(frozen=True)
class Run:
    """One call of `index`, of which the records are written in batches.

    records: numbers of an id, of a text, of a source and of a price.
    deleted: numbers of ids that another client deletes before.
    """

    action: Any
    records: Sequence[tuple[int, int, int, int]]
    deleted: frozenset[int] = frozenset()
    batch_size: int = 100
    is_within: bool = False

    @property
    def sources(self) -> list[dict[str, Any]]:
        return [
            {"id": IDS[id], "text": TEXTS[text], "source": source, "price": price}
            for id, text, source, price in self.records
        ]

    def are_duplicates(self, left: Document, right: Document) -> bool:
        is_one_scope = not self.is_within or left["source"] == right["source"]
        return is_one_scope and are_similar(left, right)

    def has_come_before(self, document: Document | None, record: Document) -> bool:
        """Return whether a document has the text and the scope of a record of its id."""
        return document is not None and all(
            document[name] == record[name] for name in ("text", *["source"] * self.is_within)
        )

    def of(self, index: esdedup.Index) -> IngestReport:
        """Index the records. Those that fail are left."""
        policy = DuplicatePolicy(self.action, THRESHOLD)
        if self.is_within and self.action != "keep":
            policy = policy.limited_to("source")
        records = (Record("f", line, source) for line, source in enumerate(self.sources, 1))
        chunks = chunks_of_records(records, ReadSizes(documents=self.batch_size))
        report = index.ingest(chunks, lambda record: None, IngestSettings(on_duplicate=policy))
        index.store.refresh()
        return report


RUNS = st.lists(
    st.builds(
        Run,
        action=st.sampled_from(ACTIONS),
        records=st.lists(
            st.tuples(
                st.integers(0, 6), st.integers(0, 9), st.sampled_from([0, 0, 1]), st.integers(0, 3)
            ),
            min_size=1,
            max_size=10,
        ),
        deleted=st.one_of(st.just(frozenset()), st.frozensets(st.integers(0, 6), max_size=2)),
        batch_size=st.integers(1, 6),
        is_within=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def documents_of(index: esdedup.Index) -> Documents:
    """Return the fields of each document by its id, with its marks under their names."""
    return {
        document.id: {**document.source, **{name: document.tokens.get(name) for name in MARKS}}
        for document in index.store.get(IDS)
    }


def marks_of(index: esdedup.Index) -> dict[str, tuple[str | None, str | None]]:
    """Return the group and the original of each document."""
    return {id: (one["group"], one["original"]) for id, one in documents_of(index).items()}


def chain(id: str, documents: Documents) -> list[str]:
    """Return the ids of a document, of its original and so on. The last may be gone."""
    ids = [id]
    while ids[-1] in documents and (original := documents[ids[-1]]["original"]) is not None:
        assert original not in ids, f"they lead to each other: {[*ids, original]}"
        ids.append(original)
    return ids


def are_similar(left: Document, right: Document) -> bool:
    return similarity(left["text"], right["text"]) >= THRESHOLD


def has_content_of(document: Document | None, record: Document) -> bool:
    return document is not None and all(
        document[name] == record[name] for name in ("text", "source")
    )


EQUAL = [(number, 0, 0, 0) for number in range(3)]


@given(runs=RUNS)
@example(runs=[Run("keep", EQUAL), Run("mark", EQUAL)])
@example(runs=[Run("keep", EQUAL), Run("group", EQUAL)])
@example(runs=[Run("keep", EQUAL), Run("skip", [(n, 0, 0, 1) for n in range(3)])])
@example(runs=[Run("keep", EQUAL), Run("skip", [(0, 0, 1, 0)])])
@example(runs=[Run("mark", EQUAL), Run("fail", [(n, 0, 0, 1) for n in range(3)])])
# Each gets the text that the other one had.
@example(
    runs=[
        Run("group", [(0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0)]),
        Run("group", [(0, 1, 0, 0)]),
        Run("group", [(2, 0, 0, 0)]),
    ]
)
# The original is gone of one that comes again with a copy.
@example(
    runs=[
        Run("mark", [(0, 0, 0, 0), (1, 0, 0, 0)]),
        Run("mark", [(1, 0, 0, 0), (2, 0, 0, 0)], deleted=frozenset([0])),
    ]
)
# One is the original of the next one, and becomes like the last one.
@example(
    runs=[
        Run("mark", [(number, number * 2, 0, 0) for number in range(3)]),
        Run("mark", [(1, 5, 0, 0), (0, 4, 0, 0)]),
    ]
)
# A stored document gets the text of a duplicate whose original is gone.
@example(
    runs=[
        Run("mark", [(0, 0, 0, 0), (1, 0, 0, 0), (2, 5, 0, 0)]),
        Run("skip", [(2, 0, 0, 0)], deleted=frozenset([0])),
    ]
)
# A duplicate comes again with its text, when its original is gone.
@example(
    runs=[
        Run("mark", [(1, 0, 0, 0), (0, 0, 0, 0)], batch_size=1),
        Run("mark", [(0, 0, 1, 0)], deleted=frozenset([1]), batch_size=1),
    ]
)
# It comes again with another text, and with its own one after that, when its original is gone.
@example(
    runs=[
        Run("keep", [(0, 0, 0, 0)]),
        Run("mark", [(1, 2, 0, 0)]),
        Run("mark", [(1, 0, 0, 0), (1, 2, 0, 0)], deleted=frozenset([0])),
    ]
)
# It gets one that is near only to a duplicate.
@example(
    runs=[
        Run("mark", [(0, 0, 0, 0), (1, 2, 0, 0), (2, 5, 0, 0)]),
        Run("fail", [(2, 4, 0, 0)]),
    ]
)
def test_documents_neither_hide_each_other_nor_are_lost(runs: list[Run]) -> None:
    """Marks of originals that got another text, or are deleted, are those of an earlier time."""
    changed = set[str]()
    with open_index(":memory:") as index:
        for run in runs:
            deleted = {IDS[number] for number in run.deleted}
            index.delete([*deleted])
            changed |= deleted
            before = documents_of(index)
            report = run.of(index)
            after = documents_of(index)
            judged = {
                record["id"]
                for record in run.sources
                if not has_content_of(before.get(record["id"]), record)
            }
            # The last record of an id counts: one batch may write only that.
            last_records = {source["id"]: source for source in run.sources}
            new_texts = {
                id
                for id, record in last_records.items()
                if not run.has_come_before(before.get(id), record)
            }
            changed |= judged & before.keys()
            contents = {(id, text, source) for id, text, source, _ in run.records}
            repeated = {IDS[id] for id, n in Counter(id for id, *_ in contents).items() if n > 1}
            changed |= repeated
            assert before.keys() <= after.keys()
            for id in after:
                links = chain(id, after)
                is_shown = links[-1] in after
                assert is_shown or links[-1] in changed
                # A text that is new here follows none that leads to a document that is gone.
                assert is_shown or id not in new_texts or run.action not in ("mark", "group")
                if changed.isdisjoint(links[1:]):
                    for duplicate, original in itertools.pairwise(links):
                        assert are_similar(after[duplicate], after[original])
                        assert after[duplicate]["group"] == after[original]["group"] or original
            for id, record in last_records.items():
                if id not in judged or run.action in ("keep", "mark", "group"):
                    assert {name: after[id][name] for name in record} == record
                elif not any(run.are_duplicates(record, document) for document in after.values()):
                    assert report.replaced_originals
                if run.action in ("skip", "fail") and id in new_texts - repeated:
                    others = before.keys() - {source["id"] for source in run.sources}
                    assert not has_content_of(after.get(id), record) or not any(
                        run.are_duplicates(record, before[other])
                        and id not in (before[other]["group"], before[other]["original"])
                        for other in others
                    )
                if id not in judged and before[id]["group"] is not None:
                    assert [after[id][name] for name in MARKS] == [
                        before[id][name] for name in MARKS
                    ]


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["mark", "group"])
@pytest.mark.parametrize("texts", [[TEXTS[0]] * 4, TEXTS[:2] * 2, TEXTS[:4]])
def test_documents_without_marks_lead_groups_of_their_own(
    index: esdedup.Index, action: Any, texts: list[str]
) -> None:
    documents = [{"id": id, "text": text} for id, text in zip(IDS, texts, strict=False)]
    index.add(documents)
    assert {*marks_of(index).values()} == {(None, None)}
    report = index.add(documents, on_duplicate=action)
    assert (report.updated, report.duplicates) == (4, 0)
    own = {id: (id, None) for id in IDS[:4]}
    assert marks_of(index) == own
    # Those that are new follow them.
    new = {"id": IDS[5], "text": texts[0]}
    again = index.add([*documents, new], on_duplicate=action)
    assert (again.unchanged, again.created, again.duplicates) == (4, 1, 1)
    assert marks_of(index) == {**own, IDS[5]: (IDS[0], IDS[0])}


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["skip", "fail"])
@pytest.mark.parametrize("before", ["keep", "mark", "group"])
def test_other_fields_of_stored_documents_are_written(
    index: esdedup.Index, action: Any, before: Any
) -> None:
    texts = [TEXTS[0], TEXTS[0], TEXTS[1]]
    documents = [{"id": id, "text": text} for id, text in zip(IDS, texts, strict=False)]
    index.add(documents, on_duplicate=before)
    marks = marks_of(index)
    numbers = [(0, 0, 0, 2), (1, 0, 0, 2), (2, 1, 0, 2), (3, 1, 0, 2)]
    report = Run(action, numbers).of(index)
    # The last one is not stored.
    assert (report.updated, report.skipped + report.failed) == (3, 1)
    assert {document["price"] for document in documents_of(index).values()} == {2}
    assert marks_of(index) == marks


@pytest.mark.on_every_server
def test_documents_that_get_the_texts_of_each_other(index: esdedup.Index) -> None:
    a, b, other = IDS[:3]
    first = [{"id": a, "text": TEXTS[0]}, {"id": b, "text": TEXTS[0]}, {"id": other, "text": OTHER}]
    index.add(first, on_duplicate="group")
    index.add([{"id": a, "text": OTHER}], on_duplicate="group")
    assert marks_of(index) == {a: (other, other), b: (a, a), other: (other, None)}
    index.add([{"id": other, "text": TEXTS[0]}], on_duplicate="group")
    assert marks_of(index) == {a: (other, other), b: (a, a), other: (other, None)}


@pytest.mark.on_every_server
def test_a_new_copy_is_shown_if_the_original_of_the_original_is_gone(index: esdedup.Index) -> None:
    """Each is a duplicate of the one before only."""
    texts = TEXTS[:5:2]
    for id, text in zip(IDS, texts, strict=False):
        index.add([{"id": id, "text": text}], on_duplicate="mark")
    first, second, third = IDS[:3]
    assert marks_of(index)[third] == (first, second)
    index.delete([first])
    index.add([{"id": IDS[5], "text": texts[2]}], on_duplicate="mark")
    assert marks_of(index)[IDS[5]] == (first, None)


NAMES = st.sampled_from("abcdef")


@given(marks=st.lists(st.tuples(NAMES, st.none() | NAMES, NAMES, NAMES), max_size=20))
def test_chains_lead_where_the_marks_of_now_lead(
    marks: list[tuple[str, str | None, str, str]],
) -> None:
    originals = dict[str, str | None]()
    with open_index(":memory:") as index:
        chains = Chains(index.store, "esdedup", "abcdef", {})
        for name, original, first, other in marks:
            chains.mark(name, original)
            originals[name] = original
            links = [first]
            while (link := originals.get(links[-1])) is not None and link not in links:
                links.append(link)
            assert chains.lead(first, other) == (other in links)
            assert chains.are_broken(first) == (link is not None)


def test_a_long_chain_is_not_walked_for_each_document() -> None:
    names = [f"r{number}" for number in range(20_000)]
    with open_index(":memory:") as index:
        chains, began = Chains(index.store, "esdedup", names, {}), time.process_time()
        for original, name in itertools.pairwise(names):
            chains.mark(name, original)
            assert not chains.lead(name, "new")
            assert not chains.are_broken(name)
    assert time.process_time() - began < 5  # It takes a minute if each is walked.


def test_long_chains_are_read_in_part(index: esdedup.Index) -> None:
    """A stored document may be the end that is not read, a new one is not."""
    ids = [f"r{number}" for number in range(40)]
    index.add([{"id": id, "text": id} for id in ids])
    marked = [
        Change(document, {"esdedup": {"original": original}})
        for document, original in zip(index.store.hold(ids[1:]), ids, strict=False)
    ]
    assert index.store.change(marked).failures == []
    chains = Chains(index.store, "esdedup", [ids[0], "new"], {ids[0]: None})
    chains.read({ids[-1]: ids[-2]})
    assert chains.lead(ids[-1], ids[-3])
    assert chains.lead(ids[-1], ids[0])
    assert not chains.lead(ids[-1], "new")
    assert not chains.are_broken(ids[-1])
    # More of it is read each time.
    for _ in range(3):
        chains.read({ids[-1]: ids[-2]})
    assert not chains.are_broken(ids[-1])
    chains.mark(ids[0], ids[20])
    assert chains.are_broken(ids[-1])
