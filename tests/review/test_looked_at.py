"""The file of the groups that a person has looked at."""

from pathlib import Path

import pytest

from esdedup.exceptions import StoreError
from esdedup.review.looked_at import LookedAt
from tests.helpers.full_disk import largest_file


@pytest.mark.parametrize("half", [b"", b'{"group": "0', b'{"group": "00", "accep', b"\xe5"])
def test_a_group_is_kept_behind_half_a_line(tmp_path: Path, half: bytes) -> None:
    """Such as a program that is killed leaves."""
    path = tmp_path / "looked-at.jsonl"
    LookedAt(path).accept(["aa", "ab"])
    path.write_bytes(path.read_bytes() + half)
    LookedAt(path).accept(["bb"])
    LookedAt(path).accept(["ab"], accepted=False)
    assert LookedAt(path).among(["aa", "ab", "bb", "cc"]).tolist() == [True, False, True, False]


def test_a_group_is_kept_after_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "looked-at.jsonl"
    looked_at = LookedAt(path)
    looked_at.accept(["aa"])
    with largest_file(path.stat().st_size + 20), pytest.raises(StoreError):
        looked_at.accept(["bb"])
    assert looked_at.among(["aa", "bb"]).tolist() == [True, False]
    looked_at.accept(["bb"])
    assert LookedAt(path).among(["aa", "bb"]).tolist() == [True, True]
