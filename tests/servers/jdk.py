"""Finds the Java tools that the servers need: a JDK of version 21 or later, and Maven."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 21

# Where package managers put JDKs; `java` on the PATH is often an older one than the best of these.
USUAL_PLACES = (
    ("/usr/lib/jvm", "*"),
    ("~/.sdkman/candidates/java", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
)


class Unavailable(Exception):
    """No server can be had this way; the message says why, for a person to read."""


@dataclass(frozen=True)
class Jdk:
    home: Path
    version: int

    def tool(self, name: str) -> str:
        return str(self.home / "bin" / name)


def find_jdk() -> Jdk:
    """The JDK to compile and run with; one that the environment names comes first."""
    chosen = os.environ.get("ESDEDUP_TEST_JAVA_HOME")
    if chosen:
        jdk = inspect_jdk(Path(chosen))
        if jdk is None:
            raise Unavailable(
                f"ESDEDUP_TEST_JAVA_HOME={chosen} is no JDK {OLDEST_JAVA} or later with javac"
            )
        return jdk
    for home in _named_homes():
        jdk = inspect_jdk(home)
        if jdk is not None:
            return jdk
    found = [jdk for home in _usual_homes() if (jdk := inspect_jdk(home)) is not None]
    if not found:
        raise Unavailable(
            f"no JDK {OLDEST_JAVA} or later with javac was found "
            "(set ESDEDUP_TEST_JAVA_HOME to one)"
        )
    # The oldest that serves: servers are released against it, and seldom against the newest.
    return min(found, key=lambda jdk: (jdk.version, str(jdk.home)))


def find_maven() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) was not found on the PATH")
    return maven


def inspect_jdk(home: Path) -> Jdk | None:
    """The JDK in this folder if it can compile and is new enough."""
    bin_folder = home / "bin"
    if not all(os.access(bin_folder / name, os.X_OK) for name in ("java", "javac")):
        return None
    version = _version_from_release_file(home) or _version_from_java(bin_folder / "java")
    return Jdk(home, version) if version is not None and version >= OLDEST_JAVA else None


def _named_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent


def _usual_homes() -> Iterator[Path]:
    for folder, pattern in USUAL_PLACES:
        yield from Path(folder).expanduser().glob(pattern)


def _version_from_release_file(home: Path) -> int | None:
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    return int(match[1]) if match else None


def _version_from_java(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None
