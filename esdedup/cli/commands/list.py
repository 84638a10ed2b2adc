"""esdedup list, drop: list the indices of a file or a cluster, and delete one."""

from __future__ import annotations

from click.exceptions import Exit

from esdedup.cli.options import Target, as_json, yes
from esdedup.cli.output import agreed, capital, count, message, print_json, print_table, wants_json
from esdedup.index import indices


def list_command(target: Target, as_json: bool | None = as_json()) -> None:
    """List the indices of a file or a cluster.

    Example: esdedup list --db news.db

    Shows the documents and the scheme of each index that has esdedup's fields.
    """
    found = indices(target.where)
    if wants_json(as_json):
        for each in found:
            print_json({"index": each.name, "documents": each.documents, "scheme_id": each.scheme})
    elif found:
        rows = [
            (each.name, f"{each.documents:,}", each.scheme)
            if each.documents is not None and each.scheme is not None
            else (each.name, "", "of another version of esdedup")
            for each in found
        ]
        print_table([("index", "key"), ("documents", "number"), ("scheme", "key")], rows)
    else:
        message("No index")


def drop_command(target: Target, yes: bool = yes()) -> None:
    """Delete an index with its documents, after asking.

    Example: esdedup drop -i news

    Nothing restores it. To remove tokens from an index of yours, see esdedup switch.
    """
    with target.open() as index:
        where, documents = capital(index.store.where), index.statistics().documents
        message(f"{where}: {count(documents, 'document')}, scheme {index.scheme.id}")
        question = "Delete it with all its documents?"
        if not agreed(question, yes):
            message(f"{question} Not a terminal: pass --yes to confirm. Nothing was changed")
            raise Exit(1)
        index.drop()
    message(f"Deleted {where}")
