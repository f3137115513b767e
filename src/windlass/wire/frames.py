"""The frames of gRPC: each message behind five bytes, one that says whether it is compressed and
four with its length.

A decoder gets bytes as they arrive and gives the messages that are complete. It neither waits nor
copies what it need not: where whole messages arrive together, each is cut out once.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

MOST_BYTES = 16 * 1024 * 1024
"""The largest message."""
FIRST_BYTES = 64 * 1024
"""The largest message of a client that has not said yet who it is."""
HEAD = 5

_head = Struct(">BI")


class FrameError(Exception):
    """What arrived is no frame that can be taken. After it the decoder is of no use any more."""


class MessageTooLargeError(FrameError):
    """A message is larger than the limit."""


class CompressedError(FrameError):
    """A message is compressed, and no compression was agreed upon."""


class FrameDecoder:
    """Bytes in, complete messages out. The first message may have a limit of its own."""

    def __init__(self, most: int = MOST_BYTES, first: int | None = None) -> None:
        self._most = most
        self._limit = most if first is None else min(first, most)
        """Of the next message."""
        self._rest = bytearray()
        self._wanted = HEAD
        """How long `_rest` must be before it can hold a message."""

    @property
    def is_between(self) -> bool:
        """Whether no message has begun."""
        return not self._rest

    @property
    def waiting(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete with `data`, in order. Raises FrameError; messages before
        the wrong frame are not given then."""
        rest = self._rest
        if not rest:
            return self._cut(data)
        rest += data
        if len(rest) < self._wanted:
            if len(rest) >= HEAD:
                self._wanted = HEAD + self._length(rest, 0)
            return []
        whole = bytes(rest)
        rest.clear()
        return self._cut(whole)

    def _cut(self, data: bytes) -> list[bytes]:
        messages = []
        at, end = 0, len(data)
        self._wanted = HEAD
        while end - at >= HEAD:
            length = self._length(data, at)
            after = at + HEAD + length
            if after > end:
                self._wanted = HEAD + length
                break
            messages.append(data[at + HEAD : after])
            self._limit = self._most
            at = after
        if at < end:
            self._rest += data[at:]
        return messages

    def _length(self, data: bytes | bytearray, at: int) -> int:
        flag, length = _head.unpack_from(data, at)
        if flag == 1:
            raise CompressedError("the message is compressed; send it as it is")
        if flag != 0:
            raise FrameError(f"a message cannot begin with the byte {flag}")
        if length > self._limit:
            raise MessageTooLargeError(
                f"the message is {length:,} bytes long; the limit is {self._limit:,}"
            )
        return int(length)


def framed(messages: Iterable[bytes]) -> bytes:
    """The bytes of these messages, one behind the other."""
    parts: list[bytes] = []
    for message in messages:
        parts.append(_head.pack(0, len(message)))
        parts.append(message)
    return b"".join(parts)
