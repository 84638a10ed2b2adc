"""Explain why two documents of an index are similar, or not.

Tokens are computed again from both texts with the index's own scheme, whatever is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from esdedup.analysis.features import WeighedFeatures, weighed_features
from esdedup.analysis.to_json import object_of
from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.search.warnings import percent
from esdedup.sketch.banding import MOST_SWAPS
from esdedup.sketch.kinds.base import Sketch, ValueField
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, Sketches, sketch
from esdedup.sketch.tokens import encode
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.text.highlight import MarkedText, Span, mark_shared
from esdedup.text.jaccard import hamming, jaccard
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

    words: number of them; of characters if the shingles are of those. shingles: number of distinct
    ones. digest: of the normalised text, 16 hexadecimal digits. stored_tokens: the state of the
    tokens in the index. shared: stretches of `text` in shared shingles, each (start, end).
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

    name: of the sketch. tokens: number that a document has. met: the equal ones, each
    "position:token". probed: number of positions in which the left text as a query meets the right
    one, with the most probes. chance: share of pairs this similar that such a query finds; None by
    Hamming distance. distance: number of differing bits, None by Jaccard similarity. always:
    distance up to which two documents share a token. features: those that weigh most in the
    fingerprints; None if features have no weights.
    """

    name: str
    tokens: int
    met: tuple[str, ...]
    probed: int
    chance: float | None
    distance: int | None
    always: int | None
    features: WeighedFeatures | None = None

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the figures in words: (name, value, remark)."""
        found = []
        if self.distance is not None:
            always = f"up to {self.always}, a token is always equal"
            found.append((f"{self.name}: distance", f"{self.distance} bits", always))
        found.append((f"{self.name}: equal tokens", f"{len(self.met)} of {self.tokens}", ""))
        if self.chance is not None:
            met = f"{self.probed} of {self.tokens}"
            chance = f"{percent(self.chance)} of pairs this similar meet"
            found.append((f"{self.name}: met by a query", met, chance))
        if self.features is not None:
            lists = {"in both": self.features.shared, "in the difference": self.features.differing}
            found += [
                (f"{self.name}: most {where}", "; ".join(map(str, features)), "")
                for where, features in lists.items()
                if features
            ]
        return found


@dataclass(frozen=True)
class Explanation:
    """Similarity of two documents, and the tokens in which they meet.

    index: where the documents are. scheme: its id. unit, size: of a shingle. shared: number of
    shingles in both texts. union: in either. similarity: exact Jaccard similarity, 0 to 1.
    duplicates: the normalised texts are equal. passage: words of the shortest passage, if these are
    marked, not shingles. sketches: of the scheme, in its order; empty if a
    text has no shingle and so no token.
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
    passage: int | None
    sketches: tuple[ExplainedSketch, ...]

    @property
    def warnings(self) -> list[str]:
        """Return sentences to read before the figures."""
        found = []
        for side in (self.left, self.right):
            if side.stored_tokens in _STORED:
                stored = _STORED[side.stored_tokens]
                found.append(f"{side.id}: {stored}. The current text is explained")
            if not side.shingles:
                found.append(f"{side.id}: the text has no {self.units}, so it has no tokens")
        return found

    @property
    def units(self) -> str:
        """Return the units of the texts: words, or characters."""
        return "characters" if self.unit == "char" else "words"

    def _in_passages(self, passage: int) -> tuple[str, str, str]:
        """Return the words of both documents in passages, and their shares."""
        words = [int(each.text.common.sum()) for each in (self.left, self.right)]
        shares = [
            f"{count / max(1, each.words):.2f} of {each.id}"
            for count, each in zip(words, (self.left, self.right), strict=True)
        ]
        shared = f"{words[0]:,} and {words[1]:,} {self.units}"
        return f"in passages of {passage}", shared, " and ".join(shares)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of everything but the texts."""
        return object_of(self)

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the main figures in words: (name, value, remark)."""
        shingles = f"shingles {self.unit}:{self.size} in both, {self.union:,} in either"
        equal = ("yes", "equal") if self.duplicates else ("no", "different")
        of_texts = ("Jaccard similarity", f"{self.similarity:.3f}", f"{self.shared:,} {shingles}")
        return [
            *([] if isinstance(self.text_fields[0], ValueField) else [of_texts]),
            *([] if self.passage is None else [self._in_passages(self.passage)]),
            *(fact for each in self.sketches for fact in each.facts()),
            ("exact duplicates", equal[0], f"the normalised texts are {equal[1]}"),
        ]


def explain(
    store: Store, meta: IndexMeta, left: str, right: str, name: str | None = None
) -> Explanation:
    """Explain by the index's scheme why two documents, given by id, are similar or not.

    name: of a sketch; if it is of passages, these are marked. Raises UsageError for equal ids,
    StoreError if a document does not exist or has no text.
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
    scheme, limits = meta.scheme, Limits(swaps=MOST_SWAPS)
    analyzed = store.analyzed(meta.analyzed, texts) if meta.scheme.by_server else None
    sketches = sketch(texts, scheme, with_shingles=True, limits=limits)
    sets, digests = sketches.shingles, sketches.digests
    assert sets is not None
    similarity = float(jaccard(sets, np.array([0]), np.array([1]))[0])
    duplicates = digests[0] == digests[1]
    if duplicates and digests[0] != NO_TEXT:
        # Equal texts are similar without words too, as in searches and pairs.
        similarity = 1.0
    passage = scheme.sketch(name).passage
    shingling = replace(scheme.shingling, size=passage) if passage else scheme.shingling
    marked = mark_shared((texts[0], texts[1]), scheme.normalisation, shingling, scheme.seed)
    columns = (left, right), marked, sets.counts.tolist(), digests
    one, other = (
        ExplainedDocument(
            id,
            words=text.starts.size,
            shingles=count,
            digest=digest,
            stored_tokens=_stored(found[id].tokens_in(meta.field), scheme, digest),
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
        similarity=similarity,
        duplicates=duplicates,
        passage=passage or None,
        sketches=tuple(
            replace(
                _sketch(each, sketches, similarity, limits, analyzed),
                features=weighed_features(texts, scheme, each) if each.feature_size else None,
            )
            for each in (scheme.sketches if sketches.filled.all() else ())
        ),
    )


def _stored(tokens: Mapping[str, Any], scheme: Scheme, digest: str) -> StoredTokens:
    if scheme.by_server:
        return "current"
    if tokens.get("scheme") is None:
        return "none"
    if tokens["scheme"] != scheme.id:
        return "other scheme"
    return "current" if tokens.get("digest") == digest else "stale"


def _sketch(
    each: Sketch,
    sketches: Sketches,
    similarity: float,
    limits: Limits,
    analyzed: list[list[str]] | None,
) -> ExplainedSketch:
    """Explain a sketch. analyzed: the tokens of both texts, if the index computes them."""
    values, probes = sketches.values[each.name], sketches.probes.get(each.name)
    own = each.token_values(values)
    left, right = analyzed or encode(own, each.bits)
    met = tuple(f"{at}:{token}" for at, token in enumerate(left) if token in {*right})
    probed = len(met)
    if probes is not None:
        found = (probes.values[0] == own[1, :, None]) & probes.present[0]
        probed = int(found.any(axis=1).sum())
    by_distance = each.metric == "hamming"
    return ExplainedSketch(
        each.name,
        len(left),
        met,
        probed,
        chance=each.recall(limits, each.tokens, 1, similarity),
        distance=int(hamming(values[:1], values[1:])[0]) if by_distance else None,
        always=each.tokens - 1 if by_distance else None,
    )
