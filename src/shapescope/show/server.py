"""The page live on 127.0.0.1: one run, read only, for whoever holds the token.

Invariant: nothing outside the run's own traces and the packaged pages leaves by this server.
"""

from __future__ import annotations

import asyncio
import hmac
import mimetypes
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from shapescope.errors import OutputError, UsageError
from shapescope.show.export import to_json
from shapescope.show.perfetto_page import OFFLINE_PATH, offline_page, perfetto_address
from shapescope.show.result import Result

HOST = "127.0.0.1"
_COOKIE = "shapescope-token"
_REQUEST_PATIENCE_S = 10
_MOST_CONNECTIONS = 64
_LONGEST_REQUEST = 16_384
_KEPT_ANSWERS = 8
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]

# Perfetto's page asks its makers who its user is, and a local daemon for traces; here it may ask this server only.
_PERFETTO_POLICY = (
    b"content-security-policy",
    b"default-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:; connect-src 'self' data: blob:",
)

Answer = Callable[[Mapping[str, Sequence[str]]], Result]
"""A command as the server runs it: query parameters to its result. Raises ShapescopeError."""


@dataclass(frozen=True, slots=True)
class Site:
    """What is served: the page, the commands by name, and the traces, which are `files` (relative) under `folder`."""

    page: str
    commands: Mapping[str, Answer]
    folder: Path
    files: frozenset[str]


def application(site: Site, token: str, *, hosts: Sequence[str] = (HOST, "localhost")) -> Starlette:
    """The server's ASGI application. A first visit brings the token in its address and leaves with it as a cookie."""
    answer = lru_cache(maxsize=_KEPT_ANSWERS)(partial(_answer, site))
    offline = offline_page()

    async def page(_: Request) -> Response:
        return HTMLResponse(site.page)

    async def command(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in site.commands:
            return _refusal(404)
        try:
            text = await run_in_threadpool(answer, name, request.url.query)
        except UsageError as error:
            return JSONResponse({"error": str(error), "hint": error.hint}, status_code=400)
        return Response(text, media_type="application/json")

    async def trace(request: Request) -> Response:
        path = trace_path(site, request.path_params["path"])
        return _refusal(404) if path is None else FileResponse(path, media_type="application/octet-stream")

    async def perfetto(_: Request) -> Response:
        return JSONResponse({"address": perfetto_address(offline)})

    routes: list[BaseRoute] = [
        Route("/", page, methods=["GET"]),
        Route("/api/{name}", command, methods=["GET"]),
        Route("/trace/{path:path}", trace, methods=["GET"]),
        Route("/perfetto", perfetto, methods=["GET"]),
    ]
    if offline is not None:
        # A table of types that the machine's own registry cannot spoil: Perfetto's page refuses a script of another type.
        mimetypes.add_type("text/javascript", ".js")
        mimetypes.add_type("application/wasm", ".wasm")
        routes.append(Mount(f"/{OFFLINE_PATH}", StaticFiles(directory=offline, html=True)))
    guards = [
        Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
        Middleware(Guard, token=token),
    ]
    return Starlette(routes=routes, middleware=guards)


def trace_path(site: Site, name: str) -> Path | None:
    """The file of a trace; None unless the run lists it and it lies, links resolved, inside the run's folder."""
    if name not in site.files:
        return None
    path = (site.folder / name).resolve()
    return path if path.is_relative_to(site.folder.resolve()) and path.is_file() else None


def _answer(site: Site, name: str, query: str) -> str:
    return to_json(site.commands[name](parse_qs(query, max_num_fields=64)))


class Guard:
    """Lets a request through that has the token and no body; adds the headers that every answer carries."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        answer = self._refused(Request(scope)) if scope["type"] == "http" else _refusal(403)
        more = [_PERFETTO_POLICY] if scope["path"].startswith(f"/{OFFLINE_PATH}") else []
        await (answer or self.app)(scope, receive, _with_headers(send, [*_HEADERS, *more]))

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that does not get through; None for one that does."""
        if (
            len(str(request.url)) + sum(len(name) + len(value) for name, value in request.headers.raw)
            > _LONGEST_REQUEST
        ):
            return _refusal(431)
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            return _refusal(413)
        given = request.query_params.get("token")
        if given is not None and request.url.path == "/" and self._fits(given):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict", path="/")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return None if self._fits(bearer) or self._fits(_cookie(request)) else _refusal(403)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="surrogateescape"), self.token)


def _cookie(request: Request) -> str:
    try:
        morsel = SimpleCookie(request.headers.get("cookie", "")).get(_COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def _refusal(status: int) -> Response:
    return PlainTextResponse("refused\n", status_code=status, headers={"connection": "close"})


def _with_headers(send: Send, headers: Sequence[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *headers]
        await send(message)

    return sending


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, but a connection whose request does not become complete in time is closed."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._patience is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._patience = self.loop.call_later(_REQUEST_PATIENCE_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes a free one. OutputError where the port is taken."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise OutputError(
            f"cannot listen on {HOST}:{port}: {error.strerror or error}", "Pass another --port, or none."
        ) from error


def server(app: ASGIApp) -> Server:
    """uvicorn, set to be sparing; `.run(sockets=[listen(0)])` serves until it is interrupted."""
    return Server(
        Config(
            app,
            http=ImpatientProtocol,
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=_LONGEST_REQUEST,
            timeout_graceful_shutdown=2,
        )
    )
