"""Find the groups of near-duplicates of a whole index.

Documents are sorted by the keep rule (`keep_rule`): the first of a group is its representative, the
others are its duplicates. `scan` reads all tokens once, `candidates` pairs the documents that share
enough of them, `verify` computes exact similarities, and `union_find` joins similar pairs.
Equal texts are one row from the start. Memory grows with the documents, not with their pairs.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from esdedup.arguments import check_fields, excluding, for_use, parsed_by, setting
from esdedup.compare.candidates import CandidatePairs, candidates_of
from esdedup.compare.columns import Columns
from esdedup.compare.keep_rule import KeepRule, Unordered, before_others, rows_of
from esdedup.compare.plan import Basis, Plan, plan_for
from esdedup.compare.source import JUDGEMENTS, read_store, sketched, texts_in
from esdedup.compare.union_find import follow, singletons
from esdedup.compare.verify import nearness_of
from esdedup.exceptions import UsageError
from esdedup.groups.constraints import JudgedCounts, constrained
from esdedup.groups.templates import split_templates
from esdedup.runs.run import OnStep, Run
from esdedup.search.buckets import Capped
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import ACTING, Limits, PairSettings
from esdedup.sketch.measures import Measure
from esdedup.sketch.sketch import digest_of_words
from esdedup.stores.base import Store
from esdedup.stores.judgements import Judgements, judged_elsewhere, read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.tabular import Tabular
from esdedup.text.arrays import F64, I64, U64, Mask, run_starts
from esdedup.text.strings import Strings

Method = Literal["components", "leader"]
_MOST_REGROUPED = 1_000
_ROWS_AT_ONCE = 1 << 20


class GroupingSettings(PairSettings, total=False):
    """The settings of `Grouping` and of its `Limits`, as keywords of a call."""

    method: Method
    keep: KeepRule | str
    exact: bool
    split_templates: bool


@dataclass(frozen=True)
class Grouping:
    """How documents are grouped.

    limits: which documents are similar.
    method: "leader" processes documents in their order of precedence: each joins its nearest
    leader, or becomes one, so every duplicate is similar to its representative. "components" joins
    all documents that a chain of similar documents connects. By passages it is "leader": if one
    document holds the next one of a chain, the first need not hold the last.
    keep: which document of a group is its representative. "auto" is "first", and by passages
    "most-words".
    exact: group only equal normalised texts; the limits do not matter then.
    split_templates: separate documents of one template that differ in its places (`templates`).

    Raises UsageError for an unknown method, and if templates are to be split without similarities.
    """

    limits: Limits = for_use(
        "pairs", setting(Limits(threshold=ACTING), "Which documents are similar.")
    )
    method: Method = setting(
        "leader",
        "leader: duplicates are within the threshold of their representative; components: a chain"
        " of similar documents forms one group, but by passages as leader.",
        rare=True,
    )
    keep: KeepRule = parsed_by(
        KeepRule.parse,
        setting(
            KeepRule("auto"),
            "The representative: first or last (by id), oldest:FIELD, newest:FIELD, lowest:FIELD,"
            " highest:FIELD, first:FIELD, last:FIELD, longest, shortest, most-words.",
            metavar="RULE",
            show_default="first; by passages most-words",
        ),
    )
    exact: bool = excluding(
        ("sketch", "threshold", "distance"),
        setting(False, "Group only equal texts, after normalisation."),
    )
    split_templates: bool = setting(False, "Separate documents that fill one template differently.")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.split_templates and self.exact:
            raise UsageError("`split_templates` can't be combined with `exact`")

    def of(self, sketch: Sketch | None) -> "Grouping":
        """Return how documents are grouped by a sketch; None for equal texts alone.

        Raises UsageError if documents that are compared by the sketch can't be grouped so.
        """
        if sketch is not None and sketch.measure.by_values and self.split_templates:
            raise UsageError("`split_templates` can't be combined with a sketch of fingerprints")
        directed = sketch is not None and sketch.measure.directed
        keep, method = self.keep, self.method
        if keep.by == "auto":
            # A document that holds another one has its words, and perhaps more.
            keep = KeepRule("words", last=True) if directed else KeepRule()
        return replace(self, keep=keep, method="leader" if directed else method)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of all parameters."""
        own = asdict(self) | {"keep": str(self.keep)}
        return {**own.pop("limits"), **own}


