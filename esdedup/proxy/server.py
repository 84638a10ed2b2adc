"""The process that listens: bounded connections, TLS, signals, several processes on one socket."""

import asyncio
import dataclasses
import functools
import logging
import os
import signal
import socket
import ssl
import sys
import tempfile
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState
from uvicorn.supervisors import Multiprocess

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.ingest.parallel import be_a_program
from esdedup.proxy import logs
from esdedup.proxy.app import Service
from esdedup.proxy.http import Failed
from esdedup.proxy.logs import Show
from esdedup.proxy.metrics import METRICS_FOLDER
from esdedup.proxy.settings import ProxySettings

_LARGEST_HEAD = 16 << 10
"""Bytes of a request line and headers. After more, the servers read nothing further from the
connection, which the next client's request would use."""
_TOO_LARGE = f"the head is larger than {_LARGEST_HEAD >> 10} KB"
_READ = 64 << 10
"""Bytes that are read from a client at a time."""
_IDLE_SECONDS = 3600
"""Clients keep connections for long, as the servers never close them."""
_BACKLOG = 2048
_READY_SECONDS = 30
"""Until a process that replaces another must serve, and until one that does not answer is replaced.
With uvicorn's own 5, replacements were aborted on two cores at a load of 5; with 30, none at 13."""
_FILES = 1 << 14
"""Open files that a process asks for. A client needs three."""

log = logging.getLogger(__name__)


def serve(settings: ProxySettings, show: Show = str) -> None:
    """Serve until a signal ends the process.

    show: applied to messages in logs and answers; it is pickled if there are several processes.
    Raises UsageError if a setting is wrong, and EsdedupError if the address can't be used.
    """
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise UsageError(f"no folder for temporary files: {error.strerror}; set TMPDIR") from error
    of_process = dataclasses.replace(
        settings,
        max_memory=settings.max_memory // settings.processes,
        max_connections=-(-settings.max_connections // settings.processes),
    )
    Service(of_process)
    if settings.certificate:
        _tls(settings)
    elif settings.key or settings.client_ca:
        raise UsageError("`key` and `client_ca` require `certificate`")
    listener = _listener(settings.host, settings.port)
    logs.configure(settings.log_format, show)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http{'s' if settings.certificate else ''}://{host}:{settings.port}"
    log.info("Listening on %s, passing to %s", address, settings.upstream)
    config = uvicorn.Config(
        functools.partial(_application, of_process, show),
        factory=True,
        http=_Connection,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=settings.grace_seconds,
        ssl_context_factory=functools.partial(_tls, of_process) if settings.certificate else None,
        workers=settings.processes,
        timeout_worker_healthcheck=_READY_SECONDS,
    )
    if settings.processes == 1:
        config.load()
        if sys.platform != "win32":
            signal.signal(signal.SIGHUP, lambda *_: _renew(of_process, config))
        # Uvicorn sends the process the signal again when it has ended.
        signal.signal(signal.SIGTERM, lambda *_: None)
        uvicorn.Server(config).run([listener])
        return
    logging.getLogger("uvicorn.error").setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(
        prefix="esdedup-metrics-", ignore_cleanup_errors=True
    ) as folder:
        os.environ[METRICS_FOLDER] = folder
        Multiprocess(config, [listener]).run()


def _application(settings: ProxySettings, show: Show) -> Service:
    """Set up a process that serves, and return its application."""
    be_a_program()
    sys.setswitchinterval(0.001)
    if sys.platform != "win32":
        import resource

        hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = _FILES if hard_limit == resource.RLIM_INFINITY else min(_FILES, hard_limit)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard_limit))
    logs.configure(settings.log_format, show)
    return Service(settings, show)


def _renew(settings: ProxySettings, config: uvicorn.Config) -> None:
    """Read certificates and authorities again, for new connections."""
    try:
        if settings.certificate:
            # Half of a bad pair would stay in the context.
            _tls(settings)
            _tls(settings, context=config.ssl)
        config.loaded_app.upstream.renew()
    except UsageError as error:
        log.error("the old certificates stay: %s", error)
    else:
        log.info("the certificates and authorities were read again")


def _listener(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises EsdedupError."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        families = {family for family, *_ in addresses}
        family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        # "::" is every address of both kinds.
        dual = host == "::" and socket.has_dualstack_ipv6()
        bound = socket.create_server((host, port), family=family, dualstack_ipv6=dual)
        # asyncio turns Nagle's algorithm off, which delays answers, if the protocol is known.
        return socket.socket(fileno=bound.detach())
    except OSError as error:
        raise EsdedupError(f"can't listen on {host}, port {port}: {error.strerror}") from error


def _tls(
    settings: ProxySettings, *_: object, context: ssl.SSLContext | None = None
) -> ssl.SSLContext:
    """Return the context of connections with clients. Raises UsageError.

    context: add to it, in place of a new one.
    """
    certificate, key, client_ca = settings.certificate, settings.key, settings.client_ca
    assert certificate is not None
    files = {"`certificate`": certificate, "`key`": key, "`client_ca`": client_ca}
    for setting, file in files.items():
        try:
            if file is not None:
                file.read_bytes()
        except OSError as error:
            raise UsageError(f"{setting} {file}: {error.strerror}") from error
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = f"`certificate` {certificate}" + (f" with `key` {key}" if key else "")
    try:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
        if client_ca:
            names = f"`client_ca` {client_ca}"
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise UsageError(f"{names}: {str(reason).replace('_', ' ').lower()}") from error
    return context


class _Connection(HttpToolsProtocol):
    """A client's connection, closed if the head of a request is late or too large.

    A head is the request line and the headers. Errors are answered in the servers' form.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._service: Service = cast(Service, config.loaded_app)
        self._settings = self._service.settings
        self._head_timer: asyncio.TimerHandle | None = None
        self._head = 0
        """Bytes of the head so far."""
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ
        if len(self.connections) > self._settings.max_connections:
            log.warning("refused a connection: %d are open", self._settings.max_connections)
            self._refuse(503, "service_unavailable", "too many connections")
        else:
            self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._in_body:
            self._head += len(data)
        super().data_received(data)
        if not self._in_body and self._head > _LARGEST_HEAD:
            self._refuse(431, "request_header_fields_too_large", _TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:
            self._time_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers would be taken for headers, which a server in front may have removed.
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            raise ValueError("the target of the request is not a path")
        if sum(len(name) + len(value) for name, value in self.headers) > _LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)
        self._stop_timer()
        self._head, self._in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if not self.cycle.response_complete:
            # The rest stays with the client until the application asks for it.
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        error: Any = sys.exc_info()[1]
        self._refuse(
            400, "bad_request", f"the request can't be parsed: {error.__context__ or error}"
        )

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore it: such clients expect the answer in HTTP/1.1."""

    def _time_head(self) -> None:
        self._head_timer = self.loop.call_later(self._settings.head_timeout, self._head_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._time_head()
            return
        late = f"no whole head came in {self._settings.head_timeout:g} s"
        log.warning("closed a connection: %s", late)
        self._refuse(408, "request_timeout", late)

    def _refuse(self, status: int, kind: str, reason: str) -> None:
        """Answer by an error and close the connection."""
        self._service.metrics.refused.labels(str(status)).inc()
        answer = Failed.error(status, kind, reason, retry=1 if status == 503 else None).answer
        lines = [name + b": " + value + b"\r\n" for name, value in answer.headers]
        head = [STATUS_LINE[status], *lines, b"connection: close\r\n\r\n"]
        self.transport.write(b"".join([*head, answer.body]))
        self.transport.close()
