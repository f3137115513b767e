"""How many jobs a worker takes, and which."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import Abandon, Context, Events, JobState
from windlass.errors import TaskError, UnknownTaskError
from windlass.store.records import ClaimRequest, Lease, NewJob, Release, Verdict


@virtual
async def test_one_claim_fills_all_slots(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1)

    await t.aenqueue_many([{}] * 10)
    await bench.start(concurrency=10)
    await asyncio.sleep(0.5)
    assert [count for _, _, count in bench.ledger.claims] == [10]


@virtual
async def test_prefetch_grows_for_quick_jobs(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(0.001)

    await t.aenqueue_many([{}] * 2000)
    await bench.start(concurrency=10)
    await bench.idle()
    assert max(request.limit for _, request, _ in bench.ledger.claims) > 500
    assert sum(count > 0 for _, _, count in bench.ledger.claims) < 30


@virtual
async def test_prefetch_stays_small_for_large_payloads(bench: Bench) -> None:
    @bench.app.task
    async def t(text: str) -> None:
        await asyncio.sleep(0.001)

    await t.aenqueue_many([{"text": "x" * 200_000}] * 300)
    await bench.start(concurrency=10)
    await bench.idle()
    assert max(request.limit for _, request, _ in bench.ledger.claims) <= 10 + 80


@virtual
async def test_prefetch_stays_nothing_for_slow_jobs(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(1)

    await t.aenqueue_many([{}] * 60)
    await bench.start(concurrency=10)
    await bench.idle()
    assert max(request.limit for _, request, _ in bench.ledger.claims) == 10


@virtual
async def test_prefetch_can_be_switched_off(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(0.001)

    await t.aenqueue_many([{}] * 200)
    await bench.start(concurrency=5, prefetch=0)
    await bench.idle()
    assert max(request.limit for _, request, _ in bench.ledger.claims) == 5


@virtual
async def test_two_workers_share_the_work_and_hoard_nothing(bench: Bench) -> None:
    app = bench.app

    @app.task
    async def t(ctx: Context) -> None:
        bench.seen.append(ctx.worker_id)
        await asyncio.sleep(1)

    await t.aenqueue_many([{}] * 40)
    await bench.start(concurrency=10)
    await bench.start(concurrency=10)
    await wait_until(lambda: len(bench.ledger.settled) == 40)
    assert bench.clock.elapsed <= 2.01
    assert [bench.seen.count(worker) for worker in sorted(set(bench.seen))] == [20, 20]


@virtual
async def test_what_lies_in_the_prefetch_for_two_seconds_goes_back(bench: Bench) -> None:
    @bench.app.task
    async def t(slow: bool) -> None:
        await asyncio.sleep(100 if slow else 0.001)

    await t.aenqueue_many([{"slow": False}] * 50)
    await t.aenqueue_many([{"slow": True}] * 50)
    await bench.start(concurrency=2)
    await asyncio.sleep(1.5)
    assert (await bench.ledger.counts())[JobState.RUNNING] == 50, "two run, the rest are held"
    await asyncio.sleep(2)
    counts = await bench.ledger.counts()
    assert (counts[JobState.RUNNING], counts[JobState.READY]) == (2, 48)
    back = [lease for lease, outcome, _ in bench.ledger.settled if isinstance(outcome, Release)]
    assert len(back) == 48
    for lease in back:
        job = await bench.ledger.get(lease.job_id)
        assert job is not None
        assert job.attempts == 0, "nothing is charged for lying in a buffer"


@virtual
async def test_max_jobs_leaves_the_hand_back_of_stale_prefetch_alone(bench: Bench) -> None:
    @bench.app.task
    async def t(slow: bool) -> None:
        await asyncio.sleep(100 if slow else 0.001)

    await t.aenqueue_many([{"slow": False}] * 50)
    await t.aenqueue_many([{"slow": True}] * 50)
    await bench.start(concurrency=2, max_jobs=100)
    await asyncio.sleep(1.5)
    assert (await bench.ledger.counts())[JobState.RUNNING] == 50, "two run, the rest are held"
    await asyncio.sleep(2)
    counts = await bench.ledger.counts()
    assert (counts[JobState.RUNNING], counts[JobState.READY]) == (2, 48)


@virtual
async def test_a_worker_that_was_dry_wakes_when_a_slot_runs_out(bench: Bench) -> None:
    """Its last claim brought less than it asked for; no hint comes for what is added later."""

    @bench.app.task
    async def t(seconds: float) -> None:
        bench.seen.append(bench.clock.elapsed)
        await asyncio.sleep(seconds)

    await t.aenqueue_many([{"seconds": 0.001}] * 20)
    await t.aenqueue_many([{"seconds": 50}] * 2)
    bench.ledger._hints.clear()
    await bench.start(concurrency=2, poll_interval=2)
    bench.ledger._hints.clear()
    await asyncio.sleep(10)
    await t.aenqueue(seconds=1)
    await asyncio.sleep(60)
    assert len(bench.seen) == 23
    assert bench.seen[-1] == pytest.approx(50.01, abs=0.1)


@virtual
async def test_suspects_go_straight_to_a_free_slot(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append((name, bench.clock.elapsed))
        await asyncio.sleep(1)

    await bench.app.store.enqueue([NewJob("t", '{"name":"suspect"}', priority=9)])
    await bench.ledger.claim(ClaimRequest("dead", ("t",), 1, lease=1))
    await asyncio.sleep(2)
    await bench.ledger.reap(10, 5)
    for number in range(4):
        await t.aenqueue(name=f"plain {number}")
    await bench.start(concurrency=2)
    await asyncio.sleep(5)
    for elapsed, request, _ in bench.ledger.claims[1:]:
        assert request.suspects <= 2, elapsed
    assert ("suspect", 4.0) in bench.seen, "it waited for its turn, never in a buffer"


@pytest.mark.parametrize("kind", ["list", "function", "async function", "none"])
@virtual
async def test_forbidden_flags(bench: Bench, kind: str) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)

    async def later() -> list[str]:
        return ["gpu"]

    flags: Any = {
        "list": ["gpu"],
        "function": lambda: ["gpu"],
        "async function": later,
        "none": lambda: None,
    }[kind]
    await t.using(flags=["gpu", "x"]).aenqueue(name="flagged")
    await t.using(flags=["x"]).aenqueue(name="other")
    await t.aenqueue(name="plain")
    await bench.start(forbidden_flags=flags, concurrency=1)
    await asyncio.sleep(5)
    expected = ["other", "plain"]
    assert bench.seen == (["flagged", *expected] if kind == "none" else expected)


@virtual
async def test_a_flag_function_that_raises_is_asked_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def flags() -> list[str]:
        bench.seen.append("asked")
        if len(bench.seen) < 3:
            raise RuntimeError("flag service is down")
        return []

    @bench.app.task
    async def t() -> None:
        bench.seen.append("ran")

    await t.aenqueue()
    await bench.start(forbidden_flags=flags)
    await bench.idle()
    assert bench.seen[:4] == ["asked", "asked", "asked", "ran"]
    assert "the claimer met an error and goes on" in caplog.text


@virtual
async def test_only_and_exclude(bench: Bench) -> None:
    for name in ("a", "b", "c"):

        @bench.app.task(name=name)
        async def t(ctx: Context) -> None:
            bench.seen.append((ctx.worker_id, ctx.job.task))

        await bench.add(name)
    only = await bench.start(only=["a"])
    rest = await bench.start(exclude=["a", "b"])
    await asyncio.sleep(5)
    assert sorted(bench.seen) == sorted([(only.worker.id, "a"), (rest.worker.id, "c")])
    with pytest.raises(UnknownTaskError, match="did you mean"):
        await bench.start(only=["aa"])
    with pytest.raises(TaskError, match="no task to run"):
        await bench.start(exclude=["a", "b", "c"])


@virtual
async def test_max_jobs_ends_the_worker(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None: ...

    await t.aenqueue_many([{}] * 20)
    runner = await bench.start(max_jobs=7, concurrency=3)
    await runner.wait()
    assert runner.worker.why == "max_jobs"
    assert runner.worker.completed == 7
    assert (await bench.ledger.counts())[JobState.READY] == 13


@virtual
async def test_once_runs_what_is_ready_and_what_that_makes_ready(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context, left: int) -> Any:
        bench.seen.append(left)
        if left:
            await ctx.add_job("t", {"left": left - 1})
        elif len(bench.seen) < 5:
            return Abandon()
        return None

    await t.aenqueue(left=3)
    await t.using(delay=60).aenqueue(left=0)
    count = await bench.app.run_once()
    assert bench.seen == [3, 2, 1, 0, 0]
    assert count == 5
    assert bench.clock.elapsed == 0
    assert (await bench.ledger.counts())[JobState.SCHEDULED] == 1


@virtual
async def test_once_takes_what_became_due_before_it_began(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(1)

    await t.using(delay=5).aenqueue()
    await asyncio.sleep(6)
    assert await bench.app.run_once() == 1


@virtual
async def test_once_waits_for_slow_jobs_to_end(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(90)

    await t.aenqueue_many([{}, {}])
    assert await bench.app.run_once() == 2
    assert bench.clock.elapsed == 90


@virtual
async def test_a_serial_queue_runs_one_at_a_time(bench: Bench) -> None:
    running = 0

    @bench.app.task(queue="serial")
    async def t(number: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        bench.seen.append(number)
        await asyncio.sleep(0.5)
        running -= 1

    await t.aenqueue_many([{"number": n} for n in range(6)])
    await bench.start(concurrency=4)
    await bench.start(concurrency=4)
    await bench.idle()
    assert bench.seen == list(range(6))


@virtual
async def test_jobs_behind_foreign_heads_are_looked_for_in_steady_traffic_too(bench: Bench) -> None:
    @bench.app.task
    async def mine(name: str = "") -> None:
        bench.seen.append(name)

    await bench.start(poll_interval=1)
    await asyncio.sleep(1.5)
    bench.ledger.claims.clear()
    await bench.add("foreign", queue="q")
    await mine.using(queue="q").aenqueue(name="behind")
    for _ in range(50):
        await mine.aenqueue()
        await asyncio.sleep(0.2)
    assert "behind" in bench.seen
    assert sum(request.past_heads for _, request, _ in bench.ledger.claims) >= 8


@virtual
async def test_pause_and_resume_of_a_task(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await bench.app.client.pause(task="t")
    await t.aenqueue()
    await bench.start(poll_interval=300)
    await asyncio.sleep(10)
    await bench.app.client.resume(task="t")
    await asyncio.sleep(1)
    assert bench.seen == [10.0]


@virtual
async def test_a_claim_that_fails_is_told_and_repeated(bench: Bench) -> None:
    events = Events()
    app = bench.new_app(events=events)
    for name in ("start", "error", "empty"):
        events.on(f"worker:getJob:{name}", lambda name=name, **details: bench.seen.append(name))

    @app.task
    async def t() -> None: ...

    bench.store.fail_next("claim")
    await bench.start(app, poll_interval=300)
    await asyncio.sleep(1)
    assert bench.seen == ["start", "error", "start", "empty"]


@virtual
async def test_after_a_failed_claim_fewer_are_asked_for_and_later_more_again(bench: Bench) -> None:
    tight = True
    claim = bench.ledger.claim

    async def claim_few(request: ClaimRequest) -> list[Lease]:
        if tight and request.limit > 10:
            raise MemoryError
        return await claim(request)

    bench.ledger.claim = claim_few  # type: ignore[method-assign]

    @bench.app.task
    async def t() -> None:
        bench.seen.append(1)
        await asyncio.sleep(0.01)

    await t.aenqueue_many([{}] * 100)
    await bench.start(concurrency=50)
    await asyncio.wait_for(wait_until(lambda: len(bench.seen) == 100), 600)
    await bench.idle()
    tight = False
    bench.ledger.claims.clear()
    await t.aenqueue_many([{}] * 2_000)
    await asyncio.wait_for(bench.idle(), 600)
    assert len(bench.seen) == 2_100
    assert max(request.limit for _, request, _ in bench.ledger.claims) >= 50


@virtual
async def test_a_job_lost_while_it_lay_in_the_buffer_never_starts(bench: Bench) -> None:
    @bench.app.task
    async def t(seconds: float) -> None:
        bench.seen.append(seconds)
        await asyncio.sleep(seconds)

    await t.aenqueue_many([{"seconds": 0.001}] * 20)
    await t.aenqueue_many([{"seconds": 1.6}, {"seconds": 77}, {"seconds": 78}])
    await bench.start(concurrency=1)
    await wait_until(lambda: 1.6 in bench.seen)
    [one, other] = [
        job for job in await bench.app.client.list_jobs() if job.payload["seconds"] > 70
    ]
    assert one.state is JobState.RUNNING, "held in the buffer"
    await bench.app.client.cancel_jobs([one.id])
    bench.ledger._rows[other.id].token = 12345  # as if another worker had it
    await asyncio.sleep(1.9)
    assert (await bench.get(one)).state is JobState.CANCELLED
    assert 77 not in bench.seen
    assert 78 not in bench.seen
    verdicts = {lease.job_id: answer.verdict for lease, _, answer in bench.ledger.settled}
    assert verdicts[other.id] is Verdict.LOST


@virtual
async def test_what_was_claimed_runs_whatever_fails_after_the_claim(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        bench.seen.append(bench.clock.elapsed)

    await t.aenqueue()
    bench.store.fail_next("promote", times=3)
    runner = await bench.start(once=True)
    await runner.wait()
    assert len(bench.seen) == 1
    assert bench.ledger.settled[0][0].deliveries == 1, "it was not lost and handed back"


# ── suspects ──


async def _orphan(bench: Bench, **options: Any) -> int:
    """A job that a worker took which then died; an operator's unlock will free it."""
    job = await bench.add("t", {"name": "suspect", "seconds": 0.001}, **options)
    request = ClaimRequest("dead", ("t",), 1, suspects=1, lease=3_600)
    [lease] = await bench.ledger.claim(request)
    assert lease.job_id == job.id
    return job.id


