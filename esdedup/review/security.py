"""Lets in only the person who started the program, and lets no other page in.

Every answer needs a token, which is in the URL that the program prints, or the cookie that a
request with the token gets. The host must be this machine's own, so that no other name can be bound
to it (DNS rebinding). A request that may change something must come from a page of ours. The
policy of every answer forbids scripts and styles that are not ours, and to be shown in a frame.
"""

from __future__ import annotations

import html
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
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

    port: of the server. token: a secret for the URL, by default a random one.
    """

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(32) if token is None else token
        self._app = app
        self._port = port
        self._hosts = {f"{host}:{port}" for host in HOSTS} | (set(HOSTS) if port == 80 else set())
        self._cookie = f"esdedup-{port}"
        self._session = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://127.0.0.1:{self._port}/?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refused(scope)
        await (self._app if refused is None else refused)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that does not reach the application; None if it does."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This host is not served here.\n", 421)
        query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and scope["method"] in _READING and _equal(given[0], self.token):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # One slash: two would name another host, also with a tab between them.
            path = "/" + quote(scope["path"].lstrip("/\\"))
            target = f"{path}?{rest}" if rest else path
            answer: Response = RedirectResponse(target, 303)
            if headers.get("sec-fetch-site", "none") != "none":
                # After a link elsewhere, browsers would send no strict cookie with the redirect.
                answer = HTMLResponse(_CONTINUE.format(html.escape(target)))
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
            return answer
        if not any(_equal(each, self._session) for each in self._cookies(headers)):
            return PlainTextResponse(_CLOSED, 403)
        if scope["method"] not in _READING and not _is_own(headers, hosts[0].lower()):
            return PlainTextResponse("This request does not come from a page of ours.\n", 403)
        return None

    def _cookies(self, headers: Headers) -> list[str]:
        """The values of our cookie."""
        found = []
        for line in headers.getlist("cookie"):
            # Other programs on this machine may have set cookies that can't be read.
            for part in line.split(";"):
                try:
                    found += [
                        each.value
                        for name, each in SimpleCookie(part).items()
                        if name == self._cookie
                    ]
                except CookieError:
                    continue
        return found


def _is_own(headers: Headers, host: str) -> bool:
    """Return whether a browser says that a page of ours sent the request."""
    origins = headers.getlist("origin")
    if origins:
        return [each.lower() for each in origins] == [f"http://{host}"]
    return headers.getlist("sec-fetch-site") == ["same-origin"]


def _equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())
