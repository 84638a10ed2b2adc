"""esdedup attach, template, check: token fields in an index that other programs write to."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from typer import Exit, echo

from esdedup import UsageError, admin
from esdedup.cli import options, output
from esdedup.cli.command import setting
from esdedup.cli.options import ClusterTarget, SchemeOptions
from esdedup.cli.output import count, message
from esdedup.cli.setting_names import with_options


def _external_versions() -> Any:
    return setting(
        None,
        "Keep the version numbers that the owner gives documents.",
        "--external-versions/--no-external-versions",
    )


def attach_command(
    target: ClusterTarget,
    sketching: SchemeOptions,
    field: str | None = options.field(),
    distance: int | None = options.distance(),
    cosine: float | None = options.cosine(),
    server: bool = options.server(),
    external_versions: bool | None = _external_versions(),
    dry_run: bool = options.dry_run(),
    yes: bool = options.yes(),
    as_json: bool = setting(False, "Print the requests of the change as JSON lines.", "--json"),
) -> None:
    """Add the token fields to an index that exists.

    Example: esdedup attach --index news --text-field body

    An alias or a data stream means all its indices. --dry-run shows the change without making it.
    Nothing else in the mapping changes, and no document. With --server, each index is closed for a
    moment, after asking: only then do servers take new analyzers.
    """
    scheme, text_field = sketching.scheme_and_fields(distance, server, cosine)
    with target.connected() as cluster:
        plan = admin.plan_attach(
            cluster, target.index, scheme, text_field, field, external_versions
        )
        if not dry_run:
            plan.check()
        for change in plan.changes:
            requests = _requests(change, cluster.is_opensearch)
            if as_json or dry_run:
                _show_requests(requests, as_json)
            if change.mapping is None and not as_json:
                echo(f"{change.index}: attached already")
            message(*map(str, change.obstacles))
        if plan.named.kind == "data stream":
            template = admin.plan_template(cluster, plan)
            if as_json or dry_run:
                _show_requests([_Request.of(template)], as_json)
            message(*map(str, template.obstacles))
        if dry_run:
            return
        if closed := [
            change.index for change in plan.changes if change.mapping and change.analysis
        ]:
            message("While an index is closed, all of its searches and writes fail")
            output.confirm(f"Close and open {', '.join(closed)}?", yes)
        admin.attach(cluster, plan)
        if plan.named.kind == "data stream":
            message(admin.advice_on_next(cluster, plan))
        missing = admin.missing_tokens(cluster, plan)
    changed = sum(change.mapping is not None for change in plan.changes)
    indices = count(len(plan.changes), "index", "indices")
    field = plan.meta.analyzed if plan.meta.scheme.by_server else plan.meta.field
    if changed:
        message(f"{changed} of {indices} got the field {field!r} at {target.address}")
    if missing != 0 and any(not change.stopped for change in plan.changes):
        message(f"Documents that are there already: esdedup backfill --index {target.index}")


@dataclass(frozen=True)
class _Request:
    """A request to the server.

    method: PUT or POST.
    path: of the address, and what follows.
    body: as JSON, or None.
    """

    method: str
    path: str
    body: Any = None

    @staticmethod
    def of(template: admin.TemplatePlan) -> "_Request":
        """Return the request that installs a component template."""
        return _Request("PUT", f"_component_template/{template.name}", template.body)


def _requests(change: admin.MappingChange, is_opensearch: bool) -> list[_Request]:
    """Return the requests that add the fields to an index."""
    index = change.index
    requests = [_Request("POST", f"{index}/_open")] if change.opens else []
    if change.mapping is None:
        return requests
    settings = {"analysis": change.analysis}
    if change.analysis and is_opensearch:
        requests.append(_Request("POST", f"{index}/_close"))
        requests.append(_Request("PUT", f"{index}/_settings", settings))
        requests.append(_Request("POST", f"{index}/_open"))
    elif change.analysis:
        requests.append(_Request("PUT", f"{index}/_settings?reopen=true", settings))
    return [*requests, _Request("PUT", f"{index}/_mapping", change.mapping)]


def _show_requests(requests: Sequence[_Request], as_json: bool) -> None:
    for request in requests:
        if as_json:
            output.print_json(asdict(request))
            continue
        echo(f"{request.method} {request.path}")
        if request.body is not None:
            echo(json.dumps(request.body, indent=2, ensure_ascii=output.only_plain()))


def template_command(
    target: ClusterTarget,
    sketching: SchemeOptions,
    field: str | None = options.field(),
    distance: int | None = options.distance(),
    cosine: float | None = options.cosine(),
    server: bool = options.server(),
    external_versions: bool | None = _external_versions(),
    install: bool = setting(False, "Install the template instead of showing it."),
) -> None:
    """Show or install the template for the next indices of a name.

    Example: esdedup template --index logs --install

    It is a component template. Your own index templates do not change: name it in their
    composed_of. Before the first index exists, --text-field and --scheme describe it.
    """
    scheme, text_field = sketching.scheme_and_fields(distance, server, cosine)
    with target.connected() as cluster:
        plan = admin.plan_next(cluster, target.index, scheme, text_field, field, external_versions)
        template = admin.plan_template(cluster, plan)
        _show_requests([_Request.of(template)], as_json=False)
        message(*map(str, template.obstacles))
        if install:
            admin.install_template(cluster, plan)
            message(f"component template {template.name!r} is installed at {target.address}")
        message(admin.advice_on_next(cluster, plan))


def check_command(
    target: ClusterTarget,
    no_stale: bool = setting(False, "Skip the search for stale tokens, which reads all texts."),
    role: list[str] | None = setting(
        None,
        "Print the least role for this command instead; may be repeated.",
        metavar="COMMAND",
    ),
    to: str | None = setting(None, "With --role: the index to move to.", metavar="INDEX"),
    product: admin.Product | None = setting(
        None, "With --role: the product.", show_default="the cluster's"
    ),
    as_json: bool = options.as_json(),
) -> None:
    """Find documents of an index without tokens.

    Example: esdedup check --index news

    Counts documents without tokens, with stale ones, or with those of another scheme, and
    duplicates whose original is gone, and checks the mapping. The exit status is 1 if there is
    something to do.

    With --role, prints the least rights of commands as one role, to send to the server. --index is
    a name there, or a pattern such as logs-*.
    """
    if role:
        if product is None:
            if not target.url and not target.cloud_id:
                raise UsageError("name the product (--product), or the cluster (--url)")
            with target.connected() as cluster:
                product = "opensearch" if cluster.is_opensearch else "elasticsearch"
        rights = admin.role(role, product, target.index, to)
        echo(json.dumps(rights, indent=None if as_json else 2, ensure_ascii=output.only_plain()))
        message(f"To create it: PUT /{admin.roles_path(product)}/NAME")
        return
    if to is not None or product is not None:
        raise UsageError("--to and --product require --role")
    with target.connected() as cluster, output.Progress("Checking") as progress:
        report = admin.check(cluster, target.index, stale=not no_stale, on_scan=progress.count)
    for check in report.indices:
        if as_json:
            output.print_json(_findings(check))
            continue
        if check.meta is None:
            number = check.documents
            documents = "" if number is None else f", {count(number, 'document')}"
            echo(f"{check.index}: not attached{documents}")
        else:
            output.print_facts(_facts(_findings(check)))
        message(*map(str, check.obstacles))
    _advise(report, target.index)
    if not report.good:
        raise Exit(1)


def _findings(check: admin.IndexCheck) -> dict[str, Any]:
    meta = check.meta
    counted = check.sketched is not None
    return {
        "index": check.index,
        "attached": meta is not None,
        "scheme_id": meta and meta.full_scheme.id,
        "text_fields": meta and meta.text_fields,
        "field": meta and meta.field,
        "next_scheme_id": meta and meta.next and meta.next.full_scheme.id,
        "documents": check.documents,
        "with_tokens": check.sketched,
        "without_tokens": asdict(check.bare) if counted else None,
        "other_scheme": asdict(check.other) if counted else None,
        "stale": check.stale and asdict(check.stale),
        "original_gone": asdict(check.bereft) if counted else None,
        "obstacles": [
            {
                "name": obstacle.name,
                "stops": obstacle.stops,
                "reason": with_options(obstacle.reason),
            }
            for obstacle in check.obstacles
        ],
    }


def _facts(findings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of a table."""
    for name, value in findings.items():
        if isinstance(value, dict):
            value = ": ".join(filter(None, [f"{value['count']:,}", ", ".join(value["examples"])]))
        elif name == "stale":
            value = "not looked for"
        elif isinstance(value, tuple):
            value = ", ".join(value)
        if value is not None and name not in ("attached", "obstacles"):
            yield name.replace("_", " "), f"{value:,}" if type(value) is int else str(value)


