"""Show the settings that messages of the library name as options of the command line.

The library writes a setting in backticks, by its name in Python: "raise `retry_for`". A command
shows this as "raise --retry-for". Commands in backticks have blanks, and stay.
"""

import logging
import re

from esdedup.cli.command import CONTEXT, option_of

_SETTING = re.compile(r"`([a-z][a-z0-9_]*)`")
_OTHER_OPTIONS = {
    "fingerprint": "--cert-fingerprint",
    "with_blank": "--bits FIELD:BITS:ENCODING:all",
}
"""Options whose settings have another name in Python, or are a part of another one."""


def with_options(message: str) -> str:
    """Return a message with options in place of the settings in backticks."""
    return _SETTING.sub(lambda match: _option_of_setting(match[1]), message)


class OptionsFormatter(logging.Formatter):
    """Formats messages of the library's loggers with options in place of settings."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return with_options(super().format(record))


def _option_of_setting(setting: str) -> str:
    """Return the option of the running command that sets a setting, preferably its long name."""
    context = CONTEXT.get(None)
    for parameter in context.command.params if context is not None else ():
        if parameter.name == setting:
            long_names = (name for name in parameter.opts if name.startswith("--"))
            return next(long_names, parameter.opts[0])
    return _OTHER_OPTIONS.get(setting) or option_of(setting)
