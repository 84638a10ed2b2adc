"""Remove duplicates from texts and records in memory: lists, Arrow tables, frames, datasets."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import numpy as np

from esdedup.arguments import accepts, check_settings, check_type, from_settings
from esdedup.cleaning.contained import (
    Containment,
    Masking,
    Spans,
    check_masking,
    containing,
    containment_plan,
    groups_by_item,
)
from esdedup.cleaning.removals import Corpus
from esdedup.compare.columns import Columns, columns_by_number
from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.compare.source import Records, RecordSource, columns_of_records, read_source
from esdedup.deduplicated import Compared, Deduplicated, Positions
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, GroupingSettings, Groups, groups_among
from esdedup.records.merge import Merge
from esdedup.records_in_memory import (
    AnyRecords,
    Argument,
    InMemory,
    batches,
    first_value,
    is_stream,
    read,
)
from esdedup.runs.progress import Progress, shown
from esdedup.runs.run import OnStep, Run
from esdedup.runs.shares import Shares
from esdedup.sketch.limits import Limits, PairSettings
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import TextFields, names_of
from esdedup.tabular import ArrowStream, Frame
from esdedup.text.strings import Numbers

if TYPE_CHECKING:
    import pyarrow as pa

_AGAINST = Argument("against", with_keep_field=False)

_Frame = TypeVar("_Frame", bound=Frame)
_Record = TypeVar("_Record", bound=str | Mapping[str, object])


@overload
def dedup(
    records: _Frame,
    text: TextFields = "text",
    *,
    vector: str | None = None,
    against: AnyRecords | None = None,
    only_between: bool = False,
    contained: float | None = None,
    mask: Masking = False,
    collect: str | Sequence[str] = (),
    fill: str | Sequence[str] = (),
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    progress: Progress = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[_Frame]: ...
@overload
def dedup(
    records: Iterable[_Record],
    text: TextFields = "text",
    *,
    vector: str | None = None,
    against: AnyRecords | None = None,
    only_between: bool = False,
    contained: float | None = None,
    mask: Masking = False,
    collect: str | Sequence[str] = (),
    fill: str | Sequence[str] = (),
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    progress: Progress = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[list[_Record]]: ...
@overload
def dedup(
    records: ArrowStream,
    text: TextFields = "text",
    *,
    vector: str | None = None,
    against: AnyRecords | None = None,
    only_between: bool = False,
    contained: float | None = None,
    mask: Masking = False,
    collect: str | Sequence[str] = (),
    fill: str | Sequence[str] = (),
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    progress: Progress = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[pa.Table]: ...
@accepts(Grouping)
def dedup(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    vector: str | None = None,
    against: AnyRecords | None = None,
    only_between: bool = False,
    contained: float | None = None,
    mask: Masking = False,
    collect: str | Sequence[str] = (),
    fill: str | Sequence[str] = (),
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    progress: Progress = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[Any]:
    """Remove the texts or records that duplicate others, without an index.

    records: texts, mappings, a frame of pandas or Polars, a Dataset of `datasets`, or anything else
    with Arrow's C stream, such as a relation of DuckDB, which becomes a table. An IterableDataset
    becomes a list.
    text: the field or fields of the text. A record without a text duplicates no other.
    vector: the field of vectors, such as embeddings, which are compared by cosine in place of the
    texts. Those of all records, and of `against`, have the dimensions of the first one.
    against: other records, of any kind with the same field of the text, or texts: what is near one
    of them is removed, too.
    only_between: compare the records with `against` only: what is near other records stays.
    contained: remove only records that contain an item of `against`, such as one of a benchmark:
    this share of its words or more, in a stretch of their text; above 0, up to 1. Settings of
    near-duplicates can't be combined with it.
    mask: cut the items from the texts, and remove only records with nothing else.
    collect: fields that become lists in the records that stay, to which one adds the distinct
    values of its duplicates.
    fill: fields that a record that stays takes from its first duplicate with a value, if it has
    none itself.
    scheme: by default one whose bands reach the recall at the threshold.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; "first" is in the order
    of the records.
    exact: group only equal texts, after normalisation.
    split_templates: separate documents that fill one template differently.
    conflict: a field; groups that differ in it are left whole: none of them is a duplicate.
    progress: a function that is called with the name of a step, the amount done, and the total (0
    if unknown), or True for lines on standard error.

    Warns of duplicates that may be missing, as in buckets that `max_per_bucket` cuts, and of
    records that `within` or `keep` can't place. Raises UsageError for wrong arguments, and if no
    record has the field; RecordError for a text of another type.
    """
    check_settings(dedup, settings)
    grouping = from_settings(Grouping, settings, grouping)
    if vector is not None:
        records, text, scheme = _by_vectors(records, vector, text, scheme, against)
    names, merge = names_of(text), Merge.parse(collect, fill)
    merge.check(names)
    check_masking(mask)
    _check_only_between(only_between, against)
    if only_between and contained is not None:
        raise UsageError("`only_between` can't be combined with `contained`")
    if contained is not None:
        if merge:
            raise UsageError(f"`{merge.setting}` can't be combined with `contained`")
        if against is None:
            raise UsageError("`contained` requires `against`: the records of the items")
        if grouping != Grouping():
            raise UsageError("settings of near-duplicates can't be combined with `contained`")
        _check_fraction(contained)
        if mask and len(names) > 1:
            raise UsageError("`mask` requires one field of the text")
    elif mask:
        raise UsageError("`mask` requires `contained`")
    with shown(progress) as on_step:
        if against is not None and contained is not None:
            plan = containment_plan(scheme, names)
            sides = _Sides.of(records, against, plan)
            if mask:
                InMemory(sides.table.records).check_mask(names[0])
            return _without_items(sides, plan, contained, mask, on_step)
        plan = Plan.of_texts(scheme, grouping.limits, grouping.keep, names, exact=grouping.exact)
        plan = plan.labelled(grouping.conflict)
        sides = _Sides.of(records, [] if against is None else against, plan)
        sides = replace(sides, only_between=only_between)
        InMemory(sides.table.records).check_merge(merge)
        deduplicated = _without_duplicates(sides, plan, grouping.by(plan), on_step)
    _warn(_losses(deduplicated.groups))
    return replace(deduplicated, _merge=merge)


@accepts(Limits, "pairs")
def pairs(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    vector: str | None = None,
    id: str | None = None,
    against: AnyRecords | None = None,
    only_between: bool = False,
    source: TextFields = (),
    scheme: Scheme | None = None,
    limits: Limits | None = None,
    progress: Progress = None,
    **settings: Unpack[PairSettings],
) -> SimilarPairs:
    """Return all pairs of similar texts or records, the most similar first.

    records, text, vector, scheme: as of `dedup`.
    id: the field of the ids, of which the last record of each stays; None for the positions of the
    records, from "0". A record without an id has the id "row:N", of its position.
    against: other records, of any kind with the same fields, or texts: pairs with one of them are
    listed too, with it on the right (`Pair.in_against`), and its id or position there.
    only_between: list these pairs only, and none of two of the records.
    source: the field or fields whose values each pair shows.
    limits: how to compare, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    progress: as of `dedup`.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".

    Warns as `dedup` does. Raises its errors, and RecordError for an id that an index rejects.
    """
    check_settings(pairs, settings)
    limits = from_settings(Limits, settings, limits, "pairs")
    if vector is not None:
        records, text, scheme = _by_vectors(records, vector, text, scheme, against)
    plan = Plan.of_texts(scheme, limits, text_fields=names_of(text))
    plan = plan.labelled(*(names_of(source) if source else ()))
    _check_only_between(only_between, against)
    with shown(progress) as on_step:
        if against is not None:
            columns = _columns_of_two(records, against, id, plan, on_step)
            columns = replace(columns, only_between=only_between)
            with Run.temporary() as run:
                similar_pairs = pairs_among(columns, plan, Resources(run.folder, on_step))
        else:
            with _read(records, id, plan, on_step) as (columns, resources):
                similar_pairs = pairs_among(columns, plan, resources)
    _warn(similar_pairs.warnings(plan.limits))
    return similar_pairs


def _by_vectors(
    records: AnyRecords,
    vector: str,
    text: TextFields,
    scheme: Scheme | None,
    against: AnyRecords | None = None,
) -> tuple[AnyRecords, str, Scheme]:
    """Return records, the field of their vectors as that of their text, and the scheme of these.

    against: shows the dimensions if there are no records.
    Raises UsageError beside a field of texts or a scheme, and if no record has a vector.
    """
    check_type("vector", vector, "str")
    if text != "text":
        raise UsageError("`vector` can't be combined with `text`: it takes its place")
    if scheme is not None:
        raise UsageError("`vector` can't be combined with `scheme`: name the field by `text`")
    if is_stream(records):
        raise UsageError(
            "`vector` requires records in memory: for a stream, name the field by `text`, and its"
            " dimensions by `scheme`, as in Scheme([Vectors(768)])"
        )
    records, numbers = first_value(records, vector)
    if isinstance(records, Sized) and not len(records):
        if isinstance(against, Sized) and len(against):
            _, numbers = first_value(against, vector)
        if numbers is None:
            # No vector is compared.
            numbers = (0.0, 0.0)
    if not isinstance(numbers, list | tuple | np.ndarray):
        raise UsageError(f"no record has a list of numbers in the field {vector!r}")
    if not len(numbers):
        raise UsageError(f"the first vector in the field {vector!r} is an empty list")
    return records, vector, Scheme.of_vectors(len(numbers))


def _check_only_between(only_between: bool, against: AnyRecords | None) -> None:
    check_type("only_between", only_between, "bool")
    if only_between and against is None:
        raise UsageError("`only_between` requires `against`")


def _columns_of_two(
    records: AnyRecords, against: AnyRecords, id: str | None, plan: Plan, on_step: OnStep
) -> Columns:
    """Return records, and those of `against` before them, by their ids or their positions."""
    _, later = read(records, Argument(id=id), plan)
    _, earlier = read(against, replace(_AGAINST, id=id), plan)
    first = len(earlier.texts)
    columns = columns_of_records(earlier.before(later), plan, first, on_step)
    if isinstance(columns.ids, Numbers):
        numbers = columns.ids.values
        positions = np.where(numbers < first, numbers, numbers - first)
        columns = replace(columns, ids=Numbers(positions))
    return columns


@accepts(Grouping)
def group(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    vector: str | None = None,
    id: str | None = None,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    progress: Progress = None,
    **settings: Unpack[GroupingSettings],
) -> Groups:
    """Return the groups of similar texts or records, the largest first.

    records, text, vector, id, scheme: as of `pairs`.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; "first" is in the order
    of the ids, a2 before a10, which without `id` is that of the records.
    exact: group only equal texts, after normalisation.
    split_templates: separate documents that fill one template differently.
    conflict: a field; groups that differ in it are left whole: none of them is a duplicate.
    progress: as of `dedup`.
    """
    check_settings(group, settings)
    grouping = from_settings(Grouping, settings, grouping)
    if vector is not None:
        records, text, scheme = _by_vectors(records, vector, text, scheme)
    plan = Plan.of_texts(
        scheme, grouping.limits, grouping.keep, names_of(text), exact=grouping.exact
    )
    plan = plan.labelled(grouping.conflict)
    grouping = grouping.by(plan)
    with shown(progress) as on_step, _read(records, id, plan, on_step) as (columns, resources):
        groups = groups_among(columns, plan, grouping, resources)
    _warn(_losses(groups))
    return groups


def _losses(groups: Groups) -> list[str]:
    """Return sentences about duplicates that may be missing, and what the keep rule left out.

    Groups that are left whole because of their labels are what was asked for.
    """
    grouping = groups.grouping
    losses = [*groups.warnings(grouping.limits), groups.unordered.warning(grouping.keep)]
    return [loss for loss in losses if loss and loss != groups.conflicts.warning]


def _warn(losses: Iterable[str]) -> None:
    """Warn the caller of a call of this module."""
    for loss in losses:
        warnings.warn(loss, stacklevel=3)


@contextmanager
def _read(
    records: AnyRecords, id: str | None, plan: Plan, on_step: OnStep
) -> Iterator[tuple[Columns, Resources]]:
    """Read the texts and tokens of records. Those of a stream are in files until the end."""
    argument = Argument(id=id)
    with Run.temporary() as run:
        if is_stream(records):
            source = RecordSource(plan, batches(records, argument, plan), on_step=on_step)
            columns = read_source(source, run, is_numbered=id is None)
        else:
            _, parsed = read(records, argument, plan)
            columns = columns_of_records(parsed, plan, on_step=on_step)
        yield columns, Resources(run.folder, on_step)


@dataclass(frozen=True)
class _Sides:
    """Records, and what they are compared with.

    table: the records.
    records: their texts.
    earlier: the texts of `against`.
    only_between: records are compared with those of `against` only.
    """

    table: InMemory
    records: Records
    earlier: Records
    only_between: bool = False

    @staticmethod
    def of(records: AnyRecords, against: AnyRecords, plan: Plan) -> _Sides:
        """Read both."""
        table, parsed = read(records, Argument(), plan)
        _, earlier = read(against, _AGAINST, plan)
        return _Sides(table, parsed, earlier)

    @property
    def first(self) -> int:
        """The number of the first record after those of `against`."""
        return len(self.earlier.texts)

    def positions(self, columns: Columns) -> Positions:
        """Return the ids of the documents of columns that are numbered."""
        assert isinstance(columns.ids, Numbers)
        return Positions(columns.ids.values, self.first)


def _without_duplicates(
    sides: _Sides, plan: Plan, grouping: Grouping, on_step: OnStep
) -> Deduplicated[object]:
    """Return the records without those that duplicate others."""
    records, earlier = sides.records, sides.earlier
    joined = earlier.before(records) if sides.first else records
    columns = columns_of_records(joined, plan, sides.first, on_step)
    positions = sides.positions(columns)
    columns = replace(columns, ids=positions, only_between=sides.only_between)
    with Run.temporary() as run:
        groups = groups_among(columns, plan, grouping, Resources(run.folder, on_step))
    return Deduplicated(sides.table.records, groups, positions, Compared(plan, columns))


def _without_items(
    sides: _Sides, plan: Plan, fraction: float, mask: Masking, on_step: OnStep
) -> Deduplicated[object]:
    """Return the records without those that contain items."""
    counts = np.array([sides.first, len(sides.records.texts)])
    with Run.temporary() as run:
        shares = Shares(run)
        batches = [sides.earlier, sides.records]
        shares.write_all(RecordSource(plan, batches, int(counts.sum()), on_step).parts())
        corpus = Corpus(shares, ["against", "records"], 1, counts, np.arange(1, counts.sum() + 1))
        columns = columns_by_number(shares, plan, sides.first)
        positions = sides.positions(columns)
        removals, _ = containing(
            corpus,
            columns,
            Containment(plan.scheme, fraction),
            mask=mask,
            workers=1,
            step=on_step,
        )
        grouping = Grouping(Limits(threshold=None, cover=fraction), keep=plan.keep)
        groups = groups_by_item(removals, replace(columns, ids=positions), grouping, plan)
    spans = Spans(
        removals.document, removals.original, removals.value, removals.start, removals.end
    )
    compared = Compared(plan, None, spans, removals.masked)
    return Deduplicated(sides.table.records, groups, positions, compared)


def _check_fraction(contained: float) -> None:
    """Raise UsageError if `contained` is not a fraction of an item, above 0 and up to 1."""
    check_type("contained", contained, "float")
    if not 0.0 < contained <= 1.0:
        raise UsageError(f"contained {contained}: use a share above 0, up to 1")
