"""A reverse proxy before a node: TLS, authentication, and faults of a network.

The servers from jars have no security module; in production, too, something in front often adds
it. Apart from the faults a test asks for, every answer that passes is the server's own.
"""

import base64
import hashlib
import http.client
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from urllib.request import urlopen

import trustme

from tests.helpers.processes import serving

# These speak about one connection, and the proxy has two.
HOP_HEADERS = frozenset(
    ("connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade")
)

UPSTREAM_SECONDS = 120


@dataclass(frozen=True)
class Received:
    """A request.

    path: without its parameters.
    headers: their names in lower case.
    body: as it came.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    cut: bool = False


def point_in(request: Received, answer: Answer) -> str | None:
    """Return the point in time that a request has opened; None for another request."""
    if request.method != "POST" or not request.path.endswith(("/_pit", "/point_in_time")):
        return None
    point = json.loads(answer.body)
    return str(point.get("id") or point["pit_id"])


def product_of(url: str) -> str:
    """Return the product that answers at an address, as `Proxy` needs it."""
    with urlopen(f"{url}/_cluster/health") as answer:
        return "elasticsearch" if "X-elastic-product" in answer.headers else "opensearch"


def credentials(first: str, second: str, kind: str = "Basic") -> str:
    """The Authorization header of a user and a password, or of an API key."""
    return f"{kind} {base64.b64encode(f'{first}:{second}'.encode()).decode()}"


class Proxy:
    """Listens from construction on; the end of the `with` block ends it."""

    def __init__(
        self,
        upstream: str,
        product: str = "elasticsearch",
        *,
        tls: bool = False,
        accepted: Collection[str] = (),
    ) -> None:
        """accepted: Authorization headers, of which a request needs one if there are any."""
        parts = urlsplit(upstream)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"an address needs a host and a port: {upstream}")
        self.upstream = (parts.hostname, parts.port)
        self.product = product
        self._accepted = accepted
        # How many requests came so far, refused ones included.
        self.requests = self.bulk_requests = 0
        self.failures_left = 0
        self._lock = threading.Lock()
        self._failure: Answer | None = None
        self._failing = ""
        # Break off the answer to this _bulk request from now, which the server has done.
        self.drop_after = 0
        # Pass this _bulk request from now on twice, as a server does that loses the one it asked.
        self.repeat_after = 0
        # Mappings to be put, after which every one is refused.
        self.mappings_left: int | None = None
        # Before a _bulk request is passed on.
        self.bulk_seconds = 0.0
        self.before_bulk: Callable[[], None] = lambda: None
        # Before any request is passed on, and after the server has done it.
        self.on_request: Callable[[Received], None] = lambda _: None
        self.on_answer: Callable[[Received, Answer], None] = lambda *_: None
        # With TLS: the certificate of the authority, and the SHA-256 of the proxy's own.
        self.ca_file = self.fingerprint = ""
        self._server = _Server(("127.0.0.1", 0), _Handler, self)
        self._folder = tempfile.TemporaryDirectory(prefix="esdedup-proxy-")
        if tls:
            self._speak_tls()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._serving = ExitStack()
        self._serving.callback(self._folder.cleanup)
        self._serving.enter_context(serving(self._server))

    def fail_next(self, n: int, status: int) -> None:
        """Answer the next n _bulk requests with this status; the server does not see them."""
        kind = "es_rejected_execution_exception"
        answer = _error(self.product, status, kind, "a fault that the test asked for")
        self.answer_next(n, answer, "/_bulk")

    def answer_next(self, n: int, answer: Answer, path: str = "") -> None:
        """Answer the next n requests itself, of paths that end with this."""
        with self._lock:
            self.failures_left, self._failure, self._failing = n, answer, path

    def answer(self, method: str, path: str, authorization: str | None) -> Answer | None:
        """Count a request. Return the answer if it must not be passed on."""
        with self._lock:
            self.requests += 1
            if self._accepted and authorization not in self._accepted:
                return _unauthorized(self.product, path)
            if self.mappings_left is not None and (method, path[-9:]) == ("PUT", "/_mapping"):
                self.mappings_left -= 1
                if self.mappings_left < 0:
                    return _error(self.product, 500, "fault", "a fault that the test asked for")
            self.bulk_requests += path.endswith("/_bulk")
            if not self.failures_left or not path.endswith(self._failing):
                return None
            self.failures_left -= 1
            return self._failure

    def repeats(self) -> bool:
        """Return whether to pass a _bulk request on twice."""
        with self._lock:
            self.repeat_after -= 1
            return self.repeat_after == 0

    def drops(self) -> bool:
        """Wait before a _bulk request is passed on. Return whether to break off its answer."""
        self.before_bulk()
        time.sleep(self.bulk_seconds)
        with self._lock:
            self.drop_after -= 1
            return self.drop_after == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    def _speak_tls(self) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        self.ca_file = str(Path(self._folder.name) / "ca.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        leaf = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode("ascii"))
        self.fingerprint = hashlib.sha256(leaf).hexdigest()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        # The handshake is left to the connection's own thread: a client that refuses our
        # certificate or stays silent must not hold up the others.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # Python's 5 are too few for 30 clients that connect together: Linux resets some of them later.
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], proxy: Proxy
    ) -> None:
        self.proxy = proxy
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Silent: clients that hang up or refuse our certificate are what tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body leave in one packet; apart, each answer would wait for a delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def _handle(self) -> None:
        length = self.headers.get("Content-Length")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._send(
                _error(self.server.proxy.product, HTTPStatus.LENGTH_REQUIRED, "proxy", "no length")
            )
            return
        body = self.rfile.read(int(length)) if length else b""
        self._send(self._answer(body))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the servers keep logs of their own."""

    def _answer(self, body: bytes) -> Answer:
        proxy, path = self.server.proxy, urlsplit(self.path).path
        if (own := proxy.answer(self.command, path, self.headers["Authorization"])) is not None:
            return own
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, path, headers, body)
        proxy.on_request(received)
        cut = path.endswith("/_bulk") and proxy.drops()
        if path.endswith("/_bulk") and proxy.repeats():
            self._pass_on(body)
        answer = self._pass_on(body)
        answer.cut = cut
        proxy.on_answer(received, answer)
        return answer

    def _pass_on(self, body: bytes) -> Answer:
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in HOP_HEADERS and name.lower() != "authorization"
        }
        # A connection per request: one kept open might prove dead only after the request is
        # sent, and then nobody knows whether the server has seen it.
        upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=UPSTREAM_SECONDS)
        try:
            upstream.request(self.command, self.path, body=body or None, headers=headers)
            response = upstream.getresponse()
            kept = [pair for pair in response.getheaders() if pair[0].lower() not in HOP_HEADERS]
            return Answer(response.status, kept, response.read())
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            return _error(self.server.proxy.product, HTTPStatus.BAD_GATEWAY, "bad_gateway", reason)
        finally:
            upstream.close()

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        length = str(len(answer.body))
        for name, value in answer.headers:
            if name.lower() == "content-length":
                # The answer to HEAD has the length of a body that does not follow.
                length = value if self.command == "HEAD" else length
            else:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if answer.cut:
            self.close_connection = True
            self.wfile.write(answer.body[: len(answer.body) // 2])
        elif self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()


def _unauthorized(product: str, path: str) -> Answer:
    """As the security modules of both products answer."""
    if product != "elasticsearch":
        challenge = ("WWW-Authenticate", 'Basic realm="OpenSearch Security"')
        plain = ("Content-Type", "text/plain; charset=UTF-8")
        return Answer(HTTPStatus.UNAUTHORIZED, [challenge, plain], b"Unauthorized")
    reason = f"unable to authenticate with provided credentials for REST request [{path}]"
    answer = _error(product, HTTPStatus.UNAUTHORIZED, "security_exception", reason)
    answer.headers.append(("WWW-Authenticate", 'Basic realm="security"'))
    return answer


def _error(product: str, status: int, kind: str, reason: str) -> Answer:
    cause = {"type": kind, "reason": reason}
    body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
    headers = [("Content-Type", "application/json")]
    if product == "elasticsearch":
        headers.append(("X-Elastic-Product", "Elasticsearch"))
    return Answer(status, headers, body)
