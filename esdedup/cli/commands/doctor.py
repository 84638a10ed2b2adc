"""esdedup doctor: describe an installation and an index for a report of a bug."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from typer import Exit, echo

from esdedup import admin
from esdedup.cli import output
from esdedup.cli.command import setting
from esdedup.cli.options import Target
from esdedup.cli.output import message


def doctor_command(
    target: Target, as_json: bool = setting(False, "Print JSON instead of lines.", "--json")
) -> None:
    """Show what is installed, for a report of a bug.

    Example: esdedup doctor -i news > doctor.txt

    Shows the versions of esdedup, Python, the packages and the server, and the scheme, obstacles,
    size and rights of the index. It holds no address, user name, password, key or text of a
    document. The exit status is 1 if a package is missing, or if an index that you name can't be
    read.
    """
    installation = admin.describe_installation()
    where = target.where
    diagnosis = None
    if not isinstance(where, Path) or target.db is not None or where.exists():
        diagnosis = admin.diagnose(where, target.index)
    if as_json:
        index = None if diagnosis is None else {"index": target.index, **asdict(diagnosis)}
        output.print_json({**asdict(installation), "index": index})
    else:
        for name, value in _installed(installation):
            echo(f"{name}: {value}")
        if diagnosis is None:
            echo("index: none is named: use --db, or --url and --index")
        else:
            for name, value in _of_index(target.index, diagnosis):
                echo(f"{name}: {value}")
    missing = [package.name for package in installation.packages if package.is_missing]
    if missing:
        message(f"Missing packages: {', '.join(missing)}. To install them: pip install esdedup")
    if missing or (diagnosis is not None and diagnosis.problem is not None):
        raise Exit(1)


def _installed(installation: admin.Installation) -> Iterator[tuple[str, str]]:
    """Yield the names and values of what is installed."""
    yield "esdedup", installation.version
    versions = ", ".join(map(str, installation.scheme_versions))
    yield "scheme version", f"{installation.scheme_version} (computes {versions})"
    yield "Python", installation.python
    yield "system", f"{installation.system}, {output.count(installation.processors, 'processor')}"
    for package in installation.packages:
        extras = f" [{', '.join(package.extras)}]" if package.extras else ""
        yield package.name + extras, package.version or "not installed"


def _of_index(name: str, diagnosis: admin.Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the names and values of what an index is."""
    yield "index", name
    shown = {
        "store": diagnosis.store,
        "connection": diagnosis.connection,
        "scheme": diagnosis.scheme,
        "sketches": _joined(diagnosis.sketches),
        "obstacles": _joined(diagnosis.obstacles),
        "documents": diagnosis.documents,
        "with tokens": diagnosis.sketched,
        "bytes": diagnosis.bytes,
        "problem": diagnosis.problem,
    }
    for fact, value in shown.items():
        if value is not None:
            yield fact, f"{value:,}" if isinstance(value, int) else value
    if diagnosis.rights is not None:
        yield "rights for", ", ".join(diagnosis.rights.allowed) or "nothing"
        yield "no rights for", ", ".join(diagnosis.rights.lacking) or "nothing"
    elif diagnosis.scheme is not None and diagnosis.connection is not None:
        yield "rights", "unknown: only Elasticsearch with security reports them"


def _joined(names: tuple[str, ...] | None) -> str | None:
    """Return names as one text, and None as it is."""
    return None if names is None else ", ".join(names) or "none"
