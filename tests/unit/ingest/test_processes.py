"""Work in several processes: chunks of files, and whose turn it is."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup.ingest.files
from esdedup.exceptions import InputError, StoreError
from esdedup.ingest.files import BATCH_DOCUMENTS, Format, chunks_in, read_records
from esdedup.ingest.processes import TURN, Claim, Turns, in_processes

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
    format=st.sampled_from(get_args(Format)),
)
def test_chunks_hold_the_records_of_their_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    size: int,
    format: Format,
) -> None:
    data = (("\ufeffa,b\n" if format == "csv" else "\ufeff") + "\n".join(lines) + end).encode()
    file = tmp_path_factory.mktemp("chunks") / "some.gz"
    file.write_bytes(gzip.compress(data + b"\xff\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(esdedup.ingest.files, "CHUNK_BYTES", size)
        chunks = list(chunks_in(str(file), format))
    read = list(itertools.chain.from_iterable(chunk.records() for chunk in chunks))
    assert read == list(read_records(str(file), format))
    if size == 1 and lines and format in ("jsonl", "text"):
        assert len(chunks) > 1


@given(
    keys=st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=1, max_size=9),
    seed=st.integers(0, 10_000),
    workers=st.integers(1, 4),
)
def test_no_item_overtakes_one_that_shares_a_key(
    keys: list[set[int]], seed: int, workers: int
) -> None:
    """Whatever the order in which the steps of items are done, each ends, in its turn."""
    chance = random.Random(seed)
    turns = Turns()
    coming = list(range(len(keys)))
    steps: dict[int, int] = {}
    waiting: set[int] = set()
    may: set[int] = set()
    ended: list[int] = []
    while coming or steps:
        able = [n for n in steps if n not in waiting] + (coming[:1] if len(steps) < workers else [])
        assert able, "all wait for each other"
        chosen = chance.choice(able)
        if chosen not in steps:
            coming.pop(0)
            steps[chosen] = 0
            continue
        steps[chosen] += 1
        if steps[chosen] == 1:
            turns.claim(chosen, np.array(sorted(keys[chosen]), np.uint64))
        elif steps[chosen] == 2:
            waiting.add(chosen)
            turns.wait(chosen)
        else:
            assert chosen in may
            ended.append(chosen)
            del steps[chosen]
            turns.end(chosen)
        for number in turns.granted():
            assert number in waiting
            waiting.remove(number)
            may.add(number)
    assert sorted(ended) == list(range(len(keys)))
    for earlier, later in itertools.combinations(range(len(keys)), 2):
        if keys[earlier] & keys[later]:
            assert ended.index(earlier) < ended.index(later)


Work = Iterator[str | Claim | Literal["turn"]]


@contextmanager
def writing(file: Path) -> Iterator[Any]:
    """Items are names, how long they take to be made, and their keys; each is written at once."""

    def work(item: tuple[str, float, list[int]]) -> Work:
        name, seconds, keys = item
        yield Claim(np.array(keys, np.uint64))
        time.sleep(seconds)
        yield TURN
        with file.open("a") as out:
            out.write(f"{name}\n")
        yield name

    yield work


def test_processes_keep_the_order_of_what_shares_a_key(tmp_path: Path) -> None:
    file = tmp_path / "written"
    items = [("slow", 1.0, [1, 2]), ("other", 0.0, [3]), ("like slow", 0.0, [2]), ("a", 0.0, [4])]
    done = list(in_processes(3, partial(writing, file), items))
    written = file.read_text().splitlines()
    assert sorted(done) == sorted(written) == sorted(name for name, _, _ in items)
    assert written.index("slow") < written.index("like slow")
    assert written.index("other") < written.index("slow")


def test_processes_are_heard_while_the_next_item_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "written"

    def items() -> Iterator[tuple[str, float, list[int]]]:
        yield "first", 0.5, [1]
        yield "second", 0.0, [1]
        # Neither needs us again to be written.
        deadline = time.monotonic() + 30
        while not file.exists() or len(file.read_text().splitlines()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield "third", 0.0, [1]

    assert list(in_processes(2, partial(writing, file), items())) == ["first", "second", "third"]


class Odd(Exception):
    """Can't be made from its message."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


@contextmanager
def failing(_: Path) -> Iterator[Any]:
    def work(item: Any) -> Iterator[Any]:
        if isinstance(item, Exception):
            raise item
        if item == "odd":
            raise Odd("this", "that")
        if item == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        yield item

    yield work


@pytest.mark.parametrize(
    ("item", "kind", "said"),
    [
        (StoreError("this can't be done"), StoreError, "^this can't be done$"),
        (
            EOFError("of some file"),
            EOFError,
            "^of some file\nIn a worker(.*\n)* .*in work",
        ),
        ("odd", StoreError, "Odd: this and that"),
        ("killed", StoreError, "ended with status -9"),
    ],
)
def test_an_error_ends_all(tmp_path: Path, item: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        list(in_processes(2, partial(failing, tmp_path), ["one", item]))


def test_what_was_read_before_an_error_is_done(tmp_path: Path) -> None:
    def items() -> Iterator[tuple[str, float, list[int]]]:
        yield "first", 0.5, [1]
        yield "second", 0.0, [2]
        raise InputError("the file breaks off")

    with pytest.raises(InputError, match="the file breaks off"):
        list(in_processes(3, partial(writing, tmp_path / "written"), items()))
    assert sorted((tmp_path / "written").read_text().splitlines()) == ["first", "second"]


def test_short_lines_are_no_endless_chunk(tmp_path: Path) -> None:
    file = tmp_path / "many.txt"
    file.write_text("a\n" * (2 * BATCH_DOCUMENTS + 5))
    chunks = list(chunks_in(str(file)))
    assert [len(list(chunk.records())) for chunk in chunks] == [BATCH_DOCUMENTS] * 2 + [5]
