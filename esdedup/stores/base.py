"""The protocol of stores: their methods, and what these promise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from esdedup.models import (
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Share,
    Statistics,
    StoredDocument,
    Unattached,
    WriteReport,
)
from esdedup.stores.concurrency import Window
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.mapping import IndexMeta

QUERIES_AT_ONCE = 50
"""Number of queries in one request, whose candidates are in memory at the same time."""

ALL_PATHS = ["*"]
"""The paths of all fields, tokens included, that the index keeps of a document."""


class Store(Protocol):
    """One index of documents with their tokens.

    Every method raises StoreUnavailable if the store can't be reached, AuthenticationFailed or
    PermissionDenied if the server refuses, and StoreError if it fails otherwise.
    """

    @property
    def where(self) -> str:
        """The store and index, for messages; never with a password."""

    index: str
    """The name of the index."""

    window: Window
    """Keeps calls of this store in flight: one by one in a file."""

    has_routings: bool
    """Whether a document can be written with a routing, which decides on its shard."""

    @property
    def address(self) -> str:
        """The whole path of the file, or the addresses of the cluster without credentials."""

    def meta(self) -> IndexMeta | None:
        """Return the index's own description of its tokens, or None if there is none."""

    def create(self, meta: IndexMeta, *, mapped: bool = True) -> int:
        """Create the index, or add our fields to an existing one; change nothing else.

        Return the number of fields that the mapping of an existing index got. mapped: False if a
        new index must map no fields but ours. Raises SchemeMismatch if the index has another scheme
        or text field.
        """

    def renew(self, stored: IndexMeta, meta: IndexMeta) -> None:
        """Replace the description of an index, and that of a component template for the next ones.

        Only the stop list of an index with documents can change. Raises SchemeMismatch for more,
        StoreError if the index is not `stored` any more, UsageError while its scheme is changed.
        """

    def why_not_new(self) -> str | None:
        """Return why the index can't be loaded as a new one; None if it can.

        The reason is that it has documents, with tokens or without, or that its name is an alias or
        a data stream.
        """

    def loading(self, fast: bool) -> AbstractContextManager[None]:
        """Return a context in which many documents are written.

        fast: without refreshes and replicas, which come back at its end, or at that of the next one
        if this process is killed. A file has neither.
        """

    def write_index(self) -> str | None:
        """Return which of several indices behind the name new documents come into, else None."""

    def requires_routing(self) -> bool:
        """Return whether a new document needs a routing in each index that it may come into."""

    def has_pipeline(self) -> bool:
        """Return whether documents may pass an ingest pipeline before they are stored.

        It may change their texts, drop them, move them to other indices, or give them other ids.
        """

    def why_refused(self, fields: Collection[str], reasons: Collection[str]) -> str | None:
        """Return which fields refused documents must not have, and what to do.

        fields: the dotted names of theirs. reasons: the store's own, one for each. None if it
        refused some of them for another reason: only a cluster's mapping refuses fields.
        """

    def write(
        self, documents: Sequence[Document] | EncodedDocuments, *, create: bool = False
    ) -> WriteReport:
        """Write documents; what is reported as created or updated is durable.

        create: report a conflict for an id that is taken, but for the same bytes. Raises
        StoreUnavailable, with the number of documents acknowledged, when the retries run out.
        """

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        """Return the documents that exist, in order, without tokens. paths: None for all.

        With paths, a change that another client just made to one of many may not be seen yet.
        """

    def hold(
        self, ids: Sequence[str], paths: list[str] | None = None, *, to_change: bool = False
    ) -> list[StoredDocument]:
        """Return the documents that exist, in the order of `ids`, with their versions.

        paths: as in `get`; None for the whole document, with its tokens and its JSON. to_change:
        fields will be merged into them, for which a cluster reads whole documents immediately.
        Raises StoreError if whole documents are requested and the index does not keep them.
        """

    def hold_now(self, ids: Sequence[str], paths: list[str]) -> list[StoredDocument]:
        """Return the documents that exist, in any order, with what other clients just changed.

        ids, paths: as in `hold`. A document that changes while it is read may be left out, as if it
        were gone.
        """

    def hold_again(
        self, documents: Sequence[StoredDocument], paths: list[str] | None = None
    ) -> list[StoredDocument]:
        """Return documents as they are now, in any order, without those that are gone.

        paths: as in `hold`, or `ALL_PATHS`, which never fails.
        """

    def change(self, changes: Sequence[Change]) -> WriteReport:
        """Change or delete documents that have not changed since they were read, durably.

        All bytes of other fields stay the same. A document that changed, or is gone, is reported as
        a conflict. Raises StoreError if fields are merged and the index does not keep documents
        whole.
        """

    def restore(self, documents: Sequence[StoredDocument]) -> WriteReport:
        """Restore deleted documents durably, byte for byte and into the index that they were in.

        An id that is taken is reported as a conflict. A document that names no index, or one that
        accepts no new documents, goes where this store's new ones go.
        """

    def outside(self, indices: Collection[str]) -> list[str]:
        """Return those of some indices that exist, but that the name does not stand for, sorted.

        Documents that name one of them would be restored there.
        """

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """Return for each query at most `limit` documents that share most groups.

        They have no tokens, but their segments, digests and marks if these were requested.
        Documents that share fewer groups than the query's `least` are left out, and those out of
        its scope.
        """

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE, *, marked: bool = False
    ) -> Iterator[list[Document]]:
        """Yield all documents with tokens of a scheme, in batches, with only the given fields.

        paths: dotted names of fields; the value of a `TimeField` that is mapped as a date is the
        time that a server indexed, in ISO 8601. share: one of several, which together are all
        documents. marked: only documents with a group. A local file's order is that of arrival.
        """

    def analyzed(self, field: str, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens that the index computes from texts as values of a field."""

    def bucket_sizes(self, key: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        """Return the exact number of documents with each token of a field in searches."""

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        """Return at most `count` random documents with tokens of a scheme.

        paths: dotted names of fields. count: 1 to `models.MOST_SAMPLED`, else UsageError. The same
        seed gives the same documents in the same order while none is written.
        """

    def full_text(self, words: str, meta: IndexMeta, limit: int) -> tuple[list[str], int]:
        """Return the ids of at most `limit` documents whose text has all words, and their number.

        Documents with the words in a row come first. A cluster analyzes words as it does the text.
        A file calls `read_texts` first.
        """

    def has_read_texts(self) -> bool:
        """Return whether `full_text` answers without reading all texts: always on a cluster."""

    def read_texts(self, meta: IndexMeta, on_read: Callable[[int], None]) -> None:
        """Read what `full_text` searches in, unless no text has changed since it was read.

        on_read: gets the number of documents so far; what it raises ends the reading. Raises
        StoreError if SQLite has no FTS5.
        """

    def some_ids(self, count: int) -> list[str]:
        """Return the ids of at most `count` documents, with tokens or without, in any order.

        Returns none if there is no index.
        """

    def has_places(self) -> bool:
        """Return whether the name can stand for several indices, which can have one id each.

        `scan` and `sample` return the index of each document then, and `candidates` if several are
        behind the name now. An id of `get` and `hold` can begin with the index
        ("offers-000001/1"), and the document has the same id. Without an index, it is that of the
        document in the newest index that has it.
        """

    def ids_with_indices(self, ids: Sequence[str]) -> list[str]:
        """Return the ids, with their indices, of the documents of ids that several indices have.

        Other ids are left out, and those that name their index.
        """

    def unattached(self) -> Unattached:
        """Return the indices behind the name that lack our fields, by its mappings as last read."""

    def require_attached(self) -> None:
        """Raise StoreError, naming what to do, if one of the indices behind the name is so."""

    def refresh(self) -> None:
        """Make all documents written so far visible to searches."""

    def statistics(self, meta: IndexMeta) -> Statistics:
        """Return numbers of the index."""

    def names(self) -> list[str]:
        """Return the other names of the index: its aliases, or the indices behind an alias."""

    def indices(self) -> list[str]:
        """Return the names of all indices in the same place that have our fields, sorted."""

    def drop(self) -> None:
        """Delete the index with its documents.

        Raises IndexNotFound if there is none, UsageError if the name is not that of one index.
        """

    def beside(self, index: str) -> Store:
        """Return another index in the same place, with the connections of this one."""

    def close(self) -> None:
        """Close connections."""
