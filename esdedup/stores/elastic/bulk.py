"""Send bulk requests: convert documents to lines, chunk by bytes and count, retry single items.

Only items that were refused for load (429, 503) are retried, after a wait; the clients' own helpers
don't do that by default. Every item ends as written, or as a failure with its reason (`answers`). A
document that is created again after an answer was lost conflicts with itself.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from esdedup.exceptions import RecordError, StoreUnavailable
from esdedup.models import Document, Failure, WriteReport, grouped
from esdedup.stores.concurrency import Window
from esdedup.stores.elastic.answers import Action, AnswerReader
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.errors import RETRIED, TooLarge
from esdedup.stores.elastic.retry import Attempts, Retries
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.json_text import one_line
from esdedup.stores.to_json import to_json

NO_WRITE_INDEX = "no write index is defined for alias"
"""A part of the reason if an alias has several indices, and none for new documents."""

Send = Callable[[bytes], Body]


@dataclass(frozen=True)
class BulkPolicy:
    """The largest bulk request. A larger document is sent alone.

    actions: their number.
    bytes: of all actions.
    """

    actions: int = 1_000
    bytes: int = 5_000_000


def write_actions(
    actions: Sequence[Action],
    send: Send,
    policy: BulkPolicy,
    retries: Retries,
    reader: AnswerReader,
    window: Window,
) -> WriteReport:
    """Send actions, in several requests at the same time, until each is written or has failed.

    send: sends one body. It raises StoreUnavailable if the body may be sent again, TooLarge if it
    must be split. Raises StoreUnavailable, with the number of documents acknowledged, when the
    retries run out, and an error of `errors.error_of` if the index refuses every document.
    """
    report = WriteReport()
    chunks = grouped(actions, lambda action: len(action.lines), policy.bytes, policy.actions)
    write = partial(_write_chunk, send=send, retries=retries, reader=reader)
    try:
        for written in window.in_order(
            write, chunks, lambda chunk: [action.key for action in chunk]
        ):
            report += written
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"{error}; {report.created + report.updated} of these {len(actions)} documents were"
            " acknowledged"
        ) from error
    return report


def _write_chunk(
    pending: list[Action], send: Send, retries: Retries, reader: AnswerReader
) -> WriteReport:
    """Send actions in one request, and again those that are rejected for load."""
    report, attempts, unsure = WriteReport(), Attempts(retries), False
    while True:
        try:
            answer = send(b"".join(action.lines for action in pending))
        except TooLarge as error:
            if len(pending) == 1:
                return report + WriteReport(failures=[Failure(pending[0].key, str(error))])
            middle = len(pending) // 2
            for half in (pending[:middle], pending[middle:]):
                report += _write_chunk(half, send, retries, reader)
            return report
        except StoreUnavailable as error:
            if not attempts.wait(error):
                raise attempts.given_up(error) from error
            unsure = True
            continue
        settled = reader.settled(pending, answer["items"])
        failures = [replace(failure, unsure=unsure) for failure in settled.report.failures]
        report += replace(settled.report, failures=failures)
        rejected = settled.rejected
        if not rejected:
            return report
        # A server that lost another one may reject an action that was done.
        unsure = True
        if len(rejected) < len(pending):
            # The server is busy, but makes progress.
            attempts = Attempts(retries)
        pending = [action for action, _ in rejected]
        refusal = StoreUnavailable(
            f"{reader.where}: {len(pending)} documents rejected: {rejected[0][1]}"
        )
        if not attempts.wait(refusal):
            if report == WriteReport():
                # It refused all of them for the whole time, and would refuse the next ones too.
                raise attempts.given_up(refusal)
            failures = [
                Failure(action.key, str(attempts.given_up(StoreUnavailable(reason))), unsure=True)
                for action, reason in rejected
            ]
            return report + WriteReport(failures=failures)


def has_refused(answer: Body) -> bool:
    """Return whether a server refused items of a bulk request for load."""
    items = answer.get("items", ()) if answer.get("errors") is True else ()
    return any(result.get("status") in RETRIED for item in items for result in item.values())


def line(value: object, where: str = "a request") -> bytes:
    """Return a value as a line of JSON. Raises RecordError, with `where`, if JSON can't hold it."""
    return to_json(value, where).encode() + b"\n"


def raw_line(raw: str) -> bytes:
    """Return the JSON of a document as a line, in which line feeds between values become spaces."""
    return one_line(raw).encode("utf-8", "surrogatepass") + b"\n"


def search_line(body: Body) -> bytes:
    """Return a search as a line of JSON. Raises RecordError if JSON can't hold it.

    Half of a surrogate pair, which other clients can store in a text, is escaped.
    """
    try:
        return line(body)
    except RecordError as error:
        if not isinstance(error.__cause__, UnicodeEncodeError):
            raise
        return json.dumps(body).encode("ascii") + b"\n"


def document_lines(documents: Sequence[Document] | EncodedDocuments) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the line of each document. Raises RecordError if JSON can't hold it."""
    if not isinstance(documents, EncodedDocuments):
        for document in documents:
            if document.raw is None:
                yield document.id, line(document.source, f"document {document.id!r}")
            else:
                yield document.id, raw_line(document.raw)
        return
    encoded = zip(documents.ids, documents.sources, documents.fields(), strict=True)
    for (id, source, token_fields), marks in zip_longest(encoded, documents.marks):
        if marks:
            tokens = token_fields.get(documents.marks_in, "{}")[:-1]
            members = to_json(marks, f"document {id!r}")[1:]
            token_fields[documents.marks_in] = f"{tokens}{',' if len(tokens) > 1 else ''}{members}"
        members_of_source = [source[1:-1]] if len(source) > 2 else []
        added = [f'"{field}":{value}' for field, value in token_fields.items()]
        yield id, f"{{{','.join(members_of_source + added)}}}\n".encode()
