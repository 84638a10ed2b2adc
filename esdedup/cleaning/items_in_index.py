"""Find the documents of an index that contain items, such as those of a benchmark.

The index is not read: passages of the items recall the documents to compare.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from esdedup.cleaning.contained import ContainedItems, Containment, groups_by_item
from esdedup.cleaning.job import Assignment, Reporter
from esdedup.cleaning.removals import Removals
from esdedup.cleaning.report import CleanReport
from esdedup.cleaning.sketching import sketch_into
from esdedup.compare.columns import columns_by_number
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.index import Index
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import documents_of
from esdedup.records.files import Chunk, Record
from esdedup.runs.run import Run
from esdedup.runs.shares import Shares, StoredShare
from esdedup.search.similar import sharing
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import read_judgements


@dataclass(frozen=True)
class Items:
    """The records of files that documents may contain.

    names: of the files.
    chunks: the records.
    text_fields: of the records.
    id_field: of the records, or None.
    dead_letter: called with each record that is no item.
    """

    names: Sequence[str]
    chunks: Iterable[Chunk]
    text_fields: Sequence[str]
    id_field: str | None
    dead_letter: DeadLetter


def find_in_index(
    run: Run, index: Index, fraction: float, items: Items, reporter: Reporter
) -> tuple[Removals, CleanReport, Groups]:
    """Find the documents of an index that contain an item. In the groups, each follows its item.

    fraction: least part of an item's words that a document has. Counts of the report are also
    candidates: the documents compared; items of which tokens were `stopped`, or candidates
    `truncated`; and guarantee: by how many words of an item in a row documents are always found, 0
    if items are stopped or truncated. Raises UsageError for an index without passages.
    """
    store, sketch = index.store, _passages_of(index)
    # Shorter passages are looked up too.
    grouping = Grouping(Limits(sketch.name, cover=fraction, words=1))
    documents = store.statistics(index.meta).sketched
    scheme = index.meta_of(grouping.limits).scheme.only(sketch)
    plan = Plan.of_texts(scheme, grouping.limits, text_fields=items.text_fields)
    candidates = _Candidates(index, plan, items)
    containment = Containment(scheme, fraction, among=documents)
    search = ContainedItems(candidates, plan, reporter, containment)
    search.sketch(Assignment.whole(run))
    removed = search.decide(run)
    removals, report = removed.removals, removed.report
    losses = candidates.losses
    counts = {
        **(report.contained or {}),
        "candidates": len(candidates.ids),
        **losses,
        "guarantee": 0 if any(losses.values()) else sketch.passage,
    }
    report = replace(
        report,
        documents=documents,
        kept=documents - report.removed,
        recall=None,
        bytes_kept=None,
        words_kept=None,
        contained=counts,
    )
    return removals, report, _groups_of(removals, index, grouping, plan)


def _passages_of(index: Index) -> Sketch:
    """Return the sketch of passages of an index. Raises UsageError if it has none."""
    sketch = next((sketch for sketch in index.scheme.sketches if sketch.passage), None)
    if sketch is None:
        raise UsageError(
            f"items are found by passages: index the documents of {index.store.where} with"
            f" `passages`; in a cluster, run `esdedup switch -i {index.location.index}` with"
            " `passages`"
        )
    return sketch


class _Candidates:
    """The documents of an index that share passages with items.

    ids: of those so far.
    losses: numbers of items of which tokens were stopped, or candidates truncated.
    """

    def __init__(self, index: Index, plan: Plan, items: Items) -> None:
        self._index, self._plan, self._items = index, plan, items
        self.names = [*items.names, index.store.where]
        self.earlier = len(items.names)
        self.parameters: Mapping[str, object] = {}
        self.ids = set[str]()
        self.losses = Counter(stopped=0, truncated=0)

    def sketch(self, plan: Plan, task: Assignment, reporter: Reporter) -> None:
        """Write the sketches of the items, and of the documents."""
        items = self._items
        source = FileSource(
            plan, self.chunks(), items.dead_letter, items.id_field, is_numbered=True
        )
        sketch_into(Shares(task.run), source, self.names, lambda _: None)

    def earlier_shares(self, _: Reporter) -> list[StoredShare]:
        """Return no sketches of earlier runs."""
        return []

    def chunks(self) -> Iterator[Chunk]:
        """Yield the items, and then the documents."""
        texts = list[str]()
        for chunk in self._items.chunks:
            records = [*chunk.records()]
            items, _ = documents_of(records, self._plan.meta, self._items.id_field, stored=False)
            texts.extend(item.text for item in items)
            yield Chunk(partial(list, records))
        store, meta = self._index.store, self._index.meta_of(self._plan.limits)
        for queries, answers in sharing(store, meta, texts, self._plan.limits):
            self.losses["stopped"] += sum(query.stopped > 0 for query in queries)
            self.losses["truncated"] += sum(answer.truncated for answer in answers)
            sources = {
                document.id: document.source
                for answer in answers
                for document in answer.documents
                if document.id not in self.ids
            }
            first_line = len(self.ids) + 1
            self.ids.update(sources)
            field = self._items.text_fields[0]
            records = [
                Record(store.where, line, {field: text_at(source, meta.text_fields)}, id)
                for line, (id, source) in enumerate(sources.items(), first_line)
            ]
            yield Chunk(partial(list, records))


def _groups_of(removals: Removals, index: Index, grouping: Grouping, plan: Plan) -> Groups:
    """Return groups in which each document follows the item that it contains most of."""
    shares = removals.corpus.shares
    groups = groups_by_item(removals, columns_by_number(shares, plan), grouping, plan)
    ids = shares.ids_of(np.arange(removals.corpus.rows.size))
    judgements = read_judgements(index.store, index.meta_of(grouping.limits))
    return replace(groups, ids=ids, judgements=judgements, outside=True)
