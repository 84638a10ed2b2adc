"""The scheme: every parameter that decides which tokens a text gets, frozen, with an id.

The index keeps it next to the tokens, so that a reader never guesses. The same scheme and text
always give the same tokens: a change to any algorithm raises VERSION.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

import xxhash

from esdedup.arguments import check_fields
from esdedup.exceptions import SchemeMismatch, UsageError
from esdedup.models import TOKEN_KINDS, TokenKind
from esdedup.sketch.banding import SWAPS, choose_banding
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.segments import Layout
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.kinds.weights import FeatureWeights
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling

VERSION = 3
_OTHER = "not a scheme of this esdedup"
_Part = TypeVar("_Part", "Normalisation", "Shingling", "MinHash", "SimHash", "Layout", "Scheme")


@dataclass(frozen=True)
class Scheme:
    """All parameters of tokens.

    minhash, simhash: one of them may be None, for an index that needs only the other's tokens.
    seed: keys every hash, 0 to 2**64 - 1. Two seeds share tokens only by chance.
    version: of the algorithms.
    Raises UsageError for values out of range.
    """

    normalisation: Normalisation = field(default_factory=Normalisation)
    shingling: Shingling = field(default_factory=Shingling)
    minhash: MinHash | None = field(default_factory=MinHash)
    simhash: SimHash | None = field(default_factory=SimHash)
    seed: int = 1
    version: int = VERSION

    def __post_init__(self) -> None:
        check_fields(self)
        if self.minhash is None and self.simhash is None:
            raise UsageError("a scheme needs MinHash or SimHash tokens, or both")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"seed {self.seed}: use 0 to 2**64 - 1")
        _require_version(self.version)

    @staticmethod
    def for_threshold(
        threshold: float,
        *,
        recall: float = 0.99,
        permutations: int = 128,
        token_bits: int = 30,
        signature: int = 0,
        swaps: int = SWAPS,
        **others: Any,
    ) -> Scheme:
        """The scheme whose bands find a pair at `threshold` with probability `recall`.

        `banding.choose_banding` explains the choice.

        threshold: Jaccard similarity, between 0 and 1.
        recall: mean share of the pairs at just this similarity that are found, between 0 and 1.
        swaps: of the queries that find them; 0 if stored tokens alone are to meet.
        permutations, token_bits, signature: as in MinHash. others: further parameters of Scheme.
        Raises UsageError for values out of range, or if `permutations` do not reach the recall.
        """
        bands, rows = choose_banding(threshold, recall, permutations, swaps)
        return Scheme(minhash=MinHash(permutations, bands, rows, token_bits, signature), **others)

    @functools.cached_property
    def id(self) -> str:
        """A short name of these parameters. Only equal schemes have equal ids."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return f"v{self.version}-{xxhash.xxh3_64_hexdigest(canonical.encode('ascii'))[:12]}"

    @property
    def kinds(self) -> list[TokenKind]:
        """The token fields that documents get."""
        has: dict[TokenKind, bool] = {
            "minhash": self.minhash is not None,
            "signature": self.minhash is not None and self.minhash.signature > 0,
            "simhash": self.simhash is not None,
        }
        return [kind for kind in TOKEN_KINDS if has[kind]]

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads."""
        document: dict[str, Any] = {
            "version": self.version,
            "seed": self.seed,
            "normalisation": {**vars(self.normalisation)},
            "shingling": {**vars(self.shingling), "stop_words": list(self.shingling.stop_words)},
        }
        if self.minhash is not None:
            document["minhash"] = {**vars(self.minhash)}
            if not self.minhash.signature:
                # Schemes without such tokens keep one id, with or without this key.
                del document["minhash"]["signature"]
        if self.simhash is not None:
            document["simhash"] = {
                **vars(self.simhash),
                "layout": {**vars(self.simhash.layout)},
                "table": self.simhash.table and self.simhash.table.to_json(),
            }
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Scheme:
        """Read what `to_json` returns. Raises UsageError for another form, naming the part."""
        whole = _object(document, "it")
        try:
            _require_version(whole["version"])
            shingling = _object(whole["shingling"], "shingling")
            if not isinstance(words := shingling.get("stop_words", []), list) or not all(
                isinstance(word, str) for word in words
            ):
                raise UsageError(f"{_OTHER}: shingling.stop_words is not a list of texts")
            minhash, simhash = whole.get("minhash"), whole.get("simhash")
            if simhash is not None:
                simhash = _object(simhash, "simhash")
                simhash["layout"] = _part(Layout, simhash["layout"], "simhash.layout")
                if (table := simhash.get("table")) is not None:
                    table = FeatureWeights.from_json(_object(table, "simhash.table"))
                    simhash["table"] = table
            parts = {
                "normalisation": _part(Normalisation, whole["normalisation"], "normalisation"),
                "shingling": _part(Shingling, {**shingling, "stop_words": (*words,)}, "shingling"),
                "minhash": None if minhash is None else _part(MinHash, minhash, "minhash"),
                "simhash": None if simhash is None else _part(SimHash, simhash, "simhash"),
                "seed": whole["seed"],
            }
            return _part(Scheme, {**whole, **parts}, "")
        except UsageError:
            raise
        except KeyError as error:
            raise UsageError(f"{_OTHER}: {error.args[0]} is missing") from error
        except ValueError as error:
            raise UsageError(f"{_OTHER}: simhash.table: {error}") from error

    def differences(self, other: Scheme) -> list[str]:
        """The parameters that differ, as "shingling.size 3, not 5": ours, not the other's."""
        mine, theirs = _flat(self.to_json()), _flat(other.to_json())
        found = []
        for key in sorted(mine.keys() | theirs.keys()):
            ours, its = mine.get(key), theirs.get(key)
            if ours != its and key in ("simhash.table.hashes", "simhash.table.weights"):
                found.append(f"{key} differ")
            elif ours != its:
                found.append(f"{key} {_show(ours)}, not {_show(its)}")
        return found

    def require(self, other: Scheme, where: str) -> None:
        """Raise SchemeMismatch if `other` differs from this, the scheme of `where`."""
        if differences := self.differences(other):
            raise SchemeMismatch(
                f"{where} has scheme {self.id}, which differs from the one asked for"
                f" ({other.id}): {'; '.join(differences)}. Leave the scheme out to use the"
                " index's own, or use another index"
            )


def require_scheme(value: object) -> None:
    """Raise UsageError if an argument is neither a scheme nor None."""
    if value is not None and not isinstance(value, Scheme):
        raise UsageError(f"scheme: use an esdedup.Scheme, not {type(value).__name__}")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{_OTHER}: {name} is not an object")
    return {**value}


def _part(kind: type[_Part], document: Any, name: str) -> _Part:
    """Make a part from its parameters. Raises UsageError for one of another name or type."""
    given, known = _object(document, name), {field.name: field for field in fields(kind)}
    for key, value in given.items():
        full = f"{name}.{key}".lstrip(".")
        if key not in known:
            raise UsageError(f"{_OTHER}: {full} is not known")
        default = known[key].default
        # A default of None, or none at all, is that of a part, which was made before.
        if default is not None and default is not MISSING and type(value) is not type(default):
            raise UsageError(f"{_OTHER}: {full} is {_show(value)}, not like {_show(default)}")
    return kind(**given)


def _require_version(version: object) -> None:
    if version != VERSION:
        raise UsageError(
            f"the scheme is of version {version!r}; this esdedup knows version {VERSION}:"
            " use a matching release"
        )


def _flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _show(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)
