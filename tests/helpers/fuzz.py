"""Tests that take input of any kind: half a minute of a usual run, an hour of a nightly one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


def fuzz(test: Callable[..., Any], most: int = 12_000) -> Any:
    """Mark a property test, and let it try many more examples than others do; `most` nightly."""
    nightly = settings().max_examples > 100
    many = settings(
        max_examples=most if nightly else 60,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    return pytest.mark.fuzz(pytest.mark.timeout(0 if nightly else 600)(many(test)))
