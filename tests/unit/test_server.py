"""The live page's server: what it gives, what it refuses, and that it keeps serving."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import synthetic

from shapescope.errors import OutputError
from shapescope.show import server
from shapescope.show.export import to_json
from shapescope.show.html import report
from shapescope.show.page import payload

TOKEN = "a-token-of-this-test"
TRACE = b'{"traceEvents": []}'
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Live:
    """A server on loopback, and how to ask it."""

    port: int
    folder: Path

    def ask(
        self, path: str, *, method: str = "GET", host: str | None = None, token: str | None = TOKEN, **headers: str
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        given = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}", **given, **headers})
        return connection.getresponse()

    def raw(self, content: bytes, patience: float = 5) -> bytes:
        """What comes back until the server closes; TimeoutError where it does not."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as connection:
            connection.sendall(content)
            received = b""
            while block := connection.recv(65536):
                received += block
        return received


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    home = tmp_path_factory.mktemp("home")
    folder = home / "run"
    (folder / "traces").mkdir(parents=True)
    (home / "secret.txt").write_text("secret")
    (folder / "traces" / "a b.json.gz").write_bytes(gzip.compress(TRACE))
    (folder / "traces" / "link.json.gz").symlink_to(home / "secret.txt")
    (folder / "unlisted.json").write_text("not a trace of the run")
    page = synthetic.page(sizes=[1, 2], ranks=1)
    site = server.Site(
        page=report(payload(page, live=True)),
        commands={"shapes": lambda _: page.tables["shapes"], "kernels": lambda _: page.tables["kernels"]},
        folder=folder,
        files=frozenset({"traces/a b.json.gz", "traces/link.json.gz", "traces/gone.json.gz", "../secret.txt"}),
    )
    with pytest.MonkeyPatch.context() as patch, server.listen(0) as listening:
        patch.setattr(server, "_REQUEST_PATIENCE_S", 0.5)
        running = server.server(server.application(site, TOKEN))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield Live(listening.getsockname()[1], folder)
        running.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def test_the_first_visit_trades_the_token_for_a_cookie(live: Live) -> None:
    first = live.ask(f"/?token={TOKEN}", token=None)
    cookie = first.getheader("Set-Cookie", "")
    assert (first.status, first.getheader("Location")) == (303, "/")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    second = live.ask("/", token=None, Cookie=cookie.split(";")[0])
    assert second.status == 200
    assert b'id="payload"' in second.read()


def test_answers_carry_the_headers_that_keep_them_here(live: Live) -> None:
    answer = live.ask("/")
    assert answer.getheader("X-Frame-Options") == "DENY"
    assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert answer.getheader("Access-Control-Allow-Origin") is None
    assert answer.getheader("Server") is None


@pytest.mark.parametrize("name", ["shapes", "kernels"])
def test_json_is_what_the_command_prints(live: Live, name: str) -> None:
    expected = synthetic.page(sizes=[1, 2], ranks=1).tables[name]
    assert live.ask(f"/api/{name}").read().decode() == to_json(expected)


def test_a_trace_comes_as_it_lies_on_disk(live: Live) -> None:
    answer = live.ask("/trace/traces/a%20b.json.gz")
    assert (answer.status, gzip.decompress(answer.read())) == (200, TRACE)


@pytest.mark.parametrize(
    "path",
    [
        "/trace/..%2f..%2fsecret.txt", "/trace/../secret.txt", "/trace/%2e%2e/secret.txt", "/trace/traces/link.json.gz",
        "/trace/unlisted.json", "/trace/traces/gone.json.gz", "/trace//etc/passwd", "/trace/traces%00",
        "/api/..%2fshapes", "/api/nothing", "/perfetto-ui/..%2f..%2f__init__.py", "/nothing",
    ],
)  # fmt: skip
def test_nothing_outside_the_run_is_given_out(live: Live, path: str) -> None:
    answer = live.ask(path)
    assert answer.status == 404
    assert b"secret" not in answer.read()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1]", "0.0.0.0"])