@virtual
async def test_a_suspect_goes_to_the_worker_that_is_idle(bench: Bench) -> None:
    """Not into the buffer of a busy one, whose quick jobs made it look ahead."""

    @bench.app.task
    async def t(ctx: Context, name: str, seconds: float) -> None:
        bench.seen.append((name, bench.clock.elapsed, ctx.worker_id))
        await asyncio.sleep(seconds)

    await _orphan(bench)
    await t.aenqueue_many([{"name": "quick", "seconds": 0.001}] * 20)
    await t.aenqueue(name="slow", seconds=100)
    busy = await bench.start(concurrency=1)
    await wait_until(lambda: any(name == "slow" for name, _, _ in bench.seen))
    idle = await bench.start(concurrency=1)
    await asyncio.sleep(1)
    now = bench.clock.elapsed
    await bench.app.client.force_unlock_workers(["dead"])
    await asyncio.sleep(1)
    assert bench.seen[-1] == ("suspect", now, idle.worker.id)
    assert busy.worker.id != idle.worker.id


@virtual
async def test_a_suspect_is_claimed_for_a_free_slot_only(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str, seconds: float) -> None:
        bench.seen.append((name, bench.clock.elapsed))
        await asyncio.sleep(seconds)

    job_id = await _orphan(bench, priority=9)
    await t.aenqueue_many([{"name": "quick", "seconds": 0.001}] * 20)
    await t.aenqueue(name="slow", seconds=100)
    await bench.start(concurrency=1)
    await wait_until(lambda: ("slow", bench.clock.elapsed) in bench.seen)
    await bench.app.client.force_unlock_workers(["dead"])
    while bench.seen[-1][0] == "slow":
        job = await bench.ledger.get(job_id)
        assert job is None or job.state is JobState.READY or bench.seen[-1][0] == "suspect"
        await asyncio.sleep(0.1)
    assert bench.seen[-1][0] == "suspect"