@dataclass(frozen=True)
class Member:
    """A duplicate in a group.

    id: of the document.
    value: exact Jaccard similarity or Hamming distance to the representative, or by passages the
    share of its words that the representative holds.
    measure: of the value.
    """

    id: str
    value: float
    measure: Measure

    @property
    def similarity(self) -> float | None:
        """The similarity, or the share by passages; None if grouped by Hamming distance."""
        return self.measure.similarity(self.value)

    @property
    def distance(self) -> int | None:
        """The Hamming distance; None for another measure."""
        return self.measure.distance(self.value)


@dataclass(frozen=True)
class Group:
    """The id of the representative of two or more similar documents, and its duplicates.

    members: in their order of precedence.
    """

    representative: str
    members: list[Member]


@dataclass(frozen=True, repr=False)
class Groups(Tabular):
    """All documents with tokens, in their order of precedence, each with its representative.

    Iterates over the groups of two or more, the largest first, then by precedence. As a table it
    has a row for each of their documents.

    grouping: with the distance that was used.
    ids: of n documents. digests: of their texts, as `digest_words` returns them, shape (n, 2).
    representative: row of each document's representative, which may be its own, shape (n,).
    value: similarity or distance to it, nan for a representative itself, shape (n,).
    measure: of the values.
    capped: buckets of which not all pairs were compared.
    recall: expected share found of the pairs at the threshold; None if buckets are stopped or
    capped, since how many pairs share only these depends on the texts.
    judged: counts of the judgements that were respected when all groups were found. judgements:
    those that the groups were formed by. outside: representatives are no documents of the index.
    unordered: documents that the keep rule can't compare. unreadable: number of documents with
    tokens that are not among these, because their digest or tokens can't be read.
    """

    grouping: Grouping
    ids: Sequence[str]
    digests: U64
    representative: I64
    value: F64
    measure: Measure
    capped: Capped
    recall: float | None
    basis: Basis
    judged: JudgedCounts = JudgedCounts()  # noqa: RUF009
    judgements: Judgements = Judgements()  # noqa: RUF009
    outside: bool = False
    unordered: Unordered = Unordered()  # noqa: RUF009
    unreadable: int = 0

    columns: ClassVar[dict[str, str]] = {
        "group": "string", "id": "string", "similarity": "double", "distance": "int64",
    }  # fmt: skip

    def __len__(self) -> int:
        return self.heads.size

    def __repr__(self) -> str:
        return f"<Groups: {len(self)} of {len(self.ids)} documents, {self.duplicates} duplicates>"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the figures, without the groups."""
        sizes, numbers = np.unique(self.sizes, return_counts=True)
        return {
            "documents": len(self.ids),
            "groups": len(self),
            "duplicates": self.duplicates,
            "sizes": dict(zip(map(str, sizes.tolist()), numbers.tolist(), strict=True)),
            "capped_buckets": self.capped.buckets,
            "capped_largest": self.capped.largest,
            "expected_recall": self.recall,
            **asdict(self.basis),
            "judged": asdict(self.judged),
            "unordered": asdict(self.unordered),
        }

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        for group in self:
            yield group.representative, group.representative, None, None
            for each in group.members:
                yield group.representative, each.id, each.similarity, each.distance

    @cached_property
    def heads(self) -> I64:
        """Return the rows of the heads of groups of two or more, the largest group first."""
        counts = np.bincount(self.representative)
        heads = np.flatnonzero(counts > 1)
        return heads[np.argsort(-counts[heads], kind="stable")]

    @property
    def sizes(self) -> I64:
        """Return the number of documents of each group, in the order of `heads`."""
        return np.bincount(self.representative)[self.heads]

    @property
    def duplicate_rows(self) -> I64:
        """The rows of the documents that are not representatives, ascending."""
        return np.flatnonzero(self.representative != np.arange(len(self.ids)))

    @property
    def unlike(self) -> Mask:
        """Mark the documents that are not similar enough to their representative, shape (n,)."""
        nearness = self.measure.nearnesses(self.value)
        return nearness < self.measure.nearness(self.farthest)

    @property
    def farthest(self) -> float:
        """The value of the least similar documents that the limits of the grouping allow."""
        exact, limits = self.grouping.exact, self.grouping.limits
        return self.measure.equal if exact else self.measure.limit_of(limits)

    @property
    def duplicates(self) -> int:
        """The number of documents that are not representatives."""
        return self.duplicate_rows.size

    def __iter__(self) -> Iterator[Group]:
        rows = self.duplicate_rows
        rows = rows[np.argsort(self.representative[rows], kind="stable")]
        starts = np.searchsorted(self.representative[rows], self.heads).tolist()
        columns = self.heads.tolist(), self.sizes.tolist(), starts
        for head, size, start in zip(*columns, strict=True):
            followers = rows[start : start + size - 1].tolist()
            yield Group(self.ids[head], [self.member(row) for row in followers])

    def member(self, row: int) -> Member:
        """Return the duplicate of a row."""
        return Member(self.ids[row], float(self.value[row]), self.measure)

    def digest(self, row: int) -> str:
        """Return the digest of a row's text, as it was read."""
        return digest_of_words(self.digests[row])


