"""Packages that few tests need, and that only dependency groups of pyproject.toml install."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from tests.servers.node import REQUIRE_VARIABLE

GROUPS = {
    "axe_playwright_python": "browsers",
    "daft": "engines",
    "datasets": "frames",
    "duckdb": "frames",
    "imagehash": "frames",
    "kubernetes_validate": "manifests",
    "moto": "addresses",
    "playwright": "browsers",
    "polars": "frames",
    "pyspark": "spark",
    "ray": "engines",
}
"""The group of each package. `.ci/run` installs all of them."""

OF_MODULES = {
    "containers/test_kubernetes.py": "kubernetes_validate",
    "containers/test_kubernetes_job.py": "kubernetes_validate",
    "corpus/test_addresses.py": "moto",
    "review/test_browser.py": "playwright",
    "spark/test_clean.py": "pyspark",
    "spark/test_cluster.py": "pyspark",
    "spark/test_frames.py": "pyspark",
    "spark/test_s3a.py": "pyspark",
    "spark/test_sessions.py": "pyspark",
    "spark/test_within.py": "pyspark",
}
"""The package without which a module of tests can't be imported."""


def imported(package: str) -> Any:
    """Return a package. Skip the test without it, and fail it in CI."""
    try:
        return importlib.import_module(package)
    except ImportError:
        if is_required():
            raise
        pytest.skip(reason(package))


def reason(package: str) -> str:
    return f"no {package}: python -m pip install --group {GROUPS[package]}"


def is_required() -> bool:
    """Return whether a test that can't run fails, as in CI."""
    return os.environ.get(REQUIRE_VARIABLE, "") not in ("", "0")


def missing_package(module: Path) -> str | None:
    """Return the package that a module of tests needs and lacks, unless it must fail without."""
    package = OF_MODULES.get("/".join(module.parts[-2:]))
    if package is None or is_required() or importlib.util.find_spec(package) is not None:
        return None
    return package
