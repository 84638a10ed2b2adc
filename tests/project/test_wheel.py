"""The wheel in an empty environment: other versions of Python, the oldest and newest packages."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST_PYTHON = "3.11"
"""The only one for which the oldest packages have wheels."""

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("packaging")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def python_of(version: str) -> Path:
    """Return a Python of a version; skip the test if this machine has none."""
    named = shutil.which(f"python{version}")
    others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in [*([Path(named)] if named else []), *reversed(others)]:
        ran = subprocess.run([python, "-c", "import ensurepip"], check=False, capture_output=True)
        if ran.returncode == 0:
            return python
    pytest.skip(f"there is no Python {version} on this machine")


def oldest_packages() -> list[str]:
    """Return the oldest versions that pyproject.toml accepts, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = [re.fullmatch(r"([\w-]+)>=([\d.]+).*", name) for name in project["dependencies"]]
    assert all(oldest), project["dependencies"]
    return [f"{match[1]}=={match[2]}" for match in oldest if match is not None]


def without_python_settings() -> dict[str, str]:
    """Return the environment variables without those that change what Python imports."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def environment_of(python: Path, folder: Path, *requirements: str) -> Path:
    """Return the folder of programs of an empty environment with the requirements."""
    clean = without_python_settings()
    subprocess.run([python, "-m", "venv", folder], check=True, env=clean)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", *requirements]
    done = subprocess.run(pip, check=False, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def check_main_job(programs: Path, folder: Path) -> None:
    """Assert that the main job runs on the samples, with the tokens of every environment."""
    clean = without_python_settings()
    outputs = []
    for command in (
        "examples",
        "index examples/articles.jsonl",
        "pairs",
        "similar --id en-08",
        "clean examples/articles.jsonl -o clean --json",
        "doctor",
    ):
        done = subprocess.run(
            [programs / "esdedup", *command.split()],
            cwd=folder,
            env=clean,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert "Warning" not in done.stderr, (command, done.stderr)
        outputs.append(done.stdout)
    assert len(outputs[2].splitlines()) == 19


@pytest.mark.parametrize("version", VERSIONS)
def test_the_newest_packages_work(version: str, wheel: Path, tmp_path: Path) -> None:
    programs = environment_of(python_of(version), tmp_path / "venv", str(wheel))
    check_main_job(programs, tmp_path)


def test_the_oldest_packages_work(wheel: Path, tmp_path: Path) -> None:
    python = python_of(OLDEST_PYTHON)
    programs = environment_of(python, tmp_path / "venv", str(wheel), *oldest_packages())
    check_main_job(programs, tmp_path)
