"""esdedup switch: another scheme for an index in use."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from esdedup.admin.backfill import BackfillPlan, Effort, plan_backfill, plan_forgetting
from esdedup.admin.switch import WAIT_SECONDS, SwitchPlan, begin, complete, finish, plan_switch
from esdedup.cli.commands.backfill import fill, not_updated, show, tell_left_out
from esdedup.cli.files import DeadLetterFile
from esdedup.cli.options import (
    AsJson,
    ClusterTarget,
    MaxRate,
    Retries,
    SchemeOption,
    TextField,
    Workers,
    Yes,
    scheme_in,
    with_target,
)
from esdedup.cli.output import agreed, count, message, wants_json
from esdedup.exceptions import StoreError
from esdedup.stores import BulkPolicy, Cluster
from esdedup.stores.changes import ChangeReport
from esdedup.stores.mapping import index_mapping

_ROUNDS = 3
"""A data stream may get another index during a round, or a program that does not know esdedup may
write; what the last round leaves lacks the old tokens too."""

Keep = Annotated[bool, typer.Option("--keep", help="Leave the old tokens in place for now.")]


@with_target
def switch_command(
    target: ClusterTarget,
    scheme: SchemeOption = None,
    text_field: TextField = None,
    workers: Workers = 1,
    max_rate: MaxRate = None,
    keep: Keep = False,
    yes: Yes = False,
    retries: Retries = 6,
    as_json: AsJson = None,
) -> None:
    """Change the scheme or text field of an index in use.

    Example: esdedup switch --index news --scheme new.json

    The new tokens are filled in beside the old ones. Searches use them when all are there. Then
    the old ones are removed, after asking. Run it again after it was stopped: it goes on.
    """
    wanted = scheme_in(scheme)
    effort = Effort(workers, rate=max_rate)
    with target.connected(BulkPolicy(retries=retries)) as cluster:
        plan = plan_switch(cluster, target.index, wanted, text_field)
        if plan.stage == "done":
            message(f"{target.index!r} has scheme {plan.meta.scheme.id} already")
            return
        with DeadLetterFile(Path(f"{target.index}.dead-letter.jsonl")) as letters:
            work = _Work(target, cluster, plan, effort, letters, wants_json(as_json))
            if plan.stage in ("begin", "fill"):
                work.fill()
            if not keep:
                work.forget(yes)


@dataclass(frozen=True)
class _Work:
    target: ClusterTarget
    cluster: Cluster
    plan: SwitchPlan
    effort: Effort
    letters: DeadLetterFile
    as_json: bool

    def fill(self) -> None:
        """Fills in the new tokens, and makes searches use them."""
        plan, name, following = self.plan, self.plan.name, self.plan.following
        if plan.stage == "begin":
            message(f"From scheme {plan.meta.scheme.id} in the field {plan.meta.field!r}")
            message(f"to scheme {following.scheme.id} in the field {following.field!r}:")
            message(json.dumps(index_mapping(following)["properties"]))
            begin(self.cluster, plan)
        _wait("until every writer fills both")
        total = ChangeReport()
        for _ in range(_ROUNDS):
            filling = plan_backfill(self.cluster, name, following=True, effort=self.effort)
            tell_left_out(filling)
            if filling.left_out:
                raise StoreError(f"{name!r} can't change its scheme while indices are left out")
            report = self._run(filling)
            total += report
            if report.failures:
                raise StoreError(
                    f"{not_updated(report)} (see {self.letters.path}): searches go on with the old"
                    f" scheme. Run esdedup switch --index {name} again"
                )
            if not report.written:
                break
        show(total, f"Scheme {following.scheme.id} of {name!r}", 0, self.as_json)
        complete(self.cluster, plan)
        if plan.meta.stop:
            message(
                f"The stop list ({len(plan.meta.stop):,} tokens) was of the old scheme and is empty"
                " now: esdedup stats --hot shows the large buckets of the new one"
            )
        message(f"Searches use scheme {following.scheme.id} from now on")

    def forget(self, yes: bool) -> None:
        """Asks, and removes the old tokens."""
        name = self.plan.name
        again = f"esdedup switch --index {name} --yes"
        forgetting = plan_forgetting(self.cluster, name, self.effort)
        former = forgetting.meta.former
        documents = count(forgetting.waiting, "document")
        question = f"Remove the old tokens, in the field {former!r}, from {documents}?"
        if not agreed(question, yes):
            message(f"{question} Not without a yes: {again}")
            return
        _wait("until no reader uses them")
        tell_left_out(forgetting)
        report = self._run(forgetting)
        show(report, f"Field {former!r} of {name!r}, emptied", 0, self.as_json)
        if report.failures:
            raise StoreError(f"{not_updated(report)}: see {self.letters.path}")
        if forgetting.left_out:
            raise StoreError(f"the indices left out still have the field: {again}")
        finish(self.cluster, self.plan)

    def _run(self, plan: BackfillPlan) -> ChangeReport:
        return fill(self.target, self.cluster, plan, self.effort, self.letters)


def _wait(why: str) -> None:
    message(f"Waiting {WAIT_SECONDS:.0f} s {why}")
    time.sleep(WAIT_SECONDS)
