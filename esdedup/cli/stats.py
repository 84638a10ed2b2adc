"""esdedup stats: what an index holds."""

from __future__ import annotations

from dataclasses import asdict

from esdedup.cli.options import AsJson, Target, with_target
from esdedup.cli.output import print_json, print_table, wants_json
from esdedup.cli.scheme_file import describe


@with_target
def stats(target: Target, as_json: AsJson = None) -> None:
    """Show how many documents an index holds, with which scheme, and what they take."""
    with target.open() as index:
        found, meta, where = index.statistics(), index.meta, index.store.where
    if wants_json(as_json):
        print_json(
            {
                **asdict(found),
                "index": target.index,
                "text_field": meta.text_field,
                "scheme_id": meta.scheme.id,
                "scheme": meta.scheme.to_json(),
            }
        )
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
    print_table([("", "text"), ("", "text")], rows, title=where[0].upper() + where[1:])
