"""Options that several commands share: the index, its cluster, and files of schemes."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from esdedup import (
    Bits,
    Connection,
    Index,
    Limits,
    Passages,
    Scheme,
    Server,
    UsageError,
    Vectors,
    admin,
    open,
)
from esdedup.cli.command import (
    Display,
    connection_setting,
    declared,
    file_values,
    named_by_source,
    of_file,
    option_of,
    rank_of,
    setting,
    source_of,
)
from esdedup.exceptions import IndexNotFound, json_fault
from esdedup.files import Merge

_ValueSketch = TypeVar("_ValueSketch", Bits, Vectors)

field = partial(
    setting,
    None,
    "Object field for the tokens, named esdedup...",
    show_default="the index's own",
    metavar="FIELD",
)
bits = partial(
    setting,
    None,
    "Fingerprints in a field, such as phash:64, or pdq:256:base64.",
    metavar="FIELD:BITS[:ENCODING]",
)
vectors = partial(
    setting,
    None,
    "Vectors in a field, such as embedding:768, compared by cosine.",
    metavar="FIELD:DIMENSIONS[:ENCODING]",
    rare=True,
)
passages = partial(setting, False, "Also sketch passages that texts share (--sketch passages).")
server = partial(setting, False, "Let the index compute the tokens, whichever client writes.")
distance = partial(
    setting, None, "With --bits: distance up to which queries are complete.", "-d", bounds=(0, None)
)
delimiter = partial(
    setting,
    None,
    "Delimiter of CSV files, such as ; or \\t for a tab.",
    metavar="CHARACTER",
    rare=True,
    show_default="a comma",
)
cosine = partial(
    setting,
    None,
    "With --vectors: minimum cosine of similar documents.",
    rare=True,
    show_default="0.95",
)
against_field = partial(
    setting,
    None,
    "Field of the text in --against; may be repeated.",
    metavar="FIELD",
    rare=True,
    show_default="--text-field",
)
yes = partial(setting, False, "Confirm without asking.", "-y")
dry_run = partial(setting, False, "Show the changes without making them.")
workers = partial(setting, 1, "Processes on this machine.", bounds=(1, None))
max_rate = partial(setting, None, "Maximum documents per second, to spare the cluster.")
work = partial(
    setting,
    None,
    "Folder to resume from.",
    rare=True,
    show_default="esdedup.db.INDEX.group, or INDEX@HOST-PORT.group",
    metavar="FOLDER",
)
dead_letter = partial(
    setting, None, "File to append rejects to.", rare=True, show_default="INDEX.dead-letter.jsonl"
)
as_json = partial(
    setting, None, "JSON lines, or a table.", "--json/--table", show_default="a table on a terminal"
)


@dataclass(frozen=True)
class MergeOptions:
    """What the document that stays takes from its duplicates."""

    collect: list[str] | None = setting(
        None, "Add values of a field of duplicates to what stays.", metavar="FIELD", rare=True
    )
    fill: list[str] | None = setting(
        None, "Fill a missing field of what stays by a duplicate.", metavar="FIELD", rare=True
    )

    @property
    def merge(self) -> Merge:
        """The fields to take."""
        return Merge.parse(self.collect, self.fill)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Cluster:
    """The options of a connection to a cluster."""

    url: str | None = connection_setting(
        None, "A cluster, http(s)://host:port; several nodes with commas.", metavar="URL"
    )
    timeout: float = connection_setting(60.0, "Seconds to wait for an answer.", bounds=(0.1, None))
    retry_for: str = connection_setting(
        "5m", "Retry failed requests for this time: 30s, 5m, 1h, 0.", metavar="TIME"
    )
    requests: int = connection_setting(8, "Maximum number of requests in flight.", bounds=(1, None))
    compress: bool = connection_setting(False, "Compress requests and answers, for a slow network.")
    username: str | None = connection_setting(None, "User name.", metavar="NAME")
    password: str | None = connection_setting(
        None, "Password; the environment variable keeps it private."
    )
    api_key: str | None = connection_setting(None, "API key, encoded or id:key.")
    bearer_token: str | None = connection_setting(None, "Bearer token.")
    ca_certs: str | None = connection_setting(None, "File of authorities to trust.", metavar="FILE")
    cert_fingerprint: str | None = connection_setting(
        None, "SHA-256 of the certificate to trust instead."
    )
    cloud_id: str | None = connection_setting(None, "Elastic Cloud id.")

    def connection(self) -> Connection:
        """Return the connection to the cluster. Raises UsageError without an address."""
        if not self.url and not self.cloud_id:
            raise UsageError("name the cluster: --url or ESDEDUP_URL")
        settings = {option.name: getattr(self, option.name) for option in fields(_Cluster)}
        try:
            settings["retry_for"] = admin.seconds(self.retry_for)
        except ValueError as error:
            raise UsageError(f"--retry-for: {error}") from error
        return admin.connection_to(fingerprint=settings.pop("cert_fingerprint"), **settings)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterTarget(_Cluster):
    """The options of a command on an index that other programs write to."""

    index: str = declared(
        ...,
        Display("An index, an alias, or a data stream.", ("--index", "-i"), "NAME", variable=True),
    )

    @property
    def address(self) -> str:
        """The addresses of the cluster, without credentials."""
        return self.connection().shown

    def connected(self) -> AbstractContextManager[admin.Cluster]:
        """Return the cluster, closed at the end."""
        return admin.connected(self.connection())


@dataclass(frozen=True, kw_only=True, repr=False)
class Target(_Cluster):
    """The options of a command on an index in a cluster or a file."""

    index: str = connection_setting(
        Index.DEFAULT_NAME, "Name of the index there.", "--index", "-i", metavar="NAME"
    )
    db: Path | None = of_file(
        connection_setting(None, "A local file.", show_default=Index.DEFAULT_FILE)
    )

    @property
    def where(self) -> Connection | Path:
        """The cluster or the file that holds the index, by what counts most: see `rank_of`."""
        if not (address := self.url or self.cloud_id):
            refuse([option.name for option in fields(_Cluster)], "requires a cluster (--url)")
            if self.db is None and self.index.endswith(".db"):
                raise UsageError(f"-i {self.index} names a file: use --db {self.index}")
            return self.db or Path(Index.DEFAULT_FILE)
        if self.db is not None:
            both = ("db", "url" if address == self.url else "cloud_id")
            rank_of_db, rank_of_address = map(rank_of, both)
            if rank_of_db == rank_of_address:
                names = " and ".join(map(named_by_source, both))
                raise UsageError(f"{names} name two places: leave one out")
            if rank_of_db > rank_of_address:
                return self.db
        return self.connection()

    @contextmanager
    def open(
        self, scheme: Scheme | None = None, text_field: Sequence[str] | None = None
    ) -> Iterator[Index]:
        """Open the index that the options name, for the time of a `with`."""
        with open(self.where, self.index, scheme=scheme, text_field=text_field) as index:
            try:
                yield index
            except IndexNotFound as error:
                raise self.not_found(str(error)) from error

    def not_found(self, reason: str) -> IndexNotFound:
        """Return the error that there is no such index, which may be in a cluster.

        reason: in words, without an end.
        """
        is_named = self.db is not None or isinstance(self.where, Connection)
        advice = "" if is_named else ", or name the cluster: --url or ESDEDUP_URL"
        return IndexNotFound(f"{reason}{advice}")


@dataclass(frozen=True, kw_only=True)
class SchemeOptions:
    """Options of the scheme of an index, or of a comparison of files, and of its text."""

    text_field: list[str] | None = setting(
        None,
        "Field of the text; may be repeated.",
        show_default="the index's, or text",
        metavar="FIELD",
    )
    scheme: Path | None = setting(
        None, "Scheme file, of esdedup scheme.", show_default="the index's, or the default one"
    )
    bits: str | None = bits()
    vectors: str | None = vectors()
    passages: bool = passages()

    def scheme_and_fields(
        self, distance: int | None = None, server: bool = False, cosine: float | None = None
    ) -> tuple[Scheme | None, list[str] | None]:
        """Return the scheme and the text fields, each None for those of the index.

        Fingerprints or vectors alone are the text, and a further sketch if something else is named.
        distance: the default one of fingerprints. server: the index computes the tokens. cosine:
        the default one of vectors.
        """
        scheme = scheme_in(self.scheme)
        if server:
            if scheme is not None:
                raise UsageError(
                    "--server can't be combined with --scheme: use esdedup scheme --server"
                )
            scheme = Scheme([Server()])
        of_values = value_sketches(self.bits, distance, self.vectors, cosine)
        if not of_values and not self.passages:
            return scheme, self.text_field
        is_of_text = self.passages or scheme is not None or self.text_field is not None
        if len(of_values) == 1 and not is_of_text:
            ((field, sketch),) = of_values
            return Scheme([sketch]), [field]
        return with_sketches(scheme or Scheme(), self.passages, of_values), self.text_field


def with_sketches(
    scheme: Scheme, passages: bool, of_values: Iterable[tuple[str, Bits | Vectors]]
) -> Scheme:
    """Return a scheme with the sketches of --passages, and with those of `value_sketches`."""
    if passages:
        scheme = scheme.plus(Passages())
    for field, sketch in of_values:
        scheme = scheme.plus(replace(sketch, fields=(field,)))
    return scheme


def value_sketches(
    bits: str | None, distance: int | None, vectors: str | None, cosine: float | None
) -> list[tuple[str, Bits | Vectors]]:
    """Return the fields and the sketches that --bits and --vectors name.

    distance: the default one of fingerprints. cosine: the default one of vectors.
    """
    of_values: list[tuple[str, Bits | Vectors]] = []
    if bits is not None:
        of_values.append(bits_of(bits, distance))
    if vectors is not None:
        of_values.append(vectors_of(vectors, cosine))
    return of_values


def bits_of(text: str, distance: int | None) -> tuple[str, Bits]:
    """Return the field and the sketch that --bits names. Raises UsageError."""
    field, _, form = text.partition(":")
    size, _, encoding = form.partition(":")
    with_blank = encoding == "all" or encoding.endswith(":all")
    encoding = encoding.removesuffix("all").removesuffix(":")
    if not field or not size.isdecimal():
        raise UsageError(f"--bits {text}: name the field and the number of bits, as in phash:64")
    try:
        sketch = Bits(
            int(size),
            distance,
            encoding or "hex",  # type: ignore[arg-type]
            with_blank=with_blank,
        )
    except UsageError as error:
        raise UsageError(f"--bits {text}: {error}") from error
    return field, _named_by(field, sketch)


def vectors_of(text: str, cosine: float | None) -> tuple[str, Vectors]:
    """Return the field and the sketch that --vectors names. Raises UsageError."""
    field, _, form = text.partition(":")
    dimensions, _, encoding = form.partition(":")
    if not field or not dimensions.isdecimal():
        raise UsageError(
            f"--vectors {text}: name the field and the number of dimensions, as in embedding:768"
        )
    try:
        sketch = Vectors(
            int(dimensions),
            Vectors.cosine if cosine is None else cosine,
            encoding or "list",  # type: ignore[arg-type]
        )
    except UsageError as error:
        raise UsageError(f"--vectors {text}: {error}") from error
    return field, _named_by(field, sketch)


def _named_by(field: str, sketch: _ValueSketch) -> _ValueSketch:
    """Return a sketch with the name of its field, unless no sketch can have that."""
    with suppress(UsageError):
        return replace(sketch, name=field.rpartition(".")[2])
    return sketch


def refuse(names: Iterable[str], reason: str, in_files: bool = False) -> None:
    """Raise UsageError if one of some arguments is given on the command line.

    in_files: also if the settings file sets it.
    """
    for name in names:
        if typed(name):
            raise UsageError(f"{option_of(name)} {reason}")
        file_value = file_values().get(name) if in_files else None
        if file_value is not None and file_value.value and source_of(name) == "DEFAULT_MAP":
            raise UsageError(f"{file_value.place}: {name} {reason}")


def typed(name: str) -> bool:
    """Return whether an argument is given on the command line, not by default or environment."""
    return source_of(name) == "COMMANDLINE"


def typed_place(where: Connection | Path) -> list[str]:
    """Return the option, with its value, that names the place of an index for another command.

    It has no password. It is empty if the place is that of a variable or of the settings file for
    all commands, or the default one, which the other command uses as well.
    """
    if not isinstance(where, Connection):
        name, value = "db", str(where)
    elif where.addresses:
        name, value = "url", ",".join(where.addresses)
    else:
        name, value = "cloud_id", str(where.cloud_id)
    source = source_of(name)
    if source == "DEFAULT_MAP":
        is_typed = typed("settings") or not file_values()[name].shared
    else:
        is_typed = source == "COMMANDLINE"
    return [option_of(name), value] if is_typed else []


def check_limits(scheme: Scheme | None, limits: Limits) -> None:
    """Raise UsageError for a limit of another measure than that of the sketch to compare by.

    scheme: None for the one of the limits, by which texts of files are compared.
    """
    chosen = (scheme or Scheme.of_texts(limits)).chosen(limits)
    by, use = chosen.measure.words, chosen.measure.limit
    if use != "threshold" and typed("threshold"):
        raise UsageError(
            f"--threshold can't be combined with --sketch {chosen.name}, which compares by {by}:"
            f" use --{use}"
        )


def scheme_in(path: Path | None) -> Scheme | None:
    """Return the scheme in a file, if one is named. Raises UsageError if it can't be read."""
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
