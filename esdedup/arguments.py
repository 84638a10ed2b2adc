"""Check arguments of Python programs, and declare the options that calls and commands share."""

import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from esdedup.exceptions import UsageError

_Made = TypeVar("_Made")
_Call = TypeVar("_Call", bound=Callable[..., Any])

# A bool is an int in Python, so it comes first.
_PLAIN: dict[str, tuple[type, str]] = {
    "None": (type(None), "None"),
    "bool": (bool, "True or False"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "str": (str, "text"),
    "Path": (os.PathLike, "a path"),
}
"""Plain types by their annotation, with their names in messages."""
_SIZE = re.compile(r"(\d+) ?([KMG]?)B?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def check_type(name: str, value: object, annotation: str) -> None:
    """Raise UsageError if a value is not of a type such as "int | None". name: of the argument.

    The value is not shown, because it may be a password.
    """
    # Queries and the like are made in large numbers.
    if type(value) in _exact(annotation):
        return
    wanted = annotation.split(" | ")
    found = next((each for each, (kind, _) in _PLAIN.items() if isinstance(value, kind)), "")
    if found not in wanted and not (found == "int" and "float" in wanted):
        words = " or ".join(_PLAIN[each][1] for each in wanted)
        raise UsageError(f"{name}: use {words}, not {type(value).__name__}")


def check_fields(made: Any) -> None:
    """Raise UsageError if a field of a dataclass is not of its plain type, Literal or dataclass."""
    for name, annotation in _plain_fields(made.__class__):
        check_type(name, getattr(made, name), annotation)
    for name, choices in _literal_fields(made.__class__):
        if (value := getattr(made, name)) not in choices:
            *others, last = choices
            raise UsageError(f"{name} {value!r}: use {', '.join(others)} or {last}")
    for name, kinds in _nested_fields(made.__class__):
        if not isinstance(value := getattr(made, name), kinds):
            words = f"use {kinds[0].__name__}(...), not {type(value).__name__}"
            raise UsageError(f"{name}: {words}")


@functools.cache
def _exact(annotation: str) -> frozenset[type]:
    return frozenset(_PLAIN[each][0] for each in annotation.split(" | "))


@functools.cache
def _plain_fields(kind: Any) -> list[tuple[str, str]]:
    """The names and annotations of the fields of a dataclass whose types are plain."""
    types = [(each.name, each.type) for each in fields(kind)]
    written = [(name, of.__name__ if isinstance(of, type) else str(of)) for name, of in types]
    plain = [(name, annotation.replace("pathlib.Path", "Path")) for name, annotation in written]
    return [each for each in plain if set(each[1].split(" | ")) <= _PLAIN.keys()]


@functools.cache
def _literal_fields(kind: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the fields of a dataclass whose type is a Literal, each with its values."""
    found = get_type_hints(kind)
    return [(name, get_args(one)) for name, one in found.items() if get_origin(one) is Literal]


@functools.cache
def _nested_fields(kind: Any) -> list[tuple[str, tuple[type, ...]]]:
    """The fields of a dataclass that hold another dataclass, or may, with the types allowed."""
    hints = get_type_hints(kind)
    named = [(each.name, hints[each.name]) for each in fields(kind)]
    found = ((name, get_args(one) if type(one) is UnionType else (one,)) for name, one in named)
    return [
        (name, kinds)
        for name, kinds in found
        if is_dataclass(kinds[0]) and all(one is type(None) for one in kinds[1:])
    ]


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Raise UsageError for a keyword argument that there is not, naming those that there are."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            listed = f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
            raise UsageError(f"there is no argument {name!r}: {listed}")


def size(text: str | int) -> int:
    """Return the bytes of a size such as 256MB; a KB is 1024 bytes. Raises UsageError."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None or not int(found[1]):
        raise UsageError(f"{text!r} is not a size such as 256MB or 1GB")
    return int(found[1]) << _UNITS[found[2].upper()]


def check_list(name: str, values: object) -> None:
    """Raise UsageError if an argument of several values is a single one."""
    if isinstance(values, (Mapping, str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{name}: give a list, not a single {type(values).__name__}")


@dataclass(frozen=True)
class Setting:
    """A field of a dataclass of options, as an argument of a call and an option of a command.

    kind: its annotation. shown: what the command line shows, see `setting`. path: the attribute of
    the dataclass that holds the field, if it is not its own.
    """

    name: str
    kind: Any
    default: Any
    shown: Mapping[str, Any]
    path: str | None = None


def setting(default: Any, help: str, *names: str, **shown: Any) -> Any:
    """Return a field of a dataclass, with what help shows of it.

    names: of the option, by default the field's. shown: metavar, min, max, show_default; parse, a
    function that reads the value from text; rare, True for one that only a settings file sets; use,
    the kinds of work that it is for, or, on a field that holds other options, which of these count.
    """
    metadata = {"help": help, "names": names, **shown}
    if default is ...:
        return field(metadata=metadata)
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@functools.cache
def settings_of(kind: type[Any], use: str | None = None) -> Mapping[str, Setting]:
    """Return the settings of a dataclass by name, nested ones too. use: for this work only."""
    found, hints = {}, get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        if is_dataclass(each.default) and (inner_use := each.metadata.get("use")):
            held: Any = type(each.default)
            for name, inner in settings_of(held, inner_use).items():
                default = getattr(each.default, name)
                found[name] = replace(inner, default=default, path=each.name)
        elif "help" in each.metadata and each.metadata.get("use", use) in (use, None):
            found[each.name] = Setting(each.name, hints[each.name], each.default, each.metadata)
    return found


def from_settings(
    kind: type[_Made], given: Mapping[str, Any], base: _Made | None = None, use: str | None = None
) -> _Made:
    """Make a dataclass from its settings by name. base: has the values of the others.

    Raises UsageError for other names and for values that the dataclass rejects.
    """
    wanted: Any = kind
    known = settings_of(wanted, use)
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    check_names(given, known)
    for name, value in given.items():
        setting = known[name]
        parse = setting.shown.get("parse")
        if parse is not None and not isinstance(value, type(setting.default)):
            value = parse(value)
        (own if setting.path is None else inner.setdefault(setting.path, {}))[name] = value
    if base is not None and not isinstance(base, wanted):
        raise UsageError(f"use {kind.__name__}(...), not {type(base).__name__}")
    held: Any = vars(base) if base else {each.name: each.default for each in fields(wanted)}
    own |= {path: replace(held[path], **some) for path, some in inner.items()}
    return kind(**own) if base is None else replace(base, **own)


def accepts(kind: Any, use: str | None = None) -> Callable[[_Call], _Call]:
    """Let `help` list the settings, with defaults, of a call that accepts them as **options."""

    def decorate(call: _Call) -> _Call:
        *own, options = inspect.signature(call).parameters.values()
        assert options.kind is inspect.Parameter.VAR_KEYWORD
        more = [
            options.replace(
                name=each.name,
                kind=inspect.Parameter.KEYWORD_ONLY,
                default=str(each.default) if "parse" in each.shown else each.default,
                annotation="str" if "parse" in each.shown else each.kind,
            )
            for each in settings_of(kind, use).values()
        ]
        call.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        return call

    return decorate
