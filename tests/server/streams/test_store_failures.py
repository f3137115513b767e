"""What streams are told while the store fails, and what becomes of their deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.streams.desk import Desk, InlineLeases, Stream, desk, run
from windlass import JobSpec
from windlass.errors import OutcomeUnknownError, StoreClosedError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.server.streams.answers import NOT_FOUND, NOT_OWNER, UNAVAILABLE
from windlass.server.streams.keeping import AFTERLIFE
from windlass.store.records import JobFilter, Renewal, Settled, Verdict
from windlass.testing import VirtualClock, run_virtual
from windlass.wire import windlass_pb2 as pb

AWAY = StoreUnavailableError("db.example does not answer", is_temporary=True)


def failing(monkeypatch: pytest.MonkeyPatch, it: Desk, verb: str, *steps: Any) -> list[int]:
    """Let a verb of the store fail, or answer *busy*, before it works; how often it was asked."""
    works: Callable[..., Any] = getattr(it.service.store, verb)
    left = list(steps)
    asked: list[int] = []

    async def fails(*arguments: Any, **more: Any) -> Any:
        asked.append(len(asked))
        step = left.pop(0) if left else None
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Verdict):
            return step
        if step == "busy":
            return [Settled(Verdict.BUSY)] * len(arguments[0])
        return await works(*arguments, **more)

    monkeypatch.setattr(it.service.store, verb, fails)
    return asked


class Line:
    """A lifeline that answers as the test says."""

    def __init__(self, answer: Renewal | Exception) -> None:
        self.answer = answer

    def renew(self, *asked: Any) -> Renewal:
        return self._answer()

    def check(self, *asked: Any) -> Renewal:
        return self._answer()

    def _answer(self) -> Renewal:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        """Nothing is open."""


async def claimed(stream: Stream, **ready: Any) -> Any:
    stream.say(ready=pb.Ready(**ready))
    return (await stream.hear(pb.TaskAssignment)).task


async def completed(stream: Stream, task: Any) -> Any:
    stream.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
    return await stream.hear(pb.ResultAck)


async def state(it: Desk) -> JobState:
    [job] = await it.app.store.find(JobFilter())
    return job.state


# ── outcomes ──


@pytest.mark.parametrize("steps", [[StoreClosedError("closed")], ["busy", StoreClosedError("no")]])
def test_an_outcome_that_was_not_written_can_be_told_again(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any]
) -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            task = await claimed(stream)
            failing(monkeypatch, it, "settle", *steps)
            assert (await completed(stream, task)).error_message == UNAVAILABLE
            assert await state(it) is JobState.RUNNING
            assert (await completed(stream, task)).ok

    run(body)


def test_an_outcome_that_is_locked_is_answered_when_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            task = await claimed(stream)
            asked = failing(monkeypatch, it, "settle", "busy", "busy")
            assert (await completed(stream, task)).ok
            assert len(asked) == 3

    run(body)


def test_while_jobs_cannot_be_looked_for_their_events_are_answered_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            failing(monkeypatch, it, "find", AWAY, AWAY)
            for told in (UNAVAILABLE, NOT_FOUND):
                stream.say(heartbeat=pb.Heartbeat(task_id="7"))
                assert (await stream.hear(pb.HeartbeatAck)).error_message == told
                stream.say(result=pb.Result(task_id="7", status="COMPLETED"))
                assert (await stream.hear(pb.ResultAck)).error_message == told
            stream.say(heartbeat=pb.Heartbeat(task_id="seven"))
            assert (await stream.hear(pb.HeartbeatAck)).error_message == NOT_FOUND

    run(body)


# ── leases ──


def test_a_heartbeat_says_what_is_lost_as_far_as_that_is_known() -> None:
    async def body() -> None:
        async with desk(host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            task = await claimed(stream)
            beat = pb.Heartbeat(task_id=task.id)
            lifeline, it.leases._lifeline = it.leases._lifeline, Line(AWAY)
            stream.say(heartbeat=beat)
            assert (await stream.hear(pb.HeartbeatAck)).ok
            it.leases._lifeline = lifeline
            [worker] = await it.app.store.workers()
            await it.app.store.unlock([worker.id], 5)
            stream.say(heartbeat=beat)
            assert (await stream.hear(pb.HeartbeatAck)).error_message == NOT_OWNER
            assert not it.shared.keeping._by_token

    run(body)


@pytest.mark.parametrize("step", [AWAY, Verdict.BUSY])
def test_what_cannot_be_adopted_now_stays_with_its_stream(
    monkeypatch: pytest.MonkeyPatch, step: Any
) -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail")
            stream, other = await it.greeted(), await it.greeted("other")
            task = await claimed(stream)
            beat = pb.Heartbeat(delivery=task.delivery)
            failing(monkeypatch, it, "move", step)
            other.say(heartbeat=beat)
            assert (await other.hear(pb.HeartbeatAck)).error_message == UNAVAILABLE
            [worker] = [one for one in await it.app.store.workers() if one.id.startswith("w-")]
            await it.app.store.unlock([worker.id], 5)
            other.say(heartbeat=beat)
            assert (await other.hear(pb.HeartbeatAck)).error_message == NOT_OWNER
            assert (await completed(stream, task)).error_message == NOT_OWNER

    run(body)


def test_a_newer_delivery_takes_the_place_of_a_lost_one() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            lost = await claimed(stream)
            [worker] = await it.app.store.workers()
            await it.app.store.unlock([worker.id], 5)
            task = await claimed(stream)
            assert task.id == lost.id and task.delivery != lost.delivery
            stream.say(result=pb.Result(delivery=lost.delivery, status="COMPLETED"))
            assert (await stream.hear(pb.ResultAck)).error_message == NOT_OWNER
            assert (await completed(stream, task)).ok

    run(body)


# ── deadlines ──


@pytest.mark.parametrize("step", [AWAY, "busy"])
def test_a_delivery_that_runs_out_is_taken_back_as_soon_as_the_store_does_it(
    monkeypatch: pytest.MonkeyPatch, step: Any
) -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            await claimed(stream, lease_seconds=5)
            asked = failing(monkeypatch, it, "expire", step)
            await asyncio.sleep(5.5)
            assert len(asked) == 1 and await state(it) is JobState.RUNNING
            await asyncio.sleep(1)
            assert len(asked) == 2 and await state(it) is JobState.READY

    run_virtual(body)


def test_a_delivery_is_not_taken_back_while_its_outcome_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            task = await claimed(stream, lease_seconds=5)
            asked = failing(monkeypatch, it, "settle", *["busy"] * 8)
            assert (await completed(stream, task)).ok
            assert len(asked) == 9
            assert clock.monotonic() > 5
            assert await it.app.store.find(JobFilter()) == []

    run_virtual(body)


def test_deliveries_that_are_over_are_not_watched_for_ever() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            for _ in range(4):
                await it.app.client.add_jobs([JobSpec("mail")] * 600)
                stream.say(ready=pb.Ready(count=600))
                tasks = (await stream.hear(pb.TaskBatch)).tasks
                done = [pb.Result(task_id=each.id, status="COMPLETED") for each in tasks]
                stream.say(result_batch=pb.ResultBatch(results=done))
                await stream.hear(pb.ResultAckBatch)
            assert len(it.shared.keeping._deadlines) < 1_800

    run(body)


# ── ends ──


@pytest.mark.parametrize("hand_back", [False, True])
def test_an_end_that_is_not_stored_is_told_of_and_the_lease_runs_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hand_back: bool
) -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            await claimed(stream)
            if hand_back:
                failing(monkeypatch, it, "retire", AWAY)
                stream.session.stop()
            else:
                it.leases._lifeline = Line(AWAY)
                stream.session.closed()
            await it.ends_of_streams()
            assert await state(it) is JobState.RUNNING
            await asyncio.sleep(max(AFTERLIFE, it.shared.lease) + 1)
            await it.app.store.reap(100, 5)
            assert await state(it) is JobState.READY

    with caplog.at_level(logging.WARNING, "windlass.server"):
        run_virtual(body)
    [told] = [one for one in caplog.messages if "the end of the stream" in one]
    assert "was not stored: db.example does not answer" in told


# ── producers ──


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OutcomeUnknownError("the answer was lost"), "it is not known whether the job was added"),
        (ValueError("odd"), "internal error: ValueError"),
    ],
)
def test_a_producer_is_told_what_is_known_and_not_what_the_database_says(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    async def body() -> None:
        async with desk() as it:
            failing(monkeypatch, it, "enqueue", error)
            stream = await it.producing()
            for ok in (False, True):
                stream.say(create_task=pb.CreateTask(seq=1, command="mail"))
                ack = await stream.hear(pb.CreateAck)
                assert ack.ok is ok
                assert ok or (says in ack.error_message and str(error) not in ack.error_message)

    run(body)


def test_an_addition_whose_caller_is_gone_costs_the_others_nothing() -> None:
    async def body() -> None:
        async with desk() as it:
            additions = it.shared.additions
            job = it.shared.prepare("mail", "{}")
            gone, waits = additions.submit([job]), additions.submit([job])
            gone.cancel()
            [added] = await waits
            assert added.job_id is not None
            assert (await it.app.client.counts())["ready"] == 2

    run(body)
