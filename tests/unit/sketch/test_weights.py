"""SimHash with weights of words: the sums, the tables, and where they are stored."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import Scheme, Shingling, SimHash, UsageError, Weights
from esdedup.sketch.kinds.simhash import fingerprints, weigh_bits
from esdedup.sketch.sketch import sketch
from esdedup.stores.mapping import IndexMeta, index_mapping, meta_of
from esdedup.text.weights import MOST_PACKED, WeightTable
from tests.helpers import reference

EXAMPLE = {
    "美国": (4, "100101"),
    "51区": (5, "101011"),
    "雇员": (3, "010110"),
    "称": (2, "111000"),
    "内部": (1, "001101"),
    "有": (1, "110010"),
    "9架": (3, "100110"),
    "飞碟": (5, "011001"),
    "曾": (1, "000111"),
    "看见": (3, "101100"),
    "灰色": (4, "010011"),
    "外星人": (5, "110101"),
}
"""The words of a sentence, weighed on a scale of 1 to 5, with hashes of 6 bits. Sums by hand:

    4 -4 -4  4 -4  4    5 -5  5 -5  5  5   -3  3 -3  3  3 -3    2  2  2 -2 -2 -2
   -1 -1  1  1 -1  1    1  1 -1 -1  1 -1    3 -3 -3  3  3 -3   -5  5  5 -5 -5  5
   -1 -1 -1  1  1  1    3 -3  3  3 -3 -3   -4  4 -4 -4  4  4    5  5 -5  5 -5  5
