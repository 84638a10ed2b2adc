"""Why two documents of an index are similar, or not: all that the scheme says of the pair.

Everything is made anew from the texts, with the index's own scheme, so that what is said holds
whatever tokens are stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.models import Document
from esdedup.sketch.banding import candidate_probability
from esdedup.sketch.minhash import MinHash, estimate_jaccard, signatures
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import Layout, segment_values
from esdedup.sketch.simhash import to_hex
from esdedup.sketch.sketch import Sketches, shingle_sets, sketch
from esdedup.sketch.tokens import encode
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64, Ragged
from esdedup.text.highlight import MarkedText, mark_shared
from esdedup.text.jaccard import hamming, jaccard
from esdedup.text.shingles import Unit

StoredTokens = Literal["current", "stale", "other scheme", "none"]
"""What a document holds: tokens of its text; of another text; of another scheme; none at all."""


@dataclass(frozen=True)
class ExplainedDocument:
    """One document of the pair.

    text: with what it shares with the other. shingles: distinct ones. digest: of the normalised
    text, 16 hexadecimal digits. stored: what its stored tokens are worth.
    """

    id: str
    text: MarkedText
    shingles: int
    digest: str
    stored: StoredTokens


@dataclass(frozen=True)
class Meeting:
    """A token that both documents have.

    position: of its band or segment, from 0. blocks: those of its segment, from 0; none of a band.
    """

    position: int
    token: str
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExplainedBands:
    """What MinHash says of the pair.

    estimate: of the Jaccard similarity, from full signatures. standard_error: sqrt(J (1 - J) / k)
    of such an estimate, J being the exact similarity and k the permutations. chance: that two texts
    of this similarity meet in any band. met: the bands that are equal.
    """

    permutations: int
    bands: int
    rows: int
    estimate: float
    standard_error: float
    chance: float
    met: tuple[Meeting, ...]


@dataclass(frozen=True)
class Block:
    """A block of both fingerprints, in binary digits, the most significant first."""

    left: str
    right: str


@dataclass(frozen=True)
class ExplainedSegments:
    """What SimHash says of the pair.

    bits: of a fingerprint. distance: differing bits. left, right: fingerprints, in hexadecimal.
    blocks: the same in binary, as the layout cuts them. segments: how many there are. guarantee:
    the distance up to which two fingerprints surely have an equal segment. met: the segments that
    are equal.
    """

    bits: int
    distance: int
    left: str
    right: str
    blocks: tuple[Block, ...]
    segments: int
    guarantee: int
    met: tuple[Meeting, ...]

    @property
    def differing(self) -> list[int]:
        """The positions of the differing bits, from 0, the most significant."""
        pairs = [
            pair for block in self.blocks for pair in zip(block.left, block.right, strict=True)
        ]
        return [at for at, (left, right) in enumerate(pairs) if left != right]


@dataclass(frozen=True)
class Explanation:
    """What is known of a pair of documents.

    scheme: its id. unit, size: of a shingle. similarity: exact Jaccard similarity, 0 to 1, of
    `shared` shingles in both among `union` in either. duplicates: the texts are equal once they are
    normalised. minhash, simhash: None where the scheme has none of it, or where a text has no
    shingle, and so no token.
    """

    left: ExplainedDocument
    right: ExplainedDocument
    scheme: str
    unit: Unit
    size: int
    shared: int
    union: int
    similarity: float
    duplicates: bool
    minhash: ExplainedBands | None
    simhash: ExplainedSegments | None


def explain(store: Store, meta: IndexMeta, left: str, right: str) -> Explanation:
    """What the index's scheme says of two documents, given by id.

    Raises UsageError for the same id twice, StoreError where a document does not exist or has no
    text.
    """
    if left == right:
        raise UsageError(f"{left!r} is given twice: give the ids of two documents")
    documents = _both(store, left, right)
    texts = _text(documents[0], meta), _text(documents[1], meta)
    scheme = meta.scheme
    sketches, sets = sketch(texts, scheme), shingle_sets(texts, scheme)
    marked = mark_shared(texts, scheme.normalisation, scheme.shingling, scheme.seed)
    one, other = (
        ExplainedDocument(
            documents[row].id,
            marked[row],
            int(sets.counts[row]),
            sketches.digests[row],
            _stored(documents[row].tokens_in(meta.field), scheme, sketches.digests[row]),
        )
        for row in (0, 1)
    )
    shared = int(np.isin(sets[0], sets[1], assume_unique=True).sum())
    similarity = float(jaccard(sets, np.array([0]), np.array([1]))[0])
    filled = bool(sketches.filled.all())
    return Explanation(
        left=one,
        right=other,
        scheme=scheme.id,
        unit=scheme.shingling.unit,
        size=scheme.shingling.size,
        shared=shared,
        union=one.shingles + other.shingles - shared,
        similarity=similarity,
        duplicates=one.digest == other.digest,
        minhash=_bands(scheme, sketches, sets, similarity) if filled else None,
        simhash=_segments(scheme, sketches) if filled else None,
    )


def _both(store: Store, left: str, right: str) -> tuple[Document, Document]:
    found = {document.id: document for document in store.get([left, right])}
    for id in (left, right):
        if id not in found:
            raise StoreError(f"{store.where} has no document {id!r}")
    return found[left], found[right]


def _text(document: Document, meta: IndexMeta) -> str:
    try:
        return text_of(document.source, meta.text_field)
    except RecordError as error:
        raise StoreError(f"document {document.id!r}: {error}") from error


def _stored(tokens: Mapping[str, Any], scheme: Scheme, digest: str) -> StoredTokens:
    if tokens.get("scheme") is None:
        return "none"
    if tokens["scheme"] != scheme.id:
        return "other scheme"
    return "current" if tokens.get("digest") == digest else "stale"


def _bands(
    scheme: Scheme, sketches: Sketches, sets: Ragged, similarity: float
) -> ExplainedBands | None:
    minhash = scheme.minhash
    if minhash is None or sketches.bands is None:
        return None
    full = signatures(sets, minhash.permutations, scheme.seed)
    return ExplainedBands(
        permutations=minhash.permutations,
        bands=minhash.bands,
        rows=minhash.rows,
        estimate=float(estimate_jaccard(full[:1], full[1:])[0]),
        standard_error=_standard_error(similarity, minhash),
        chance=candidate_probability(similarity, minhash.bands, minhash.rows),
        met=_met(sketches.bands, minhash.token_bits),
    )


def _standard_error(similarity: float, minhash: MinHash) -> float:
    return math.sqrt(similarity * (1.0 - similarity) / minhash.permutations)


def _segments(scheme: Scheme, sketches: Sketches) -> ExplainedSegments | None:
    if scheme.simhash is None or sketches.fingerprints is None:
        return None
    layout, prints = scheme.simhash.layout, sketches.fingerprints
    left, right = to_hex(prints)
    return ExplainedSegments(
        bits=layout.bits,
        distance=int(hamming(prints[:1], prints[1:])[0]),
        left=left,
        right=right,
        blocks=_blocks(left, right, layout),
        segments=len(layout.combinations),
        guarantee=layout.guarantee(),
        met=tuple(
            replace(meeting, blocks=layout.combinations[meeting.position])
            for meeting in _met(segment_values(prints, layout), layout.segment_bits)
        ),
    )


def _blocks(left: str, right: str, layout: Layout) -> tuple[Block, ...]:
    digits = [f"{int(fingerprint, 16):0{layout.bits}b}" for fingerprint in (left, right)]
    blocks = []
    first = 0
    for width in layout.block_bits:
        blocks.append(Block(*(each[first : first + width] for each in digits)))
        first += width
    return tuple(blocks)


def _met(values: U64, bits: int) -> tuple[Meeting, ...]:
    """The tokens that two rows of values, shape (2, count), have in common."""
    tokens, _ = encode(values, bits)
    equal = np.flatnonzero(values[0] == values[1])
    return tuple(Meeting(position, tokens[position]) for position in equal.tolist())
