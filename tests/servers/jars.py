"""Makes a runnable server out of the jars its makers publish, once, in a cache outside the tree."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tests.servers.jdk import OLDEST_JAVA, Jdk, Unavailable, find_jdk, find_maven

try:
    import fcntl
except ImportError:  # Windows: no file locks of this kind, so no shared cache.
    fcntl = None  # type: ignore[assignment]

HERE = Path(__file__).parent

LAUNCHERS = {
    "elasticsearch": "org.elasticsearch.node.StartElasticsearch",
    "opensearch": "org.opensearch.node.StartOpenSearch",
}

# Maven runs for seconds, so its code is compiled quickly, not well.
QUICK_MAVEN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Some 50 MB must not hang a run for ever, and the reason should come before pytest's own limit.
MAVEN_SECONDS = 500


@dataclass(frozen=True)
class Installation:
    """The jars of one server, ready to run."""

    product: str
    version: str
    folder: Path
    jdk: Jdk

    @property
    def launcher(self) -> str:
        return LAUNCHERS[self.product]

    @property
    def class_path(self) -> str:
        jars = [self.folder / "launcher.jar", *sorted((self.folder / "lib").glob("*.jar"))]
        return os.pathsep.join(map(str, jars))

    @property
    def modules(self) -> Path | None:
        """The folder of modules that a node loads by itself, if it has one."""
        folder = self.folder / "modules"
        return folder if folder.is_dir() else None

    @property
    def class_archive(self) -> Path:
        """Where the JVM keeps classes it has parsed once; it makes and checks the file itself."""
        return self.folder / f"classes-jdk{self.jdk.version}.jsa"


def install(product: str, version: str) -> Installation:
    """The server from the cache; the first call downloads and compiles."""
    jdk = find_jdk()
    folder = cache_root() / f"{product}-{version}-{_digest(product)}"
    if not folder.is_dir():
        with _locked(cache_root() / "lock"):
            if not folder.is_dir():
                _build(product, version, jdk, folder)
    return Installation(product, version, folder, jdk)


def cache_root() -> Path:
    chosen = os.environ.get("ESDEDUP_TEST_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("esdedup-tests"))


def _digest(product: str) -> str:
    """Changes with the recipe, so that nobody runs a server made by an older one."""
    digest = hashlib.sha256()
    for file in (_pom(product), _source(product), Path(__file__)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _pom(product: str) -> Path:
    return HERE / product / "pom.xml"


def _source(product: str) -> Path:
    return HERE / product / f"{LAUNCHERS[product].rpartition('.')[2]}.java"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time in the whole cache: Maven's own repository bears no more."""
    if fcntl is None:
        raise Unavailable("servers from jars need a POSIX system")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(product: str, version: str, jdk: Jdk, folder: Path) -> None:
    """Builds beside the final place and renames, so that a folder there is always whole."""
    maven = find_maven()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _download(maven, product, version, jdk, Path(scratch), made / "lib")
        _compile(product, jdk, Path(scratch) / "classes", made)
        if product == "elasticsearch":
            _move_http_module(made)
        made.rename(folder)


def _download(
    maven: str, product: str, version: str, jdk: Jdk, scratch: Path, target: Path
) -> None:
    # A copy of the pom, as Maven may write beside it and the checkout may be read-only.
    pom = shutil.copy(_pom(product), scratch / "pom.xml")
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    command += [f"-Dserver.version={version}", f"-DoutputDirectory={target}"]
    command += ["-DincludeScope=runtime"]
    _run(command, f"{product} {version} from Maven", jdk, scratch)


def _compile(product: str, jdk: Jdk, classes: Path, made: Path) -> None:
    command = [jdk.tool("javac"), "--release", str(OLDEST_JAVA), "-proc:none"]
    command += ["-cp", str(made / "lib" / "*"), "-d", str(classes), str(_source(product))]
    _run(command, f"the launcher of {product}", jdk, made)
    # A jar and no folder, because the JVM archives no classes from folders.
    with zipfile.ZipFile(made / "launcher.jar", "w") as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, file.relative_to(classes).as_posix())


def _move_http_module(made: Path) -> None:
    """Elasticsearch takes HTTP only from a module folder with a descriptor in it."""
    module = made / "modules" / "transport-netty4"
    module.mkdir(parents=True)
    lib = made / "lib"
    for jar in [*lib.glob("netty-*.jar"), *lib.glob("transport-netty4-*.jar")]:
        jar.rename(module / jar.name)
    (own,) = module.glob("transport-netty4-*.jar")
    with zipfile.ZipFile(own) as contents:
        inside = "META-INF/es-plugins/transport-netty4/plugin-descriptor.properties"
        lines = contents.read(inside).decode("utf-8").splitlines()
    # As a Java module it would look for the rest of the server on the module path, and the rest
    # is on the class path.
    kept = [line for line in lines if not line.startswith("modulename=")]
    (module / "plugin-descriptor.properties").write_text("\n".join(kept) + "\n", encoding="utf-8")


def _run(command: list[str], what: str, jdk: Jdk, folder: Path) -> None:
    environment = {
        **os.environ,
        "JAVA_HOME": str(jdk.home),
        "MAVEN_OPTS": f"{QUICK_MAVEN} {os.environ.get('MAVEN_OPTS', '')}",
    }
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAVEN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{what}: not done after {MAVEN_SECONDS} s") from error
    if done.returncode != 0:
        raise Unavailable(f"{what}: {' '.join(command[:1])} failed:\n{done.stdout[-2000:].strip()}")
