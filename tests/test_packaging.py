"""What is shipped, and what a user of the package can import."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import esdedup

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "esdedup"
SHIPPED = ["document.json", "minhash.json", "signature.json", "simhash.json"]
PAGES = ["base.html", "explain.html", "report.html", "style.css"]

PURE = [
    "exceptions",
    "datatypes",
    "fields",
    "characters",
    "text",
    "hashing",
    "shingles",
    "tokens",
    "minhash",
    "banding",
    "segments",
    "simhash",
    "weights",
    "verify",
    "buckets",
    "partition",
    "keep",
    "jieba_words",
    "splitting",
    "spans",
    "excerpts",
    "histograms",
    "neighbours",
    "choices",
    "turns",
]
SERVICES = [
    "documents",
    "duplicates",
    "recent",
    "items",
    "ingest",
    "matches",
    "search",
    "nearest",
    "pairs",
    "enrich",
    "index",
    "records",
    "chunks",
    "obstacles",
    "attach",
    "templates",
    "check",
    "renewal",
    "backfill",
    "effort",
    "sidecar",
    "switch",
    "workers",
    "worker",
    "pool",
    "program",
    "parallel",
    "file_pairs",
    "groups",
    "columns",
    "workfolder",
    "joins",
    "exact",
    "clustering",
    "marking",
    "marks",
    "removal",
    "dedup_log",
    "dedup",
    "undo",
    "hot",
    "token_queries",
    "open_index",
    "samples",
    "explain",
    "examples",
    "report",
    "likeness",
    "stored",
    "conflicts",
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return target


def test_the_wheel_holds_the_mappings_once_and_nothing_of_ours_beside_the_package(
    built: Path,
) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(tuple(SHIPPED))] == [
        f"esdedup/mappings/{name}" for name in SHIPPED
    ]
    assert {"esdedup/py.typed", "esdedup/character_classes.json"} <= set(names)
    assert {f"esdedup/pages/{name}" for name in PAGES} <= set(names)
    tops = {name.split("/")[0] for name in names}
    assert tops == {"esdedup", f"esdedup-{version()}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_holds_the_mappings(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    for name in SHIPPED:
        assert f"esdedup-{version()}/mappings/{name}" in names
    for name in PAGES:
        assert f"esdedup-{version()}/esdedup/pages/{name}" in names


def test_the_wheel_works_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import esdedup, esdedup.pages; from esdedup.schema import field_mapping;"
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
        "digest", "distance", "fingerprint", "group", "minhash", "original", "scheme", "simhash",
        "similarity",
    ]  # fmt: skip


def version() -> str:
    from importlib.metadata import version

    return version("esdedup")


def test_exported_names() -> None:
    assert esdedup.__all__ == sorted(esdedup.__all__)
    assert all(hasattr(esdedup, name) for name in esdedup.__all__)


def modules() -> dict[str, Path]:
    folders = ("", "stores/", "cli/", "pages/", "proxy/")
    paths = [path for folder in folders for path in PACKAGE.glob(f"{folder}*.py")]
    return {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in paths}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_layers() -> None:
    for name, path in modules().items():
        ours = {module.removeprefix("esdedup.") for module in imported(path)}
        if name in PURE:
            assert {i for i in imported(path) if i.startswith("esdedup.")} <= {
                f"esdedup.{pure}" for pure in PURE
            }, name
        if not name.startswith("cli"):
            assert not any(module.startswith("cli") for module in ours), name
        if name.startswith("stores/"):
            assert not ours & set(SERVICES), name
        if name.startswith("pages/"):
            assert not any(module.startswith("esdedup") for module in imported(path)), name
        if name.startswith("proxy/"):
            allowed = {*PURE, "enrich", "sketch", "schema", "scheme"}
            others = {module for module in ours if not module.startswith("proxy.")}
            assert others & {m.replace("/", ".") for m in modules()} <= allowed, name


def test_a_client_library_is_imported_in_one_module() -> None:
    for library in (
        "jinja2",
        "elasticsearch",
        "elastic_transport",
        "opensearchpy",
        "sqlite3",
        "httpx",
        "uvicorn",
        "matplotlib",
    ):
        users = {
            name
            for name, path in modules().items()
            if any(module.split(".")[0] == library for module in imported(path))
        }
        expected = {
            "jinja2": {"pages/__init__"},
            "opensearchpy": {"stores/opensearch"},
            "sqlite3": {"stores/sqlite", "stores/local", "stores/tables", "stores/postings"},
            "httpx": {"proxy/upstream"},
            "uvicorn": {"cli/proxy"},
            "matplotlib": {"cli/figure"},
        }.get(library, {"stores/elasticsearch"})
        assert users == expected, library


def test_modules_are_short() -> None:
    for name, path in modules().items():
        assert len(path.read_text("utf-8").splitlines()) <= 300, name
