"""The page of benchmarks shows the figures of the results that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_what_the_results_say() -> None:
    command = [sys.executable, "-m", "benchmarks.page", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
