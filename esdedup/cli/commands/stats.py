"""esdedup stats: what an index holds.

esdedup stop: the stop list of an index.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from esdedup.analysis.describe import describe
from esdedup.cli.options import AsJson, Target, Yes, with_target
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.search.hot_buckets import MOST_COUNTED, HotBucket, HotBuckets
from esdedup.stores.stop_list import stop_entries, stopped_tokens

Hot = Annotated[
    int | None,
    typer.Option(
        "--hot",
        min=1,
        max=MOST_COUNTED,
        metavar="N",
        show_default=False,
        help="Also the N largest buckets: tokens that most documents hold.",
    ),
]


@with_target
def stats(target: Target, hot: Hot = None, as_json: AsJson = None) -> None:
    """Show how many documents an index holds, with which scheme, and what they take."""
    with target.open() as index:
        found, meta, where = index.statistics(), index.meta, index.store.where
        largest = index.hot_buckets(hot) if hot is not None else None
    if wants_json(as_json):
        document: dict[str, Any] = {
            **asdict(found),
            "index": target.index,
            "text_field": meta.text_field,
            "scheme_id": meta.scheme.id,
            "scheme": meta.scheme.to_json(),
            "stop": list(meta.stop),
        }
        if largest is not None:
            document["hot"] = [bucket_document(bucket) for bucket in largest.buckets]
            document["hot_from"] = largest.sure
        print_json(document)
        return
    per_document = found.bytes / found.documents if found.documents else 0
    rows = [
        ("store", found.store),
        ("documents", f"{found.documents:,}"),
        ("with tokens", f"{found.sketched:,}"),
        ("with another scheme's tokens", f"{found.other:,}"),
        ("bytes", f"{found.bytes:,} ({per_document:,.0f} a document)"),
        ("text field", meta.text_field),
        *describe(meta.scheme, max(found.documents, 1)),
    ]
    if meta.stop:
        rows.append(("stop list", f"{len(meta.stop):,} tokens"))
    print_table([("", "text"), ("", "text")], rows, title=where[0].upper() + where[1:])
    if largest is not None:
        show_buckets(largest.buckets, "Largest buckets")
        tell_what_is_sure(largest)


def bucket_document(bucket: HotBucket) -> dict[str, Any]:
    """A bucket as JSON, with the beginning of its text."""
    return {**bucket.to_json(), "text": snippet(bucket.text)}


def show_buckets(buckets: list[HotBucket], title: str) -> None:
    """A table of buckets."""
    if not buckets:
        return
    print_table(
        [
            ("token", "key"),
            ("position", "number"),
            ("documents", "number"),
            ("share", "number"),
            ("id", "key"),
            ("text", "line"),
        ],
        [
            (
                bucket.entry,
                str(bucket.position),
                f"{bucket.documents:,}",
                f"{bucket.share:.2%}",
                bucket.id,
                snippet(bucket.text),
            )
            for bucket in buckets
        ],
        title=title,
    )


def tell_what_is_sure(found: HotBuckets) -> None:
    """How large a bucket must be to be found, to standard error."""
    message(
        f"Found in a sample of {found.sampled:,} documents: a bucket of fewer than {found.sure:,}"
        " may be missed"
    )


Tokens = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOKEN]...", show_default=False, help="Tokens to add, as stats --hot shows them."
    ),
]
Over = Annotated[
    int | None,
    typer.Option(
        "--over",
        min=1,
        metavar="N",
        show_default=False,
        help="Add the buckets of more than N documents, after showing them.",
    ),
]
Kind = Annotated[
    Literal["minhash", "simhash"], typer.Option("--kind", help="With --over: which tokens.")
]
Remove = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="TOKEN",
        show_default=False,
        help="Take a token out; may be given several times.",
    ),
]
Clear = Annotated[bool, typer.Option("--clear", help="Take all tokens out.")]


@with_target
def stop(
    target: Target,
    tokens: Tokens = None,
    over: Over = None,
    kind: Kind = "minhash",
    remove: Remove = None,
    clear: Clear = False,
    yes: Yes = False,
    as_json: AsJson = None,
) -> None:
    """Show or change the stop list: tokens that searches and pairs leave out.

    Boilerplate gives very many documents the same token; what they share besides still counts.
    Documents keep their tokens, and the list can be changed at any time.
    """
    if sum(map(bool, (tokens, over, remove, clear))) > 1:
        raise UsageError("give one of tokens to add, --over, --remove and --clear")
    with target.open() as index:
        scheme, before = index.scheme, index.meta.stop
        after = {*before, *stop_entries(tokens or (), scheme)}
        if over is not None:
            found = _large(index, over, kind, wants_json(as_json))
            after |= {bucket.entry for bucket in found}
            question = f"Leave these {len(found)} buckets out of all searches of {target.index!r}?"
            if found and not yes and not (sys.stdin.isatty() and typer.confirm(question, err=True)):
                message(f"{question} Not without a yes: --yes")
                return
        if remove:
            gone = set(stop_entries(remove, scheme))
            if unknown := sorted(gone - after):
                raise UsageError(f"{', '.join(unknown)}: not in the stop list")
            after -= gone
        if clear:
            after = set()
        if after != set(before):
            index.stop(sorted(after))
            message(f"The stop list has {len(after)} tokens, and had {len(before)}")
        if over is None:
            _show(index, wants_json(as_json))
        if stopped_tokens(index.meta.stop, "simhash"):
            message("SimHash segments are stopped: no Hamming distance is guaranteed any more")


def _large(index: Index, over: int, kind: str, as_json: bool) -> list[HotBucket]:
    """The buckets that are over a size and not yet stopped, shown."""
    found = index.hot_buckets(None, over=over, kinds=(kind,))
    fresh = [bucket for bucket in found.buckets if bucket.entry not in index.meta.stop]
    if as_json:
        for bucket in fresh:
            print_json(bucket_document(bucket))
    else:
        show_buckets(fresh, f"Buckets of more than {over:,} documents")
    # What is about to happen is seen before it happens.
    sys.stdout.flush()
    if not fresh:
        message(f"No bucket of more than {over:,} documents that is not stopped was found")
    if over < found.sure:
        tell_what_is_sure(found)
    return fresh


def _show(index: Index, as_json: bool) -> None:
    """The list as it is now, with the documents that hold each token."""
    meta = index.meta
    rows: list[tuple[str, int]] = []
    for kind in ("minhash", "simhash"):
        own = sorted(stopped_tokens(meta.stop, kind))
        sizes = index.store.bucket_sizes(kind, own, meta)
        rows += [(f"{kind}:{token}", size) for token, size in zip(own, sizes, strict=True)]
    if as_json:
        for entry, size in rows:
            print_json({"token": entry, "documents": size})
    elif rows:
        shown = [(entry, f"{size:,}") for entry, size in rows]
        print_table([("token", "key"), ("documents", "number")], shown)
    else:
        message("The stop list is empty")