@virtual
async def test_many_suspects_run_before_what_was_taken_ahead(bench: Bench) -> None:
    """A worker that never has a free slot asks for them now and then, and again while there are."""

    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)
        await asyncio.sleep(0.001)

    await bench.ledger.enqueue([NewJob("t", '{"name":"suspect"}')] * 50)
    await bench.ledger.claim(ClaimRequest("dead", ("t",), 50, lease=3_600))
    await t.aenqueue_many([{"name": "plain"}] * 20_000)
    await bench.start(concurrency=4)
    await wait_until(lambda: len(bench.seen) > 1_000)
    freed = len(bench.seen)
    await bench.ledger.unlock(["dead"], 5)
    await wait_until(lambda: bench.seen.count("suspect") == 50)
    first = bench.seen.index("suspect")
    assert first - freed < 2_000, "they are asked for after a quarter of a second, 1,000 jobs"
    last = len(bench.seen) - bench.seen[::-1].index("suspect")
    assert last - first < 50 + 50 * 4, "and then one after the other"


# ── order ──


def _positions(seen: list[str], name: str) -> list[int]:
    return [place for place, each in enumerate(seen) if each == name]


@pytest.mark.parametrize("seconds", [0.0, 0.001])
@virtual
async def test_a_serial_queue_goes_before_less_urgent_jobs_that_were_taken_ahead(
    bench: Bench, seconds: float
) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)
        if seconds:
            await asyncio.sleep(seconds)

    await t.using(priority=10).aenqueue_many([{"name": "later"}] * 300)
    await t.using(queue="q").aenqueue_many([{"name": "serial"}] * 20)
    await t.aenqueue_many([{"name": "plain"}] * 5)
    await bench.start(concurrency=1)
    await bench.idle()
    assert set(bench.seen[:25]) == {"serial", "plain"}
    assert bench.seen[25:] == ["later"] * 300


