"""Options that several commands share: the index, its cluster, the metric, the grouping.

Each option is an annotated type. Options that belong together are a dataclass; `with_target` puts
them in the place of the parameter that names it.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from esdedup.arguments import from_settings
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Method
from esdedup.index import DEFAULT_FILE, DEFAULT_INDEX, Index, open
from esdedup.models import Metric
from esdedup.search.limits import ACTING, LOOKING, MAX_PER_BUCKET, RECALL
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, reached
from esdedup.stores.connection import Connection, connection_to, seconds
from esdedup.stores.to_json import json_fault


def _place(variable: str, help: str, *names: str, panel: str = "Connection", **more: Any) -> Any:
    """An option that says where an index is, with its environment variable."""
    return Option(*names, envvar=f"ESDEDUP_{variable}", rich_help_panel=panel, help=help, **more)


_index = functools.partial(_place, panel="Index")
Db = Annotated[
    Path | None, _index("DB", "A local file.", dir_okay=False, show_default=DEFAULT_FILE)
]
Url = Annotated[
    str | None, _index("URL", "A cluster, http(s)://host:port; more nodes with commas.")
]
IndexName = Annotated[str, _index("INDEX", "Its name there.", "--index", "-i")]
AttachedName = Annotated[
    str, _index("INDEX", "An index, an alias, or a data stream.", "--index", "-i")
]
Username = Annotated[str | None, _place("USERNAME", "User name.")]
Password = Annotated[
    str | None, _place("PASSWORD", "Password; the variable keeps it private.", show_default=False)
]
ApiKey = Annotated[str | None, _place("API_KEY", "API key, encoded or id:key.", show_default=False)]
BearerToken = Annotated[str | None, _place("BEARER_TOKEN", "Bearer token.", show_default=False)]
CaCerts = Annotated[str | None, _place("CA_CERTS", "File of authorities to trust.")]
CertFingerprint = Annotated[
    str | None, _place("CERT_FINGERPRINT", "SHA-256 of the certificate to trust instead.")
]
CloudId = Annotated[str | None, _place("CLOUD_ID", "Elastic Cloud's id.")]
Timeout = Annotated[float, _place("TIMEOUT", "Seconds that a request may take.", min=0.1)]
RetryFor = Annotated[
    str,
    _place(
        "RETRY_FOR",
        "Send failed requests again for this time: 30s, 5m, 1h, 0.",
        metavar="TIME",
    ),
]

FieldOption = Annotated[
    str | None,
    Option(
        "--field",
        show_default="the index's own; esdedup for a new one",
        help="Field for the tokens; begins with esdedup.",
    ),
]
SchemeOption = Annotated[
    Path | None,
    Option(
        "--scheme",
        show_default="the index's own; the default one for a new index",
        help="Scheme file, as esdedup scheme makes it.",
    ),
]
TextField = Annotated[
    list[str] | None,
    Option(
        show_default="the index's own; text for a new one",
        help="Field of the text; may be repeated.",
    ),
]
FilterOption = Annotated[
    list[str] | None,
    Option(
        "--filter",
        metavar="JSON",
        show_default=False,
        help='A query that matches must meet too, such as {"term": {"tenant": "a"}}; may be'
        " repeated.",
    ),
]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be done, and change nothing.")]
Workers = Annotated[int, Option(min=1, help="Processes on this machine.")]
MaxRate = Annotated[float | None, Option(help="Most documents a second, to spare the cluster.")]
Work = Annotated[
    str | None,
    Option(
        "--work",
        metavar="DIRECTORY",
        show_default="FILE.INDEX.group, or INDEX@HOST.group",
        help="Folder to go on from after a stop; for Spark, a URI.",
    ),
]
DeadLetterPath = Annotated[
    Path | None,
    Option(
        "--dead-letter",
        show_default="INDEX.dead-letter.jsonl",
        help="File to append documents to that failed.",
    ),
]
AsJson = Annotated[
    bool | None,
    Option(
        "--json/--table",
        show_default="a table on a terminal, else JSON",
        help="Print JSON lines, or a table.",
    ),
]
MetricOption = Annotated[Metric, Option("--metric", "-m", help="What similar means.")]
Looking = Annotated[
    float | None,
    Option("--threshold", "-t", show_default=str(LOOKING), help="Least Jaccard similarity."),
]
Acting = Annotated[
    float | None,
    Option("--threshold", "-t", show_default=str(ACTING), help="Least Jaccard similarity."),
]
Distance = Annotated[
    int | None,
    Option(
        "--distance",
        "-d",
        show_default="what the segments guarantee",
        help="Most differing bits, with --metric hamming.",
    ),
]
Recall = Annotated[
    float, Option(help="Share to find at the threshold; less is quicker, above 0, below 1.")
]
MaxPerBucket = Annotated[
    int, Option(min=1, metavar="N", help="Compare a document with at most N others of a bucket.")
]
MethodOption = Annotated[
    Method,
    Option(
        help="leader: duplicates are within the threshold of their representative; components: a"
        " chain of similar documents makes one group."
    ),
]
KeepOption = Annotated[
    str,
    Option(
        "--keep",
        metavar="RULE",
        help="The representative: first or last (by id), first:FIELD or last:FIELD (also oldest:,"
        " newest:), longest, shortest.",
    ),
]
Exact = Annotated[bool, Option("--exact", help="Only equal texts, after normalisation.")]
SplitTemplates = Annotated[
    bool,
    Option("--split-templates", help="Take apart documents that fill one template differently."),
]


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """The options that say how to reach a cluster."""

    url: Url = None
    timeout: Timeout = 60.0
    retry_for: RetryFor = "5m"
    username: Username = None
    password: Password = field(default=None, repr=False)
    api_key: ApiKey = field(default=None, repr=False)
    bearer_token: BearerToken = field(default=None, repr=False)
    ca_certs: CaCerts = None
    cert_fingerprint: CertFingerprint = None
    cloud_id: CloudId = None

    def __post_init__(self) -> None:
        """Raise UsageError for an empty value, which may be a failed expansion in a script."""
        for each in fields(self):
            value, variable = getattr(self, each.name), _variable_of(each.name)
            # Variables that are empty count as absent before they come here.
            given = _variable(each.name)
            if value == each.default and given is not None and not given.strip():
                raise UsageError(f"{variable} is set, but empty: unset it, or give it a value")
            require_value(f"{option_of(each.name)} or {variable}", value)

    def connection(self) -> Connection:
        """The connection to the cluster. Raises UsageError if no address is given."""
        if not self.url and not self.cloud_id:
            raise UsageError("name the cluster: --url or ESDEDUP_URL")
        given = {each.name: getattr(self, each.name) for each in fields(_Cluster)}
        try:
            given["retry_for"] = seconds(self.retry_for)
        except ValueError as error:
            raise UsageError(f"--retry-for: {error}") from error
        return connection_to(fingerprint=given.pop("cert_fingerprint"), **given)


@dataclass(frozen=True, kw_only=True)
class ClusterTarget(_Cluster):
    """The options of a command on an index that others write to."""

    index: AttachedName

    @property
    def address(self) -> str:
        """The addresses of the cluster, without credentials."""
        return self.connection().shown

    def connected(self) -> AbstractContextManager[Cluster]:
        """The cluster, closed at the end."""
        return reached(self.connection())


@dataclass(frozen=True, kw_only=True)
class Target(_Cluster):
    """The options of a command on an index in a cluster or a file."""

    index: IndexName = DEFAULT_INDEX
    db: Db = None

    @property
    def where(self) -> Connection | Path:
        """The cluster or the file that holds the index.

        An option counts before an environment variable. Raises UsageError if both are named alike.
        """
        cluster = "url" if self.url else "cloud_id"
        address = self.url or self.cloud_id
        if self.db is None or address is None:
            return self.connection() if address else self.db or Path(DEFAULT_FILE)
        typed = [str(self.db) != _variable("db"), address != _variable(cluster)]
        if typed[0] == typed[1]:
            names = map(option_of if typed[0] else _variable_of, ("db", cluster))
            raise UsageError(f"{' and '.join(names)} name two places: leave one out")
        return self.db if typed[0] else self.connection()

    def open(self, scheme: Scheme | None = None, text_field: Sequence[str] | None = None) -> Index:
        """The index that the options name."""
        return open(self.where, self.index, scheme=scheme, text_field=text_field)


@dataclass(frozen=True)
class GroupingOptions:
    """The options of a command that groups documents."""

    threshold: Acting = None
    method: MethodOption = "leader"
    keep: KeepOption = "first"
    exact: Exact = False
    split_templates: SplitTemplates = False
    metric: MetricOption = "jaccard"
    distance: Distance = None
    recall: Recall = RECALL
    max_per_bucket: MaxPerBucket = MAX_PER_BUCKET

    def grouping(self) -> Grouping:
        """The grouping that the options name. Raises UsageError if one is out of range."""
        given = self.metric, self.threshold, self.distance
        if self.exact and given != ("jaccard", None, None):
            raise UsageError("--exact can't be combined with --metric, --threshold or --distance")
        check_metric_options(*given)
        threshold = ACTING if self.threshold is None else self.threshold
        return from_settings(Grouping, {**asdict(self), "threshold": threshold})


def option_of(name: str) -> str:
    """The option that an argument comes from."""
    return f"--{name.replace('_', '-')}"


def _variable_of(name: str) -> str:
    return f"ESDEDUP_{name.upper()}"


def _variable(name: str) -> str | None:
    return os.environ.get(_variable_of(name))


def require_value(option: str, value: object) -> None:
    """Raise UsageError for an empty value, which may be a failed expansion in a script."""
    # An empty path is the current folder by the time it comes here.
    empty = ("", ".") if isinstance(value, Path) else ("",)
    if isinstance(value, str | Path) and str(value).strip() in empty:
        raise UsageError(f"{option} is empty: leave it out, or name it")


def check_metric_options(metric: str, threshold: float | None, distance: int | None) -> None:
    """Raise UsageError if a limit belongs to the other metric."""
    if metric == "jaccard" and distance is not None:
        raise UsageError("--distance goes with --metric hamming")
    if metric == "hamming" and threshold is not None:
        raise UsageError("--threshold goes with --metric jaccard")


def scheme_in(path: Path | None) -> Scheme | None:
    """The scheme in a file, if one is named. Raises UsageError if it can't be read."""
    if path is None:
        return None
    try:
        if not (text := path.read_text("utf-8")).strip():
            raise UsageError("it is empty")
        return Scheme.from_json(json.loads(text))
    except OSError as error:
        raise UsageError(f"scheme file {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, character {error.colno}"
        raise UsageError(f"scheme file {path}: {json_fault(error)} at {place}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"scheme file {path}: {json_fault(error)}") from error


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer takes it: a set of options becomes its options, the target's the last."""
    first, *others = inspect.signature(command, eval_str=True).parameters.values()
    kinds = {each.name: each.annotation for each in (first, *others)}
    kinds = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    options: list[inspect.Parameter] = []
    for each in (*others, first):
        kind = kinds.get(each.name)
        own = inspect.signature(kind, eval_str=True).parameters.values() if kind else [each]
        options += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own]

    def run(**arguments: Any) -> None:
        sets = {
            name: kind(**{option.name: arguments.pop(option.name) for option in fields(kind)})
            for name, kind in kinds.items()
        }
        others = [vars(each) for each in sets.values() if not isinstance(each, _Cluster)]
        for name, value in {**arguments, **dict(ChainMap(*others))}.items():
            require_value(option_of(name), value)
        command(**sets, **arguments)

    run.__doc__ = command.__doc__
    # Typer reads the options from the signature and from the annotations.
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
