"""Operate indices: those that other programs write to, their roles, stop lists and servers.

    from esdedup import Scheme, admin

    admin.attach("https://localhost:9200", "news", text_field="body")
    admin.backfill("https://localhost:9200", "news", admin.Effort(workers=4))
    assert admin.check("https://localhost:9200", "news").good
    admin.switch("https://localhost:9200", "news", Scheme(seed=2))

Every function on a cluster accepts a URL, an `esdedup.Connection`, or a cluster that is already
connected (`connected`). `plan_attach` and `plan_backfill` return what there is to do without
changing anything; `attach` and `backfill` also accept such a plan.
"""

from esdedup.admin.attach import AttachPlan, MappingChange, attach, plan_attach, plan_next
from esdedup.admin.backfill import BackfillPlan, Effort, backfill, plan_backfill
from esdedup.admin.check import Check, IndexCheck, Tally, check
from esdedup.admin.component_templates import (
    TemplatePlan,
    install_template,
    next_has_fields,
    plan_template,
)
from esdedup.admin.obstacles import Obstacle
from esdedup.admin.readiness import check_ready, check_writable
from esdedup.admin.roles import Product, role, roles_of, roles_path
from esdedup.admin.servers import ReviewPages, serve_proxy, serve_review
from esdedup.admin.switch import SwitchPlan, execute_switch, plan_switch, switch
from esdedup.analysis.design import SchemeDesign, design_scheme
from esdedup.analysis.explain import Explanation
from esdedup.analysis.sampling import Sample
from esdedup.analysis.tuning import Choice
from esdedup.analysis.weighing import Weighed, Weighing, weigh
from esdedup.index import ListedIndex, indices, sample_neighbours
from esdedup.ingest.ingest import IngestSettings
from esdedup.ingest.parallel import be_a_program
from esdedup.ingest.places import Places
from esdedup.ingest.policies import PolicyAction
from esdedup.models import Failure
from esdedup.proxy.settings import Settings as ProxySettings
from esdedup.removal.log import Action, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport
from esdedup.search.hot_buckets import HotBucket, HotBuckets
from esdedup.stores import Cluster
from esdedup.stores import reached as connected
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import connection_to, seconds
from esdedup.stores.elastic.component_templates import advice as advice_on_next
from esdedup.stores.elastic.indices import IndexState, Named

__all__ = [
    "Action", "AttachPlan", "BackfillPlan", "ChangeReport", "Check", "Choice", "Cluster",
    "DedupReport", "Effort", "Explanation", "Failure", "HotBucket", "HotBuckets", "IndexCheck",
    "IndexState", "IngestSettings", "ListedIndex", "LogReader", "MappingChange", "Named",
    "Obstacle", "Places", "PolicyAction", "Product", "ProxySettings", "ReviewPages", "Sample",
    "SchemeDesign", "SwitchPlan", "Tally", "TemplatePlan", "UndoReport", "Weighed", "Weighing",
    "advice_on_next", "attach", "backfill", "be_a_program", "check", "check_ready",
    "check_writable", "connected", "connection_to", "design_scheme", "execute_switch", "indices",
    "install_template", "next_has_fields", "plan_attach", "plan_backfill", "plan_next",
    "plan_switch", "plan_template", "role", "roles_of", "roles_path", "sample_neighbours",
    "seconds", "serve_proxy", "serve_review", "switch", "weigh",
]  # fmt: skip
