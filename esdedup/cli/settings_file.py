"""Settings files: esdedup.toml, [tool.esdedup] in pyproject.toml, or the file of --settings.

    threshold = 0.9          # for all commands that have it

    [clean]
    keep = "longest"         # for one command

An option overrides an environment variable, which overrides the file. There, the table of a command
overrides a setting for all commands.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, TypeGuard, Union, get_args, get_origin

from esdedup import UsageError
from esdedup.arguments import Setting

FILE_NAME, PROJECT_FILE_NAME = "esdedup.toml", "pyproject.toml"
ONLY_OPTIONS = {"apply", "yes", "force", "as_json"}
"""What is confirmed or chosen for one run: no file sets it."""
_IN_TABLES = {"against", "k", "max_memory", "output", "port", "to"}
"""Settings with another meaning in each command: a file sets them in tables only."""
_TABLE = re.compile(r"\s*\[\s*([^\[\]]*?)\s*\]")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*=""")
_WORDS: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list of texts",
    dict: "a table",
}
"""The types of values in messages."""

SettingsByCommand = Mapping[str, Mapping[str, Setting]]


@dataclass(frozen=True)
class FileValue:
    """What a file sets for a command.

    value: as TOML has it.
    place: the file, and the line if it is known.
    shared: whether it is for all commands, not in the table of one.
    """

    value: object
    place: str
    shared: bool


@dataclass(frozen=True)
class SettingsFile:
    """A settings file.

    path: of the file.
    shared: the values for all commands, by setting.
    tables: the values for one command, by command and setting.
    lines: the numbers of the lines that were recognised, by table ("" for shared ones) and setting.
    """

    path: Path
    shared: Mapping[str, object]
    tables: Mapping[str, Mapping[str, object]]
    lines: Mapping[tuple[str, str], int]

    @staticmethod
    def read(path: Path) -> "SettingsFile | None":
        """Read a file; None if it is a pyproject.toml without settings. Raises UsageError."""
        try:
            text = path.read_text("utf-8-sig")
        except OSError as error:
            raise UsageError(f"settings file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"settings file {path}: use UTF-8") from error
        is_project = path.name == PROJECT_FILE_NAME
        if is_project and "esdedup" not in text:
            return None
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"settings file {path}: {error}{_advice(error)}") from error
        prefix = ""
        if is_project:
            content, prefix = content.get("tool", {}).get("esdedup"), "tool.esdedup"
            if not isinstance(content, dict):
                return None
        tables = {name: value for name, value in content.items() if isinstance(value, dict)}
        shared = {name: value for name, value in content.items() if name not in tables}
        return SettingsFile(path, shared, tables, dict(_lines(text, prefix)))

    def values(
        self,
        command: str,
        settings: Mapping[str, Setting],
        other_meanings: Collection[str],
        commands: Collection[str],
        all_settings: Callable[[], SettingsByCommand],
    ) -> dict[str, FileValue]:
        """Return what the file sets for a command, by setting.

        settings: those that a file can set for the command. other_meanings: those that mean
        something else than in other commands, so that only a table sets them.
        commands: their names. all_settings: returns those of all commands, which imports them.

        Raises UsageError for a table without a command, an unknown setting, and a wrong type.
        """
        for table in self.tables:
            if table not in commands:
                mistaken = f"{self._place(table, '')}: there is no command {table!r}"
                raise UsageError(f"{mistaken}: {_suggestion(table, commands)}")
        values = {}
        for name, value in self.shared.items():
            place = self._place("", name)
            if name in _IN_TABLES:
                tables = [table for table, names in all_settings().items() if name in names]
                table = command if command in tables else tables[0]
                advice = f"set it in the table of a command, such as [{table}]"
                raise UsageError(f"{place}: {name} differs by command: {advice}")
            if name not in settings or name in ONLY_OPTIONS:
                all_names = set().union(*all_settings().values()) - _IN_TABLES
                _check_name(place, name, all_names, "no command has the setting")
            elif name not in other_meanings:
                _check(place, settings[name], value)
                values[name] = FileValue(value, place, shared=True)
        for name, value in self.tables.get(command, {}).items():
            place = self._place(command, name)
            _check_name(place, name, settings.keys(), f"{command} has no setting")
            _check(place, settings[name], value)
            values[name] = FileValue(value, place, shared=False)
        return values

    def _place(self, table: str, name: str) -> str:
        line = self.lines.get((table, name))
        return f"{self.path}, line {line}" if line is not None else f"{self.path}"


