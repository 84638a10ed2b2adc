"""Calls in flight: their order, how many there are, and how they end."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.stores.concurrency import Window, in_order
from tests.helpers.processes import await_true

MB = 1 << 20
SECONDS = 30
"""After which a test fails that waits for another thread."""


@given(
    st.lists(st.frozensets(st.sampled_from("abcd"), max_size=2), max_size=15),
    st.none() | st.integers(0, 14),
    st.randoms(use_true_random=False),
)
def test_any_order_of_ends(ids: list[frozenset[str]], wrong: int | None, chance: Random) -> None:
    """Calls end in an order that Hypothesis chooses, without threads."""
    running, began, done = dict[int, Future[int]](), list[int](), list[int]()
    width = 1

    class Call(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            while not self.done():
                end_one()
            return super().result(timeout)

    def end_one() -> None:
        number = chance.choice(sorted(running))
        call = running.pop(number)
        call.set_exception(EOFError()) if number == wrong else call.set_result(number)

    def submit(number: int) -> Future[int]:
        assert len(running) < width
        assert all(ids[number].isdisjoint(ids[other]) for other in running)
        began.append(number)
        return running.setdefault(number, Call())

    def ahead() -> int:
        nonlocal width
        width = chance.randint(1, 5)
        for _ in range(chance.randint(0, len(running))):
            end_one()
        return width

    def items() -> Iterator[int]:
        yield from range(len(ids))
        raise InterruptedError

    count = len(ids) if wrong is None else min(wrong, len(ids))
    with pytest.raises(InterruptedError if count == len(ids) else EOFError):
        done.extend(in_order(submit, items(), ahead, ids.__getitem__))
    assert done == [*range(count)]
    assert began == [*range(len(began))]


def test_as_many_calls_as_the_window_is_wide() -> None:
    """Each waits for two others; a fourth at the same time would be seen."""
    window, together, running = Window(3), threading.Barrier(3), set[int]()

    def work(number: int) -> tuple[int, int | None]:
        running.add(number)
        together.wait(SECONDS)
        assert len(running) == 3
        together.wait(SECONDS)
        running.discard(number)
        return number, None if number < 100 else number - 100

    assert [done for done, _ in window.in_order(work, range(30))] == [*range(30)]
    # Two pieces of each item.
    assert sorted(window.in_pieces(work, range(100, 106))) == [*range(6), *range(100, 106)]
    window.close()


@pytest.mark.parametrize("fails", [True, False])
def test_no_call_is_left_at_the_end(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    window, begun, ended = Window(4), threading.Barrier(4), set[int]()
    ending = threading.Event()

    def waits(calls: list[Future[None]]) -> None:
        ending.set()
        for each in calls:
            each.exception(SECONDS)

    def work(number: int) -> None:
        begun.wait(SECONDS)
        if number == 0 and fails:
            raise EOFError
        assert number == 0 or ending.wait(SECONDS)
        ended.add(number)

    # Only the library knows when it waits: calls that ended before would show nothing.
    monkeypatch.setattr("esdedup.stores.concurrency.wait", waits)
    results = window.in_order(work, itertools.count())
    with ExitStack() as stack:
        if fails:
            stack.enter_context(pytest.raises(EOFError))
        next(results)
        results.close()
    assert ended | {0} == {0, 1, 2, 3}
    window.close()


@pytest.mark.parametrize("most", [1, 2])
def test_calls_that_are_done_at_once(most: int) -> None:
    """In a window of one, and within other calls, which have all threads."""
    window = Window(most)

    def thread(_: object) -> threading.Thread:
        return threading.current_thread()

    def work(item: object) -> set[threading.Thread]:
        return {thread(item), window.begin(thread, 0)(), *window.in_order(thread, range(5))}

    found = [*window.in_order(work, range(6))]
    assert [len(each) for each in found] == [1] * 6
    assert ({threading.current_thread()} in found) == (most == 1)
    if most > 1:
        # Calls that go on after the end, too.
        going_on, closed = threading.Barrier(2), threading.Event()
        call = window.submit(lambda: (going_on.wait(), closed.wait(), work(0)))
        going_on.wait(SECONDS)
        window.close()
        closed.set()
        assert len(call.result(SECONDS)[-1]) == 1


def test_refusals_halve_and_answers_widen() -> None:
    window = Window(16)

    def after(count: int, refused: bool) -> int:
        """Settle requests that are in flight together; return the width."""
        with ExitStack() as stack:
            for settle in [stack.enter_context(window.request(0)) for _ in range(count)]:
                settle(refused)
        return window.width

    assert [after(1, False) for _ in range(40)] == [*range(5, 16), *[16] * 29]
    assert after(16, True) == 8
    # Slowly from there on.
    assert [after(8, False) for _ in range(2)] == [8, 9]
    with pytest.raises(EOFError), window.request(0):
        raise EOFError
    assert [after(count, True) for count in (4, 2, 1)] == [2, 1, 1]


@pytest.mark.parametrize("sizes", [[0, 0, 0], [40 * MB, 40 * MB], [100 * MB, 1]])
def test_a_request_waits_for_room(sizes: list[int]) -> None:
    window, events = Window(2), list[str]()

    def send() -> None:
        with window.request(sizes[-1]):
            events.append("sent")

    thread = threading.Thread(target=send)
    with ExitStack() as stack:
        for size in sizes[:-1]:
            stack.enter_context(window.request(size))
        thread.start()
        await_true("the request waits", lambda: window.waiting == 1, SECONDS)
        events.append("room")
    thread.join()
    assert events == ["room", "sent"]
