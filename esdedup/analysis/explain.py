"""Explain why two documents of an index are similar, or not.

Tokens are computed again from both texts with the index's own scheme, whatever is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from esdedup.analysis.features import WeighedFeatures, weighed_features
from esdedup.analysis.plain_json import object_of
from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.models import Document
from esdedup.search.warnings import percent
from esdedup.sketch.banding import MOST_SWAPS
from esdedup.sketch.comparisons import JaccardSimilarity, TextComparison
from esdedup.sketch.kinds.base import Sketch, ValueField
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import COSINE, JACCARD
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, Sketches, operands_of, sketch
from esdedup.sketch.tokens import encode
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.text.highlight import MarkedText, Span, mark_shared
from esdedup.text.shingles import Unit

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

    id: of the document.
    words: number of them; of characters if the shingles are of those.
    shingles: number of distinct ones.
    digest: of the normalised text, 16 hexadecimal digits.
    stored_tokens: the state of the tokens in the index.
    shared: stretches of `text` in shared shingles, each (start, end).
    text: the text, with what is shared marked.
    """

    id: str
    words: int
    shingles: int
    digest: str
    stored_tokens: StoredTokens
    shared: tuple[Span, ...]
    text: MarkedText = field(repr=False)


@dataclass(frozen=True)
class ExplainedSketch:
    """Comparison of the pair by one sketch of the scheme.

    name: of the sketch.
    tokens: number that a document has.
    met: the equal ones, each "position:token".
    probed: number of positions in which the left text as a query meets the right one, with the
        most probes.
    chance: fraction of pairs this similar that such a query finds; None by Hamming distance.
    distance: number of differing bits, None by Jaccard similarity.
    always: distance up to which two documents share a token; None by Jaccard similarity.
    features: those that weigh most in the fingerprints; None if features have no weights.
    cosine: of the vectors; None for another measure.
    """

    name: str
    tokens: int
    met: tuple[str, ...]
    probed: int
    chance: float | None
    distance: int | None
    always: int | None
    features: WeighedFeatures | None = None
    cosine: float | None = None

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the figures in words: (name, value, remark)."""
        facts = []
        if self.distance is not None:
            always = f"up to {self.always}, a token is always equal"
            facts.append((f"{self.name}: distance", f"{self.distance} bits", always))
        if self.cosine is not None:
            facts.append((f"{self.name}: cosine", f"{self.cosine:.3f}", ""))
        facts.append((f"{self.name}: equal tokens", f"{len(self.met)} of {self.tokens}", ""))
        if self.chance is not None:
            probed = f"{self.probed} of {self.tokens}"
            chance = f"{percent(self.chance)} of pairs this similar meet"
            facts.append((f"{self.name}: met by a query", probed, chance))
        if self.features is not None:
            lists = {"in both": self.features.shared, "in the difference": self.features.differing}
            facts += [
                (f"{self.name}: most {where}", "; ".join(map(str, features)), "")
                for where, features in lists.items()
                if features
            ]
        return facts


@dataclass(frozen=True)
class Explanation:
    """Similarity of two documents, and the tokens in which they meet.

    index: where the documents are.
    text_fields: of the index.
    scheme: id of the index's scheme.
    unit, size: of a shingle.
    left, right: the documents.
    shared: number of shingles in both texts.
    union: number of shingles in either text.
    similarity: exact Jaccard similarity, 0 to 1; of vectors, their cosine.
    duplicates: the normalised texts are equal.
    passage: words of the shortest passage, if these are marked, not shingles.
    sketches: of the scheme, in its order; empty if a text has no shingle and so no token.
    """

    CONTEXT: ClassVar = CONTEXT

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
    passage: int | None
    sketches: tuple[ExplainedSketch, ...]

    @property
    def warnings(self) -> list[str]:
        """Return sentences to read before the figures."""
        warnings = []
        for document in (self.left, self.right):
            if document.stored_tokens in _STORED:
                stored = _STORED[document.stored_tokens]
                warnings.append(f"{document.id}: {stored}. The current text is explained")
            if not document.shingles:
                warnings.append(f"{document.id}: the text has no {self.units}, so it has no tokens")
        return warnings

    @property
    def measure_words(self) -> str:
        """Return the measure of the similarity in words."""
        are_vectors = any(explained.cosine is not None for explained in self.sketches)
        return (COSINE if are_vectors else JACCARD).words

    @property
    def units(self) -> str:
        """Return the units of the texts: words, or characters."""
        return "characters" if self.unit == "char" else "words"

    def _in_passages(self, passage: int) -> tuple[str, str, str]:
        """Return the words of both documents in passages, and the fractions of all words."""
        left, right = (int(document.text.common.sum()) for document in (self.left, self.right))
        of_left = f"{left / max(1, self.left.words):.2f} of {self.left.id}"
        of_right = f"{right / max(1, self.right.words):.2f} of {self.right.id}"
        shared = f"{left:,} and {right:,} {self.units}"
        return f"in passages of {passage}", shared, f"{of_left} and {of_right}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object of everything but the texts."""
        return object_of(self)

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the main figures in words: (name, value, remark)."""
        shingles = f"shingles {self.unit}:{self.size} in both, {self.union:,} in either"
        facts = []
        if not isinstance(self.text_fields[0], ValueField):
            shared = f"{self.shared:,} {shingles}"
            facts.append(("Jaccard similarity", f"{self.similarity:.3f}", shared))
        if self.passage is not None:
            facts.append(self._in_passages(self.passage))
        for explained in self.sketches:
            facts += explained.facts()
        equality = "equal" if self.duplicates else "different"
        answer = "yes" if self.duplicates else "no"
        return [*facts, ("exact duplicates", answer, f"the normalised texts are {equality}")]


def explain_pair(
    store: Store, meta: IndexMeta, left: str, right: str, name: str | None = None
) -> Explanation:
    """Explain by the index's scheme why two documents, given by id, are similar or not.

    name: of a sketch; if it is of passages, these are marked. Raises UsageError for equal ids,
    StoreError if a document does not exist or has no text.
    """
    if left == right:
        raise UsageError(f"{left!r} is given twice: give the ids of two documents")
    documents = _documents(store, left, right)
    texts = [_text_of(document, meta) for document in documents]
    scheme, limits = meta.scheme, Limits(swaps=MOST_SWAPS)
    analyzed = store.analyzed(meta.analyzed, texts) if meta.scheme.by_server else None
    comparison = JaccardSimilarity()
    sketches = sketch(texts, scheme, comparison=comparison, limits=limits)
    sets, digests = sketches.operands, sketches.digests
    assert sets is not None
    similarity = float(comparison.nearness(sets, np.array([0]), np.array([1]))[0, 0])
    duplicates = digests[0] == digests[1]
    if duplicates and digests[0] != NO_TEXT:
        # Equal texts are similar without words too, as in searches and pairs.
        similarity = 1.0
    passage = scheme.sketch(name).passage
    shingling = replace(scheme.shingling, size=passage) if passage else scheme.shingling
    left_text, right_text = (meta.shown_text(document.source) for document in documents)
    marked_texts = mark_shared(
        (left_text, right_text), scheme.normalisation, shingling, scheme.seed
    )
    left_document, right_document = (
        ExplainedDocument(
            document.id,
            words=marked.starts.size,
            shingles=shingles,
            digest=digest,
            stored_tokens=_stored(document.tokens_in(meta.field), scheme, digest),
            shared=marked.shared,
            text=marked,
        )
        for document, marked, shingles, digest in zip(
            documents, marked_texts, sets.counts.tolist(), digests, strict=True
        )
    )
    (first, *_), cosine = scheme.sketches, None
    if first.reads_values and not first.measure.by_values:
        similarity = cosine = _nearness(texts, scheme, first)
    shared = int(np.isin(sets[0], sets[1], assume_unique=True).sum())
    explained = [
        replace(
            _explain_sketch(sketch, sketches, similarity, limits, analyzed),
            features=weighed_features(texts, scheme, sketch) if sketch.feature_size else None,
            cosine=cosine,
        )
        for sketch in (scheme.sketches if sketches.filled.all() else ())
    ]
    return Explanation(
        index=store.where,
        text_fields=meta.text_fields,
        scheme=scheme.id,
        unit=scheme.shingling.unit,
        size=scheme.shingling.size,
        left=left_document,
        right=right_document,
        shared=shared,
        union=left_document.shingles + right_document.shingles - shared,
        similarity=similarity,
        duplicates=duplicates,
        passage=passage or None,
        sketches=tuple(explained),
    )


def _nearness(texts: Sequence[str], scheme: Scheme, sketch: Sketch) -> float:
    """Return the nearness of two documents by the comparison of a sketch."""
    comparison = sketch.comparison(Limits())
    assert isinstance(comparison, TextComparison)
    operands = operands_of(texts, scheme, comparison)
    return float(comparison.nearness(operands, np.array([0]), np.array([1]))[0, 0])


def _documents(store: Store, left: str, right: str) -> list[Document]:
    """Return two documents, given by id. Raises StoreError if one does not exist."""
    document_of = {document.id: document for document in store.get([left, right])}
    for id in (left, right):
        if id not in document_of:
            raise StoreError(f"{store.where} has no document {id!r}")
    return [document_of[left], document_of[right]]


def _text_of(document: Document, meta: IndexMeta) -> str:
    """Return the text of a document. Raises StoreError if it has none."""
    try:
        return text_of(document.source, meta.text_fields)
    except RecordError as error:
        raise StoreError(f"document {document.id!r}: {error}") from error


def _stored(tokens: Mapping[str, object], scheme: Scheme, digest: str) -> StoredTokens:
    """Return the state of the tokens of a document. digest: of its text."""
    if scheme.by_server:
        return "current"
    if tokens.get("scheme") is None:
        return "none"
    if tokens["scheme"] != scheme.id:
        return "other scheme"
    return "current" if tokens.get("digest") == digest else "stale"


def _explain_sketch(
    sketch: Sketch,
    sketches: Sketches,
    similarity: float,
    limits: Limits,
    analyzed: list[list[str]] | None,
) -> ExplainedSketch:
    """Explain a sketch. analyzed: the tokens of both texts, if the index computes them."""
    values, probes = sketches.values[sketch.name], sketches.probes.get(sketch.name)
    token_values = sketch.token_values(values)
    left, right = analyzed or encode(token_values, sketch.bits)
    right_tokens = {*right}
    met = tuple(
        f"{position}:{token}" for position, token in enumerate(left) if token in right_tokens
    )
    probed = len(met)
    if probes is not None:
        is_met = (probes.values[0] == token_values[1, :, None]) & probes.present[0]
        probed = int(is_met.any(axis=1).sum())
    distance = None
    if sketch.measure.by_values:
        comparison = sketch.comparison(limits)
        nearness = float(comparison.nearness(values, np.array([0]), np.array([1]))[0, 0])
        distance = sketch.measure.distance(sketch.measure.value_of(nearness))
    return ExplainedSketch(
        sketch.name,
        tokens=len(left),
        met=met,
        probed=probed,
        chance=sketch.recall(limits, sketch.tokens, 1, similarity),
        distance=distance,
        always=None if distance is None else sketch.tokens - 1,
    )
