"""The end of a worker: nothing is left running, nothing is charged."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.patience import PATIENCE
from windlass import AbortReason, App, Context, Events, JobState
from windlass.engine.signals import Signals


@virtual
async def test_stop_lets_running_jobs_finish_within_the_grace(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> str:
        await asyncio.sleep(10)
        return "finished"

    job = await t.aenqueue()
    runner = await bench.start(grace=25)
    await asyncio.sleep(1)
    await runner.stop()
    assert bench.clock.elapsed == 10
    assert (await bench.get(job)).output == "finished"
    assert await bench.ledger.workers() == []


@virtual
async def test_stop_hands_back_what_has_not_started(bench: Bench) -> None:
    @bench.app.task
    async def t(seconds: float) -> None:
        await asyncio.sleep(seconds)

    await t.aenqueue_many([{"seconds": 0.001}] * 30)
    await t.aenqueue_many([{"seconds": 5}] * 20)
    runner = await bench.start(concurrency=1)
    await asyncio.sleep(1)
    assert (await bench.ledger.counts())[JobState.RUNNING] == 20
    stopping = asyncio.create_task(runner.stop())
    await asyncio.sleep(0.01)
    counts = await bench.ledger.counts()
    assert (counts[JobState.RUNNING], counts[JobState.READY]) == (1, 19)
    await stopping
    jobs = await bench.app.client.list_jobs()
    assert {(job.state, job.attempts) for job in jobs} == {(JobState.READY, 0)}
    assert len(jobs) == 19


@virtual
async def test_after_the_grace_handlers_are_stopped_and_not_charged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            bench.seen.append((ctx.abort.reason, bench.clock.elapsed))

    job = await t.aenqueue()
    runner = await bench.start(grace=25)
    await asyncio.sleep(1)
    await runner.stop()
    assert bench.seen == [(AbortReason.SHUTDOWN, 26.0)]
    found = await bench.get(job)
    assert (found.state, found.attempts, found.locked_by) == (JobState.READY, 0, None)
    assert "told 1 running jobs to stop" in caplog.text


@virtual
async def test_hurry_ends_the_waiting(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1000)

    job = await t.aenqueue()
    runner = await bench.start(grace=500)
    await asyncio.sleep(1)
    stopping = asyncio.create_task(runner.stop())
    await asyncio.sleep(10)
    runner.hurry()
    await stopping
    assert bench.clock.elapsed == 11
    assert (await bench.get(job)).state is JobState.READY


@virtual
async def test_a_handler_that_will_not_stop_is_left_behind(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        while len(bench.seen) < 3:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                bench.seen.append(bench.clock.elapsed)
                if len(bench.seen) > 1:
                    raise

    job = await t.aenqueue()
    runner = await bench.start(grace=5)
    await asyncio.sleep(1)
    await runner.stop()
    assert bench.seen == [6.0, 8.0]
    found = await bench.get(job)
    assert (found.state, found.attempts) == (JobState.READY, 0)


@virtual
async def test_stop_returns_although_a_coroutine_swallows_every_cancel(bench: Bench) -> None:
    enough = False

    @bench.app.task
    async def stubborn() -> None:
        bench.seen.append("started")
        while not enough:
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                bench.seen.append("swallowed")

    await stubborn.aenqueue()
    runner = await bench.start(grace=0.5)
    await wait_until(lambda: bool(bench.seen))
    try:
        await asyncio.wait_for(runner.stop(), 30)
    finally:
        enough = True
    assert "swallowed" in bench.seen


@virtual
async def test_stop_twice_is_one_stop(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    runner = await bench.start()
    await asyncio.gather(runner.stop(), runner.stop(), runner.wait())
    await runner.stop()
    await asyncio.gather(runner.worker.stop(), runner.worker.stop())


@virtual
async def test_the_end_without_a_database_takes_no_longer_than_a_lease(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(5)

    await t.aenqueue()
    runner = await bench.start(lease=30)
    await asyncio.sleep(1)
    bench.store.is_down = True
    await runner.stop()
    assert bench.clock.elapsed <= 40
    assert "some outcomes could not be written; those jobs will run again" in caplog.text
    assert "could not sign off" in caplog.text
    bench.store.is_down = False


@virtual
async def test_a_job_added_while_stopping_is_not_taken(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(1)
        await asyncio.sleep(5)

    await t.aenqueue()
    runner = await bench.start()
    await asyncio.sleep(1)
    stopping = asyncio.create_task(runner.stop())
    await asyncio.sleep(1)
    job = await t.aenqueue()
    await stopping
    assert bench.seen == [1]
    assert (await bench.get(job)).state is JobState.READY


@virtual
async def test_what_ended_the_worker_is_raised_by_wait(bench: Bench) -> None:
    from contextlib import asynccontextmanager

    events = Events()
    events.on("pool:gracefulShutdown:error", lambda error, **_: bench.seen.append(str(error)))

    @asynccontextmanager
    async def lifespan() -> Any:
        yield None
        raise RuntimeError("cannot close the pool")

    app = bench.new_app(lifespan=lifespan, events=events)

    @app.task
    async def t() -> None: ...

    runner = await bench.start(app)
    with pytest.raises(RuntimeError, match="cannot close the pool"):
        await runner.stop()
    assert bench.seen == ["cannot close the pool"]
    bench._runners.clear()


@virtual
async def test_a_cancelled_run_once_leaves_no_worker_behind(bench: Bench) -> None:
    @bench.app.task
    async def long() -> None:
        await asyncio.sleep(1_000)

    @bench.app.task
    async def later() -> None:
        bench.seen.append("ran")

    await long.aenqueue()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bench.app.run_once(grace=1), 5)
    await asyncio.sleep(5)
    job = await later.aenqueue()
    await asyncio.sleep(60)
    assert (await bench.get(job)).state is JobState.READY
    assert bench.seen == []


def test_signals_drain_and_then_hurry() -> None:
    """Real signals to this process; the first drains, the second hurries."""

    async def body() -> None:
        said: list[Any] = []
        events = Events()
        events.on("gracefulShutdown", lambda signal: said.append(signal))
        app = App("memory://", events=events, grace=60)
        started = asyncio.Event()

        @app.task
        async def t() -> None:
            started.set()
            await asyncio.sleep(1000)

        job = await t.aenqueue()
        runner = await app.run()
        await started.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        while not said:
            await asyncio.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)
        await runner.wait()
        found = await app.client.get_job(job.id)
        assert found is not None
        assert (found.state, found.attempts) == (JobState.READY, 0)
        assert said == ["SIGTERM"]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        await app.close()

    asyncio.run(body())


def test_one_sigterm_stops_both_runners_of_a_loop() -> None:
    text = """
        import asyncio, json, os, signal
        from windlass import App

        app = App("memory://")

        @app.task
        async def a() -> None: ...

        @app.task
        async def b() -> None: ...

        async def main():
            runners = [await app.run(only=["a"]), await app.run(only=["b"])]
            waits = [asyncio.create_task(runner.wait()) for runner in runners]
            os.kill(os.getpid(), signal.SIGTERM)
            done, _ = await asyncio.wait(waits)
            print(json.dumps(len(done)), flush=True)
            os._exit(0)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == 2


def test_signals_outside_the_main_thread_are_left_alone() -> None:
    async def body() -> bool:
        signals = Signals(lambda name: None, lambda: None)
        installed = signals.install()
        signals.remove()
        return installed

    async def main() -> None:
        assert await asyncio.to_thread(asyncio.run, body()) is False

    asyncio.run(main())


@virtual
async def test_a_loop_that_ends_without_a_drain_leaves_no_slot_behind(bench: Bench) -> None:
    """As when the program's main coroutine just returns: every task is cancelled."""

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1000)

    await t.aenqueue()
    runner = await bench.start(concurrency=2)
    await asyncio.sleep(1)
    slots = runner.worker._slots
    rest = [task for task in asyncio.all_tasks() if task.get_name().startswith("windlass-")]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    assert all(task.done() for task in slots._tasks)
    bench._runners.clear()
