"""Admit only the person who started the program, and no other site.

Every request needs the token of the printed address, or the cookie that replaces it. Browsers send
a cookie to every port of a host, but only below its path: the path of all pages is random, so that
no other program on this machine receives the cookie. Other host names are rejected, so that no site
can point its name here (DNS rebinding). A request that may change something must come from a page
of this origin. The policy of every answer forbids scripts and styles of other origins, and frames.
"""

import secrets
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ["127.0.0.1", "localhost"]
_COOKIE = "esdedup"
_READING = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# With no-referrer, browsers send "Origin: null" with our own forms.
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_CLOSED = "Open the address that esdedup review printed: it has a token. This page needs it.\n"


@dataclass(frozen=True, repr=False)
class Guard:
    """An ASGI application around another, which it guards.

    app: the application that answers admitted requests.
    root: the secret path of all pages.
    token: the token of the printed address.
    images: whether pages may show images of other sites.
    """

    app: ASGIApp
    root: str
    token: str
    images: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A path is of one process, so that its files never change.
        caching = (
            "max-age=86400" if scope["path"].startswith(f"{self.root}/static/") else "no-store"
        )

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if self.images:
                    policy = _POLICY.replace("img-src 'self'", "img-src 'self' http: https:")
                    headers["content-security-policy"] = policy
                headers.setdefault("cache-control", caching)
            await send(message)

        answer = self._instead(Request(scope)) or self.app
        await answer(scope, receive, guarded)

    def _instead(self, request: Request) -> Response | None:
        """Return the answer to a request that must not reach the application, else None."""
        only_reads = request.method in _READING
        if only_reads and self._is_token(request.query_params.get("token", "")):
            answer = RedirectResponse(f"{self.root}/", 303)
            # A strict cookie would not be sent after a link elsewhere, such as in a terminal.
            path = f"{self.root}/"
            answer.set_cookie(_COOKIE, self.token, path=path, httponly=True, samesite="lax")
            return answer
        if not self._is_token(request.cookies.get(_COOKIE, "")):
            return PlainTextResponse(_CLOSED, 403)
        origins = request.headers.getlist("origin")
        same_origin = request.headers.getlist("sec-fetch-site") == ["same-origin"]
        if origins:
            same_origin = origins == [f"http://{request.headers['host']}"]
        if not only_reads and not same_origin:
            return PlainTextResponse("This request does not come from a page of ours.\n", 403)
        return None

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "surrogatepass"), self.token.encode())


def guarded(app: ASGIApp, root: str, token: str, *, images: bool = False) -> ASGIApp:
    """Return an application with the guard, which answers to names of this machine only."""
    return TrustedHostMiddleware(Guard(app, root, token, images), HOSTS, www_redirect=False)
