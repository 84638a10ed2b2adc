"""Worker processes: the order of results, errors."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from esdedup.exceptions import InputError, StoreError
from esdedup.ingest.parallel import in_order, in_pieces
from esdedup.records.files import BATCH_DOCUMENTS, chunks_in
from tests.helpers.work import count_down, fails, slow_square


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(in_order(workers, slow_square, range(20))) == [n * n for n in range(20)]


def test_only_a_few_items_are_read_ahead() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            read.append(number)
            yield number

    for done, _ in enumerate(in_order(2, slow_square, items()), 1):
        assert len(read) <= done + 5


def test_the_rest_of_an_item_is_worked_at_until_there_is_none() -> None:
    assert sorted(in_pieces(2, count_down, [3, 1, 4])) == [1, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(
    ("item", "kind", "said"),
    [
        (StoreError("this can't be done"), StoreError, "^this can't be done$"),
        (EOFError("of some file"), EOFError, "^of some file$"),
        ("odd", StoreError, "^a worker process failed: Odd: this and that$"),
        ("killed", StoreError, "^a worker process was killed"),
    ],
)
def test_an_error_ends_all(item: Any, kind: type[Exception], said: str) -> None:
    before = set(multiprocessing.active_children())
    done: list[Any] = []
    with pytest.raises(kind, match=said) as raised:
        done.extend(in_order(2, fails, ["one", item, *range(100)]))
    assert done in (["one"], [])
    assert set(multiprocessing.active_children()) <= before
    if kind is EOFError:
        # It says where it came from.
        assert "in fails" in str(raised.value.__cause__)


def test_who_stops_taking_results_ends_all() -> None:
    before = set(multiprocessing.active_children())
    with closing(in_order(2, slow_square, itertools.count())) as results:
        assert next(results) == 0
        assert set(multiprocessing.active_children()) > before
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_read_before_an_error_is_done(workers: int) -> None:
    def items() -> Iterator[int]:
        yield 0
        yield 2
        raise InputError("the file breaks off")

    done: list[int] = []
    with pytest.raises(InputError, match="the file breaks off"):
        done.extend(in_order(workers, slow_square, items()))
    assert done == [0, 4]


def test_short_lines_are_no_endless_chunk(tmp_path: Path) -> None:
    file = tmp_path / "many.txt"
    file.write_text("a\n" * (2 * BATCH_DOCUMENTS + 5))
    chunks = list(chunks_in(str(file)))
    assert [len(list(chunk.records())) for chunk in chunks] == [BATCH_DOCUMENTS] * 2 + [5]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("call", "work"), [(in_order, slow_square), (in_pieces, count_down)])
def test_an_interrupt_leaves_no_future_locked(
    call: Any, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may raise right after a lock was taken, and before anything would release it."""
    entered = threading.Condition.__enter__
    left = 0

    def interrupted(condition: threading.Condition) -> bool:
        nonlocal left
        held = entered(condition)
        asking = sys._getframe(1).f_globals["__name__"] == "concurrent.futures._base"
        if asking and threading.current_thread() is threading.main_thread():
            left += 1
            if left == 3:
                signal.raise_signal(signal.SIGINT)
        return held

    monkeypatch.setattr(threading.Condition, "__enter__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(call(2, work, [3] * 8))
