"""The process that listens: connections, TLS, signals, processes, settings and logs."""

import json
import logging
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPMessage, HTTPResponse
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from esdedup.proxy import logs
from tests.helpers.commands import run_command
from tests.helpers.processes import await_ended, await_true, children
from tests.proxy.conftest import connect
from tests.servers.enriching import Enriching
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HALF = b"POST /_bulk HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
SLOW = b"GET / HTTP/1.1\r\nHo"
SECONDS = 60.0

# One process starts the proxies.
pytestmark = pytest.mark.xdist_group("proxy")


def answer(connection: socket.socket) -> tuple[int, HTTPMessage, bytes]:
    """The status, headers and body of one answer."""
    response = HTTPResponse(connection)
    response.begin()
    body = response.read()
    return response.status, response.headers, body


def refused(connection: socket.socket) -> tuple[int, HTTPMessage]:
    """The status and headers of an error in the servers' form, after which it is closed."""
    status, headers, body = answer(connection)
    assert json.loads(body)["status"] == status
    assert json.loads(body)["error"]["root_cause"][0]["reason"]
    assert headers["connection"] == "close"
    assert connection.recv(1) == b""
    connection.close()
    return status, headers


@pytest.fixture(scope="module")
def hasty(elasticsearch_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enriching]:
    """A proxy that gives heads one second."""
    folder = tmp_path_factory.mktemp("hasty")
    with Enriching(elasticsearch_url, folder, "--head-timeout", "1") as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nabc", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n b: folded\r\n\r\n", 400),
        (b"GET /" + b"x" * 40_000, 431),
        (b"GET / HTTP/1.1\r\na: " + b"x" * 40_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\na: " + b"x" * 40_000, 431),
        (SLOW, 408),
        (b"", 408),
    ],
)
def test_heads_that_are_refused(hasty: Enriching, sent: bytes, status: int) -> None:
    assert refused(connect(hasty, sent))[0] == status


def test_headers_after_a_body_are_dropped(hasty: Enriching) -> None:
    """Who removes headers of clients before the proxy may not look for them there."""
    head = b"POST /_search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    body = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    # The server would try to unpack the body.
    with connect(hasty, head + body + b"content-encoding: gzip\r\n\r\n") as connection:
        assert answer(connection)[0] == 200


def test_a_connection_may_be_idle_but_each_further_head_has_its_time(hasty: Enriching) -> None:
    idle, slow = connect(hasty, GET), connect(hasty, GET)
    assert answer(idle)[0] == answer(slow)[0]
    slow.sendall(SLOW)
    # Both come at once; the second begins with the first one's last bytes.
    after = connect(hasty, GET + SLOW)
    answer(after)
    assert refused(slow)[0] == refused(after)[0] == 408
    idle.sendall(GET)
    answer(idle)
    idle.close()


def test_many_slow_heads_are_closed_and_told_in_few_lines(hasty: Enriching) -> None:
    before = hasty.log.count("\n")
    slow = [connect(hasty, SLOW) for _ in range(900)]
    answered = connect(hasty, GET)
    answer(answered)
    answered.close()
    assert {refused(each)[0] for each in slow} == {408}
    assert hasty.log.count("\n") - before < 5


def test_too_many_connections(elasticsearch_url: str, tmp_path: Path) -> None:
    with Enriching(elasticsearch_url, tmp_path, "--max-connections", "2") as proxy:
        first, second = connect(proxy, GET), connect(proxy, GET)
        assert answer(first)[0] == answer(second)[0]
        status, headers = refused(connect(proxy))
        assert (status, headers["retry-after"]) == (503, "1")
        first.close()

        def answered() -> bool:
            with connect(proxy, GET) as third:
                return answer(third)[0] != 503

        await_true("a place is free", answered, SECONDS)
        second.close()


