"""Addresses and credentials of a cluster; credentials are never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from esdedup.exceptions import UsageError


@dataclass(frozen=True)
class Connection:
    """Addresses and credentials of a cluster.

    urls: one or more nodes, http or https; empty with a cloud id. Give at most one of user name and
    password, API key (encoded, or "id:key"), and bearer token.
    ca_certs: a file of certificate authorities to trust. fingerprint: the SHA-256 of the server's
    certificate, in hexadecimal, with or without colons; it replaces verification. timeout: seconds
    that one request may take.
    Raises UsageError for values that contradict each other or have another form.
    """

    urls: tuple[str, ...] = ()
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_certs: str | None = None
    fingerprint: str | None = None
    cloud_id: str | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if bool(self.urls) == bool(self.cloud_id):
            raise UsageError("give either a URL or a cloud id")
        for url in self.urls:
            parts = urlsplit(url)
            try:
                port_fits = parts.port is None or parts.port > 0
            except ValueError:
                port_fits = False
            if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
                raise UsageError(f"URL {url!r}: use http://host:port or https://host:port")
        if (self.username is None) != (self.password is None):
            raise UsageError("give both a user name and a password")
        given = [self.username, self.api_key, self.bearer_token]
        if sum(value is not None for value in given) > 1:
            raise UsageError("give one of user name and password, API key, or bearer token")
        secure = self.cloud_id or all(url.startswith("https:") for url in self.urls)
        if (self.ca_certs or self.fingerprint) and not secure:
            raise UsageError("a CA file or a certificate fingerprint needs an https URL")
        if self.ca_certs is not None and not Path(self.ca_certs).is_file():
            raise UsageError(f"CA file {self.ca_certs}: there is no such file")

    @property
    def shown(self) -> str:
        """The addresses, for messages."""
        return ", ".join(self.urls) if self.urls else "the cloud deployment"


def connection_to(url: str | None, **options: Any) -> Connection:
    """Returns a connection; the URL may hold user name and password too.

    url: one address, or several of the same cluster with commas between them. options: the other
    fields of Connection.
    """
    addresses, found = [], None
    for address in filter(None, map(str.strip, (url or "").split(","))):
        parts = urlsplit(address)
        user, at, host = parts.netloc.rpartition("@")
        addresses.append(urlunsplit(parts._replace(netloc=host)).rstrip("/"))
        if at and found is None:
            name, _, password = user.partition(":")
            found = unquote(name), unquote(password)
    if found and not any(options.get(name) for name in ("username", "api_key", "bearer_token")):
        options["username"], options["password"] = found
    return Connection(tuple(addresses), **options)
