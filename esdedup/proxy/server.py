"""The process that listens: bounded connections, TLS, signals, several processes on one socket."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.ingest.parallel import be_a_program
from esdedup.proxy import logs
from esdedup.proxy.app import Service
from esdedup.proxy.http import Failed, Headers
from esdedup.proxy.memory import Limits
from esdedup.proxy.metrics import Metrics
from esdedup.proxy.upstream import Upstream

_LARGEST_HEAD = 64 << 10
_FIELD = 120
"""Bytes of memory that a header takes beside its name and value."""
_READ = 64 << 10
"""Bytes that are read from a client at a time."""
_IDLE_SECONDS = 3600
"""Clients keep connections for long, as the servers never close them."""
_TLS_END_SECONDS = 2.0
"""Time for a client to confirm the end of a TLS connection."""
_BACKLOG = 2048
_OTHER_DESCRIPTORS = 32
"""Open files of a process besides a client and an upstream connection for each request."""
_LINGER_SECONDS = 1.0
"""Time for a client to end a connection that was refused."""
_RESTART_SECONDS = 1.0
_KILL_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a proxy. Sizes are bytes, times seconds.

    timeout: silence of the upstream. max_memory: of all processes. max_text: of a text that gets
    tokens. max_connections: clients of all processes. head_timeout: for the whole head of a
    request. body_timeout: silence of a client in a body. client_ca: authorities of client
    certificates, which are required then. grace_seconds: for requests that are in progress at the
    end.
    """

    upstream: str
    host: str
    port: int
    ca_certs: str | None
    timeout: float
    max_memory: int
    max_text: int | None
    max_connections: int
    head_timeout: float
    body_timeout: float
    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    processes: int
    grace_seconds: int
    log_format: logs.Format


def serve(settings: Settings) -> None:
    """Serve until a signal ends the process.

    Raises UsageError if a setting is wrong, and EsdedupError if the address can't be used.
    """
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise UsageError(f"no folder for temporary files: {error.strerror}; set TMPDIR") from error
    each = _share(settings)
    _service(each)
    secure = _tls(settings) is not None
    listener = _listener(settings.host, settings.port)
    handler = logs.configure(settings.log_format)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http{'s' if secure else ''}://{host}:{settings.port}"
    log.info("Listening on %s, passing to %s", address, settings.upstream)
    if settings.processes == 1:
        _run(each, listener, handler)
    else:
        _supervise(each, listener, handler)


def _service(settings: Settings) -> Service:
    """The application. Raises UsageError."""
    upstream = Upstream(settings.upstream, ca_certs=settings.ca_certs, timeout=settings.timeout)
    return Service(upstream, Limits(settings.max_memory, settings.max_text, settings.body_timeout))


