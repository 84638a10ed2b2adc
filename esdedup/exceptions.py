"""The errors of esdedup: `EsdedupError` is the base of all of them."""


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