def find_groups(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    work: Run | None = None,
    on_step: OnStep | None = None,
) -> Groups:
    """Return the groups of all documents with tokens, as `Index.groups`.

    Texts without shingles are only equal to others. Judgements about the index are respected
    (`constraints`); documents that were chosen as representatives precede all others.
    """
    step = on_step or (lambda *_: None)
    grouping = grouping.of(None if grouping.exact else meta.scheme.for_pairs(grouping.limits))
    plan = Plan(meta, None, grouping.keep)
    if not grouping.exact or meta.scheme.by_server:
        plan = plan_for(meta, grouping.limits, grouping.keep)
    if grouping.exact:
        plan = replace(plan, sketch=None)
    judgements = read_judgements(store, meta)
    plan = replace(plan, first=judgements.representatives)
    parameters = {**grouping.to_json(), JUDGEMENTS: judgements.acting}
    with Run.temporary() if work is None else nullcontext(work) as run:
        columns = read_store(store, plan, run, parameters, step)
        found = groups_among(columns, plan, grouping, run.folder, step, judgements)
        elsewhere = judged_elsewhere(store)
        return replace(found, judged=replace(found.judged, elsewhere=elsewhere))


def groups_among(
    columns: Columns,
    plan: Plan,
    grouping: Grouping,
    folder: Path,
    step: OnStep,
    judgements: Judgements = Judgements(),  # noqa: B008
    leaders: int = 0,
) -> Groups:
    """Return the groups of documents that were read.

    folder: for buckets, which are mapped from files. leaders: number of first rows that are
    not compared with each other, so that each may represent later ones.
    """
    job = _GroupRun(plan, grouping, columns, judgements, step, folder)
    candidates = CandidatePairs([])
    if not grouping.exact:
        rows, limits = job.classes.compared, grouping.limits
        candidates = candidates_of(plan, columns, rows, limits, folder)
    if leaders:
        first = int(np.searchsorted(job.classes.compared, leaders))
        later = ((done, left, right, right >= first) for done, left, right in candidates.blocks)
        some = ((done, left[kept], right[kept]) for done, left, right, kept in later)
        candidates = candidates._replace(blocks=some)
    return job.groups(candidates)


