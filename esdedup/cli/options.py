"""Options that several commands share, and the index that they name.

Options of the commands that group documents.

Scheme files, and a scheme in words.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from esdedup.dedup.groups import Grouping, Method
from esdedup.dedup.representative import KeepRule
from esdedup.exceptions import UsageError
from esdedup.index import DEFAULT_FILE, DEFAULT_INDEX, Index, open
from esdedup.models import Metric
from esdedup.search.limits import ACTING, LOOKING, MAX_PER_BUCKET, RECALL, Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores import BulkPolicy, Cluster, connect
from esdedup.stores.connection import Connection, connection_to

DEFAULT_THRESHOLD = LOOKING
_WHERE = "Where the index is"
_CREDENTIALS = "Credentials of a cluster"
Url = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_URL",
        rich_help_panel=_WHERE,
        help="Elasticsearch or OpenSearch, http(s)://host:port; several nodes with commas."
        " Without it, a local file.",
    ),
]
Db = Annotated[
    Path,
    typer.Option(
        envvar="ESDEDUP_DB", rich_help_panel=_WHERE, dir_okay=False, help="The local file."
    ),
]
IndexName = Annotated[
    str,
    typer.Option("--index", "-i", envvar="ESDEDUP_INDEX", rich_help_panel=_WHERE, help="Its name."),
]
Username = Annotated[
    str | None,
    typer.Option(envvar="ESDEDUP_USERNAME", rich_help_panel=_CREDENTIALS, help="User name."),
]
Password = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_PASSWORD",
        rich_help_panel=_CREDENTIALS,
        show_default=False,
        help="Password; the environment variable keeps it out of the process list.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_API_KEY",
        rich_help_panel=_CREDENTIALS,
        show_default=False,
        help="API key, encoded or id:key.",
    ),
]
BearerToken = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_BEARER_TOKEN",
        rich_help_panel=_CREDENTIALS,
        show_default=False,
        help="Bearer token.",
    ),
]
CaCerts = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_CA_CERTS",
        rich_help_panel=_CREDENTIALS,
        help="File of certificate authorities to trust.",
    ),
]
CertFingerprint = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_CERT_FINGERPRINT",
        rich_help_panel=_CREDENTIALS,
        help="SHA-256 of the server's certificate, in place of an authority.",
    ),
]
CloudId = Annotated[
    str | None,
    typer.Option(
        envvar="ESDEDUP_CLOUD_ID", rich_help_panel=_CREDENTIALS, help="Elastic Cloud's id."
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        envvar="ESDEDUP_TIMEOUT",
        rich_help_panel=_WHERE,
        min=0.1,
        help="Seconds that a request to a cluster may take.",
    ),
]
IndexOption = Annotated[
    str,
    typer.Option("--index", "-i", envvar="ESDEDUP_INDEX", help="Index, alias or data stream."),
]
FieldOption = Annotated[
    str | None,
    typer.Option(
        "--field",
        show_default="the index's own; esdedup for a new one",
        help="Name of the field for the tokens; begins with esdedup.",
    ),
]
SchemeOption = Annotated[
    Path | None,
    typer.Option(
        "--scheme",
        show_default="the index's own; the default one for a new index",
        help="Scheme file, as esdedup scheme makes it.",
    ),
]
TextField = Annotated[
    str | None,
    typer.Option(show_default="the index's own; text for a new one", help="Field with the text."),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        show_default=False,
        help="A query of the cluster that matches must meet too, such as"
        ' \'{"term": {"tenant": "a"}}\'; may be given several times.',
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[
    bool | None,
    typer.Option(
        "--json/--table",
        show_default="a table on a terminal, else JSON",
        help="JSON lines, or a table.",
    ),
]
MetricOption = Annotated[Metric, typer.Option("--metric", "-m", help="What similar means.")]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        "-t",
        show_default=str(DEFAULT_THRESHOLD),
        help="Least Jaccard similarity, above 0, up to 1.",
    ),
]
Distance = Annotated[
    int | None,
    typer.Option(
        "--distance",
        "-d",
        help="Most differing bits of fingerprints (with --metric hamming).",
        show_default="what the segments guarantee by equality alone",
    ),
]
Recall = Annotated[
    float,
    typer.Option(
        help="Share to find of the documents just at the threshold, between 0 and 1; the lower,"
        " the fewer candidates."
    ),
]
MaxPerBucket = Annotated[
    int,
    typer.Option(
        "--max-per-bucket",
        min=1,
        help="Compare a document with at most N others of each bucket.",
    ),
]


@dataclass(frozen=True)
class ClusterTarget:
    """A cluster: the options that every command on one has."""

    url: Url = None
    timeout: Timeout = 60.0
    username: Username = None
    password: Password = field(default=None, repr=False)
    api_key: ApiKey = field(default=None, repr=False)
    bearer_token: BearerToken = field(default=None, repr=False)
    ca_certs: CaCerts = None
    cert_fingerprint: CertFingerprint = None
    cloud_id: CloudId = None

    def connection(self) -> Connection:
        """How to reach the cluster. Raises UsageError where no address is given."""
        if not self.url and not self.cloud_id:
            raise UsageError("name the cluster: --url or ESDEDUP_URL")
        return connection_to(
            self.url,
            username=self.username,
            password=self.password,
            api_key=self.api_key,
            bearer_token=self.bearer_token,
            ca_certs=self.ca_certs,
            fingerprint=self.cert_fingerprint,
            cloud_id=self.cloud_id,
            timeout=self.timeout,
        )

    @contextmanager
    def connected(self, policy: BulkPolicy | None = None) -> Iterator[Cluster]:
        """The cluster, for as long as it is needed."""
        cluster = connect(self.connection(), policy)
        try:
            yield cluster
        finally:
            cluster.client.close()


@dataclass(frozen=True)
class Target(ClusterTarget):
    """Where the index is, in a cluster or a file: the options of every command on an index."""

    db: Db = Path(DEFAULT_FILE)
    index: IndexName = DEFAULT_INDEX

    @property
    def where(self) -> Connection | Path:
        """What holds the index."""
        return self.connection() if self.url or self.cloud_id else self.db

    def open(
        self,
        scheme: Scheme | None = None,
        text_field: str | None = None,
        policy: BulkPolicy | None = None,
    ) -> Index:
        """The index that the options name."""
        return open(self.where, self.index, scheme=scheme, text_field=text_field, policy=policy)


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be sets of options, with the options in their place.

    Its first parameter is such a set, a target, whose options come last.
    """
    own_hints = get_type_hints(command, include_extras=True)
    first, *others = inspect.signature(command).parameters.values()
    kinds = {
        name: own_hints[name]
        for name in (first.name, *(other.name for other in others))
        if is_dataclass(own_hints[name])
    }
    options: list[inspect.Parameter] = []
    for parameter in (*others, first):
        if parameter.name in kinds:
            options += _options_of(kinds[parameter.name])
        else:
            hint = own_hints[parameter.name]
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint))

    def run(**arguments: Any) -> None:
        sets = {
            name: kind(**{option.name: arguments.pop(option.name) for option in fields(kind)})
            for name, kind in kinds.items()
        }
        command(**sets, **arguments)

    run.__doc__ = command.__doc__
    # Typer reads the options from the signature and from the annotations.
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _options_of(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=hints[option.name],
        )
        for option in fields(kind)
    ]


