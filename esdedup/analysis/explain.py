"""Explains why two documents of an index are similar, or not.

Tokens are computed again from both texts with the index's own scheme. So the explanation holds for
the texts as they are, whatever tokens are stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from esdedup.analysis.html import page
from esdedup.analysis.to_json import object_of
from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.sketch.banding import MOST_SWAPS, candidate_probability
from esdedup.sketch.kinds.bands import Banded, estimate_jaccard, signatures
from esdedup.sketch.kinds.segments import Segmented
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, Sketches, shingle_sets, sketch
from esdedup.sketch.tokens import encode
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64, Ragged
from esdedup.text.highlight import MarkedText, Piece, Span, mark_shared
from esdedup.text.jaccard import hamming, jaccard
from esdedup.text.shingles import Unit

MOST_ON_PAGE = 200_000
"""Characters of each text on a page. A browser shows a few megabytes with effort."""
CONTEXT = 12
"""Words kept at either end of a long run of shared ones, if not the whole text is shown."""

StoredTokens = Literal["current", "stale", "other scheme", "none"]
"""Tokens that a document holds: of its text, of another text, of another scheme, or none."""
_STORED = {
    "stale": "its stored tokens are of another text: it was changed since",
    "other scheme": "its stored tokens are of another scheme than the index's",
    "none": "it has no stored tokens",
}


@dataclass(frozen=True)
class ExplainedDocument:
    """One document of the pair.

    words: number of them; of characters if the shingles are of those. shingles: number of distinct
    ones. digest: of the normalised text, 16 hexadecimal digits. stored_tokens: the state of the
    tokens in the index. original: `text` is as it was written; else it is normalised. shared:
    stretches of `text` in shared shingles, each (start, end).
    """

    id: str
    words: int
    shingles: int
    digest: str
    stored_tokens: StoredTokens
    original: bool
    shared: tuple[Span, ...]
    text: MarkedText = field(repr=False)

    def on_page(self) -> list[Piece]:
        """The pieces of the text for a page: the whole text, unless it is too long."""
        whole = len(self.text.text) <= MOST_ON_PAGE
        return self.text.pieces(None if whole else CONTEXT, MOST_ON_PAGE)


@dataclass(frozen=True)
class Meeting:
    """A token that both documents have.

    position: of its band or segment, from 0.
    """

    position: int
    token: str

    def __str__(self) -> str:
        return f"{self.position}:{self.token}"


@dataclass(frozen=True)
class ExplainedBands:
    """The pair by bands.

    estimate: of the Jaccard similarity, from full signatures. standard_error: sqrt(J (1 - J) / k)
    of such an estimate, with the exact similarity J and k permutations. chance: probability that
    two texts of this similarity have any equal band. met: the equal bands. probed: number of bands
    that the left text as a query meets in the right one with the most swaps (`banding`), the equal
    ones among them. probed_chance: probability that there is any.
    """

    permutations: int
    bands: int
    rows: int
    estimate: float
    standard_error: float
    chance: float
    met: tuple[Meeting, ...]
    probed: int
    probed_chance: float


@dataclass(frozen=True)
class Block:
    """A block of both fingerprints, in binary digits, the most significant first."""

    left: str
    right: str


@dataclass(frozen=True)
class ExplainedSegments:
    """The pair by segments of fingerprints.

    bits: of a fingerprint. distance: number of differing bits. left, right: fingerprints, in
    hexadecimal. blocks: the same in binary, as the layout cuts them. segments: their number.
    guarantee: distance up to which two fingerprints always have an equal segment. met: the equal
    segments.
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
        digits = ((block.left, block.right) for block in self.blocks)
        pairs = itertools.chain.from_iterable(zip(*block, strict=True) for block in digits)
        return [at for at, (left, right) in enumerate(pairs) if left != right]


