"""What is kept of a job: output, progress, log; and waiting for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Context, JobNotFoundError, JobNotKeptError, JobState, WaitTimeoutError
from windlass.errors import ValidationError


@pytest.mark.parametrize(
    ("app_says", "task_says", "job_says", "kept"),
    [
        (None, None, None, None),
        (10, None, None, 10),
        (10, 20, None, 20),
        (10, 20, 30, 30),
        (10, 20, 0, None),
        (None, 0, None, None),
        (None, None, 5, 5),
    ],
)
@virtual
async def test_keep_of_job_over_task_over_app(
    bench: Bench, app_says: Any, task_says: Any, job_says: Any, kept: float | None
) -> None:
    app = bench.new_app(keep=app_says)

    @app.task(keep=task_says)
    async def t() -> str:
        return "out"

    job = await t.using(keep=job_says).aenqueue()
    await bench.start(app)
    await bench.idle()
    assert await bench.gone(job) is (kept is None)
    if kept is not None:
        done = await bench.get(job)
        assert (done.output, done.keep) == ("out", kept)
        await asyncio.sleep(kept + 31)
        assert await bench.gone(job), "the pruner comes every 30 s"


@virtual
async def test_wait_for_returns_when_the_job_is_done(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> dict[str, int]:
        await asyncio.sleep(5)
        return {"answer": 42}

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id, timeout=10)
    assert done.output == {"answer": 42}
    assert 5 <= bench.clock.elapsed <= 5.25


@virtual
async def test_wait_for_an_unkept_job_raises_at_once(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    job = await t.aenqueue()
    with pytest.raises(JobNotKeptError, match="set keep="):
        await bench.app.client.wait_for(job.id)
    assert bench.clock.elapsed == 0


@virtual
async def test_wait_for_gives_up_at_its_timeout(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t() -> None: ...

    job = await t.aenqueue()
    with pytest.raises(WaitTimeoutError, match="still ready after 3 s"):
        await bench.app.client.wait_for(job.id, timeout=3)
    assert bench.clock.elapsed == 3
    with pytest.raises(JobNotFoundError):
        await bench.app.client.wait_for(12345)


@virtual
async def test_wait_for_a_failed_job_returns_it(bench: Bench) -> None:
    @bench.app.task(max_attempts=1, keep=1)
    async def t() -> None:
        raise ValueError("no")

    job = await t.aenqueue()
    await bench.start()
    assert (await bench.app.client.wait_for(job.id)).state is JobState.FAILED


@virtual
async def test_progress_and_log_are_seen_while_the_job_runs(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t(ctx: Context) -> None:
        ctx.progress(0.25, "reading")
        ctx.log("line one")
        await asyncio.sleep(5)
        ctx.progress(0.5)
        ctx.progress(0.75, "writing")
        ctx.log({"line": 2})
        await asyncio.sleep(5)
        ctx.progress(1)

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(1)
    now = await bench.get(job)
    assert now.progress is not None
    assert (now.progress.fraction, now.progress.note, now.log) == (0.25, "reading", ("line one",))
    await asyncio.sleep(5)
    now = await bench.get(job)
    assert now.progress is not None
    assert (now.progress.fraction, now.progress.note) == (0.75, "writing")
    assert now.log == ("line one", {"line": 2})
    done = await bench.app.client.wait_for(job.id)
    assert done.progress is not None
    assert done.progress.fraction == 1.0


@virtual
async def test_what_is_said_just_before_the_end_is_stored_before_the_outcome(bench: Bench) -> None:
    @bench.app.task(keep=60)
    def t(ctx: Context) -> None:
        for number in range(5):
            ctx.log(number)

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert done.log == (0, 1, 2, 3, 4)


@virtual
async def test_only_the_last_200_entries_stay(bench: Bench) -> None:
    @bench.app.task(keep=60)
    async def t(ctx: Context) -> None:
        for number in range(250):
            ctx.log(number)

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert done.log == tuple(range(50, 250))


@virtual
async def test_a_note_that_cannot_be_stored_is_dropped(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task(keep=60)
    async def t(ctx: Context) -> str:
        ctx.log("lost")
        return "done"

    bench.store.fail_next("note")
    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert (done.output, done.log) == ("done", ())
    assert f"a note of job {job.id} was not stored" in caplog.text


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
@virtual
async def test_a_fraction_out_of_range_is_refused(bench: Bench, fraction: float) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        with pytest.raises(ValidationError, match="between 0 and 1"):
            ctx.progress(fraction)
        bench.seen.append("refused")

    await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert bench.seen == ["refused"]
