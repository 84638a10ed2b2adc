"""The settings of a proxy, which are the options of `esdedup proxy`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from esdedup.arguments import setting, size


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a proxy: sizes are bytes, times seconds.

    max_memory, max_connections: of all processes together.
    """

    upstream: str = setting(..., "Elasticsearch or OpenSearch, http(s)://host:port.")
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(9280, "Port to listen on.", min=1, max=65535)
    ca_certs: str | None = setting(None, "File of authorities to trust.")
    timeout: float = setting(3600.0, "Seconds that the upstream may be silent.", min=0.1)
    certificate: Path | None = setting(None, "Certificate chain for clients, PEM.", dir_okay=False)
    key: Path | None = setting(None, "Its key, if not in the same file.", dir_okay=False)
    client_ca: Path | None = setting(
        None, "Require client certificates of these.", dir_okay=False, rare=True
    )
    max_memory: int = setting(
        256 << 20, "Memory of all processes.", parser=size, metavar="SIZE", show_default="256MB"
    )
    max_connections: int = setting(1000, "Maximum number of clients.", min=1)
    head_timeout: float = setting(10.0, "Seconds to send a request's head.", min=0.1, rare=True)
    body_timeout: float = setting(60.0, "Seconds of silence in a body.", min=0.1, rare=True)
    pass_unread: bool = setting(
        False, "Pass bodies that can't be read, such as YAML, unchanged.", rare=True
    )
    processes: int = setting(1, "Processes on this machine.", min=1)
    grace_seconds: int = setting(30, "Seconds to finish requests at the end.", min=0, rare=True)
    log_format: Literal["text", "json"] = setting("text", "Format of the log.")
