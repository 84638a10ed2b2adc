"""Sketches texts: everything that a scheme makes of a document's text, a batch at a time.

The steps of a text: `normalise`, `tokenise`, `shingle`, then MinHash `signatures` and their bands,
and SimHash `fingerprints`. `token_fields` writes them as the `esdedup` field of documents.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from esdedup.sketch.kinds.minhash import VALUE_BITS, band_hashes, probe_hashes, signatures, smallest
from esdedup.sketch.kinds.segments import Layout, fingerprints_of, segment_values
from esdedup.sketch.kinds.simhash import fingerprints
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import decode, encode, write_into
from esdedup.text.arrays import I64, U64, Mask, Ragged, blocks
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import distinct, shingle
from esdedup.text.words import tokenise

_CHARACTERS_A_BLOCK = 3 << 15
"""Characters of the texts sketched at once. The arrays between two steps then stay in the
processor's cache, and the C library keeps their memory for the next block. With three times as many
it gave the memory back each time, and got it again page by page."""


_Array = TypeVar("_Array", U64, Mask)
_DIGEST = re.compile("[A-Za-z0-9_-]{22}")


@dataclass(frozen=True)
class Sketches:
    """The sketches of n texts; None for parts that the scheme lacks, or that nobody asked for.

    digests: of the normalised texts, as `text_digests` writes them. filled: True for a text with
    shingles, shape (n,); others get no tokens. bands: band hashes, shape (n, bands). fingerprints:
    shape (n, bits // 64). shingles: the sets of shingle hashes, sorted. values: hashes of single
    values of the signature, shape (n, count). probes: the hashes that a query looks for in each
    band, shape (n, bands, probes); probed: False for those that a text is too short for.
    """

    digests: list[str]
    filled: Mask
    bands: U64 | None
    fingerprints: U64 | None
    shingles: Ragged | None = None
    values: U64 | None = None
    probes: U64 | None = None
    probed: Mask | None = None

    def __len__(self) -> int:
        return len(self.digests)

    def of(self, rows: I64) -> Sketches:
        """The sketches of some of the texts, without shingles and probes. rows: shape (m,)."""
        parts = self.bands, self.fingerprints, self.values
        bands, prints, values = (None if part is None else part[rows] for part in parts)
        digests = [self.digests[row] for row in rows.tolist()]
        return Sketches(digests, self.filled[rows], bands, prints, None, values)


def sketch(
    texts: Sequence[str], scheme: Scheme, *, with_shingles: bool = False, swaps: int = 0
) -> Sketches:
    """The sketches of texts.

    with_shingles: keep the sets of shingles too, if there is MinHash. swaps: of the probes to make,
    if the texts are queries.
    """
    parts = [_sketch_block(texts[block], scheme, with_shingles, swaps) for block in _blocks(texts)]
    if len(parts) == 1:
        return parts[0]
    shingles = [part.shingles for part in parts if part.shingles is not None]
    return Sketches(
        digests=[digest for part in parts for digest in part.digests],
        filled=np.concatenate([part.filled for part in parts]),
        bands=_joined([part.bands for part in parts]),
        fingerprints=_joined([part.fingerprints for part in parts]),
        shingles=Ragged.joined(shingles) if shingles else None,
        values=_joined([part.values for part in parts]),
        probes=_joined([part.probes for part in parts]),
        probed=_joined([part.probed for part in parts]),
    )


def _sketch_block(
    texts: Sequence[str], scheme: Scheme, with_shingles: bool, swaps: int
) -> Sketches:
    normalised, tokens = _tokens(texts, scheme)
    minhash, simhash = scheme.minhash, scheme.simhash
    bands = values = prints = sets = probes = probed = None
    if minhash is not None:
        shingles = shingle(tokens, scheme.shingling.size)
        if with_shingles or swaps:
            sets = distinct(shingles)
        # The signature is only as long as the tokens need.
        length = max(minhash.bands * minhash.rows, minhash.signature)
        form = minhash.bands, minhash.rows, minhash.token_bits
        if swaps and sets is not None:
            least = smallest(sets, length, scheme.seed, swaps + 1)
            signature = least[0]
            probes, probed = probe_hashes(least, *form, swaps)
            bands = probes[:, :, 0]
        else:
            signature = signatures(shingles, length, scheme.seed)
            bands = band_hashes(signature, *form)
        if minhash.signature:
            values = band_hashes(signature, minhash.signature, 1, VALUE_BITS)
    if simhash is not None:
        prints = fingerprints(shingle(tokens, simhash.feature_size), simhash)
    return Sketches(
        text_digests(normalised),
        tokens.counts > 0,
        bands,
        prints,
        sets if with_shingles else None,
        values,
        probes,
        probed,
    )


def _tokens(texts: Sequence[str], scheme: Scheme) -> tuple[list[str], Ragged]:
    normalised = normalise(texts, scheme.normalisation)
    return normalised, tokenise(normalised, scheme.shingling, scheme.seed)


def _joined(parts: Sequence[_Array | None]) -> _Array | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def _blocks(texts: Sequence[str]) -> Iterator[slice]:
    if len(texts) == 1:
        return iter([slice(0, 1)])
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return blocks(lengths + 1, _CHARACTERS_A_BLOCK)


def shingle_sets(texts: Sequence[str], scheme: Scheme) -> Ragged:
    """The sets of shingle hashes of texts, sorted, as exact Jaccard similarity compares them."""
    parts = (_tokens(texts[block], scheme)[1] for block in _blocks(texts))
    return Ragged.joined([distinct(shingle(each, scheme.shingling.size)) for each in parts])


def text_digests(normalised: Iterable[str]) -> list[str]:
    """The digests of normalised texts: BLAKE2b of the UTF-8 bytes, 128 bits, in base64url.

    Aumasson et al., "BLAKE2: simpler, smaller, fast as MD5", 2013; RFC 7693; RFC 4648, section 5,
    without the padding: 22 characters. Documents are skipped and deleted because their digests are
    equal, so nobody must be able to make two texts of one digest. With XXH3 anybody can.
    """
    encoded = (text.encode("utf-8", "surrogatepass") for text in normalised)
    # Two more bytes fill the last of 24 characters, so that all are written at once.
    raw = b"".join([hashlib.blake2b(text, digest_size=16).digest() + b"\0\0" for text in encoded])
    written = base64.urlsafe_b64encode(raw).decode("ascii")
    return [written[at : at + 22] for at in range(0, len(written), 24)]


(NO_TEXT,) = text_digests([""])
"""The digest of a text of which nothing is left when it is normalised."""


def digest_words(digests: Sequence[object]) -> U64:
    """Two numbers for each digest, to compare on this machine only: shape (n, 2).

    Raises ValueError that names the first value that is not a digest.
    """
    for each in digests:
        if not (isinstance(each, str) and _DIGEST.fullmatch(each)):
            raise ValueError(f"{each!r} is not a digest of 22 characters")
    raw = base64.urlsafe_b64decode("".join([f"{each}AA" for each in digests]))
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 18)[:, :16]
    return np.ascontiguousarray(rows).view(np.uint64)


def digest_of_words(words: U64) -> str:
    """The digest of which `digest_words` made these, shape (2,)."""
    return base64.urlsafe_b64encode(words.tobytes())[:22].decode("ascii")


def normalised_digests(
    texts: Sequence[str], normalisation: Normalisation
) -> tuple[list[str], list[str]]:
    """The normalised texts, and their digests."""
    parts = (normalise(texts[block], normalisation) for block in _blocks(texts))
    normalised = list(itertools.chain.from_iterable(parts))
    return normalised, text_digests(normalised)


def token_fields(sketches: Sketches, scheme: Scheme) -> list[dict[str, Any]]:
    """The value of the `esdedup` field of each document.

    The segments of a fingerprint hold all of its bits (`segments.fingerprints_of`). A text without
    words has only its digest, indexed as `wordless`; others are found by their tokens.
    """
    fields: list[dict[str, Any]] = [
        {"scheme": scheme.id, "digest": digest} for digest in sketches.digests
    ]
    for row in np.flatnonzero(~sketches.filled).tolist():
        fields[row]["wordless"] = sketches.digests[row]
    filled = np.flatnonzero(sketches.filled)
    columns: dict[str, Sequence[Any]] = {}
    if scheme.minhash is not None and sketches.bands is not None:
        columns["minhash"] = encode(sketches.bands[filled], scheme.minhash.token_bits)
    if sketches.values is not None:
        columns["signature"] = encode(sketches.values[filled], VALUE_BITS)
    if scheme.simhash is not None and sketches.fingerprints is not None:
        layout, chosen = scheme.simhash.layout, sketches.fingerprints[filled]
        columns["simhash"] = encode(segment_values(chosen, layout), layout.segment_bits)
    for name, column in columns.items():
        for row, value in zip(filled.tolist(), column, strict=True):
            fields[row][name] = value
    return fields


def stored_fingerprints(rows: Sequence[Any], layout: Layout) -> tuple[U64, Mask]:
    """The fingerprints of lists of segment tokens, and which of the rows are such lists.

    Returns shapes (m, bits // 64) and (n,), with m rows that are. Others may write anything.
    """
    form = len(layout.widths), layout.segment_bits
    found = []
    whole = np.zeros(len(rows), np.bool_)
    for row, tokens in enumerate(rows):
        with contextlib.suppress(TypeError, ValueError):
            found.append(decode([tokens], *form))
            whole[row] = True
    segments = np.concatenate([np.empty((0, form[0]), np.uint64), *found])
    return fingerprints_of(segments, layout), whole


def token_json(sketches: Sketches, scheme: Scheme) -> list[str]:
    """The values of `token_fields` as compact JSON, in a fifth of the time.

    All documents with shingles have JSON of one form, which `token_fields` of the first one shows.
    Their tokens are written into copies of it side by side.
    """
    filled = np.flatnonzero(sketches.filled)
    others = np.flatnonzero(~sketches.filled)
    empty = token_fields(sketches.of(others), scheme)
    (form,) = token_fields(sketches.of(filled[:1]), scheme) or [{}]
    template = _compact(form).encode("ascii")
    text = np.empty((filled.size, len(template)), np.uint8)
    text[:] = np.frombuffer(template, np.uint8)
    minhash, simhash = scheme.minhash, scheme.simhash
    chosen = sketches.of(filled)
    for name, value in form.items():
        start = template.index(f'"{name}":'.encode()) + len(name) + 3
        if isinstance(value, list):
            width = len(value[0])
            shape, strides = (filled.size, len(value), width), (len(template), width + 3, 1)
            into = np.ndarray(shape, np.uint8, text, start + 2, strides)
            if name == "minhash" and minhash is not None and chosen.bands is not None:
                write_into(into, chosen.bands, minhash.token_bits)
            elif name == "signature" and chosen.values is not None:
                write_into(into, chosen.values, VALUE_BITS)
            elif simhash is not None and chosen.fingerprints is not None:
                segments = segment_values(chosen.fingerprints, simhash.layout)
                write_into(into, segments, simhash.layout.segment_bits)
        elif name == "digest":
            written = np.frombuffer("".join(chosen.digests).encode("ascii"), np.uint8)
            text[:, start + 1 : start + 1 + len(value)] = written.reshape(filled.size, -1)
    whole, width = text.tobytes().decode("ascii"), len(template)
    made = np.empty(len(sketches), np.object_)
    made[filled] = [whole[at : at + width] for at in range(0, len(whole), width)]
    made[others] = [_compact(each) for each in empty]
    found: list[str] = made.tolist()
    return found


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