def test_another_host_is_refused(live: Live, host: str) -> None:
    assert live.ask("/", host=host).status == 400


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "\x7f"])
def test_without_the_token_nothing_is_served(live: Live, token: str | None) -> None:
    for path in ("/", "/api/shapes", "/trace/traces/a%20b.json.gz", "/perfetto", "/perfetto-ui/", "/nothing"):
        assert live.ask(path, token=token).status == 403
    assert live.ask(f"/?token={token or ''}".replace("\x7f", "%7f"), token=None).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_is_read_only(live: Live, method: str) -> None:
    assert live.ask("/", method=method).status == 405


def head(live: Live, *lines: str) -> bytes:
    start = ("GET / HTTP/1.1", f"Host: 127.0.0.1:{live.port}", f"Authorization: Bearer {TOKEN}")
    return "\r\n".join([*start, *lines]).encode()


def test_huge_requests_are_refused_and_it_keeps_serving(live: Live) -> None:
    assert live.ask("/" + "a" * 60_000).status in (400, 431)
    assert b"HTTP/1.1 4" in live.raw(head(live, "X: " + "a" * 100_000, "", "")).split(b"\r\n")[0]
    assert b"413" in live.raw(head(live, "Content-Length: 99999999999", "", "")).split(b"\r\n")[0]
    assert b"413" in live.raw(head(live, "Transfer-Encoding: chunked", "", "")).split(b"\r\n")[0]
    assert live.ask("/").status == 200


def test_slow_requests_are_cut_off_and_it_keeps_serving(live: Live) -> None:
    slow = [socket.create_connection(("127.0.0.1", live.port), timeout=5) for _ in range(40)]
    try:
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        assert live.ask("/").status == 200
        assert [connection.recv(1) for connection in slow] == [b""] * len(slow)
    finally:
        for connection in slow:
            connection.close()


def test_a_second_slow_request_on_one_connection_is_cut_off(live: Live) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
        connection.sendall(head(live, "", ""))
        while b"</html>" not in connection.recv(1 << 20)[-100:]:
            pass
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert connection.recv(1) == b""


def test_a_flood_of_connections_does_not_end_it(live: Live) -> None:
    flood = [socket.create_connection(("127.0.0.1", live.port), timeout=5) for _ in range(120)]
    for connection in flood:
        connection.close()
    deadline = time.monotonic() + 5
    while live.ask("/").status != 200:
        assert time.monotonic() < deadline


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads its memory from /proc")
@pytest.mark.slow
def test_a_thousand_requests_leave_memory_flat(live: Live) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=10)

    def ask(count: int) -> None:
        for number in range(count):
            path = ("/", f"/api/shapes?n={number}", "/trace/traces/a%20b.json.gz", "/nothing")[number % 4]
            connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (200, 404)
            if answer.will_close:
                connection.close()

    ask(200)
    before = resident_bytes()
    ask(1000)
    assert resident_bytes() - before < 4 * MEGABYTE


def test_a_taken_port_is_an_error_with_a_hint(live: Live) -> None:
    with pytest.raises(OutputError, match=r"cannot listen on 127\.0\.0\.1"):
        server.listen(live.port)


def test_unknown_grouping_is_a_usage_error(live: Live) -> None:
    from shapescope.errors import UsageError

    def fails(_: object) -> None:
        raise UsageError("kernels cannot be grouped by 'x'", "One of ..")

    site = server.Site("", {"kernels": fails}, live.folder, frozenset())  # type: ignore[dict-item]
    with server.listen(0) as listening:
        running = server.server(server.application(site, TOKEN))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        answer = Live(listening.getsockname()[1], live.folder).ask("/api/kernels?by=x")
        running.should_exit = True
        thread.join(10)
    assert answer.status == 400
    assert json.loads(answer.read()) == {"error": "kernels cannot be grouped by 'x'", "hint": "One of .."}
