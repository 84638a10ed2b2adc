"""Find the Java tools that the servers need: a JDK of version 21 or later, and Maven."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 21
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)


class Unavailable(Exception):
    """No server can be had this way; the message says why, for a person to read."""


@dataclass(frozen=True)
class Jdk:
    home: Path
    version: int

    def tool(self, name: str) -> str:
        return str(self.home / "bin" / name)


def find_jdk() -> Jdk:
    """The JDK to compile and run with: the first of those that the environment names, or else the
    oldest that serves, because servers are released against it and seldom against the newest."""
    chosen = os.environ.get("ESDEDUP_TEST_JAVA_HOME")
    homes = [Path(chosen)] if chosen else [*_named_homes()]
    installed = [] if chosen else Path("/usr/lib/jvm").glob("*")
    for jdk in filter(None, map(_inspected, homes)):
        return jdk
    found = [jdk for jdk in map(_inspected, installed) if jdk is not None]
    if not found:
        named = f"{chosen} is not one" if chosen else "set ESDEDUP_TEST_JAVA_HOME to one"
        raise Unavailable(f"no JDK {OLDEST_JAVA} or later with javac was found ({named})")
    return min(found, key=lambda jdk: (jdk.version, str(jdk.home)))


def find_maven() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) was not found on the PATH")
    return maven


def _named_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent


def _inspected(home: Path) -> Jdk | None:
    """The JDK in this folder if it can compile and is new enough."""
    release = home / "release"
    if not all(os.access(home / "bin" / name, os.X_OK) for name in ("java", "javac")):
        return None
    match = _VERSION.search(release.read_text("utf-8", "replace")) if release.exists() else None
    version = int(match[1]) if match else 0
    return Jdk(home, version) if version >= OLDEST_JAVA else None
