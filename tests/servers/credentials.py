"""Credentials that a server with security would accept from a client."""

import base64
import hmac
from dataclasses import dataclass


@dataclass(frozen=True)
class Credentials:
    """One of each kind. Any kind that is set is enough. If none is set, none is needed."""

    basic: tuple[str, str] | None = None
    api_key: tuple[str, str] | None = None
    bearer: str | None = None

    def accept(self, header: str | None) -> bool:
        wanted = [value.encode() for value in self._headers()]
        given = (header or "").encode("utf-8", "surrogateescape")
        return not wanted or any(hmac.compare_digest(given, value) for value in wanted)

    def _headers(self) -> list[str]:
        headers = []
        if self.basic is not None:
            headers.append(f"Basic {_base64(*self.basic)}")
        if self.api_key is not None:
            headers.append(f"ApiKey {_base64(*self.api_key)}")
        if self.bearer is not None:
            headers.append(f"Bearer {self.bearer}")
        return headers


def _base64(first: str, second: str) -> str:
    return base64.b64encode(f"{first}:{second}".encode()).decode("ascii")
