"""Blocks of lines hold the lines of a stream, however it is read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.records import streams
from esdedup.records.files import chunks_in
from esdedup.records.streams import Head, blocks_of_lines, lines_of


class _Pieces(io.RawIOBase):
    """A stream that gives few bytes at a time, and fails after the last, or ends."""

    def __init__(self, data: bytes, piece: int, *, fails: bool) -> None:
        self._data, self._piece, self._fails = data, piece, fails

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self._piece, len(buffer))
        some, self._data = self._data[:size], self._data[size:]
        if not some and self._fails:
            raise EOFError("it breaks off")
        buffer[: len(some)] = some
        return len(some)


def _stream(data: bytes, piece: int, *, fails: bool = False) -> io.BufferedReader:
    return io.BufferedReader(_Pieces(data, piece, fails=fails), 16)


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"0123456789" * 3])), st.data())
def test_blocks_hold_the_lines(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    piece, size, most = (data.draw(st.integers(1, 99)) for _ in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "MOST_BYTES", 50)
        expected = [*lines_of(io.BytesIO(text))]
        lines: list[bytes] = []
        for block in blocks_of_lines(_stream(text, piece), size, most):
            some = [block] if isinstance(block, Head) else [*io.BytesIO(block)]
            assert 0 < len(some) <= most
            lines += some
    assert lines == expected
    assert [isinstance(line, Head) for line in lines] == [
        isinstance(each, Head) for each in expected
    ]


def test_the_lines_before_a_break_are_read() -> None:
    read: list[bytes] = []
    with pytest.raises(EOFError, match="breaks off"):
        read.extend(blocks_of_lines(_stream(b"one\ntwo\nthr", 3, fails=True), 100, 100))
    assert read == [b"one\ntwo\n"]


def test_lines_after_a_long_one_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_BYTES", 50)
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(['{"a": 1}', "x" * 60, '{"a": 2}', "[3]"]))
    found = [record for chunk in chunks_in(str(file)) for record in chunk.records()]
    assert [(type(record).__name__, record.line) for record in found] == [
        ("Record", 1),
        ("BadRecord", 2),
        ("Record", 3),
        ("BadRecord", 4),
    ]
