"""The wheel and the source archive hold all files of the package, and no others."""

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "esdedup"
SHIPPED = ["document.json"]
SAMPLES = ["articles.jsonl", "more.jsonl", "truth.tsv"]
PAGES = [
    str(path.relative_to(PACKAGE))
    for path in PACKAGE.rglob("*")
    if path.suffix in (".html", ".css", ".js")
]

# One process builds the wheel.
pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return target


def test_archives_hold_all_files_and_the_wheel_nothing_beside_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(tuple(SHIPPED))] == [
        f"esdedup/mappings/{name}" for name in SHIPPED
    ]
    assert {"esdedup/py.typed", "esdedup/text/character_classes.json"} <= set(names)
    assert {f"esdedup/examples/{name}" for name in SAMPLES} <= set(names)
    assert {f"esdedup/{name}" for name in PAGES} <= set(names)
    tops = {name.split("/")[0] for name in names}
    assert tops == {"esdedup", f"esdedup-{version('esdedup')}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = opened.getnames()
    wanted = [*(f"mappings/{name}" for name in SHIPPED), *(f"esdedup/{name}" for name in PAGES)]
    assert {f"esdedup-{version('esdedup')}/{name}" for name in wanted} <= set(held)


def test_the_wheel_works_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import esdedup, esdedup.analysis.html; from esdedup.stores.mapping import field_mapping;"
        "print(esdedup.__file__); print(sorted(field_mapping(esdedup.Scheme())['properties']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=True,
    )
    where, fields = done.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert fields.split("'")[1::2] == [
        "digest", "distance", "group", "minhash", "original", "scheme", "simhash",
        "similarity", "wordless",
    ]  # fmt: skip
