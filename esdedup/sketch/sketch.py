"""Sketches texts: everything that a scheme computes from a document's text, a batch at a time.

The steps of a text: `normalise`, `tokenise`, `shingle`, then the values of each sketch of the
scheme (`kinds`). `token_fields` writes them as the `esdedup` field of documents.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from esdedup.sketch.comparisons import AnyComparison, JaccardSimilarity, TextComparison
from esdedup.sketch.hashed_texts import HashedTexts
from esdedup.sketch.kinds.base import Block, Probes, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import json_lists
from esdedup.text.arrays import I64, U64, Mask, Ragged, Values, blocks, joined
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, distinct
from esdedup.text.words import tokenise

_BYTES_A_BLOCK = 3 << 18
"""Bytes in memory of the texts sketched at once. The arrays between two steps then stay in the
processor's cache, and calls are long enough for other threads to get Python's lock."""
# glibc returns freed memory to the system beyond twice the largest block that was mapped and freed.
# After one of 31 MB (32 is the limit) it reuses the arrays of a block for the next one, where page
# faults took a fifth to two fifths of the time.
np.empty(31 << 20, np.uint8)
MOST_KEPT = 1 << 22
"""Memory of the sets that are kept by one kind of key, in numbers of 8 bytes: 32 MB, besides the
texts that are keys."""
Key = TypeVar("Key", bound=Hashable)
Tokens = dict[str, str | list[str]]
"""The scheme and the digest of a text, and a list of tokens for each sketch."""
# 22 characters hold 4 bits more than a digest: with others, it would have several spellings.
_DIGEST = re.compile("[A-Za-z0-9_-]{21}[AQgw]")


@dataclass(frozen=True)
class Sketches:
    """The sketches of n texts.

    digests: of the normalised texts, as `text_digests` writes them.
    filled: True for a text with shingles, shape (n,); others get no tokens.
    values: of each sketch, by its name, `Values`.
    operands: of a comparison of texts, if one is requested.
    probes: what each sketch looks up, by its name, if the texts are queries.
    words: the number of words of each text, shape (n,), if they were sketched here.
    vocabulary: the number of different words, shape (n,), if it is requested.
    sizes: of queries by a sketch of the server, the number of different shingles, shape (n,).
    """

    digests: list[str]
    filled: Mask
    values: Mapping[str, Any]
    operands: Ragged | None = None
    probes: Mapping[str, Probes] = field(default_factory=dict)
    words: I64 | None = None
    vocabulary: I64 | None = None
    sizes: I64 | None = None

    def __len__(self) -> int:
        return len(self.digests)

    def of(self, rows: I64) -> Sketches:
        """Return the sketches of some texts, without operands and probes. rows: shape (m,)."""
        digests = [self.digests[row] for row in rows.tolist()]
        values = {name: array[rows] for name, array in self.values.items()}
        return Sketches(digests, self.filled[rows], values)

    def operands_of(self, sketch: Sketch) -> Values:
        """Return what a sketch compares of each text: the requested operands, or its values."""
        values: Values = self.values[sketch.name]
        return values if self.operands is None else self.operands


def sketch(
    texts: Sequence[str],
    scheme: Scheme,
    *,
    comparison: AnyComparison | None = None,
    with_vocabulary: bool = False,
    limits: Limits | None = None,
    on_sketched: Callable[[int], object] | None = None,
) -> Sketches:
    """Return the sketches of texts.

    comparison: return its operands too, if it is one of texts.
    with_vocabulary: return the numbers of different words too.
    limits: of queries, if the texts are queries.
    on_sketched: called with the number of texts so far.
    """
    sketched = []
    for block in _blocks(texts):
        sketched.append(_sketch_block(texts[block], scheme, comparison, with_vocabulary, limits))
        if on_sketched is not None:
            on_sketched(block.stop)
    return sketched[0] if len(sketched) == 1 else _joined(sketched)


def _joined(sketched: Sequence[Sketches]) -> Sketches:
    """Return the sketches of all texts of blocks, in order."""
    first = sketched[0]
    operands = [block.operands for block in sketched if block.operands is not None]
    vocabularies = [block.vocabulary for block in sketched if block.vocabulary is not None]
    sizes = [block.sizes for block in sketched if block.sizes is not None]
    return Sketches(
        digests=[digest for block in sketched for digest in block.digests],
        filled=np.concatenate([block.filled for block in sketched]),
        values={name: joined([block.values[name] for block in sketched]) for name in first.values},
        operands=Ragged.joined(operands) if operands else None,
        probes={
            name: Probes(
                values=np.concatenate([block.probes[name].values for block in sketched]),
                present=np.concatenate([block.probes[name].present for block in sketched]),
            )
            for name in first.probes
        },
        words=np.concatenate([block.words for block in sketched if block.words is not None]),
        vocabulary=np.concatenate(vocabularies) if vocabularies else None,
        sizes=np.concatenate(sizes) if sizes else None,
    )


def _sketch_block(
    texts: Sequence[str],
    scheme: Scheme,
    comparison: AnyComparison | None,
    with_vocabulary: bool,
    limits: Limits | None,
) -> Sketches:
    normalised, words = hashed_words(texts, scheme)
    block = Block(
        normalised, words, scheme.normalisation, scheme.shingling, scheme.seed, scheme.sketches
    )
    values, probes = dict[str, Values](), dict[str, Probes]()
    for sketch in scheme.sketches:
        if limits is None:
            values[sketch.name] = sketch.values(block)
        else:
            values[sketch.name], sketch_probes = sketch.query(block, limits)
            if sketch_probes is not None:
                probes[sketch.name] = sketch_probes
    return Sketches(
        digests=text_digests(normalised),
        filled=words.counts > 0,
        values=values,
        operands=comparison.operands(block) if isinstance(comparison, TextComparison) else None,
        probes=probes,
        words=words.counts,
        vocabulary=distinct(words).counts if with_vocabulary else None,
        sizes=block.sets.counts if scheme.by_server and limits is not None else None,
    )


def hashed_words(texts: Sequence[str], scheme: Scheme) -> tuple[list[str], Ragged]:
    """Return normalised texts, and their hashed words."""
    normalised = normalise(texts, scheme.normalisation)
    return normalised, tokenise(normalised, scheme.shingling, scheme.seed)


def _blocks(texts: Sequence[str]) -> Iterator[slice]:
    if len(texts) == 1:
        return iter([slice(0, 1)])
    sizes = np.fromiter(map(str.__sizeof__, texts), np.int64, len(texts))
    return blocks(sizes, _BYTES_A_BLOCK)


def operands_of(texts: Sequence[str], scheme: Scheme, comparison: TextComparison) -> Ragged:
    """Return what a comparison reads of each text."""
    operands = []
    for block in _blocks(texts):
        normalised, words = hashed_words(texts[block], scheme)
        hashed_texts = HashedTexts(
            normalised, words, scheme.normalisation, scheme.shingling, scheme.seed
        )
        operands.append(comparison.operands(hashed_texts))
    return Ragged.joined(operands)


def shingle_sets(texts: Sequence[str], scheme: Scheme) -> Ragged:
    """Return the sets of shingle hashes of texts, sorted, for exact Jaccard similarity."""
    return operands_of(texts, scheme, JaccardSimilarity())


def known_operands(texts: Sequence[str], scheme: Scheme, comparison: TextComparison) -> list[U64]:
    """Return the `operands_of` texts, which may repeat, and keep some for later calls.

    The texts of a full bucket are candidates of one query after the other.
    """
    kept = _kept(comparison, scheme.normalisation, scheme.shingling, scheme.seed)
    return kept.of(texts, lambda new_texts: operands_of(new_texts, scheme, comparison))


class KeptSets(Generic[Key]):
    """Sets of shingles by a key, kept to be compared again, in limited memory."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        """Begin without sets. most: memory of all sets, in numbers of 8 bytes."""
        self._most = most
        self._sets: dict[Key, U64] = {}
        self._size = 0

    def of(self, keys: Sequence[Key], compute: Callable[[list[Key]], Iterable[U64]]) -> list[U64]:
        """Return the set of each key, which may repeat.

        compute: returns the sets of keys that are not kept.
        """
        # Another thread may forget sets between two lines.
        sets = {key: hashes for key in keys if (hashes := self._sets.get(key)) is not None}
        if new_keys := [key for key in dict.fromkeys(keys) if key not in sets]:
            # A part of a larger array would keep all of it.
            computed = (
                hashes if hashes.base is None else hashes.copy() for hashes in compute(new_keys)
            )
            new_sets = dict(zip(new_keys, computed, strict=True))
            sets |= new_sets
            self._keep(new_sets)
        return [sets[key] for key in keys]

    def _keep(self, sets: Mapping[Key, U64]) -> None:
        """Keep sets, as many as there is room for, in place of the earlier ones if need be."""
        if self._size + sum(map(_room, sets.values())) > self._most:
            self.clear()
        for key, hashes in sets.items():
            # Another thread may have computed the same set.
            if key not in self._sets and self._size + _room(hashes) <= self._most:
                self._sets[key] = hashes
                self._size += _room(hashes)

    def clear(self) -> None:
        """Forget all sets."""
        self._sets, self._size = {}, 0

    def forget(self, keys: Iterable[Key]) -> None:
        """Forget the sets of keys."""
        for key in keys:
            if (hashes := self._sets.pop(key, None)) is not None:
                self._size -= _room(hashes)


def _room(hashes: U64) -> int:
    """Return how many numbers a set takes in memory, with its object and its key."""
    return hashes.size + 32


@functools.lru_cache(2)
def _kept(
    comparison: TextComparison, normalisation: Normalisation, shingling: Shingling, seed: int
) -> KeptSets[str]:
    """Return what `known_operands` keeps by text."""
    return KeptSets()


def text_digests(normalised: Iterable[str]) -> list[str]:
    """Return the digests of normalised texts: BLAKE2b of the UTF-8 bytes, 128 bits, in base64url.

    Aumasson et al., "BLAKE2: simpler, smaller, fast as MD5", 2013; RFC 7693; RFC 4648, section 5,
    without the padding: 22 characters. Documents are skipped and deleted because their digests are
    equal, so collisions must be infeasible to construct, which they are not with XXH3.
    """
    empty, digests = hashlib.blake2b(digest_size=16), []
    for text in normalised:
        # A copy takes less time than the parameters of a new one.
        hashed = empty.copy()
        hashed.update(text.encode("utf-8", "surrogatepass"))
        digests.append(hashed.digest())
    return written_digests(digests)


def written_digests(digests: Iterable[bytes]) -> list[str]:
    """Return digests of 16 bytes as text."""
    # With two more bytes each has 24 characters, so that all are written at once.
    written = base64.urlsafe_b64encode(b"\0\0".join(digests)).decode("ascii")
    return [written[start : start + 22] for start in range(0, len(written), 24)]


def read_digests(digests: Iterable[object]) -> list[bytes]:
    """Return the 16 bytes of each digest."""
    read = base64.urlsafe_b64decode("".join([f"{digest}AA" for digest in digests]))
    return [read[start : start + 16] for start in range(0, len(read), 18)]


(NO_TEXT,) = text_digests([""])
"""The digest of a text that is empty when it is normalised."""


def is_digest(value: object) -> bool:
    """Return whether a value is a digest, as `text_digests` writes it."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def digest_words(digests: Sequence[object]) -> U64:
    """Return two numbers for each digest, to compare on this machine only: shape (n, 2).

    Raises ValueError that names the first value that is not a digest.
    """
    for digest in digests:
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is not a digest of 22 characters")
    return np.frombuffer(b"".join(read_digests(digests)), np.uint64).reshape(-1, 2).copy()


