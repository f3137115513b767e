"""Health and reflection, which need no token."""

from __future__ import annotations

import pytest

from tests.server.streams.desk import HERE, Remembering
from windlass.server.streams.edges import Status
from windlass.server.streams.handshake import PATIENCE
from windlass.server.streams.standard import standard_methods
from windlass.testing import VirtualClock, run_virtual
from windlass.wire.frames import FIRST_BYTES

METHODS = standard_methods(["windlass.v1.Worker"])


@pytest.mark.parametrize("path", METHODS)
def test_a_stream_that_asks_nothing_is_ended(path: str) -> None:
    async def body(clock: VirtualClock) -> None:
        edge = Remembering()
        METHODS[path].open(edge, HERE)
        began = clock.monotonic()
        status, _ = await edge.ended()
        assert status is Status.DEADLINE_EXCEEDED
        assert clock.monotonic() - began == pytest.approx(PATIENCE)

    run_virtual(body)


def test_their_messages_are_small() -> None:
    assert {method.most for method in METHODS.values()} == {FIRST_BYTES}
