"""The errors of esdedup.

EsdedupError                 never raised itself; catch it to catch them all
├── UsageError               a wrong option, parameter or file name (also a ValueError)
│   ├── SchemeMismatch       the index holds another scheme's tokens
│   └── MissingExtra         an optional package is not installed
├── InputError               an input can't be read to its end
├── RecordError              one record of an input can't be used
│   └── DuplicateFound       it is similar to an earlier one, and the policy is to fail
├── StoreError               the store refused or failed
│   ├── IndexNotFound        no index has this name
│   ├── AuthenticationFailed the server refused the credentials
│   ├── PermissionDenied     the credentials lack a privilege
│   └── StoreUnavailable     the server can't be reached, or stopped answering
"""

from __future__ import annotations


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


class DuplicateFound(RecordError):
    """A document is a near-duplicate, which the policy forbids."""


class StoreError(EsdedupError):
    """The store refused a request or failed."""


class IndexNotFound(StoreError):
    """No index has that name, or it has no esdedup fields."""


class AuthenticationFailed(StoreError):
    """The server refused the user name, password, key or token."""


class PermissionDenied(StoreError):
    """The user lacks a privilege; the message names the action."""


class StoreUnavailable(StoreError):
    """The server can't be reached, or did not answer in time."""
