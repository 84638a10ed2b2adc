"""esdedup attach, template, check: our fields beside what an index of others holds."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from esdedup.admin.attach import AttachPlan, attach, plan_attach
from esdedup.admin.check import Check, IndexCheck, Tally, check
from esdedup.cli.options import (
    AsJson,
    ClusterTarget,
    FieldOption,
    IndexOption,
    SchemeOption,
    TextField,
    scheme_in,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, progress, wants_json
from esdedup.stores.elastic.templates import install_template, plan_template

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change, and put nothing.")]
Install = Annotated[bool, typer.Option("--install", help="Put it, and not only show it.")]
NoStale = Annotated[
    bool,
    typer.Option("--no-stale", help="Do not read every text to find tokens gone stale: quicker."),
]


@with_target
def attach_command(
    target: ClusterTarget,
    index: IndexOption,
    text_field: TextField = None,
    scheme: SchemeOption = None,
    field: FieldOption = None,
    dry_run: DryRun = False,
    as_json: AsJson = None,
) -> None:
    """Add the token fields to an index that exists, to all behind an alias, or to a data stream.

    The change is shown before it is put; nothing else in the mapping changes, and no document.
    """
    wanted = scheme_in(scheme)
    with target.connected() as cluster:
        plan = plan_attach(cluster, index, wanted, text_field, field)
        _show_plan(plan, wants_json(as_json))
        if not dry_run:
            attach(cluster, plan)
            _tell_what_is_left(plan, index)


def _show_plan(plan: AttachPlan, as_json: bool) -> None:
    for change in plan.changes:
        if as_json:
            print_json(
                {
                    "index": change.index,
                    "change": change.mapping,
                    "obstacles": [_plain(obstacle) for obstacle in change.obstacles],
                }
            )
            continue
        if change.mapping is None:
            typer.echo(f"{change.index}: attached already")
        else:
            typer.echo(f"PUT {change.index}/_mapping")
            typer.echo(json.dumps(change.mapping, indent=2, ensure_ascii=False))
        for obstacle in change.obstacles:
            message(str(obstacle))
    if plan.template is not None:
        _show_template(plan.template.name, plan.template.body, as_json)
    # What is about to happen is seen before it happens.
    sys.stdout.flush()


def _show_template(name: str, body: Any, as_json: bool) -> None:
    if as_json:
        print_json({"component_template": name, "body": body})
    else:
        typer.echo(f"PUT _component_template/{name}")
        typer.echo(json.dumps(body, indent=2, ensure_ascii=False))


def _plain(obstacle: Any) -> dict[str, str]:
    return {"stops": obstacle.stops, "reason": obstacle.reason}


def _tell_what_is_left(plan: AttachPlan, index: str) -> None:
    changed = sum(change.mapping is not None for change in plan.changes)
    message(f"{changed} of {len(plan.changes)} indices got the field {plan.meta.field!r}")
    if plan.template is not None and plan.template.advice:
        message(plan.template.advice)
    message(f"Documents that are there already: esdedup backfill --index {index}")


@with_target
def template_command(
    target: ClusterTarget,
    index: IndexOption,
    text_field: TextField = None,
    scheme: SchemeOption = None,
    field: FieldOption = None,
    install: Install = False,
    as_json: AsJson = None,
) -> None:
    """Show, or install, the component template for the indices made next behind a name.

    Your own index templates are not changed: name it in their composed_of.
    """
    wanted = scheme_in(scheme)
    with target.connected() as cluster:
        plan = plan_attach(cluster, index, wanted, text_field, field)
        template = plan.template or plan_template(cluster, plan.named, plan.meta)
        _show_template(template.name, template.body, wants_json(as_json))
        if install:
            install_template(cluster, template)
            message(f"component template {template.name!r} is installed")
        if template.advice:
            message(template.advice)


@with_target
def check_command(
    target: ClusterTarget, index: IndexOption, no_stale: NoStale = False, as_json: AsJson = None
) -> None:
    """Diagnose an index: its mapping, and documents without tokens, with stale or other ones.

    The exit status is 1 where there is something to do.
    """
    with target.connected() as cluster, progress("Checking", None) as (_, documents):
        read = 0

        def on_scan(count: int) -> None:
            nonlocal read
            read += count
            documents(read)

        found = check(cluster, index, stale=not no_stale, on_scan=on_scan)
    for each in found.indices:
        if wants_json(as_json):
            print_json(_as_json(each))
        else:
            _show_check(each)
    _advise(found, index)
    if not found.good:
        raise typer.Exit(1)


def _as_json(check: IndexCheck) -> dict[str, Any]:
    meta = check.meta
    return {
        "index": check.index,
        "attached": meta is not None,
        "scheme_id": None if meta is None else meta.scheme.id,
        "text_field": None if meta is None else meta.text_field,
        "field": None if meta is None else meta.field,
        "next_scheme_id": None if meta is None or meta.next is None else meta.next.scheme.id,
        "documents": check.documents,
        "with_tokens": check.sketched,
        "without_tokens": asdict(check.bare),
        "other_scheme": asdict(check.other),
        "stale": None if check.stale is None else asdict(check.stale),
        "obstacles": [_plain(obstacle) for obstacle in check.obstacles],
    }


def _show_check(check: IndexCheck) -> None:
    if check.meta is None:
        typer.echo(f"{check.index}: not attached")
    else:
        rows = [
            ("scheme", check.meta.scheme.id),
            ("text field", check.meta.text_field),
            ("documents", f"{check.documents:,}"),
            ("with tokens", f"{check.sketched:,}"),
            ("without tokens", _tally(check.bare)),
            ("with another scheme's", _tally(check.other)),
            ("with stale tokens", "not looked for" if check.stale is None else _tally(check.stale)),
        ]
        print_table([("", "text"), ("", "text")], rows, title=check.index)
    for obstacle in check.obstacles:
        typer.echo(f"  {obstacle.reason}")


def _tally(tally: Tally) -> str:
    examples = f": {', '.join(tally.examples)}" if tally.examples else ""
    more = ", ..." if tally.count > len(tally.examples) else ""
    return f"{tally.count:,}{examples}{more if examples else ''}"


def _advise(found: Check, name: str) -> None:
    """What to do, to standard error."""
    if any(each.meta is None for each in found.indices):
        message(f"To add the fields: esdedup attach --index {name}")
    if any(each.bare.count or each.other.count for each in found.indices):
        message(f"To fill in tokens: esdedup backfill --index {name}")
    if any(each.stale is not None and each.stale.count for each in found.indices):
        message(f"To renew stale tokens: esdedup backfill --stale --index {name}")
    if len(found.schemes) > 1:
        message(f"The indices hold different schemes: {', '.join(found.schemes)}")
    if found.template is not None and found.template.advice:
        message(found.template.advice)
