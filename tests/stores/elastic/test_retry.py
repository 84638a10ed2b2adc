"""When requests are sent again. That servers' rejections are, is in test_commands.py."""

from __future__ import annotations

import itertools
import time

import pytest

from esdedup import BulkPolicy, StoreUnavailable
from esdedup.stores.elastic.retry import retrying


@pytest.mark.parametrize(("failures", "retries"), [(0, 0), (2, 2), (2, 5)])
def test_a_call_is_made_until_it_succeeds(failures: int, retries: int) -> None:
    calls: list[float] = []

    def call() -> str:
        calls.append(time.monotonic())
        if len(calls) <= failures:
            raise StoreUnavailable("not ready")
        return "answer"

    assert retrying(call, BulkPolicy(retries=retries, base=0.02)) == "answer"
    waits = [b - a for a, b in itertools.pairwise(calls)]
    assert len(waits) == failures
    # Half of 0.02 s, then of 0.04 s, at the least.
    assert all(waited >= 0.01 * 2**n for n, waited in enumerate(waits))


def test_retries_run_out() -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable, match="gone"):
        retrying(call, BulkPolicy(retries=3, base=0.001))
    assert calls == 4


def test_waits_double_up_to_the_cap() -> None:
    policy = BulkPolicy(base=1, cap=5)
    for retry, longest in enumerate((1, 2, 4, 5, 5)):
        for _ in range(50):
            assert longest / 2 <= policy.delay(retry) <= longest
