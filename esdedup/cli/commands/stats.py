"""esdedup list, stats, stop, drop: show what there is, change a stop list, delete an index."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from esdedup import UsageError, admin
from esdedup.cli import output
from esdedup.cli.command import argument, setting
from esdedup.cli.options import Target, as_json, yes
from esdedup.cli.output import capital, count, message


def stats_command(
    target: Target,
    hot: int | None = setting(
        None, "Also the N largest buckets.", metavar="N", bounds=(1, admin.HotBuckets.MOST)
    ),
    as_json: bool = as_json(),
) -> None:
    """Show the documents, scheme and size of an index.

    Example: esdedup stats -i news --hot 10
    """
    with target.open() as index:
        statistics, meta, where = index.statistics(), index.meta, index.where
        largest = index.hot_buckets(hot) if hot is not None else None
    message(statistics.unattached.warning)
    if as_json:
        document = {
            **{name: value for name, value in asdict(statistics).items() if name != "unattached"},
            **output.unattached_of(statistics.unattached),
            "index": target.index,
            "text_fields": meta.text_fields,
            "scheme_id": meta.full_scheme.id,
            "scheme": meta.full_scheme.to_json(),
            "stop": list(meta.stop),
        }
        if largest is not None:
            document["hot"] = [_as_json(bucket) for bucket in largest.buckets]
        output.print_json(document)
        return
    per_document = statistics.bytes / statistics.documents if statistics.documents else 0
    rows = [
        ("store", statistics.store),
        ("documents", f"{statistics.documents:,}"),
        ("with tokens", f"{statistics.sketched:,}"),
        ("with another scheme's tokens", f"{statistics.other:,}"),
        ("bytes", f"{statistics.bytes:,} ({per_document:,.0f} per document)"),
        ("text fields", ", ".join(meta.text_fields)),
        *meta.full_scheme.describe(max(statistics.documents, 1)),
        *([("stop list", count(len(meta.stop), "token"))] if meta.stop else []),
    ]
    output.print_facts(rows, capital(where))
    if largest is not None:
        _show_buckets(largest, "Largest buckets", as_json=False)


def _as_json(bucket: admin.HotBucket) -> dict[str, Any]:
    return {**asdict(bucket), "text": output.snippet(bucket.text)}


def _show_buckets(largest: admin.HotBuckets, title: str, *, as_json: bool) -> None:
    rows = []
    for bucket in largest.buckets:
        if as_json:
            output.print_json(_as_json(bucket))
        numbers = str(bucket.position), f"{bucket.documents:,}", f"{bucket.share:.2%}"
        rows.append((bucket.token, *numbers, bucket.id, output.snippet(bucket.text)))
    columns: list[tuple[str, output.Kind]] = [("token", "key"), ("position", "number")]
    columns += [("documents", "number"), ("share", "number"), ("id", "key"), ("text", "line")]
    if rows and not as_json:
        output.print_table(columns, rows, title)
    message(f"Found in a sample of {count(largest.sampled, 'document')}")


def stop_command(
    target: Target,
    tokens: list[str] | None = argument(
        None, "Tokens to add, as stats --hot shows them.", metavar="[TOKEN]..."
    ),
    over: int | None = setting(
        None, "Add buckets of more than N documents, after asking.", metavar="N", bounds=(1, None)
    ),
    sketch: str | None = setting(
        None, "With --over: whose tokens.", show_default="the scheme's first", metavar="NAME"
    ),
    clear: bool = setting(False, "Remove all tokens."),
    yes: bool = yes(),
    as_json: bool = as_json(),
) -> None:
    """Show or change the stop list of an index.

    Example: esdedup stop -i news --over 10000

    Searches and pairs skip the tokens of the stop list, because boilerplate gives very many
    documents the same token. Documents keep their tokens, and the list can be changed at any time.
    """
    if sum(map(bool, (tokens, over, clear))) > 1:
        raise UsageError("use one of tokens to add, --over and --clear")
    with target.open() as index:
        scheme, before = index.scheme, index.meta.stop
        after = set() if clear else {*before, *index.stop_list.entries(tokens or ())}
        if over is not None:
            larger_buckets = index.hot_buckets(
                None, over=over, sketches=[scheme.sketch(sketch).name]
            )
            fresh = [bucket for bucket in larger_buckets.buckets if bucket.token not in before]
            larger = f"more than {count(over, 'document')}"
            _show_buckets(
                replace(larger_buckets, buckets=fresh), f"Buckets of {larger}", as_json=as_json
            )
            # The buckets are seen before they are stopped.
            sys.stdout.flush()
            if fresh:
                buckets = count(len(fresh), "bucket")
                output.confirm(f"Leave {buckets} out of all searches of {target.index!r}?", yes)
            else:
                message(f"No bucket of {larger} that is not stopped was found")
            after |= {bucket.token for bucket in fresh}
        if after != set(before):
            index.stop_list.replace(sorted(after))
            now = count(len(after), "token")
            message(f"The stop list of {index.where} has {now}, and had {len(before):,}")
        sizes = index.stop_list.sizes() if over is None else {}
        for stopped in index.stop_list.sketches():
            if lost := stopped.measure.unguaranteed:
                message(f"{capital(stopped.measure.tokens)} of {stopped.name} are stopped: {lost}")
    if as_json:
        for token, size in sizes.items():
            output.print_json({"token": token, "documents": size})
    elif sizes:
        shown = [(token, f"{size:,}") for token, size in sizes.items()]
        output.print_table([("token", "key"), ("documents", "number")], shown)
    elif over is None:
        message("The stop list is empty")


def list_command(target: Target, as_json: bool = as_json()) -> None:
    """List the indices of a file or a cluster.

    Example: esdedup list --db news.db

    Shows the documents and the scheme of each index that has esdedup's fields.
    """
    listed = admin.indices(target.where)
    if isinstance(target.where, Path) and not target.where.exists():
        raise target.not_found(f"there is no file {target.where}: index documents first")
    if as_json:
        for index in listed:
            line = {"index": index.name, "documents": index.documents, "scheme_id": index.scheme}
            output.print_json(line)
        return
    rows = [
        (index.name, f"{index.documents or 0:,}", index.scheme or "of another version of esdedup")
        for index in listed
    ]
    if rows:
        output.print_table([("index", "key"), ("documents", "number"), ("scheme", "key")], rows)
    else:
        message("No index")


def drop_command(target: Target, yes: bool = yes()) -> None:
    """Delete an index with its documents, after asking.

    Example: esdedup drop -i news

    Nothing restores it. To remove only the tokens, see "Remove esdedup from an index" in
    docs/how-to/existing-index.md.
    """
    with target.open() as index:
        where, documents = capital(index.where), index.statistics().documents
        message(f"{where}: {count(documents, 'document')}, scheme {index.scheme.id}")
        output.confirm("Delete it with all its documents?", yes)
        index.drop()
    message(f"Deleted {where}")
