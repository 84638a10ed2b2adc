"""What pyproject.toml lists is what the folder holds."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
BESIDE = ["esdedup.examples", "esdedup.mappings"]
"""The folders `examples/` and `mappings/`."""
WITHOUT_MODULES = ["esdedup.review.static", "esdedup.review.templates"]
"""What the pages of a review are made of."""


def test_every_package_of_the_source_is_in_the_wheel() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    modules = PROJECT.glob("esdedup/**/*.py")
    folders = {path.parent.relative_to(PROJECT).as_posix() for path in modules}
    listed = settings["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(
        [name.replace("/", ".") for name in folders] + BESIDE + WITHOUT_MODULES
    )