THRESHOLD = ACTING
MethodOption = Annotated[
    Method,
    typer.Option(
        help="components joins all that a chain of similar documents connects; leader takes the"
        " documents in the order of --keep, and each joins its nearest leader or becomes one."
    ),
]
GroupThreshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        "-t",
        show_default=str(THRESHOLD),
        help="Least Jaccard similarity, above 0, up to 1.",
    ),
]
KeepOption = Annotated[
    str,
    typer.Option(
        "--keep",
        metavar="RULE",
        help="Which document of a group stays: first or last (by id), first:FIELD or last:FIELD"
        " (also oldest:, newest:), longest, shortest.",
    ),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Only documents of equal text, after normalisation.")
]


@dataclass(frozen=True)
class GroupingOptions:
    """The options of every command that groups documents."""

    method: MethodOption = "leader"
    metric: MetricOption = "jaccard"
    threshold: GroupThreshold = None
    distance: Distance = None
    keep: KeepOption = "first"
    exact: Exact = False
    recall: Recall = RECALL
    max_per_bucket: MaxPerBucket = MAX_PER_BUCKET

    def grouping(self) -> Grouping:
        """The grouping that the options name. Raises UsageError for what does not go together."""
        by_text = self.metric == "jaccard" and self.threshold is None and self.distance is None
        if self.exact and not by_text:
            raise UsageError("--exact goes without --metric, --threshold and --distance")
        check_metric_options(self.metric, self.threshold, self.distance)
        limits = Limits(
            self.metric,
            THRESHOLD if self.threshold is None else self.threshold,
            self.distance,
            recall=self.recall,
            max_per_bucket=self.max_per_bucket,
        )
        return Grouping(limits, self.method, KeepRule.parse(self.keep), self.exact)


def scheme_in(path: Path | None) -> Scheme | None:
    """The scheme in a file, if one is named. Raises UsageError where it can't be read."""
    if path is None:
        return None
    try:
        return Scheme.from_json(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise UsageError(f"scheme file {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"scheme file {path}: {error}") from error


def check_metric_options(metric: str, threshold: float | None, distance: int | None) -> None:
    """Raises UsageError for a limit that goes with the other metric."""
    if metric == "jaccard" and distance is not None:
        raise UsageError("--distance goes with --metric hamming")
    if metric == "hamming" and threshold is not None:
        raise UsageError("--threshold goes with --metric jaccard")
