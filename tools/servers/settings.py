"""Settings and JVM flags that every node from jars has, in a process or in an image."""

from pathlib import Path
from typing import Any

LOG_CONFIGURATION = Path(__file__).parent / "log4j2.properties"

# C1 alone: test nodes live for seconds to minutes, and on two cores C2 costs three nodes that
# start together twice the time, while bulk indexing hardly gains. Serial: the other collectors
# want more threads and memory than a heap of 512 MB repays. Measurements need other flags.
QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)

# What Elasticsearch's own start script passes for the vector module and native calls.
ELASTICSEARCH_FLAGS = ("--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED")

COMMON_SETTINGS: dict[str, Any] = {
    "network.host": "127.0.0.1",
    # A nearly full disk of a developer must not make indices read-only.
    "cluster.routing.allocation.disk.threshold_enabled": False,
    # Otherwise garbage not yet collected counts, and a small heap answers 429 at random.
    "indices.breaker.total.use_real_memory": False,
}
