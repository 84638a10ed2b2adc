"""Add tokens to indices that other programs write to, check them, and change their scheme.

    from esdedup import Scheme, admin

    admin.attach("https://localhost:9200", "news", text_field="body")
    admin.backfill("https://localhost:9200", "news", admin.Effort(workers=4))
    assert admin.check("https://localhost:9200", "news").good
    admin.switch("https://localhost:9200", "news", Scheme(seed=2))

Every function accepts a URL, an `esdedup.Connection`, or a cluster that is already connected
(`esdedup.stores.Cluster`). `plan_attach` and `plan_backfill` return what there is to do without
changing anything; `attach` and `backfill` also accept such a plan.
"""

from esdedup.admin.attach import AttachPlan, MappingChange, attach, plan_attach
from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_backfill
from esdedup.admin.check import Check, IndexCheck, Tally, check
from esdedup.admin.obstacles import Obstacle
from esdedup.admin.switch import SwitchPlan, switch
from esdedup.stores.changes import ChangeReport
from esdedup.stores.elastic.indices import IndexState, Named

__all__ = [
    "AttachPlan", "BackfillPlan", "ChangeReport", "Check", "Effort", "IndexCheck", "IndexState",
    "MappingChange", "Named", "Obstacle", "SwitchPlan", "Tally", "attach",
    "backfill", "check", "plan_attach", "plan_backfill", "switch",
]  # fmt: skip
