"""Parse addresses and credentials of a cluster; credentials never appear in messages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from esdedup.arguments import check_fields, check_list
from esdedup.exceptions import UsageError
from esdedup.stores.waits import WAITS, Waits

_SECONDS = {"h": 3600, "m": 60, "s": 1}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([hms]?)")
_ADDRESS = re.compile(r"[^/\\]*:[^/\\]*@|[^/\\]+:\d+/?$|[a-z]{2,}:/", re.IGNORECASE)
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]")
_LONGEST_LABEL = 63


class ConnectionSettings(TypedDict, total=False):
    """The fields of `Connection` but for the addresses, as keywords of a call."""

    username: str | None
    password: str | None
    api_key: str | None
    bearer_token: str | None
    ca_certs: str | Path | None
    fingerprint: str | None
    cloud_id: str | None
    timeout: float
    retry_for: float
    requests: int
    compress: bool
    waits: Waits


@dataclass(frozen=True)
class Connection:
    """Addresses and credentials of a cluster: at most one of a user name, API key, bearer token.

    urls: one node or several of a cluster, http or https; empty with a cloud id.
    username, password: one of three ways to authenticate.
    api_key: another one: encoded, or "id:key".
    bearer_token: another one.
    ca_certs: a file of certificate authorities to trust.
    fingerprint: the SHA-256 of the server's certificate, in hexadecimal, with or without colons;
        it replaces verification.
    cloud_id: of a deployment in Elastic Cloud, in place of `urls`.
    timeout: of one request, in seconds.
    retry_for: seconds in which a failed request is retried; 0 for never.
    requests: maximum number in flight; fewer while the servers refuse some for load.
    compress: gzip requests and answers.
    waits: for other clients, by default those of the context (`waits.WAITS`).

    Raises UsageError for values that contradict each other or have another form.
    """

    urls: str | Sequence[str] = ()
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_certs: str | Path | None = None
    fingerprint: str | None = None
    cloud_id: str | None = None
    timeout: float = 60.0
    retry_for: float = 300.0
    requests: int = 8
    compress: bool = False
    waits: Waits = field(default_factory=WAITS.get, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        # One form, so that equal connections are equal, and hashable.
        object.__setattr__(self, "urls", self.addresses)
        if bool(self.urls) == bool(self.cloud_id):
            raise UsageError("give either a URL or a cloud id")
        for url in self.addresses:
            if "@" in split_address(url, url).netloc:
                raise UsageError(f"URL {masked(url)!r}: give the user name and password apart")
        if not self.retry_for >= 0:
            raise UsageError(f"retry_for {self.retry_for}: use 0 seconds or more")
        if self.requests < 1:
            raise UsageError(f"requests {self.requests}: use 1 or more")
        if (self.username is None) != (self.password is None):
            raise UsageError("give both a user name and a password")
        credentials = [self.username, self.api_key, self.bearer_token]
        if sum(value is not None for value in credentials) > 1:
            raise UsageError("give one of user name and password, API key, or bearer token")
        secure = self.cloud_id or all(url.startswith("https:") for url in self.addresses)
        if (self.ca_certs or self.fingerprint) and not secure:
            raise UsageError("a CA file or a certificate fingerprint needs an https URL")
        if self.ca_certs is not None and not Path(self.ca_certs).is_file():
            raise UsageError(f"CA file {self.ca_certs}: there is no such file")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes of `urls`."""
        if isinstance(self.urls, str):
            return (self.urls,) if self.urls else ()
        check_list("urls", self.urls)
        return tuple(self.urls)

    @property
    def shown(self) -> str:
        """The addresses, for messages."""
        return ", ".join(self.addresses) if self.urls else "the cloud deployment"


def connection_to(url: str | None, **settings: Unpack[ConnectionSettings]) -> Connection:
    """Return a connection; the URL may hold user name and password too.

    url: one address, or several of the same cluster with commas between them.
    settings: the other fields of Connection.
    """
    text = url or ""
    addresses, user = [], None
    for address in filter(None, map(str.strip, text.split(","))):
        split = split_address(address, text)
        credentials, at_sign, host = split.netloc.rpartition("@")
        addresses.append(urlunsplit(split._replace(netloc=host)).rstrip("/"))
        if at_sign and user is None:
            name, _, password = credentials.partition(":")
            user = unquote(name), unquote(password)
    if user and not any(settings.get(name) for name in ("username", "api_key", "bearer_token")):
        settings["username"], settings["password"] = user
    return Connection(tuple(addresses), **settings)


def split_address(address: str, text: str) -> SplitResult:
    """Split an address, or raise UsageError. text: what the user wrote, for messages."""
    try:
        split = urlsplit(address)
        host, port = split.hostname or "", split.port
    except ValueError:
        host, port = "", None
    labels = host.removesuffix(".").split(".") if ":" not in host else [host]
    fits = all(0 < len(label) <= _LONGEST_LABEL for label in labels)
    # `urlsplit` drops some control characters.
    fits = fits and not (split.query or split.fragment or "@" in split.path)
    if not fits or port == 0 or split.scheme not in ("http", "https") or _BLANK.search(address):
        raise UsageError(f"URL {masked(text)!r}: use http://host:port or https://host:port")
    return split


def check_file_name(name: str) -> None:
    """Raise UsageError if the name of a local file is an address, perhaps with a password."""
    if _ADDRESS.match(name):
        raise UsageError(
            f"{masked(name)!r} is an address, not a file: write https:// or http:// before it"
        )


def masked(address: str) -> str:
    """Mask what may be a secret in an address: up to the last @, and after a ?."""
    before, at_sign, host = address.rpartition("@")
    host = re.sub(r"\?.*", "?***", host)
    if not at_sign:
        return host
    scheme = re.match("https?://", before)
    return f"{scheme[0] if scheme else ''}***@{host}"


def seconds(text: str) -> float:
    """Return the seconds in a text such as 30s, 5m, 1h or 0. Raises ValueError if it is wrong."""
    span = _SPAN.fullmatch(text.strip())
    if span is None:
        raise ValueError(f"{text!r} is not a time such as 30s, 5m, 1h or 0")
    return float(span[1]) * _SECONDS.get(span[2], 1)
