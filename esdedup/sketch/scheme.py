"""The scheme: every parameter that decides which tokens a text gets, frozen, with an id.

It is kept in the index next to the tokens, so that a reader never guesses. The same scheme and
text give the same tokens for ever; a change to any algorithm raises VERSION.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import xxhash

from esdedup.exceptions import SchemeMismatch, UsageError
from esdedup.models import TOKEN_KINDS, TokenKind
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.segments import Layout
from esdedup.sketch.simhash import SimHash
from esdedup.sketch.weights import FeatureWeights
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling

VERSION = 1


@dataclass(frozen=True)
class Scheme:
    """All parameters of tokens.

    minhash or simhash may be None, for an index that needs only the other's tokens.
    seed: keys every hash, 0 to 2**64 - 1; two seeds have no tokens in common but by chance.
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
        if self.minhash is None and self.simhash is None:
            raise UsageError("a scheme needs MinHash or SimHash tokens, or both")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"seed {self.seed}: use 0 to 2**64 - 1")
        if self.version != VERSION:
            raise UsageError(
                f"the scheme is of version {self.version}; this esdedup knows version {VERSION}:"
                " use a matching release"
            )

    @functools.cached_property
    def id(self) -> str:
        """A short name of these parameters: equal schemes have equal ids, others do not."""
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return f"v{self.version}-{xxhash.xxh3_64_hexdigest(canonical.encode('ascii'))[:12]}"

    @property
    def kinds(self) -> list[TokenKind]:
        """The fields of tokens that documents get."""
        has: dict[TokenKind, bool] = {
            "minhash": self.minhash is not None,
            "signature": self.minhash is not None and self.minhash.signature > 0,
            "simhash": self.simhash is not None,
        }
        return [kind for kind in TOKEN_KINDS if has[kind]]

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        document: dict[str, Any] = {
            "version": self.version,
            "seed": self.seed,
            "normalisation": _plain(self.normalisation),
            "shingling": _plain(self.shingling) | {"stop_words": list(self.shingling.stop_words)},
        }
        if self.minhash is not None:
            document["minhash"] = _plain(self.minhash)
            if not self.minhash.signature:
                # It came later: the ids of the schemes before it stay as they are.
                del document["minhash"]["signature"]
        if self.simhash is not None:
            table = self.simhash.table
            document["simhash"] = _plain(self.simhash) | {
                "layout": _plain(self.simhash.layout),
                "table": table.to_json() if table is not None else None,
            }
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Scheme:
        """The inverse of `to_json`.

        Raises UsageError for another form, naming the part that is wrong.
        """
        known = {field.name for field in fields(Scheme)}
        if not isinstance(document, Mapping) or (unknown := set(document) - known):
            names = ", ".join(sorted(unknown)) if isinstance(document, Mapping) else "no object"
            raise UsageError(f"not a scheme of this esdedup: {names}")
        if document.get("version") != VERSION:
            raise UsageError(
                f"the scheme is of version {document.get('version')!r}; this esdedup knows version"
                f" {VERSION}: use a matching release"
            )
        try:
            return _from_json(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"not a scheme of this esdedup: {error}") from error

    def differences(self, other: Scheme) -> list[str]:
        """What differs, as "shingling.size 3, not 5": this scheme's value, not the other's."""
        mine, theirs = _flat(self.to_json()), _flat(other.to_json())
        return [
            _difference(key, mine.get(key), theirs.get(key))
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]

    def require(self, other: Scheme, where: str) -> None:
        """Raises SchemeMismatch where `other` differs from this, the scheme of `where`."""
        if differences := self.differences(other):
            raise SchemeMismatch(
                f"{where} has scheme {self.id}, which differs from the one asked for"
                f" ({other.id}): {'; '.join(differences)}. Leave the scheme out to use the"
                " index's own, or use another index"
            )


def _plain(parameters: Any) -> dict[str, Any]:
    return {field.name: getattr(parameters, field.name) for field in fields(parameters)}


def _from_json(document: Mapping[str, Any]) -> Scheme:
    shingling = dict(document["shingling"])
    shingling["stop_words"] = tuple(shingling.get("stop_words", ()))
    minhash, simhash = document.get("minhash"), document.get("simhash")
    return Scheme(
        normalisation=Normalisation(**document["normalisation"]),
        shingling=Shingling(**shingling),
        minhash=None if minhash is None else MinHash(**minhash),
        simhash=None if simhash is None else _simhash(simhash),
        seed=document["seed"],
    )


def _simhash(document: Mapping[str, Any]) -> SimHash:
    table = document.get("table")
    return SimHash(
        **{
            **document,
            "layout": Layout(**document["layout"]),
            "table": None if table is None else FeatureWeights.from_json(table),
        }
    )


def _flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _difference(key: str, mine: Any, theirs: Any) -> str:
    if key in ("simhash.table.hashes", "simhash.table.weights"):
        return f"{key} differ"
    return f"{key} {_show(mine)}, not {_show(theirs)}"


def _show(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)