@dataclass(frozen=True)
class Explanation:
    """Similarity of two documents, and the tokens in which they meet.

    index: where the documents are. scheme: its id. unit, size: of a shingle. shared: number of
    shingles in both texts. union: in either. similarity: exact Jaccard similarity, 0 to 1.
    duplicates: the normalised texts are equal. bands, segments: None if the scheme lacks it, or if
    a text has no shingle and so no token.
    """

    index: str
    text_fields: tuple[str, ...]
    scheme: str
    unit: Unit
    size: int
    left: ExplainedDocument
    right: ExplainedDocument
    shared: int
    union: int
    similarity: float
    duplicates: bool
    bands: ExplainedBands | None
    segments: ExplainedSegments | None

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before the rest is believed."""
        found = []
        for side in (self.left, self.right):
            if side.stored_tokens in _STORED:
                stored = _STORED[side.stored_tokens]
                found.append(f"{side.id}: {stored}. The current text is explained")
            if not side.shingles:
                found.append(f"{side.id}: the text has no {self.units}, so it has no tokens")
            if not side.original:
                found.append(
                    f"{side.id}: the text is shown normalised: its {self.units} can't be found in"
                    " the original"
                )
        return found

    @property
    def units(self) -> str:
        """Units of the texts: words, or characters."""
        return "characters" if self.unit == "char" else "words"

    def to_json(self) -> dict[str, Any]:
        """A JSON object of everything but the texts."""
        return object_of(self)

    def html(self) -> str:
        """A page with both texts, as one file that loads nothing.

        Of a text of more than 200,000 characters it shows the beginning, without the middles of
        long runs of shared words, and tells how much is left out.
        """
        return page("explain", pair=self)

    def facts(self) -> list[tuple[str, str, str]]:
        """The main figures in words: (name, value, remark)."""
        shingles = f"shingles {self.unit}:{self.size} in both, {self.union:,} in either"
        found = [("Jaccard similarity", f"{self.similarity:.3f}", f"{self.shared:,} {shingles}")]
        if (bands := self.bands) is not None:
            error = f"standard error {bands.standard_error:.3f}, {bands.permutations} permutations"
            chances = f"{_share(bands.chance)} of pairs this similar have an equal band"
            probed = f"{_share(bands.probed_chance)} of them meet in one"
            found.append(("estimate by signatures", f"{bands.estimate:.3f}", error))
            found.append(("equal bands", f"{len(bands.met)} of {bands.bands}", chances))
            found.append(("bands met by swaps", f"{bands.probed} of {bands.bands}", probed))
        if (segments := self.segments) is not None:
            always = f"up to {segments.guarantee}, a segment always meets"
            distance = f"{segments.distance} of {segments.bits} bits"
            found.append(("Hamming distance", distance, always))
            found.append(("segments met", f"{len(segments.met)} of {segments.segments}", ""))
        equal = ("yes", "equal") if self.duplicates else ("no", "different")
        return [*found, ("exact duplicates", equal[0], f"the normalised texts are {equal[1]}")]


def explain(store: Store, meta: IndexMeta, left: str, right: str) -> Explanation:
    """Explains by the index's scheme why two documents, given by id, are similar or not.

    Raises UsageError for equal ids, StoreError if a document does not exist or has no text.
    """
    if left == right:
        raise UsageError(f"{left!r} is given twice: give the ids of two documents")
    found = {document.id: document for document in store.get([left, right])}
    texts = []
    for id in (left, right):
        if id not in found:
            raise StoreError(f"{store.where} has no document {id!r}")
        try:
            texts.append(text_of(found[id].source, meta.text_fields))
        except RecordError as error:
            raise StoreError(f"document {id!r}: {error}") from error
    scheme = meta.scheme
    compared = compare(texts[0], texts[1], scheme)
    sketches, sets = compared.sketches, compared.sets
    marked = mark_shared((texts[0], texts[1]), scheme.normalisation, scheme.shingling, scheme.seed)
    columns = (left, right), marked, sets.counts.tolist(), sketches.digests
    one, other = (
        ExplainedDocument(
            id,
            words=text.starts.size,
            shingles=count,
            digest=digest,
            stored_tokens=_stored(found[id].tokens_in(meta.field), scheme, digest),
            original=text.original,
            shared=text.shared,
            text=text,
        )
        for id, text, count, digest in zip(*columns, strict=True)
    )
    shared = int(np.isin(sets[0], sets[1], assume_unique=True).sum())
    return Explanation(
        index=store.where,
        text_fields=meta.text_fields,
        scheme=scheme.id,
        unit=scheme.shingling.unit,
        size=scheme.shingling.size,
        left=one,
        right=other,
        shared=shared,
        union=one.shingles + other.shingles - shared,
        similarity=compared.similarity,
        duplicates=one.digest == other.digest,
        bands=compared.bands,
        segments=compared.segments,
    )


@dataclass(frozen=True)
class Compared:
    """Two texts by their tokens. sketches, sets: of both. The others are as in `Explanation`."""

    sketches: Sketches = field(repr=False)
    sets: Ragged = field(repr=False)
    similarity: float
    bands: ExplainedBands | None
    segments: ExplainedSegments | None


def compare(left: str, right: str, scheme: Scheme) -> Compared:
    """Compute the similarity of two texts, and the tokens in which they meet."""
    texts = left, right
    sketches, sets = (
        sketch(texts, scheme, limits=Limits(swaps=MOST_SWAPS)),
        shingle_sets(texts, scheme),
    )
    similarity = float(jaccard(sets, np.array([0]), np.array([1]))[0])
    if sketches.digests[0] == sketches.digests[1] != NO_TEXT:
        # Equal texts are similar without words too, as in searches and pairs.
        similarity = 1.0
    filled = bool(sketches.filled.all())
    return Compared(
        sketches,
        sets,
        similarity,
        bands=_bands(scheme, sketches, sets, similarity) if filled else None,
        segments=_segments(scheme, sketches) if filled else None,
    )


def _stored(tokens: Mapping[str, Any], scheme: Scheme, digest: str) -> StoredTokens:
    if tokens.get("scheme") is None:
        return "none"
    if tokens["scheme"] != scheme.id:
        return "other scheme"
    return "current" if tokens.get("digest") == digest else "stale"


def _share(chance: float) -> str:
    # Only certainty is shown as 100%.
    return ">99.9%" if 0.9995 <= chance < 1.0 else f"{100 * chance:.1f}%"


def _bands(
    scheme: Scheme, sketches: Sketches, sets: Ragged, similarity: float
) -> ExplainedBands | None:
    bands = next((each for each in scheme.sketches if isinstance(each, Banded)), None)
    if bands is None:
        return None
    values, probes = sketches.values[bands.name], sketches.probes[bands.name]
    equal = probes.values[0] == values[1, :, None]
    equal &= probes.present[0]
    form = bands.bands, bands.rows
    full = signatures(sets, bands.permutations, scheme.seed)
    return ExplainedBands(
        permutations=bands.permutations,
        bands=bands.bands,
        rows=bands.rows,
        estimate=float(estimate_jaccard(full[:1], full[1:])[0]),
        standard_error=math.sqrt(similarity * (1.0 - similarity) / bands.permutations),
        chance=candidate_probability(similarity, *form),
        met=_met(values, bands.bits),
        probed=int(equal.any(axis=1).sum()),
        probed_chance=candidate_probability(similarity, *form, MOST_SWAPS),
    )


def _segments(scheme: Scheme, sketches: Sketches) -> ExplainedSegments | None:
    segments = next((each for each in scheme.sketches if isinstance(each, Segmented)), None)
    if segments is None:
        return None
    prints = sketches.values[segments.name]
    one, other = ("".join(f"{word:064b}" for word in row) for row in prints.tolist())
    left, right = ("".join(f"{word:016x}" for word in row) for row in prints.tolist())
    edges = itertools.accumulate(segments.widths, initial=0)
    return ExplainedSegments(
        bits=segments.size,
        distance=int(hamming(prints[:1], prints[1:])[0]),
        left=left,
        right=right,
        blocks=tuple(Block(one[a:b], other[a:b]) for a, b in itertools.pairwise(edges)),
        segments=segments.segments,
        guarantee=segments.guarantee(),
        met=_met(segments.token_values(prints), segments.bits),
    )


def _met(values: U64, bits: int) -> tuple[Meeting, ...]:
    """The equal tokens of two rows. values: shape (2, count)."""
    tokens, _ = encode(values, bits)
    equal = np.flatnonzero(values[0] == values[1]).tolist()
    return tuple(Meeting(at, tokens[at]) for at in equal)
