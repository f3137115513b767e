"""Bytes for a port: HTTP/2 that is almost right, HTTP/1 that is not, and noise."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.server.foreign.http2 import PREFACE, SETTINGS, frame, message, request

_PATHS = [
    b"/workerpb.WorkerStream/Stream",
    b"/producerpb.ProducerStream/Stream",
    b"/windlass.v1.Worker/Stream",
    b"/grpc.health.v1.Health/Check",
    b"/grpc.health.v1.Health/Watch",
    b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    *(b"/", b"", b"*", b"/v1/jobs", b"/\xff", b"/../../etc/passwd"),
]
_streams = st.sampled_from([0, 1, 1, 1, 3, 2, 2**31 - 1, 2**31])
_bodies = st.binary(max_size=60)
_lengths = st.none() | st.sampled_from([0, 1, 16_384, 2**24 - 1])

_frames = st.builds(frame, st.integers(0, 12), st.integers(0, 255), _streams, _bodies, _lengths)
_messages = st.builds(
    message,
    _bodies,
    st.sampled_from([0, 0, 0, 1, 2, 255]),
    st.none() | st.sampled_from([0, 1, 16 * 2**20, 17 * 2**20, 2**32 - 1]),
)
_data = st.builds(lambda body, flags: frame(0, flags, 1, body), _messages, st.sampled_from([0, 1]))
_requests = st.builds(request, st.sampled_from(_PATHS), st.sampled_from([1, 1, 3, 5]))


def _almost_http2(parts: list[bytes]) -> bytes:
    return PREFACE + SETTINGS + b"".join(parts)


http2: Any = st.builds(
    _almost_http2, st.lists(st.one_of(_requests, _data, _frames), min_size=1, max_size=12)
)
_lines = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /v1/jobs HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.0\r\n",
        b"Host: localhost\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Authorization: Bearer \xff\xfe\r\n",
        b"Content-Type: application/json\r\n",
        b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n",
        b"X: " + b"y" * 70_000 + b"\r\n",
        b"\r\n",
        b"\x00\r\n",
        b"{}",
        b"ffffffffffffffff\r\n",
    ]
)
http1: Any = st.lists(_lines | st.binary(max_size=20), min_size=1, max_size=8).map(b"".join)
tls_hello = st.binary(max_size=200).map(lambda data: b"\x16\x03\x01\x02\x00\x01" + data)
any_bytes: Any = st.one_of(http2, http2, http1, tls_hello, st.binary(max_size=2_000))
