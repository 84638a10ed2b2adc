"""esdedup proxy: tokens for the documents of any client."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from esdedup.cli.options import CaCerts, with_target
from esdedup.exceptions import MissingExtra, UsageError
from esdedup.stores.to_json import json_fault

_SIZE = re.compile(r"(\d+) ?([KMG]?)B?", re.IGNORECASE)
_SIZES = ("max_memory", "max_text")
_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
_TLS, _LIMITS, _PROCESS = "TLS to clients", "Limits", "Process"


def _size(text: str | int) -> int:
    """The bytes of a size such as 256MB; a KB is 1024 bytes."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{text!r} is not a size such as 256MB or 1GB")
    return int(found[1]) << _UNITS[found[2].upper()]


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Take a file's values as the defaults of the other options. Raises UsageError."""
    if path is None:
        return None
    place = f"settings file {path}"
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: {json_fault(error)}") from error
    options: dict[str | None, Any] = {each.name: each for each in context.command.params}
    for key, value in given.items():
        if key in ("help", "settings") or (option := options.get(key)) is None:
            raise UsageError(f"{place}: {key} is not a setting; settings are named as options")
        kinds, name = _TYPES.get(type(option.default), ((str,), "a string"))
        if key in _SIZES:
            kinds, name = (int, str), "a size"
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise UsageError(f"{place}: {key} must be {name}, and is {value!r}")
        try:
            option.process_value(context, value)
        except typer.BadParameter as error:
            raise UsageError(f"{place}: {key}: {error.message}") from error
    context.default_map = given
    return path


def _limit(help: str, **more: Any) -> Any:
    return typer.Option(rich_help_panel=_LIMITS, help=help, **more)


def _size_option(help: str, default: str) -> Any:
    return _limit(help, parser=_size, metavar="SIZE", show_default=default)


def _file(help: str) -> Any:
    return typer.Option(rich_help_panel=_TLS, help=help, dir_okay=False, show_default=False)


UpstreamUrl = Annotated[
    str,
    typer.Option(
        "--upstream",
        envvar="ESDEDUP_UPSTREAM",
        show_default=False,
        help="Elasticsearch or OpenSearch, http(s)://host:port.",
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        callback=_read_settings,
        is_eager=True,
        show_default=False,
        help="TOML file of options, such as max_memory.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The options; the names are those of `Settings`."""

    upstream: UpstreamUrl
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 9280
    ca_certs: CaCerts = None
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that the upstream may stay silent.")
    ] = 3600.0
    certificate: Annotated[Path | None, _file("Certificate chain for clients, PEM.")] = None
    key: Annotated[Path | None, _file("Its key, if not in the same file.")] = None
    client_ca: Annotated[Path | None, _file("Require client certificates of these.")] = None
    max_memory: Annotated[
        int, _size_option("Memory of all processes; bodies wait for it.", "256MB")
    ] = 256 << 20
    max_text: Annotated[
        int | None, _size_option("Longest text that gets tokens.", "1/256 of the memory")
    ] = None
    max_connections: Annotated[int, _limit("Most clients at a time.", min=1)] = 1000
    head_timeout: Annotated[float, _limit("Seconds to send a request's head.", min=0.1)] = 10.0
    body_timeout: Annotated[float, _limit("Seconds of silence in a body.", min=0.1)] = 60.0
    processes: Annotated[
        int, typer.Option(min=1, rich_help_panel=_PROCESS, help="Processes on this machine.")
    ] = 1
    grace_seconds: Annotated[
        int,
        typer.Option(min=0, rich_help_panel=_PROCESS, help="Time to finish requests."),
    ] = 30
    log_format: Annotated[
        Literal["text", "json"], typer.Option(rich_help_panel=_PROCESS, help="Form of the log.")
    ] = "text"


@with_target
def proxy(options: _Options, settings: SettingsFile = None) -> None:
    """Pass requests on, and add tokens to their documents.

    Example: esdedup proxy --upstream http://localhost:9200

    Documents of an index that has esdedup's fields get their tokens, whatever client sends them.
    Everything else passes unchanged. The clients' own credentials are used. SIGHUP reads the
    certificate again.
    """
    try:
        from esdedup.proxy.server import Settings, serve
    except ImportError as error:
        raise MissingExtra("the proxy needs more: pip install 'esdedup[proxy]'") from error
    serve(Settings(**vars(options)))
