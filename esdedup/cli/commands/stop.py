"""esdedup stop: the stop list of an index."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from esdedup.cli.commands.stats import bucket_document, show_buckets, tell_what_is_sure
from esdedup.cli.options import AsJson, Target, Yes, with_target
from esdedup.cli.output import message, print_json, print_table, wants_json
from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.search.hot_buckets import HotBucket
from esdedup.stores.stop_list import stop_entries, stopped_tokens

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
