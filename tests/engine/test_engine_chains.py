"""Chains in the engine: what handlers go on with, start and wait for, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.engine import process_tasks
from tests.engine.engine_kit import Bench, virtual, wait_until
from tests.patience import PATIENCE
from windlass import (
    App,
    Chain,
    Completed,
    Context,
    Job,
    JobState,
    Next,
    Retry,
    SyncContext,
)
from windlass.errors import LeaseLostError, ValidationError
from windlass.model.chain import ChainPlace, ChainState
from windlass.store import records
from windlass.store.records import ClaimRequest, Complete, NewChain, NewJob, Verdict

SOON = Retry(lambda attempt, error: 1.0)


async def ended(bench: Bench, chain: Chain[Any] | int) -> Chain[Any]:
    chain_id = chain if isinstance(chain, int) else chain.id
    return await bench.app.client.wait_for_chain(chain_id, timeout=600)


def shop(app: App) -> Any:
    """order → pay → ship, one kind of function each."""

    @app.task
    async def order(ctx: Context, number: int) -> object:
        return ctx.continue_with(pay, number=number)

    @app.task
    def pay(ctx: SyncContext, number: int) -> object:
        return Completed(ctx.continue_with(ship.using(priority=2), number=number))

    @app.task
    async def ship(ctx: Context, number: int) -> list[int]:
        await asyncio.sleep(1)
        return [number, ctx.chain.id, ctx.chain.index]

    return order


# ── going on ──


@virtual
async def test_a_chain_goes_on_from_coroutines_and_threads(bench: Bench) -> None:
    order = shop(bench.app)
    await bench.start()
    chain = await order.astart(number=7)
    assert (chain.state, chain.task, chain.payload, chain.length) == (
        *("open", "order", {"number": 7}),
        1,
    )
    done = await ended(bench, chain)
    assert (done.state, done.length, done.job) == ("completed", 3, None)
    assert done.output == [7, chain.id, 2]
    assert await bench.app.client.chain_jobs(chain.id) == []


@virtual
async def test_a_job_of_no_chain_becomes_one(bench: Bench) -> None:
    order = shop(bench.app)
    job = await order.aenqueue(number=7)
    assert job.chain is None
    await bench.start()
    await bench.idle()
    assert (await ended(bench, job.id)).output == [7, job.id, 2]


@virtual
async def test_a_plain_job_is_told_its_own_id(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        bench.seen.append((ctx.chain, list(ctx.blockers)))

    job = await t.aenqueue()
    await bench.start()
    await bench.idle()
    assert bench.seen == [(ChainPlace(job.id, 0), [])]
    assert await bench.app.client.get_chain(job.id) is None


@virtual
async def test_what_is_not_returned_does_not_count(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> str:
        ctx.continue_with("never")
        return "the end"

    await bench.start()
    done = await ended(bench, await t.astart())
    assert (done.output, done.length) == ("the end", 1)
    assert await bench.app.client.list_jobs() == []


@virtual
async def test_a_continuation_inherits_tenant_priority_meta_and_keep(bench: Bench) -> None:
    @bench.app.task
    async def first(ctx: Context) -> object:
        return ctx.continue_with("second")

    @bench.app.task
    async def plain(ctx: Context) -> object:
        return ctx.continue_with(
            "second", priority=1, meta={"own": True}, keep=5, queue="q", max_attempts=3
        )

    @bench.app.task(priority=9)
    async def own_priority() -> None: ...

    @bench.app.task
    async def to_own(ctx: Context) -> object:
        return ctx.continue_with(own_priority.using(delay=60))

    client = bench.app.client.for_tenant("acme")
    given: dict[str, Any] = {"priority": 4, "meta": {"trace": "t"}, "keep": 600.0, "queue": "q"}
    for name in ("first", "plain", "to_own"):
        await client.start_chain(name, key=f"key-{name}", **given)
    await bench.start(only=["first", "plain", "to_own"])
    await wait_until(lambda: len(bench.ledger.settled) == 3)
    jobs = await client.list_jobs(state=["ready", "scheduled"])
    inherited, given_own, by_task = sorted(jobs, key=lambda job: job.id)
    assert all((job.tenant, job.key, job.step) == ("acme", None, 1) for job in jobs)
    assert (inherited.priority, inherited.meta, inherited.keep) == (4, {"trace": "t"}, 600.0)
    assert (inherited.queue, inherited.max_attempts) == (None, 25)
    assert (given_own.priority, given_own.meta, given_own.keep) == (1, {"own": True}, 5.0)
    assert (given_own.queue, given_own.max_attempts) == ("q", 3)
    assert (by_task.priority, by_task.meta, by_task.state) == (9, {"trace": "t"}, "scheduled")


@virtual
async def test_a_wrong_payload_costs_the_attempt_and_stores_nothing(bench: Bench) -> None:
    @bench.app.task
    async def ship(order: int) -> int:
        return order

    @bench.app.task(retry=SOON, max_attempts=3)
    async def charge(ctx: Context) -> object:
        ctx.start("unrelated")
        if ctx.job.attempts < 3:
            return ctx.continue_with("ship", {"order": "seven"})
        return ctx.continue_with(ship, order=7)

    await bench.start(only=["charge", "ship"])
    done = await ended(bench, await charge.astart())
    assert (done.output, done.length) == (7, 2)
    assert len(bench.ledger.settled) == 4
    unrelated = await bench.app.client.list_jobs(task="unrelated")
    assert len(unrelated) == 1, "an attempt that failed has started nothing"


@virtual
async def test_what_cannot_be_asked_for(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        for call in (
            lambda: ctx.continue_with("x", key="k"),
            lambda: ctx.continue_with("x", {}, 7),  # type: ignore[call-overload]
            lambda: ctx.continue_with(7),  # type: ignore[call-overload]
            lambda: ctx.start("x", blockers=[0]),
            lambda: ctx.start("x", key_window=5),
            lambda: ctx.start("x", run_at=7),  # type: ignore[call-overload]
        ):
            with pytest.raises(ValidationError) as refusal:
                call()
            bench.seen.append(refusal.value.field)

    await bench.start()
    await t.astart()
    await bench.idle()
    assert bench.seen == ["key", "payload", "task", "blockers", "key_window", "run_at"]


@virtual
async def test_a_loop_that_polls(bench: Bench) -> None:
    @bench.app.task
    async def poll(ctx: Context, left: int) -> object:
        bench.seen.append(bench.clock.elapsed)
        return "done" if left == 0 else ctx.continue_with(poll.using(delay=30), left=left - 1)

    await bench.start()
    done = await ended(bench, await poll.astart(left=5))
    assert (done.length, done.output) == (6, "done")
    gaps = [later - before for before, later in zip(bench.seen, bench.seen[1:], strict=False)]
    assert all(30 <= gap < 31 for gap in gaps), gaps


# ── starts and blockers ──


@virtual
async def test_fan_out_and_fan_in(bench: Bench) -> None:
    @bench.app.task
    async def split(ctx: Context, count: int) -> object:
        parts = [ctx.start(part, number=number) for number in range(count)]
        assert "number 1" in repr(parts[0])
        return ctx.continue_with(merge.using(blockers=parts))

    @bench.app.task
    def part(ctx: SyncContext, number: int) -> object:
        if number % 2:
            return number
        return ctx.continue_with(part, number=number + 1)

    @bench.app.task
    async def merge(ctx: Context) -> list[Any]:
        return [(it.output, it.state, it.length, it.task) for it in ctx.blockers]

    await bench.start()
    done = await ended(bench, await split.astart(count=20))
    assert done.output == [
        [number + 1 - number % 2, "completed", 2 - number % 2, "part"] for number in range(20)
    ]
    assert done.length == 2


@virtual
async def test_chains_of_one_delivery_may_wait_for_one_another(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> str:
        first = ctx.start(step, name="first")
        second = ctx.start(step.using(blockers=[first]), name="second")
        ctx.start("step", {"name": "third"}, blockers=[second, first, second])
        return "started"

    @bench.app.task
    async def step(ctx: Context, name: str) -> str:
        bench.seen.append([name, [chain.output for chain in ctx.blockers]])
        return name

    await bench.start(concurrency=1)
    assert (await ended(bench, await t.astart())).output == "started"
    await bench.idle()
    assert bench.seen == [
        ["first", []],
        ["second", ["first"]],
        ["third", ["second", "first", "second"]],
    ]


@virtual
async def test_a_handle_is_good_in_its_own_delivery_alone(bench: Bench) -> None:
    kept: list[Any] = []

    @bench.app.task(retry=SOON, max_attempts=2)
    async def t(ctx: Context) -> object:
        kept.append(ctx.start("part"))
        return ctx.continue_with("after", blockers=[kept[0]] * (ctx.job.attempts - 1))

    @bench.app.task(max_attempts=1)
    async def other(ctx: Context) -> object:
        return ctx.continue_with("after", blockers=[kept[0]])

    await bench.start(only=["t", "other"])
    await bench.app.client.start_chain("t")
    await wait_until(lambda: bool(bench.ledger.settled))
    failed = await ended(bench, await other.astart())
    assert "only in the delivery that starts it" in (failed.error or "")
    with pytest.raises(ValidationError, match="is neither a chain nor the id of one"):
        await bench.app.client.add_job("x", blockers=kept)


@pytest.mark.parametrize("how", ["coroutine", "thread", "transaction"])
@virtual
async def test_a_continuation_is_good_in_its_own_delivery_alone(bench: Bench, how: str) -> None:
    """In another one, places for chains that start would mean other chains, or none at all."""
    kept: list[Any] = []

    @bench.app.task
    async def first(ctx: Context) -> str:
        kept.append(ctx.continue_with("after", blockers=[ctx.start("part")]))
        return "kept"

    @bench.app.task(name="coroutine", max_attempts=1)
    async def coroutine(ctx: Context) -> object:
        ctx.start("other part")
        return kept[0]

    @bench.app.task(name="thread", max_attempts=1)
    def thread(ctx: SyncContext) -> object:
        return Completed(kept[0])

    @bench.app.task(name="transaction", max_attempts=1)
    async def transaction(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.complete(kept[0])

    @bench.app.task
    async def plain() -> None: ...

    await bench.start(only=["first", how, "plain"])
    await ended(bench, await first.astart())
    failed = await ended(bench, await bench.app.client.start_chain(how))
    assert failed.state is ChainState.FAILED
    assert "only in the delivery that made it" in (failed.error or "")
    job = await plain.aenqueue()
    await wait_until(lambda: any(lease.job_id == job.id for lease, _, _ in bench.ledger.settled))
    assert [job.task for job in await bench.app.client.list_jobs(state="ready")] == ["part"]


@pytest.mark.parametrize("shape", ["list", "tuple", "dict", "Completed"])
@virtual
async def test_a_continuation_inside_something_else_fails_the_attempt(
    bench: Bench, shape: str
) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> object:
        made = ctx.continue_with("after")
        match shape:
            case "list":
                return [made, made]
            case "tuple":
                return made, "done"
            case "dict":
                return {"next": made}
            case _:
                return Completed([made])

    await bench.start(only=["t"])
    failed = await ended(bench, await t.astart())
    assert failed.state is ChainState.FAILED
    assert "return it by itself, not inside a list" in (failed.error or "")


@virtual
async def test_arguments_beside_a_tasks_name_are_refused(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> object:
        return ctx.continue_with("after", number=7)  # type: ignore[call-overload]

    await bench.start(only=["t"])
    assert 'one value: {"number": …}' in ((await ended(bench, await t.astart())).error or "")


@pytest.mark.parametrize("value", [None, "done"])
@virtual
async def test_a_continuation_that_is_not_returned_is_told(
    bench: Bench, caplog: pytest.LogCaptureFixture, value: object
) -> None:
    @bench.app.task
    async def t(ctx: Context) -> object:
        ctx.continue_with("after")
        return value

    await bench.start(only=["t"])
    chain = await t.astart()
    assert (await ended(bench, chain)).output == value
    [told] = [record for record in caplog.records if "was not returned" in record.getMessage()]
    assert told.__dict__["chain"] == chain.id


@virtual
async def test_a_failed_attempt_starts_nothing(bench: Bench) -> None:
    @bench.app.task(retry=SOON)
    async def t(ctx: Context) -> None:
        ctx.start("part", {"attempt": ctx.job.attempts})
        if ctx.job.attempts == 1:
            raise ValueError("once")

    await bench.start(only=["t"])
    await t.aenqueue()
    await wait_until(lambda: len(bench.ledger.settled) == 2)
    [job] = await bench.app.client.list_jobs()
    assert job.payload == {"attempt": 2}


@virtual
async def test_a_chain_starts_its_own_successor_with_its_key(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context, left: int) -> int:
        bench.seen.append(ctx.chain.id)
        if left:
            ctx.start(t.using(key="one", key_window=3600), left=left - 1)
        return left

    await bench.start()
    await t.using(key="one", key_window=3600).astart(left=3)
    await wait_until(lambda: len(bench.seen) == 4)
    await bench.idle()
    assert len(set(bench.seen)) == 4
    chains = await bench.app.client.list_chains()
    assert [(chain.state, chain.key) for chain in chains] == [("completed", "one")] * 4


@virtual
async def test_outputs_too_long_for_a_claim_are_fetched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_BLOCKER_TEXT", 100)

    async def around(ctx: Context, call_next: Any) -> Any:
        bench.seen.append([len(chain.output) for chain in ctx.blockers])
        return await call_next()

    app = bench.new_app(middleware=[around])

    @app.task
    async def part(size: int) -> str:
        return "x" * size

    @app.task
    async def on_loop(ctx: Context) -> list[int]:
        return [len(chain.output) for chain in ctx.blockers]

    @app.task
    def in_thread(ctx: SyncContext) -> list[int]:
        return [len(chain.output) for chain in ctx.blockers]

    await bench.start(app)
    parts = [await part.astart(size=size) for size in (90, 80)]
    for task in (on_loop, in_thread):
        assert (await ended(bench, await task.using(blockers=parts).astart())).output == [90, 80]
    assert bench.seen == [[], [], [90, 80], [90, 80]]


@virtual
async def test_outputs_that_cannot_be_fetched_use_no_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_BLOCKER_TEXT", 1)
    bench.store.fail_next("blockers", "before", times=2)
    bench.store.fail_next("blockers", "busy")

    @bench.app.task
    async def part() -> str:
        return "a part"

    @bench.app.task(max_attempts=1)
    async def whole(ctx: Context) -> list[Any]:
        return [ctx.job.attempts, *(chain.output for chain in ctx.blockers)]

    await bench.start()
    chain = await whole.using(blockers=[await part.astart()]).astart()
    assert (await ended(bench, chain)).output == [1, "a part"]
    assert bench.store.calls["blockers"] == 4


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_an_object_sees_blockers_and_its_output_is_the_chains(
    kind: str, transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_BLOCKER_TEXT", 1)

    class OnLoop:
        def pre_handle(self, ctx: Context, job: Job) -> None:
            seen.append([chain.output for chain in ctx.blockers])

        async def handle(self, ctx: Context, store: Any, job: Job) -> object:
            return Completed(["t", *(chain.output for chain in ctx.blockers)])

    class InThread(OnLoop):
        def handle(self, ctx: Any, store: Any, job: Job) -> object:  # type: ignore[override]
            return ["t", *(chain.output for chain in ctx.blockers)]

    seen: list[Any] = []
    target: Any = OnLoop() if kind == "async" else InThread()
    target.transactional = transactional

    @virtual
    async def test(bench: Bench) -> None:
        part = await bench.app.client.start_chain("t")
        await bench.app.client.complete_chain(part.id, "a part")
        chain = await bench.app.client.start_chain("t", blockers=[part])
        await bench.start_object(target)
        assert (await ended(bench, chain)).output == ["t", "a part"]

    test()
    assert seen == [["a part"]]


@virtual
async def test_what_a_job_does_when_a_blocker_fails(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def part(ok: bool) -> str:
        if not ok:
            raise ValueError("no part")
        return "part"

    @bench.app.task
    async def collect(ctx: Context) -> list[Any]:
        return [(chain.state, chain.output) for chain in ctx.blockers]

    await bench.start()
    good, bad = await part.astart(ok=True), await part.astart(ok=False)

    async def collected(choice: Any) -> Chain[Any]:
        return await collect.using(blockers=[good, bad], on_blocker_failure=choice).astart()

    fails, runs, waits = [await collected(choice) for choice in (None, "run", "wait")]
    assert (await ended(bench, fails)).error == f"chain {bad.id}, which this job waited for, failed"
    assert (await ended(bench, runs)).output == [["completed", "part"], ["failed", None]]
    chain = await bench.app.client.get_chain(waits.id)
    assert chain is not None and chain.job is not None
    assert (chain.job.state, chain.job.blockers_open, chain.job.blockers_total) == ("blocked", 1, 2)
    await bench.app.client.complete_chain(bad.id, "by hand")
    assert (await ended(bench, waits)).output == [["completed", "part"], ["completed", "by hand"]]


# ── refusals ──


@virtual
async def test_a_refused_settlement_fails_that_attempt_alone(bench: Bench) -> None:
    @bench.app.task(retry=SOON, max_attempts=2)
    async def t(ctx: Context, blocker: int | None) -> object:
        ctx.start("part")
        blockers = None if blocker is None else [blocker]
        return ctx.continue_with("after", blockers=blockers)

    chains = [await t.astart(blocker=blocker) for blocker in (None, 999, None)]
    errors: list[str] = []
    bench.app.events.on("job:error", lambda error, **_: errors.append(str(error)))
    await bench.start(only=["t"])
    failed = await ended(bench, chains[1])
    assert failed.error is not None and "there is no chain 999" in failed.error
    assert len(errors) == 2, "it was tried twice, as often as it may"
    verdicts = [answer.verdict for *_, answer in bench.ledger.settled]
    assert verdicts.count(Verdict.REFUSED) == 2
    assert len(await bench.app.client.list_jobs(task="after")) == 2
    assert len(await bench.app.client.list_jobs(task="part")) == 2, "no chain of the refused one"


@virtual
async def test_a_continuation_that_would_wait_for_its_own_chain_is_refused(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> object:
        return ctx.continue_with("after", blockers=[ctx.chain.id])

    await bench.start(only=["t"])
    failed = await ended(bench, await t.astart())
    assert failed.error is not None and "would wait for its own chain" in failed.error


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_an_output_that_is_not_json_fails_the_attempt_in_a_chain(kind: str) -> None:
    @virtual
    async def test(bench: Bench) -> None:
        def work(ctx: SyncContext) -> object:
            return object() if ctx.job.attempts == 1 else "better"

        async def awaited(ctx: Context) -> object:
            return object() if ctx.job.attempts == 1 else "better"

        task = bench.app.task(retry=SOON, name="t")(work if kind == "thread" else awaited)
        await bench.start()
        done = await ended(bench, await task.astart())
        assert done.output == "better"
        assert "must be JSON" in str(bench.ledger.settled[0][1])
        await task.aenqueue()
        await bench.idle()
        assert len(bench.ledger.settled) == 3, "a job of no chain is done, without its output"

    test()


# ── transactions ──


@virtual
async def test_a_continuation_and_starts_inside_a_transaction(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            part = ctx.start("part")
            await tx.complete(ctx.continue_with("after", {"n": 1}, blockers=[part]))
            bench.seen.append(await bench.app.client.list_jobs(task="after"))
        bench.seen.append([job.state for job in await bench.app.client.list_jobs(task="after")])

    @bench.app.task
    def in_thread(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            tx.complete(ctx.continue_with("after", {"n": 2}))

    await bench.start(only=["t", "in_thread"])
    chain = await t.astart()
    await wait_until(lambda: len(bench.seen) == 2)
    assert bench.seen == [[], [JobState.BLOCKED]]
    other = await in_thread.astart()
    await wait_until(lambda: len(bench.ledger.settled) == 2)
    jobs = await bench.app.client.list_jobs(task="after")
    assert [job.chain for job in jobs] == [other.id, chain.id]
    assert len(await bench.app.client.list_jobs(task="part")) == 1


@virtual
async def test_a_transaction_that_raises_has_started_nothing(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            ctx.start("part")
            await tx.complete(ctx.continue_with("after"))
            raise ValueError("no")

    await bench.start(only=["t"])
    assert (await ended(bench, await t.astart())).state is ChainState.FAILED
    assert [job.task for job in await bench.app.client.list_jobs()] == ["t"]


@virtual
async def test_an_output_that_is_not_json_inside_a_transaction_fails_the_attempt(
    bench: Bench,
) -> None:
    @bench.app.task(retry=SOON)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.complete(object() if ctx.job.attempts == 1 else "better")

    await bench.start()
    assert (await ended(bench, await t.astart())).output == "better"


@virtual
async def test_a_refusal_inside_a_transaction_is_raised_there(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.complete(ctx.continue_with("after", blockers=[999]))

    await bench.start(only=["t"])
    failed = await ended(bench, await t.astart())
    assert failed.error is not None and "there is no chain 999" in failed.error
    assert [job.task for job in await bench.app.client.list_jobs()] == ["t"]


# ── events and the log ──


@virtual
async def test_events_tell_of_chains(bench: Bench) -> None:
    @bench.app.task(max_attempts=1)
    async def t(ctx: Context, how: str, left: int = 1) -> object:
        match how:
            case "fails":
                raise ValueError("no")
            case "inside":
                async with ctx.transaction() as tx:
                    await tx.complete(ctx.continue_with(t, how="inside last"))
            case "inside last":
                async with ctx.transaction() as tx:
                    await tx.complete("done")
            case "waits":
                await asyncio.Event().wait()
            case _ if left:
                return ctx.continue_with(t, how=how, left=left - 1)
        return None

    told: list[tuple[str, int, str]] = []

    def listener(name: str) -> Any:
        def hear(worker: Any, chain: int, job: Job, error: BaseException | None = None) -> None:
            told.append((name, chain, type(error).__name__))

        return hear

    for name in ("start", "complete", "failed"):
        bench.app.events.on(f"chain:{name}", listener(name))
    await bench.start(concurrency=1)
    assert await bench.app.client.get_chain((await t.aenqueue(how="plain", left=0)).id) is None
    await bench.idle()
    assert told == [], "a job of no chain"

    async def heard(chain: int) -> list[tuple[str, str]]:
        await wait_until(lambda: bool(told))  # a job that was enqueued is a chain from now on
        await ended(bench, chain)
        await asyncio.sleep(1)
        mine = [(name, error) for name, of, error in told if of == chain]
        assert len(mine) == len(told)
        told.clear()
        return mine

    nothing = "NoneType"
    complete = [("start", nothing), ("complete", nothing)]
    assert await heard((await t.astart(how="goes on")).id) == complete
    assert await heard((await t.aenqueue(how="goes on")).id) == complete
    assert await heard((await t.astart(how="inside")).id) == complete
    assert await heard((await t.aenqueue(how="inside")).id) == complete
    assert await heard((await t.astart(how="fails")).id) == [
        *complete[:1],
        ("failed", "ValueError"),
    ]
    waiting = await t.astart(how="waits")
    await wait_until(lambda: bool(told))
    await bench.app.client.cancel_chains([waiting.id])
    assert await heard(waiting.id) == [*complete[:1], ("failed", nothing)]


@virtual
async def test_a_retried_first_job_starts_its_chain_once(bench: Bench) -> None:
    @bench.app.task(retry=SOON)
    async def t(ctx: Context) -> None:
        if ctx.job.attempts == 1:
            raise ValueError("once")

    bench.app.events.on("chain:start", lambda chain, **_: bench.seen.append(chain))
    await bench.start()
    chain = await t.astart()
    await ended(bench, chain)
    assert bench.seen == [chain.id]


@virtual
async def test_the_log_names_the_chain(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")

    @bench.app.task
    async def t(ctx: Context) -> None:
        ctx.logger.info("from the handler")

    await bench.start()
    chain = await t.astart()
    await ended(bench, chain)
    plain = await t.aenqueue()
    await bench.idle()
    fields = {
        (record.message.split(" in ")[0], getattr(record, "job_id", None)): getattr(
            record, "chain", None
        )
        for record in caplog.records
    }
    for message in ("from the handler", "completed"):
        assert fields[message, chain.id] == chain.id
        assert fields[message, plain.id] is None


# ── stopping ──


@virtual
async def test_a_chain_is_cancelled_while_it_runs(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context, goes_on: bool) -> object:
        bench.seen.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            bench.seen.append(ctx.abort.reason)
            if goes_on:
                return ctx.continue_with("after", keep=60)
            raise
        return None

    await bench.start(only=["t"])
    for goes_on in (False, True):
        chain = await t.astart(goes_on=goes_on)
        await wait_until(lambda: "begun" in bench.seen)
        [cancelling] = await bench.app.client.cancel_chains([chain.id])
        assert cancelling.state is ChainState.OPEN
        assert (await ended(bench, chain)).state is ChainState.CANCELLED
        assert bench.seen == ["begun", "cancelled"]
        bench.seen.clear()
        jobs = await bench.app.client.list_jobs(task="after")
        assert [job.state for job in jobs] == [JobState.CANCELLED] * goes_on


@virtual
async def test_a_chain_is_completed_by_hand_while_it_runs(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> object:
        bench.seen.append(bench.clock.elapsed)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            bench.seen += [ctx.abort.reason, bench.clock.elapsed]
            return ctx.continue_with("lost")
        return None

    @bench.app.task
    async def after(n: int) -> int:
        return n

    await bench.start()
    chain = await t.astart()
    await wait_until(lambda: len(bench.seen) == 1)
    completed_at = bench.clock.elapsed
    then = await bench.app.client.complete_chain(chain.id, then=Next("after", {"n": 5}))
    assert (then.state, then.length) == ("open", 2)
    assert (await ended(bench, chain)).output == 5
    await wait_until(lambda: len(bench.seen) == 3)
    assert bench.seen[1] == "already_completed"
    assert bench.seen[2] - completed_at < 1.5
    await bench.idle()
    assert await bench.app.client.list_jobs() == [], "what it returned is lost"
    with pytest.raises(ValidationError, match="order"):
        await bench.app.client.complete_chain(chain.id, then=Next("after", {"order": 5}))


@virtual
async def test_a_chain_is_deleted_while_it_runs(bench: Bench) -> None:
    @bench.app.task
    async def t(ctx: Context) -> object:
        bench.seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            bench.seen.append(ctx.abort.reason)
        return None

    await bench.start()
    chain = await t.astart()
    await wait_until(lambda: bool(bench.seen))
    assert [it.id for it in await bench.app.client.delete_chains([chain.id])] == [chain.id]
    await wait_until(lambda: len(bench.seen) == 2)
    assert bench.seen == ["begun", "not_found"]
    assert await bench.app.client.get_chain(chain.id) is None


@virtual
async def test_a_lost_delivery_stores_nothing(bench: Bench) -> None:
    """A worker that came back too late: its continuation and its chains are not stored."""
    store = bench.ledger
    [chain] = await store.start_chains([NewChain(job=NewJob("t"))])
    request = ClaimRequest("slow", ("t",), 1, lease=1.0)
    [lease] = await store.claim(request)
    await asyncio.sleep(2)
    await store.reap(10, 3)
    completion = Complete(next=NewJob("after"), starts=(NewChain(job=NewJob("part")),))
    [answer] = await store.settle([(lease, completion)])
    assert answer.verdict is Verdict.LOST

    def late() -> None:
        with store.transaction(lease) as inner:
            inner.complete(completion)

    with pytest.raises(LeaseLostError):
        await asyncio.to_thread(late)
    assert [job.task for job in await bench.app.client.list_jobs()] == ["t"]
    found = await bench.app.client.get_chain(chain.id)
    assert found is not None and found.state is ChainState.OPEN


@virtual
async def test_a_thread_that_goes_on_after_the_end_of_its_chain_is_lost(bench: Bench) -> None:
    release = threading.Event()

    @bench.app.task
    def t(ctx: SyncContext) -> object:
        with bench.clock.waiting():
            bench.seen.append("begun")
            release.wait(20)
        ctx.start("part")
        return ctx.continue_with("after")

    await bench.start(only=["t"])
    chain = await t.astart()
    await wait_until(lambda: bool(bench.seen))
    await bench.app.client.complete_chain(chain.id, "by hand")
    release.set()
    await wait_until(lambda: bool(bench.ledger.settled))
    assert (await ended(bench, chain)).output == "by hand"
    assert await bench.app.client.list_jobs() == []


# ── processes, in real time ──


def in_processes(kind: str, **options: Any) -> tuple[Chain[Any], list[Job]]:
    """A chain whose first job runs in a process, and what is stored in the end."""

    async def main() -> tuple[Chain[Any], list[Job]]:
        retry = Retry(lambda attempt, error: None)
        async with App("memory://", grace=0.0, retry=retry) as app:
            app.task(executor="process", name="link", keep=600)(process_tasks.link)

            @app.task(keep=600)
            async def after(said: str) -> str:
                return said

            @app.task
            async def part(number: int) -> int:
                return number

            @app.task
            async def collect(ctx: Context) -> list[Any]:
                return [chain.output for chain in ctx.blockers]

            blockers = [await part.astart(number=n) for n in options.pop("parts", ())]
            chain = await app.client.start_chain("link", {"kind": kind}, blockers=blockers)
            runner = await app.run(handle_signals=False, concurrency=4)
            try:
                done = await app.client.wait_for_chain(chain.id, timeout=30)
                return done, await app.client.list_jobs()
            finally:
                await runner.stop()

    return asyncio.run(main())


@pytest.mark.parametrize(("kind", "priority"), [("continue", 3), ("completed", 0)])
def test_a_process_goes_on(kind: str, priority: int) -> None:
    chain, jobs = in_processes(kind)
    assert (chain.output, chain.length) == ("by a process", 2)
    assert [(job.task, job.priority) for job in jobs] == [("after", priority), ("link", 0)]


def test_a_process_starts_chains_and_waits_for_them() -> None:
    chain, _ = in_processes("fan out")
    assert chain.output == [1, 2, 3]


def test_a_process_sees_its_chain_and_its_blockers(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, jobs = in_processes("unused", parts=[7, 8])
    assert chain.output == [chain.id, 0, [7, 8]]
    assert [job.task for job in jobs] == ["link"]
    monkeypatch.setattr(records, "MOST_BLOCKER_TEXT", 1)
    chain, _ = in_processes("unused", parts=[7, 8])
    assert chain.output == [chain.id, 0, [7, 8]]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("wrong payload", "unknown field `sung`"),
        ("not json", "must be JSON"),
        ("in a list", "return it by itself, not inside a list"),
    ],
)
def test_a_process_that_asks_for_what_cannot_be_fails_its_attempt(kind: str, said: str) -> None:
    chain, jobs = in_processes(kind)
    assert chain.error is not None and said in chain.error
    assert [job.task for job in jobs] == ["link"]


@pytest.mark.parametrize("what", ["handle", "continuation"])
def test_what_a_process_kept_from_another_delivery_is_refused(what: str) -> None:
    async def main() -> list[Chain[Any]]:
        async with App("memory://", grace=0.0) as app:
            app.task(executor="process", name="link", max_attempts=1)(process_tasks.link)

            @app.task
            async def after(said: str) -> str:
                return said

            @app.task
            async def part(number: int) -> int:
                return number

            runner = await app.run(handle_signals=False, concurrency=1)  # so in one child
            try:
                ends = []
                for _ in range(2):
                    chain = await app.client.start_chain("link", {"kind": f"foreign {what}"})
                    ends.append(await app.client.wait_for_chain(chain.id, timeout=PATIENCE))
                return ends
            finally:
                await runner.stop()

    own, foreign = asyncio.run(main())
    assert (own.state, own.output) == (ChainState.COMPLETED, "x")
    assert foreign.state is ChainState.FAILED
    said = {"handle": "the delivery that starts it", "continuation": "the delivery that made it"}
    assert said[what] in (foreign.error or "")
