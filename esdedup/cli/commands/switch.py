"""esdedup switch: another scheme for an index in use."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_backfill, plan_forgetting
from esdedup.admin.switch import WAIT_SECONDS, SwitchPlan, begin, complete, finish, plan_switch
from esdedup.cli.commands.backfill import MaxRate, Retries, Workers, run, show, tell_left_out
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
from esdedup.exceptions import StoreError
from esdedup.stores import BulkPolicy, Cluster
from esdedup.stores.changes import ChangeReport
from esdedup.stores.mapping import index_mapping

_ROUNDS = 3
"""Meanwhile a data stream may get another index, or one that knows no esdedup write; what the last
round leaves lacks the old tokens too."""

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
            if plan.stage in ("begin", "fill"):
                _fill(target, cluster, plan, effort, letters, wants_json(as_json))
            if not keep:
                _forget(target, cluster, plan, effort, letters, yes, wants_json(as_json))


def _fill(
    target: ClusterTarget,
    cluster: Cluster,
    plan: SwitchPlan,
    effort: Effort,
    letters: DeadLetterFile,
    as_json: bool,
) -> None:
    name = plan.name
    if plan.stage == "begin":
        message(f"From scheme {plan.meta.scheme.id} in the field {plan.meta.field!r}")
        message(f"to scheme {plan.following.scheme.id} in the field {plan.following.field!r}:")
        message(json.dumps(index_mapping(plan.following)["properties"]))
        begin(cluster, plan)
    _wait("until every writer fills both")
    total = ChangeReport()
    for _ in range(_ROUNDS):
        filling = plan_backfill(cluster, name, following=True, effort=effort)
        tell_left_out(filling)
        if filling.left_out:
            raise StoreError(f"{name!r} can't change its scheme while indices are left out")
        report = _run(target, cluster, filling, effort, letters)
        total += report
        if report.failures:
            raise StoreError(
                f"{report.failed} documents were not updated (see {letters.path}): searches go on"
                f" with the old scheme. Run esdedup switch --index {name} again"
            )
        if not report.written:
            break
    show(total, f"Scheme {plan.following.scheme.id} of {name!r}", 0, as_json)
    complete(cluster, plan)
    if plan.meta.stop:
        message(
            f"The stop list ({len(plan.meta.stop):,} tokens) was of the old scheme and is empty"
            " now: esdedup stats --hot shows what is large in the new one"
        )
    message(f"Searches use scheme {plan.following.scheme.id} from now on")


def _forget(
    target: ClusterTarget,
    cluster: Cluster,
    plan: SwitchPlan,
    effort: Effort,
    letters: DeadLetterFile,
    yes: bool,
    as_json: bool,
) -> None:
    name = plan.name
    forgetting = plan_forgetting(cluster, name, effort)
    question = (
        f"Remove the old tokens, in the field {forgetting.meta.former!r}, from"
        f" {forgetting.waiting:,} documents?"
    )
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        message(f"{question} Not without a yes: esdedup switch --index {name} --yes")
        return
    _wait("until no reader uses them")
    tell_left_out(forgetting)
    report = _run(target, cluster, forgetting, effort, letters)
    show(report, f"Field {forgetting.meta.former!r} of {name!r}, emptied", 0, as_json)
    if report.failures:
        raise StoreError(f"{report.failed} documents were not updated: see {letters.path}")
    if forgetting.left_out:
        raise StoreError(
            f"the indices left out still have the field: esdedup switch --index {name} --yes"
        )
    finish(cluster, plan)


def _run(
    target: ClusterTarget,
    cluster: Cluster,
    plan: BackfillPlan,
    effort: Effort,
    letters: DeadLetterFile,
) -> ChangeReport:
    connection = target.connection()
    return run(
        lambda on_update: backfill(connection, cluster, plan, effort, on_update),
        plan.waiting,
        letters,
    )


def _wait(why: str) -> None:
    message(f"Waiting {WAIT_SECONDS:.0f} s {why}")
    time.sleep(WAIT_SECONDS)
