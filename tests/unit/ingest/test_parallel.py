"""Worker processes: chunks of files, the order of results, errors."""

from __future__ import annotations

import gzip
import itertools
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup.records.files
from esdedup.exceptions import InputError, StoreError
from esdedup.ingest.parallel import in_order, in_pieces
from esdedup.records.files import BATCH_DOCUMENTS, TextFormat, chunks_in, read_records
from tests.helpers.work import count_down, fails, slow_square

LINES = [
    '{"id": "a", "text": "one"}',
    '{"text": "第二行"}',
    "",
    "no JSON",
    '"quoted, with a comma"\tand\x85odd ends\x0b\u2028',
    '"a record,\nof two lines",2',
    "a" * 50,
]


@given(
    lines=st.lists(st.sampled_from(LINES), max_size=12),
    end=st.sampled_from(["\n", "\r\n", ""]),
    size=st.integers(1, 200),
    format=st.sampled_from(get_args(TextFormat)),
)
@settings(deadline=None)
def test_chunks_hold_the_records_of_their_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    size: int,
    format: TextFormat,
) -> None:
    data = (("\ufeffa,b\n" if format == "csv" else "\ufeff") + "\n".join(lines) + end).encode()
    file = tmp_path_factory.mktemp("chunks") / "some.gz"
    file.write_bytes(gzip.compress(data + b"\xff\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(esdedup.records.files, "CHUNK_BYTES", size)
        chunks = list(chunks_in(str(file), format))
    read = list(itertools.chain.from_iterable(chunk.records() for chunk in chunks))
    assert read == list(read_records(str(file), format))
    if size == 1 and len(lines) > 1 and format in ("jsonl", "text"):
        assert len(chunks) > 1


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
