"""Events that no sane client sends end at most the stream that sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.server.foreign.program import identity
from tests.server.foreign.streams import Producer, Stream, Worker
from tests.server.foreign.wire import Message
from tests.server.fuzz import events
from tests.server.fuzz.conftest import Site, fuzz

pytestmark = pytest.mark.slow

ENDS = st.sampled_from(["half-close", "half-close", "cancel"])


def finish(
    site: Site, stream: Stream, sent: list[bytes], end: str, *, readable: bool = True
) -> None:
    """Send all, end the stream, and see that the server is as good as before."""
    for data in sent:
        stream.send_bytes(data)
    if end == "cancel":
        stream.cancel()
    else:
        stream.half_close()
    # What cannot be read as a message is an internal error by gRPC's own rules.
    code = stream.end().code
    assert code != "UNKNOWN" and not (readable and code == "INTERNAL"), stream.end()
    site.check()
    site.measure()


def test_worker_events_of_any_values(site: Site) -> None:
    tenant = site.server.tenant("fuzz")

    def example(drawn: Any) -> None:
        data, end = drawn
        tenant.producer().add("fuzz")
        worker = tenant.worker()
        task: Message = worker.get("fuzz", lease=600)
        own = events.worker_events(events.ids_of([task.id, "1", "2"]), st.just(task.delivery))
        sent = data.draw(st.lists(own, max_size=12))
        finish(site, worker, sent, end)
        site.server.close_streams_but(1)

    fuzz(st.tuples(st.data(), ENDS), example, 30)


def test_producer_events_of_any_values(site: Site) -> None:
    tenant = site.server.tenant("fuzz")

    def example(drawn: Any) -> None:
        sent, end = drawn
        finish(site, tenant.producer(), sent, end)
        site.server.close_streams_but(1)

    fuzz(st.tuples(st.lists(events.producer_events(), max_size=12), ENDS), example, 30)


@pytest.mark.parametrize("greeted", [True, False], ids=["after-hello", "before-hello"])
@pytest.mark.parametrize("role", ["worker", "producer"])
def test_messages_of_any_shape(site: Site, role: str, greeted: bool) -> None:
    server = site.server

    def example(drawn: Any) -> None:
        sent, end = drawn
        stream: Worker | Producer = server.worker() if role == "worker" else server.producer()
        if greeted:
            stream.hello(identity(role, "fuzz"))
        finish(site, stream, sent, end, readable=False)
        server.close_streams_but(1)

    messages = st.lists(events.any_messages | events.garbage, max_size=8)
    fuzz(st.tuples(messages, ENDS), example, 15)


@pytest.mark.parametrize("role", ["worker", "producer"])
def test_a_message_that_is_too_large_ends_its_stream_alone(site: Site, role: str) -> None:
    for size in (16 * 2**20 + 1, 40 * 2**20):
        server = site.server
        stream: Worker | Producer = server.worker() if role == "worker" else server.producer()
        stream.hello(identity(role, "fuzz"))
        stream.send_bytes(b"\x1a" + b"\x00" * size)
        assert stream.end().code == "RESOURCE_EXHAUSTED"
        site.check()
        server.close_streams_but(1)
    site.measure()