def _advise(report: admin.Check, name: str) -> None:
    """Advise what to do."""
    indices = report.indices
    if any(
        check.meta is None and all(obstacle.stops != "attach" for obstacle in check.obstacles)
        for check in indices
    ):
        message(f"To add the fields: esdedup attach --index {name}")
    blocked = {
        obstacle.index
        for check in indices
        for obstacle in check.obstacles
        if obstacle.stops != "nothing"
    }
    fillable = [check for check in indices if check.index not in blocked]
    is_missing = any(check.bare.count or check.other.count for check in fillable)
    if any(check.stale is not None and check.stale.count for check in fillable):
        what = (
            "fill in missing tokens, and renew stale ones" if is_missing else "renew stale tokens"
        )
        message(f"To {what}: esdedup backfill --index {name} --stale")
    elif is_missing:
        message(f"To fill in tokens: esdedup backfill --index {name}")
    if any(check.bereft.count for check in indices):
        message(
            "Documents whose original is gone stay hidden with the duplicates. To group them again:"
            f" esdedup group --index {name}"
        )
    if report.repeated.count:
        have = count(report.repeated.count, "document has", "documents have")
        message(
            f"{have} the id of a document in another index, first {report.repeated.first}: commands"
            " compare both, and show them as INDEX/ID"
        )
    if any(check.meta is not None and check.meta.scheme.by_server for check in indices):
        message("The index computes the tokens when a document is written: none can be stale")
    if len(report.schemes) > 1:
        message(f"The indices hold different schemes: {', '.join(report.schemes)}")
    message(report.advice_on_next)
