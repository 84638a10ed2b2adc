"""The settings of a command, as TOML that is a settings file, with where each is from."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from typer.core import TyperOption

from esdedup.cli.command import FILE_VALUES, Command, Commands, option_of, source_of
from esdedup.cli.settings_file import ONLY_OPTIONS

_SECRETS = {"password", "api_key", "bearer_token"}


@dataclass(frozen=True)
class _Shown:
    """A setting that holds for a command.

    name: of the setting.
    value: as the command line has it.
    origin: where it is from.
    shared: whether it is for all commands.
    is_set: whether it is not the default.
    """

    name: str
    value: object
    origin: str
    shared: bool
    is_set: bool

    @property
    def line(self) -> str:
        """The line of a settings file; a comment for defaults, and for what a file should not have.

        A setting that is set can exclude others, also with the value of its default.
        """
        value = self.value
        if self.name in _SECRETS and value is not None:
            return f"# {self.name} is set, and not shown  # {self.origin}"
        if isinstance(value, str) and "://" in value and "@" in value:
            # It may have a password.
            return f"# {self.name} is an address with a user, and not shown  # {self.origin}"
        if value is None:
            return f"# {self.name}  # {self.origin}"
        line = f"{self.name} = {_toml(value)}  # {self.origin}"
        return line if self.is_set else f"# {line}"


def settings_of_command(
    command: Command, context: typer.Context, outranked: Collection[str]
) -> str:
    """Return all settings of a command, first those that are set.

    context: of the command. outranked: settings of the file that an option or a variable excludes.
    """
    shown = [
        replace(setting, origin=f"{setting.origin}, excluded by an option", is_set=False)
        if setting.name in outranked
        else setting
        for setting in _settings(command, context)
    ]
    lines = [setting.line for setting in shown if setting.is_set]
    lines += [setting.line for setting in shown if not setting.is_set]
    note = f"# Settings of esdedup {command.name}: a file for --settings, or esdedup.toml."
    return "\n".join([note, "", f"[{command.name}]", *lines])


def settings_of_all(context: typer.Context, path: Path | None) -> str:
    """Return the settings of all commands that are not defaults.

    context: of the command that runs. path: of the settings file, None to look for it.
    """
    root = context.find_root()
    commands = root.command
    assert isinstance(commands, Commands)
    arguments = ["--show-settings", *([] if path is None else ["--settings", str(path)])]
    shared: dict[str, str] = {}
    tables: dict[str, list[str]] = {}
    for name in commands.entries:
        command = commands.get_command(root, name)
        if "show_settings" not in {option.name for option in command.params}:
            continue
        with command.make_context(name, [*arguments], parent=root) as parsed:
            for setting in _settings(command, parsed):
                if setting.shared:
                    shared[setting.name] = setting.line
                elif setting.is_set:
                    tables.setdefault(name, []).append(setting.line)
    for name in shared.keys() & tables.keys():
        # One name can't be a setting and a table of TOML.
        shared[name] = f"# {shared[name]}"
    blocks = ["\n".join(shared.values())] if shared else []
    blocks += ["\n".join([f"[{name}]", *lines]) for name, lines in tables.items()]
    note = "# All other settings are defaults: esdedup COMMAND --show-settings"
    return "\n\n".join([*blocks, note])


def _settings(command: Command, context: typer.Context) -> Iterator[_Shown]:
    """Return the settings of a command that a file can set."""
    for option in command.params:
        name = option.name
        if (
            not isinstance(option, TyperOption)
            or name not in command.settings
            or name in ONLY_OPTIONS
        ):
            continue
        value = context.params[name]
        if command.settings[name].display.repeatable and value is not None and len(value) == 1:
            (value,) = value
        source = source_of(name, context)
        shared = False
        if source == "DEFAULT_MAP":
            file_value = context.meta[FILE_VALUES][name]
            origin, shared = file_value.place, file_value.shared
        elif source == "ENVIRONMENT":
            variable = option.envvar or f"{context.auto_envvar_prefix}_{name.upper()}"
            origin, shared = f"environment: {variable}", option.envvar is not None
        elif source == "COMMANDLINE":
            origin = f"option {next(iter(option.opts), option_of(name))}"
        else:
            has_words = isinstance(option.show_default, str)
            origin = f"default: {option.show_default}" if has_words else "default"
        yield _Shown(name, value, origin, shared, source != "DEFAULT")


def _toml(value: object) -> str:
    """Return a value in TOML."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # Names of files may have bytes that are no text. TOML has the escapes of JSON, and no DEL.
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
