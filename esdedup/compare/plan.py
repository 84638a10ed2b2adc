"""Chooses how documents are compared: by their stored tokens, or by their texts.

Stored bands are made for queries. They may be too few to find all pairs at a threshold. Texts are
then sketched again, with as many bands as that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.compare.keep_rule import KeepRule
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD, Measure
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens


@dataclass(frozen=True)
class Plan:
    """What to read of each document.

    sketch: whose tokens are read; None for digests alone. sketching: the scheme of this sketch
    alone, to read and sketch texts; None to read tokens. first: ids that precede all others.
    numbered: documents keep their order and have numbers as ids, from 0. earlier: number of
    first ones that precede all others. memory: bytes to sort, or to compare, at once.
    """

    meta: IndexMeta
    sketch: Sketch | None
    keep: KeepRule = KeepRule()  # noqa: RUF009
    sketching: Scheme | None = None
    first: tuple[str, ...] = ()
    numbered: bool = False
    earlier: int = 0
    memory: int = 2 << 30

    @property
    def paths(self) -> list[str]:
        """The dotted names of the fields to read: digest and tokens first, if they are read."""
        field, own = self.meta.field, self.keep.paths(self.meta.text_fields)
        if self.sketching is not None:
            return [*dict.fromkeys([*self.meta.text_fields, *own])]
        tokens = "wordless" if self.sketch is None else self.sketch.key
        return [f"{field}.digest", f"{field}.{tokens}", *own]

    @property
    def compared(self) -> IndexMeta:
        """The index's meta with the scheme whose tokens are compared."""
        return self.meta if self.sketching is None else replace(self.meta, scheme=self.sketching)

    @property
    def measure(self) -> Measure:
        """The measure of the comparison; equal texts are at Jaccard 1."""
        return JACCARD if self.sketch is None else self.sketch.measure

    def least(self, limits: Limits) -> float:
        """Return the least nearness of similar documents: a similarity, or a negative distance."""
        if self.sketch is not None:
            limits = self.sketch.settled(limits)
        return self.measure.nearness(self.measure.limit_of(limits))

    def passage(self, limits: Limits) -> int:
        """Return the minimum words of a passage to compare by; 0 if passages are not compared."""
        shortest = 0 if self.sketch is None else self.sketch.passage
        return shortest and (limits.words or shortest)

    @property
    def nearest(self) -> float:
        """The nearness of equal texts."""
        return self.measure.nearness(self.measure.equal)

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


def plan_for(meta: IndexMeta, limits: Limits, keep: KeepRule = KeepRule()) -> Plan:  # noqa: B008
    """Read stored tokens if they reach the recall at the threshold, else texts.

    A stop list names stored tokens. With one, tokens are read in any case. Raises UsageError for
    limits that the sketch can't hold.
    """
    sketch = meta.scheme.for_pairs(limits)
    tokens = Plan(meta, sketch, keep)
    if sketch.varies or meta.scheme.by_server:
        return replace(tokens, sketching=meta.scheme.only(sketch))
    stored = recall_of_pairs(sketch, limits)
    if stored >= limits.wanted_recall or stopped_tokens(meta.stop, sketch.key):
        return tokens
    # Processor time a document of 150 bytes: 25 microseconds for tokens and 47 for texts with 52
    # bands in a local file, 36 and 34 on Elasticsearch. So tokens are read if they are enough.
    wider = sketch.for_texts(limits)
    if recall_of_pairs(wider, limits) <= stored:
        return tokens
    return replace(tokens, sketch=wider, sketching=meta.scheme.only(wider))


def recall_of_pairs(sketch: Sketch, limits: Limits) -> float:
    """Return the expected recall at the threshold if one shared token is enough, without probes."""
    recall = sketch.recall(replace(limits, swaps=0), sketch.tokens, 1)
    return 1.0 if recall is None else recall
