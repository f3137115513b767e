"""What is known of one delivery is never applied to another of the same job, and a job is not
settled while anything of its delivery still runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, Ledger, virtual, wait_until
from windlass import AbortReason, Context, JobState
from windlass.engine.delivery import Delivery
from windlass.engine.keeper import Keeper
from windlass.engine.outage import Outage
from windlass.engine.settler import Settler, SettlerLinks
from windlass.errors import OutcomeUnknownError
from windlass.model.retry import Retry
from windlass.observe.logs import scoped
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Fail,
    LostReason,
    NewJob,
    Outcome,
    Renewal,
    Settled,
    Verdict,
)
from windlass.stores.memory import MemoryStore

# ── answers that come late ──


class _InFlight:
    """A lifeline whose answers are on their way while `meanwhile` happens."""

    def __init__(self, answer: Renewal, meanwhile: Callable[[], None]) -> None:
        self._answer = answer
        self._meanwhile = meanwhile

    def renew(self, *asked: Any) -> Renewal:
        return self.check()

    def check(self, *asked: Any) -> Renewal:
        self._meanwhile()
        return self._answer

    def close(self) -> None: ...


async def _two_deliveries(store: MemoryStore) -> tuple[Delivery, Delivery]:
    """Of one job, by one worker: the first was handed back, and the job claimed again."""
    await store.enqueue([NewJob("t")])
    loop = asyncio.get_running_loop()
    [first] = await store.claim(ClaimRequest("w", ("t",), 1))
    await store.settle([(first, RELEASE)])
    [second] = await store.claim(ClaimRequest("w", ("t",), 1))
    assert (first.job_id, second.deliveries) == (second.job_id, 2)
    return Delivery(first, loop, 0.0), Delivery(second, loop, 0.0)


@pytest.mark.parametrize("renews", [True, False], ids=["renewal", "check"])
@pytest.mark.parametrize(
    "answer",
    [
        Renewal(lost={1: LostReason.TAKEN_BY_ANOTHER_WORKER}),
        Renewal(lost={1: LostReason.NOT_FOUND}),
        Renewal(cancel=frozenset({1})),
    ],
    ids=["taken", "not found", "cancel"],
)
@virtual
async def test_an_answer_is_about_the_delivery_that_was_asked_about(
    bench: Bench, answer: Renewal, renews: bool
) -> None:
    first, second = await _two_deliveries(bench.ledger)
    held = {1: first}
    lifeline = _InFlight(answer, lambda: held.update({1: second}))
    logger = scoped(None, "test")
    keeper = Keeper(
        "w", 30.0, lifeline, held, clock=bench.clock, outage=Outage(logger), logger=logger
    )
    if not renews:
        keeper._renew_at = bench.clock.monotonic() + 10
    keeper.step()
    assert first.stopped is not None
    assert second.stopped is None, "nobody asked about this delivery"
    keeper.step()
    assert second.stopped is not None, "now somebody did"


@virtual
async def test_a_job_handed_back_and_claimed_again_is_not_stopped_by_the_old_answer(
    bench: Bench,
) -> None:
    """The whole engine: the answer to a check arrives after the job's next delivery has begun."""
    starts: list[int] = []

    @bench.app.task
    async def t(ctx: Context) -> None:
        starts.append(ctx.job.deliveries)
        if ctx.job.deliveries == 1:
            await asyncio.sleep(5)
            raise asyncio.CancelledError
        await asyncio.sleep(20)
        bench.seen.append(ctx.abort.reason)

    store = bench.ledger
    runner = await bench.start()
    job = await t.aenqueue()
    await wait_until(lambda: bool(starts))
    keeper = runner.worker._keeper
    [first] = list(runner.worker._in_hand.values())
    lost = Renewal(lost={job.id: LostReason.TAKEN_BY_ANOTHER_WORKER})
    first.outcome = RELEASE
    await store.settle([(first.lease, RELEASE)])
    runner.worker._claiming.wake()
    await wait_until(lambda: starts == [1, 2])
    keeper._obey(lost, [first])
    await bench.idle()
    assert bench.seen == [None], "the second delivery ran to its end"
    assert starts == [1, 2]


# ── an outcome whose write was not answered ──


