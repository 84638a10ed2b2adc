"""Images by their official names: from a registry, or made on the spot where none answers.

A stand-in has the name, port, user, variables and health check of the real image, so that our
Dockerfile, docker-compose.yml and testcontainers run as they are. Its inside differs: Debian's
Python in place of the official build, and a node of the jars (tools/servers/jars.py) in place of a
full distribution. The run reports at its end which images were stand-ins.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.servers.containers import IMAGES, PORT
from tools.servers.engine import ON_DISK, Engine
from tools.servers.jars import Installation, install
from tools.servers.jdk import Unavailable
from tools.servers.settings import (
    COMMON_SETTINGS,
    ELASTICSEARCH_FLAGS,
    LOG_CONFIGURATION,
    QUICK_START,
)

HERE = Path(__file__).parent

LABEL = "esdedup.stand-in"
BASE = "esdedup-stand-in"
"""What all stand-ins are made of: Debian with Python and curl."""
JAVA = "esdedup-stand-in-java"

DEBIAN = "bookworm"
PACKAGES = "base-files,dash,coreutils,libstdc++6,python3-venv,ca-certificates,curl"
PYTHON_IMAGE = "python:3.11-slim"
"""Has the version of Python in this Debian: images of no other can be made."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What the machine needs to reach its registries of packages, the image needs too.
NETWORK_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")

# Folders and files of a JDK that no program runs on.
NOT_TO_RUN = {"jmods", "src.zip", "ct.sym", "include", "man", "legal", "demo"}

NODE_USER = "1000:0"


def provide_image(engine: Engine, name: str) -> bool:
    """Make an image ready under its official name, and tells if it is a stand-in.

    Raises Unavailable if no registry has it and it cannot be made.
    """
    label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    with contextlib.suppress(AssertionError):
        return engine.docker("image", "inspect", "--format", label, name).strip() == "true"
    try:
        engine.docker("pull", "--quiet", name)
    except AssertionError as error:
        _make(engine, name, reason=str(error))
        return True
    return False


def _make(engine: Engine, name: str, reason: str) -> None:
    repository, _, tag = name.rpartition(":")
    # Docker's own registry has no name in an image's.
    products = {full.removeprefix("docker.io/"): product for product, full in IMAGES.items()}
    product = products.get(repository.removeprefix("docker.io/"))
    if name == PYTHON_IMAGE:
        _need(engine, BASE)
        # The real one has none either, so health checks must do without.
        _build(engine, name, f"FROM {BASE}\nRUN rm /usr/bin/curl\n", {})
    elif product is not None:
        _make_server(engine, name, install(product, tag))
    else:
        raise Unavailable(f"no stand-in is known for {name}, and it was not to be had: {reason}")


def _make_server(engine: Engine, name: str, server: Installation) -> None:
    _need(engine, BASE)
    if not _exists(engine, JAVA):
        _build(engine, JAVA, f"FROM {BASE}\nCOPY java /opt/java\n", {"java": server.jdk.home})
    recipe = _recipe(server)
    home = recipe["home"]
    # Readable for the user that the node runs as; it writes its settings, data and logs.
    lines = [
        f"FROM {JAVA}",
        f"COPY node {home}",
        f"RUN cd {home} && mkdir -p data logs && chown {NODE_USER} config data logs",
        f"USER {NODE_USER}",
        f"EXPOSE {PORT}",
        f'ENTRYPOINT ["python3", "{home}/start_node.py"]',
    ]
    files: dict[str, Path | bytes] = {
        "node/lib": server.folder / "lib",
        "node/launcher.jar": server.folder / "launcher.jar",
        "node/config/log4j2.properties": LOG_CONFIGURATION,
        "node/start_node.py": HERE / "start_node.py",
        "node/node.json": json.dumps(recipe).encode(),
    }
    if server.modules is not None:
        files["node/modules"] = server.modules
    _build(engine, name, "\n".join(lines), files)


def _recipe(server: Installation) -> dict[str, Any]:
    """Return the parameters of a node for start_node.py."""
    elasticsearch = server.product == "elasticsearch"
    home = f"/usr/share/{server.product}"
    flags = [*QUICK_START, *(ELASTICSEARCH_FLAGS if elasticsearch else ())]
    flags += [f"-D{'es' if elasticsearch else 'opensearch'}.path.home={home}"]
    return {
        "home": home,
        "java": "/opt/java/bin/java",
        "arguments": [*flags, "-cp", f"{home}/launcher.jar:{home}/lib/*", server.launcher, home],
        "settings": {**COMMON_SETTINGS, "network.host": "0.0.0.0", "http.port": PORT},
        "settings_file": f"{server.product}.yml",
        "options_variable": "ES_JAVA_OPTS" if elasticsearch else "OPENSEARCH_JAVA_OPTS",
        "unknown_settings": ["xpack.", "ingest.geoip."],
    }


def _need(engine: Engine, base: str) -> None:
    """Make the base of all stand-ins, if this engine lacks it."""
    if not _exists(engine, base):
        with tempfile.TemporaryDirectory(prefix="esdedup-image-", dir=ON_DISK) as scratch:
            root = Path(scratch) / "root.tar"
            _bootstrap(root)
            engine.docker("import", "--change", f"ENV PATH={PATH}", str(root), base)


def _exists(engine: Engine, name: str) -> bool:
    return bool(engine.docker("image", "ls", "--quiet", name).strip())


def _bootstrap(root: Path) -> None:
    """Unpack Debian's packages; no script of theirs runs, which takes a third of the time."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        raise Unavailable("no registry answers, and images are made by root with mmdebstrap only")
    hooks = [
        'mkdir -p "$1/usr/local/bin" "$1/etc/ssl/certs"',
        'ln -s /usr/bin/python3 "$1/usr/local/bin/python"',
        'echo "hosts: files dns" >"$1/etc/nsswitch.conf"',
        'echo "root:x:0:0:root:/root:/bin/sh" >"$1/etc/passwd"',
        'echo "root:x:0:" >"$1/etc/group"',
    ]
    hooks += [f'cp {file} "$1{file}"' for file in NETWORK_FILES if Path(file).exists()]
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={PACKAGES}"]
    command += ['--aptopt=Acquire::Languages "none"', '--aptopt=Apt::Install-Recommends "false"']
    command += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    command += [f"--extract-hook={hook}" for hook in hooks]
    done = subprocess.run(
        [*command, DEBIAN, str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"mmdebstrap failed: {done.stdout[-2000:]}")


def _build(engine: Engine, name: str, dockerfile: str, files: Mapping[str, Path | bytes]) -> None:
    """Build an image from these files, by their paths in the build context."""
    with _client(engine) as client, tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w", dereference=True) as archive:
            for path, content in {**files, "Dockerfile": dockerfile.encode()}.items():
                if isinstance(content, Path):
                    archive.add(content, path, filter=_to_run)
                else:
                    entry = tarfile.TarInfo(path)
                    entry.size, entry.mode = len(content), 0o644
                    archive.addfile(entry, io.BytesIO(content))
        context.seek(0)
        client.images.build(
            fileobj=context, custom_context=True, tag=name, labels={LABEL: "true"}, rm=True
        )


def _to_run(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    return None if Path(entry.name).name in NOT_TO_RUN else entry


@contextlib.contextmanager
def _client(engine: Engine) -> Iterator[Any]:
    import docker  # type: ignore[import-untyped, unused-ignore]

    client = docker.DockerClient(base_url=engine.host, timeout=600)
    try:
        yield client
    finally:
        client.close()
