"""Frames of gRPC: whatever the chunks, the messages are the same; what is no frame is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire.frames import (
    HEAD,
    CompressedError,
    FrameDecoder,
    FrameError,
    MessageTooLargeError,
    framed,
)


def fed(data: bytes, cuts: list[int]) -> tuple[list[bytes], FrameDecoder]:
    decoder = FrameDecoder()
    messages: list[bytes] = []
    at = 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        messages += decoder.feed(data[at:cut])
        at = max(at, cut)
    return messages, decoder


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(min_value=0), max_size=20))
def test_messages_do_not_depend_on_chunks(messages: list[bytes], cuts: list[int]) -> None:
    found, decoder = fed(framed(messages), cuts)
    assert found == messages
    assert decoder.is_between


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=10))
def test_garbage_is_refused_or_waits_for_more(data: bytes, cuts: list[int]) -> None:
    try:
        found, decoder = fed(data, cuts)
    except FrameError:
        return
    size = sum(HEAD + len(message) for message in found)
    assert framed(found) == data[:size]
    assert decoder.is_between == (size == len(data))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x01\x00\x00\x00\x00", CompressedError),
        (b"\x02\x00\x00\x00\x00", FrameError),
        (b"GET / HTTP/1.1\r\n", FrameError),
        (b"\x00\x01\x00\x00\x01", MessageTooLargeError),
        (b"\x00\xff\xff\xff\xff", MessageTooLargeError),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_wrong_head_is_refused_at_once(data: bytes, error: type[FrameError], size: int) -> None:
    decoder = FrameDecoder()
    with pytest.raises(error):
        for at in range(0, len(data), size):
            decoder.feed(data[at : at + size])


def test_the_largest_message_passes() -> None:
    decoder = FrameDecoder(most=1000)
    assert decoder.feed(framed([b"x" * 1000])) == [b"x" * 1000]
    with pytest.raises(MessageTooLargeError, match="1,001 bytes"):
        decoder.feed(framed([b"x" * 1001]))


def test_the_first_message_may_have_a_limit_of_its_own() -> None:
    decoder = FrameDecoder(100, first=10)
    assert decoder.feed(framed([b"x" * 10, b"y" * 100])) == [b"x" * 10, b"y" * 100]
    with pytest.raises(MessageTooLargeError):
        FrameDecoder(100, first=10).feed(framed([b"x" * 11]))
