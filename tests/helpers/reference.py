"""Plain-Python versions of the algorithms, slow and obvious, to hold the numpy ones against."""

import itertools
import unicodedata
from collections.abc import Mapping

import numpy as np
import xxhash

from esdedup.text.arrays import Ragged, offsets_of
from esdedup.text.characters import (
    IGNORED,
    MARK,
    OTHER,
    PUNCTUATION,
    SINGLE,
    SYMBOL,
    VERSION,
    character_classes,
)

MASK = 2**64 - 1
DIGITS = set("0123456789")
KEPT = ("<super>", "<sub>", "<fraction>")
SIGNS = {3: "-", 4: "-\u2212\u2013"}


def ragged(rows: list[list[int]]) -> Ragged:
    """The rows as the core has them."""
    hashes = np.array([*itertools.chain.from_iterable(rows)], np.uint64)
    return Ragged(hashes, offsets_of(np.array([len(row) for row in rows], np.int64)))


def normalise(text: str, version: int = VERSION) -> str:
    """NFKC and case folding, of a text of characters that Unicode 14.0 assigns."""
    if version == 3:
        once = unicodedata.normalize("NFKC", text).casefold()
        return unicodedata.normalize("NFKC", once)
    runs = itertools.groupby(expanded(text), is_script)
    parts = ((kept, "".join(run)) for kept, run in runs)
    return "".join(part if kept else normalise(part, 3) for kept, part in parts)


def is_script(character: str) -> bool:
    """Whether a character is a superscript, a subscript or a fraction."""
    return unicodedata.decomposition(character).startswith(KEPT)


def expanded(text: str) -> str:
    """The text with the decomposition of each character that contains a script."""
    parts = []
    for character in text:
        decomposition = unicodedata.decomposition(character).split()
        points = [point for point in decomposition if point[0] != "<"]
        inside = expanded("".join(chr(int(point, 16)) for point in points))
        kept = not is_script(character) and any(map(is_script, inside))
        parts.append(inside if kept else character)
    return "".join(parts)


def words(text: str, version: int = VERSION, punctuation: bool = False) -> list[str]:
    classes = character_classes(version, punctuation)
    kept = [c for c in text if classes[ord(c)] != IGNORED]
    made: list[str] = []
    inside = OTHER
    signs = SIGNS[version]
    for before, character, after in zip([" ", *kept], kept, [*kept[1:], " "], strict=False):
        kind = int(classes[ord(character)])
        number = before not in signs and after in DIGITS
        if character in signs and number and classes[ord(before)] in (OTHER, PUNCTUATION):
            kind, character = SYMBOL, "-"
        if kind == PUNCTUATION:
            kind = SYMBOL
        if kind == MARK:
            if inside == SYMBOL:
                inside = OTHER
            if inside != OTHER:
                made[-1] += character
            continue
        same = kind == inside and (kind != SYMBOL or made[-1][0] == character)
        if kind not in (OTHER, SINGLE) and same:
            made[-1] += character
        elif kind != OTHER:
            made.append(character)
        inside = kind
    # A run of one symbol counts as three at most. A hyphen in a word was a sign.
    symbols = (SYMBOL, PUNCTUATION)
    return [
        word[:3] if word[0] == "-" or classes[ord(word[0])] in symbols else word for word in made
    ]


def token_hash(token: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(token.encode("utf-8", "surrogatepass"), seed)


def avalanche(h: int) -> int:
    h = ((h ^ h >> 33) * 0xC2B2AE3D27D4EB4F) & MASK
    h = ((h ^ h >> 29) * 0x165667B19E3779F9) & MASK
    return h ^ h >> 32


def fold(values: list[int]) -> int:
    h = 0
    for value in values:
        h = (h * 0x9E3779B185EBCA87 + value) & MASK
    return avalanche(h)


def shingles(tokens: list[str], size: int, seed: int) -> list[int]:
    hashes = [token_hash(token, seed) for token in tokens]
    if not hashes:
        return []
    if len(hashes) <= size:
        return [fold(hashes)]
    return [fold(hashes[i : i + size]) for i in range(len(hashes) - size + 1)]


def key(purpose: str, position: int, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{purpose}:{position}".encode(), seed)


def signature(hashes: list[int], permutations: int, seed: int) -> list[int]:
    made = []
    for i in range(permutations):
        a = key("minhash-multiplier", i, seed) % 2**32 | 1
        b = key("minhash-addend", i, seed) % 2**32
        made.append(min((a * (h >> 32) + b) % 2**32 for h in hashes))
    return made


def fingerprint(hashes: list[int], weights: list[int] | None = None) -> int:
    """weights: of the hashes, by default 1 each, and 1 each if all are 0."""
    if weights is None or not any(weights):
        weights = [1] * len(hashes)
    made = 0
    for bit in range(64):
        signed = (
            weight if h >> bit & 1 else -weight for h, weight in zip(hashes, weights, strict=True)
        )
        made |= (sum(signed) > 0) << bit
    return made


def jaccard(left: set[int], right: set[int]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def groups_of_edges(
    texts: dict[str, str], similar: Mapping[tuple[str, str], float], method: str
) -> dict[str, str]:
    """The representative of each document, by the nearness of similar pairs, whichever way round.

    texts: by id, in their order of precedence. Equal texts are in one group.
    """
    firsts: dict[str, str] = {}
    found = {id: firsts.setdefault(text, id) for id, text in texts.items()}
    near: dict[str, dict[str, float]] = {id: {} for id in texts}
    for (one, other), value in similar.items():
        near[found[one]][found[other]] = near[found[other]][found[one]] = value
    order = {id: rank for rank, id in enumerate(texts)}
    head: dict[str, str] = {}
    for id in firsts.values():
        if method == "leader":
            leaders = [other for other in near[id] if head.get(other) == other]
            ranked = [(-near[id][one], order[one], one) for one in leaders]
            head[id] = min(ranked, default=(0.0, 0, id))[2]
        elif id not in head:
            waiting = [id]
            while waiting:
                if (one := waiting.pop()) not in head:
                    head[one] = id
                    waiting += near[one]
    return {id: head[first] for id, first in found.items()}
