"""Texts to sketches: what a scheme makes of documents, a whole batch at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from esdedup.sketch.minhash import VALUE_BITS, band_hashes, signatures, value_hashes
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import segment_values
from esdedup.sketch.simhash import fingerprints, to_hex
from esdedup.sketch.tokens import encode
from esdedup.text.arrays import U64, Ragged, blocks
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import distinct, shingle
from esdedup.text.words import tokenise

_CHARACTERS_A_BLOCK = 3 << 15
"""Texts are sketched in blocks of about this many characters, so that the arrays between two
steps stay in the processor's cache, and so small that the C library keeps their memory for the
next block: of three times as much it gave it back each time, and got it again page by page."""


@dataclass(frozen=True)
class Sketches:
    """The sketches of n texts.

    digests: XXH3-64 of each normalised text, 16 hexadecimal digits.
    filled: whether a text has any shingle at all, shape (n,). One that has none gets no tokens.
    bands: band hashes, shape (n, bands), or None where the scheme has no MinHash.
    values: hashes of single values of the signature, shape (n, count), or None where the scheme
        has no tokens of them.
    fingerprints: shape (n, bits // 64), or None where the scheme has no SimHash.
    shingles: the sets of shingle hashes, sorted, or None unless they were asked for.
    """

    digests: list[str]
    filled: NDArray[np.bool_]
    bands: U64 | None
    fingerprints: U64 | None
    shingles: Ragged | None = None
    values: U64 | None = None

    def __len__(self) -> int:
        return len(self.digests)


def sketch(texts: Sequence[str], scheme: Scheme, *, with_shingles: bool = False) -> Sketches:
    """The sketches of texts, in order.

    with_shingles: keep the sets of shingles too, for a scheme with MinHash.
    """
    parts = [_sketch_block(texts[block], scheme, with_shingles) for block in _blocks(texts)]
    if len(parts) == 1:
        return parts[0]
    shingles = [part.shingles for part in parts if part.shingles is not None]
    return Sketches(
        digests=[digest for part in parts for digest in part.digests],
        filled=np.concatenate([part.filled for part in parts]),
        bands=_concatenated([part.bands for part in parts]),
        fingerprints=_concatenated([part.fingerprints for part in parts]),
        shingles=Ragged.joined(shingles) if shingles else None,
        values=_concatenated([part.values for part in parts]),
    )


def shingle_sets(texts: Sequence[str], scheme: Scheme) -> Ragged:
    """The sets of shingle hashes of texts, sorted, as exact Jaccard similarity compares them."""
    return Ragged.joined([distinct(_shingles(texts[block], scheme)) for block in _blocks(texts)])


def digest(normalised: str) -> str:
    """The digest of a normalised text: XXH3-64 of its UTF-8 bytes, 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(normalised.encode("utf-8", "surrogatepass"))


def normalised_digests(
    texts: Sequence[str], normalisation: Normalisation
) -> tuple[list[str], list[str]]:
    """Texts normalised, and their digests."""
    normalised = [
        text for block in _blocks(texts) for text in normalise(texts[block], normalisation)
    ]
    return normalised, [digest(text) for text in normalised]


def token_fields(sketches: Sketches, scheme: Scheme) -> list[dict[str, Any]]:
    """What goes into the `esdedup` field of each document."""
    minhash, simhash = scheme.minhash, scheme.simhash
    fields: list[dict[str, Any]] = [
        {"scheme": scheme.id, "digest": digest} for digest in sketches.digests
    ]
    filled = np.flatnonzero(sketches.filled)
    if minhash is not None and sketches.bands is not None:
        tokens = encode(sketches.bands[filled], minhash.token_bits)
        for row, row_tokens in zip(filled.tolist(), tokens, strict=True):
            fields[row]["minhash"] = row_tokens
    if sketches.values is not None:
        for row, row_tokens in zip(
            filled.tolist(), encode(sketches.values[filled], VALUE_BITS), strict=True
        ):
            fields[row]["signature"] = row_tokens
    if simhash is not None and sketches.fingerprints is not None:
        chosen = sketches.fingerprints[filled]
        tokens = encode(segment_values(chosen, simhash.layout), simhash.layout.segment_bits)
        for row, row_tokens, hexadecimal in zip(
            filled.tolist(), tokens, to_hex(chosen), strict=True
        ):
            fields[row]["simhash"] = row_tokens
            fields[row]["fingerprint"] = hexadecimal
    return fields


def _sketch_block(texts: Sequence[str], scheme: Scheme, with_shingles: bool) -> Sketches:
    normalised = normalise(texts, scheme.normalisation)
    tokens = tokenise(normalised, scheme.shingling, scheme.seed)
    minhash, simhash = scheme.minhash, scheme.simhash
    bands = values = prints = sets = None
    if minhash is not None:
        shingles = shingle(tokens, scheme.shingling.size)
        # No more of the signature than the tokens take.
        length = max(minhash.bands * minhash.rows, minhash.signature)
        signature = signatures(shingles, length, scheme.seed)
        bands = band_hashes(signature, minhash.bands, minhash.rows, minhash.token_bits)
        values = value_hashes(signature, minhash.signature) if minhash.signature else None
        sets = distinct(shingles) if with_shingles else None
    if simhash is not None:
        features = shingle(tokens, simhash.feature_size)
        prints = fingerprints(features, simhash.layout.bits, simhash.weighting, simhash.table)
    digests = [digest(text) for text in normalised]
    return Sketches(digests, tokens.counts > 0, bands, prints, sets, values)


def _shingles(texts: Sequence[str], scheme: Scheme) -> Ragged:
    normalised = normalise(texts, scheme.normalisation)
    tokens = tokenise(normalised, scheme.shingling, scheme.seed)
    return shingle(tokens, scheme.shingling.size)


def _blocks(texts: Sequence[str]) -> Iterator[slice]:
    """Slices of about _CHARACTERS_A_BLOCK characters; one empty slice for no texts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return blocks(lengths + 1, _CHARACTERS_A_BLOCK)


def _concatenated(parts: list[U64 | None]) -> U64 | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None
