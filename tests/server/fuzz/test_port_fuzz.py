"""Bytes that are no protocol, on both ports."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.patience import PATIENCE
from tests.server.foreign import http2
from tests.server.fuzz import frames
from tests.server.fuzz.conftest import Site, fuzz

pytestmark = pytest.mark.slow


def pour(host: str, port: int, parts: list[bytes], reset: bool) -> None:
    """Send all, say that there is no more, and read what comes until the server has had enough.

    A server that waits for the rest of a request may keep the connection: the caller closes it.
    """
    with socket.create_connection((host, port), timeout=PATIENCE) as connection:
        with suppress(OSError):
            for part in parts:
                connection.sendall(part)
            if not reset:
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(0.05)
                while connection.recv(65536):
                    pass


@pytest.mark.parametrize("which", ["rest", "streams"])
def test_any_bytes(site: Site, which: str) -> None:
    server = site.server
    port = server.port if which == "rest" else server.grpc_port

    def example(drawn: Any) -> None:
        data, cut, reset = drawn
        cut = min(cut, len(data))
        pour(server.host, port, [data[:cut], data[cut:]], reset)
        site.check()
        assert server.call("GET", "/healthz").status in (200, 401)
        site.measure()

    fuzz(st.tuples(frames.any_bytes, st.integers(0, 400), st.booleans()), example, 40)


@pytest.mark.parametrize(
    ("flag", "length"), [(0, 2**32 - 1), (0, 17 * 2**20), (1, 3), (2, 3), (255, 0)]
)
def test_a_prefix_that_promises_too_much(site: Site, flag: int, length: int) -> None:
    """Nothing is reserved for a message because of what its prefix says."""
    body = http2.message(b"abc", flag, length)
    for path in (b"/workerpb.WorkerStream/Stream", b"/producerpb.ProducerStream/Stream"):
        sent = http2.PREFACE + http2.SETTINGS + http2.request(path)
        pour(site.server.host, site.server.grpc_port, [sent + http2.frame(0, 0, 1, body)], False)
        site.check()
    site.measure()


def test_many_connections_that_say_nothing(site: Site) -> None:
    opened = [
        socket.create_connection((site.server.host, port), timeout=PATIENCE)
        for port in (site.server.port, site.server.grpc_port)
        for _ in range(100)
    ]
    try:
        for each in opened[::2]:
            each.sendall(http2.PREFACE[:7])
        site.check()
    finally:
        for each in opened:
            each.close()
    site.check()
    site.measure()
