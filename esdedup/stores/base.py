"""What every store can do. The same tests hold for all: `tests/stores/contract`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from esdedup.models import (
    WHOLE,
    Candidates,
    Change,
    Document,
    Encoded,
    Held,
    RecallQuery,
    Share,
    Statistics,
    WriteReport,
)
from esdedup.stores.mapping import IndexMeta


class Store(Protocol):
    """One index of documents with their tokens.

    Every method raises StoreUnavailable where the store can't be reached, AuthenticationFailed or
    PermissionDenied where the server refuses, and StoreError where it fails otherwise.
    """

    @property
    def where(self) -> str:
        """The store and index, for messages; never with a password."""
        ...

    def meta(self) -> IndexMeta | None:
        """What the index says of its tokens, or None where it says nothing or does not exist."""
        ...

    def create(self, meta: IndexMeta) -> None:
        """Makes the index, or adds our fields to one that exists.

        Changes nothing that is there. Raises SchemeMismatch where the index holds another scheme
        or text field already, also where another client was just faster.
        """
        ...

    @staticmethod
    def encode(document: Document) -> Any:
        """Returns a document as it is written. A worker process can do this, and send the result.

        Raises RecordError if the document can't be stored.
        """
        ...

    def write(
        self, documents: Sequence[Document | Encoded], *, create: bool = False
    ) -> WriteReport:
        """Writes documents; what is reported as created or updated is durable.

        create: a document whose id is taken is left as it is and reported as a conflict.
        Raises StoreUnavailable, with what was acknowledged in its message, when retries ran out.
        """
        ...

    def update(self, documents: Sequence[Document]) -> WriteReport:
        """Merges fields into documents that exist, objects into objects; null takes a value away.

        One that does not exist is a failure.
        """
        ...

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        """The documents that exist, in the order of `ids`, without their tokens.

        paths: dotted names of fields, if not all are wanted.
        """
        ...

    def hold(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Held]:
        """The documents that exist, in the order of `ids`, to be changed later.

        paths: dotted names of fields; None for the whole document, with its tokens. Raises
        StoreError where the whole is asked for and the index does not keep it.
        """
        ...

    def hold_again(self, held: Sequence[Held], paths: list[str] | None = None) -> list[Held]:
        """Returns held documents as they are now, in any order, without those that are gone.

        paths: as in `hold`.
        """
        ...

    def change(self, changes: Sequence[Change]) -> WriteReport:
        """Changes or deletes documents that nobody changed since they were held.

        What is reported as updated is durable. A document that changed, or is gone, is left as it
        is and reported as a conflict.
        """
        ...

    def restore(self, held: Sequence[Held]) -> WriteReport:
        """Puts documents back that were deleted, whole and where they lay.

        What is reported as created is durable. An id that is taken is left as it is and reported
        as a conflict. Where the index that a document lay in takes no new ones, as a data stream's
        do, or where none is named, it goes where this store's new ones go.
        """
        ...

    def recall(self, queries: Sequence[RecallQuery], limit: int) -> list[Candidates]:
        """For each query the `limit` documents that share most token groups, without tokens.

        Only those that share as many as the query asks for at least.
        """
        ...

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE
    ) -> Iterator[list[Document]]:
        """All documents with tokens of a scheme, in batches, with only the given fields.

        paths: dotted names of fields. share: one of several shares of the documents, which
        together are all. The order is the store's own; a local file's is that of arrival.
        """
        ...

    def bucket_sizes(self, kind: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        """How many documents hold each token, exactly, of those that searches see.

        kind: "minhash" or "simhash".
        """
        ...

    def put_stop(self, meta: IndexMeta, stop: tuple[str, ...]) -> None:
        """Puts another stop list into what the index says of its tokens; nothing else changes.

        meta: what it said when the list was made. Raises StoreError, and leaves what is there,
        where it says something else by now; UsageError while its scheme is being changed.
        """
        ...

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        """So many random documents with tokens of a scheme, or all where there are fewer.

        paths: dotted names of fields. count: 1 to `datatypes.MOST_SAMPLED`, else UsageError.
        The same seed gives the same documents in the same order while none is written.
        """
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Deletes documents with their tokens; the number that existed."""
        ...

    def refresh(self) -> None:
        """Makes all that was written visible to searches."""
        ...

    def statistics(self, meta: IndexMeta) -> Statistics:
        """Numbers of the index."""
        ...

    def close(self) -> None:
        """Gives connections back."""
        ...