def _listener(host: str, port: int) -> socket.socket:
    """A bound socket. Raises EsdedupError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        families = {family for family, *_ in found}
        family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        # "::" is every address of both kinds.
        dual = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(
            (host, port), family=family, dualstack_ipv6=dual, backlog=_BACKLOG
        )
    except OSError as error:
        raise EsdedupError(f"can't listen on {host}, port {port}: {error.strerror}") from error


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """The context of connections with clients; None without a certificate. Raises UsageError."""
    if settings.certificate is None:
        if settings.key or settings.client_ca:
            raise UsageError("--key and --client-ca go with --certificate")
        return None
    context = _with_certificate(settings.certificate, settings.key)
    if settings.client_ca:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise UsageError(f"--client-ca {settings.client_ca}: {_cause(error)}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _with_certificate(
    certificate: Path, key: Path | None, context: ssl.SSLContext | None = None
) -> ssl.SSLContext:
    """A context, or a new one, with a certificate and its key. Raises UsageError."""
    for option, file in (("--certificate", certificate), ("--key", key)):
        try:
            if file is not None:
                file.read_bytes()
        except OSError as error:
            raise UsageError(f"{option} {file}: {error.strerror}") from error
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # OpenSSL would ask the terminal for the password of a key.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        names = f"--certificate {certificate}" + (f" with --key {key}" if key else "")
        raise UsageError(f"{names}: {_cause(error)}") from error
    return context


def _cause(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).replace("_", " ").lower()


def _connections(wanted: int) -> int:
    """The clients that the descriptors of this process allow. Raises their limit first."""
    if sys.platform == "win32":
        return wanted
    import resource

    needed = 2 * wanted + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    if soft != infinite and soft < needed:
        soft = needed if hard == infinite else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == infinite or soft >= needed:
        return wanted
    allowed = max(1, (soft - _OTHER_DESCRIPTORS) // 2)
    log.warning("at most %d connections: the process may open %d files", allowed, soft)
    return allowed


def _run(settings: Settings, listener: socket.socket, handler: logs.Handler) -> None:
    """Serve in this process."""
    service = _service(settings)
    config = uvicorn.Config(
        service,
        http=HttpToolsProtocol,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=settings.grace_seconds,
    )
    _Server(config, service, settings, listener, handler).run()


class _Server(uvicorn.Server):
    """Uvicorn's server with our connections, TLS that is read again, and logs that are complete."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        settings: Settings,
        listener: socket.socket,
        handler: logs.Handler,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._settings = settings
        self._handler = handler
        self._most = _connections(settings.max_connections)
        self._listener = _Listener(listener)
        self._tls = _tls(settings)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            if parent := multiprocessing.parent_process():
                loop.add_reader(parent.sentinel, self._without_parent, parent.sentinel)
            loop.add_signal_handler(signal.SIGHUP, self._read_certificate_again)
        connection = functools.partial(
            _Connection,
            self.config,
            self.server_state,
            {},
            metrics=self._service.metrics,
            most=self._most,
            head_seconds=self._settings.head_timeout,
        )
        secure = self._tls is not None
        # asyncio accepts `backlog` clients at a time. One leaves others to other processes, and
        # lets those go that are refused before more are accepted.
        server = await loop.create_server(
            connection,
            sock=self._listener,
            backlog=1,
            ssl=self._tls,
            ssl_handshake_timeout=self._settings.head_timeout if secure else None,
            ssl_shutdown_timeout=_TLS_END_SECONDS if secure else None,
        )
        self.servers.append(server)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._handler.write_due()
            self._service.watch()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self._handler.write_due(all=True)

    def _without_parent(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        log.error("the parent process is gone: this one ends")
        self.should_exit = True

    def _read_certificate_again(self) -> None:
        if self._settings.certificate is None:
            log.info("there is no certificate to be read again")
            return
        pair = self._settings.certificate, self._settings.key
        try:
            # Half of a bad pair would stay in the context.
            _with_certificate(*pair)
            _with_certificate(*pair, self._tls)
        except UsageError as error:
            log.error("the old certificate stays: %s", error)
        else:
            log.info("the certificate was read again")


class _Listener(socket.socket):
    """A listening socket that accepts no client with one of the last descriptors of the process."""

    def __init__(self, bound: socket.socket) -> None:
        # asyncio turns Nagle's algorithm off, which delays answers, if the protocol is named.
        super().__init__(bound.family, bound.type, socket.IPPROTO_TCP, bound.detach())
        self._highest = sys.maxsize
        if sys.platform != "win32":
            import resource

            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft != resource.RLIM_INFINITY:
                self._highest = soft - _OTHER_DESCRIPTORS // 4

    def listen(self, backlog: int = _BACKLOG) -> None:
        """Keep the length of the queue, which asyncio takes for other purposes."""
        super().listen(_BACKLOG)

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if connection.fileno() < self._highest:
            return connection, address
        # TLS that is not agreed on yet: a client that an answer can't reach.
        connection.close()
        log.warning("closed a connection: the process has few descriptors left")
        raise ConnectionAbortedError


class _Connection(HttpToolsProtocol):
    """A client's connection whose heads come in time and are of bounded size.

    A head is the request line and the headers. Errors are answered in the servers' form.
    """

    def __init__(self, *arguments: Any, metrics: Metrics, most: int, head_seconds: float) -> None:
        """most: connections of this process. head_seconds: time for a head to come whole."""
        super().__init__(*arguments)
        self._metrics = metrics
        self._most = most
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head: int | None = 0
        """Bytes of the head so far; None while there is none."""
        self._in_body = False
        self._fields = 0
        """Bytes of memory that the headers take, or the trailers."""
        self._refused = False
        self._fault: Failed | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ
        if len(self.connections) > self._most:
            log.warning("refused a connection: %d are open", self._most)
            self._refuse(_error(503, "too many connections"), (b"retry-after", b"1"))
        else:
            self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._in_body:
            self._head = (self._head or 0) + len(data)
        super().data_received(data)
        if self._head is None:
            self._stop_timer()
        elif self._head > _LARGEST_HEAD:
            self._refuse(_too_large())
        elif self._head_timer is None and not self._refused:
            self._time_head()

    def on_message_begin(self) -> None:
        if self._head is None:
            self._head = 0
        self._fields = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Drop trailers, which would be taken for headers. Raises Failed if there are too many."""
        self._fields += len(name) + len(value) + _FIELD
        if self._fields + len(self.url) > _LARGEST_HEAD:
            self._fault = _too_large()
            raise self._fault
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Raise Failed, which the parser reports as its own error."""
        if self.parser.get_method() == b"CONNECT" or not self.url.startswith(b"/"):
            self._fault = _error(400, "the target of the request is not a path")
        if self._fault is not None:
            raise self._fault
        self._head, self._in_body, self._fields = None, True, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if not self.cycle.response_complete:
            # The rest stays with the client until the application asks for it.
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._head_timer is not None:
            # While the answer before was made, reading may have paused.
            self._time_head()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser can't read, in an `except` block."""
        error = sys.exc_info()[1]
        self._refuse(self._fault or _error(400, f"the request can't be read: {error}"))

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the answer in HTTP/1.1 is what such clients expect."""

    def _time_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(self._head_seconds, self._head_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return  # The time begins again when that is answered.
        if self._head:
            log.warning("closed a connection: no whole head in %g s", self._head_seconds)
        self._refuse(_error(408, f"no whole head came in {self._head_seconds:g} s"))

    def _refuse(self, failed: Failed, *headers: tuple[bytes, bytes]) -> None:
        """Answer, unless another answer is due first, and close the connection."""
        if self._refused:
            return
        self._refused = True
        self._metrics.refused(str(failed.answer.status))
        self._stop_timer()
        due = self.cycle if self.cycle and not self.cycle.response_complete else None
        if due and not due.more_body and not self.pipeline:
            due.keep_alive = False
            return
        if due is None or not (due.response_started or self.pipeline):
            answer = failed.answer
            ours: Headers = [*answer.headers, *headers, (b"connection", b"close")]
            lines = [name + b": " + value + b"\r\n" for name, value in ours]
            whole = [STATUS_LINE[answer.status], *lines, b"\r\n", answer.body]
            self.transport.write(b"".join(whole))
        if failed.answer.status == 503 or not self.transport.can_write_eof():
            self.transport.close()
            return
        # To close while bytes are unread would reset the connection, and the answer be lost.
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)


_KINDS = {
    400: "bad_request",
    408: "request_timeout",
    431: "request_header_fields_too_large",
    503: "service_unavailable",
}


def _error(status: int, reason: str) -> Failed:
    return Failed.error(status, _KINDS[status], reason)


def _too_large() -> Failed:
    return _error(431, f"the head is larger than {_LARGEST_HEAD >> 10} KB")


def _share(settings: Settings) -> Settings:
    """The settings of one process of all."""
    return dataclasses.replace(
        settings,
        max_memory=settings.max_memory // settings.processes,
        max_connections=-(-settings.max_connections // settings.processes),
    )


def _supervise(settings: Settings, listener: socket.socket, handler: logs.Handler) -> None:
    """Serve in several processes, and start another for each that dies, until interrupted.

    settings: of each process.
    """
    children: dict[int, SpawnProcess] = {}

    def pass_on(number: int, _: object) -> None:
        for child in list(children.values()):
            if child.pid is not None and child.is_alive():
                os.kill(child.pid, number)

    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, pass_on)
    with tempfile.TemporaryDirectory(prefix="esdedup-metrics-") as folder:
        # Counts of all processes meet there.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            while True:
                while len(children) < settings.processes:
                    child = _started(settings, listener)
                    children[child.sentinel] = child
                _take_dead(children)
                handler.write_due()
        finally:
            listener.close()
            _end(list(children.values()), settings.grace_seconds)
            handler.write_due(all=True)


def _started(settings: Settings, listener: socket.socket) -> SpawnProcess:
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(settings, listener))
    child.start()
    log.info("process %d started", child.pid)
    return child


def _child(settings: Settings, listener: socket.socket) -> None:
    be_a_program()
    with suppress(KeyboardInterrupt):
        _run(settings, listener, logs.configure(settings.log_format))


def _take_dead(children: dict[int, SpawnProcess]) -> None:
    """Take out the processes that died in the last second.

    The pause keeps processes that can't start at all from starting without end.
    """
    time.sleep(_RESTART_SECONDS)
    for sentinel in wait(list(children), timeout=0):
        assert isinstance(sentinel, int)
        child = children.pop(sentinel)
        child.join()
        log.error("process %d ended with status %s: another one starts", child.pid, child.exitcode)
        mark_process_dead(child.pid)  # type: ignore[no-untyped-call]


def _end(children: list[SpawnProcess], grace_seconds: int) -> None:
    """End processes gracefully, and kill those that are late."""
    try:
        for child in children:
            child.terminate()
        deadline = time.monotonic() + grace_seconds + _KILL_SECONDS
        for child in children:
            child.join(max(0.0, deadline - time.monotonic()))
    finally:
        for child in children:
            child.kill()
            child.join()
