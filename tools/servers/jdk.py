"""Find the Java tools that the servers need: a JDK of version 21 or later, and Maven."""

import os
import re
import shutil
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
    named = [chosen] if chosen else [os.environ.get("JAVA_HOME", "")]
    if not chosen and (on_path := shutil.which("java")):
        named.append(str(Path(on_path).resolve().parent.parent))
    for home in filter(None, named):
        if jdk := _inspected(Path(home)):
            return jdk
    installed = [] if chosen else Path("/usr/lib/jvm").glob("*")
    found = [jdk for jdk in map(_inspected, installed) if jdk is not None]
    if not found:
        reason = f"{chosen} is not one" if chosen else "set ESDEDUP_TEST_JAVA_HOME to one"
        raise Unavailable(f"no JDK {OLDEST_JAVA} or later with javac was found ({reason})")
    return min(found, key=lambda jdk: (jdk.version, str(jdk.home)))


def find_maven() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) was not found on the PATH")
    return maven


def _inspected(home: Path) -> Jdk | None:
    """The JDK in this folder if it can compile and is new enough."""
    release = home / "release"
    if not all(os.access(home / "bin" / name, os.X_OK) for name in ("java", "javac")):
        return None
    match = _VERSION.search(release.read_text("utf-8", "replace")) if release.exists() else None
    version = int(match[1]) if match else 0
    return Jdk(home, version) if version >= OLDEST_JAVA else None
