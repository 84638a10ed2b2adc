"""esdedup proxy: tokens for the documents of any client."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from esdedup.arguments import setting
from esdedup.exceptions import MissingExtra, UsageError
from esdedup.stores.to_json import json_fault

_SIZE = re.compile(r"(\d+) ?([KMG]?)B?", re.IGNORECASE)
_SIZES = ("max_memory", "max_text")
_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def _size(text: str | int) -> int:
    """Return the bytes of a size such as 256MB; a KB is 1024 bytes."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{text!r} is not a size such as 256MB or 1GB")
    return int(found[1]) << _UNITS[found[2].upper()]


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Use a file's values as the defaults of the other options. Raises UsageError."""
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


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The options; the names are those of `Settings`."""

    upstream: str = setting(
        ..., "Elasticsearch or OpenSearch, http(s)://host:port.", envvar="ESDEDUP_UPSTREAM"
    )
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(9280, "Port to listen on.", min=1, max=65535)
    ca_certs: str | None = setting(None, "File of authorities to trust.", envvar="ESDEDUP_CA_CERTS")
    timeout: float = setting(3600.0, "Seconds that the upstream may be silent.", min=0.1)
    certificate: Path | None = setting(None, "Certificate chain for clients, PEM.", dir_okay=False)
    key: Path | None = setting(None, "Its key, if not in the same file.", dir_okay=False)
    client_ca: Path | None = setting(
        None, "Require client certificates of these.", dir_okay=False, rare=True
    )
    max_memory: int = setting(
        256 << 20,
        "Memory of all processes; bodies wait for it.",
        parser=_size,
        metavar="SIZE",
        show_default="256MB",
    )
    max_text: int | None = setting(
        None,
        "Longest text that gets tokens.",
        parser=_size,
        metavar="SIZE",
        rare=True,
        show_default="1/256 of the memory",
    )
    max_connections: int = setting(1000, "Maximum number of clients.", min=1)
    head_timeout: float = setting(10.0, "Seconds to send a request's head.", min=0.1, rare=True)
    body_timeout: float = setting(60.0, "Seconds of silence in a body.", min=0.1, rare=True)
    processes: int = setting(1, "Processes on this machine.", min=1)
    grace_seconds: int = setting(30, "Seconds to finish requests at the end.", min=0, rare=True)
    log_format: Literal["text", "json"] = setting("text", "Format of the log.")


def proxy_command(
    options: _Options,
    settings: Path | None = setting(
        None, "TOML file of options, such as max_memory.", callback=_read_settings, is_eager=True
    ),
) -> None:
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
