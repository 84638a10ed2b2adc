"""The scheme: every parameter that the tokens of a text depend on, frozen, with an id.

The index stores it next to the tokens. The same scheme and text always have the same tokens: a
change to any algorithm raises VERSION, and the tokens of the versions in VERSIONS are computed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import xxhash

from esdedup.arguments import check_fields
from esdedup.exceptions import SchemeMismatch, UsageError
from esdedup.sketch.banding import SWAPS, choose_banding
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.kinds.base import Analysis, Sketch, parameters
from esdedup.sketch.kinds.bits import Bits
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.passages import Passages
from esdedup.sketch.kinds.server import Server
from esdedup.sketch.kinds.signature import Signature
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.kinds.vectors import Vectors
from esdedup.sketch.limits import Limits
from esdedup.text.characters import VERSION, VERSIONS
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling
from esdedup.text.weights import stored_weights

KINDS: dict[str, type[Sketch]] = {
    kind.kind: kind for kind in (MinHash, Signature, SimHash, Bits, Passages, Vectors, Server)
}
"""Every kind of sketch. A new one is a module in `sketch/kinds/` and its name here."""
SHORTEST_PASSAGE = Passages().passage
"""Words of the shortest passage by which texts always meet, with the default parameters."""
_SketchType = TypeVar("_SketchType", bound=Sketch)


@dataclass(frozen=True)
class Scheme:
    """All parameters of tokens.

    sketches: what is computed from a text. Their names differ; the first one is the default.
    normalisation: how a text is normalised.
    shingling: how a normalised text becomes shingles.
    seed: keys every hash, 0 to 2**64 - 1. Two seeds share tokens only by chance.
    version: of the algorithms. Those of normalisation and shingling are the same.
    Raises UsageError for values out of range.
    """

    sketches: Sequence[Sketch] = (MinHash(), SimHash())
    normalisation: Normalisation = field(default_factory=Normalisation)
    shingling: Shingling = field(default_factory=Shingling)
    seed: int = 1
    version: int = VERSION

    def __post_init__(self) -> None:
        check_fields(self)
        sketches = (self.sketches,) if isinstance(self.sketches, Sketch) else tuple(self.sketches)
        if wrong := [sketch for sketch in sketches if not isinstance(sketch, Sketch)]:
            raise UsageError(f"sketches: use Sketch(...), such as MinHash(), not {wrong[0]!r}")
        object.__setattr__(self, "sketches", sketches)
        if not sketches:
            raise UsageError("a scheme needs a sketch, such as MinHash()")
        names = [sketch.name for sketch in sketches]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"two sketches are named {twice[0]!r}: give one of them another name")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"seed {self.seed}: use 0 to 2**64 - 1")
        fields = [sketch.fields for sketch in sketches]
        for sketch in sketches:
            needs_own_field = sketch.reads_values or sketch.by_server
            if needs_own_field and fields.count(sketch.fields) > 1:
                raise UsageError(f"sketch {sketch.name!r} is alone: name a field of its own")
            if sketch.by_server:
                self._require_words_of_servers(sketch)
        _require_version(self.version)
        for name in ("normalisation", "shingling"):
            rules = getattr(self, name)
            if rules.version != self.version:
                object.__setattr__(self, name, replace(rules, version=self.version))
        for sketch in sketches:
            sketch.require_words(self.normalisation, self.shingling, self.seed)

    def _require_words_of_servers(self, sketch: Sketch) -> None:
        """Raise UsageError for parameters that the servers' own words can't follow."""
        if self.shingling.unit != "word":
            raise UsageError(f"sketch {sketch.name!r}: servers have words of their own, use word:N")
        if self.normalisation.fold:
            raise UsageError(
                f"sketch {sketch.name!r}: the filters of servers fold other characters, so"
                " normalisation.fold can't be set"
            )
        if self.shingling.punctuation:
            raise UsageError(
                f"sketch {sketch.name!r}: the words of servers leave out punctuation, so"
                " shingling.punctuation can't be set"
            )

    @staticmethod
    def for_threshold(
        threshold: float,
        *,
        recall: float = 0.99,
        permutations: int = 128,
        token_bits: int = 30,
        swaps: int = SWAPS,
        sketches: Sequence[Sketch] = (SimHash(),),
        normalisation: Normalisation | None = None,
        shingling: Shingling | None = None,
        seed: int = 1,
        version: int = VERSION,
    ) -> Scheme:
        """Return the scheme whose bands find a pair at `threshold` with probability `recall`.

        threshold: Jaccard similarity, between 0 and 1.
        recall: mean fraction of the pairs at just this similarity that are found, between 0 and 1.
        permutations: as in MinHash.
        token_bits: as in MinHash.
        swaps: of the queries that find them; 0 to compare stored tokens.
        sketches: of the scheme, after these bands.
        normalisation: as in Scheme, as are `shingling`, `seed` and `version`.

        `banding.choose_banding` explains the choice.
        Raises UsageError for values out of range, or if `permutations` do not reach the recall.
        """
        bands, rows = choose_banding(threshold, recall, permutations, swaps)
        return Scheme(
            (MinHash(permutations, bands, rows, token_bits), *sketches),
            normalisation or Normalisation(),
            shingling or Shingling(),
            seed,
            version,
        )

    @staticmethod
    def of_texts(limits: Limits) -> Scheme:
        """Return the scheme to compare texts with that have no tokens yet.

        It has the sketch that the limits name, which may be that of any kind of texts. Raises
        UsageError.
        """
        scheme, kind = Scheme(), KINDS.get(limits.sketch or "")
        if kind is not None and not kind.reads_values and kind.kind not in scheme.names:
            scheme = scheme.plus(kind())
        return scheme.for_texts(limits)

    @staticmethod
    def of_vectors(dimensions: int) -> Scheme:
        """Return the scheme to compare vectors with that have no tokens yet."""
        return Scheme([Vectors(dimensions)])

    @functools.cached_property
    def id(self) -> str:
        """A short name of these parameters. Only equal schemes have equal ids."""
        canonical = json.dumps(self._parameters, sort_keys=True, separators=(",", ":"))
        return f"v{self.version}-{xxhash.xxh3_64_hexdigest(canonical.encode('ascii'))[:12]}"

    @property
    def names(self) -> list[str]:
        """The names of the sketches."""
        return [sketch.name for sketch in self.sketches]

    @property
    def keys(self) -> list[str]:
        """The names of the fields of tokens that documents get."""
        return [sketch.key for sketch in self.sketches]

    def sketch(self, name: str | None = None) -> Sketch:
        """Return a sketch by its name, the first one by default. Raises UsageError."""
        for sketch in self.sketches:
            if name in (None, sketch.name):
                return sketch
        listed = ", ".join(self.names)
        raise UsageError(f"there is no sketch {name!r}: use {listed}")

    def chosen(self, limits: Limits) -> Sketch:
        """Return the sketch to compare by. Raises UsageError for limits that it can't hold."""
        sketch = self.sketch(limits.sketch)
        sketch.check(limits)
        return sketch

    def for_pairs(self, limits: Limits) -> Sketch:
        """Return the sketch to compare all documents by. Raises UsageError.

        In place of one that the index computes, it is one of their texts.
        """
        sketch = self.chosen(limits)
        if sketch.measure.limit == "threshold":
            # Without a threshold, all documents would be pairs.
            _ = limits.least_similarity
        return sketch.for_texts(limits) if sketch.by_server else sketch

    @property
    def by_server(self) -> bool:
        """Whether the index computes the tokens."""
        return self.sketches[0].by_server

    @property
    def analysis(self) -> Analysis:
        """The setting `analysis` of an index that computes the tokens, with one analyzer."""
        return self.sketches[0].analysis(self.shingling.size)

    @property
    def banded(self) -> Banded:
        """The first sketch with bands. Raises UsageError if there is none."""
        for sketch in self.sketches:
            if isinstance(sketch, Banded):
                return sketch
        raise UsageError("the scheme has no sketch with bands, such as MinHash")

    @property
    def feature_size(self) -> int:
        """Words of a feature of the first sketch whose features have weights. Raises UsageError."""
        for sketch in self.sketches:
            if sketch.feature_size:
                return sketch.feature_size
        raise UsageError("the scheme has no SimHash, whose features have weights: name features")

    def only(self, *sketches: Sketch) -> Scheme:
        """Return the scheme with these sketches alone."""
        return _only(self, sketches)

    def plus(self, sketch: Sketch) -> Scheme:
        """Return the scheme with one more sketch. Raises UsageError for a name that it has."""
        return replace(self, sketches=(*self.sketches, sketch))

    def of_fields(self) -> dict[tuple[str, ...], Scheme]:
        """Return the sketches of each set of fields as a scheme; () are the index's text fields."""
        sketches: dict[tuple[str, ...], list[Sketch]] = {}
        for sketch in self.sketches:
            sketches.setdefault(tuple(sketch.fields), []).append(sketch)
        return {fields: self.only(*sketches[fields]) for fields in sketches}

    def for_texts(self, limits: Limits) -> Scheme:
        """Return the sketch to compare texts by alone, as wide as the recall takes."""
        return self.only(self.for_pairs(limits).for_texts(limits))

    def replaced(self, sketch: Sketch) -> Scheme:
        """Return the scheme with a sketch in place of the one of its name."""
        sketches = [sketch if current.name == sketch.name else current for current in self.sketches]
        return replace(self, sketches=sketches)

    def describe(self, documents: float) -> list[tuple[str, str]]:
        """Return the parameters, and their effect at a number of documents: (name, text)."""
        form, shingling = self.normalisation.form, self.shingling
        fold = "case folded" if self.normalisation.casefold else "case kept"
        if self.normalisation.fold:
            fold += f", {', '.join(self.normalisation.fold)} folded"
        stop = f", {len(shingling.stop_words)} stop words" if shingling.stop_words else ""
        stop += ", punctuation as words" if shingling.punctuation else ""
        rows = [("scheme", self.id), ("text", f"{form}, {fold}; shingles {shingling}{stop}")]
        for sketch in self.sketches:
            rows.append((sketch.name, f"{sketch.describe()}; {sketch.size_in_words}"))
            rows += sketch.costs(documents)
        return rows

    def to_json(self) -> dict[str, object]:
        """Return a JSON object that `from_json` reads, with the tables of weights."""
        tables = [sketch.table for sketch in self.sketches if sketch.table is not None]
        weights = {"weights": {table.digest: table.packed for table in tables}}
        return {**self._parameters, **(weights if tables else {})}

    @property
    def _parameters(self) -> dict[str, object]:
        """The parameters, with the digests of tables of weights."""
        return {
            "version": self.version,
            "seed": self.seed,
            "normalisation": self.normalisation.to_json(),
            "shingling": self.shingling.to_json(),
            "sketches": [sketch.to_json() for sketch in self.sketches],
        }

    @staticmethod
    def from_json(document: Mapping[str, object]) -> Scheme:
        """Read what `to_json` returns. Raises UsageError for another form, naming the part."""
        members = _object(document, "scheme")
        _require_version(members.get("version"))
        for name in ("normalisation", "shingling", "sketches", "seed"):
            if name not in members:
                raise UsageError(f"a scheme lacks {name}")
        normalisation = _object(members["normalisation"], "normalisation")
        shingling = _object(members["shingling"], "shingling")
        words, sketches = shingling.get("stop_words", []), members["sketches"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError("a scheme's shingling.stop_words is not a list of texts")
        if not isinstance(sketches, list):
            raise UsageError("a scheme's sketches is not a list")
        shingling["stop_words"] = tuple(words)
        members["normalisation"] = Normalisation(
            **parameters(Normalisation, normalisation, "normalisation")
        )
        members["shingling"] = Shingling(**parameters(Shingling, shingling, "shingling"))
        tables = members.pop("weights", None)
        members["sketches"] = tuple(_sketch_of(sketch, tables) for sketch in sketches)
        return Scheme(**parameters(Scheme, members, ""))

    def differences(self, requested: Scheme) -> list[str]:
        """Return what differs, as "shingling.size 3, not 5": our value, not the other's."""
        mine, theirs = dict(_flat(self._parameters)), dict(_flat(requested._parameters))
        return [
            f"{key} {_show(mine.get(key))}, not {_show(theirs.get(key))}"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]

    def require(self, requested: Scheme, where: str) -> None:
        """Raise SchemeMismatch if `requested` differs from this, the scheme of `where`."""
        if differences := self.differences(requested):
            raise SchemeMismatch(
                f"{where} has scheme {self.id}, which differs from the requested one"
                f" ({requested.id}): {'; '.join(differences)}. Leave the scheme out to use the"
                " index's own, or use another index"
            )


@functools.lru_cache(64)  # A new scheme checks its parameters, and every query needs one.
def _only(scheme: Scheme, sketches: tuple[Sketch, ...]) -> Scheme:
    return scheme if scheme.sketches == sketches else replace(scheme, sketches=sketches)


def require_scheme(value: object) -> None:
    """Raise UsageError if an argument is neither a scheme nor None."""
    if value is not None and not isinstance(value, Scheme):
        raise UsageError(f"scheme: use an esdedup.Scheme, not {type(value).__name__}")


def is_token_field(name: str) -> bool:
    """Return whether a field of ours holds tokens: it begins with the name of a kind."""
    return name.partition("_")[0] in KINDS


def _sketch_of(document: object, tables: object) -> Sketch:
    """Return the sketch of its parameters.

    tables: packed tables of weights by their digests.
    """
    parameters = _object(document, "sketch")
    kind, digest = parameters.get("kind"), parameters.get("table")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"a scheme has a sketch of kind {kind!r}: this esdedup knows {[*KINDS]}")
    if isinstance(digest, str):
        parameters["table"] = stored_weights(digest, tables)
    return KINDS[kind].from_json(parameters)


def _object(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise UsageError(f"a scheme's {name} is not an object")
    return {**value}


def _require_version(version: object) -> None:
    if version not in VERSIONS:
        supported = " and ".join(map(str, VERSIONS))
        raise UsageError(
            f"the scheme is of version {version!r}; this esdedup knows versions {supported}:"
            " use a matching release"
        )


def _flat(document: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield parameters by dotted name; those of a sketch below its name."""
    for key, value in document.items():
        if key == "sketches" and isinstance(value, list):
            yield key, [sketch["name"] for sketch in value]
            for sketch in value:
                yield from _flat({**sketch, "name": None}, f"{sketch['name']}.")
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _show(value: object) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)
