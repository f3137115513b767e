"""What a handler says, and what becomes of its job: every row of the table, and the limits."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual
from windlass import Abandon, Completed, Context, Failed, JobState, Nack, Poison, RetryAfter
from windlass.clock import to_datetime
from windlass.errors import RetryAt
from windlass.model.retry import Retry
from windlass.store.records import Complete


@pytest.mark.parametrize("answer", ["hello", Completed("hello")], ids=["value", "Completed"])
@virtual
async def test_returning_completes_the_job_with_an_output(bench: Bench, answer: Any) -> None:
    @bench.app.task(keep=60)
    async def t() -> Any:
        return answer

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert (done.state, done.output, done.attempts) == (JobState.COMPLETED, "hello", 1)


@virtual
async def test_a_completed_job_is_deleted_by_default(bench: Bench) -> None:
    @bench.app.task
    async def t() -> int:
        return 7

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert await bench.gone(job)
    assert [outcome for _, outcome, _ in bench.ledger.settled] == [Complete()]


@pytest.mark.parametrize("kind", ["raises", "Failed"])
@virtual
async def test_failing_uses_the_attempt_and_retries_by_policy(bench: Bench, kind: str) -> None:
    @bench.app.task(retry=Retry.fixed(5))
    async def t() -> Any:
        bench.seen.append(bench.clock.elapsed)
        if len(bench.seen) < 3:
            if kind == "raises":
                raise ValueError("not yet")
            return Failed("not yet")
        return None

    job = await t.aenqueue()
    await bench.start(poll_interval=60)
    await asyncio.sleep(1)
    waiting = await bench.get(job)
    assert (waiting.state, waiting.attempts) == (JobState.SCHEDULED, 1)
    first_line = (waiting.last_error or "").split("\n")[0]
    assert first_line == ("ValueError: not yet" if kind == "raises" else "not yet")
    await asyncio.sleep(20)
    assert bench.seen == [0.0, 5.0, 10.0]
    assert await bench.gone(job)


@virtual
async def test_the_default_policy_waits_e_to_the_attempt(bench: Bench) -> None:
    @bench.app.task(max_attempts=4)
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)
        raise ValueError

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(100)
    delays = [later - sooner for sooner, later in zip(bench.seen, bench.seen[1:], strict=False)]
    assert delays == pytest.approx([math.exp(1), math.exp(2), math.exp(3)], abs=1e-5)
    assert (await bench.get(job)).state is JobState.FAILED


@virtual
async def test_at_the_limit_the_job_fails_for_good(bench: Bench) -> None:
    @bench.app.task(retry=Retry.fixed(1), max_attempts=2)
    async def t() -> None:
        raise ValueError("never")

    job = await t.aenqueue()
    await bench.start()
    await asyncio.sleep(10)
    failed = await bench.get(job)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 2)
    assert "ValueError: never" in (failed.last_error or "")
    assert "Traceback" in (failed.last_error or "")


@pytest.mark.parametrize(
    ("app_says", "task_says", "job_says", "expected"),
    [(2, None, None, 2), (2, 3, None, 3), (2, 3, 1, 1), (None, None, None, 25)],
)
@virtual
async def test_max_attempts_of_job_over_task_over_app(
    bench: Bench, app_says: Any, task_says: Any, job_says: Any, expected: int
) -> None:
    app = bench.new_app(max_attempts=app_says, retry=Retry.fixed(1))

    @app.task(max_attempts=task_says)
    async def t() -> None:
        bench.seen.append(1)
        raise ValueError

    await t.using(max_attempts=job_says).aenqueue()
    await bench.start(app)
    await asyncio.sleep(60)
    assert len(bench.seen) == expected


async def _nack(bench: Bench) -> Any:
    return Nack(7, "busy elsewhere")


async def _nack_delta(bench: Bench) -> Any:
    return Nack(timedelta(seconds=7), "busy elsewhere")


async def _retry_after(bench: Bench) -> Any:
    raise RetryAfter(7, "busy elsewhere")


async def _retry_at(bench: Bench) -> Any:
    raise RetryAt(to_datetime(bench.clock.now() + 7_000_000), "busy elsewhere")


@pytest.mark.parametrize("answer", [_nack, _nack_delta, _retry_after, _retry_at])
@virtual
async def test_an_exact_delay_is_kept_to_the_second(bench: Bench, answer: Any) -> None:
    @bench.app.task(retry=Retry.fixed(100))
    async def t() -> Any:
        bench.seen.append(bench.clock.elapsed)
        return await answer(bench) if len(bench.seen) == 1 else None

    job = await t.aenqueue()
    await bench.start(poll_interval=300)
    await asyncio.sleep(1)
    waiting = await bench.get(job)
    assert waiting.attempts == 1
    assert "busy elsewhere" in (waiting.last_error or "")
    await asyncio.sleep(9)
    assert bench.seen == [0.0, 7.0]


@pytest.mark.parametrize("seconds", [0, -5, math.nan])
@virtual
async def test_no_delay_or_the_past_means_now(bench: Bench, seconds: float) -> None:
    @bench.app.task
    async def t() -> Any:
        bench.seen.append(bench.clock.elapsed)
        if len(bench.seen) == 1:
            raise RetryAfter(seconds)
        if len(bench.seen) == 2:
            return Nack()
        if len(bench.seen) == 3:
            raise RetryAt(to_datetime(0))
        return None

    await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert bench.seen == [0.0] * 4


@virtual
async def test_a_delay_without_end_is_cut_to_what_a_store_can_count(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        raise RetryAfter(math.inf)

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert (await bench.get(job)).run_at.year > 9000


@virtual
async def test_a_nack_at_the_limit_fails(bench: Bench) -> None:
    @bench.app.task(max_attempts=2)
    async def t() -> Any:
        return Nack(0)

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    failed = await bench.get(job)
    assert failed.state is JobState.FAILED
    assert failed.last_error == "not now; again after 0 s"


@virtual
async def test_abandon_gives_the_attempt_back(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> Any:
        bench.seen.append((ctx.job.attempts, ctx.job.deliveries))
        return Abandon() if len(bench.seen) < 3 else None

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert bench.seen == [(1, 1), (1, 2), (1, 3)]
    assert await bench.gone(job)


@virtual
async def test_poison_fails_now(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        raise Poison("cannot ever work")

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    failed = await bench.get(job)
    assert (failed.state, failed.attempts) == (JobState.FAILED, 1)
    assert (failed.last_error or "").startswith("Poison: cannot ever work")


@virtual
async def test_a_payload_that_no_longer_fits_fails_now(bench: Bench) -> None:
    @bench.app.task
    async def t(user_id: int) -> None:
        bench.seen.append(user_id)

    job = await bench.add("t", {"user_id": "seven"})
    await bench.start()
    await bench.idle()
    failed = await bench.get(job)
    assert (failed.state, failed.attempts, bench.seen) == (JobState.FAILED, 1, [])
    assert "payload does not fit task 't'" in (failed.last_error or "")


@virtual
async def test_retry_on_and_give_up_on_choose_by_exception(bench: Bench) -> None:
    @bench.app.task(retry=Retry.fixed(1, retry_on=ConnectionError))
    async def only(kind: str) -> None:
        raise ConnectionError if kind == "retry" else ValueError

    @bench.app.task(retry=Retry.fixed(1, give_up_on=(KeyError,)))
    async def but(kind: str) -> None:
        raise ValueError if kind == "retry" else KeyError

    again = [await only.aenqueue(kind="retry"), await but.aenqueue(kind="retry")]
    ended = [await only.aenqueue(kind="fail"), await but.aenqueue(kind="fail")]
    await bench.start()
    await bench.idle()
    assert [(await bench.get(job)).state for job in again] == [JobState.SCHEDULED] * 2
    assert [(await bench.get(job)).state for job in ended] == [JobState.FAILED] * 2


@virtual
async def test_a_broken_policy_does_not_lose_the_job(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def policy(attempt: int, error: BaseException) -> float:
        raise RuntimeError("bad policy")

    @bench.app.task(retry=Retry(policy))
    async def t() -> None:
        raise ValueError

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    waiting = await bench.get(job)
    assert waiting.state is JobState.SCHEDULED
    delay = (waiting.run_at - waiting.created_at).total_seconds()
    assert delay == pytest.approx(math.e, abs=1e-5)
    assert "the retry policy failed, using the default" in caplog.text


@virtual
async def test_an_error_text_is_made_storable(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def returned() -> Any:
        return Failed("x\x00\ud800" + "y" * 100_000)

    @bench.app.task(max_attempts=1)
    async def nacked() -> Any:
        return Nack(0, "x\x00\ud800" + "y" * 100_000)

    jobs = [await returned.aenqueue(), await nacked.aenqueue()]
    await bench.start()
    await bench.idle()
    for job in jobs:
        text = (await bench.get(job)).last_error or ""
        assert text.startswith("x\\x00\\ud800yyy")
        assert len(text.encode()) <= 16 * 1024


@virtual
async def test_an_output_that_is_not_json_costs_the_output_alone(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @bench.app.task(keep=60)
    async def t() -> object:
        return object()

    job = await t.aenqueue()
    await bench.start()
    done = await bench.app.client.wait_for(job.id)
    assert (done.state, done.output) == (JobState.COMPLETED, None)
    assert "its output cannot be kept" in caplog.text


@virtual
async def test_the_attempts_a_handler_sees_are_already_counted(bench: Bench) -> None:
    @bench.app.task(retry=Retry.fixed(1))
    async def t(ctx: Context) -> None:
        bench.seen.append((ctx.job.attempts, ctx.job.locked_by == ctx.worker_id))
        if ctx.job.attempts < 3:
            raise ValueError

    await t.aenqueue()
    await bench.start()
    await asyncio.sleep(10)
    assert bench.seen == [(1, True), (2, True), (3, True)]


@virtual
async def test_jobs_start_in_the_total_order(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)

    await t.using(priority=5).aenqueue(name="late")
    await t.aenqueue(name="first")
    await t.aenqueue(name="second")
    await t.using(priority=-1).aenqueue(name="urgent")
    await bench.start(concurrency=1)
    await bench.idle()
    assert bench.seen == ["urgent", "first", "second", "late"]
