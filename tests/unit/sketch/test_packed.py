"""Packed tokens are those of the sketches they were packed from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup import MinHash, Passages, Shingling, Signature, SimHash
from esdedup.sketch.packed import DIGEST_BYTES, is_wordless, layout, pack, unpack
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch, token_json

SCHEMES = [
    Scheme(),
    Scheme((MinHash(bands=70, rows=1, token_bits=12),), shingling=Shingling("char", 5)),
    Scheme((MinHash(token_bits=60), SimHash(size=128, segments=6), Signature(3))),
    Scheme((Passages(2, 2), MinHash(), Passages(1, 1, 12, name="single"))),
    Scheme((SimHash(segments=32), SimHash(segments=2, name="wide"))),
]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20),
    st.sampled_from(SCHEMES),
)
def test_packed_tokens_are_those_of_the_sketches(texts: list[str], scheme: Scheme) -> None:
    made = sketch(["", "one two three", *texts], scheme)
    rows = pack(made, scheme)
    assert token_json(unpack(rows, scheme), scheme) == token_json(made, scheme)
    assert [*map(is_wordless, rows)] == [not each for each in made.filled.tolist()]


def test_tokens_take_as_few_bytes_as_they_need() -> None:
    (row,) = pack(sketch(["one two three"], Scheme()), Scheme())
    assert len(row) == layout(Scheme()).itemsize == DIGEST_BYTES + 12 * 4 + 4 * 2
    (whole,) = np.frombuffer(row, layout(Scheme()))
    assert [*whole["simhash"]] == [*np.frombuffer(row[-8:], "<u2")]


def test_bytes_of_another_length_are_refused() -> None:
    (row,) = pack(sketch(["one two three"], Scheme()), Scheme())
    assert pack(unpack([], Scheme()), Scheme()) == []
    for wrong in (row[:-1], row[:15], b"", row + row):
        with pytest.raises(ValueError, match="16 or 72 bytes"):
            unpack([row, wrong], Scheme())


def test_bytes_of_another_number_of_tokens_are_refused() -> None:
    scheme = Scheme((Passages(1, 1), Passages(1, 1, 12, name="single")))
    (row,) = pack(sketch(["one two three"], scheme), scheme)
    assert len(row) == DIGEST_BYTES + 2 * 4 + 3 * 5 + 3 * 2
    fewer = row[:16] + b"\2" + row[17:]
    for wrong in (row[:-1], row[:23], row + b"\0", fewer, row[:20] + row):
        with pytest.raises(ValueError, match="bytes are expected"):
            unpack([row, wrong], scheme)
