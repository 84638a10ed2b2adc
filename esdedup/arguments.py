"""Check arguments of Python programs, and declare the options that calls and commands share."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from types import EllipsisType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from esdedup.exceptions import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Options = TypeVar("_Options")
_Value = TypeVar("_Value")
_Call = TypeVar("_Call", bound=Callable[..., object])

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
Bounds = tuple[float | None, float | None]
"""The lowest and the highest value of a number, None for any."""
_DISPLAY = "display"
"""The key of a `Display` in the metadata of a field."""
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


def check_fields(record: DataclassInstance) -> None:
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
def _plain_fields(kind: type[DataclassInstance]) -> list[tuple[str, str]]:
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
def _literal_fields(kind: type[DataclassInstance]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the fields of a dataclass whose type is a Literal, each with its values."""
    hints = get_type_hints(kind)
    return [(name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal]


@functools.cache
def _nested_fields(kind: type[DataclassInstance]) -> list[tuple[str, tuple[type, ...]]]:
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
            # Some calls have `text` and `id`, and others `text_field` and `id_field`.
            close_names = [
                argument
                for argument in arguments
                if name.startswith(f"{argument}_") or argument.startswith(f"{name}_")
            ]
            close_names += difflib.get_close_matches(name, arguments, 1)
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
class Display:
    """What the command line shows of a setting, and how it reads it.

    help: what the option does.
    names: of the option; without a long one, that of the setting is added.
    metavar: stands for the value in the help.
    show_default: describes the default, if its value doesn't.
    bounds: the lowest and the highest number, None for any.
    rare: only the whole help lists it.
    use: the kind of work that it is for, None for all; of a field that holds other settings, those
        that count.
    parse: reads the value from text, in calls too.
    repeatable: whether there can be several texts, which are parsed together.
    convert: reads the value from the text of an option; its errors name the option.
    folder: whether a path may be a folder.
    excludes: settings that can't be set beside this one.
    argument: whether it is an argument, not an option.
    variable: whether an environment variable can set it.
    panel: the part of the help that lists it, None for the main one.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    show_default: str | None = None
    bounds: Bounds = (None, None)
    rare: bool = False
    use: str | None = None
    parse: Callable[[str], object] | Callable[[Sequence[str]], object] | None = None
    repeatable: bool = False
    convert: Callable[[str], object] | None = None
    folder: bool = True
    excludes: tuple[str, ...] = ()
    argument: bool = False
    variable: bool = False
    panel: str | None = None


@dataclass(frozen=True)
class Setting:
    """A field of a dataclass of options, as an argument of a call and an option of a command.

    name: of the argument.
    kind: the field's annotation.
    default: of the field, or of the dataclass that holds it; MISSING if it is required.
    display: of the option.
    path: the attribute that holds the nested dataclass of the field; None for a direct field.
    """

    name: str
    kind: Any
    default: Any
    display: Display
    path: str | None = None


def setting(
    default: _Value | EllipsisType,
    help: str,
    *names: str,
    metavar: str | None = None,
    show_default: str | None = None,
    bounds: Bounds = (None, None),
    rare: bool = False,
) -> _Value:
    """Return a field of a dataclass that is an argument of calls and an option of commands.

    default: ... for a required one. The others: as of `Display`.
    """
    return declared(default, Display(help, names, metavar, show_default, bounds, rare))


def declared(default: _Value | EllipsisType, display: Display) -> _Value:
    """Return a field of a dataclass, or the default of a parameter, that is a setting."""
    metadata = {_DISPLAY: display}
    # As of `dataclasses.field`, the type is that of the value, for the checker.
    declaration: Any = field(metadata=metadata)
    if default is not ...:
        declaration = field(default=default, metadata=metadata)
    return cast(_Value, declaration)


def for_use(use: str, value: _Value) -> _Value:
    """Return a setting that is for one kind of work; of a field, see `Display.use`."""
    default, display = _declaration(value)
    return declared(default, replace(display, use=use))


def parsed_by(
    parse: Callable[[str], _Value] | Callable[[Sequence[str]], _Value], value: _Value
) -> _Value:
    """Return a setting that calls and commands accept as text, which a function parses."""
    default, display = _declaration(value)
    return declared(default, replace(display, parse=parse))


def repeatable(value: _Value) -> _Value:
    """Return a parsed setting that has several texts."""
    default, display = _declaration(value)
    return declared(default, replace(display, repeatable=True))


def converted_by(convert: Callable[[str], object], value: _Value) -> _Value:
    """Return a setting whose option has a text, which a function converts."""
    default, display = _declaration(value)
    return declared(default, replace(display, convert=convert))


def of_file(value: _Value) -> _Value:
    """Return a setting whose path can't be a folder."""
    default, display = _declaration(value)
    return declared(default, replace(display, folder=False))


def excluding(names: Collection[str], value: _Value) -> _Value:
    """Return a setting beside which an option of the given names can't be set."""
    default, display = _declaration(value)
    return declared(default, replace(display, excludes=tuple(names)))


def setting_of(name: str, kind: Any, value: object) -> Setting:
    """Return the setting that the field, or the default of a parameter, declares."""
    default, display = _declaration(value)
    return Setting(name, kind, MISSING if default is ... else default, display)


def _declaration(value: _Value) -> tuple[_Value | EllipsisType, Display]:
    """Return the default, ... if there is none, and how a setting is displayed."""
    assert isinstance(value, Field), "a setting"
    return ... if value.default is MISSING else value.default, value.metadata[_DISPLAY]


@functools.cache
def settings_of(kind: type[Any], use: str | None = None) -> Mapping[str, Setting]:
    """Return the settings of a dataclass by name, nested ones too. use: for this work only."""
    settings: dict[str, Setting] = {}
    hints = get_type_hints(kind, include_extras=True)
    for field_of_kind in fields(kind):
        if _DISPLAY not in field_of_kind.metadata:
            continue
        name = field_of_kind.name
        setting = setting_of(name, hints[name], field_of_kind)
        inner_use = setting.display.use
        is_nested = is_dataclass(setting.default) and setting.display.parse is None
        if is_nested and inner_use is not None:
            inner_kind: Any = type(setting.default)
            for inner_name, inner in settings_of(inner_kind, inner_use).items():
                inner_default = getattr(setting.default, inner_name)
                settings[inner_name] = replace(inner, default=inner_default, path=name)
        elif inner_use in (use, None):
            settings[name] = setting
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
    direct: dict[str, object] = {}
    nested: dict[str, dict[str, object]] = {}
    check_names(values, settings)
    for name, value in values.items():
        setting = settings[name]
        parse = setting.display.parse
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
            default, annotation = setting.default, setting.kind
            if setting.display.parse is not None:
                default, annotation = str(default), "str"
            if setting.display.repeatable:
                default, annotation = default or (), "str | Sequence[str]"
            parameters.append(
                keywords.replace(
                    name=setting.name,
                    kind=inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=annotation,
                )
            )
        show_parameters(call, parameters)
        return call

    return decorate


def check_settings(call: Callable[..., object], settings: Mapping[str, object]) -> None:
    """Raise UsageError for a keyword that is no argument of a call. settings: its `**settings`."""
    check_names(settings, inspect.signature(call).parameters)


def show_parameters(call: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Let `help`, and libraries that inspect calls, see other parameters of a call than its own."""
    vars(call)["__signature__"] = inspect.Signature(parameters)
