"""Streams of workers, without sockets: the table of SERVER.md §3, line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.streams.desk import Desk, InlineLeases, Stream, desk, run
from windlass import App, JobSpec
from windlass.errors import StoreUnavailableError
from windlass.model.job import Job, JobState
from windlass.model.retry import Retry
from windlass.server.streams.edges import Status
from windlass.server.streams.readies import MOST_COMMANDS, MOST_OPEN, MOST_SAID, MOST_SCOPES
from windlass.server.streams.turns import MOST_IN_BATCH, SLICE, TOO_MANY
from windlass.testing import VirtualClock, run_virtual
from windlass.wire import windlass_pb2 as pb


async def claimed(stream: Stream, **ready: Any) -> Any:
    stream.say(ready=pb.Ready(**ready))
    return (await stream.hear(pb.TaskAssignment)).task


async def job_of(app: App, task: Any) -> Job:
    job = await app.client.get_job(int(task.id))
    assert job is not None
    return job


# ── Hello ──


@pytest.mark.parametrize(
    ("first", "status", "text"),
    [
        (pb.WorkerEvent(ready=pb.Ready()), Status.FAILED_PRECONDITION, "must be Hello"),
        (pb.WorkerEvent(), Status.FAILED_PRECONDITION, "must be Hello"),
        ("nonsense", Status.UNAUTHENTICATED, "no token of Windlass"),
        ("", Status.UNAUTHENTICATED, "needs a token"),
        ("producer", Status.PERMISSION_DENIED, "role"),
        ("revoked", Status.UNAUTHENTICATED, "revoked"),
        ("expired", Status.UNAUTHENTICATED, "expired"),
    ],
)
def test_what_is_no_good_hello_ends_the_stream(
    first: pb.WorkerEvent | str, status: Status, text: str
) -> None:
    async def body() -> None:
        async with desk() as it:
            tokens = {
                "producer": await it.token("producer", "producer"),
                "revoked": await it.token("revoked", "worker", revoked_at=2),
                "expired": await it.token("expired", "worker", expires_at=2),
            }
            stream = it.worker()
            if isinstance(first, str):
                stream.say(hello=pb.WorkerHello(token=tokens.get(first, first)))
            else:
                stream.say_all(first)
            ended, why = await stream.edge.ended()
            assert ended is status
            assert text in why
            assert not stream.edge.sent

    run(body)


def test_a_stream_that_says_nothing_ends_after_ten_seconds() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            began = clock.monotonic()
            stream = it.worker()
            status, why = await stream.edge.ended()
            assert status is Status.DEADLINE_EXCEEDED
            assert "10 s" in why
            assert clock.monotonic() - began == pytest.approx(10)

    run_virtual(body)


def test_a_hello_is_acknowledged_with_what_the_token_says() -> None:
    async def body() -> None:
        async with desk() as it:
            token = await it.token("mailer", "worker", tenant="acme")
            stream = it.worker()
            stream.say(hello=pb.WorkerHello(token=f" {token} ", worker_id="  "))
            ack = await stream.hear(pb.WorkerHelloAck)
            assert (ack.worker_id, ack.tenant_id) == ("mailer", "acme")
            stream.say(hello=pb.WorkerHello(token=token))
            error = await stream.hear(pb.WorkerServerError)
            assert error.code == "FailedPrecondition"
            assert stream.edge.end is None

    run(body)


def test_what_comes_with_the_hello_waits_for_it() -> None:
    async def body() -> None:
        async with desk() as it:
            job = await it.app.client.add_job("mail", {"to": 1})
            stream = it.worker()
            stream.say(hello=pb.WorkerHello(worker_id="w"), ready=pb.Ready())
            await stream.hear(pb.WorkerHelloAck)
            task = (await stream.hear(pb.TaskAssignment)).task
            assert task.id == str(job.id)
            assert json.loads(task.payload) == {"to": 1}

    run(body)


def test_a_revoked_token_ends_its_stream() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            token = await it.token("mailer", "worker")
            stream = await it.greeted(token=token)
            await it.service.store.revoke_token("mailer")
            status, why = await stream.edge.ended()
            assert status is Status.UNAUTHENTICATED
            assert "revoked" in why

    run_virtual(body)


# ── how a delivery ends ──

Check = Callable[[Any, Job], bool]

_DISPOSITIONS: list[tuple[str, dict[str, Any], type[Any], dict[str, Any], JobState, int]] = [
    ("completed", {"result": pb.Result(status="COMPLETED", result_json=b'{"a": 1}')},
     pb.ResultAck, {"ok": True}, JobState.COMPLETED, 1),
    ("completed with a list", {"result": pb.Result(status="COMPLETED", result_json=b"[1, null]")},
     pb.ResultAck, {"ok": True}, JobState.COMPLETED, 1),
    ("completed with nothing", {"result": pb.Result(status="COMPLETED")},
     pb.ResultAck, {"ok": True}, JobState.COMPLETED, 1),
    ("failed", {"result": pb.Result(status="FAILED", error="boom")},
     pb.ResultAck, {"ok": True}, JobState.SCHEDULED, 1),
    ("failed without a word", {"result": pb.Result(status="FAILED")},
     pb.ResultAck, {"ok": True}, JobState.SCHEDULED, 1),
    ("nacked", {"nack": pb.Nack(delay_seconds=60, reason="busy")},
     pb.NackAck, {"ok": True, "applied_delay_seconds": 60, "dlq": False}, JobState.SCHEDULED, 1),
    ("nacked for now", {"nack": pb.Nack(reason="busy")},
     pb.NackAck, {"ok": True, "applied_delay_seconds": 0, "dlq": False}, JobState.READY, 1),
    ("nacked with a negative delay", {"nack": pb.Nack(delay_seconds=-5)},
     pb.NackAck, {"ok": True, "applied_delay_seconds": 0, "dlq": False}, JobState.READY, 1),
    ("abandoned", {"abandon": pb.Abandon()}, pb.AbandonAck, {"ok": True}, JobState.READY, 0),
    ("status unknown", {"result": pb.Result(status="DONE")},
     pb.ResultAck, {"ok": False}, JobState.RUNNING, 1),
    ("status of batches", {"result": pb.Result(status="ABANDON")},
     pb.ResultAck, {"ok": False}, JobState.RUNNING, 1),
    ("no JSON", {"result": pb.Result(status="COMPLETED", result_json=b"{")},
     pb.ResultAck, {"ok": False}, JobState.RUNNING, 1),
    ("JSON with NaN", {"result": pb.Result(status="COMPLETED", result_json=b"NaN")},
     pb.ResultAck, {"ok": False}, JobState.RUNNING, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kind", "expected", "state", "attempts"),
    [line[1:] for line in _DISPOSITIONS],
    ids=[line[0] for line in _DISPOSITIONS],
)
@pytest.mark.parametrize("presents", [False, True], ids=["by id", "by delivery"])
def test_every_disposition(
    said: dict[str, Any],
    kind: type[Any],
    expected: dict[str, Any],
    state: JobState,
    attempts: int,
    presents: bool,
) -> None:
    async def body() -> None:
        async with desk(app_settings={"keep": 60.0}) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            assert task.attempts == 1
            [(name, event)] = said.items()
            event.task_id = "" if presents else task.id
            event.delivery = task.delivery if presents else b""
            stream.say(**{name: event})
            ack = await stream.hear(kind)
            assert ack.task_id == task.id
            assert {key: getattr(ack, key) for key in expected} == expected
            assert bool(ack.error_message) != ack.ok
            job = await job_of(it.app, task)
            assert (job.state, job.attempts) == (state, attempts)
            if name == "result" and event.status == "COMPLETED" and ack.ok:
                assert job.output == json.loads(event.result_json or b"null")
            if name == "nack" and event.reason:
                assert job.last_error == event.reason

    run(body)


def test_the_last_attempt_goes_to_the_dead_letters() -> None:
    async def body() -> None:
        async with desk() as it:
            for _ in range(2):
                await it.app.client.add_job("mail", {}, max_attempts=1)
            stream = await it.greeted()
            task = await claimed(stream)
            assert task.max_attempts == 1
            stream.say(nack=pb.Nack(task_id=task.id, delay_seconds=9, reason="no"))
            ack = await stream.hear(pb.NackAck)
            assert (ack.ok, ack.dlq, ack.applied_delay_seconds) == (True, True, 0)
            assert (await job_of(it.app, task)).state is JobState.FAILED
            task = await claimed(stream)
            stream.say(result=pb.Result(task_id=task.id, status="FAILED", error="no"))
            assert (await stream.hear(pb.ResultAck)).ok
            assert (await job_of(it.app, task)).state is JobState.FAILED

    run(body)


def test_a_task_that_the_server_knows_has_its_own_policy() -> None:
    def prepare(app: App) -> None:
        app.task(name="mail", max_attempts=2, retry=Retry.fixed(7))(lambda: None)

    async def body() -> None:
        async with desk(prepare=prepare) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            assert task.max_attempts == 2
            stream.say(result=pb.Result(task_id=task.id, status="FAILED", error="no"))
            assert (await stream.hear(pb.ResultAck)).ok
            job = await job_of(it.app, task)
            assert job.state is JobState.SCHEDULED
            assert (job.run_at - job.updated_at).total_seconds() == pytest.approx(7)

    run(body)


def test_a_batch_is_answered_in_its_order_whatever_it_mixes() -> None:
    async def body() -> None:
        async with desk(app_settings={"keep": 60.0}) as it:
            for _ in range(5):
                await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            stream.say(ready=pb.Ready(count=10))
            tasks = (await stream.hear(pb.TaskBatch)).tasks
            assert len(tasks) == 5
            results = [
                pb.Result(task_id=tasks[0].id, status="FAILED", error="e"),
                pb.Result(task_id="77777", status="COMPLETED"),
                pb.Result(task_id=tasks[1].id, status="COMPLETED", result_json=b"3"),
                pb.Result(task_id=tasks[2].id, status="NACK", error="later", delay_seconds=30),
                pb.Result(task_id="x", status="COMPLETED"),
                pb.Result(task_id=tasks[3].id, status="ABANDON"),
                pb.Result(task_id=tasks[4].id, status="WHAT"),
            ]
            stream.say(result_batch=pb.ResultBatch(results=results))
            acks = (await stream.hear(pb.ResultAckBatch)).acks
            assert [(ack.task_id, ack.ok) for ack in acks] == [
                (result.task_id, at in (0, 2, 3, 5)) for at, result in enumerate(results)
            ]
            assert [acks[at].error_message for at in (1, 4)] == ["not-found", "not-found"]
            states = [(await job_of(it.app, task)).state for task in tasks]
            assert states == ["scheduled", "completed", "scheduled", "ready", "running"]

    run(body)


def test_an_empty_batch_gets_an_empty_ack() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            stream.say(result_batch=pb.ResultBatch())
            assert len((await stream.hear(pb.ResultAckBatch)).acks) == 0

    run(body)


def test_what_comes_in_one_chunk_is_one_settlement_and_one_send() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_jobs([_spec("mail")] * 300)
            stream = await it.greeted()
            stream.say(ready=pb.Ready(count=300))
            tasks = (await stream.hear(pb.TaskBatch)).tasks
            calls = _counted(it, "settle")
            stream.edge.chunks.clear()
            stream.say_all(
                *(
                    pb.WorkerEvent(result=pb.Result(task_id=task.id, status="COMPLETED"))
                    for task in tasks
                )
            )
            for task in tasks:
                ack = await stream.hear(pb.ResultAck)
                assert (ack.task_id, ack.ok) == (task.id, True)
            assert len(calls) == 1
            assert stream.edge.chunks == [300]

    run(body)


# ── whose it is ──


def test_streams_of_one_worker_id_do_not_share_tasks() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail", {})
            first, second = await it.greeted("same"), await it.greeted("same")
            task = await claimed(first)
            second.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            ack = await second.hear(pb.ResultAck)
            assert (ack.ok, ack.error_message) == (False, "not-owner")
            second.say(heartbeat=pb.Heartbeat(task_id=task.id))
            beat = await second.hear(pb.HeartbeatAck)
            assert (beat.ok, beat.error_message) == (False, "not-owner")
            first.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await first.hear(pb.ResultAck)).ok

    run(body)


def test_a_job_of_another_tenant_does_not_exist() -> None:
    async def body() -> None:
        async with desk() as it:
            mine = await it.token("mine", "worker", tenant="acme")
            theirs = await it.token("theirs", "worker", tenant="globex")
            await it.app.client.for_tenant("globex").add_job("mail", {})
            their, my = await it.greeted(token=theirs), await it.greeted(token=mine)
            my.say(ready=pb.Ready())
            task = await claimed(their)
            assert task.tenant_id == "globex"
            for event in (
                {"result": pb.Result(task_id=task.id, status="COMPLETED")},
                {"result": pb.Result(delivery=task.delivery, status="COMPLETED")},
                {"nack": pb.Nack(task_id=task.id)},
                {"abandon": pb.Abandon(delivery=task.delivery)},
                {"heartbeat": pb.Heartbeat(delivery=task.delivery)},
                {"heartbeat": pb.Heartbeat(task_id=task.id)},
            ):
                my.say(**event)
                ack = await my.edge.hear()
                assert (ack.ok, ack.error_message) == (False, "not-found"), event
            their.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await their.hear(pb.ResultAck)).ok

    run(body)


def test_a_delivery_that_was_changed_is_not_found() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            for at in (0, 5, len(task.delivery) - 1):
                changed = bytearray(task.delivery)
                changed[at] ^= 1
                stream.say(result=pb.Result(delivery=bytes(changed), status="COMPLETED"))
                assert (await stream.hear(pb.ResultAck)).error_message == "not-found"

    run(body)


def test_a_lease_that_ends_takes_the_task_from_a_stream_that_hangs() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases, app_settings={"poll_interval": 1}) as it:
            await it.app.client.add_job("mail", {})
            hangs, other = await it.greeted("hangs"), await it.greeted("other")
            task = await claimed(hangs, lease_seconds=20)
            other.say(ready=pb.Ready())
            hangs.say(heartbeat=pb.Heartbeat(task_id=task.id, extend_seconds=100))
            assert (await hangs.hear(pb.HeartbeatAck)).ok
            hangs.say(heartbeat=pb.Heartbeat(task_id=task.id, extend_seconds=1))
            assert (await hangs.hear(pb.HeartbeatAck)).ok
            began = clock.monotonic()
            again = (await other.hear(pb.TaskAssignment)).task
            assert 99 <= clock.monotonic() - began <= 103
            assert again.id == task.id
            assert again.attempts == 1, "the attempt was given back"
            for late in (pb.Result(task_id=task.id), pb.Result(delivery=task.delivery)):
                late.status = "COMPLETED"
                hangs.say(result=late)
                assert (await hangs.hear(pb.ResultAck)).error_message == "not-owner"
            other.say(result=pb.Result(task_id=again.id, status="COMPLETED"))
            assert (await other.hear(pb.ResultAck)).ok

    run_virtual(body)


def test_a_living_stream_keeps_its_tasks_for_longer_than_the_stores_lease() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream, lease_seconds=3_600)
            for _ in range(60):
                await asyncio.sleep(it.leases.step())
                reaped = await it.service.store.reap(10, 5)
                assert not reaped.total
            stream.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await stream.hear(pb.ResultAck)).ok
            assert clock.elapsed > 300

    run_virtual(body)


# ── ends and returns ──


def test_the_tasks_of_a_stream_that_ends_go_back_after_ten_seconds() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream, lease_seconds=600)
            stream.session.closed()
            await asyncio.sleep(9.5)
            assert not (await it.service.store.reap(10, 5)).total
            await asyncio.sleep(1)
            assert (await it.service.store.reap(10, 5)).total == 1
            job = await job_of(it.app, task)
            assert (job.state, job.attempts) == (JobState.READY, 0)

    run_virtual(body)


def test_a_client_that_returns_goes_on_with_its_delivery_and_others_go_back() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            for _ in range(2):
                await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            kept, left = await claimed(stream, lease_seconds=60), await claimed(stream)
            stream.session.closed()
            await asyncio.sleep(5)
            returned = await it.greeted()
            returned.say(heartbeat=pb.Heartbeat(task_id=kept.id, delivery=kept.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            for _ in range(15):
                await asyncio.sleep(min(3.0, it.leases.step()))
                await it.service.store.reap(10, 5)
            assert (await job_of(it.app, kept)).state is JobState.RUNNING
            assert (await job_of(it.app, left)).state is JobState.READY
            returned.say(
                result=pb.Result(task_id=kept.id, delivery=kept.delivery, status="COMPLETED")
            )
            assert (await returned.hear(pb.ResultAck)).ok

    run_virtual(body)


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
@pytest.mark.parametrize("order", ["adopted, then closed", "closed, then adopted", "at once"])
def test_an_end_does_not_take_the_only_delivery_of_a_client_that_has_returned(
    tmp_path: Path, url: str, order: str
) -> None:
    async def body() -> None:
        async with desk(f"sqlite:///{tmp_path}/jobs.db" if url == "sqlite" else url) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            returned = await it.greeted()
            if order != "adopted, then closed":
                stream.session.closed()
            if order == "closed, then adopted":
                await it.ends_of_streams()
            returned.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            stream.session.closed()
            await it.ends_of_streams()
            assert (await job_of(it.app, task)).state is JobState.RUNNING
            returned.say(result=pb.Result(delivery=task.delivery, status="COMPLETED"))
            assert (await returned.hear(pb.ResultAck)).ok

    run(body)


def test_what_a_stopped_stream_hands_back_is_its_own() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_jobs([JobSpec("mail"), JobSpec("mail")])
            stream = await it.greeted()
            gone, own = await claimed(stream), await claimed(stream)
            returned = await it.greeted()
            returned.say(heartbeat=pb.Heartbeat(delivery=gone.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            stream.session.stop()
            await it.ends_of_streams()
            states = [(await job_of(it.app, task)).state for task in (gone, own)]
            assert states == [JobState.RUNNING, JobState.READY]
            returned.session.stop()
            await it.ends_of_streams()
            assert (await job_of(it.app, gone)).state is JobState.READY

    run(body)


def test_a_stream_keeps_what_another_could_not_adopt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with desk(host=InlineLeases) as it:
            await it.app.client.add_job("mail", {})
            stream, other = await it.greeted(), await it.greeted()
            task = await claimed(stream)

            async def fail(*arguments: Any) -> Any:
                raise StoreUnavailableError("away", is_temporary=True)

            with monkeypatch.context() as broken:
                broken.setattr(it.service.store, "move", fail)
                other.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
                assert not (await other.hear(pb.HeartbeatAck)).ok
            stream.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await stream.hear(pb.ResultAck)).ok

    run(body)


def test_a_delivery_that_nobody_extends_ends_on_the_new_stream_too() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream, lease_seconds=30)
            returned = await it.greeted()
            returned.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            stream.session.closed()
            await asyncio.sleep(31)
            returned.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).error_message == "not-owner"
            assert (await job_of(it.app, task)).state is JobState.READY

    run_virtual(body)


def test_a_half_closed_stream_answers_and_ends() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            stream.say(ready=pb.Ready(), result=pb.Result(task_id=task.id, status="COMPLETED"))
            stream.session.half_closed()
            assert (await stream.hear(pb.ResultAck)).ok
            assert (await stream.edge.ended())[0] is Status.OK
            await it.app.client.add_job("mail", {})
            await asyncio.sleep(0)
            assert not it.shared.dispatcher._groups

    run(body)


def test_an_idle_stream_ends_at_once_when_the_server_drains() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            stream.say(ready=pb.Ready())
            stream.session.drain()
            error = await stream.hear(pb.WorkerServerError)
            assert error.code == "Unavailable"
            assert (await stream.edge.ended())[0] is Status.UNAVAILABLE

    run(body)


def test_a_draining_stream_takes_results_and_gives_nothing_out() -> None:
    async def body() -> None:
        async with desk() as it:
            for _ in range(2):
                await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            stream.session.drain()
            assert (await stream.hear(pb.WorkerServerError)).code == "Unavailable"
            stream.say(ready=pb.Ready())
            assert (await stream.hear(pb.WorkerServerError)).code == "Unavailable"
            stream.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await stream.hear(pb.ResultAck)).ok
            assert (await stream.edge.ended())[0] is Status.UNAVAILABLE

    run(body)


def test_what_is_unfinished_when_the_grace_is_over_is_handed_back() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail", {})
            stream = await it.greeted()
            task = await claimed(stream)
            stream.session.drain()
            stream.session.stop()
            assert (await stream.edge.ended())[0] is Status.UNAVAILABLE
            while (job := await job_of(it.app, task)).state is JobState.RUNNING:
                await asyncio.sleep(0)
            assert (job.state, job.attempts) == (JobState.READY, 0)

    run(body)


# ── Ready ──


@pytest.mark.parametrize(
    ("allowed", "asked", "tasks"),
    [
        (None, [], None),
        (None, ["b", " a ", "b", ""], ("a", "b")),
        (("a", "b"), [], ("a", "b")),
        (("a", "b"), ["b", "c"], ("b",)),
        (("a", "b"), ["c"], "PermissionDenied"),
        (None, ["", " "], "PermissionDenied"),
        (None, ["windlass.webhook"], "PermissionDenied"),
        (None, ["windlass.webhook", "a"], ("a",)),
        (None, [f"t{number}" for number in range(MOST_COMMANDS + 1)], "InvalidArgument"),
        (("t1",), [f"t{number}" for number in range(MOST_COMMANDS + 1)], ("t1",)),
        (("t1",), [f"t{number}" for number in range(MOST_SAID + 1)], "InvalidArgument"),
    ],
)
def test_commands_are_cut_to_what_the_token_allows(
    allowed: tuple[str, ...] | None, asked: list[str], tasks: Any
) -> None:
    async def body() -> None:
        async with desk() as it:
            token = await it.token("w", "worker", tasks=allowed, tenant="acme")
            stream = await it.greeted(token=token)
            stream.say(ready=pb.Ready(commands=asked))
            if isinstance(tasks, str):
                assert (await stream.hear(pb.WorkerServerError)).code == tasks
                return
            [scope] = it.shared.dispatcher._groups
            assert (scope.tasks, scope.tenants) == (tasks, ("acme",))

    run(body)


def test_a_thousand_readys_may_be_open() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            stream.say_all(*[pb.WorkerEvent(ready=pb.Ready())] * (MOST_OPEN + 1))
            error = await stream.hear(pb.WorkerServerError)
            assert error.code == "ResourceExhausted"
            await it.app.client.add_job("mail", {})
            await stream.hear(pb.TaskAssignment)
            stream.say(ready=pb.Ready())
            await it.app.client.add_job("mail", {})
            await stream.hear(pb.TaskAssignment)

    run(body)


def test_the_readys_of_a_stream_name_64_sets_of_commands_at_most() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            for number in range(MOST_SCOPES):
                stream.say(ready=pb.Ready(commands=[f"t{number}"]))
            stream.say(ready=pb.Ready(commands=["another"]))
            assert (await stream.hear(pb.WorkerServerError)).code == "ResourceExhausted"
            await it.app.client.add_job("t0")
            await stream.hear(pb.TaskAssignment)
            stream.say(ready=pb.Ready(commands=["another"]), result=pb.Result(task_id="x"))
            await stream.hear(pb.ResultAck)
            assert len(it.shared.dispatcher._groups) == MOST_SCOPES

    run(body)


def test_a_ready_is_cut_to_a_thousand() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_jobs([_spec("mail")] * 1_010)
            stream = await it.greeted()
            stream.say(ready=pb.Ready(count=2**31 - 1))
            assert len((await stream.hear(pb.TaskBatch)).tasks) == 1_000

    run(body)


def test_a_batch_stays_below_four_mebibytes_and_the_rest_goes_back_uncharged() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_jobs([_spec("mail", "x" * 200_000)] * 30)
            stream = await it.greeted()
            seen: set[str] = set()
            while len(seen) < 30:
                stream.say(ready=pb.Ready(count=30))
                batch = await stream.hear(pb.TaskBatch)
                assert batch.ByteSize() < 4 * 1024 * 1024
                assert {task.attempts for task in batch.tasks} == {1}
                seen |= {task.id for task in batch.tasks}

    run(body)


def test_nothing_is_claimed_for_a_client_that_does_not_read() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            stream.edge.is_writable = False
            stream.say(ready=pb.Ready())
            calls = _counted(it, "claim")
            job = await it.app.client.add_job("mail", {})
            other = await it.greeted()
            assert (await claimed(other)).id == str(job.id)
            assert all(call.worker != _worker_of(stream) for call in calls)
            stream.edge.is_writable = True
            await it.app.client.add_job("mail", {})
            stream.session.resumed()
            await stream.hear(pb.TaskAssignment)

    run(body)


def test_a_task_shows_the_job() -> None:
    async def body() -> None:
        async with desk() as it:
            client = it.app.client
            await client.add_job(
                "mail", [1, "ü"], priority=-7, max_attempts=3, meta={"webhook": "https://e.com/"}
            )
            stream = await it.greeted("worker one")
            task = await claimed(stream, lease_seconds=90)
            assert (task.command, json.loads(task.payload)) == ("mail", [1, "ü"])
            assert (task.priority, task.max_attempts, task.attempts) == (7, 3, 1)
            assert (task.webhook, task.status) == ("https://e.com/", "IN_PROGRESS")
            assert (task.worker_id, task.tenant_id) == ("worker one", "")
            job = await job_of(it.app, task)
            assert task.created_at.ToMicroseconds() == job.created_at.timestamp() * 1e6
            assert task.lease_until.endswith("Z")

    run(body)


def test_streams_that_want_it_are_told_to_stop() -> None:
    async def body() -> None:
        async with desk() as it:
            for _ in range(2):
                await it.app.client.add_job("mail", {})
            stream = await it.greeted(wants_stop=True)
            first, second = await claimed(stream), await claimed(stream)
            await it.app.client.cancel_jobs([int(first.id)])
            stop = await stream.hear(pb.Stop)
            assert (stop.task_id, stop.reason) == (first.id, "cancelled")
            assert stop.delivery == first.delivery
            await it.app.client.force_unlock_workers([_worker_of(stream)])
            stop = await stream.hear(pb.Stop)
            assert (stop.task_id, stop.reason) == (second.id, "taken_by_another_worker")

    run(body)


def test_a_wrong_event_costs_nothing_but_itself() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.greeted()
            for wrong in (
                pb.WorkerEvent(),
                pb.WorkerEvent(hello=pb.WorkerHello()),
                pb.WorkerEvent(calls=pb.Calls()),
            ):
                stream.say_all(wrong)
                assert (await stream.hear(pb.WorkerServerError)).message
            for task_id in ("", "-1", "1e3", "9" * 30, "٣", "0", "\x00", "99"):
                stream.say(result=pb.Result(task_id=task_id, status="COMPLETED"))
                ack = await stream.hear(pb.ResultAck)
                assert (ack.task_id, ack.ok, ack.error_message) == (task_id, False, "not-found")
            assert stream.edge.end is None

    run(body)


def test_a_stream_for_calls_is_open_to_every_role_and_claims_nothing_for_producers() -> None:
    async def body() -> None:
        async with desk() as it:
            token = await it.token("shop", "producer")
            stream = await it.greeted(token=token, wants_calls=True)
            for event in (
                {"ready": pb.Ready()},
                {"result": pb.Result(task_id="1", status="COMPLETED")},
            ):
                stream.say(**event)
                assert (await stream.hear(pb.WorkerServerError)).code == "PermissionDenied"
            assert not it.shared.dispatcher._groups

    run(body)


def _spec(task: str, payload: Any = None) -> Any:
    from windlass import JobSpec

    return JobSpec(task, payload)


def _worker_of(stream: Stream) -> str:
    name: str = stream.session._stream._holding.worker
    return name


def _counted(it: Desk, verb: str) -> list[Any]:
    """The first argument of each call of a verb of the store, from now on."""
    calls: list[Any] = []
    store: Any = it.app.store
    original = getattr(store, verb)

    async def counted(argument: Any, *more: Any) -> Any:
        calls.append(argument)
        return await original(argument, *more)

    setattr(store, verb, counted)
    return calls


# ── batches that are too long, and long ones ──


def test_a_batch_has_ten_thousand_items_at_most_and_nothing_is_done_about_more() -> None:
    async def body() -> None:
        async with desk() as it:
            await it.app.client.add_job("mail")
            stream = await it.greeted()
            task = await claimed(stream)
            done = pb.Result(task_id=task.id, status="COMPLETED")
            others = [pb.Result(task_id=str(at)) for at in range(MOST_IN_BATCH)]
            stream.say(result_batch=pb.ResultBatch(results=[done, *others]))
            assert stream.edge.is_held, "its items count"
            acks = (await stream.hear(pb.ResultAckBatch)).acks
            assert [ack.task_id for ack in acks] == [task.id, *(one.task_id for one in others)]
            assert {ack.error_message for ack in acks} == {TOO_MANY}
            assert not stream.edge.is_held
            assert (await job_of(it.app, task)).state is JobState.RUNNING

    run(body)


def test_a_long_batch_is_judged_in_turns_with_others() -> None:
    async def body() -> None:
        async with desk() as it:
            one, other = await it.greeted("one"), await it.greeted("other")
            long = [pb.Result(task_id="x") for _ in range(4 * SLICE)]
            one.say(result_batch=pb.ResultBatch(results=long))
            one.say(result=pb.Result(task_id="last"))
            other.say(result=pb.Result(task_id="y"))
            assert (await other.hear(pb.ResultAck)).task_id == "y"
            assert not one.edge.sent
            assert len((await one.hear(pb.ResultAckBatch)).acks) == len(long)
            assert (await one.hear(pb.ResultAck)).task_id == "last"

    run(body)


def test_a_stranger_is_not_told_what_the_database_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with desk() as it:

            async def away(*asked: Any, **more: Any) -> Any:
                raise StoreUnavailableError("db.example does not answer")

            monkeypatch.setattr(it.service.access, "identify", away)
            stream = it.worker()
            stream.say(hello=pb.WorkerHello(token="x"))
            status, why = await stream.edge.ended()
            assert status is Status.UNAVAILABLE
            assert "db.example" not in why

    run(body)
