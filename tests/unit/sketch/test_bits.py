"""Fingerprints that documents bring: their encodings, and the distances that they guarantee."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup import Bits, Limits, Scheme, UsageError
from esdedup.exceptions import RecordError
from esdedup.sketch.sketch import sketch, token_fields

NUMBER = 0xC3D1A5B4978E6D2F
RAW = NUMBER.to_bytes(8, "big")
GOLDEN_64 = [[".BEGd", "02PHw", "12aoj"], [".....", "0....", "1...."], [".Ezzz", "06zzz", "16zzz"]]
GOLDEN_256 = [
    ".kx5_",
    "0h8TD",
    "1QHz2",
    "2PCAP",
    "38TDQ",
    "48UWu",
    "55_h8",
    "6E6Cd",
    "7Ekx5",
    "8HqZj",
    "92aoj",
]
GOLDEN_IDS = {
    3: ("v3-2a6924466b3a", "v3-58ae7d5f0254"),
    4: ("v4-a9a72c604bfa", "v4-786d22a9748c"),
}


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("hex", "c3d1a5b4978e6d2f"),
        ("hex", "C3D1A5B4978E6D2F"),
        ("base64", base64.b64encode(RAW).decode()),
        ("base64", base64.urlsafe_b64encode(RAW).decode().rstrip("=")),
        ("int", NUMBER),
        ("int", NUMBER - 2**64),
        ("bytes", [*RAW]),
        ("bits", f"{NUMBER:b}"),
        ("bits", [*map(int, f"{NUMBER:b}")]),
    ],
)
def test_each_encoding_is_read(encoding: Any, value: Any) -> None:
    kinds = [Bits(encoding=each) for each in ("hex", "base64", "int", "bytes", "bits")]
    for kind in kinds:
        if kind.encoding == encoding:
            assert kind.text(value) == f"{NUMBER:x}"
        else:
            # No value of one encoding is valid in another one.
            with pytest.raises(RecordError, match="is not a fingerprint of"):
                kind.text(value)


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("hex", "c3d1a5b4978e6d2"),
        ("hex", "c3d1a5b4978e6d2f0"),
        ("hex", "0xc3d1a5b4978e6d"),
        ("hex", "c3d1a5b4_78e6d2f"),
        ("hex", " c3d1a5b4978e6d2"),
        ("hex", "\uff11" * 16),
        ("hex", None),
        ("hex", ["c3d1a5b4978e6d2f"]),
        ("hex", {"a": 1}),
        ("base64", "c3d1a5b4978"[:10]),
        ("base64", "c3d1a5b4978e="),
        ("base64", "c3d1a5b4979"),
        ("int", 2**64),
        ("int", -(2**63) - 1),
        ("int", 1.0),
        ("int", True),
        ("bytes", [256, *RAW[1:]]),
        ("bytes", [-1, *RAW[1:]]),
        ("bytes", [True, *RAW[1:]]),
        ("bytes", [*RAW, 0]),
        ("bytes", []),
        ("bits", "2" * 64),
        ("bits", [0] * 63),
    ],
)
def test_other_values_are_rejected(encoding: Any, value: Any) -> None:
    with pytest.raises(RecordError, match=r"is not a fingerprint of (64 bits|8 bytes)"):
        Bits(encoding=encoding).text(value)


def test_leading_zeros_and_sizes_that_are_not_of_whole_bytes() -> None:
    assert Bits(42, 4).text("00000000001") == "00000000001"
    assert Bits(42, 4, "int").text(1) == "00000000001"
    with pytest.raises(RecordError):
        Bits(42, 4).text("fffffffffff")  # 44 bits.
    with pytest.raises(UsageError, match="a multiple of 8"):
        Bits(42, 4, "bytes")


@given(st.integers(32, 1024), st.integers(1, 40), st.integers(0, 8), st.integers(0, 2**32))
def test_every_pair_within_the_distance_meets(
    size: int, distance: int, radius: int, seed: int
) -> None:
    try:
        kind = Bits(size, min(distance, size - 1))
    except UsageError as error:
        assert "needs" in str(error)  # noqa: PT017
        return
    rng = np.random.default_rng(seed)
    one = int.from_bytes(rng.bytes(-(-size // 8))) % (1 << size)
    flips = sum(1 << int(bit) for bit in rng.choice(size, min(distance, size - 1), replace=False))
    texts = [Bits(size, encoding="int").text(each) for each in (one, one ^ flips)]
    scheme = Scheme([kind])
    made = sketch(texts, scheme)
    tokens = kind.token_values(made.values["bits"])
    assert (kind.stored_values(tokens) == made.values["bits"]).all()
    words = (sum(int(word) << 64 * at for at, word in enumerate(row[::-1])) for row in
             made.values["bits"].tolist())  # fmt: skip
    assert [*words] == [one, one ^ flips]
    looked_up = sketch(texts[:1], scheme, limits=Limits()).probes["bits"]
    met = (looked_up.values[0] == tokens[1][:, None]) & looked_up.present[0]
    assert met.any()
    assert sum(kind.widths) == size
    assert max(kind.widths) - min(kind.widths) <= 1


def test_golden_tokens() -> None:
    texts = ["c3d1a5b4978e6d2f", "0000000000000000", "ffffffffffffffff"]
    fields = token_fields(sketch(texts, Scheme([Bits(64, 8)])), Scheme([Bits(64, 8)]))
    assert [each["bits"] for each in fields] == GOLDEN_64
    wide = Scheme([Bits(256, 31)])
    (field,) = token_fields(sketch([texts[0] * 4], wide), wide)
    assert field["bits"] == GOLDEN_256
    for version, ids in GOLDEN_IDS.items():
        both = (
            Scheme([Bits(size, segments)], version=version)
            for size, segments in ((64, 8), (256, 31))
        )
        assert tuple(scheme.id for scheme in both) == ids


def test_the_layout_follows_from_the_distance() -> None:
    # Few terms for a near one, wide segments for a far one.
    assert [(Bits(64, each).segments, Bits(64, each).probes(each // Bits(64, each).segments))
            for each in (1, 3, 8, 12)] == [(2, 2), (2, 66), (3, 718), (3, 24203)]  # fmt: skip
    assert (Bits(256, 31).segments, Bits(256, 31).probes(2)) == (11, 3119)
    assert (Bits(64).distance, Bits(64, 0).distance, Bits(64, 0).segments) == (8, 0, 2)
    assert Bits(64, 3, segments=4).widths == (16, 16, 16, 16)
    with pytest.raises(UsageError, match="a cluster accepts 65,536"):
        Bits(1024, 1000, segments=20)
    for wrong in ({"size": 16}, {"size": 2048}, {"distance": 64}, {"encoding": "octal"},
                  {"segments": 1}, {"segments": 40}, {"fields": ("a", "b")}):  # fmt: skip
        with pytest.raises(UsageError):
            Bits(**wrong)


def test_texts_that_are_not_fingerprints_are_refused() -> None:
    for text in ("some text", "c3d1", "c3d1a5b4978e6d2f0"):
        with pytest.raises(UsageError, match="compares fingerprints of 64 bits in 16 hex digits"):
            sketch([text], Scheme([Bits()]))
    # A document whose fingerprint was removed has none.
    assert sketch(["", "c3d1a5b4978e6d2f"], Scheme([Bits()])).filled.tolist() == [False, True]
