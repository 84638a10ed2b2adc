"""Show and install the component template that gives the next indices of a name our fields."""

from dataclasses import dataclass

from esdedup.admin.attaching import AttachPlan
from esdedup.admin.obstacles import Obstacle, obstacles
from esdedup.stores import Cluster
from esdedup.stores.elastic import component_templates
from esdedup.stores.elastic.bodies import Body


@dataclass(frozen=True)
class TemplatePlan:
    """The component template of a name.

    name: of the template.
    body: of the request that installs it.
    obstacles: to the fields in the next index, as far as its settings are known.
    """

    name: str
    body: Body
    obstacles: tuple[Obstacle, ...]


def plan_template(cluster: Cluster, plan: AttachPlan) -> TemplatePlan:
    """Return the component template for the next indices behind the name of a plan."""
    state = component_templates.next_state(cluster, plan.named)
    doc_values = state is not None and state.rebuilds_source
    in_the_way = [] if state is None else obstacles(state, plan.meta, text_known=False)
    return TemplatePlan(
        component_templates.template_name(plan.named.name),
        component_templates.template_body(plan.meta, doc_values=doc_values),
        tuple(in_the_way),
    )


def install_template(cluster: Cluster, plan: AttachPlan) -> None:
    """Install the component template for the next indices behind the name of a plan."""
    component_templates.put_template(cluster, plan.named, plan.meta)


def advice_on_next(cluster: Cluster, plan: AttachPlan) -> str | None:
    """Return what remains to do, so that the next indices behind the name have our fields."""
    return component_templates.advice_on_next(cluster, plan.named, plan.meta)
