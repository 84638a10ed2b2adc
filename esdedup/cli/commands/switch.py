"""esdedup switch: another scheme for an index in use."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_forgetting
from esdedup.admin.switch import (
    WAIT_SECONDS,
    Fill,
    SwitchPlan,
    begin,
    complete,
    empty_former,
    fill_next,
    plan_switch,
)
from esdedup.cli.commands.backfill import MaxRate, Retries, Workers, run, show
from esdedup.cli.files import DeadLetterFile
from esdedup.cli.options import (
    AsJson,
    ClusterTarget,
    IndexOption,
    SchemeOption,
    TextField,
    Yes,
    scheme_in,
    with_target,
)
from esdedup.cli.output import message, wants_json
from esdedup.stores import BulkPolicy, Cluster
from esdedup.stores.changes import ChangeReport
from esdedup.stores.mapping import index_mapping

Keep = Annotated[
    bool, typer.Option("--keep", help="Leave the old scheme's tokens in place for now.")
]


@with_target
def switch_command(
    target: ClusterTarget,
    index: IndexOption,
    scheme: SchemeOption = None,
    text_field: TextField = None,
    workers: Workers = 1,
    max_rate: MaxRate = None,
    keep: Keep = False,
    yes: Yes = False,
    retries: Retries = 6,
    as_json: AsJson = None,
) -> None:
    """Change the scheme, or the text field, of an index that is searched and written to.

    The new tokens are filled in beside the old ones; searches use them when all are there; then
    the old ones are removed, after asking. Run it again after it was stopped.
    """
    wanted = scheme_in(scheme)
    effort = Effort(workers, rate=max_rate)
    with target.connected(BulkPolicy(retries=retries)) as cluster:
        plan = plan_switch(cluster, index, wanted, text_field)
        if plan.stage == "done":
            message(f"{index!r} has scheme {plan.meta.scheme.id} already")
            return
        with DeadLetterFile(Path(f"{index}.dead-letter.jsonl")) as letters:

            def fill(filling: BackfillPlan) -> ChangeReport:
                report = run(
                    lambda on_update: backfill(cluster, filling, effort, on_update),
                    filling.waiting,
                    letters,
                )
                if report.failures:
                    message(f"The documents that were not updated: see {letters.path}")
                return report

            if plan.stage in ("begin", "fill"):
                _fill(cluster, plan, fill, wants_json(as_json))
            if not keep:
                _forget(cluster, plan, fill, yes, wants_json(as_json))


def _fill(cluster: Cluster, plan: SwitchPlan, fill: Fill, as_json: bool) -> None:
    if plan.stage == "begin":
        message(f"From scheme {plan.meta.scheme.id} in the field {plan.meta.field!r}")
        message(f"to scheme {plan.following.scheme.id} in the field {plan.following.field!r}:")
        message(json.dumps(index_mapping(plan.following)["properties"]))
    begin(cluster, plan)
    total = fill_next(cluster, plan, fill, _wait)
    show(total, f"Scheme {plan.following.scheme.id} of {plan.name!r}", 0, as_json)
    complete(cluster, plan)
    if plan.meta.stop:
        message(
            f"The stop list ({len(plan.meta.stop):,} tokens) was of the old scheme and is empty"
            " now: esdedup stats --hot shows what is large in the new one"
        )
    message(f"Searches use scheme {plan.following.scheme.id} from now on")


def _forget(cluster: Cluster, plan: SwitchPlan, fill: Fill, yes: bool, as_json: bool) -> None:
    name = plan.name
    forgetting = plan_forgetting(cluster, name)
    question = (
        f"Remove the old tokens, in the field {forgetting.meta.former!r}, from"
        f" {forgetting.waiting:,} documents?"
    )
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        message(f"{question} Not without a yes: esdedup switch --index {name} --yes")
        return
    report = empty_former(cluster, plan, forgetting, fill, _wait)
    show(report, f"Field {forgetting.meta.former!r} of {name!r}, emptied", 0, as_json)


def _wait(why: str) -> None:
    message(f"Waiting {WAIT_SECONDS:.0f} s {why}")
    time.sleep(WAIT_SECONDS)
