"""Chooses how documents are compared: by their stored tokens, or by their texts.

Stored bands are made for queries. They may be too few to find all pairs at a threshold. Texts are
then sketched again, with as many bands as that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.models import Metric
from esdedup.pairing.keep_rule import KeepRule
from esdedup.search.limits import Limits, comparing_scheme, require_minhash, require_simhash
from esdedup.sketch.banding import expected_recall
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens


@dataclass(frozen=True)
class Reading:
    """Says what to read of each document.

    metric: its tokens are read; None for digests alone.
    keep: the fields that it orders documents by are read too.
    sketching: the scheme to sketch texts with, which are then read in place of tokens; None to read
    tokens.
    first: ids of documents that come before all others.
    """

    meta: IndexMeta
    metric: Metric | None
    keep: KeepRule = KeepRule()  # noqa: RUF009
    sketching: Scheme | None = None
    first: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The dotted names of the fields to read: digest and tokens first, if they are read."""
        field, own = self.meta.field, self.keep.paths(self.meta.text_fields)
        if self.sketching is not None:
            return [*dict.fromkeys([*self.meta.text_fields, *own])]
        tokens = {"jaccard": "minhash", "hamming": "simhash", None: "wordless"}[self.metric]
        return [f"{field}.digest", f"{field}.{tokens}", *own]

    @property
    def compared(self) -> IndexMeta:
        """The index's meta with the scheme whose tokens are compared."""
        return self.meta if self.sketching is None else replace(self.meta, scheme=self.sketching)

    @property
    def width(self) -> int:
        """The number of values of a document."""
        if self.metric is None:
            return 0
        scheme, by_bands = self.compared.scheme, self.metric == "jaccard"
        return require_minhash(scheme).bands if by_bands else require_simhash(scheme).bits // 64

    @property
    def kind(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type that holds a document's values."""
        by_bands, scheme = self.metric == "jaccard", self.compared.scheme
        return np.uint32 if by_bands and require_minhash(scheme).token_bits <= 32 else np.uint64

    @property
    def basis(self) -> Basis:
        """The basis of the comparison."""
        read: Literal["texts", "tokens"] = "tokens" if self.sketching is None else "texts"
        minhash = self.compared.scheme.minhash if self.metric == "jaccard" else None
        return Basis(read, *((minhash.bands, minhash.rows) if minhash else (None, None)))


@dataclass(frozen=True)
class Basis:
    """The basis of a comparison of documents.

    read: the tokens that the index stores; or texts, which were sketched again; or edges, the pairs
    that another program found.
    bands, rows: of their MinHash tokens; None by Hamming distance, for equal texts alone, and with
    edges.
    """

    read: Literal["edges", "texts", "tokens"]
    bands: int | None
    rows: int | None

    def __str__(self) -> str:
        by = "" if self.bands is None else f", {self.bands} bands of {self.rows} rows"
        return f"{self.read}{by}"


def reading_for(meta: IndexMeta, limits: Limits, keep: KeepRule = KeepRule()) -> Reading:  # noqa: B008
    """Read stored tokens if their bands reach the recall at the threshold, else texts.

    A stop list names stored tokens. With one, tokens are read in any case.
    """
    tokens = Reading(meta, limits.metric, keep)
    if limits.metric == "hamming" or stopped_tokens(meta.stop, "minhash"):
        return tokens
    threshold = limits.least_similarity
    # Processor time a document of 150 bytes: 25 microseconds for tokens and 47 for texts with 52
    # bands in a local file, 36 and 34 on Elasticsearch. So tokens are read if they are enough.
    stored = _recall(require_minhash(meta.scheme), threshold)
    if stored >= limits.recall:
        return tokens
    scheme = comparing_scheme(meta.scheme, limits)
    better = _recall(require_minhash(scheme), threshold) > stored
    return replace(tokens, sketching=scheme) if better else tokens


def _recall(minhash: MinHash, threshold: float) -> float:
    return expected_recall(threshold, minhash.bands, minhash.rows)
