"""The settings of a proxy, which are the options of `esdedup proxy`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from esdedup.arguments import converted_by, of_file, setting, size


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of a proxy: sizes are bytes, times seconds.

    max_memory, max_connections: of all processes together.
    """

    upstream: str = setting(..., "Elasticsearch or OpenSearch, http(s)://host:port.", metavar="URL")
    host: str = setting("127.0.0.1", "Address to listen on.", metavar="ADDRESS")
    port: int = setting(9280, "Port to listen on.", bounds=(1, 65535))
    ca_certs: str | None = setting(None, "File of authorities to trust.")
    timeout: float = setting(3600.0, "Seconds that the upstream may be silent.", bounds=(0.1, None))
    certificate: Path | None = of_file(setting(None, "Certificate chain for clients, PEM."))
    key: Path | None = of_file(setting(None, "Its key, if not in the same file."))
    client_ca: Path | None = of_file(
        setting(None, "Require client certificates of these.", rare=True)
    )
    max_memory: int = converted_by(
        size,
        setting(256 << 20, "Memory of all processes.", metavar="SIZE", show_default="256MB"),
    )
    max_connections: int = setting(1000, "Maximum number of clients.", bounds=(1, None))
    head_timeout: float = setting(
        10.0, "Seconds to send a request's head.", bounds=(0.1, None), rare=True
    )
    body_timeout: float = setting(
        60.0, "Seconds of silence in a body.", bounds=(0.1, None), rare=True
    )
    pass_unread: bool = setting(
        False, "Pass bodies that can't be read, such as YAML, unchanged.", rare=True
    )
    processes: int = setting(1, "Processes on this machine.", bounds=(1, None))
    grace_seconds: int = setting(
        30, "Seconds to finish requests at the end.", bounds=(0, None), rare=True
    )
    log_format: Literal["text", "json"] = setting("text", "Format of the log.")
