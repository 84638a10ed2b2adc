"""The figures that operators watch, in the text format of Prometheus."""

import os
from typing import get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from esdedup.proxy.splice import Outcome

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which several processes share their figures."""
_PREFIX = "esdedup_proxy_"
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Metrics:
    """The figures of one process. The page adds up those of all processes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.documents = self._counter(
            "documents",
            "Documents of requests that the upstream accepted, by what became of their tokens:"
            " added, removed with the text, or why there are none.",
            "tokens",
        )
        for outcome in get_args(Outcome):
            self.documents.labels(outcome)  # From 0 on, or the first of a kind is no increase.
        self._requests = self._counter("requests", "Requests, by status.", "kind", "status")
        self._received = self._counter("received_bytes", "Bytes of the bodies of requests.")
        self.upstream_errors = self._counter(
            "upstream_errors", "Requests that the upstream did not answer, by reason.", "reason"
        )
        self.refused = self._counter(
            "refused_connections", "Connections that were closed, by status.", "status"
        )
        self.refused_requests = self._counter(
            "refused_requests",
            "Requests of which nothing was sent on, because an action or the body can't be read.",
            "kind",
            "status",
        )
        self._request_seconds = self._histogram(
            "request_seconds", "Seconds from a request to the end of its answer.", "kind"
        )
        self.upstream_seconds = self._histogram(
            "upstream_seconds", "Seconds until the upstream began its answer."
        )

    def request(self, kind: str, status: int, seconds: float, received: int) -> None:
        """Count a request that has ended. status: 499 if the client hung up before its answer."""
        self._requests.labels(kind, str(status)).inc()
        self._request_seconds.labels(kind).observe(seconds)
        self._received.inc(received)

    def page(self) -> tuple[bytes, bytes]:
        """Return the page and its content type."""
        registry = self._registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST.encode()

    def _counter(self, name: str, title: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, title, labels, registry=self._registry)

    def _histogram(self, name: str, title: str, *labels: str) -> Histogram:
        return Histogram(_PREFIX + name, title, labels, registry=self._registry, buckets=_SECONDS)
