"""What keeping does when the store does not answer as it should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.server.streams.desk import InlineLeases, desk
from windlass import JobSpec
from windlass.errors import StoreBusyError, StoreError
from windlass.model.job import JobState
from windlass.server.streams.keeping import AFTERLIFE
from windlass.store.records import COMPLETE, JobFilter, Renewal, Verdict
from windlass.testing import VirtualClock, run_virtual
from windlass.wire import windlass_pb2 as pb


class Failing:
    """A lifeline that cannot renew one worker."""

    def __init__(self, bad: str, error: Exception) -> None:
        self.bad = bad
        self.error = error
        self.renewed: list[str] = []

    def renew(self, worker: str, lease: float, *more: Sequence[Any]) -> Renewal:
        if worker == self.bad:
            raise self.error
        self.renewed.append(worker)
        return Renewal()

    def check(self, worker: str, leases: Sequence[Any]) -> Renewal:
        return Renewal()

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("error", [StoreError("no such worker"), StoreBusyError("locked")])
def test_a_lease_that_cannot_be_renewed_costs_the_others_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_jobs([JobSpec("mail"), JobSpec("mail")])
            for name in ("bad", "good"):
                stream = await it.greeted(name)
                stream.say(ready=pb.Ready())
                await stream.hear(pb.TaskAssignment)
            bad, good = it.shared.keeping._holdings
            await asyncio.sleep(it.shared.lease / 2)
            lifeline: Any = Failing(bad, error)
            for _ in range(3):
                assert it.shared.keeping._step(lifeline) <= 1.0
                await asyncio.sleep(1.0)
            assert lifeline.renewed == [good]

    with caplog.at_level(logging.WARNING, "windlass.server"):
        run_virtual(body)
    told = [one for one in caplog.messages if "could not be renewed" in one]
    assert len(told) == (0 if isinstance(error, StoreBusyError) else 1)


def test_a_stream_that_ends_is_renewed_no_more_while_an_outcome_is_under_way() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            stream.say(ready=pb.Ready())
            await stream.hear(pb.TaskAssignment)
            [holding] = it.shared.keeping._holdings.values()
            answered = asyncio.Event()

            async def rest() -> None:
                await answered.wait()

            it.shared.keeping.end(holding, hand_back=False, rest=rest())
            lifeline: Any = Failing("", StoreError("never"))
            await asyncio.sleep(AFTERLIFE + 1)
            it.shared.keeping._step(lifeline)
            assert not lifeline.renewed
            await it.app.store.reap(100, it.app.settings.max_resets)
            [job] = await it.app.store.find(JobFilter())
            assert job.state is JobState.READY
            answered.set()

    run_virtual(body)


def test_what_another_server_has_adopted_is_not_taken_back() -> None:
    """Its deadline passes here, where nothing is known of the other; another's does, too."""

    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_jobs([JobSpec("mail"), JobSpec("mail")])
            stream = await it.greeted()
            leases = []
            for _ in range(2):
                stream.say(ready=pb.Ready(lease_seconds=5))
                task = (await stream.hear(pb.TaskAssignment)).task
                delivery = it.shared.deliveries.unsealed(task.delivery, None)
                assert delivery is not None
                leases.append(delivery.lease)
            gone, own = leases
            store = it.service.store
            assert await store.move(gone, "elsewhere", 60.0) is Verdict.APPLIED
            await asyncio.sleep(6.0)
            states = {job.id: job.state for job in await store.find(JobFilter())}
            assert states == {gone.job_id: JobState.RUNNING, own.job_id: JobState.READY}
            assert not it.shared.keeping._by_token
            stream.session.stop()
            await it.ends_of_streams()
            assert (await store.settle([(gone, COMPLETE)]))[0].verdict is Verdict.APPLIED

    run_virtual(body)


def test_a_delivery_that_is_locked_is_adopted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(*arguments: Any) -> Verdict:
        return Verdict.BUSY

    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream, other = await it.greeted(), await it.greeted()
            stream.say(ready=pb.Ready())
            task = (await stream.hear(pb.TaskAssignment)).task
            with monkeypatch.context() as locked:
                locked.setattr(it.service.store, "move", busy)
                other.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
                assert "try again" in (await other.hear(pb.HeartbeatAck)).error_message
            other.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
            assert (await other.hear(pb.HeartbeatAck)).ok

    run_virtual(body)


def test_a_stream_that_ends_while_it_adopts_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail")
            stream, other = await it.greeted(), await it.greeted()
            stream.say(ready=pb.Ready())
            task = (await stream.hear(pb.TaskAssignment)).task
            delivery = it.shared.deliveries.unsealed(task.delivery, None)
            assert delivery is not None
            keeping, store = it.shared.keeping, it.service.store
            *_, holding = keeping._holdings.values()
            move = store.move

            async def ending(*arguments: Any) -> Verdict:
                other.session.closed()
                return await move(*arguments)

            with monkeypatch.context() as during:
                during.setattr(store, "move", ending)
                assert await keeping.adopt(holding, delivery) is None
            assert not keeping._by_token
            await it.ends_of_streams()
            [job] = await store.find(JobFilter())
            assert job.state is JobState.READY

    run_virtual(body)