def find(named: Path | None) -> SettingsFile | None:
    """Return the settings file that is named, or that of the current folder, or None.

    Raises UsageError if it can't be read, or the named one has no settings.
    """
    if named is not None:
        settings_file = SettingsFile.read(named)
        if settings_file is None:
            raise UsageError(f"settings file {named}: there is no [tool.esdedup]")
        return settings_file
    for name in (FILE_NAME, PROJECT_FILE_NAME):
        path = Path(name)
        if path.is_file() and (settings_file := SettingsFile.read(path)) is not None:
            return settings_file
    return None


def _lines(text: str, prefix: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Return the tables and settings of TOML with their lines, which its parser does not report.

    A line of a longer text can be mistaken for one: these are for messages only. prefix: of the
    names of tables.
    """
    table: str | None = "" if not prefix else None
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _TABLE.match(line):
            name = heading[1].replace('"', "").replace("'", "").replace(" ", "")
            is_below = name == prefix or name.startswith(f"{prefix}.") or not prefix
            table = name.removeprefix(prefix).removeprefix(".") if is_below else None
            if table is not None:
                yield (table, ""), number
        elif table is not None and (key := _KEY.match(line)):
            yield (table, key[1]), number


def _advice(error: tomllib.TOMLDecodeError) -> str:
    """Return what to do about a name that is a setting and a command, used as both."""
    if "overwrite" in str(error):
        return "; a name is either set for all commands, or the table of one: set it in the tables"
    return ""


def _suggestion(name: str, names: Collection[str]) -> str:
    close_names = difflib.get_close_matches(name.replace("-", "_"), names, 1)
    if close_names:
        return f"did you mean {close_names[0]}?"
    return "see: esdedup help settings"


def _check_name(place: str, name: str, names: Collection[str], fault: str) -> None:
    """Raise UsageError for a setting that no file can set."""
    if name in ONLY_OPTIONS:
        raise UsageError(f"{place}: {name} can't be set in a file: it is an option of each run")
    if name not in names:
        raise UsageError(f"{place}: {fault} {name!r}: {_suggestion(name, names)}")


def _check(place: str, setting: Setting, value: object) -> None:
    """Raise UsageError for a value of another type, or outside of the bounds, of a setting.

    Its text is not shown, because it may be a password.
    """
    name, kind = setting.name, _kind_of(setting)
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            raise UsageError(f"{place}: {name}: use {', '.join(map(repr, choices))}")
        return
    is_list = kind is list or (setting.display.repeatable and isinstance(value, list))
    if is_list:
        is_valid = isinstance(value, list) and all(isinstance(text, str) for text in value)
    elif kind is float:
        is_valid = _is_number(value)
    else:
        is_valid = type(value) is kind
    if setting.display.convert is not None and isinstance(value, str):
        is_valid = True
        try:
            setting.display.convert(value)
        except UsageError as error:
            raise UsageError(f"{place}: {name}: {error}") from error
    if not is_valid:
        actual = _WORDS.get(type(value), type(value).__name__)
        raise UsageError(f"{place}: {name}: use {_WORDS[kind]}, not {actual}")
    if value in ("", []):
        raise UsageError(f"{place}: {name} is empty: leave it out, or set a value")
    least, most = setting.display.bounds
    if _is_number(value):
        if least is not None and value < least:
            raise UsageError(f"{place}: {name} {value:g}: use {least:g} or more")
        if most is not None and value > most:
            raise UsageError(f"{place}: {name} {value:g}: use {most:g} or less")


def _kind_of(setting: Setting) -> object:
    """Return the type of a setting's value in a file: a plain one, a list, or a Literal."""
    kind = setting.kind
    if get_origin(kind) in (UnionType, Union):
        (kind,) = (alternative for alternative in get_args(kind) if alternative is not NoneType)
    if setting.display.parse is not None or kind is Path:
        return str
    return list if get_origin(kind) is list else kind


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
