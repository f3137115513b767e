"""executor="process": real processes, in real time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.engine import process_tasks
from windlass import App, Job, JobState, Retry
from windlass.engine import processes, wire
from windlass.errors import TaskError


class Given:
    """A policy that remembers what it was asked about."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __call__(self, attempt: int, error: BaseException) -> float:
        self.errors.append(error)
        return 3600.0


def run(body: Callable[[App, Given], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        given = Given()
        app = App("memory://", keep=600, grace=0.0, retry=Retry(given), **options)
        for name in ("work", "coroutine", "items"):
            app.task(executor="process", name=name)(getattr(process_tasks, name))
        app.task(executor="process", name="hangs", timeout=0.2)(process_tasks.work)
        runner = await app.run(handle_signals=False, concurrency=2)
        try:
            await body(app, given)
        finally:
            await runner.stop()
            await app.close()

    asyncio.run(main())


async def settled(app: App, job: Job) -> Job:
    while True:
        found = await app.client.get_job(job.id)
        assert found is not None
        if found.state not in (JobState.READY, JobState.RUNNING):
            return found
        await asyncio.sleep(0.01)


def test_every_outcome_comes_back_from_the_child() -> None:
    async def body(app: App, given: Given) -> None:
        async def say(kind: str) -> Job:
            return await settled(app, await app.client.add_job("work", {"kind": kind}))

        value = await say("value")
        assert value.output["pid"] != os.getpid()
        assert value.output["attempts"] == 1
        assert (await say("value")).output["pid"] == value.output["pid"], "processes are reused"
        assert (await say("completed")).output == [1, 2]
        failed = await say("failed")
        assert (failed.state, failed.last_error) == (JobState.SCHEDULED, "as told")
        assert (await say("nack")).last_error == "later"
        assert (await say("abandon")).output == "second time"
        assert (await say("poison")).state is JobState.FAILED
        assert "after" in ((await say("retry after")).last_error or "")
        at = await say("retry at")
        assert at.run_at.year == 2099
        assert (await say("not json")).output is None
        given.errors.clear()
        own = await say("own")
        [error] = given.errors
        assert isinstance(error, process_tasks.Own), "policies see the class"
        assert str(error) == "mine"
        assert "raise Own" in (own.last_error or ""), "the child's traceback"
        assert (await say("system exit")).state is JobState.SCHEDULED

    run(body)


def test_a_process_that_dies_fails_the_attempt() -> None:
    async def body(app: App, given: Given) -> None:
        for kind, said in (("exit", "exited with 7"), ("killed", "was killed by signal 9")):
            job = await settled(app, await app.client.add_job("work", {"kind": kind}))
            assert said in (job.last_error or "")
            assert job.attempts == 1
        assert [type(error).__name__ for error in given.errors] == ["ProcessDied"] * 2
        job = await settled(app, await app.client.add_job("coroutine", {"number": 21}))
        assert job.output == 42

    run(body)


def test_timeout_and_cancel_kill_the_process() -> None:
    async def body(app: App, given: Given) -> None:
        job = await settled(app, await app.client.add_job("hangs", {"kind": "hangs"}))
        assert (job.last_error or "").startswith("TimeoutError: ran longer")
        job = await app.client.add_job("work", {"kind": "hangs"})
        while (await app.client.get_job(job.id)).state is not JobState.RUNNING:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        await app.client.cancel_jobs([job.id])
        assert (await settled(app, job)).state is JobState.CANCELLED

    run(body, lease=1.0)


def test_shutdown_kills_what_runs_and_hands_it_back() -> None:
    async def main() -> None:
        app = App("memory://", grace=0.0)
        app.task(executor="process", name="work")(process_tasks.work)
        job = await app.client.add_job("work", {"kind": "hangs"})
        runner = await app.run(handle_signals=False)
        while runner.worker._slots.running == 0:
            await asyncio.sleep(0.01)
        await runner.stop()
        found = await app.client.get_job(job.id)
        assert found is not None
        assert (found.state, found.attempts) == (JobState.READY, 0)
        assert not runner._handler._process_pool()._all
        await app.close()

    asyncio.run(main())


def test_the_child_says_things_and_adds_jobs() -> None:
    async def body(app: App, given: Given) -> None:
        job = await settled(app, await app.client.add_job("work", {"kind": "says"}))
        assert job.output == ["other", 4, "WindlassError", "queue must not be empty"]
        assert job.progress is not None
        assert (job.progress.fraction, job.progress.note) == (0.5, "half")
        assert job.log == ("from the child",)
        [other] = await app.client.list_jobs(task="other")
        assert other.payload == {"n": 1}
        job = await settled(app, await app.client.add_job("work", {"kind": "no database"}))
        assert len(job.output) == 3
        assert all("is not there with executor='process'" in text for text in job.output)

    run(body)


def test_what_a_child_adds_belongs_to_its_jobs_tenant() -> None:
    """Also what it adds by a client of its own; and the next job in that process has its own."""

    async def body(app: App, given: Given) -> None:
        processes = set()
        for tenant in ("acme", "", "bond"):
            client = app.client.for_tenant(tenant)
            job = await settled(app, await client.add_job("work", {"kind": "tenants"}))
            *tenants, process = job.output
            assert tenants == [tenant or None] * 3
            processes.add(process)
            [other] = await client.list_jobs(task="other")
            assert other.tenant == (tenant or None)
        assert len(processes) == 1, "processes are reused"

    run(body)


def test_partial_success_of_an_array_payload() -> None:
    async def body(app: App, given: Given) -> None:
        job = await settled(app, await app.client.add_job("items", [0, 1, 2, 3, 6, 7]))
        assert job.payload == [0, 1, 6], "the failed items stay"
        assert "3 of 6 items failed" in (job.last_error or "")
        job = await settled(app, await app.client.add_job("items", [2, 3]))
        assert job.output == [2, 3]

    run(body)


def test_a_local_function_is_refused_at_once() -> None:
    app = App("memory://")

    def local() -> None: ...

    with pytest.raises(TaskError, match="where a process cannot find it"):
        app.task(executor="process")(local)


def test_an_unknown_class_becomes_a_runtime_error() -> None:
    raised = wire.Raised("nowhere", "Gone", "text", "Gone: text\n\ntrace")
    error = processes._rebuilt(raised)
    assert type(error) is RuntimeError
    from windlass.model.outcome import describe

    assert describe(error) == "Gone: text\n\ntrace"
    main = wire.Raised("__mp_main__", "Nope", "text", "x")
    assert isinstance(processes._rebuilt(main), RuntimeError)


def test_an_answer_that_is_nonsense() -> None:
    with pytest.raises(processes.ProcessDied, match="nonsense"):
        processes._result(wire.Said())


def test_a_discarded_child_gives_its_descriptors_back() -> None:
    child = processes._Child()
    sentinel = child.process.sentinel
    os.fstat(sentinel)
    child.discard()
    child.discard()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(sentinel)
    assert child.exit_code == -signal.SIGKILL
    assert not child.is_alive
