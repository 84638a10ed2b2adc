"""Gives tokens to indices that other programs write to, checks them, and changes their scheme.

    from esdedup import Scheme, admin

    admin.attach("https://localhost:9200", "news", text_field="body")
    admin.backfill("https://localhost:9200", "news", admin.Effort(workers=4))
    assert admin.check("https://localhost:9200", "news").good
    admin.switch("https://localhost:9200", "news", Scheme(seed=2))

Every function takes a URL, an `esdedup.Connection`, or a cluster that is connected already
(`esdedup.stores.connect`). `plan_attach`, `plan_backfill` and `plan_sidecar` change nothing and
return what there is to do; `attach`, `backfill` and `fill_sidecar` also take such a plan.
"""

from esdedup.admin.attach import AttachPlan, MappingChange, attach, plan_attach
from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_backfill
from esdedup.admin.check import Check, IndexCheck, Tally, check
from esdedup.admin.preflight import Obstacle
from esdedup.admin.sidecar import SidecarPlan, fill_sidecar, plan_sidecar
from esdedup.admin.switch import SwitchPlan, SwitchReport, switch
from esdedup.stores.changes import ChangeReport
from esdedup.stores.elastic.indices import IndexState, Named
from esdedup.stores.elastic.templates import TemplatePlan

__all__ = [
    "AttachPlan", "BackfillPlan", "ChangeReport", "Check", "Effort", "IndexCheck", "IndexState",
    "MappingChange", "Named", "Obstacle", "SidecarPlan", "SwitchPlan", "SwitchReport", "Tally",
    "TemplatePlan", "attach", "backfill", "check", "fill_sidecar", "plan_attach", "plan_backfill",
    "plan_sidecar", "switch",
]  # fmt: skip