def regroup(store: Store, meta: IndexMeta, groups: Groups, ids: Sequence[str]) -> Groups:
    """Form the groups of some documents again, as `Index.regroup`. All of them are compared.

    Raises UsageError if templates were split.
    """
    if groups.grouping.split_templates:
        raise UsageError("templates are split among all documents: find all groups again")
    heads = np.unique(groups.representative[rows_of(groups.ids, ids)])
    rows = np.flatnonzero(np.isin(groups.representative, heads))
    if rows.size > _MOST_REGROUPED:
        raise UsageError(
            f"these groups have {rows.size:,} documents, and at most {_MOST_REGROUPED:,} are formed"
            " again by themselves: find all groups again"
        )
    judgements = read_judgements(store, meta)
    rows = before_others(rows, groups.ids, judgements.representatives)
    grouping, names = groups.grouping, [groups.ids[row] for row in rows.tolist()]
    scheme = meta.scheme.for_texts(grouping.limits) if meta.scheme.by_server else meta.scheme
    chosen = None if grouping.exact else scheme.chosen(grouping.limits)
    texts = texts_in(store, meta.text_fields)(names)
    part = sketched(Strings.of(names), texts, Plan(meta, chosen, sketching=scheme))
    columns = Columns.of(part, texts)
    job = _GroupRun(Plan(meta, chosen), grouping, columns, judgements, lambda *_: None)
    right, left = np.tril_indices(job.classes.filled, -1)
    every = [(job.classes.filled, left, right)] if right.size and not grouping.exact else []
    found = job.groups(CandidatePairs(every))
    digests, representative = groups.digests.copy(), groups.representative.copy()
    value = groups.value.copy()
    digests[rows], value[rows] = found.digests, found.value
    representative[rows] = rows[found.representative]
    # The present judgements replace those among these documents.
    own, then = {*names}, groups.judgements
    judged = [each for each in then.pairs if not {each.left, each.right} <= own]
    judged += [each for each in judgements.pairs if {each.left, each.right} <= own]
    heading = [id for id in then.representatives if id not in own]
    heading += [id for id in judgements.representatives if id in own]
    return replace(
        groups,
        digests=digests,
        representative=representative,
        value=value,
        judgements=Judgements(tuple(judged), tuple(heading)),
    )


def joined_though_unlike(grouping: Grouping, judged: JudgedCounts) -> str:
    """Return why duplicates are in a group though they differ from its representative."""
    chain = "a chain of similar documents"
    unlike = "less similar to the representative than the threshold"
    if grouping.method == "leader" or grouping.exact:
        return f"joined by judgements, and {unlike}"
    by = f"{chain} or by judgements" if judged.duplicates else chain
    return f"joined by {by}, and {unlike}: `method` leader leaves them out"


