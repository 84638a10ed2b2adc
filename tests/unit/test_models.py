"""The natural order of ids."""

from hypothesis import given
from hypothesis import strategies as st

from esdedup.models import natural


def test_ids_are_ordered_as_people_do() -> None:
    ids = ["a10", "a2", "a02", "b", "10", "9", "文10", "文9", "a", "a2b", "文", ""]
    assert sorted(ids, key=natural) == [
        "", "9", "10", "a", "a02", "a2", "a2b", "a10", "b", "文", "文9", "文10",
    ]  # fmt: skip


@given(st.lists(st.text("ab01文", max_size=5), max_size=8))
def test_any_ids_can_be_ordered(ids: list[str]) -> None:
    backwards = list(reversed(ids))
    assert sorted(ids, key=natural) == sorted(backwards, key=natural)
