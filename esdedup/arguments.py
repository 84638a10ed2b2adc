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

_Options = TypeVar("_Options")
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
    allowed = annotation.split(" | ")
    actual = next((name for name, (kind, _) in _PLAIN.items() if isinstance(value, kind)), "")
    is_int_for_float = actual == "int" and "float" in allowed
    if actual not in allowed and not is_int_for_float:
        words = " or ".join(_PLAIN[name][1] for name in allowed)
        raise UsageError(f"{name}: use {words}, not {type(value).__name__}")


def check_fields(record: Any) -> None:
    """Raise UsageError if a field of a dataclass is not of its plain type, Literal or dataclass."""
    kind = record.__class__
    for name, annotation in _plain_fields(kind):
        check_type(name, getattr(record, name), annotation)
    for name, choices in _literal_fields(kind):
        value = getattr(record, name)
        if value not in choices:
            *first_choices, last_choice = choices
            raise UsageError(f"{name} {value!r}: use {', '.join(first_choices)} or {last_choice}")
    for name, kinds in _nested_fields(kind):
        value = getattr(record, name)
        if not isinstance(value, kinds):
            words = f"use {kinds[0].__name__}(...), not {type(value).__name__}"
            raise UsageError(f"{name}: {words}")


@functools.cache
def _exact(annotation: str) -> frozenset[type]:
    return frozenset(_PLAIN[name][0] for name in annotation.split(" | "))


@functools.cache
def _plain_fields(kind: Any) -> list[tuple[str, str]]:
    """Return the names and annotations of the fields of a dataclass whose types are plain."""
    plain = []
    for field_of_kind in fields(kind):
        written = field_of_kind.type
        annotation = written.__name__ if isinstance(written, type) else str(written)
        annotation = annotation.replace("pathlib.Path", "Path")
        if set(annotation.split(" | ")) <= _PLAIN.keys():
            plain.append((field_of_kind.name, annotation))
    return plain


@functools.cache
def _literal_fields(kind: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the fields of a dataclass whose type is a Literal, each with its values."""
    hints = get_type_hints(kind)
    return [(name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal]


@functools.cache
def _nested_fields(kind: Any) -> list[tuple[str, tuple[type, ...]]]:
    """Return the fields of a dataclass that hold another dataclass, or may, with their types."""
    hints = get_type_hints(kind)
    nested = []
    for field_of_kind in fields(kind):
        hint = hints[field_of_kind.name]
        kinds = get_args(hint) if type(hint) is UnionType else (hint,)
        is_optional = all(alternative is type(None) for alternative in kinds[1:])
        if is_dataclass(kinds[0]) and is_optional:
            nested.append((field_of_kind.name, kinds))
    return nested


def check_names(names: Iterable[str], arguments: Collection[str]) -> None:
    """Raise UsageError for a name that is not an argument, with a suggestion."""
    for name in names:
        if name not in arguments:
            close_names = difflib.get_close_matches(name, arguments, 1)
            if close_names:
                advice = f"did you mean {close_names[0]!r}?"
            else:
                advice = f"use {', '.join(arguments)}"
            raise UsageError(f"there is no argument {name!r}: {advice}")


def size(text: str | int) -> int:
    """Return the bytes of a size such as 256MB; a KB is 1024 bytes. Raises UsageError."""
    match = _SIZE.fullmatch(str(text).strip())
    if match is None or not int(match[1]):
        raise UsageError(f"{text!r} is not a size such as 256MB or 1GB")
    return int(match[1]) << _UNITS[match[2].upper()]


def check_list(name: str, values: object) -> None:
    """Raise UsageError if an argument of several values is a single one."""
    if isinstance(values, (Mapping, str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{name}: give a list, not a single {type(values).__name__}")


@dataclass(frozen=True)
class Setting:
    """A field of a dataclass of options, as an argument of a call and an option of a command.

    name: of the argument.
    kind: the field's annotation.
    default: of the field, or of the dataclass that holds it.
    shown: what the command line shows, see `setting`.
    path: the attribute that holds the nested dataclass of the field; None for a direct field.
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
    settings: dict[str, Setting] = {}
    hints = get_type_hints(kind, include_extras=True)
    for field_of_kind in fields(kind):
        name, default, metadata = field_of_kind.name, field_of_kind.default, field_of_kind.metadata
        if is_dataclass(default) and (inner_use := metadata.get("use")):
            inner_kind: Any = type(default)
            for inner_name, inner in settings_of(inner_kind, inner_use).items():
                inner_default = getattr(default, inner_name)
                settings[inner_name] = replace(inner, default=inner_default, path=name)
        elif "help" in metadata and metadata.get("use", use) in (use, None):
            settings[name] = Setting(name, hints[name], default, metadata)
    return settings


def from_settings(
    kind: type[_Options],
    values: Mapping[str, Any],
    base: _Options | None = None,
    use: str | None = None,
) -> _Options:
    """Make a dataclass from its settings by name. base: the dataclass, in place of settings.

    Raises UsageError for other names, for values that the dataclass rejects, and for both.
    """
    any_kind: Any = kind
    settings = settings_of(any_kind, use)
    direct: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    check_names(values, settings)
    for name, value in values.items():
        setting = settings[name]
        parse = setting.shown.get("parse")
        if parse is not None and not isinstance(value, type(setting.default)):
            value = parse(value)
        if setting.path is None:
            direct[name] = value
        else:
            nested.setdefault(setting.path, {})[name] = value
    if base is not None:
        if not isinstance(base, kind):
            raise UsageError(f"use {kind.__name__}(...), not {type(base).__name__}")
        if values:
            raise UsageError(f"`{min(values)}` can't be combined with `{kind.__name__.lower()}`")
        return base
    defaults: Any = {option.name: option.default for option in fields(any_kind)}
    for path, inner_values in nested.items():
        direct[path] = replace(defaults[path], **inner_values)
    return kind(**direct)


def accepts(kind: Any, use: str | None = None) -> Callable[[_Call], _Call]:
    """Let `help` list the settings, with defaults, of a call that accepts them as keywords."""

    def decorate(call: _Call) -> _Call:
        *parameters, keywords = inspect.signature(call).parameters.values()
        assert keywords.kind is inspect.Parameter.VAR_KEYWORD
        for setting in settings_of(kind, use).values():
            is_text = "parse" in setting.shown
            parameters.append(
                keywords.replace(
                    name=setting.name,
                    kind=inspect.Parameter.KEYWORD_ONLY,
                    default=str(setting.default) if is_text else setting.default,
                    annotation="str" if is_text else setting.kind,
                )
            )
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    return decorate
