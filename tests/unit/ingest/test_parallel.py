"""Worker processes: the order of results, errors."""

import itertools
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from esdedup.exceptions import InputError, StoreError
from esdedup.ingest.parallel import beside, in_order, in_pieces
from tests.helpers.work import (
    count_down,
    fails_in_this_process,
    fails_in_worker,
    slow_square,
)


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
def test_an_error_of_a_worker_ends_all(
    item: Any, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(multiprocessing.active_children())
    # Either process may get any item: the worker fails with the first one that it gets of these.
    items, results = ["one", *[item] * 100], list[Any]()
    with pytest.raises(StoreError, match=said):
        results.extend(in_order(2, fails_in_worker, items))
    assert set(results) <= {"one", None}
    assert len(results) < len(items)
    assert set(multiprocessing.active_children()) <= before
    assert ("in fails_in_worker" in capfd.readouterr().err) == ("process failed" in said)


def test_this_process_reports_an_error_as_the_others_do() -> None:
    items = [OSError("no room")] * 100
    with pytest.raises(StoreError, match=r"^a worker process failed: OSError: no room$"):
        [*in_order(2, fails_in_this_process, items)]


def test_who_stops_taking_results_ends_all() -> None:
    before = set(multiprocessing.active_children())
    with closing(in_order(2, slow_square, itertools.count())) as results:
        assert next(results) == 0
        assert set(multiprocessing.active_children()) > before
    assert set(multiprocessing.active_children()) <= before


def test_the_next_item_is_computed_beside_the_work_on_one() -> None:
    log: list[str] = []
    computed = [threading.Event() for _ in range(4)]

    def given() -> Iterator[int]:
        for number in range(3):
            computed[number].set()
            yield number
        computed[3].set()
        raise InputError("it breaks off")

    def work(number: int) -> int:
        log.append(f"begun {number}")
        assert computed[number + 1].wait(10)
        log.append(f"done {number}")
        return number

    def report(number: int) -> None:
        log.append(f"reported {number}")

    with pytest.raises(InputError, match="it breaks off"):
        # The report on an item comes before the work on the next one.
        list(map(report, beside(work, given())))
    assert log == [f"{step} {n}" for n in range(3) for step in ("begun", "done", "reported")]


def test_an_error_beside_ends_all() -> None:
    items = iter(range(10))
    with pytest.raises(ZeroDivisionError):
        list(beside(lambda number: 1 // (number - 1), items))
    assert next(items) == 3


def test_after_an_interrupt_the_work_beside_it_is_reported() -> None:
    def given() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    reported: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        reported.extend(beside(lambda number: number, given()))
    assert reported == [1]