@virtual
async def test_a_serial_queue_whose_settlements_take_long_goes_first_too(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)

    settle = bench.ledger.settle

    async def settle_slowly(settlements: Any) -> Any:
        await asyncio.sleep(0.05)
        return await settle(settlements)

    bench.ledger.settle = settle_slowly  # type: ignore[method-assign]
    await t.using(priority=10).aenqueue_many([{"name": "later"}] * 300)
    await t.using(queue="q").aenqueue_many([{"name": "serial"}] * 10)
    await bench.start(concurrency=1)
    await bench.idle()
    assert bench.seen == ["serial"] * 10 + ["later"] * 300


@virtual
async def test_less_urgent_jobs_go_on_while_a_settlement_is_held_up(bench: Bench) -> None:
    """An open transaction holds the job that ended: the slot waits for one try, no longer."""

    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)

    [first, _] = [await bench.add("t", {"name": "serial"}, queue="q") for _ in range(2)]
    await t.using(priority=10).aenqueue_many([{"name": "later"}] * 50)
    bench.ledger.held.add(first.id)
    await bench.start(concurrency=1)
    await wait_until(lambda: bench.seen.count("later") == 50)
    assert bench.seen[0] == "serial" and bench.seen.count("serial") == 1
    bench.ledger.held.clear()
    await bench.idle()
    assert bench.seen.count("serial") == 2


