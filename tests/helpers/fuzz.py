"""Tests that take input of any kind: a minute of a usual run, an hour of a nightly one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_EXAMPLES = {False: 180, True: 12_000}


def fuzz(test: Callable[..., Any]) -> Any:
    """Mark a property test, and let it try many more examples than others do."""
    nightly = settings().max_examples > 100
    many = settings(
        max_examples=_EXAMPLES[nightly],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    return pytest.mark.fuzz(pytest.mark.timeout(0 if nightly else 600)(many(test)))