def digest_of_words(words: U64) -> str:
    """Return the digest of which `digest_words` returned these numbers, shape (2,)."""
    return written_digests([words.tobytes()])[0]


def normalised_digests(
    texts: Sequence[str], normalisation: Normalisation
) -> tuple[list[str], list[str]]:
    """Return the normalised texts and their digests."""
    normalised_blocks = (normalise(texts[block], normalisation) for block in _blocks(texts))
    normalised = list(itertools.chain.from_iterable(normalised_blocks))
    return normalised, text_digests(normalised)


def token_fields(sketches: Sketches, scheme: Scheme) -> list[Tokens]:
    """Return the value of the `esdedup` field of each document; without words only its digest."""
    return [json.loads(value) for value in token_json(sketches, scheme)]


def token_json(sketches: Sketches, scheme: Scheme) -> list[str]:
    """Return the values of `token_fields` as compact JSON."""
    filled = np.flatnonzero(sketches.filled)
    lists = [
        json_lists(sketch.token_values(sketches.values[sketch.name][filled]), sketch.bits)
        for sketch in scheme.sketches
    ]
    # Templates of the operator %, which fills them faster than an f-string joins the lists.
    head = f'{{"scheme":"{scheme.id}","digest":"%s'
    template = head + '"' + "".join([f',"{key}":%s' for key in scheme.keys]) + "}"
    template_of_wordless = f'{head}","wordless":"%s"}}'
    digests = itertools.compress(sketches.digests, sketches.filled)
    values = map(template.__mod__, zip(digests, *lists, strict=True))
    return [
        next(values) if has_words else template_of_wordless % (digest, digest)
        for digest, has_words in zip(sketches.digests, sketches.filled.tolist(), strict=True)
    ]


def stored_values(rows: Sequence[Any], sketch: Sketch) -> tuple[Any, Mask]:
    """Return the values of lists of tokens, of m rows, and which rows are such lists.

    The mask has shape (n,) and m rows. Other clients may have written anything.
    """
    is_valid = np.ones(len(rows), np.bool_)
    with contextlib.suppress(TypeError, ValueError):
        return sketch.stored_values(sketch.decode(rows)), is_valid
    decoded = [sketch.decode([])]
    for row, tokens in enumerate(rows):
        try:
            decoded.append(sketch.decode([tokens]))
        except (TypeError, ValueError):
            is_valid[row] = False
    return sketch.stored_values(joined(decoded)), is_valid
