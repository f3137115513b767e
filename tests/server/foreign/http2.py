"""As much of HTTP/2 and gRPC as it takes to say something by hand, on a socket of one's own."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def frame(kind: int, flags: int, stream: int, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = struct.pack(">I", size & 0xFFFFFF)[1:] + bytes([kind & 255, flags & 255])
    return head + struct.pack(">I", stream & 0xFFFFFFFF) + body


def literal(name: bytes, value: bytes) -> bytes:
    """A header of HPACK without index and without Huffman codes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request(path: bytes, stream: int = 1) -> bytes:
    """The HEADERS that open a call."""
    block = b"".join(
        literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path),
            (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
    )
    return frame(1, 4, stream, block)


def message(data: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """One gRPC message in its five bytes of prefix."""
    return bytes([flag]) + struct.pack(">I", len(data) if length is None else length) + data
