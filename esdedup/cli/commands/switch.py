"""esdedup switch: another scheme for an index in use."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_backfill
from esdedup.admin.switch import complete, empty_former, fill_next, plan_switch
from esdedup.arguments import setting
from esdedup.cli.commands.backfill import run, show
from esdedup.cli.files import dead_letters
from esdedup.cli.options import (
    ClusterTarget,
    as_json,
    max_rate,
    scheme,
    scheme_in,
    text_field,
    workers,
    yes,
)
from esdedup.cli.output import agreed, count, message
from esdedup.records.dead_letters import dead_letter_path
from esdedup.stores.changes import ChangeReport
from esdedup.stores.mapping import index_mapping


def switch_command(
    target: ClusterTarget,
    scheme: Path | None = scheme(),
    text_field: list[str] | None = text_field(),
    workers: int = workers(),
    max_rate: float | None = max_rate(),
    keep: bool = setting(False, "Leave the old tokens in place for now."),
    yes: bool = yes(),
    as_json: bool | None = as_json(),
) -> None:
    """Change the scheme or text field of an index in use.

    Example: esdedup switch --index news --scheme new.json

    The new tokens are filled in beside the old ones. Searches use them when all are there. Then
    the old ones are removed, after asking. Run the same command again to resume an interrupted run.
    """
    wanted = scheme_in(scheme)
    effort = Effort(workers, max_rate)
    path = dead_letter_path(target.index)
    with target.connected() as cluster, dead_letters(path) as letters:
        plan = plan_switch(cluster, target.index, wanted, text_field)
        if plan.stage == "done":
            message(f"{target.index!r} has scheme {plan.meta.scheme.id} already")
            return

        def fill(filling: BackfillPlan) -> ChangeReport:
            report = run(partial(backfill, cluster, filling, effort), filling.waiting, letters)
            if report.failures:
                message(f"The documents that were not updated: see {letters.path}")
            return report

        following = plan.following
        if plan.stage == "begin":
            message(f"From scheme {plan.meta.scheme.id} in the field {plan.meta.field!r}")
            message(f"to scheme {following.scheme.id} in the field {following.field!r}:")
            message(json.dumps(index_mapping(following)["properties"]))
        if plan.stage in ("begin", "fill"):
            total = fill_next(cluster, plan, fill, message)
            show(total, f"Scheme {following.scheme.id} of {plan.name!r}", 0, target, as_json)
            complete(cluster, plan)
            if plan.meta.stop:
                message(
                    f"The stop list ({count(len(plan.meta.stop), 'token')}) was of the old scheme"
                    " and is empty now: esdedup stats --hot shows the large buckets of the new one"
                )
            message(f"Searches use scheme {following.scheme.id} from now on")
        if keep:
            return
        forgetting = plan_backfill(cluster, plan.name, former=True)
        field, documents = forgetting.meta.former, count(forgetting.waiting, "document")
        question = f"Remove the old tokens, in the field {field!r}, from {documents}?"
        if not agreed(question, yes):
            message(f"{question} Not a terminal: pass --yes to confirm")
            return
        report = empty_former(cluster, plan, forgetting, fill, message)
        show(report, f"Field {field!r} of {plan.name!r}, emptied", 0, target, as_json)
