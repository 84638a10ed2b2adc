"""What a comparison reads of documents, and how it decides which are similar.

Stored bands are made for queries. They may be too few to find all pairs at a threshold. Texts are
then sketched again, with as many bands as that takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.compare.keep_rule import KeepRule
from esdedup.search.scopes import scope_paths
from esdedup.sketch.comparisons import AnyComparison
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD, Measure
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.sketch.within import Within
from esdedup.stores.mapping import IndexMeta, SketchedFields
from esdedup.stores.stop_list import stopped_tokens

_FIRST_BY_ID = KeepRule()


@dataclass(frozen=True)
class Plan:
    """What a comparison reads of documents, and how it decides.

    `of_index` and `of_texts` make it.

    meta: the fields of the text, and where an index stores its tokens.
    sketch: whose tokens are read; None for digests alone, so that only equal texts are similar.
    limits: which documents are similar, with the distance that follows from the sketch.
    keep: the order of precedence; never "auto".
    sketching: the scheme of this sketch alone, to read and sketch texts; None to read tokens.
    label_fields: whose values documents keep, and results show.
    is_unsketched: texts are stored without digests and tokens; nothing is compared by these.
    judged: the fields that judgements are of, whose digests documents keep; none if they are those
        that are compared, or no judgement matters.
    """

    meta: IndexMeta
    sketch: Sketch | None
    limits: Limits
    keep: KeepRule
    sketching: Scheme | None
    label_fields: tuple[str, ...] = ()
    is_unsketched: bool = False
    judged: tuple[SketchedFields, ...] = ()

    @staticmethod
    def of_index(
        meta: IndexMeta, limits: Limits, keep: KeepRule = _FIRST_BY_ID, *, exact: bool = False
    ) -> Plan:
        """Return the plan to compare the documents of an index.

        Stored tokens are read if they reach the recall at the threshold, else texts. A stop list
        names stored tokens. With one, tokens are read in any case.

        exact: only equal texts are similar. Raises UsageError for limits that the sketch can't
        hold.
        """
        sketch, sketching = None, None
        if not exact or meta.scheme.by_server:
            sketch, sketching = _sketch_of_index(meta, limits)
        return _planned(meta, None if exact else sketch, limits, keep, sketching)

    @staticmethod
    def of_texts(
        scheme: Scheme | None,
        limits: Limits,
        keep: KeepRule = _FIRST_BY_ID,
        text_fields: Sequence[str] = ("text",),
        *,
        exact: bool = False,
    ) -> Plan:
        """Return the plan to compare texts that have no tokens yet.

        scheme: None for one whose bands reach the recall at the threshold. exact: as of `of_index`.
        Raises UsageError for another type of scheme, for one without the sketch, and for limits
        that the sketch can't hold.
        """
        require_scheme(scheme)
        scheme = scheme or Scheme.of_texts(limits)
        sketch = scheme.for_pairs(limits)
        if sketch.reads_values:
            # Its parameters describe the field. How many bands are compared is free.
            sketch = sketch.for_texts(limits)
        sketching = scheme.only(sketch)
        meta = IndexMeta(sketching, tuple(text_fields))
        return _planned(meta, None if exact else sketch, limits, keep, sketching)

    def at(self, threshold: float) -> Plan:
        """Return the plan with another threshold."""
        return replace(self, limits=self.limits.at(threshold))

    def labelled(self, *label_fields: str | None) -> Plan:
        """Return the plan with fields whose values documents keep. label_fields: None for none."""
        return replace(self, label_fields=tuple(field for field in label_fields if field))

    def with_judged(self) -> Plan:
        """Return the plan for documents on which judgements of people are respected."""
        judged = self.meta.judged
        return replace(self, judged=() if judged[0].field == self.meta.field else judged)

    def of_columns(
        self, text_fields: Sequence[str], keep_field: str | None, within: Within
    ) -> Plan:
        """Return the plan for documents whose fields have other names.

        keep_field: the name of the field of the keep rule, if it has one.
        """
        meta = replace(self.meta, text_fields=tuple(text_fields))
        limits = replace(self.limits, within=within)
        keep = replace(self.keep, field=keep_field)
        return replace(self, meta=meta, limits=limits, keep=keep)

    @property
    def paths(self) -> list[str]:
        """The dotted names of the fields to read: digest and tokens first, if they are read."""
        text_fields = self.meta.text_fields
        of_judged = [path for fields in self.judged for path in fields.digest_paths]
        other_paths = [*self.keep.paths(text_fields), *self.kept_beside, *of_judged]
        if self.sketching is not None:
            return [*dict.fromkeys([*text_fields, *other_paths])]
        field = self.meta.field
        tokens = "wordless" if self.sketch is None else self.sketch.key
        return [*dict.fromkeys([f"{field}.digest", f"{field}.{tokens}", *other_paths])]

    @property
    def columns(self) -> list[str]:
        """The names of the fields to read of records, besides their texts and ids."""
        return [*dict.fromkeys([*self.keep.paths([]), *self.kept_beside])]

    @property
    def kept_beside(self) -> list[str]:
        """The names of the fields of scopes and labels."""
        return [*dict.fromkeys([*scope_paths(self.within), *self.label_fields])]

    @property
    def within(self) -> Within:
        """The scope in which documents can be similar."""
        return self.limits.within

    @property
    def reads_values(self) -> bool:
        """Whether documents hold fingerprints, not texts."""
        sketch = self.sketch or self.meta.scheme.sketches[0]
        return sketch.reads_values

    @property
    def scheme(self) -> Scheme:
        """The scheme whose tokens are compared."""
        return self.meta.scheme if self.sketching is None else self.sketching

    @property
    def measure(self) -> Measure:
        """The measure of the comparison; equal texts are at Jaccard 1."""
        return JACCARD if self.sketch is None else self.sketch.measure

    @property
    def least(self) -> float:
        """The least nearness of similar documents: a similarity, or a negative distance."""
        return self.measure.nearness(self.measure.limit_of(self.limits))

    @property
    def nearest(self) -> float:
        """The nearness of equal texts."""
        return self.measure.nearness(self.measure.equal)

    @property
    def comparison(self) -> AnyComparison:
        """The comparison of two documents."""
        return JACCARD.comparison if self.sketch is None else self.sketch.comparison(self.limits)

    @property
    def width(self) -> int:
        """The number of values to keep of a document; none if it varies."""
        return 0 if self.sketch is None or self.sketch.varies else self.sketch.width

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type that holds a document's values."""
        return np.uint64 if self.sketch is None else self.sketch.dtype

    @property
    def basis(self) -> Basis:
        """The basis of the comparison."""
        read: Literal["texts", "tokens"] = "tokens" if self.sketching is None else "texts"
        if isinstance(self.sketch, Banded):
            return Basis(read, self.sketch.bands, self.sketch.rows)
        return Basis(read, None, None)


