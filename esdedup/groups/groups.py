"""Find the groups of near-duplicates of a whole index.

Documents are sorted by the keep rule (`keep_rule`): the first of a group is its representative, the
others are its duplicates. `scan` reads all tokens once, `candidates` pairs the documents that share
enough of them, `verify` computes exact similarities, and `union_find` joins similar pairs.
Equal texts are one row from the start. Memory grows with the documents, not with their pairs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, overload

import numpy as np

from esdedup.arguments import check_fields, excluding, for_use, parsed_by, repeatable, setting
from esdedup.compare.candidates import Classes, candidates_of
from esdedup.compare.columns import Columns
from esdedup.compare.keep_rule import KeepRule, Unordered, before_others, rows_of
from esdedup.compare.labels import compared, label_at
from esdedup.compare.plan import Basis, Plan
from esdedup.compare.resources import DEFAULT_MEMORY, Resources, no_step
from esdedup.compare.source import (
    JUDGEMENTS,
    RecordSource,
    StoreSource,
    known_digest_words,
    read_store,
    records_in,
)
from esdedup.compare.union_find import follow, singletons
from esdedup.compare.verify import verifier_of
from esdedup.exceptions import UsageError
from esdedup.groups.conflicts import Conflicts, conflicts_among
from esdedup.groups.constraints import Constraints, JudgedCounts, constrained
from esdedup.groups.templates import split_templates
from esdedup.models import Unattached
from esdedup.runs.places import place_in, repeated_in
from esdedup.runs.run import OnStep, Run
from esdedup.search.buckets import Capped
from esdedup.search.scopes import changed_in_scope, scope_paths, warning_of_missing
from esdedup.search.warnings import missing_pairs, warning_of_blank
from esdedup.sketch.limits import ACTING, Limits, PairSettings
from esdedup.sketch.measures import Measure
from esdedup.sketch.sketch import digest_of_words
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.judgements import (
    Judgement,
    Judgements,
    judged_digests,
    judged_elsewhere,
    read_judgements,
)
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
    keep: KeepRule | str | Sequence[str]
    exact: bool
    split_templates: bool
    conflict: str | None


@dataclass(frozen=True)
class Grouping:
    """How documents are grouped.

    limits: which documents are similar.
    method: "leader" processes documents in their order of precedence: each joins its nearest
    leader, or becomes one, so every duplicate is similar to its representative. "components" joins
    all documents that a chain of similar documents connects. By passages it is "leader": if one
    document holds the next one of a chain, the first need not hold the last.
    keep: which document of a group is its representative. "auto" is "first", and by passages
    "most-words". Of several rules, each decides the ties of the one before it.
    exact: group only equal normalised texts; the limits do not matter then.
    split_templates: separate documents of one template that differ in its places (`templates`).
    conflict: a field; groups whose documents have different values of it are left whole: none of
    them is a duplicate (`conflicts`).

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
    keep: KeepRule = repeatable(
        parsed_by(
            KeepRule.parse,
            setting(
                KeepRule("auto"),
                "The representative: first or last (by id; of files, by place), oldest:FIELD,"
                " newest:FIELD, lowest:FIELD, highest:FIELD, first:FIELD, last:FIELD,"
                " first:FIELD=VALUE,VALUE, longest, shortest, most-words; may be repeated, for"
                " ties.",
                metavar="RULE",
                show_default="first; by passages most-words",
            ),
        )
    )
    exact: bool = excluding(
        ("sketch", "threshold", "distance"),
        setting(False, "Group only equal texts, after normalisation."),
    )
    split_templates: bool = setting(False, "Separate documents that fill one template differently.")
    conflict: str | None = setting(
        None, "Leave groups whole that differ in this field.", metavar="FIELD", rare=True
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.split_templates and self.exact:
            raise UsageError("`split_templates` can't be combined with `exact`")

    def by(self, plan: Plan) -> "Grouping":
        """Return the grouping with what a plan decides: its limits and keep rule, and the method.

        Raises UsageError if documents can't be grouped so by the plan.
        """
        if plan.measure.by_values and self.split_templates:
            raise UsageError("`split_templates` can't be combined with a sketch of fingerprints")
        method: Method = "leader" if plan.measure.directed else self.method
        return replace(self, limits=plan.limits, keep=plan.keep, method=method)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of all parameters."""
        settings = asdict(self)
        limits = settings.pop("limits")
        within = self.limits.within
        del limits["within"]
        scope = {"within": within.to_json()} if within else {}
        conflict = settings.pop("conflict")
        # Runs and logs without a field are those of versions that do not know it.
        of_conflict = {"conflict": conflict} if conflict is not None else {}
        return {**limits, **settings, "keep": str(self.keep), **scope, **of_conflict}


@dataclass(frozen=True)
class Member:
    """A duplicate in a group.

    id: of the document.
    value: exact Jaccard similarity or Hamming distance to the representative, or by passages the
    share of its words that the representative holds.
    measure: of the value.
    index: that `id` begins with, as several indices behind the name have it; None if one has it.
    """

    id: str
    value: float
    measure: Measure
    index: str | None = None

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
    index: that `representative` begins with, as of `Member`.
    """

    representative: str
    members: list[Member]
    index: str | None = None


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
    tokens that are not among these, because their digest or tokens can't be read. unscoped: number
    of documents that lack a value of the scope, and are in no group. blank: number of documents
    with a blank fingerprint, likewise. conflicts: the groups that are left whole, whose documents
    are representatives of themselves. unattached: indices behind the name whose documents are in no
    group. labels: of all documents, as `labels_of` returns them; None if labels are not compared.
    scope_words: of all documents, as `scope_words` returns them; None if all are in one scope.
    judged_digests: of the texts that judgements are of, as `Columns.judged`; None if these are
    `digests`.
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
    unscoped: int = 0
    blank: int = 0
    conflicts: Conflicts = Conflicts()  # noqa: RUF009
    unattached: Unattached = Unattached()  # noqa: RUF009
    labels: Strings | None = None
    scope_words: U64 | None = None
    judged_digests: U64 | None = None

    columns: ClassVar[dict[str, str]] = {
        "group": "string", "id": "string", "similarity": "double", "distance": "int64",
    }  # fmt: skip

    def __len__(self) -> int:
        return self.heads.size

    def __repr__(self) -> str:
        return f"<Groups: {len(self)} of {len(self.ids)} documents, {self.duplicates} duplicates>"

    def warnings(self, limits: Limits) -> list[str]:
        """Return which judgements were respected, and warnings of pairs that may be missing.

        limits: of the comparison.
        """
        judged = f"Judged pairs: {self.judged}" if str(self.judged) else None
        unscoped = warning_of_missing(limits.within, self.unscoped)
        missing = missing_pairs(self.recall, self.capped, limits)
        blank = warning_of_blank(self.blank)
        return [*filter(None, [judged, unscoped, blank, self.conflicts.warning]), *missing]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the figures, without the groups."""
        sizes, numbers = np.unique(self.sizes, return_counts=True)
        within = self.grouping.limits.within
        scope = {"within": within.to_json(), "unscoped": self.unscoped} if within else {}
        conflicts: dict[str, object] = {}
        if self.grouping.conflict is not None:
            conflicts = {"conflicts": self.conflicts.to_json()}
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
            **scope,
            **({"blank": self.blank} if self.blank else {}),
            **({"unattached": [*self.unattached.indices]} if self.unattached else {}),
            **conflicts,
        }

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        for group in self:
            yield group.representative, group.representative, None, None
            for member in group.members:
                yield group.representative, member.id, member.similarity, member.distance

    @property
    def compared_paths(self) -> list[str]:
        """The fields of scopes and labels, which `changed_fields` reads."""
        conflict, scope = self.grouping.conflict, scope_paths(self.grouping.limits.within)
        return [*dict.fromkeys([*map(str, scope), *([] if conflict is None else [conflict])])]

    def changed_fields(self, row: int, source: Mapping[str, object]) -> list[str]:
        """Return the fields of its scope and label that a document has other values of by now.

        source: its fields now, with times as they were compared. A label that a document lacked is
        the same if it is that of its group.
        """
        fields = list[str]()
        if self.scope_words is not None:
            former = self.scope_words[row].tolist()
            fields += changed_in_scope(self.grouping.limits.within, former, source)
        conflict = self.grouping.conflict
        if conflict is not None and self.labels is not None:
            label = compared(value_at(source, conflict))
            former_label = compared(label_at(self.labels, row))
            head = int(self.representative[row])
            if label != (former_label or (label and self._labels_of_groups.get(head, ()))):
                fields.append(conflict)
        return [*dict.fromkeys(fields)]

    @cached_property
    def _labels_of_groups(self) -> Mapping[int, tuple[str, ...]]:
        """The labels of the groups whose documents have one, by the rows of their heads."""
        labels: dict[int, tuple[str, ...]] = {}
        if self.labels is not None:
            for row in np.union1d(self.heads, self.duplicate_rows).tolist():
                if label := compared(label_at(self.labels, row)):
                    labels.setdefault(int(self.representative[row]), label)
        return labels

    @cached_property
    def repeated(self) -> int:
        """The number of documents whose id is in several indices."""
        return repeated_in(self.ids)

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
    def reason_of_unlike(self) -> str:
        """Why documents are in a group though they differ from its representative."""
        return joined_though_unlike(self.grouping, self.judged)

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
        return self._groups(slice(None))

    @overload
    def __getitem__(self, row: int) -> Group: ...
    @overload
    def __getitem__(self, row: slice) -> list[Group]: ...
    def __getitem__(self, row: int | slice) -> Group | list[Group]:
        if isinstance(row, slice):
            return [*self._groups(row)]
        position = range(len(self))[row]
        return next(self._groups(slice(position, position + 1)))

    def _groups(self, chosen: slice) -> Iterator[Group]:
        """Yield groups in their order. chosen: which of them."""
        rows = self.duplicate_rows
        rows = rows[np.argsort(self.representative[rows], kind="stable")]
        heads, sizes = self.heads[chosen], self.sizes[chosen]
        starts = np.searchsorted(self.representative[rows], heads).tolist()
        columns = heads.tolist(), sizes.tolist(), starts
        for head, size, start in zip(*columns, strict=True):
            followers = rows[start : start + size - 1].tolist()
            members = [self.member(row) for row in followers]
            yield Group(self.ids[head], members, place_in(self.ids, head))

    def member(self, row: int) -> Member:
        """Return the duplicate of a row."""
        place = place_in(self.ids, row)
        return Member(self.ids[row], float(self.value[row]), self.measure, place)

    def digest(self, row: int) -> str:
        """Return the digest of the text that was read for a row."""
        return digest_of_words(self.digests[row])

    def judged_digest(self, row: int) -> str:
        """Return the digest of the judged text that was read for a row."""
        judged = self.digests if self.judged_digests is None else self.judged_digests
        return digest_of_words(judged[row])


def find_groups(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    work: Run | None = None,
    on_step: OnStep | None = None,
    memory: int = DEFAULT_MEMORY,
) -> Groups:
    """Return the groups of all documents with tokens, as `Index.groups`.

    memory: as of `Resources`.

    Texts without shingles are only equal to others. Judgements about the index are respected
    (`constraints`); documents that were chosen as representatives precede all others.
    """
    plan = Plan.of_index(meta, grouping.limits, grouping.keep, exact=grouping.exact)
    plan = plan.labelled(grouping.conflict).with_judged()
    grouping = grouping.by(plan)
    judgements = read_judgements(store, meta)
    job = {**grouping.to_json(), JUDGEMENTS: judgements.acting}
    with Run.temporary() if work is None else nullcontext(work) as run:
        resources = Resources(run.folder, on_step or no_step, memory)
        source = StoreSource(store, plan, first=judgements.representatives)
        columns = read_store(source, run, job, resources.on_step)
        if columns.judged is not None:
            columns = _with_judged_texts(columns, store, meta, judgements)
        groups = groups_among(columns, plan, grouping, resources, judgements)
    judged = replace(groups.judged, elsewhere=judged_elsewhere(store))
    return replace(groups, judged=judged, unattached=store.unattached())


def groups_among(
    columns: Columns,
    plan: Plan,
    grouping: Grouping,
    resources: Resources,
    judgements: Judgements = Judgements(),  # noqa: B008
) -> Groups:
    """Return the groups of documents that were read. grouping: by the plan (`Grouping.by`)."""
    classes, constraints = constrained(judgements, columns)
    classes = classes.in_files(resources.folder)
    resources.on_step("Comparing", 0, classes.filled)
    candidates = candidates_of(plan, columns, classes.compared, resources)
    forming = _Forming(columns, plan, grouping, classes, constraints, resources.memory)
    for rows_done, left, right in candidates.blocks:
        forming.add(left, right)
        resources.on_candidates(left.size)
        if rows_done < classes.filled:
            resources.on_step("Comparing", rows_done, classes.filled)
    formed = forming.groups()
    if columns.only_between:
        # Rows of equal text, and those that a template separated from an earlier row, are in a
        # group without any comparison between them.
        formed = _dissolved(formed, formed.representative >= columns.earlier)
    conflicts = Conflicts()
    if grouping.conflict is not None:
        assert columns.labels is not None
        conflicts = conflicts_among(
            grouping.conflict, columns.ids, formed.representative, columns.labels
        )
        formed = _dissolved(formed, np.isin(np.arange(len(columns.ids)), conflicts.rows))
    # Once, also if the last block has no candidate.
    resources.on_step("Comparing", classes.filled, classes.filled)
    return Groups(
        grouping,
        columns.ids,
        columns.digests,
        formed.representative,
        formed.value,
        plan.measure,
        candidates.capped,
        candidates.recall,
        plan.basis,
        constraints.counts,
        judgements,
        unordered=columns.unordered,
        unreadable=columns.unreadable,
        unscoped=columns.unscoped,
        blank=columns.blank(plan),
        conflicts=conflicts,
        labels=None if grouping.conflict is None else columns.labels,
        # A mapped array takes longer to return a row.
        scope_words=None if columns.scope_words is None else np.asarray(columns.scope_words),
        judged_digests=None if columns.judged is None else np.asarray(columns.judged),
    )


def regroup(store: Store, meta: IndexMeta, groups: Groups, ids: Sequence[str]) -> Groups:
    """Form the groups of some documents again, as `Index.regroup`. All of them are compared.

    Raises UsageError if templates were split, and if groups of different labels were left whole.
    """
    grouping = groups.grouping
    if grouping.conflict is not None:
        raise UsageError("labels are compared in whole groups: find all groups again")
    if grouping.split_templates:
        raise UsageError("templates are split among all documents: find all groups again")
    judgements = read_judgements(store, meta)
    rows = _rows_of_groups(groups, ids)
    rows = before_others(rows, groups.ids, judgements.representatives)
    ids_of_rows = [groups.ids[row] for row in rows.tolist()]
    plan = Plan.of_texts(
        meta.scheme, grouping.limits, text_fields=meta.text_fields, exact=grouping.exact
    )
    records = records_in(store, plan, ids_of_rows)
    (part,) = RecordSource(plan, [records]).parts()
    columns = Columns.of(part, records.texts, plan)
    if groups.judged_digests is not None:
        columns = replace(columns, judged=_judged_words(store, meta, ids_of_rows))
    classes, constraints = constrained(judgements, columns)
    forming = _Forming(columns, plan, grouping, classes, constraints)
    right, left = np.tril_indices(classes.filled, -1)
    if columns.scopes is not None:
        agree = columns.scopes.picked(classes.compared).agree(left, right)
        left, right = left[agree], right[agree]
    if not grouping.exact or columns.has_windows:
        forming.add(left, right)
    formed = forming.groups()
    digests, representative = groups.digests.copy(), groups.representative.copy()
    value = groups.value.copy()
    digests[rows] = columns.digests
    representative[rows] = rows[formed.representative]
    value[rows] = formed.value
    scope_words = groups.scope_words
    if scope_words is not None and columns.scope_words is not None:
        scope_words = scope_words.copy()
        scope_words[rows] = columns.scope_words
    judged = groups.judged_digests
    if judged is not None and columns.judged is not None:
        judged = judged.copy()
        judged[rows] = columns.judged
    return replace(
        groups,
        digests=digests,
        scope_words=scope_words,
        judged_digests=judged,
        representative=representative,
        value=value,
        judgements=_renewed(groups.judgements, judgements, {*ids_of_rows}),
    )


def _with_judged_texts(
    columns: Columns, store: Store, meta: IndexMeta, judgements: Judgements
) -> Columns:
    """Return columns that have, of judged documents, the digests of their texts as they are now.

    The stored digests that were read are of another text if a client wrote one without tokens.
    """
    ids = {id for judgement in judgements.pairs for id in (judgement.left, judgement.right)}
    rows = rows_of(columns.ids, ids)
    judged = np.array(columns.judged)
    judged[rows] = _judged_words(store, meta, [columns.ids[row] for row in rows.tolist()])
    return replace(columns, judged=judged)


def _judged_words(store: Store, meta: IndexMeta, ids: Sequence[str]) -> U64:
    """Return the digests of the judged texts of documents, as `Columns.judged`."""
    documents = store.get(ids, meta.judged_paths)
    digest_of = judged_digests(documents, meta, meta.scheme.normalisation)
    return known_digest_words([*map(digest_of.get, ids)])


def _rows_of_groups(groups: Groups, ids: Sequence[str]) -> I64:
    """Return the rows of all documents of some groups. Raises UsageError for too many."""
    representatives = np.unique(groups.representative[rows_of(groups.ids, ids)])
    rows = np.flatnonzero(np.isin(groups.representative, representatives))
    if rows.size > _MOST_REGROUPED:
        raise UsageError(
            f"these groups have {rows.size:,} documents, and at most {_MOST_REGROUPED:,} are formed"
            " again by themselves: find all groups again"
        )
    return rows


def _renewed(former: Judgements, present: Judgements, ids: Collection[str]) -> Judgements:
    """Return former judgements, with the present ones among some documents in their place."""

    def is_among(judgement: Judgement) -> bool:
        return judgement.left in ids and judgement.right in ids

    pairs = [judgement for judgement in former.pairs if not is_among(judgement)]
    pairs += [judgement for judgement in present.pairs if is_among(judgement)]
    representatives = [id for id in former.representatives if id not in ids]
    representatives += [id for id in present.representatives if id in ids]
    return Judgements(tuple(pairs), tuple(representatives))


def joined_though_unlike(grouping: Grouping, judged: JudgedCounts) -> str:
    """Return why duplicates are in a group though they differ from its representative."""
    chain = "a chain of similar documents"
    unlike = "less similar to the representative than the threshold"
    if grouping.method == "leader" or grouping.exact:
        return f"joined by judgements, and {unlike}"
    by = f"{chain} or by judgements" if judged.duplicates else chain
    return f"joined by {by}, and {unlike}: `method` leader leaves them out"


class _Formed(NamedTuple):
    """The groups of n documents, as in `Groups`.

    representative: the row of each document's representative, shape (n,).
    value: similarity or distance to it, nan for a representative itself, shape (n,).
    """

    representative: I64
    value: F64


def _dissolved(formed: _Formed, is_dissolved: Mask) -> _Formed:
    """Return the groups with some documents as representatives of themselves, shape (n,)."""
    representative, value = formed
    rows = np.arange(representative.size)
    return _Formed(
        np.where(is_dissolved, rows, representative), np.where(is_dissolved, np.nan, value)
    )


class _Forming:
    """Groups that form while pairs are compared.

    Pairs are of classes of equal texts (`Classes`), of which the first `filled` are compared.

    partition: the first class of the group of each, shape (filled,).
    partner: the first class that was found similar to each, or itself, shape (filled,).
    nearness: to the partner, shape (filled,).
    """

    def __init__(
        self,
        columns: Columns,
        plan: Plan,
        grouping: Grouping,
        classes: Classes,
        constraints: Constraints,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        self._columns, self._plan, self._grouping = columns, plan, grouping
        self._classes, self._constraints = classes, constraints
        self._verifier = verifier_of(plan, columns, classes.compared, memory)
        self._least = plan.least
        scopes = columns.scopes
        self._scopes = None if scopes is None else scopes.picked(classes.compared)
        self._leads = grouping.method == "leader"
        self._apart = constraints.apart(classes.filled)
        self._partition = singletons(classes.filled)
        self._partner = singletons(classes.filled)
        self._nearness = np.zeros(classes.filled)
        constraints.link(self._partition)

    def add(self, left: I64, right: I64) -> None:
        """Compare the pairs of a block (`Block`), and let the similar ones form groups."""
        if self._leads:
            self._follow_leaders(left, right)
        else:
            self._join_components(left, right)

    def groups(self) -> _Formed:
        """Return the groups by the pairs so far."""
        partition = self._partition[self._partition]
        if self._grouping.split_templates:
            partition = self._split(partition)
        # In a component, the class that another was compared with may not be its first one.
        unknown = np.flatnonzero(self._partner != partition)
        nearness = self._nearness
        nearness[unknown] = self._compare(partition[unknown], unknown)
        return self._of_documents(*self._with_wordless(partition, nearness))

    def _compare(self, left: I64, right: I64) -> F64:
        """Return how near right classes are to left ones, or how much of them these hold."""
        nearness: F64 = self._verifier.nearness(left, right)[-1]
        return nearness

    def _note(self, left: I64, right: I64, nearness: F64) -> None:
        """Keep the nearness of similar pairs, sorted by right and then left."""
        first_pairs = np.flatnonzero(run_starts(right))
        is_earlier = left[first_pairs] < self._partner[right[first_pairs]]
        noted = first_pairs[is_earlier]
        self._partner[right[noted]] = left[noted]
        self._nearness[right[noted]] = nearness[noted]

    def _join_components(self, left: I64, right: I64) -> None:
        """Join the groups of the similar pairs of a block."""
        # The first pair of each class joins most of a group. Pairs within a group need no
        # comparison.
        is_first = run_starts(right)
        # Where some can't link, the nearest pairs of all come first.
        is_near_cannot = self._constraints.near_cannot(self._partition, left, right)
        first_pairs, other_pairs = is_first & ~is_near_cannot, ~is_first & ~is_near_cannot
        for pairs in (first_pairs, other_pairs, is_near_cannot):
            in_two_groups = pairs & (self._partition[left] != self._partition[right])
            left_classes, right_classes = left[in_two_groups], right[in_two_groups]
            nearness = self._compare(left_classes, right_classes)
            is_similar = nearness >= self._least
            similar = left_classes[is_similar], right_classes[is_similar], nearness[is_similar]
            self._constraints.join(self._partition, *similar)
            self._note(*similar)

    def _follow_leaders(self, left: I64, right: I64) -> None:
        """Let the right classes of a block follow their nearest leaders."""
        # Earlier followers can't lead. The classes of this block are undecided, and can. Those that
        # must link with an earlier one follow it.
        is_undecided = (self._partition[left] == left) & (self._partition[right] == right)
        left, right = left[is_undecided], right[is_undecided]
        nearness = self._compare(left, right)
        is_similar = nearness >= self._least
        left, right, nearness = left[is_similar], right[is_similar], nearness[is_similar]
        follow(self._partition, left, right, nearness, self._apart)
        follows = self._partition[right] == left
        self._note(left[follows], right[follows], nearness[follows])

    def _split(self, partition: I64) -> I64:
        """Return the groups without those of one template that differ in its places."""
        texts_of, compared = self._columns.texts_of, self._classes.compared
        partition = split_templates(
            partition, lambda classes: texts_of(compared[classes])(), self._plan.scheme
        )
        if self._leads:
            self._lead_again(partition)
        self._constraints.link(partition)
        return partition

    def _lead_again(self, partition: I64) -> None:
        """Let the first class that is not similar to its leader lead the others, in place."""
        followers = np.flatnonzero(partition != np.arange(partition.size))
        while followers.size:
            leaders = partition[followers]
            is_apart = self._compare(leaders, followers) < self._least
            if self._scopes is not None:
                is_apart |= ~self._scopes.agree(leaders, followers)
            followers = followers[is_apart]
            _, first, group = np.unique(
                partition[followers], return_index=True, return_inverse=True
            )
            partition[followers] = followers[first[group]]
            followers = followers[partition[followers] != followers]

    def _with_wordless(self, partition: I64, nearness: F64) -> tuple[I64, F64]:
        """Return the partition and the nearness of all classes, shape (classes,).

        Texts without words are not compared, and can be judged: they differ in all bits.
        """
        wordless = np.arange(self._classes.filled, self._classes.rows.size)
        partition = np.concatenate([partition, wordless])
        no_nearness = self._plan.measure.no_nearness(len(self._columns.values))
        nearness = np.concatenate([nearness, np.full(wordless.size, no_nearness)])
        must = self._constraints.must
        roots, linked = must[must[:, 1] >= self._classes.filled].T
        partition[linked] = partition[roots]
        return partition, nearness

    def _of_documents(self, partition: I64, nearness: F64) -> _Formed:
        """Return the groups of documents. partition, nearness: of all classes."""
        classes, count = self._classes, len(self._columns.ids)
        representative = np.arange(count)
        value = np.full(count, self._plan.measure.equal)
        for start in range(0, count, _ROWS_AT_ONCE):
            has_class = classes.of[start : start + _ROWS_AT_ONCE] >= 0
            rows = start + np.flatnonzero(has_class)
            class_of_row = classes.of[rows]
            representative[rows] = classes.rows[partition[class_of_row]]
            is_joined = partition[class_of_row] != class_of_row
            value[rows[is_joined]] = np.abs(nearness[class_of_row[is_joined]])
        value[representative == np.arange(count)] = np.nan
        return _Formed(representative, value)
