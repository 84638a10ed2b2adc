"""Ports for servers of the tests."""

import os
import random
import socket
import threading

# Below the range from which systems take ports for outgoing connections: a port of ours that is
# free while its node is down must still be free when the node comes back.
PORTS = range(20_000, 32_000)

# Each process of a test run has ports of its own, by its name: gw0, gw1 and so on.
_PROCESSES = 32
_process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1")[2:]) + 1

_given: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """A port that nothing listens on and that this process has not given out before."""
    with _lock:
        for port in random.SystemRandom().sample(PORTS[_process % _PROCESSES :: _PROCESSES], 200):
            if port not in _given and _can_bind(port):
                _given.add(port)
                return port
    raise RuntimeError("no free port was found")


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
