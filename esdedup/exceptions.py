"""The errors of esdedup: `EsdedupError` is the base of all of them."""

import json
import sys


class EsdedupError(Exception):
    """Base of all errors that esdedup raises on purpose."""


class UsageError(EsdedupError, ValueError):
    """An argument, option or parameter is wrong; the message says which and what to do."""


class SchemeMismatch(UsageError):
    """The index was made with another scheme; the message names the differences."""


class MissingExtra(UsageError):
    """A package that this use needs is not installed; the message says how to install it."""


class InputError(EsdedupError):
    """An input file broke off or can't be unpacked."""


class RecordError(EsdedupError, ValueError):
    """One input record can't be used; the message says why."""


class StoreError(EsdedupError):
    """The store refused a request or failed."""


class IndexNotFound(StoreError):
    """No index has that name, or it has no esdedup fields."""


class AuthenticationFailed(StoreError):
    """The server refused the user name, password, key or token."""


class PermissionDenied(StoreError):
    """The user lacks a privilege; the message names the action."""


class StoreUnavailable(StoreError):
    """The server can't be reached, is not ready, or did not answer in time.

    retry_after: seconds that the server asked to wait, or None.
    """

    retry_after: float | None = None


def json_fault(error: Exception) -> str:
    """Return the reason of an error of `json`, without the place, as in "not valid JSON: ..."."""
    if isinstance(error, RecursionError):
        return "not valid JSON: nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg.removesuffix(' at').removesuffix(' starting')}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if "set_int_max_str_digits" in str(error):
        return f"a number has more than {sys.get_int_max_str_digits()} digits"
    return str(error)
