"""Types of the JSON in requests to the servers, and in their answers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Body = Mapping[str, Any]
"""An object in a request or in an answer."""
Query = Mapping[str, Any]
"""A query, as a search has it."""
Hit = Mapping[str, Any]
"""A hit of a search, or an item of a multi-get."""
SourceFilter = bool | Sequence[str] | Mapping[str, Any]
"""A value of `_source` in a search: paths, True for whole documents, or an object."""


class ServerAnswer(NamedTuple):
    """An answer of the servers.

    status: of HTTP.
    body: its JSON.
    """

    status: int
    body: Body