class _Unsure(Ledger):
    """The first settlement is written, and its answer lost; then `meanwhile` happens."""

    async def settle(self, settlements: Any) -> list[Settled]:
        answers = await super().settle(settlements)
        if len(self.batches) == 1:
            await self.meanwhile()
            raise OutcomeUnknownError("the answer was lost")
        return answers

    async def meanwhile(self) -> None:
        """The job goes on in another worker."""
        for lease in await self.claim(ClaimRequest("other", ("t",), 1)):
            await super().settle([(lease, COMPLETE)])


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (COMPLETE, JobState.COMPLETED),
        (Fail("again", delay=0.0), JobState.SCHEDULED),
        (Fail("never again", final=True), JobState.FAILED),
        (RELEASE, JobState.READY),
        (CANCEL, JobState.CANCELLED),
    ],
)
@virtual
async def test_an_unanswered_outcome_is_told_as_this_delivery_s_own(
    bench: Bench, outcome: Outcome, expected: JobState
) -> None:
    store = _Unsure(bench.clock)
    await store.enqueue([NewJob("t")])
    [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
    delivery = Delivery(lease, asyncio.get_running_loop(), 0.0, is_over=True)
    [answer] = await _settled(store, delivery, outcome)
    assert answer == Settled(Verdict.APPLIED, expected)


@virtual
async def test_a_completion_that_was_not_written_is_not_told_as_done(bench: Bench) -> None:
    class Unwritten(_Unsure):
        async def settle(self, settlements: Any) -> list[Settled]:
            if self.held:
                self.held.clear()
                await self.unlock(["w"], 5)
                await self.claim(ClaimRequest("other", ("t",), 1, suspects=1))
                raise OutcomeUnknownError("it never arrived")
            return await MemoryStore.settle(self, settlements)

    store = Unwritten(bench.clock)
    store.held = {1}
    await store.enqueue([NewJob("t")])
    [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
    delivery = Delivery(lease, asyncio.get_running_loop(), 0.0, is_over=True)
    [answer] = await _settled(store, delivery, COMPLETE)
    assert answer.verdict is Verdict.LOST


async def _settled(store: Any, delivery: Delivery, outcome: Outcome) -> list[Settled]:
    told: list[Settled] = []
    logger = scoped(None, "test")

    async def before(batch: Sequence[Delivery]) -> None: ...

    async def after(batch: Sequence[Delivery], settled: Sequence[Settled]) -> None:
        told.extend(settled)

    settler = Settler(
        store,
        Outage(logger),
        logger,
        SettlerLinks(
            buffered=lambda: 0,
            before=before,
            refused=lambda delivery, reason: Fail(reason),
            tried=lambda batch: None,
            after=after,
        ),
    )
    settler.add(delivery, outcome)
    await settler.flush()
    return told


# ── threads go on ──


class Thread:
    """A plain function that ignores whatever it is told, until `release`."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._release = threading.Event()
        self.running = 0
        self.most = 0
        self.began = 0

    def __call__(self, ctx: Any = None) -> None:
        self.began += 1
        self.running += 1
        self.most = max(self.most, self.running)
        with self._bench.clock.waiting():
            self._release.wait(20)
        self.running -= 1

    def release(self) -> None:
        self._release.set()


@pytest.mark.parametrize("how", ["timeout", "cancel", "late answer", "middleware"])
@virtual
async def test_a_job_is_settled_when_its_thread_has_ended(
    bench: Bench, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    thread = Thread(bench)

    async def impatient(ctx: Context, call_next: Any) -> Any:
        async with asyncio.timeout(5 if how == "middleware" else None):
            return await call_next(ctx)

    app = bench.new_app(middleware=[impatient])

    @app.task(timeout=5 if how == "timeout" else None, retry=Retry.fixed(1), queue="q")
    def stubborn(ctx: Context) -> None:
        thread(ctx)
        bench.seen.append(ctx.abort.reason)

    @app.task(queue="q")
    async def follows() -> None:
        bench.seen.append("the next of its queue")

    job = await stubborn.aenqueue()
    await follows.aenqueue()
    runner = await bench.start(app)
    await asyncio.sleep(1)
    if how == "cancel":
        await app.client.cancel_jobs([job.id])
    elif how == "late answer":
        [delivery] = list(runner.worker._in_hand.values())
        delivery.stop(AbortReason.TAKEN_BY_ANOTHER_WORKER)
    await asyncio.sleep(60)
    found = await bench.get(job)
    assert (found.state, found.attempts, found.deliveries) == (JobState.RUNNING, 1, 1)
    assert bench.seen == [], "neither it nor the next of its queue begins beside the thread"
    assert "goes on in its thread" in caplog.text
    [told] = [record for record in caplog.records if "goes on in its" in record.getMessage()]
    assert (told.__dict__["job_id"], told.__dict__["task"]) == (job.id, "stubborn")
    thread.release()
    await wait_until(lambda: "the next of its queue" in bench.seen)
    if how == "cancel":
        assert (await bench.get(job)).state is JobState.CANCELLED
    else:
        await wait_until(lambda: thread.began == 2)
    assert thread.most == 1
    [(_, first, answer), *_] = bench.ledger.settled
    assert answer.verdict is Verdict.APPLIED
    if how == "timeout":
        assert isinstance(first, Fail)
        assert "TimeoutError: ran longer than its timeout of 5 s" in first.error


@virtual
async def test_the_end_of_a_worker_hands_back_what_its_threads_still_run_last(
    bench: Bench,
) -> None:
    thread = Thread(bench)

    @bench.app.task
    def stubborn(ctx: Context) -> None:
        thread(ctx)

    handed_back: list[tuple[JobState, int]] = []

    @bench.app.task
    async def other() -> None: ...

    job = await stubborn.aenqueue()
    runner = await bench.start(grace=1)
    await asyncio.sleep(5)
    retire = bench.ledger.retire

    async def watched(worker: str) -> None:
        found = await bench.get(job)
        handed_back.append((found.state, thread.running))
        await retire(worker)

    bench.ledger.retire = watched  # type: ignore[method-assign]
    await runner.stop()
    assert handed_back == [(JobState.RUNNING, 1)], "nothing handed it back before the sign-off"
    found = await bench.get(job)
    assert (found.state, found.attempts) == (JobState.READY, 0)
    assert runner.handlers_left
    thread.release()
