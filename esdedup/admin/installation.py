"""Describe the installed packages, for `esdedup doctor` and reports of bugs."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from esdedup.text.characters import VERSION, VERSIONS

_PACKAGE = "esdedup"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<versions>[^;]*)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NOT_OF_USERS = {"test"}
"""Extras that only developers of esdedup install."""


@dataclass(frozen=True)
class Package:
    """A package that esdedup uses.

    name: its name.
    version: the installed one; None if it is not installed.
    accepted: the versions that esdedup accepts, such as ">=2.0".
    extras: the extras of esdedup that require it; empty if esdedup always does.
    """

    name: str
    version: str | None
    accepted: str
    extras: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        """True if it is not installed, and esdedup can't run without it."""
        return self.version is None and not self.extras


@dataclass(frozen=True)
class Installation:
    """What is installed.

    version: of esdedup.
    scheme_version: of the algorithms of new indices.
    scheme_versions: those whose tokens can be computed.
    python: its version and implementation.
    system: the operating system and processor.
    processors: how many of them this process can use.
    packages: those that esdedup requires first, then those of its extras.
    """

    version: str
    scheme_version: int
    scheme_versions: tuple[int, ...]
    python: str
    system: str
    processors: int
    packages: tuple[Package, ...]


def describe_installation() -> Installation:
    """Return what is installed in this environment."""
    return Installation(
        version=version(_PACKAGE),
        scheme_version=VERSION,
        scheme_versions=VERSIONS,
        python=f"{platform.python_version()} ({platform.python_implementation()})",
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        processors=_processors(),
        packages=packages(),
    )


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def packages() -> tuple[Package, ...]:
    """Return the packages that esdedup requires, and those of its extras, in order of names."""
    extras: dict[str, set[str]] = {}
    accepted: dict[str, str] = {}
    for requirement in requires(_PACKAGE) or ():
        parsed = _REQUIREMENT.match(requirement)
        extra = _EXTRA.search(requirement)
        if parsed is None or (extra and extra[1] in _NOT_OF_USERS):
            continue
        name = parsed["name"]
        if name == _PACKAGE:
            continue
        accepted.setdefault(name, parsed["versions"].strip(" ()"))
        extras.setdefault(name, set()).update([extra[1]] if extra else ())
    packages = (
        Package(name, _installed(name), accepted[name], tuple(sorted(extras[name])))
        for name in accepted
    )
    return tuple(sorted(packages, key=lambda package: (bool(package.extras), package.name)))


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
