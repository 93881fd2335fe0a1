"""Who may read, and what every answer says to the browser.

Loopback by default; anything else needs a token. `Host` is checked always, because a name that an attacker's page controls
may resolve to this server (DNS rebinding); `Origin` and `Sec-Fetch-*` are checked when a browser sends them. Nothing can be
changed by HTTP.
"""

import base64
import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trackside.server.answers import error

ADD_SLASH = "if(!/[/]([^/]*[.][^/]*)?$/.test(location.pathname))location.replace(location.pathname+'/'+location.search+location.hash)"
"""The page's first script. Behind a proxy that takes a prefix away, the address without its final slash would make every
relative URL of the page lead elsewhere, and only the browser knows that address."""
_ADD_SLASH_HASH = base64.b64encode(hashlib.sha256(ADD_SLASH.encode()).digest()).decode()
PAGE_POLICY = (
    f"default-src 'none'; script-src 'self' 'sha256-{_ADD_SLASH_HASH}'; style-src 'self'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For SVG that was drawn from what a rank sent: it may style itself and nothing else."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
EVERY_ANSWER = {**HEADERS, "Content-Security-Policy": PAGE_POLICY}
METHODS = ("GET", "HEAD")
LOOPBACK_NAMES = frozenset({"localhost"})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read one run's page."""

    run: str
    """Run id; part of the cookie's name, since cookies of one host are shared by its ports."""
    hosts: frozenset[str] = field(default_factory=frozenset)
    """Names and addresses by which this machine may be called, lower case; loopback is always one."""
    patterns: tuple[str, ...] = ()
    """`--allowed-hosts`: further names; `.example.org` takes every name below it, `*` everything."""
    token: str | None = None
    """What a reader must show; None: nothing."""

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return "trackside-" + hashlib.sha256(self.run.encode()).hexdigest()[:12]

    @property
    def cookie_value(self) -> str:
        """What the cookie holds: a digest, which is safe in a header whatever the token is."""
        return hashlib.sha256(f"{self.run} {self.token}".encode()).hexdigest()

    def knows_cookie(self, shown: str | None) -> bool:
        """Whether it is the cookie that was given for the token."""
        return shown is not None and hmac.compare_digest(shown.encode(), self.cookie_value.encode())

    def knows_host(self, header: str | None) -> bool:
        """Whether a `Host` (or an origin's host) is one of ours."""
        name = host_name(header or "")
        if not name:
            return False
        if name in LOOPBACK_NAMES or name.endswith(".localhost") or is_loopback(name) or name in self.hosts:
            return True
        return any(matches(name, pattern) for pattern in self.patterns)

    def knows_token(self, shown: str | None) -> bool:
        """Whether what was shown is the token. Takes as long for a wrong one as for a nearly right one."""
        if self.token is None:
            return True
        return shown is not None and hmac.compare_digest(shown.encode(), self.token.encode())


def host_name(header: str) -> str:
    """The name in a `Host` header, lower case, without port, brackets and final dot."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def is_loopback(name: str) -> bool:
    """Whether it is an address of the loopback interface."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def matches(name: str, pattern: str) -> bool:
    """Whether an allowed-hosts entry takes a name."""
    pattern = pattern.lower()
    if pattern == "*":
        return True
    if pattern.startswith("."):
        return name == pattern[1:] or name.endswith(pattern)
    return name == host_name(pattern)


class Guard:
    """Middleware: refuses what must not be read, and adds the headers every answer carries."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].startswith("//"):  # a proxy whose prefix ends in a slash, or does not
            scope = {**scope, "path": "/" + scope["path"].lstrip("/")}
        secured = _with_headers(send)
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await error(*refusal, headers={"Allow": ", ".join(METHODS)} if refusal[0] == 405 else None)(
                scope, receive, secured
            )
            return
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if self._access.token is not None and "token" in query and _is_page(scope["path"]):
            await self._trade(scope, query, receive, secured)
            return
        await self._app(scope, receive, secured)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host")
        if not self._access.knows_host(host):
            return (
                403,
                "unknown_host",
                (
                    f"The request asks for host {host_name(host or '')!r}, which is no name of this machine. If a proxy "
                    "gives that name, start Trackside with --allowed-hosts and the name."
                ),
            )
        if (foreign := self._foreign(headers)) is not None:
            return 403, "foreign_origin", foreign
        if scope["method"] not in METHODS:
            return 405, "read_only", f"{scope['method']} is not possible: Trackside is read-only, use GET."
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "no_body", "A question to Trackside has no body."
        if not self._may_read(scope, headers):
            return (
                401,
                "token_needed",
                (
                    "This run is shown to holders of its token only. Open the whole URL that Trackside printed (it ends in "
                    "?token=...), or send the token as `Authorization: Bearer ...`."
                ),
            )
        return None

    def _foreign(self, headers: Headers) -> str | None:
        """Why a page of another site gets nothing; None: it is none."""
        origin = headers.get("origin")
        if origin is not None and not self._access.knows_host(_netloc(origin)):
            return f"A page of {origin[:200]!r} may not read this run."
        if _is_fetched_elsewhere(headers):
            return "Another site's page may lead to this one; it may not read or embed it."
        return None

    def _may_read(self, scope: Scope, headers: Headers) -> bool:
        if self._access.token is None:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return (
            self._access.knows_cookie(_cookie(headers, self._access.cookie))
            or self._access.knows_token(query.get("token"))
            or (scheme.lower() == "bearer" and self._access.knows_token(bearer.strip()))
        )

    async def _trade(self, scope: Scope, query: dict[str, str], receive: Receive, send: Send) -> None:
        """Put the token into a cookie and send the browser to the address without it."""
        rest = urlencode({name: value for name, value in query.items() if name != "token"})
        here = scope["path"].rpartition("/")[2]
        location = f"./{here}" + (f"?{rest}" if rest else "")
        cookie = f"{self._access.cookie}={self._access.cookie_value}; HttpOnly; SameSite=Strict"
        if Headers(scope=scope).get("x-forwarded-proto", scope["scheme"]) == "https":
            cookie += "; Secure"
        await _Empty(303, {"Location": location, "Set-Cookie": cookie, "Cache-Control": "no-store"})(
            scope, receive, send
        )


class _Empty:
    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self._status = status
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()]
        raw.append((b"content-length", b"0"))
        await send({"type": "http.response.start", "status": self._status, "headers": raw})
        await send({"type": "http.response.body", "body": b""})


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _is_fetched_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that a page of another site, or of another port, wants this for itself.

    A person who follows a link is let in. Older browsers, and programs, say nothing.
    """
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest", "document") != "document"


def _is_page(path: str) -> bool:
    """Whether a person opens it, rather than a program."""
    return path in ("", "/", "/report.html")


def _cookie(headers: Headers, name: str) -> str | None:
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return None


def _with_headers(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Content-Security-Policy", PAGE_POLICY)
        await send(message)

    return secured