@virtual
async def test_equally_urgent_jobs_wait_for_no_queue(bench: Bench) -> None:
    """What it costs is counted: no more claims than without queues, but for the run dry."""

    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(0.001)

    async def claims(queues: int) -> int:
        before = bench.store.calls["claim"]
        for number in range(1_000):
            await bench.add("t", queue=f"q{number % queues}" if queues else None)
        runner = await bench.start(concurrency=10)
        await bench.idle()
        await runner.stop()
        return bench.store.calls["claim"] - before

    assert await claims(1_000) <= await claims(0) + 5


@virtual
async def test_a_more_urgent_job_that_was_claimed_later_starts_first(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)
        await asyncio.sleep(0.001)

    await t.using(priority=10).aenqueue_many([{"name": "later"}] * 2_000)
    await bench.start(concurrency=1)
    await wait_until(lambda: len(bench.seen) >= 300)
    await t.using(priority=0).aenqueue_many([{"name": "urgent"}] * 10)
    added = len(bench.seen)
    await bench.idle()
    places = _positions(bench.seen, "urgent")
    assert places == list(range(places[0], places[0] + 10))
    assert places[0] - added <= 130, "as soon as half of what was taken ahead is used up"


@virtual
async def test_what_was_overtaken_for_two_seconds_goes_back(bench: Bench) -> None:
    @bench.app.task
    async def t(name: str) -> None:
        bench.seen.append(name)
        await asyncio.sleep(0.001)

    await t.using(priority=10).aenqueue_many([{"name": "later"}] * 1_000)
    await bench.start(concurrency=1)
    await wait_until(lambda: len(bench.seen) >= 300)
    await t.using(priority=0).aenqueue_many([{"name": "urgent"}] * 4_000)
    await wait_until(lambda: bench.seen.count("urgent") >= 3_500)
    back = [lease for lease, outcome, _ in bench.ledger.settled if isinstance(outcome, Release)]
    assert back and all(lease.priority == 10 for lease in back)
    await bench.idle()
    assert bench.seen.count("later") == 1_000


@virtual
async def test_a_worker_that_has_taken_all_it_may_leaves_nothing_waiting(bench: Bench) -> None:
    @bench.app.task
    async def t() -> None:
        await asyncio.sleep(0.001)

    await t.using(queue="q").aenqueue_many([{}] * 5)
    await t.using(priority=10).aenqueue_many([{}] * 100)
    runner = await bench.start(max_jobs=40, concurrency=1)
    await asyncio.wait_for(runner.wait(), 60)
    assert runner.worker.completed == 40
