"""Keep several calls in flight, so that neither the cluster nor its client waits for the other.

Calls run in threads, not in asyncio, because they are the same that a local file answers, and numpy
and sockets release Python's lock. The number of requests in flight follows the servers as TCP's
congestion window follows a network: an answer widens it, a refusal for load halves it (Jacobson,
"Congestion avoidance and control", SIGCOMM 1988, section 2 and appendix D).
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Submit = Callable[[Item], Future[Answer]]
"""Starts the work on an item."""

_AT_FIRST = 4
_MOST_BYTES = 64 << 20
"""Maximum bytes of the bodies of all requests in flight, but for one that is larger alone."""


class Window:
    """Calls in flight, each in a thread; without threads if there can be only one.

    most: maximum number of calls, and of the requests that they send.
    """

    def __init__(self, most: int = 1) -> None:
        self.most = most
        # Threads that use numpy at the same time spend a fifth on taking Python's lock in turns.
        self.computing = threading.Lock()
        self._width = float(min(_AT_FIRST, most))
        self._steady = float(most)
        self._requests = self._bytes = self._halvings = self._waiting = 0
        self._changed = threading.Condition()
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._inside = threading.local()

    @property
    def width(self) -> int:
        """The number of requests that the servers accept at the same time."""
        return int(self._width)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for room."""
        return self._waiting

    @contextmanager
    def request(self, size: int) -> Iterator[Callable[[bool], None]]:
        """Wait for room for a request of some bytes.

        Call the returned function with True if the servers refused the request for load, else with
        False. Without a call, as if no answer came, the request counts as refused.
        """
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._has_room(size))
            finally:
                self._waiting -= 1
            self._requests, self._bytes = self._requests + 1, self._bytes + size
            halvings = self._halvings
        refused = True

        def settle(was_refused: bool) -> None:
            nonlocal refused
            refused = was_refused

        try:
            yield settle
        finally:
            with self._changed:
                self._requests, self._bytes = self._requests - 1, self._bytes - size
                if not refused:
                    growth = 1.0 if self._width < self._steady else 1.0 / self._width
                    self._width = min(self._width + growth, float(self.most))
                elif halvings == self._halvings:
                    # Others that were in flight then are refused for the same reason.
                    self._halvings += 1
                    self._width = self._steady = max(1.0, self._width / 2)
                self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        if not self._requests:
            return True
        return self._requests < self.width and self._bytes + size <= _MOST_BYTES

    def submit(self, work: Callable[..., Answer], *arguments: object) -> Future[Answer]:
        """Start a call. One from within another is done at once, as in a window of one."""
        future: Future[Answer] = Future()
        # Also after `close`, when a call may still go on.
        if self.most == 1 or hasattr(self._inside, "a_call"):
            _call(future, work, arguments)
            return future
        if len(self._threads) < self.most:
            # Daemons, so that Ctrl-C need not wait for an answer.
            thread = threading.Thread(target=_serve, args=(self._calls, self._inside), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put((future, work, arguments))
        return future

    def begin(self, work: Callable[..., Answer], *arguments: object) -> Callable[[], Answer]:
        """Start a call, and return a function that waits for its result.

        Without threads, the function makes the call.
        """
        if self.most == 1:
            return partial(work, *arguments)
        return self.submit(work, *arguments).result

    def in_order(
        self,
        work: Callable[[Item], Answer],
        items: Iterable[Item],
        ids: Callable[[Item], Iterable[str]] = lambda _: (),
    ) -> Generator[Answer]:
        """Yield `work(item)` of each item, in the order of the items, as the function `in_order`.

        ids: of the documents of an item. Work on two items that share one is not done at the same
        time, but in their order.
        """
        if self.most == 1:
            yield from map(work, items)
            return
        with self._calling(work) as submit:
            yield from in_order(submit, items, lambda: self.width, ids)

    def in_pieces(
        self, work: Callable[[Item], tuple[Answer, Item | None]], items: Iterable[Item]
    ) -> Generator[Answer]:
        """Yield the results of all pieces of the items, as the function `in_pieces`."""
        with self._calling(work) as submit:
            yield from in_pieces(submit, items, lambda: self.width)

    @contextmanager
    def _calling(self, work: Callable[[Item], Answer]) -> Iterator[Submit[Item, Answer]]:
        """Return a function that submits items. At the end no call is left."""
        begun: set[Future[Answer]] = set()

        def submit(item: Item) -> Future[Answer]:
            future = self.submit(work, item)
            begun.add(future)
            future.add_done_callback(begun.discard)
            return future

        try:
            yield submit
        except (Exception, GeneratorExit):
            # After Ctrl-C, a request may go on for as long as its server does not answer.
            wait([future for future in [*begun] if not future.cancel()])
            raise

    def close(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._calls.put(None)
        self._threads = []


def _serve(calls: SimpleQueue[Any], inside: threading.local) -> None:
    inside.a_call = True
    while (call := calls.get()) is not None:
        if call[0].set_running_or_notify_cancel():
            _call(*call)
        # The result is the caller's alone.
        del call


def _call(
    future: Future[Answer], work: Callable[..., Answer], arguments: Collection[object]
) -> None:
    try:
        future.set_result(work(*arguments))
    except BaseException as error:
        future.set_exception(error)


def in_order(
    submit: Submit[Item, Answer],
    items: Iterable[Item],
    ahead: Callable[[], int],
    ids: Callable[[Item], Iterable[str]] = lambda _: (),
) -> Generator[Answer]:
    """Yield the result of each item, in the order of the items.

    ahead: returns the number of items to work on at the same time. ids: see `Window.in_order`.
    Raises the first error of the work. What `items` raises comes after the results of all items
    before it.
    """
    remaining, waiting = iter(items), deque[tuple[Future[Answer], frozenset[str]]]()
    failure: Exception | None = None
    while True:
        try:
            item = next(remaining)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        item_ids = frozenset(ids(item))
        while waiting and (
            waiting[0][0].done()
            or len(waiting) >= ahead()
            or not all(future.done() or item_ids.isdisjoint(before) for future, before in waiting)
        ):
            yield waiting.popleft()[0].result()
        waiting.append((submit(item), item_ids))
        del item
    while waiting:
        yield waiting.popleft()[0].result()
    if failure is not None:
        raise failure


def in_pieces(
    submit: Submit[Item, tuple[Answer, Item | None]],
    items: Iterable[Item],
    ahead: Callable[[], int],
) -> Generator[Answer]:
    """Yield the results of all pieces of the items, in any order.

    The work on an item returns the result of a piece, and the rest of the item or None. ahead:
    returns the number of items to work on at the same time. Raises the first error of the work.
    """
    remaining, waiting = iter(items), set[Future[tuple[Answer, Item | None]]]()
    while True:
        waiting.update(map(submit, itertools.islice(remaining, max(0, ahead() - len(waiting)))))
        if not waiting:
            return
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ended:
            answer, remainder = future.result()
            if remainder is not None:
                waiting.add(submit(remainder))
            yield answer