class Certificates:
    """An authority and the files of a certificate of 127.0.0.1 that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.authority = self.client = trustme.CA()
        self.ca, self.chain, self.key = (folder / name for name in ("ca.pem", "c.pem", "k.pem"))
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.renew()

        key = load_pem_private_key(self.key.read_bytes(), None)
        locked = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
        (folder / "locked.pem").write_bytes(locked)

    def renew(self) -> None:
        made = self.authority.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(str(self.key))
        made.cert_chain_pems[0].write_to_path(str(self.chain))

    @property
    def options(self) -> tuple[str, ...]:
        return "--certificate", str(self.chain), "--key", str(self.key)

    def trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

    def connect(self, proxy: Enriching) -> ssl.SSLSocket:
        context = self.trusting()
        self.client.issue_cert("client@example.org").configure_cert(context)
        return context.wrap_socket(connect(proxy), server_hostname="127.0.0.1")

    def shown(self, proxy: Enriching) -> bytes | None:
        """The certificate that a new connection sees."""
        with self.connect(proxy) as connection:
            return connection.getpeercert(binary_form=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_certificates_and_authorities_are_read_again_at_sighup(
    elasticsearch_url: str, tmp_path: Path, certificates: Certificates
) -> None:
    """The certificate, the authority of clients, and that of a cluster which gets another one."""
    options = *certificates.options, "--client-ca", str(certificates.ca)
    trusted = tmp_path / "upstream.pem"
    with Proxy(elasticsearch_url, tls=True) as old, Proxy(elasticsearch_url, tls=True) as new:
        trusted.write_text(Path(old.ca_file).read_text())
        upstream = ("--ca-certs", str(trusted))
        with Enriching(new.url, tmp_path, *options, *upstream) as proxy:
            other = trustme.CA()
            with pytest.raises(httpx.TransportError):
                httpx.get(proxy.url, verify=certificates.trusting())
            first = certificates.shown(proxy)
            with certificates.connect(proxy) as kept:
                kept.sendall(GET)
                assert answer(kept)[0] == 502
                certificates.key.write_text("no key", "ascii")
                proxy.process.send_signal(signal.SIGHUP)
                await_true("told", lambda: "the old certificates stay" in proxy.log, SECONDS)
                assert certificates.shown(proxy) == first
                certificates.renew()
                other.cert_pem.write_to_path(str(certificates.ca))
                trusted.write_text(Path(new.ca_file).read_text())
                proxy.process.send_signal(signal.SIGHUP)
                await_true("renewed", lambda: certificates.shown(proxy) != first, SECONDS)
                kept.sendall(GET)
                assert answer(kept)[0] != 502
            certificates.client = other
            with certificates.connect(proxy) as connection:
                connection.sendall(GET)
                assert answer(connection)[0] != 502


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--certificate", "none.pem"], "--certificate none.pem: No such file"),
        (["--certificate", "c.pem", "--key", "none.pem"], "--key none.pem: No such file"),
        (["--certificate", "c.pem"], "--certificate c.pem: "),
        (["--certificate", "c.pem", "--key", "locked.pem"], "--key locked.pem: "),
        (["--certificate", "c.pem", "--key", "k.pem", "--client-ca", "k.pem"], "--client-ca k.pem"),
        (["--key", "k.pem"], "require --certificate"),
        (["--ca-certs", "nowhere.pem"], "nowhere.pem: "),
        (["--max-memory", "1XB"], "'1XB' is not a size"),
    ],
)
def test_options_that_cannot_be_used(
    options: list[str], said: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(certificates.ca.parent)
    done = run_command("proxy", "--upstream", "http://127.0.0.1:1", *options)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_an_address_that_is_taken() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        done = run_command("proxy", "--upstream", "http://127.0.0.1:1", "--port", str(port))
    assert (done.status, done.out) == (1, "")
    assert f"can't listen on 127.0.0.1, port {port}: Address already in use" in done.err


def test_processes_share_the_address_and_are_replaced(
    elasticsearch_url: str, tmp_path: Path, certificates: Certificates
) -> None:
    def status() -> int:
        with certificates.connect(proxy) as connection:
            connection.sendall(GET)
            return answer(connection)[0]

    def two_others(than: set[int]) -> bool:
        now = children(proxy.process)
        return len(now) == 2 and not now & than

    options = *certificates.options, "--processes", "2", "--grace-seconds", "5"
    with Enriching(elasticsearch_url, tmp_path, *options) as proxy:
        await_true("both run", lambda: two_others(set()), SECONDS)
        first = children(proxy.process)
        os.kill(killed := min(first), signal.SIGKILL)
        await_true("another one runs", lambda: two_others({killed}), SECONDS)
        assert status() != 503
        assert f"[{killed}] died" in proxy.log
        old, before = certificates.shown(proxy), children(proxy.process)
        certificates.renew()
        proxy.process.send_signal(signal.SIGHUP)
        await_true("both are new", lambda: two_others(before), SECONDS)
        assert certificates.shown(proxy) != old
        now = children(proxy.process)
    await_ended(now)
    assert proxy.process.returncode == 0


def test_processes_end_with_their_parent(elasticsearch_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    os.environ["TMPDIR"] = str(folder)
    try:
        proxy = Enriching(elasticsearch_url, tmp_path, "--processes", "2")
    finally:
        del os.environ["TMPDIR"]
    await_true("both run", lambda: len(children(proxy.process)) == 2, SECONDS)
    left = children(proxy.process)
    proxy.process.kill()
    proxy.process.wait()
    await_ended(left)
    assert not list(folder.iterdir())


def test_requests_in_progress_end_first(elasticsearch_url: str, tmp_path: Path) -> None:
    with Enriching(elasticsearch_url, tmp_path) as proxy:
        idle, busy = connect(proxy, GET), connect(proxy, HALF)
        answer(idle)
        proxy.process.terminate()
        assert idle.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        busy.sendall(b"\n")
        status, headers, _ = answer(busy)
        assert (status, headers["connection"]) == (400, "close")
        assert proxy.process.wait(SECONDS) == 0
        for each in (idle, busy):
            each.close()


def test_the_end_does_not_wait_for_ever(elasticsearch_url: str, tmp_path: Path) -> None:
    with Enriching(elasticsearch_url, tmp_path, "--grace-seconds", "1") as proxy:
        busy = connect(proxy, GET)
        answer(busy)
        busy.sendall(HALF)
        proxy.process.terminate()
        assert proxy.process.wait(SECONDS) == 0
        # Clients send again what is answered so.
        assert answer(busy)[0] == 503
        busy.close()
    assert "Traceback" not in proxy.log


def test_settings_come_from_the_command_line_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"UPSTREAM": "ftp://x", "HEAD_TIMEOUT": "1", "LOG_FORMAT": "json"}.items():
        monkeypatch.setenv(f"ESDEDUP_PROXY_{name}", value)
    with Enriching("http://127.0.0.1:1", tmp_path) as proxy:
        assert refused(connect(proxy, SLOW))[0] == 408
        for _ in range(5):
            refused(connect(proxy, b"garbage\r\n\r\n"))
    lines = [json.loads(line) for line in proxy.log.splitlines()]
    assert lines[0]["message"].startswith(f"Listening on {proxy.url}, ")
    assert {"level": "info", "logger": "esdedup.proxy.server"}.items() <= lines[0].items()
    assert lines[0]["time"].endswith("Z")
    assert len([line for line in lines if "Invalid HTTP request" in line["message"]]) == 1


def record(message: str, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.getLogger("esdedup.proxy").makeRecord(
        "esdedup.proxy", level, __file__, 1, message, ("x",), None
    )


def test_lines_of_the_same_kind_are_counted() -> None:
    now = 0.0
    repeats = logs.Repeats(lambda: now)
    assert [repeats.filter(record("a %s")) for _ in range(3)] == [True, False, False]
    assert repeats.filter(record("b %s"))
    assert all(repeats.filter(record("c %s", logging.INFO)) for _ in range(3))
    now = 10.0
    last = record("a %s")
    assert repeats.filter(last)
    assert last.getMessage() == "a x (and 2 more before it)"
    for number in range(1000):
        repeats.filter(record(f"{number} %s"))
    assert len(repeats._passed) < 300
