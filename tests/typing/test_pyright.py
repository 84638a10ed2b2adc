"""pyright accepts and rejects the same calls as mypy, which `.ci/run` starts.

basedpyright is pyright with Node in its wheel, so that an installation needs no other registry.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# It takes 16 seconds of processor time, and mypy reads the same calls in each run.
@pytest.mark.nightly
def test_pyright_agrees() -> None:
    names = ("basedpyright", "pyright")
    installed = [name for name in names if importlib.util.find_spec(name) is not None]
    if not installed:
        pytest.skip("no pyright: python -m pip install --group types")
    command = [sys.executable, "-m", installed[0], "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
