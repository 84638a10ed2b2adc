"""esdedup stats: what an index holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from esdedup.cli.options import AsJson, Target, with_target
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.cli.scheme_file import describe
from esdedup.search.hot_buckets import MOST_COUNTED, HotBucket, HotBuckets

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
    return {**asdict(bucket), "token": bucket.entry, "text": snippet(bucket.text)}


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