@dataclass(frozen=True)
class Basis:
    """The basis of a comparison of documents.

    read: the tokens that the index stores, or texts, which were sketched again.
    bands, rows: of their signatures; None by Hamming distance, and for equal texts alone.
    """

    read: Literal["texts", "tokens"]
    bands: int | None
    rows: int | None

    def __str__(self) -> str:
        by = "" if self.bands is None else f", {self.bands} bands of {self.rows} rows"
        return f"{self.read}{by}"


def _sketch_of_index(meta: IndexMeta, limits: Limits) -> tuple[Sketch, Scheme | None]:
    """Return the sketch to compare documents by, and the scheme to sketch their texts with.

    The scheme is None to read the stored tokens.
    """
    sketch = meta.scheme.for_pairs(limits)
    if sketch.varies or meta.scheme.by_server:
        return sketch, meta.scheme.only(sketch)
    recall = _recall_of_pairs(sketch, limits)
    if recall >= limits.wanted_recall or stopped_tokens(meta.stop, sketch.key):
        return sketch, None
    # Processor time a document of 150 bytes: 25 microseconds for tokens and 47 for texts with 52
    # bands in a local file, 36 and 34 on Elasticsearch. So tokens are read if they are enough.
    wider = sketch.for_texts(limits)
    if _recall_of_pairs(wider, limits) <= recall:
        return sketch, None
    return wider, meta.scheme.only(wider)


def _planned(
    meta: IndexMeta,
    sketch: Sketch | None,
    limits: Limits,
    keep: KeepRule,
    sketching: Scheme | None,
) -> Plan:
    """Return a plan whose limits and keep rule follow from the sketch where they are open."""
    if sketch is not None:
        limits = sketch.settled(limits)
    if keep.by == "auto":
        # A document that holds another one has its words, and perhaps more.
        is_directed = sketch is not None and sketch.measure.directed
        keep = KeepRule("words", last=True) if is_directed else _FIRST_BY_ID
    return Plan(meta, sketch, limits, keep, sketching)


def _recall_of_pairs(sketch: Sketch, limits: Limits) -> float:
    """Return the expected recall at the threshold if one shared token is enough, without probes."""
    recall = sketch.recall(replace(limits, swaps=0), sketch.tokens, 1)
    return 1.0 if recall is None else recall
