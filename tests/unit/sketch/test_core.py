"""The core against plain-Python references, on texts of any kind."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from esdedup.exceptions import UsageError
from esdedup.sketch.banding import choose_banding, expected_recall, least_bands
from esdedup.sketch.comparisons import JaccardSimilarity
from esdedup.sketch.kinds.bands import signatures
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.passages import Passages
from esdedup.sketch.kinds.signature import Signature
from esdedup.sketch.kinds.simhash import SimHash, fingerprints
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import (
    KeptSets,
    hashed_words,
    known_operands,
    operands_of,
    shingle_sets,
    sketch,
    token_fields,
)
from esdedup.sketch.tokens import ALPHABET, decode, decode_tokens, encode, json_lists, token_length
from esdedup.stores.mapping import IndexMeta, index_mapping, meta_of
from esdedup.text.arrays import U64, Ragged
from esdedup.text.characters import IGNORED, VERSION, VERSIONS, character_classes, unassigned
from esdedup.text.fold import FOLDS
from esdedup.text.hashing import PADDING, xxh3_slices
from esdedup.text.jaccard import jaccard, jaccard_with
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, distinct, shingle
from esdedup.text.weights import Weights
from esdedup.text.words import tokenise
from tests.helpers import reference
from tests.helpers.reference import ragged

GOLDEN = {
    version: json.loads((Path(__file__).parent / f"golden_{version}.json").read_text("utf-8"))
    for version in VERSIONS
}

SCRIPTS = [
    "The quick brown fox, jumps over_the lazy dog 42 times.",
    "你妈妈喊你回家吃饭哦，回家罗回家罗",
    "カタカナとひらがなと漢字ー",
    "한국어 문장 입니다",
    "हिन्दी भाषा में वाक्य",
    "ภาษาไทยไม่มีช่องว่าง",
    "العَرَبِيَّة نص",
    "Привет, мир! Ёлка",
    "emoji 😀 👨‍👩‍👧 only",
    "C++ <= $100 #️⃣ 50%: -20 ★★★★★ =≠=",
    "soft\u00adhyphen zero\u200bwidth",
    "10⁶ km, 1½ ㎡ and H₂O\ufffd",
    "at -20, −20, –20 and 5−20–30-40",
    "ꦧꦱꦗꦮ ᬩᬲᬩᬮᬶ ꨌꩌ ꆈꌠꁱꂷ ㄅㄆㄇ",
    "مـــرحـــبا",
    "return a * b if x else y[-1] / (z - 1)  # `q`",
    "e\u0301tude cafe\u0301",
    "ﬁne ＡＢＣ １２３ Ⅷ",
    "\u0301leading mark",
    "lone \ud800 surrogate",
    "𠀀𠀁 planes 𝒳",
    "",
    " \n\t",
    "!!!",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(SCRIPTS), st.text(max_size=60), st.text("ab 你好\u0301\u00ad.", max_size=40)
    ),
    min_size=1,
    max_size=8,
)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(0, 2**64 - 1))
def test_xxh3_of_slices_is_that_of_the_package(strings: list[bytes], seed: int) -> None:
    lengths = np.array([len(string) for string in strings])
    starts = np.cumsum(lengths) - lengths
    got = xxh3_slices(b"".join(strings) + bytes(PADDING), starts, lengths, seed)
    assert got.tolist() == [xxhash.xxh3_64_intdigest(string, seed) for string in strings]


RULES = st.sampled_from([(3, False), (VERSION, False), (VERSION, True)])


@given(TEXTS, st.integers(1, 5), st.integers(0, 3), RULES)
def test_shingles_are_those_of_the_reference(
    texts: list[str], size: int, seed: int, rules: tuple[int, bool]
) -> None:
    version, punctuation = rules
    shingling = Shingling("word", size, punctuation=punctuation, version=version)
    got = shingle(tokenise(texts, shingling, seed), size)
    for row, text in enumerate(texts):
        words = reference.words(text, *rules)
        assert got[row].tolist() == reference.shingles(words, size, seed), text


@given(TEXTS, st.integers(1, 5))
def test_character_shingles_collapse_white_space(texts: list[str], size: int) -> None:
    got = shingle(tokenise(texts, Shingling("char", size), 1), size)
    dropped = dict.fromkeys(range(0x200B, 0x2010)) | {0xAD: None, 0xFEFF: None}
    for row, text in enumerate(texts):
        plain = " ".join(text.split()).translate(dropped)
        if all(character_classes()[ord(c)] != IGNORED for c in plain):
            assert got[row].tolist() == reference.shingles(list(plain), size, 1)


WORD_EDGES = "a1_ .-−–(+#€\ufffd\u0640ꦧ\ua9c0²½"
WORD_EDGES += "👍👎\n中かーกé한я\u0301\u3099\u0e34\u200d\u00ad\ufe0f\ud800😀𠀀𝒳\U000e0100"


MORE_HAN = st.one_of(st.sampled_from(WORD_EDGES), st.sampled_from("中かー"))


@given(st.lists(st.text(WORD_EDGES) | st.text(MORE_HAN), min_size=1, max_size=6), RULES)
def test_words_of_mixed_scripts_and_marks(texts: list[str], rules: tuple[int, bool]) -> None:
    version, punctuation = rules
    got = tokenise(texts, Shingling(punctuation=punctuation, version=version), 3)
    for row, text in enumerate(texts):
        expected = [reference.token_hash(word, 3) for word in reference.words(text, *rules)]
        assert got[row].tolist() == expected, text


ASSIGNED = [chr(point) for point in np.flatnonzero(~unassigned()).tolist()]


@given(st.lists(st.text(st.sampled_from(ASSIGNED), max_size=40), min_size=1, max_size=5), RULES)
def test_any_characters_are_normalised_and_split_as_by_the_reference(
    texts: list[str], rules: tuple[int, bool]
) -> None:
    version, punctuation = rules
    scheme = Scheme(shingling=Shingling(punctuation=punctuation), version=version)
    normalised, words = hashed_words(texts, scheme)
    assert normalised == [reference.normalise(text, version) for text in texts]
    for row, text in enumerate(normalised):
        expected = [reference.token_hash(word, 1) for word in reference.words(text, *rules)]
        assert words[row].tolist() == expected, text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Objective-C++, C#; A+", "objective c ++ c # a +"),
        ("$100, €100 & 50% <=", "$ 100 € 100 50 % <  ="),
        ("+++ ==== 😂😂😂😂😂", "+++ === 😂😂😂"),
        ("-20 °C, 5-20 (-1) --3 a -b +-2", "- 20 ° c 5 20 - 1 3 a b + 2"),
        ("👍🏽👎 ❤️❤ 👩‍💻 #️⃣ 🇩🇪 ½", "👍 🏽 👎 ❤❤ 👩 💻 # 🇩 🇪 ½"),
        ("`x` and/or a@b *y* …!?", "x and or a b y"),
        ("10⁶ km, 10⁻⁶, 1½ cups, H₂O", "10⁶ km 10 ⁻ ⁶ 1½ cups h₂o"),
        ("−20, –20 (−1) 5−20 5–20 a–b −x --−3", "- 20 - 20 - 1 5 − 20 5 20 a b − x − 3"),
        ("so\ufffdn \ufffd\ufffd", "so \ufffd n \ufffd\ufffd"),
        ("مـــرحـــبا ـ", "مرحبا"),
        ("ꦧꦱꦗꦮ", "ꦧ ꦱ ꦗ ꦮ"),
        ("ꦏꦿꦶꦤ", "ꦏꦿꦶ ꦤ"),
        ("ᬩᬮᬶ ꨌꩌ 𑜀𑜫𑜀 ꆈꌠ ㄅㄆ", "ᬩ ᬮᬶ ꨌꩌ 𑜀𑜫 𑜀 ꆈ ꌠ ㄅ ㄆ"),
    ],
)
def test_symbols_are_words_and_punctuation_is_not(text: str, words: str) -> None:
    for filling in ("", "字" * 99):  # By bytes, and by code points.
        normalised = normalise([f"{text} {filling}"], Normalisation())
        made = tokenise(normalised, Shingling(), 1)[0].tolist()
        assert made == [reference.token_hash(word, 1) for word in [*words.split(), *filling]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a * b / c - d & e", "a * b / c - d & e"),
        ("x[-1] != `y`; f((z))", "x [ - 1 ] ! = ` y ` ; f (( z ))"),
        ("snake_case ----- “q”", "snake_case --- “ q ”"),
        ("5-20 −20 (–1)", "5 - 20 - 20 ( - 1 )"),
    ],
)
def test_every_mark_is_a_word_on_request(text: str, words: str) -> None:
    for filling in ("", "字" * 99):
        normalised = normalise([f"{text} {filling}"], Normalisation())
        made = tokenise(normalised, Shingling(punctuation=True), 1)[0].tolist()
        assert made == [reference.token_hash(word, 1) for word in [*words.split(), *filling]]


def test_version_3_keeps_its_words() -> None:
    scheme = Scheme(version=3)
    for text, words in (
        ("10⁶ 1½ −20 –20 ꦧꦱꦗꦮ", "106 11 2 − 20 20 ꦧꦱꦗꦮ"),
        ("مـر \ufffd", "مـر"),
    ):
        made = hashed_words([text], scheme)[1][0].tolist()
        assert made == [reference.token_hash(word, 1) for word in words.split()]
    assert scheme.normalisation.version == scheme.shingling.version == 3
    assert Scheme.from_json(scheme.to_json()) == scheme != Scheme()
    assert Scheme().differences(scheme) == ["version 4, not 3"]
    with pytest.raises(UsageError, match="needs a scheme of version 4"):
        Scheme(shingling=Shingling(punctuation=True), version=3)
    with pytest.raises(UsageError, match=r"no parameter shingling\.version"):
        Scheme.from_json({**Scheme().to_json(), "shingling": {"unit": "word", "version": 3}})


def test_jieba_words() -> None:
    pytest.importorskip("jieba")
    made = tokenise(["我来到北京清华大学。"], Shingling("jieba", 1), 0)
    assert reference.token_hash("北京", 0) in made[0].tolist()
    with pytest.raises(UsageError, match=r"jieba 0\.1,"):
        tokenise(["我"], Shingling("jieba", 1, segmenter="0.1"), 0)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=30), min_size=1, max_size=6))
def test_signatures_are_those_of_the_reference(rows: list[list[int]]) -> None:
    got = signatures(ragged(rows), 7, 5)
    for row, hashes in enumerate(rows):
        expected = reference.signature(hashes, 7, 5) if hashes else [2**32 - 1] * 7
        assert got[row].tolist() == expected
    assert signatures(ragged(rows), 3, 5).tolist() == got[:, :3].tolist()


@pytest.mark.parametrize("swaps", [0, 1, 2])
def test_banding_reaches_the_recall_with_the_most_rows(swaps: int) -> None:
    for threshold, recall in itertools.product((0.3, 0.5, 0.7, 0.8, 0.9), (0.8, 0.95, 0.99)):
        bands, rows = choose_banding(threshold, recall, 256, swaps)
        assert rows == choose_banding(threshold, recall, 256, 0)[1]
        assert bands * rows <= 256
        assert expected_recall(threshold, bands, rows, 1, swaps) >= recall
        assert expected_recall(threshold, bands - 1, rows, 1, swaps) < recall
    with pytest.raises(UsageError, match="needs"):
        choose_banding(0.1, 0.99, 16)


def test_a_scheme_for_a_threshold() -> None:
    bands = Scheme.for_threshold(0.8).banded
    assert Scheme.for_threshold(0.8) == Scheme([bands, SimHash()])
    assert expected_recall(0.8, bands.bands, bands.rows, 1, 1) >= 0.99
    assert bands.bands < 0.8 * Scheme.for_threshold(0.8, swaps=0).banded.bands
    shingling, layout = Shingling("char", 4), choose_banding(0.8, 0.9, 64)
    scheme = Scheme.for_threshold(
        0.8, recall=0.9, permutations=64, token_bits=36, sketches=[Signature(8)],
        shingling=shingling, seed=7,
    )  # fmt: skip
    made = [MinHash(64, *layout, token_bits=36), Signature(8)]
    assert scheme == Scheme(made, shingling=shingling, seed=7)
    for threshold, recall in ((1.5, 0.99), (0.5, 1.0)):
        with pytest.raises(UsageError, match="between 0 and 1"):
            Scheme.for_threshold(threshold, recall=recall)
    with pytest.raises(UsageError, match="needs 459 permutations, but there are 16"):
        Scheme.for_threshold(0.01, permutations=16)


@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=6), min_size=1, max_size=4),
    st.sampled_from([1, 60, 100]),
)
def test_fingerprints_are_those_of_the_reference(rows: list[list[int]], times: int) -> None:
    long = [row * times for row in rows]
    got = fingerprints(ragged(long), SimHash())
    assert got[:, 0].tolist() == [reference.fingerprint(row) for row in long]
    binary = fingerprints(ragged(long), SimHash(weighting="binary"))
    assert binary[:, 0].tolist() == [reference.fingerprint(sorted(set(row))) for row in rows]


@pytest.mark.parametrize(
    ("size", "segments", "radius", "k", "terms"),
    [(64, 4, 0, 3, 4), (64, 4, 1, 7, 68), (64, 2, 1, 3, 66), (64, 8, 0, 7, 8), (128, 4, 1, 7, 132)],
)
def test_every_pair_within_the_guaranteed_distance_meets(
    size: int, segments: int, radius: int, k: int, terms: int
) -> None:
    layout = SimHash(size, segments)
    assert layout.guarantee(radius) == k
    assert layout.probes(radius) == terms
    rng = np.random.default_rng(1)
    missed_beyond = 0
    for distance in range(k + 2):
        prints = rng.integers(0, 2**64, (400, layout.width), dtype=np.uint64)
        flips = np.zeros_like(prints)
        for row in range(len(prints)):
            for bit in rng.choice(size, distance, replace=False).tolist():
                flips[row, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
        apart = np.bitwise_count(layout.token_values(prints) ^ layout.token_values(prints ^ flips))
        assert (layout.stored_values(layout.token_values(prints)) == prints).all()
        met = (apart <= radius).any(axis=1)
        if distance <= k:
            assert met.all(), distance
        missed_beyond += int((~met).sum())
    # The guarantee is tight: one block pattern of k + 1 bits escapes.
    assert missed_beyond


@given(st.integers(1, 70), st.sampled_from([12, 16, 36, 60]), st.integers(0, 2**32))
def test_tokens_round_trip_and_sort_as_their_numbers(count: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**bits, (3, count), dtype=np.uint64)
    tokens = encode(values, bits)
    assert [json.loads(each) for each in json_lists(values, bits)] == tokens
    assert decode([row[::-1] for row in tokens], count, bits).tolist() == values.tolist()
    assert {len(token) for row in tokens for token in row} == {token_length(count, bits)}
    assert all(row == sorted(row) and len({*row}) == count for row in tokens)
    order = rng.permutation(3 * count)
    flat = [token for row in tokens for token in row]
    positions, found = decode_tokens([flat[at] for at in order.tolist()], count, bits)
    assert positions.tolist() == (order % count).tolist()
    assert found.tolist() == values.ravel()[order].tolist()


def test_what_is_no_token() -> None:
    assert [part.tolist() for part in decode_tokens([], 23, 30)] == [[], []]
    for broken in ("", "N", ".....", ".......", ".1234~", ".1234é", ".1234\n", "z.....", "N....."):
        with pytest.raises(ValueError, match="is not a token"):
            decode_tokens([".12345", broken], 23, 30)
    with pytest.raises(ValueError, match=r"'.zzz' is not a token of 4 positions of 16 bits"):
        decode_tokens([".zzz"], 4, 16)
    for rows in ([["...."]], [[".......", "......."]], [["!......", "0......"]]):
        with pytest.raises(ValueError, match="token"):
            decode(rows, 2, 36)
    assert sorted(ALPHABET) == list(ALPHABET)


@pytest.mark.parametrize("block", [7, 1 << 20])
@given(
    # Some share their last 16 bits.
    rows=st.lists(
        st.lists(st.integers(0, 7) | st.sampled_from([1 << 16, 1 << 40 | 3]), max_size=8),
        min_size=2,
        max_size=6,
    )
)
def test_jaccard_is_that_of_sets(rows: list[list[int]], block: int) -> None:
    pairs = list(itertools.combinations(range(len(rows)), 2))
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    sets = distinct(ragged(rows))
    got = jaccard(sets, left, right, block)
    assert got.tolist() == [reference.jaccard(set(rows[a]), set(rows[b])) for a, b in pairs]
    first = [value for (a, _), value in zip(pairs, got.tolist(), strict=True) if a == 0]
    assert jaccard_with(sets[0], sets)[1:].tolist() == first


def test_sets_of_known_texts_are_those_of_their_scheme() -> None:
    texts = ["a b c d", "", "a b c d", *(f"text number {at}" for at in range(5)), "x " * 2_000]
    comparison, small = JaccardSimilarity(), KeptSets[tuple[int, str]](100)
    for scheme, chosen in itertools.product((Scheme(), Scheme(seed=2)), (texts, texts[:3])):
        wanted = [row.tolist() for row in shingle_sets(chosen, scheme)]
        keys = [(scheme.seed, text) for text in chosen]

        def compute(keys: list[tuple[int, str]], scheme: Scheme = scheme) -> Ragged:
            return operands_of([text for _, text in keys], scheme, comparison)

        for _ in range(2):
            assert [row.tolist() for row in known_operands(chosen, scheme, comparison)] == wanted
            assert [row.tolist() for row in small.of(keys, compute)] == wanted


def test_sets_are_computed_once_until_they_are_forgotten() -> None:
    kept, computed = KeptSets[int](200), list[list[int]]()

    def compute(keys: list[int]) -> list[U64]:
        computed.append(keys)
        return [np.arange(key, dtype=np.uint64) for key in keys]

    def ask(*keys: int) -> None:
        assert [hashes.size for hashes in kept.of(keys, compute)] == [*keys]

    ask(3, 4, 3)
    ask(4, 5)
    assert computed == [[3, 4], [5]]
    kept.forget([4, 9])
    ask(3, 4, 5)
    assert computed[2:] == [[4]]
    # No room for both: the first one stays, in place of the earlier ones.
    ask(150, 151, 3)
    ask(150, 3, 151)
    assert computed[3:] == [[150, 151], [3, 151]]
    kept.clear()
    ask(3)
    assert computed[5:] == [[3]]


def schemes(version: int = VERSION) -> dict[str, Scheme]:
    """The schemes of the golden vectors. "23 bands" was the default once."""
    made = {
        "default": Scheme([MinHash(bands=23), SimHash()]),
        "36 bits": Scheme([MinHash(bands=23, token_bits=36), SimHash()]),
        "char": Scheme([MinHash(bands=23, token_bits=36)], shingling=Shingling("char", 5)),
        "wide": Scheme([MinHash(128, 32, 4, 48)], shingling=Shingling("word", 5), seed=7),
        "128 bits": Scheme([SimHash(128, 4, 1, "binary")]),
        "plain": Scheme(
            [MinHash(bands=23, token_bits=36), SimHash()],
            Normalisation("NFC", False),
            Shingling("word", 2, ("the", "的")),
        ),
        "signature": Scheme([MinHash(bands=23), Signature(16)]),
        "passages": Scheme([MinHash(bands=23), Passages()]),
        "short passages": Scheme([Passages(4, 3, 24)], shingling=Shingling("char", 5), seed=7),
    }
    if version > 3:
        made["code"] = Scheme(shingling=Shingling(punctuation=True))
        made["folded"] = Scheme(normalisation=Normalisation(fold=FOLDS))
        pairs = Weights({"the lazy": 2.5, "the park": 0, "回 家": 7, "公 园": 25.5}, 3)
        words = Weights({"the": 0, "number0": 9.9, "of": 0.1, "家": 0.4, "ёлка": 12})
        made["weights"] = Scheme([SimHash(weights=pairs)])
        made["weights of words"] = Scheme([SimHash(128, 4, 1, "binary", words)])
    return {name: replace(scheme, version=version) for name, scheme in made.items()}


@pytest.mark.parametrize(
    ("version", "name"), [(version, name) for version in VERSIONS for name in schemes(version)]
)
def test_golden_vectors(version: int, name: str) -> None:
    scheme = schemes(version)[name]
    golden = GOLDEN[version][name]
    assert scheme.id == golden["id"]
    texts = GOLDEN[version]["texts"]
    sketches = sketch(texts, scheme)
    fields = token_fields(sketches, scheme)
    prints = [None] * len(texts)
    if "simhash" in sketches.values:
        rows = sketches.values["simhash"].tolist()
        prints = ["".join(f"{word:016x}" for word in row) for row in rows]  # type: ignore[misc]
    for field, digits, filled in zip(fields, prints, sketches.filled.tolist(), strict=True):
        # The vectors are older than the fields that differ.
        assert field.pop("wordless", None) == (None if filled else field["digest"])
        if digits is not None and filled:
            field["fingerprint"] = digits
    assert fields == golden["fields"]
    # A text alone has the tokens that it has among others.
    one_by_one = [token_fields(sketch([text], scheme), scheme)[0] for text in texts]
    assert one_by_one == token_fields(sketches, scheme)
    back = Scheme.from_json(json.loads(json.dumps(scheme.to_json())))
    assert (back, back.id) == (scheme, scheme.id)
    meta = IndexMeta(scheme, ("title", "body"))
    assert meta_of(index_mapping(meta)) == meta


def test_sketches_of_a_scheme_have_names() -> None:
    scheme = Scheme([MinHash(), Signature(), MinHash(bands=23, name="fine")])
    assert scheme.names == ["minhash", "signature", "fine"]
    assert scheme.keys == ["minhash", "signature", "minhash_fine"]
    assert scheme.sketch().name == "minhash"
    assert Scheme().differences(Scheme([MinHash(), Signature(), SimHash()])) == [
        "signature.bands absent, not 128",
        'signature.kind absent, not "signature"',
        'sketches ["minhash", "simhash"], not ["minhash", "signature", "simhash"]',
    ]
    for wrong, message in (
        (lambda: scheme.sketch("body"), "no sketch 'body': use minhash, signature, fine"),
        (lambda: Scheme([MinHash(), MinHash()]), "two sketches are named 'minhash'"),
        (lambda: Scheme([]), "needs a sketch"),
        (lambda: Scheme(["minhash"]), "use Sketch.*, not 'minhash'"),  # type: ignore[list-item]
        (lambda: Scheme(shingling="word:2"), "shingling: use Shingling"),  # type: ignore[arg-type]
        (lambda: MinHash(name="Title!"), "sketch 'Title!': name it"),
        (lambda: Signature(0), "signature 0: use 1 to 4096"),
    ):
        with pytest.raises(UsageError, match=message):
            wrong()


def test_differences_name_the_parameter() -> None:
    assert Scheme().differences(Scheme(shingling=Shingling("word", 5))) == [
        "shingling.size 3, not 5"
    ]
    assert len({scheme.id for scheme in schemes().values()}) == len(schemes())
    with pytest.raises(UsageError, match="version 99"):
        Scheme.from_json({**Scheme().to_json(), "version": 99})
    with pytest.raises(UsageError, match="colour"):
        Scheme.from_json({**Scheme().to_json(), "colour": 1})


def exact_recall(similarity: Fraction, bands: int, rows: int, least: int) -> Fraction:
    meeting = similarity**rows
    return sum(
        (
            math.comb(bands, shared) * meeting**shared * (1 - meeting) ** (bands - shared)
            for shared in range(least, bands + 1)
        ),
        Fraction(0),
    )


@given(
    st.fractions(0, 1, max_denominator=200),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(0, 62),
)
def test_expected_recall_is_the_binomial_tail(
    similarity: Fraction, bands: int, rows: int, least: int
) -> None:
    got = expected_recall(float(similarity), bands, rows, least)
    exact = float(exact_recall(similarity, bands, rows, least))
    assert got == pytest.approx(exact, rel=1e-9, abs=1e-300)
    if least == 1:
        s_curve = 1 - (1 - float(similarity) ** rows) ** bands
        assert got == pytest.approx(s_curve, rel=1e-6, abs=1e-12)
    # A miss that is rare is not rounded away either.
    assert 1 - got == pytest.approx(1 - exact, rel=1e-6, abs=1e-12)


@given(st.floats(0.01, 1), st.floats(0.01, 0.9999), st.integers(1, 130), st.integers(1, 6))
def test_least_bands_are_the_most_that_reach_the_recall(
    threshold: float, recall: float, bands: int, rows: int
) -> None:
    least = least_bands(threshold, recall, bands, rows)
    assert 1 <= least <= bands
    if least > 1:
        assert expected_recall(threshold, bands, rows, least) >= recall
    if least < bands:
        assert expected_recall(threshold, bands, rows, least + 1) < recall
