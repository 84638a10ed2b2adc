"""Makes a runnable server out of the jars its makers publish, once, in a cache outside the tree."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tools.servers.jdk import OLDEST_JAVA, Jdk, Unavailable, find_jdk, find_maven

try:
    import fcntl
except ImportError:  # Windows: no file locks of this kind, so no shared cache.
    fcntl = None  # type: ignore[assignment]

HERE = Path(__file__).parent

LAUNCHERS = {
    "elasticsearch": "org.elasticsearch.node.StartElasticsearch",
    "opensearch": "org.opensearch.node.StartOpenSearch",
}
DESCRIPTOR = "plugin-descriptor.properties"
OUR_MODULES = ("Analysis", "Processors")
"""Ends of the names of our modules for Elasticsearch: analysis, and processors of pipelines."""

ZSTD = "libzstd.so.1"
LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
# All that the server asks of it if the processor has no instructions for vectors.
LIBVEC = "int vec_caps(void) { return 0; }\n"

# Maven runs for seconds, so its code is compiled quickly, not well.
QUICK_MAVEN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Some 50 MB must not hang a run for ever, and the reason should come before pytest's own limit.
MAVEN_SECONDS = 500


@dataclass(frozen=True)
class Installation:
    """The jars of one server, ready to run."""

    product: str
    version: str
    secured: bool
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
    def native_libraries(self) -> Path | None:
        """The folder of libraries without which Elasticsearch has no index modes, if it has one."""
        folder = self.folder / "native"
        return folder if folder.is_dir() else None

    @property
    def security_config(self) -> Path:
        """The files that OpenSearch's security plugin begins with: actions, roles, users."""
        return self.folder / "security-config"


def install(product: str, version: str, secured: bool = False) -> Installation:
    """The server from the cache; the first call downloads and compiles."""
    jdk = find_jdk()
    recipe = Recipe(product, version, secured)
    folder = cache_root() / f"{recipe.name}-{version}-{recipe.digest}"
    if not folder.is_dir():
        with _locked(cache_root() / "lock"):
            if not folder.is_dir():
                _build(recipe, jdk, folder)
    return Installation(product, version, secured, folder, jdk)


@dataclass(frozen=True)
class Recipe:
    """The files of ours that turn published jars into a server, with or without security."""

    product: str
    version: str
    secured: bool

    @property
    def name(self) -> str:
        return f"{self.product}-secured" if self.secured else self.product

    @property
    def pom(self) -> Path:
        return HERE / self.name / "pom.xml"

    @property
    def sources(self) -> list[Path]:
        """The sources of the launcher, which is the same with security."""
        launcher = HERE / self.product / f"{LAUNCHERS[self.product].rpartition('.')[2]}.java"
        more = set((HERE / self.name).glob("*.java")) - {launcher, *self.modules}
        return [launcher, *sorted(more)]

    @property
    def modules(self) -> list[Path]:
        """The source of each module of ours: what Elasticsearch does not publish."""
        folders = {HERE / self.product, HERE / self.name}
        return sorted(
            file
            for folder in folders
            for end in OUR_MODULES
            for file in folder.glob(f"*{end}.java")
        )

    def of_version(self, module: Path) -> list[Path]:
        """The sources of a module that only this major version compiles."""
        folder = module.parent / self.version.partition(".")[0]
        return sorted(folder.glob(f"{module.stem}*.java"))

    @property
    def digest(self) -> str:
        """Change with the recipe, so that nobody runs a server made by an older one."""
        digest = hashlib.sha256()
        special = [file for module in self.modules for file in self.of_version(module)]
        for file in (self.pom, *self.sources, *self.modules, *special, Path(__file__)):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:12]


def cache_root() -> Path:
    chosen = os.environ.get("ESDEDUP_TEST_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("esdedup-tests"))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time in the whole cache: Maven's own repository bears no more."""
    if fcntl is None:
        raise Unavailable("servers from jars need a POSIX system")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, jdk: Jdk, folder: Path) -> None:
    """Build beside the final place and renames, so that a folder there is always whole."""
    maven = find_maven()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _download(maven, recipe, jdk, Path(scratch), made / "lib")
        if recipe.product == "opensearch" and recipe.secured:
            _unpack_security(made)
        _compile(recipe.sources, made / "launcher.jar", jdk, made / "lib")
        if recipe.product == "elasticsearch":
            _make_modules(recipe, jdk, made)
            _make_native_libraries(made)
        made.rename(folder)


