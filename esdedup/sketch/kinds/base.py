"""What every kind of sketch answers: its tokens, the tokens that a query looks up, its measure.

A kind is one module of this folder with a frozen dataclass of its parameters below `Sketch`, and
one entry in `scheme.KINDS`. Nothing else names a kind.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from esdedup.arguments import check_fields, check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.sketch.comparisons import AnyComparison
from esdedup.sketch.hashed_texts import HashedTexts
from esdedup.sketch.hyperplanes import SignFilter
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import MEASURES, Measure
from esdedup.sketch.tokens import decode
from esdedup.text.arrays import F64, U32, U64, Mask, Ragged, Values
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling
from esdedup.text.weights import U8, Weights

_NAME = re.compile("[a-z][a-z0-9_]{0,31}")
Analysis = dict[str, dict[str, Any]]
"""The setting `analysis` of an index: by "filter" and "analyzer" the definitions by name."""


@dataclass
class Block(HashedTexts):
    """Texts that are sketched together, and what their sketches share.

    sketches: all that are computed.
    shared: arrays that serve several sketches, by a name.
    """

    sketches: Sequence[Sketch]
    shared: dict[str, U32] = field(default_factory=dict)


class Probes(NamedTuple):
    """The values that queries look up.

    values: of tokens, shape (n, positions, probes), a query's own ones first.
    present: False for values that are not looked up, of the same shape.
    """

    values: U64
    present: Mask


@dataclass(frozen=True)
class Features:
    """The weighted features of texts.

    hashes: of the features of each text, in the order of its words, with repeated ones.
    tenths: weight of each, shape (total,).
    repeats: whether a feature counts as often as it occurs; otherwise it counts once.
    """

    hashes: Ragged
    tenths: U8
    repeats: bool


@dataclass(frozen=True)
class Sketch(ABC):
    """One named sketch of a scheme: a kind of fingerprint and its parameters.

    A document's values, shape (n, width), become one token for each of `tokens` positions. If the
    number of them `varies`, values are `Ragged`, and all tokens have one position.

    name: of the sketch in its scheme, by default that of its kind: lower-case letters, digits, "_".
    fields: the fields that hold its text; by default the text fields of the index.
    Raises UsageError for parameters out of range.
    """

    name: str = field(default="", kw_only=True)
    fields: Sequence[str] = field(default=(), kw_only=True)

    kind: ClassVar[str]
    """The name of the kind."""
    measure: ClassVar[Measure]
    """How candidates are verified."""
    stoppable: ClassVar[bool] = True
    """A stop list may hold its tokens: large buckets are boilerplate."""
    nearest: ClassVar[str] = ""
    """The command and settings that make a scheme with a higher recall of the nearest documents."""
    varies: ClassVar[bool] = False
    """Documents have any number of tokens."""
    reads_values: ClassVar[bool] = False
    """The field holds no texts, but values that `text` converts to texts."""
    by_server: ClassVar[bool] = False
    """The index computes the tokens from the text. A query is a text, and documents hold none."""
    leads: ClassVar[bool] = False
    """A group of tokens counts only with its first one, so that no probe replaces a stopped one."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.name:
            object.__setattr__(self, "name", self.kind)
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"sketch {self.name!r}: name it by lower-case letters, digits and _")
        check_list("fields", self.fields)
        for field_name in self.fields:
            check_type("fields", field_name, "str")
        object.__setattr__(self, "fields", tuple(self.fields))

    @property
    def key(self) -> str:
        """The name of the field of tokens, which begins with the name of the kind."""
        return self.kind if self.name == self.kind else f"{self.kind}_{self.name}"

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens of a document, or of their positions if it `varies`."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Bits of a token's value."""

    @property
    def rows_of_band(self) -> int:
        """Rows of the signature in each band, or signs of projections; 0 without bands."""
        return 0

    @property
    def token_bytes(self) -> float:
        """Bytes of a token in an index of Elasticsearch, with its copy in `_source`."""
        return 15.0

    @property
    def size_in_words(self) -> str:
        """The size of the tokens in an index of Elasticsearch, as messages show it."""
        return f"about {self.tokens * self.token_bytes:,.0f} bytes per document"

    @property
    def width(self) -> int:
        """Number of values of a document."""
        return self.tokens

    @property
    def dtype(self) -> type[np.uint32 | np.uint64]:
        """The narrowest type that holds a value."""
        return np.uint32 if self.bits <= 32 else np.uint64

    @property
    def table(self) -> Weights | None:
        """The weights of words, which are stored beside the parameters; None for none."""
        return None

    def require_words(self, normalisation: Normalisation, shingling: Shingling, seed: int) -> None:  # noqa: B027
        """Raise UsageError if the weights are not of the words of a scheme."""

    @property
    def feature_size(self) -> int:
        """Words of a feature, which a table can weigh; 0 if features have no weights."""
        return 0

    def features(self, block: Block) -> Features:
        """Return the weighted features of texts, if there is a `feature_size`."""
        raise NotImplementedError

    def feature_hashes(self, features: U64, word: int) -> U64:
        """Return the 64 bits that each feature adds its weight to, in the shape of `features`.

        word: column of the values that these bits are of, 0 to `width` - 1.
        """
        raise NotImplementedError

    def text(self, value: object) -> str:
        """Return the text of a field's value, if it `reads_values`. Raises RecordError."""
        raise NotImplementedError

    @abstractmethod
    def values(self, block: Block) -> Any:
        """Return the values of texts, shape (n, width), or `Ragged`."""

    def token_values(self, values: Any) -> Any:
        """Return the values that tokens hold, shape (n, tokens). values: shape (n, width)."""
        return values

    def stored_values(self, tokens: Any) -> Any:
        """Return the values, shape (n, width), whose `token_values` these are."""
        return tokens

    def decode(self, tokens: Sequence[Sequence[str]]) -> Values:
        """Return the `token_values` of rows of tokens. Raises ValueError for other tokens."""
        return decode(tokens, self.tokens, self.bits)

    def query(self, block: Block, limits: Limits) -> tuple[Any, Probes | None]:
        """Return the values of texts that are queries, and what they look up within limits.

        None if they look up their own tokens.
        """
        values = self.values(block)
        tokens = self.token_values(values)[:, :, None]
        return values, Probes(tokens, np.broadcast_to(np.True_, tokens.shape))

    @property
    def passage(self) -> int:
        """Words of the shortest passage by which documents always share a token; 0 for none."""
        return 0

    def comparison(self, limits: Limits) -> AnyComparison:
        """Return how documents are compared within limits."""
        return self.measure.comparison

    def check(self, limits: Limits) -> None:
        """Raise UsageError for limits that this kind can't hold."""
        measure = self.measure
        by, use = measure.words, measure.limit
        if limits.threshold is None and use != "threshold":
            raise UsageError(
                f"the sketch {self.name!r} compares by {by}: it can't be combined with the nearest"
                f" documents; use a {use}, or another sketch"
            )
        for name in (name for other in MEASURES if other != measure for name in other.limits):
            # A threshold has a default, and bounds nothing if the measure has its own limit.
            if name != "threshold" and (value := getattr(limits, name)) is not None:
                raise UsageError(
                    f"{name} {value}: the sketch {self.name!r} compares by {by}, so use a {use}, or"
                    " another sketch"
                )

    def settled(self, limits: Limits) -> Limits:
        """Return the limits with that of the measure set, if it follows from the sketch."""
        return limits

    def least(self, limits: Limits, groups: int, similarity: float | None = None) -> int:
        """Return how many of the groups to require at a similarity, or the threshold.

        groups: of the query; the number of its shingles, if the index computes the tokens.
        """
        return 1

    def recall(
        self, limits: Limits, groups: int, least: int, similarity: float | None = None
    ) -> float | None:
        """Return the expected recall at a similarity, or the threshold; None if it is complete."""
        return None

    def swaps(self, limits: Limits) -> int:
        """Return how many changes of its own values a query looks up, of each token."""
        return 0

    def query_terms(self, limits: Limits) -> int:
        """Return the number of tokens that a query looks up."""
        return self.tokens

    def query_cost(self, limits: Limits, similarity: F64, documents: F64) -> float:
        """Return the microseconds of a query.

        similarity: of the documents to the query, shape (n,).
        documents: number of documents of each similarity, shape (n,).
        """
        raise NotImplementedError

    def layouts(self, limits: Limits) -> list[Self]:
        """Return the sketches of other numbers of tokens that reach the recall at the limit."""
        return []

    def pair_filter(self, limits: Limits, recall: float | None) -> SignFilter | None:
        """Return what leaves out pairs of documents by all of their tokens, or None.

        recall: expected share of the similar pairs that share enough tokens.
        """
        return None

    def max_distance(self, limits: Limits) -> int:
        """Return the maximum Hamming distance, if that is the measure."""
        raise NotImplementedError

    def masks(self, limits: Limits, sides: int = 1) -> list[U64]:
        """Return for each token the fewest bit masks that miss none within the distance.

        sides: 2 if the tokens of both documents of a pair are masked.
        """
        raise NotImplementedError

    def analysis(self, words: int) -> Analysis:
        """Return the setting `analysis` of an index that computes tokens, with one analyzer.

        words: of a shingle.
        """
        raise NotImplementedError

    def for_texts(self, limits: Limits) -> Sketch:
        """Return the sketch of this kind to compare texts with that no stored tokens bind."""
        return self

    def to_json(self) -> dict[str, object]:
        """Return a JSON object that `from_json` reads."""
        document = {"kind": self.kind, **vars(self), "fields": list(self.fields)}
        # The ids of schemes without such fields do not cover the name.
        return {name: value for name, value in document.items() if name != "fields" or value}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Read the parameters of this kind. Raises UsageError for another name or type."""
        arguments = {name: value for name, value in document.items() if name != "kind"}
        if arguments.get("name") == "":
            raise UsageError("sketch '': leave its name out, or give one")
        return cls(**parameters(cls, arguments, str(document.get("name") or cls.kind)))

    @abstractmethod
    def describe(self) -> str:
        """Return the parameters in words."""

    def costs(self, documents: float) -> list[tuple[str, str]]:
        """Return what queries find and cost at a number of unrelated documents: (name, text)."""
        return []


class ValueField(str):
    """The name of a field whose values a sketch reads.

    sketch: that reads them.
    """

    sketch: Sketch

    @staticmethod
    def of(name: str, sketch: Sketch) -> ValueField:
        """Return the name of the field that a sketch reads."""
        value_field = ValueField(name)
        value_field.sketch = sketch
        return value_field


def parameters(owner: type[Any], document: Mapping[str, object], name: str) -> dict[str, Any]:
    """Return the arguments of a dataclass in a scheme's JSON. Raises UsageError."""
    names = {
        parameter.name
        for parameter in fields(owner)
        if parameter.init and "of_scheme" not in parameter.metadata
    }
    if unknown := document.keys() - names:
        raise UsageError(f"a scheme has no parameter {f'{name}.{min(unknown)}'.lstrip('.')}")
    return dict(document)
