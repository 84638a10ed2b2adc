"""Worker processes: the order of results, errors."""

import itertools
import multiprocessing
from contextlib import closing
from typing import Any

import pytest

from esdedup.exceptions import StoreError
from esdedup.ingest.parallel import in_order, in_pieces
from tests.helpers.work import count_down, fails, slow_square


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_few_items_are_read_ahead(workers: int) -> None:
    given = itertools.count()
    for number, done in enumerate(itertools.islice(in_order(workers, slow_square, given), 50)):
        assert done == number**2
    assert next(given) <= 55


def test_the_rest_of_an_item_is_worked_at_until_there_is_none() -> None:
    assert sorted(in_pieces(2, count_down, [3, 1, 4])) == [1, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (StoreError("this can't be done"), "^this can't be done$"),
        (EOFError("of some file"), "^a worker process failed: EOFError: of some file"),
        ("odd", "^a worker process failed: Odd: this and that$"),
        ("killed", "^a worker process was killed"),
    ],
)
def test_an_error_ends_all(item: Any, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = set(multiprocessing.active_children())
    done: list[Any] = []
    with pytest.raises(StoreError, match=said):
        done.extend(in_order(2, fails, ["one", item, *range(100)]))
    assert done in (["one"], [])
    assert set(multiprocessing.active_children()) <= before
    assert ("in fails" in capfd.readouterr().err) == ("process failed" in said)


def test_who_stops_taking_results_ends_all() -> None:
    before = set(multiprocessing.active_children())
    with closing(in_order(2, slow_square, itertools.count())) as results:
        assert next(results) == 0
        assert set(multiprocessing.active_children()) > before
    assert set(multiprocessing.active_children()) <= before
