"""Health and reflection, which need no token."""

from __future__ import annotations

from typing import Any

import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.server.streams.desk import HERE, Remembering, run
from windlass.server.streams.edges import Status
from windlass.server.streams.handshake import PATIENCE
from windlass.server.streams.standard import (
    HEALTH,
    NOT_SERVING,
    REFLECTIONS,
    SERVING,
    standard_methods,
)
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


def opened(path: str) -> tuple[Any, Remembering]:
    edge = Remembering()
    return METHODS[path].open(edge, HERE), edge


def asked(service: str) -> Any:
    return health_pb2.HealthCheckRequest(service=service)


@pytest.mark.parametrize(
    ("service", "told", "ended"),
    [
        ("", [SERVING], Status.OK),
        ("windlass.v1.Worker", [SERVING], Status.OK),
        ("other", [], Status.NOT_FOUND),
    ],
)
def test_a_check_gets_one_answer(service: str, told: list[int], ended: Status) -> None:
    async def body() -> None:
        session, edge = opened(f"/{HEALTH}/Check")
        session.receive([asked(service)])
        session.receive([asked(service)])  # after its end nothing is answered
        session.stop()
        assert [one.status for one in edge.sent] == told
        assert edge.end is not None and edge.end[0] is ended

    run(body)


def test_a_watch_is_told_of_the_drain() -> None:
    async def body() -> None:
        session, edge = opened(f"/{HEALTH}/Watch")
        session.receive([asked("")])
        session.receive([asked("")])
        session.half_closed()  # it listens on
        session.drain()
        session.drain()
        assert [one.status for one in edge.sent] == [SERVING, NOT_SERVING]
        assert edge.end is not None and edge.end[0] is Status.UNAVAILABLE

    run(body)


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_a_question_that_is_missing_is_named(method: str) -> None:
    async def body() -> None:
        session, edge = opened(f"/{HEALTH}/{method}")
        session.half_closed()
        assert edge.end == (Status.INVALID_ARGUMENT, "the request is missing")

    run(body)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"file_containing_symbol": "no.Such"}, Status.NOT_FOUND),
        ({"file_by_filename": "no_such.proto"}, Status.NOT_FOUND),
        ({"all_extension_numbers_of_type": "windlass.v1.Worker"}, Status.NOT_FOUND),
        ({}, Status.INVALID_ARGUMENT),
    ],
)
def test_reflection_says_what_it_has_not(request_: dict[str, str], code: Status) -> None:
    async def body() -> None:
        session, edge = opened(f"/{REFLECTIONS[0]}/ServerReflectionInfo")
        session.receive([reflection_pb2.ServerReflectionRequest(**request_)])
        [answer] = edge.sent
        assert answer.error_response.error_code == code
        session.half_closed()
        session.receive([reflection_pb2.ServerReflectionRequest(list_services="")])
        assert len(edge.sent) == 1 and edge.end == (Status.OK, "")

    run(body)
