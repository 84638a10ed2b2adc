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

from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup.admin.attaching import (
        AttachPlan,
        MappingChange,
        attach,
        missing_tokens,
        plan_attach,
        plan_next,
    )
    from esdedup.admin.backfilling import BackfillPlan, Effort, backfill, plan_backfill
    from esdedup.admin.checking import Check, IndexCheck, Tally, check
    from esdedup.admin.component_templates import (
        TemplatePlan,
        advice_on_next,
        install_template,
        plan_template,
    )
    from esdedup.admin.diagnosis import Diagnosis, diagnose
    from esdedup.admin.installation import Installation, describe_installation
    from esdedup.admin.obstacles import Obstacle
    from esdedup.admin.readiness import check_ready, check_writable
    from esdedup.admin.roles import Product, role, roles_of, roles_path
    from esdedup.admin.servers import ReviewPages, serve_proxy, serve_review
    from esdedup.admin.switching import SwitchPlan, execute_switch, plan_switch, switch
    from esdedup.analysis.design import SchemeDesign, design_by_cost, design_scheme
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
    from esdedup.proxy.settings import ProxySettings
    from esdedup.removal.log import Action, LogReader
    from esdedup.removal.remove import DedupReport
    from esdedup.removal.undo import UndoReport
    from esdedup.search.hot_buckets import HotBucket, HotBuckets
    from esdedup.stores import Cluster, connected
    from esdedup.stores.changes import ChangeReport
    from esdedup.stores.connection import connection_to, seconds
    from esdedup.stores.elastic.indices import IndexState, Named

__all__ = [
    "Action", "AttachPlan", "BackfillPlan", "ChangeReport", "Check", "Choice", "Cluster",
    "DedupReport", "Diagnosis", "Effort", "Explanation", "Failure", "HotBucket", "HotBuckets",
    "IndexCheck", "IndexState", "IngestSettings", "Installation", "ListedIndex", "LogReader",
    "MappingChange", "Named", "Obstacle", "Places", "PolicyAction", "Product", "ProxySettings",
    "ReviewPages", "Sample", "SchemeDesign", "SwitchPlan", "Tally", "TemplatePlan", "UndoReport",
    "Weighed", "Weighing", "advice_on_next", "attach", "backfill", "be_a_program", "check",
    "check_ready", "check_writable", "connected", "connection_to", "describe_installation",
    "design_by_cost", "design_scheme", "diagnose", "execute_switch", "indices",
    "install_template", "missing_tokens", "plan_attach", "plan_backfill", "plan_next",
    "plan_switch", "plan_template", "role", "roles_of", "roles_path", "sample_neighbours",
    "seconds", "serve_proxy", "serve_review", "switch", "weigh",
]  # fmt: skip

_MODULES = {
    "admin.attaching": "AttachPlan MappingChange attach missing_tokens plan_attach plan_next",
    "admin.backfilling": "BackfillPlan Effort backfill plan_backfill",
    "admin.checking": "Check IndexCheck Tally check",
    "admin.component_templates": "TemplatePlan advice_on_next install_template plan_template",
    "admin.diagnosis": "Diagnosis diagnose",
    "admin.installation": "Installation describe_installation",
    "admin.obstacles": "Obstacle",
    "admin.readiness": "check_ready check_writable",
    "admin.roles": "Product role roles_of roles_path",
    "admin.servers": "ReviewPages serve_proxy serve_review",
    "admin.switching": "SwitchPlan execute_switch plan_switch switch",
    "analysis.design": "SchemeDesign design_by_cost design_scheme",
    "analysis.explain": "Explanation",
    "analysis.sampling": "Sample",
    "analysis.tuning": "Choice",
    "analysis.weighing": "Weighed Weighing weigh",
    "index": "ListedIndex indices sample_neighbours",
    "ingest.ingest": "IngestSettings",
    "ingest.parallel": "be_a_program",
    "ingest.places": "Places",
    "ingest.policies": "PolicyAction",
    "models": "Failure",
    "proxy.settings": "ProxySettings",
    "removal.log": "Action LogReader",
    "removal.remove": "DedupReport",
    "removal.undo": "UndoReport",
    "search.hot_buckets": "HotBucket HotBuckets",
    "stores": "Cluster connected",
    "stores.changes": "ChangeReport",
    "stores.connection": "connection_to seconds",
    "stores.elastic.indices": "IndexState Named",
}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        """Import what a program uses when it first uses it."""
        return import_name(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return [*__all__]
