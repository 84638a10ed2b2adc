"""Admit only the person who started the program, and no other site.

Every answer needs a token, which is in the URL that the program prints, or the cookie that the
first request with the token gets. Browsers send cookies of a host to all of its ports, so that
other programs on this machine would see it. So the cookie is of a random path, which holds all
pages. The host must be this machine's own, so that no other name can be bound to it (DNS
rebinding). A request that may change something must come from a page of this origin. The policy of
every answer forbids scripts and styles of other origins, and to be shown in a frame.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost", "[::1]")
_READING = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# With no-referrer, browsers send "Origin: null" with our own forms.
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_CLOSED = "Open the address that esdedup review printed: it has a token. This page needs it.\n"
_CONTINUE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>esdedup</title>
<meta http-equiv="refresh" content="0;url={0}"><a href="{0}">Continue</a></html>"""


class Guard:
    """An ASGI application around another, which it guards.

    port: of the server. root: the secret path of all pages. token: a secret for the URL.
    """

    def __init__(self, app: ASGIApp, port: int, root: str) -> None:
        self.token = secrets.token_urlsafe(32)
        self._app = app
        self._port = port
        self._root = root
        self._hosts = {f"{host}:{port}" for host in HOSTS} | (set(HOSTS) if port == 80 else set())
        # No other program can set a cookie of this name.
        self._cookie = f"esdedup-{secrets.token_hex(8)}"
        self._session = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://127.0.0.1:{self._port}/?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refused(Request(scope))
        await (self._app if refused is None else refused)(scope, receive, guarded)

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that does not reach the application; None if it does."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This host is not served here.\n", 421)
        reading = request.method in _READING
        if reading and _equal(request.query_params.get("token", ""), self.token):
            target = f"{self._root}/"
            answer: Response = RedirectResponse(target, 303)
            if request.headers.get("sec-fetch-site", "none") != "none":
                # After a link elsewhere, browsers would send no strict cookie with the redirect.
                answer = HTMLResponse(_CONTINUE.format(target))
            answer.set_cookie(
                self._cookie, self._session, path=target, httponly=True, samesite="strict"
            )
            return answer
        if not _equal(request.cookies.get(self._cookie, ""), self._session):
            return PlainTextResponse(_CLOSED, 403)
        if not reading and not _is_own(request.headers, hosts[0].lower()):
            return PlainTextResponse("This request does not come from a page of ours.\n", 403)
        return None


def _is_own(headers: Headers, host: str) -> bool:
    """Return whether a browser says that a page of this origin sent the request."""
    origins = headers.getlist("origin")
    if origins:
        return [each.lower() for each in origins] == [f"http://{host}"]
    return headers.getlist("sec-fetch-site") == ["same-origin"]


def _equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())
