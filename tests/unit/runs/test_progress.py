"""`progress=True`: a line for each step, in place on a terminal, and seldom in a log."""

import io

import pytest

from esdedup.runs.progress import ProgressLines, shown


class Terminal(io.StringIO):
    """A stream that shows lines in place."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(stream: io.StringIO) -> str:
    """Run two steps, of 100 and of 40 seconds, and return what is written."""
    clock = Clock()
    lines = ProgressLines(stream, clock=clock)
    for second in range(100):
        clock.now = second
        lines("Sketching", 10 * second, 1_000)
    for second in range(40):
        clock.now = 100 + second
        lines("Reading", second, 0)
    lines.close()
    return stream.getvalue()


def test_a_log_gets_a_line_every_half_minute_and_at_the_end_of_a_step() -> None:
    assert written(io.StringIO()).splitlines() == [
        "Sketching: 300 of 1,000 (30%)",
        "Sketching: 600 of 1,000 (60%)",
        "Sketching: 900 of 1,000 (90%)",
        "Sketching: 990 of 1,000 (99%)",
        "Reading: 30",
        "Reading: 39",
    ]


def test_a_terminal_shows_each_step_on_a_line_of_its_own() -> None:
    text = written(Terminal())
    assert text.count("\n") == 2
    first, second, end = text.split("\n")
    assert first.split("\r\033[K")[1:3] == [
        "Sketching: 10 of 1,000 (1%)",
        "Sketching: 20 of 1,000 (2%)",
    ]
    assert first.endswith("\r\033[KSketching: 990 of 1,000 (99%)")
    assert second.endswith("\r\033[KReading: 39")
    assert end == ""


def test_the_last_line_is_written_if_the_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with shown(True) as on_step:
            on_step("Sketching", 1, 2)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert capsys.readouterr().err == "Sketching: 1 of 2 (50%)\n"
