"""Texts that are normalised and split into hashed words, from which sketches are computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from esdedup.text.arrays import Ragged
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling, distinct, shingle


@dataclass
class HashedTexts:
    """Texts and their hashed words.

    texts: normalised.
    words: the hashed words of each text.
    normalisation: how the texts were normalised.
    shingling: how the texts became words.
    seed: of the hashes of words.
    """

    texts: Sequence[str]
    words: Ragged
    normalisation: Normalisation
    shingling: Shingling
    seed: int

    @cached_property
    def shingles(self) -> Ragged:
        """The shingles of each text, with repeated ones."""
        return shingle(self.words, self.shingling.size)

    @cached_property
    def sets(self) -> Ragged:
        """The set of shingle hashes of each text, sorted."""
        return distinct(self.shingles)
