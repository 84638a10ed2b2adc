"""Indices with documents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import esdedup
from tests.helpers.commands import esdedup_command
from tests.helpers.places import Place

Documents = Iterable[Mapping[str, Any] | str] | Mapping[str, str]
"""Records or texts, or texts by id."""


def open_index(
    where: Place | Path | str, documents: Documents = (), **settings: Any
) -> esdedup.Index:
    """Return an open index, created, with documents.

    where: a place, or the file of an index with the default name, such as ":memory:".
    settings: of `esdedup.open`, such as the scheme.
    """
    if isinstance(where, Place):
        index = esdedup.open(where.target, where.index, **settings)
    else:
        index = esdedup.open(where, **settings)
    try:
        index.create()
        if isinstance(documents, Mapping):
            index.add({"id": id, "text": text} for id, text in documents.items())
        else:
            index.add(documents)
    except BaseException:
        index.close()
        raise
    return index


def fill_index(where: Place | Path | str, documents: Documents, **settings: Any) -> None:
    """Add documents to an index, which is created if need be, as `open_index` does."""
    open_index(where, documents, **settings).close()


def attach_index(url: str, name: str, *options: str) -> int:
    """Attach an index that another client fills, backfill it, and return how many were written.

    options: of `attach`.
    """
    esdedup_command(url, "attach", "--index", name, *options, status=0)
    (report,) = esdedup_command(url, "backfill", "--index", name, status=0).json
    return int(report["written"])