def _download(maven: str, recipe: Recipe, jdk: Jdk, scratch: Path, target: Path) -> None:
    # A copy of the pom, as Maven may write beside it and the checkout may be read-only.
    pom = shutil.copy(recipe.pom, scratch / "pom.xml")
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    command += [f"-Dserver.version={recipe.version}", f"-DoutputDirectory={target}"]
    command += ["-DincludeScope=runtime"]
    _run(command, f"{recipe.name} {recipe.version} from Maven", jdk, scratch)


def _compile(sources: list[Path], jar: Path, jdk: Jdk, lib: Path) -> None:
    with tempfile.TemporaryDirectory(dir=lib.parent) as classes:
        command = [jdk.tool("javac"), "--release", str(OLDEST_JAVA), "-proc:none"]
        command += ["-cp", str(lib / "*"), "-d", classes, *map(str, sources)]
        _run(command, jar.name, jdk, lib.parent)
        # A jar and no folder, because the JVM archives no classes from folders.
        with zipfile.ZipFile(jar, "w") as archive:
            for file in sorted(Path(classes).rglob("*.class")):
                archive.write(file, file.relative_to(classes).as_posix())


def _make_modules(recipe: Recipe, jdk: Jdk, made: Path) -> None:
    """Elasticsearch takes HTTP and security only from module folders with descriptors in them."""
    for source in recipe.modules:
        module = made / "modules" / source.stem
        module.mkdir(parents=True)
        _compile(
            [source, *recipe.of_version(source)], module / f"{module.name}.jar", jdk, made / "lib"
        )
        (module / DESCRIPTOR).write_text(
            f"classname=esdedup.tests.{module.name}\nname={module.name}\n"
            f"description=What no published module has\nversion={recipe.version}\n"
            f"elasticsearch.version={recipe.version}\njava.version={OLDEST_JAVA}\n",
            encoding="utf-8",
        )
    http = _move_module(made, "transport-netty4", "netty-*.jar")
    if recipe.secured:
        _move_module(made, "x-pack-core")
        security = _move_module(made, "x-pack-security")
        # It extends the transport, and its class loader does not see the other module's jars.
        for jar in http.glob("*.jar"):
            (security / jar.name).hardlink_to(jar)


def _move_module(made: Path, name: str, *others: str) -> Path:
    """Move a module's jar, and others, from `lib` to its folder; returns the folder."""
    module = made / "modules" / name
    module.mkdir(parents=True)
    for pattern in (f"{name}-*.jar", *others):
        for jar in (made / "lib").glob(pattern):
            jar.rename(module / jar.name)
    (own,) = module.glob(f"{name}-*.jar")
    with zipfile.ZipFile(own) as contents:
        lines = contents.read(f"META-INF/es-plugins/{name}/{DESCRIPTOR}").decode().splitlines()
    # As a Java module it would look for the rest of the server on the module path, and the rest
    # is on the class path.
    kept = [line for line in lines if not line.startswith("modulename=")]
    (module / DESCRIPTOR).write_text("\n".join(kept) + "\n", encoding="utf-8")
    return module


def _make_native_libraries(made: Path) -> None:
    """Provide the libraries that no jar has: zstd, for the codec of logsdb, and one of vectors.

    Without them, or a C compiler, the node runs, and can create no index of such a mode.
    """
    compiler = shutil.which("cc")
    # Debian keeps libraries one folder deeper.
    places = (
        Path(folder).glob(f"{depth}{ZSTD}") for folder in LIBRARY_FOLDERS for depth in ("", "*/")
    )
    zstd = next((file for files in places for file in files), None)
    if compiler is None or zstd is None:
        return
    source = made / "vec.c"
    source.write_text(LIBVEC, encoding="ascii")
    command = [compiler, "-shared", "-fPIC", "-o", str(made / "libvec.so"), str(source)]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        (made / "native").mkdir()
        (made / "libvec.so").rename(made / "native" / "libvec.so")
        shutil.copy(zstd, made / "native" / "libzstd.so")


def _unpack_security(made: Path) -> None:
    """Take from the archive of OpenSearch's security plugin its settings and missing jars."""
    lib = made / "lib"
    there = {_artifact(jar.name) for jar in lib.glob("*.jar")}
    (archive,) = lib.glob("opensearch-security-*.zip")
    with zipfile.ZipFile(archive) as contents:
        for name in contents.namelist():
            file = Path(name)
            if file.suffix == ".jar" and _artifact(file.name) not in there:
                (lib / file.name).write_bytes(contents.read(name))
            elif file.suffix == ".yml" and file.parent.name == "config":
                (made / "security-config").mkdir(exist_ok=True)
                (made / "security-config" / file.name).write_bytes(contents.read(name))
    archive.unlink()


def _artifact(jar: str) -> str:
    """The name of a jar without its version."""
    return re.split(r"-\d", jar)[0]


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
