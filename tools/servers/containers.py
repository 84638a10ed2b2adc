"""The same servers as containers, if a Docker engine answers."""

import contextlib
import functools
import gc
import warnings
from collections.abc import Callable

IMAGES = {
    "elasticsearch": "docker.elastic.co/elasticsearch/elasticsearch",
    "opensearch": "docker.io/opensearchproject/opensearch",
}

PORT = 9200
HEAP = "-Xms512m -Xmx512m"
START_SECONDS = 180

COMMON_ENVIRONMENT = {
    "discovery.type": "single-node",
    # A nearly full disk of a developer must not make indices read-only.
    "cluster.routing.allocation.disk.threshold_enabled": "false",
}

ENVIRONMENTS = {
    "elasticsearch": {
        "ES_JAVA_OPTS": HEAP,
        "xpack.security.enabled": "false",
        # Neither is used, and both cost a small machine start-up time and memory.
        "xpack.ml.enabled": "false",
        "ingest.geoip.downloader.enabled": "false",
    },
    "opensearch": {
        "OPENSEARCH_JAVA_OPTS": HEAP,
        "DISABLE_SECURITY_PLUGIN": "true",
        # It would insist on a strong admin password although security is off.
        "DISABLE_INSTALL_DEMO_CONFIG": "true",
    },
}


@functools.cache
def engine_answers() -> bool:
    """Return whether a Docker engine can be used; ask first where no other thread runs.

    Without one, docker leaves sockets behind, and pytest would blame the next test for them, or
    fail at the end of a run whose tests all passed. Warnings are ignored in all threads or none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import docker  # type: ignore[import-untyped, unused-ignore]
            import testcontainers.core.wait_strategies  # noqa: F401

            with contextlib.closing(docker.from_env(timeout=5)) as client:
                return bool(client.ping())
        except Exception:  # No package, no socket, no permission: all mean no engine for us.
            return False
        finally:
            gc.collect()


def start_container(product: str, version: str) -> tuple[str, Callable[[], None]]:
    """Address and stop function of a ready server without security.

    The general container class, and not testcontainers' own ones for the two products: these
    know no recent OpenSearch (its demo configuration refuses their default password).
    """
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import HttpWaitStrategy

    container = DockerContainer(f"{IMAGES[product]}:{version}").with_exposed_ports(PORT)
    for name, value in {**COMMON_ENVIRONMENT, **ENVIRONMENTS[product]}.items():
        container.with_env(name, value)
    healthy = HttpWaitStrategy(PORT, "/_cluster/health").with_startup_timeout(START_SECONDS)
    container.waiting_for(healthy)
    try:
        container.start()
    except BaseException:
        container.stop()
        raise
    address = f"http://{container.get_container_host_ip()}:{container.get_exposed_port(PORT)}"
    return address, container.stop
