"""Fingerprints that documents bring: perceptual hashes, PDQ, binary codes of embeddings.

Zauner, "Implementation and benchmarking of perceptual image hash functions", 2010, chapter 3; PDQ:
"The TMK+PDQF video-hashing algorithm and the PDQ image-hashing algorithm", Facebook, 2019.
"""

import base64
import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from esdedup.exceptions import RecordError, UsageError
from esdedup.sketch.kinds.base import Block
from esdedup.sketch.kinds.segments import MAX_PROBES, Segmented, neighbours, widths_of
from esdedup.sketch.limits import Limits
from esdedup.text.arrays import U64

Encoding = Literal["hex", "base64", "int", "bytes", "bits"]

_DOCUMENTS, _CANDIDATE = 1e6, 35
"""The layout is chosen for an index of this size, in which one candidate takes as long to fetch and
verify as this many terms to look up: 41 and 1.2 microseconds in a local file."""
_MOST_BITS = 60


@dataclass(frozen=True)
class Bits(Segmented):
    """Fingerprints in a field of the documents, compared by Hamming distance.

    size: bits of a fingerprint, 32 to 1,024.
    distance: maximum Hamming distance by default, up to which queries are complete; None for an
        eighth of the bits.
    encoding: how the field holds a fingerprint. "hex" (text), "base64" (text, of either alphabet),
        "int" (a whole number, also a negative one of two's complement), "bytes" (a list of numbers
        of 0 to 255), "bits" (a list of 0 and 1, or a text of them). The highest bit is first.
    segments: pieces that a fingerprint is cut into, each a token; 0 to choose the number for which
        a query within the distance costs least.
    with_blank: compare blank fingerprints too, which plain images have: all bits are equal, or all
        but the first, or all rows of a square.
    Raises UsageError for values out of range.
    """

    size: int = 64
    distance: int | None = None
    encoding: Encoding = "hex"
    segments: int = 0
    with_blank: bool = False

    kind = "bits"
    reads_values = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 32 <= self.size <= 1024:
            raise UsageError(f"fingerprint size {self.size}: use 32 to 1024 bits")
        if self.encoding in ("base64", "bytes") and self.size % 8:
            raise UsageError(f"{self.size} bits as {self.encoding}: use a multiple of 8")
        if len(self.fields) > 1:
            raise UsageError(f"sketch {self.name!r}: fingerprints are in one field")
        if self.distance is None:
            object.__setattr__(self, "distance", self.size // 8)
        if not self.segments:
            object.__setattr__(self, "segments", min(range(1, self.size // 4), key=self._cost))
        if not -(-self.size // _MOST_BITS) <= self.segments <= self.size // 2:
            fewest = -(-self.size // _MOST_BITS)
            raise UsageError(f"segments {self.segments}: use {fewest} to {self.size // 2}")
        self.max_distance(Limits())

    def _cost(self, segments: int) -> float:
        """Return the terms that a query within the distance costs with a number of segments."""
        widths, radius = widths_of(self.size, segments), self.reach // segments
        terms = sum(neighbours(width, radius) for width in widths)
        if widths[0] > _MOST_BITS or terms > MAX_PROBES:
            return float("inf")
        met = sum(neighbours(width, radius) / 2.0**width for width in widths)
        return terms + _CANDIDATE * _DOCUMENTS * met

    @property
    def token_bytes(self) -> float:
        return 11.5 + 2.4 * (-(-self.bits // 6) - 3)

    @property
    def reach(self) -> int:
        assert self.distance is not None
        return self.distance

    def text(self, value: object) -> str:
        """Return a field's value as hex digits, no digit for a blank one that is not compared.

        Raises RecordError if it is not a fingerprint.
        """
        number = self._number(value)
        if number is None or number >> self.size:
            raise RecordError(f"{value!r:.80} is not a fingerprint of {self._form()}")
        if not self.with_blank and self._is_blank(number):
            return ""
        return f"{number:0{-(-self.size // 4)}x}"

    def _is_blank(self, number: int) -> bool:
        """Return whether a fingerprint is one of an image without content.

        The first bit of a hash by cosine transform is that of the mean brightness. Hashes by blocks
        or gradients have a row of bits for each row of the image.
        """
        every_bit, first_bit = (1 << self.size) - 1, 1 << self.size - 1
        if number in (0, every_bit, first_bit, every_bit ^ first_bit):
            return True
        side = math.isqrt(self.size)
        if side * side != self.size:
            return False
        row = (1 << side) - 1
        return number == (number & row) * (every_bit // row)

    def to_json(self) -> dict[str, object]:
        document = super().to_json()
        if not self.with_blank:
            # The ids of earlier schemes do not cover it.
            del document["with_blank"]
        return document

    def _form(self) -> str:
        size = self.size
        return {
            "hex": f"{size} bits in {-(-size // 4)} hex digits",
            "base64": f"{size} bits in base64",
            "int": f"{size} bits as a whole number",
            "bytes": f"{size // 8} bytes, a list of numbers of 0 to 255",
            "bits": f"{size} bits, each 0 or 1",
        }[self.encoding]

    def _number(self, value: object) -> int | None:
        """Return the number whose binary digits a fingerprint is; None if it is of another form."""
        if self.encoding == "int":
            if not isinstance(value, int) or isinstance(value, bool):
                return None
            return value + (1 << self.size) if -(1 << self.size - 1) <= value < 0 else value
        if isinstance(value, str):
            if self.encoding == "hex" and re.fullmatch("[0-9A-Fa-f]+", value):
                return int(value, 16) if len(value) == -(-self.size // 4) else None
            if self.encoding == "bits" and re.fullmatch("[01]+", value):
                return int(value, 2) if len(value) == self.size else None
            if self.encoding == "base64" and re.fullmatch("[A-Za-z0-9+/_-]+={0,2}", value):
                bare = value.rstrip("=").replace("+", "-").replace("/", "_")
                if len(bare) != -(-self.size // 6):
                    return None
                raw = base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
                # Python ignores further bits of the last character.
                is_strict = base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=") == bare
                return int.from_bytes(raw) if is_strict else None
        elif isinstance(value, (list, tuple)) and self.encoding in ("bytes", "bits"):
            top = 255 if self.encoding == "bytes" else 1
            is_valid = all(type(item) is int and 0 <= item <= top for item in value)
            if is_valid and len(value) == self.size // (8 if top == 255 else 1):
                return int.from_bytes(value) if top == 255 else int("".join(map(str, value)), 2)
        return None

    def values(self, block: Block) -> U64:
        """Return fingerprints, shape (n, width), of texts of hex digits; 0 for an empty text."""
        wide, digits = 16 * self.width, -(-self.size // 4)
        try:
            if {*map(len, block.texts)} - {0, digits}:
                raise ValueError
            raw = bytes.fromhex("".join([text.zfill(wide) for text in block.texts]))
        except ValueError:
            message = f"the sketch {self.name!r} compares fingerprints of {self._form()}"
            raise UsageError(message) from None
        return np.frombuffer(raw, ">u8").reshape(-1, self.width).astype(np.uint64)

    def describe(self) -> str:
        terms = self.probes(self.reach // self.segments)
        complete = f"complete up to distance {self.reach} with {terms:,} terms per query"
        return f"{super().describe()}; {complete}"
