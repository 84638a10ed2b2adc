"""Stores for the tests that hold for all of them, and documents whose tokens are made by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD, CandidateQuery, Candidates, Document
from esdedup.records.documents import NewDocument, encoded
from esdedup.records.files import Record
from esdedup.stores import Cluster, ClusterStore, LocalStore, Store
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import Ran, call, run_command

META = IndexMeta(esdedup.Scheme())
SCHEME = META.scheme.id
OTHER = IndexMeta(esdedup.Scheme(seed=2))
STORES = ["local", "elasticsearch", "elasticsearch8", "opensearch"]


@dataclass(frozen=True)
class Place:
    """A store of one test: a file or an address, and an index that nobody else uses."""

    target: str | Path
    index: str

    @property
    def options(self) -> list[str]:
        """The options of a command that name the index."""
        where = "--db" if isinstance(self.target, Path) else "--url"
        return [where, str(self.target), "--index", self.index]

    def open(self, **options: Any) -> Store:
        """Open the store. options: of the Connection, for a cluster."""
        if isinstance(self.target, Path):
            return LocalStore(self.target, self.index)
        connection = esdedup.Connection((self.target,), **options)
        return ClusterStore(Cluster(connection), self.index)

    def run(self, *arguments: str, status: int | None = None, **options: Any) -> Ran:
        """Run a command on the index. options: of `run_command`."""
        return run_command(*arguments, *self.options, status=status, **options)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; `path` begins after the name of the index."""
        return call(str(self.target), method, f"/{self.index}{path}", body)


OpenStore = Callable[..., Store]
Whole = dict[str, tuple[Any, str | None, str | None]]

clusters = pytest.mark.parametrize("place", STORES[1:], indirect=True)
local = pytest.mark.parametrize("place", STORES[:1], indirect=True)


def document(id: str, tokens: Sequence[str] = (), kind: str = "minhash", **source: Any) -> Document:
    """A document with just these tokens, as one that this scheme sketched."""
    ours = {"scheme": SCHEME, "digest": "0" * 16, kind: list(tokens)}
    return Document(id, {"text": f"text of {id[:50]}", **source, FIELD: ours})


def with_tokens(documents: Sequence[Document], meta: IndexMeta) -> list[Document]:
    """Return documents with the tokens of their texts, which replace any that they had."""
    items = [
        NewDocument(Record("f", 0, one.source), one.id, True, text_of(one.source, meta.text_fields))
        for one in documents
    ]
    return encoded(items, meta).documents()


def query(*tokens: str, exclude: str | None = None, least: int = 1) -> CandidateQuery:
    return CandidateQuery("minhash", [[token] for token in tokens], exclude, least=least)


def write(store: Store, documents: Sequence[Document]) -> None:
    report = store.write(documents)
    assert report.failures == []
    assert report.created + report.updated == len(documents)
    store.refresh()


def write_records(
    store: Store, records: Sequence[Mapping[str, Any]], meta: IndexMeta = META
) -> None:
    """Write records with the tokens of their texts, by their ids, into a store that is created."""
    store.create(meta)
    bare = [Document(str(record["id"]), dict(record)) for record in records]
    write(store, with_tokens(bare, meta))


def write_texts(store: Store, texts: Sequence[str], meta: IndexMeta = META) -> None:
    """Write texts with their tokens, as d0, d1 and so on."""
    documents = [Document(f"d{at}", {"text": text}) for at, text in enumerate(texts)]
    write(store, with_tokens(documents, meta))


def ask(store: Store, wanted: CandidateQuery, limit: int = 100) -> Candidates:
    (found,) = store.candidates([wanted], limit)
    return found


def ranked(found: Candidates) -> list[tuple[str, int]]:
    return [*zip((each.id for each in found.documents), found.matched, strict=True)]


def ids_of(found: Candidates) -> list[str]:
    return sorted(each.id for each in found.documents)


def scanned(
    store: Store, *paths: str, meta: IndexMeta = META, marked: bool = False
) -> list[Document]:
    return [found for batch in store.scan(list(paths), meta, marked=marked) for found in batch]


def whole(store: Store) -> Whole:
    """Every document with its tokens, and where it lies."""
    store.refresh()
    ids = [one.id for batch in store.scan([], META) for one in batch]
    return {
        one.document.id: (one.document.source, one.index, one.routing) for one in store.hold(ids)
    }


def plain(found: Document) -> dict[str, Any]:
    """The fields of a document that the caller gave."""
    return {name: value for name, value in found.source.items() if name != FIELD}