"""
SENTENCES = [
    "the mustang is the fastest car of the garage",
    "the ferrari is the fastest car of the garage",
    "今天天气很好，我们去公园散步。",
    "今天天气很差，我们去公园散步。",
    "the of the",
    "",
]
TABLE = Weights({"the": 0, "of": 0.1, "is": 0.3, "car": 4, "mustang": 7.5, "天": 2.5}, 3.0)
HASHES = st.integers(0, 2**64 - 1)


def signed_sums(words: list[str]) -> list[int]:
    """The weighed sums of the six bits, from the most significant."""
    hashes = reference.ragged([[int(EXAMPLE[word][1], 2) for word in words]])
    weights = np.array([EXAMPLE[word][0] for word in words], np.uint8)
    ones, total = weigh_bits(hashes.hashes, hashes, weights)
    return (2 * ones - total[:, None])[0, 5::-1].tolist()  # type: ignore[no-any-return]


def test_sums_of_weighed_bits_are_those_of_hand_arithmetic() -> None:
    assert signed_sums(["美国"]) == [4, -4, -4, 4, -4, 4]
    assert signed_sums(["51区"]) == [5, -5, 5, -5, 5, 5]
    # 1 0 1 0 1 1
    assert signed_sums(["美国", "51区"]) == [9, -9, 1, -1, 1, 9]
    # 1 1 0 1 0 1
    assert signed_sums([*EXAMPLE]) == [9, 3, -5, 3, -3, 13]


def expected(text: str, simhash: SimHash) -> int:
    """The fingerprint in plain Python, of a text of ASCII or Han characters."""
    words = reference.words(reference.normalise(text))
    size = simhash.feature_size
    windows = (
        [words[at : at + size] for at in range(max(1, len(words) - size + 1))] if words else []
    )
    hashes = reference.shingles(words, size, 1)
    weights = [1] * len(hashes)
    if simhash.weights is not None:
        weights = [round(10 * simhash.weights.of(" ".join(each))) for each in windows]
    pairs = list(zip(hashes, weights, strict=True))
    if simhash.weighting == "binary":
        pairs = list(dict(pairs).items())
    return reference.fingerprint([h for h, _ in pairs], [weight for _, weight in pairs])


def prints(texts: list[str], simhash: SimHash) -> list[int]:
    values: list[list[int]] = sketch(texts, Scheme([simhash])).values["simhash"].tolist()
    return [row[0] for row in values]


@pytest.mark.parametrize("weighting", ["tf", "binary"])
def test_a_changed_word_moves_a_fingerprint_as_brute_force_computes(weighting: Any) -> None:
    weighed = SimHash(feature_size=1, weighting=weighting, weights=TABLE)
    plain = SimHash(feature_size=1, weighting=weighting)
    for simhash in (weighed, plain):
        found = prints(SENTENCES, simhash)
        assert found == [expected(text, simhash) for text in SENTENCES]
        # A text alone has the fingerprint that it has among others.
        assert found == [prints([text], simhash)[0] for text in SENTENCES]

    def distances(simhash: SimHash) -> list[int]:
        values = prints(SENTENCES, simhash)
        return [(values[at] ^ values[at + 1]).bit_count() for at in (0, 2)]

    brute = [
        (expected(SENTENCES[at], weighed) ^ expected(SENTENCES[at + 1], weighed)).bit_count()
        for at in (0, 2)
    ]
    assert distances(weighed) == brute
    # Mustangs and ferraris differ more than their articles let it seem.
    assert distances(weighed)[0] > distances(plain)[0]


WORDS = st.sampled_from([*"abcdefgh", "the", "你", "好", "飞", "碟"])


@given(
    st.lists(st.lists(WORDS, max_size=30).map(" ".join), min_size=1, max_size=5),
    st.dictionaries(st.tuples(WORDS, WORDS), st.integers(0, 255), max_size=9),
    st.integers(1, 255),
    st.sampled_from(["tf", "binary"]),
)
def test_fingerprints_are_those_of_plain_python(
    texts: list[str], table: dict[tuple[str, str], int], default: int, weighting: Any
) -> None:
    for size in (1, 2):
        entries = {" ".join(words[:size]): tenths / 10 for words, tenths in table.items()}
        simhash = SimHash(
            feature_size=size, weighting=weighting, weights=Weights(entries, default / 10)
        )
        assert prints(texts, simhash) == [expected(text, simhash) for text in texts]


def test_long_texts_do_not_overflow() -> None:
    heavy = " ".join(["heavy"] * 5_000 + ["light"] * 4_000)
    simhash = SimHash(feature_size=1, weights=Weights({"heavy": 25.5, "light": 25.4}))
    assert prints([heavy, "short", heavy], simhash) == [
        expected(text, simhash) for text in (heavy, "short", heavy)
    ]


@given(st.lists(WORDS, max_size=30).map(" ".join), st.integers(1, 255))
def test_equal_weights_change_nothing(text: str, tenths: int) -> None:
    for size, bits, segments in ((1, 64, 4), (2, 128, 4)):
        plain = SimHash(bits, segments, size)
        equal = SimHash(bits, segments, size, weights=Weights({}, tenths / 10))
        # A text of stop words alone is compared by them.
        stopped = Weights(dict.fromkeys(text.split(), 0) if size == 1 else {}, tenths / 10)
        for other in (equal, SimHash(bits, segments, size, weights=stopped)):
            values = [sketch([text], Scheme([each])).values["simhash"] for each in (plain, other)]
            assert (values[0] == values[1]).all()


@given(st.dictionaries(HASHES | st.integers(0, 9), st.integers(0, 255)), st.lists(HASHES))
def test_weights_are_looked_up(table: dict[int, int], others: list[int]) -> None:
    hashes = np.array(sorted(table), np.uint64)
    tenths = np.array([table[each] for each in sorted(table)], np.uint8)
    found = WeightTable.of(hashes, tenths, 7)
    wanted = [*table, *others, *(each ^ 1 for each in table)]
    assert found.tenths_of(np.array(wanted, np.uint64)).tolist() == [
        table.get(each, 7) for each in wanted
    ]


def test_golden_fingerprints() -> None:
    assert TABLE.text == "\t3.0\nthe\t0.0\nof\t0.1\nis\t0.3\n天\t2.5\ncar\t4.0\nmustang\t7.5\n"
    assert TABLE.digest == "iBGeRP_LHSqhRQOGtt9sbw"
    found = prints(SENTENCES, SimHash(feature_size=1, weights=TABLE))
    assert [f"{each:016x}" for each in found] == [
        "3cd5c0532b94d9b0",
        "f85f911171854aa1",
        "2199d028ad5e121a",
        "25b0d039af5e581a",
        "7c15e3b784268d14",
        "0000000000000000",
    ]


def test_a_scheme_holds_the_digest_and_carries_the_table() -> None:
    scheme = Scheme([SimHash(feature_size=1, weights=TABLE)])
    document = json.loads(json.dumps(scheme.to_json()))
    assert document["sketches"][0]["table"] == TABLE.digest
    assert list(document["weights"]) == [TABLE.digest]
    assert "weights" not in Scheme().to_json()
    for back in (Scheme.from_json(document), pickle.loads(pickle.dumps(scheme))):
        assert (back, back.id) == (scheme, scheme.id)
        assert back.sketch().table == TABLE
    other = Scheme([SimHash(feature_size=1, weights=Weights({"the": 1}, 3.0))])
    assert other.id != scheme.id
    assert scheme.differences(other) == [
        f'simhash.table "{TABLE.digest}", not "{other.sketch().table.digest}"'  # type: ignore[union-attr]
    ]
    # The mapping of an index, and of its next scheme.
    meta = IndexMeta(Scheme(), next=IndexMeta(scheme, field="esdedup_2"))
    assert meta_of(index_mapping(meta)) == meta


def test_a_missing_or_changed_table_is_named() -> None:
    document = Scheme([SimHash(feature_size=1, weights=TABLE)]).to_json()
    other = Weights({"the": 1})
    for tables, message in (
        (None, f"{TABLE.digest}, and their table is missing; stored: none"),
        ({other.digest: other.packed}, f"{TABLE.digest}.*missing; stored: {other.digest}"),
        ({TABLE.digest: other.packed}, f"{TABLE.digest}, but the stored table has {other.digest}"),
        ({TABLE.digest: "?"}, "can't be unpacked"),
        ({TABLE.digest: TABLE.packed[:-8]}, "can't be unpacked"),
        ({TABLE.digest: 5}, "a table of weights: use text"),
        ([], f"{TABLE.digest}.*missing"),
        (
            {TABLE.digest: base64.b64encode(zlib.compress(bytes(10**8))).decode()},
            "can't be unpacked: it is truncated or too long",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            Scheme.from_json({**document, "weights": tables})


def test_tables_are_checked() -> None:
    for words, default, message in (
        ({"a": 25.6}, 1, "weight 25.6 of 'a': use 0, or 0.1 to 25.5"),
        ({"a": -1}, 1, "weight -1 of 'a'"),
        ({"a": 0.04}, 1, "weight 0.04 of 'a'"),
        ({"a": float("nan")}, 1, "weight nan"),
        ({"a": "1"}, 1, "weight of 'a': use a whole number or a number"),
        ({"a": True}, 1, "weight of 'a'"),
        ({"": 1}, 1, "'' is not a word"),
        ({"a\tb": 1}, 1, "is not a word"),
        ({5: 1}, 1, "word: use text"),
        ({"a": 0}, 0, "a word must weigh more than 0"),
        ([("a", 1)], 1, "use a mapping, not list"),
    ):
        with pytest.raises(UsageError, match=message):
            Weights(words, default)  # type: ignore[arg-type]
    many = {f"{number * 0x9E3779B185EBCA87 % 2**64:x}": 1.0 for number in range(150_000)}
    with pytest.raises(UsageError, match=f"use at most {MOST_PACKED:,} bytes"):
        Weights(many)
    with pytest.raises(UsageError, match=r"weights: use Weights\(\.\.\.\), not dict"):
        SimHash(weights={"a": 1})  # type: ignore[arg-type]


def test_entries_must_be_features() -> None:
    def made(entries: Mapping[str, float], size: int, shingling: Shingling | None = None) -> Scheme:
        simhash = SimHash(feature_size=size, weights=Weights(entries))
        return Scheme([simhash], shingling=shingling or Shingling())

    assert made({"flying saucer": 5, "- 5": 2}, 2)
    assert made({"The": 2, "the": 2}, 1)
    assert made({"a b": 2}, 3, Shingling("char", 5))
    wrong: tuple[tuple[dict[str, float], int, str], ...] = (
        ({"flying saucer": 5}, 1, "'flying saucer' has 2 words, and a feature has 1"),
        ({"saucer": 5}, 2, "'saucer' has 1 words, and a feature has 2"),
        ({"飞碟": 5}, 1, "'飞碟' is 2 words in texts"),
        ({"The": 1, "the": 2}, 1, "'The' and 'the' are the same in texts"),
    )
    for entries, size, message in wrong:
        with pytest.raises(UsageError, match=message):
            made(entries, size)


def test_a_table_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.tsv"
    TABLE.write(path)
    assert Weights.read(path) == TABLE
    path.write_bytes("\ufeffthe\t0\r\n\r\n飞碟\t5\r\n".encode())
    by_hand = Weights.read(path)
    assert (by_hand.of("the"), by_hand.of("飞碟"), by_hand.of("others")) == (0, 5, 1)
    for text, message in (
        ("the 5\n", "line 1: use a word, a tab and its weight, not 'the 5'"),
        ("a\t1\nthe\tfive\n", "line 2: use a word"),
        ("a\t1\na\t2\n", "line 2: 'a' has a weight already"),
        ("a\t99\n", "weight 99.0 of 'a'"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(UsageError, match=f"weights.tsv: .*{message}"):
            Weights.read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"weights\.tsv"):
        Weights.read(path)
    with pytest.raises(UsageError, match="No such file"):
        Weights.read(tmp_path / "none")


def test_texts_are_compared_by_weights() -> None:
    texts = ["the mustang is in the garage", "the ferrari is in the garage", "a mustang, garage"]
    table = esdedup.Weights({"the": 0, "is": 0, "in": 0, "a": 0, "mustang": 9}, 3)
    scheme = Scheme([SimHash(feature_size=1, weights=table)])
    pairs = esdedup.pairs(texts, scheme=scheme, distance=3)
    assert [(pair.left, pair.right, pair.distance) for pair in pairs] == [("0", "2", 0)]
    assert fingerprints(reference.ragged([[]]), SimHash()).tolist() == [[0]]