class _GroupRun:
    """Group documents that were read.

    partner: the first row that was found similar to each, or its own. value: nearness to it.
    """

    def __init__(
        self,
        plan: Plan,
        grouping: Grouping,
        columns: Columns,
        judgements: Judgements,
        step: OnStep,
        folder: Path | None = None,
    ) -> None:
        self._plan, self._columns = plan, columns
        self._judgements, self._step = judgements, step
        if plan.sketch is not None:
            grouping = replace(grouping, limits=plan.sketch.settled(grouping.limits))
        self._grouping = grouping = grouping.of(plan.sketch)
        self._least = plan.least(grouping.limits)
        self.classes, self._constraints = constrained(
            judgements, columns.ids, columns.digests, columns.filled
        )
        if folder is not None:
            self.classes = self.classes.in_files(folder)
        filled = self.classes.filled
        self._apart = self._constraints.apart(filled)
        self._partition, self._partner = singletons(filled), singletons(filled)
        self._value = np.zeros(filled)
        self._compared = nearness_of(plan, columns, self.classes.compared, grouping.limits)

    def _nearness(self, left: I64, right: I64) -> F64:
        """Return how near right rows are to left ones, or how much of them these hold."""
        nearness: F64 = self._compared(left, right)[-1]
        return nearness

    def groups(self, candidates: CandidatePairs) -> Groups:
        """Compare the candidates, and return the groups."""
        rows, constraints = self.classes.compared, self._constraints
        constraints.link(self._partition)
        leading = self._grouping.method == "leader"
        group = self._follow_leaders if leading else self._join_components
        for done, left, right in candidates.blocks:
            group(left, right)
            self._step("Comparing", done, rows.size)
        partition = self._partition = self._partition[self._partition]
        value = self._value
        if self._grouping.split_templates:
            texts, scheme = self._columns.texts_of, self._plan.compared.scheme
            partition = split_templates(partition, lambda some: texts(rows[some])(), scheme)
            if leading:
                self._lead_again(partition)
            constraints.link(partition)
        # In a component, the row that a row was compared with may not be the representative.
        unknown = np.flatnonzero(self._partner != partition)
        value[unknown] = self._nearness(partition[unknown], unknown)
        return self._groups(partition, value, candidates)

    def _lead_again(self, partition: I64) -> None:
        """Let the first row that is not similar to its leader lead the others, in place."""
        rows = np.flatnonzero(partition != np.arange(partition.size))
        while rows.size:
            rows = rows[self._nearness(partition[rows], rows) < self._least]
            _, first, group = np.unique(partition[rows], return_index=True, return_inverse=True)
            partition[rows] = rows[first[group]]
            rows = rows[partition[rows] != rows]

    def _note(self, left: I64, right: I64, value: F64) -> None:
        """Keep the values of similar pairs, sorted by right and then left."""
        first = np.flatnonzero(run_starts(right))
        fresh = first[left[first] < self._partner[right[first]]]
        self._partner[right[fresh]] = left[fresh]
        self._value[right[fresh]] = value[fresh]

    def _join_components(self, left: I64, right: I64) -> None:
        """Join the groups of the similar pairs of a block."""
        # The first pair of each row joins most of a group. Pairs within a group need no comparison.
        is_first = run_starts(right)
        # Where some can't link, the nearest pairs of all come first.
        apart = self._constraints.near_cannot(self._partition, left, right)
        for chosen in (is_first & ~apart, ~is_first & ~apart, apart):
            compared = chosen & (self._partition[left] != self._partition[right])
            one, other = left[compared], right[compared]
            value = self._nearness(one, other)
            near = value >= self._least
            self._constraints.join(self._partition, one[near], other[near], value[near])
            self._note(one[near], other[near], value[near])

    def _follow_leaders(self, left: I64, right: I64) -> None:
        """Let the right rows of a block follow their nearest leaders."""
        # Earlier followers can't lead. The rows of this block are undecided, and can. Rows that
        # must link with an earlier one follow it.
        undecided = (self._partition[left] == left) & (self._partition[right] == right)
        left, right = left[undecided], right[undecided]
        value = self._nearness(left, right)
        near = value >= self._least
        left, right, value = left[near], right[near], value[near]
        follow(self._partition, left, right, value, self._apart)
        chosen = self._partition[right] == left
        self._note(left[chosen], right[chosen], value[chosen])

    def _groups(self, partition: I64, value: F64, candidates: CandidatePairs) -> Groups:
        """Return the groups. partition, nearness: of the compared classes, shape (filled,)."""
        classes, columns, constraints = self.classes, self._columns, self._constraints
        rows = len(columns.ids)
        alone = np.arange(classes.filled, classes.rows.size)
        partition = np.concatenate([partition, alone])
        # Texts without words are not compared, and can be judged: they differ in all bits.
        measure = self._plan.measure
        different = measure.no_nearness(len(columns.values))
        value = np.concatenate([value, np.full(alone.size, different)])
        without_words = constraints.must[constraints.must[:, 1] >= classes.filled]
        partition[without_words[:, 1]] = partition[without_words[:, 0]]
        representative = np.arange(rows)
        values = np.full(rows, measure.equal)
        for start in range(0, rows, _ROWS_AT_ONCE):
            classed = start + np.flatnonzero(classes.of[start : start + _ROWS_AT_ONCE] >= 0)
            of = classes.of[classed]
            representative[classed] = classes.rows[partition[of]]
            joined = partition[of] != of
            values[classed[joined]] = np.abs(value[of[joined]])
        values[representative == np.arange(rows)] = np.nan
        return Groups(
            self._grouping,
            columns.ids,
            columns.digests,
            representative,
            values,
            measure,
            candidates.capped,
            candidates.recall,
            self._plan.basis,
            constraints.counts,
            self._judgements,
            unordered=columns.unordered,
            unreadable=columns.unreadable,
        )
