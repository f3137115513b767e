"""The generic worker: `Worker(store, handler, WorkerOptions(…))`, `Resetter` and `run_all`."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import JobState, Poison, Resetter, Retry, Worker, WorkerOptions, run_all
from windlass.errors import ConfigError, DurationError, StoreClosedError, TaskNameError
from windlass.model.job import Job
from windlass.store.defaults import WorkDefaults
from windlass.store.records import ClaimRequest
from windlass.stores.memory import MemoryStore
from windlass.testing import FakeClock


def make(bench: Bench, handler: Any, **options: Any) -> Worker[Job]:
    given = WorkerOptions(**{"name": "generic", "tasks": ["t"], **options})
    return Worker(bench.store, handler, given, clock=bench.clock)


def refused(handler: Any = None, store: Any = None, **options: Any) -> str:
    """What is said of a worker that cannot be made."""
    given = WorkerOptions(**{"name": "generic", "tasks": ["t"], **options})
    with pytest.raises(ConfigError) as refusal:
        Worker(store or MemoryStore(FakeClock()), handler or _nothing, given)
    return str(refusal.value)


def _nothing(record: Any) -> None: ...


async def ended(bench: Bench, *jobs: Job) -> None:
    """Wait until none of these jobs will run again."""
    for job in jobs:
        while (seen := await bench.ledger.get(job.id)) is not None and not seen.state.is_final:
            await asyncio.sleep(0.01)


# ── handlers ──


class Hooked:
    """Every hook, all of them plain or all of them `async def`."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def pre_dequeue(self) -> bool:
        if "pre_dequeue" not in self.seen:
            self.seen.append("pre_dequeue")
        return True

    def pre_handle(self, ctx: Any, record: Job) -> None:
        self.seen.append(("pre_handle", ctx.job.id, record.payload))

    def handle(self, ctx: Any, store: Any, record: Job) -> None:
        self.seen.append(("handle", ctx.job.id, record.payload, store))

    def post_handle(self, ctx: Any, record: Job) -> None:
        self.seen.append(("post_handle", ctx.job.id, record.payload))


class AsyncHooked(Hooked):
    async def pre_dequeue(self) -> bool:  # type: ignore[override]
        await asyncio.sleep(0.1)
        return super().pre_dequeue()

    async def pre_handle(self, ctx: Any, record: Job) -> None:  # type: ignore[override]
        await asyncio.sleep(0.1)
        super().pre_handle(ctx, record)

    async def handle(self, ctx: Any, store: Any, record: Job) -> None:  # type: ignore[override]
        await asyncio.sleep(0.1)
        super().handle(ctx, store, record)

    async def post_handle(self, ctx: Any, record: Job) -> None:  # type: ignore[override]
        await asyncio.sleep(0.1)
        super().post_handle(ctx, record)


@pytest.mark.parametrize("kind", [Hooked, AsyncHooked])
@virtual
async def test_all_hooks_in_their_order(bench: Bench, kind: type[Hooked]) -> None:
    job = await bench.add("t", {"n": 1})
    async with make(bench, kind(bench.seen)):
        await wait_until(lambda: len(bench.seen) == 4)
    assert bench.seen == [
        "pre_dequeue",
        ("pre_handle", job.id, {"n": 1}),
        ("handle", job.id, {"n": 1}, bench.store),
        ("post_handle", job.id, {"n": 1}),
    ]


@pytest.mark.parametrize("hook", ["pre_dequeue", "pre_handle", "post_handle"])
@pytest.mark.parametrize("kind", [Hooked, AsyncHooked])
@virtual
async def test_each_hook_alone(bench: Bench, kind: type[Hooked], hook: str) -> None:
    whole = kind(bench.seen)

    class Alone:
        handle = whole.handle

    setattr(Alone, hook, getattr(whole, hook))
    await bench.add("t", {"n": 1})
    async with make(bench, Alone()):
        await wait_until(lambda: len(bench.seen) == 2)
    named = [word if isinstance(word, str) else word[0] for word in bench.seen]
    assert sorted(named) == sorted(["handle", hook])


@virtual
async def test_handle_alone_is_enough(bench: Bench) -> None:
    whole = AsyncHooked(bench.seen)

    class Alone:
        handle = whole.handle

    job = await bench.add("t")
    async with make(bench, Alone()):
        await ended(bench, job)
    assert [word[0] for word in bench.seen] == ["handle"]


def _functions(seen: list[Any]) -> dict[str, Any]:
    def one(record: Job) -> None:
        seen.append(record.payload["n"])

    def two(ctx: Any, record: Job) -> None:
        seen.append(ctx.job.payload["n"])

    def three(ctx: Any, store: Any, record: Job) -> None:
        assert hasattr(store, "claim")
        seen.append(ctx.job.payload["n"])

    async def async_one(record: Job) -> None:
        one(record)

    async def async_two(ctx: Any, record: Job) -> None:
        two(ctx, record)

    async def async_three(ctx: Any, store: Any, record: Job) -> None:
        three(ctx, store, record)

    def any_number(*args: Any) -> None:
        three(*args)

    def with_a_default(ctx: Any, store: Any, record: Job, more: int = 1) -> None:
        three(ctx, store, record)

    class Callable_:
        async def __call__(self, record: Job) -> None:
            one(record)

    async def from_partial(word: str, record: Job) -> None:
        assert word == "given"
        one(record)

    return {
        "one": one,
        "two": two,
        "three": three,
        "async_one": async_one,
        "async_two": async_two,
        "async_three": async_three,
        "any_number": any_number,
        "with_a_default": with_a_default,
        "callable": Callable_(),
        "partial": functools.partial(from_partial, "given"),
        "lambda": lambda record: one(record),
    }


@pytest.mark.parametrize("name", sorted(_functions([])))
@virtual
async def test_a_function_is_a_handler(bench: Bench, name: str) -> None:
    job = await bench.add("t", {"n": 7})
    async with make(bench, _functions(bench.seen)[name]):
        await ended(bench, job)
    assert bench.seen == [7]
    assert await bench.gone(job)


def _wrong() -> dict[str, Any]:
    def none() -> None: ...

    def too_many(a: int, ctx: Any, store: Any, record: Any) -> None: ...

    def by_name(record: Any, *, must: int) -> None: ...

    class NoHandle:
        def pre_handle(self, ctx: Any, record: Any) -> None: ...

    class NotCallable:
        handle = "by hand"

    class Whole:
        def handle(self, ctx: Any, store: Any, record: Any) -> None: ...

    return {
        "nothing": object(),
        "number": 7,
        "no_handle": NoHandle(),
        "not_callable": NotCallable(),
        "none": none,
        "too_many": too_many,
        "by_name": by_name,
        "class": Whole,
    }


@pytest.mark.parametrize("name", sorted(_wrong()))
def test_a_wrong_handler_is_refused(name: str) -> None:
    assert "handle" in refused(_wrong()[name])


# ── pre_dequeue ──


class Gate:
    """Answers what it is told to, and counts how often it was asked."""

    def __init__(self, answer: Any, seen: list[Any]) -> None:
        self.answer = answer
        self.asked = 0
        self.seen = seen

    def pre_dequeue(self) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def handle(self, ctx: Any, store: Any, record: Job) -> None:
        self.seen.append(record.id)


@pytest.mark.parametrize("answer", [True, (True, ()), (True, None), (True, [])])
@virtual
async def test_pre_dequeue_lets_jobs_be_taken(bench: Bench, answer: Any) -> None:
    jobs = [await bench.add("t") for _ in range(3)]
    async with make(bench, Gate(answer, bench.seen)):
        await ended(bench, *jobs)
    assert bench.seen == [job.id for job in jobs]
    assert [request.limit for _, request, _ in bench.ledger.claims] == [1] * len(
        bench.ledger.claims
    )


@pytest.mark.parametrize("answer", [False, (False, ()), (False, ["size < 3"]), None])
@virtual
async def test_pre_dequeue_vetoes_until_it_is_asked_again(bench: Bench, answer: Any) -> None:
    gate = Gate(answer, bench.seen)
    job = await bench.add("t")
    async with make(bench, gate, interval=3.0):
        await wait_until(lambda: gate.asked == 4)
        assert bench.ledger.claims == []
        gate.answer = True
        await ended(bench, job)
    assert bench.seen == [job.id]
    assert bench.clock.elapsed >= 3 * 3.0


@virtual
async def test_conditions_are_given_to_the_claim(bench: Bench) -> None:
    class Knowing(MemoryStore):
        async def claim(self, request: ClaimRequest) -> Any:
            bench.seen.append(request.conditions)
            return []

    gate = Gate((True, ["size < 3", 7]), [])
    options = WorkerOptions(name="generic", tasks=["t"])
    async with Worker(Knowing(bench.clock), gate, options, clock=bench.clock):
        await wait_until(lambda: bool(bench.seen))
    assert bench.seen[0] == ("size < 3", 7)


@virtual
async def test_a_store_that_knows_no_conditions_says_so_and_loses_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate((True, ["size < 3"]), bench.seen)
    job = await bench.add("t")
    async with make(bench, gate):
        await wait_until(lambda: gate.asked == 3)
        assert (await bench.get(job)).state is JobState.READY
        assert "conditions" in caplog.text
        gate.answer = True
        await ended(bench, job)
    assert bench.seen == [job.id]


@virtual
async def test_a_pre_dequeue_that_raises_is_logged_and_asked_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(ValueError("no meter"), bench.seen)
    job = await bench.add("t")
    async with make(bench, gate, interval=2.0):
        await wait_until(lambda: gate.asked == 3)
        assert bench.ledger.claims == []
        gate.answer = True
        await ended(bench, job)
    assert bench.seen == [job.id]
    assert caplog.text.count("pre_dequeue raised") == 3
    assert "no meter" in caplog.text


class Budget:
    """Headroom that `pre_handle` lowers and `post_handle` raises; both take their time."""

    def __init__(self, headroom: int) -> None:
        self.headroom = headroom
        self.least = headroom
        self.running = 0
        self.most = 0

    async def pre_dequeue(self) -> bool:
        await asyncio.sleep(0.01)
        return self.headroom > 0

    async def pre_handle(self, ctx: Any, record: Job) -> None:
        await asyncio.sleep(0.5)
        self.headroom -= 1
        self.least = min(self.least, self.headroom)

    async def handle(self, ctx: Any, store: Any, record: Job) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(30)
            if record.payload["n"] % 3 == 0:
                raise ValueError("also gives its share back")
        finally:
            self.running -= 1

    async def post_handle(self, ctx: Any, record: Job) -> None:
        await asyncio.sleep(0.2)
        self.headroom += 1


@virtual
async def test_a_budget_is_used_and_never_exceeded(bench: Bench) -> None:
    budget = Budget(3)
    jobs = [await bench.add("t", {"n": n}) for n in range(20)]
    async with make(bench, budget, num_handlers=10, max_attempts=1):
        await ended(bench, *jobs)
    assert (budget.least, budget.most, budget.headroom) == (0, 3, 3)


# ── post_handle ──


class Ends:
    """Each record says how it ends; `post_handle` looks at what the store has by then."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.begun: list[tuple[int, int]] = []
        self.after: list[tuple[int, int]] = []
        self.states: dict[str, Any] = {}
        self.reasons: list[str] = []

    async def handle(self, ctx: Any, store: Any, record: Job) -> None:
        self.begun.append((record.id, record.deliveries))
        match record.payload["end"]:
            case "failed":
                raise ValueError("no")
            case "poisoned":
                raise Poison("never")
            case "lost" if record.deliveries > 1:
                return
            case "cancelled" | "timed_out" | "lost":
                try:
                    await asyncio.sleep(10_000)
                finally:
                    self.reasons.append(ctx.abort.reason.value)

    async def post_handle(self, ctx: Any, record: Job) -> None:
        self.after.append((record.id, record.deliveries))
        seen = await self.bench.ledger.get(record.id)
        self.states.setdefault(record.payload["end"], seen and seen.state)


@virtual
async def test_post_handle_runs_once_after_every_end(bench: Bench) -> None:
    ends = Ends(bench)
    words = ("completed", "failed", "poisoned", "cancelled", "timed_out")
    jobs = {word: await bench.add("t", {"end": word}) for word in words}
    options = {"num_handlers": 5, "max_attempts": 1, "maximum_runtime_per_job": 60.0}
    async with make(bench, ends, **options):
        await wait_until(lambda: len(ends.begun) == 5)
        await bench.ledger.cancel([jobs["cancelled"].id])
        await wait_until(lambda: len(ends.after) == 5)
    assert sorted(ends.after) == sorted(ends.begun) == [(job.id, 1) for job in jobs.values()]
    assert ends.reasons == ["cancelled", "timeout"]
    assert ends.states == {
        "completed": None,
        "failed": JobState.FAILED,
        "poisoned": JobState.FAILED,
        "cancelled": JobState.CANCELLED,
        "timed_out": JobState.FAILED,
    }


@virtual
async def test_post_handle_runs_once_for_a_job_that_was_lost(bench: Bench) -> None:
    ends = Ends(bench)
    job = await bench.add("t", {"end": "lost"})
    worker = make(bench, ends)
    async with worker:
        await wait_until(lambda: len(ends.begun) == 1)
        await bench.ledger.unlock([worker.id], 5)
        request = ClaimRequest(worker="other", tasks=("t",), limit=1, suspects=1, lease=900.0)
        assert len(await bench.ledger.claim(request)) == 1
        await wait_until(lambda: len(ends.after) == 1)
    assert ends.reasons == ["taken_by_another_worker"]
    assert ends.after == ends.begun == [(job.id, 1)]
    assert ends.states == {"lost": JobState.RUNNING}
    assert (await bench.get(job)).locked_by == "other"


@virtual
async def test_a_worker_that_takes_its_own_lost_job_again_stops_the_first_delivery(
    bench: Bench,
) -> None:
    ends = Ends(bench)
    job = await bench.add("t", {"end": "lost"})
    worker = make(bench, ends, num_handlers=2)
    async with worker:
        await wait_until(lambda: len(ends.begun) == 1)
        await bench.ledger.unlock([worker.id], 5)
        await wait_until(lambda: len(ends.after) == 2)
        assert bench.clock.elapsed < 100
    assert ends.begun == [(job.id, 1), (job.id, 2)]
    assert sorted(ends.after) == ends.begun
    assert ends.reasons == ["taken_by_another_worker"]


@virtual
async def test_post_handle_is_not_for_jobs_never_begun(bench: Bench) -> None:
    ends = Ends(bench)
    quick = [await bench.add("t", {"end": "completed"}) for _ in range(40)]
    slow = await bench.add("t", {"end": "cancelled"})
    rest = [await bench.add("t", {"end": "completed"}) for _ in range(200)]
    worker = make(bench, ends, grace=0.0)
    await worker.start()
    await wait_until(lambda: (slow.id, 1) in ends.begun)
    await worker.stop()
    taken = sum(count for _, _, count in bench.ledger.claims)
    assert taken > len(ends.begun) == len(quick) + 1  # some were taken ahead, and not begun
    assert sorted(ends.after) == sorted(ends.begun)
    for job in (slow, *rest):
        assert (await bench.get(job)).state is JobState.READY


@virtual
async def test_a_failing_pre_handle_fails_the_job_and_still_ends_with_post_handle(
    bench: Bench,
) -> None:
    class Handler(Ends):
        async def pre_handle(self, ctx: Any, record: Job) -> None:
            raise ValueError("no room after all")

    ends = Handler(bench)
    job = await bench.add("t", {"end": "completed"})
    async with make(bench, ends, max_attempts=1):
        await wait_until(lambda: len(ends.after) == 1)
    assert ends.begun == []
    assert ends.states == {"completed": JobState.FAILED}
    assert "no room after all" in ((await bench.get(job)).last_error or "")


# ── as many as handlers ──


class Rooms:
    """As many rooms as handlers: `pre_handle` takes one and `post_handle` gives it back."""

    def __init__(self, bench: Bench, count: int) -> None:
        self.bench = bench
        self.free = set(range(count))
        self.taken: dict[tuple[int, int], int] = {}
        self.begun: list[tuple[int, int]] = []
        self.given_back = 0

    async def pre_handle(self, ctx: Any, record: Job) -> None:
        assert self.free, "more records are between pre_handle and post_handle than handlers"
        self.taken[record.id, record.deliveries] = self.free.pop()

    async def handle(self, ctx: Any, store: Any, record: Job) -> None:
        self.begun.append((record.id, record.deliveries))
        match record.payload.get("end"):
            case "slow":
                await asyncio.sleep(0.3)
            case "failed":
                raise ValueError("no")
            case "stopped" if record.deliveries == 1:
                await asyncio.sleep(10_000)

    async def post_handle(self, ctx: Any, record: Job) -> None:
        await asyncio.sleep(0.5)
        self.free.add(self.taken.pop((record.id, record.deliveries)))
        self.given_back += 1


@pytest.mark.parametrize("count", [1, 3, 10])
@virtual
async def test_no_more_records_than_handlers_are_between_pre_handle_and_post_handle(
    bench: Bench, count: int
) -> None:
    rooms = Rooms(bench, count)
    ends = ["completed", "failed", "slow"]
    jobs = [await bench.add("t", {"end": ends[n % 3]}) for n in range(6 * count)]
    async with make(bench, rooms, num_handlers=count, max_attempts=1):
        await ended(bench, *jobs)
    assert rooms.given_back == len(jobs), "each of them found a room"
    failed = [job.payload["end"] for job in jobs if not await bench.gone(job)]
    assert set(failed) == {"failed"}, "none for want of a room"
    assert len(rooms.free) == count


@pytest.mark.parametrize("why", ["cancelled", "timed out", "lost"])
@virtual
async def test_a_record_that_was_stopped_keeps_its_place_until_post_handle_ends(
    bench: Bench, why: str
) -> None:
    rooms = Rooms(bench, 1)
    stopped = await bench.add("t", {"end": "stopped"})
    await bench.add("t", {"end": "slow"})
    timeout = 60.0 if why == "timed out" else None
    worker = make(bench, rooms, max_attempts=1, maximum_runtime_per_job=timeout)
    async with worker:
        await wait_until(lambda: len(rooms.begun) == 1)
        if why == "cancelled":
            await bench.ledger.cancel([stopped.id])
        elif why == "lost":
            await bench.ledger.unlock([worker.id], 5)
        await wait_until(lambda: rooms.given_back == len(rooms.begun) >= 2)
        await bench.idle()
    assert len(rooms.begun) == (3 if why == "lost" else 2), "each began in a room of its own"
    assert not rooms.taken


@virtual
async def test_a_thread_that_goes_on_keeps_its_place_until_post_handle_ends(bench: Bench) -> None:
    go_on = threading.Event()
    between: list[int] = []

    class Handler:
        most = 0

        def pre_handle(self, ctx: Any, record: Job) -> None:
            between.append(record.id)
            self.most = max(self.most, len(between))

        def handle(self, record: Job) -> None:
            with bench.clock.waiting():
                go_on.wait(20)

        async def post_handle(self, ctx: Any, record: Job) -> None:
            await asyncio.sleep(5)
            between.remove(record.id)

    handler = Handler()
    jobs = [await bench.add("t") for _ in range(3)]
    async with make(bench, handler, max_attempts=1, maximum_runtime_per_job=2.0):
        await wait_until(lambda: bool(between))
        await asyncio.sleep(60)
        assert between == [jobs[0].id], "it was told to stop long ago, and its thread goes on"
        assert (await bench.get(jobs[0])).state is JobState.RUNNING
        go_on.set()
        await ended(bench, *jobs)
    assert (handler.most, between) == (1, [])


@virtual
async def test_a_record_whose_outcome_cannot_be_written_yet_keeps_its_place(bench: Bench) -> None:
    rooms = Rooms(bench, 2)
    held = await bench.add("t", {"end": "completed"})
    others = [await bench.add("t", {"end": "completed"}) for _ in range(4)]
    bench.ledger.held.add(held.id)
    async with make(bench, rooms, num_handlers=2):
        await ended(bench, *others)
        assert (held.id, 1) in rooms.taken
        bench.ledger.held.clear()
        await ended(bench, held)
    assert rooms.given_back == 5


@virtual
async def test_a_store_that_was_closed_holds_no_place_for_ever(bench: Bench) -> None:
    rooms = Rooms(bench, 1)
    await bench.add("t", {"end": "slow"})
    worker = make(bench, rooms, grace=600.0)
    await worker.start()
    await wait_until(lambda: len(rooms.begun) == 1)
    await bench.ledger.close()
    began = bench.clock.elapsed
    with pytest.raises(StoreClosedError):
        await worker.wait()
    assert bench.clock.elapsed - began < 60
    assert rooms.given_back == 1


# ── options ──


@virtual
async def test_it_ends_by_itself_after_num_total_jobs(bench: Bench) -> None:
    jobs = [await bench.add("t", {"n": n}) for n in range(9)]

    async def handle(record: Job) -> None:
        bench.seen.append(record.id)

    worker = make(bench, handle, num_total_jobs=4, num_handlers=3)
    await worker.start()
    await worker.wait()
    assert sorted(bench.seen) == [job.id for job in jobs[:4]]
    assert worker.completed == 4
    for job in jobs[4:]:
        assert (await bench.get(job)).state is JobState.READY


@pytest.mark.parametrize("seconds", [60, timedelta(minutes=1)])
@virtual
async def test_a_handler_that_runs_too_long_is_stopped(bench: Bench, seconds: Any) -> None:
    async def handle(ctx: Any, record: Job) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            bench.seen.append((ctx.abort.reason.value, bench.clock.elapsed))

    job = await bench.add("t")
    async with make(bench, handle, maximum_runtime_per_job=seconds, retry=Retry.fixed(100)):
        await wait_until(lambda: bool(bench.seen))
        await asyncio.sleep(1)
        seen = await bench.get(job)
    assert bench.seen == [("timeout", 60.0)]
    assert (seen.state, seen.attempts) == (JobState.SCHEDULED, 1)
    assert "60 s" in (seen.last_error or "")


@pytest.mark.parametrize("interval", [7.0, timedelta(seconds=7)])
@virtual
async def test_it_looks_again_every_interval(bench: Bench, interval: Any) -> None:
    async with make(bench, _nothing, interval=interval):
        await wait_until(lambda: len(bench.ledger.claims) == 5)
    times = [at for at, _, _ in bench.ledger.claims]
    assert times == [0.0, 7.0, 14.0, 21.0, 28.0]


@virtual
async def test_retries_are_as_the_options_say(bench: Bench) -> None:
    async def handle(record: Job) -> None:
        bench.seen.append(bench.clock.elapsed)
        raise ValueError("no")

    job = await bench.add("t")
    async with make(bench, handle, retry=Retry.fixed(20), max_attempts=3):
        await ended(bench, job)
    assert (await bench.get(job)).attempts == 3
    assert [round(at) for at in bench.seen] == [0, 20, 40]


@virtual
async def test_the_state_given_is_the_contexts(bench: Bench) -> None:
    async def handle(ctx: Any, record: Job) -> None:
        bench.seen.append((ctx.state, ctx.worker_id))

    job = await bench.add("t")
    options = WorkerOptions(name="with spaces!", tasks=["t"])
    worker: Worker[Job] = Worker(bench.store, handle, options, state={"db": 1}, clock=bench.clock)
    async with worker:
        await ended(bench, job)
    assert bench.seen == [({"db": 1}, worker.id)]
    assert worker.id.startswith("with-spaces-")


@virtual
async def test_there_is_no_queue_to_add_jobs_to(bench: Bench) -> None:
    async def handle(ctx: Any, record: Job) -> None:
        await ctx.add_job("t")

    job = await bench.add("t")
    async with make(bench, handle, max_attempts=1):
        await ended(bench, job)
    assert "no queue to add jobs to" in ((await bench.get(job)).last_error or "")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((name, value) for name in ("num_handlers", "num_total_jobs") for value in (0, -1)),
        *((name, value) for name in ("num_handlers", "num_total_jobs") for value in (1.5, "2")),
        ("num_handlers", True),
        ("num_handlers", None),
        ("max_attempts", 0),
        ("max_attempts", "3"),
        ("name", ""),
        ("tasks", ""),
        ("tasks", "mail"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(option: str, value: Any) -> None:
    assert option.removesuffix("s") in refused(**{option: value})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", True])
@pytest.mark.parametrize(
    "option", ["interval", "maximum_runtime_per_job", "reset_interval", "lease", "grace"]
)
def test_a_bad_duration_is_refused_by_its_name(option: str, value: Any) -> None:
    if (option, value) == ("grace", 0):
        return  # no time at all to finish is a grace too
    given = WorkerOptions(**{"name": "generic", "tasks": ["t"], option: value})
    with pytest.raises((ConfigError, DurationError), match=option):
        Worker(MemoryStore(FakeClock()), _nothing, given)


def test_a_task_without_a_name_is_refused() -> None:
    options = WorkerOptions(name="generic", tasks=[""])
    with pytest.raises(TaskNameError, match="task must not be empty"):
        Worker(MemoryStore(FakeClock()), _nothing, options)


def test_a_worker_without_tasks_is_refused() -> None:
    assert "which tasks?" in refused(tasks=[])


class Saying(MemoryStore):
    """A store that says itself how it is worked on."""

    defaults = WorkDefaults(tasks=("t",), lease=12.0, max_attempts=2, retry=Retry.fixed(3))


def test_a_lease_is_refused_where_the_store_says_it_itself() -> None:
    assert "leave lease out" in refused(store=Saying(FakeClock()), lease=30.0)


@virtual
async def test_what_the_store_says_counts_where_nobody_says_otherwise(bench: Bench) -> None:
    class Watched(Saying):
        async def claim(self, request: ClaimRequest) -> Any:
            bench.seen.append((request.tasks, request.lease))
            return await super().claim(request)

    tries: list[float] = []

    async def handle(record: Job) -> None:
        tries.append(bench.clock.elapsed)
        raise ValueError("no")

    store = Watched(bench.clock)
    app = bench.new_app()
    app.store = store
    job = await app.client.add_job("t")
    async with Worker(store, handle, WorkerOptions(name="generic"), clock=bench.clock):
        await wait_until(lambda: len(tries) == 2)
        await asyncio.sleep(10)
    assert bench.seen[0] == (("t",), 12.0)
    assert [round(at) for at in tries] == [0, 3]
    failed = await store.get(job.id)
    assert failed is not None and failed.state is JobState.FAILED


# ── life ──


@virtual
async def test_leaving_the_block_waits_for_what_runs(bench: Bench) -> None:
    async def handle(record: Job) -> None:
        bench.seen.append("begun")
        await asyncio.sleep(10)
        bench.seen.append("ended")

    job = await bench.add("t")
    async with make(bench, handle):
        await wait_until(lambda: bool(bench.seen))
    assert bench.seen == ["begun", "ended"]
    assert await bench.gone(job)
    assert await bench.ledger.workers() == []


@virtual
async def test_hurry_hands_back_what_runs(bench: Bench) -> None:
    async def handle(record: Job) -> None:
        bench.seen.append(record.id)
        await asyncio.sleep(1_000)

    job = await bench.add("t")
    worker = make(bench, handle, grace=900.0)
    await worker.start()
    await wait_until(lambda: bool(bench.seen))
    worker.hurry()
    await worker.wait()
    assert bench.clock.elapsed < 100
    seen = await bench.get(job)
    assert (seen.state, seen.attempts) == (JobState.READY, 0)


@virtual
async def test_a_worker_whose_store_is_closed_ends_with_that(bench: Bench) -> None:
    worker = make(bench, _nothing)
    await worker.start()
    await bench.ledger.close()
    with pytest.raises(StoreClosedError):
        await worker.wait()


# ── resetting ──


async def _die(bench: Bench) -> Job:
    """A job in the hands of a worker that is no more."""
    job = await bench.add("t")
    await bench.ledger.claim(ClaimRequest(worker="dead", tasks=("t",), limit=1, lease=30.0))
    return job


@virtual
async def test_a_worker_takes_back_what_dead_ones_held(bench: Bench) -> None:
    job = await _die(bench)
    async with make(bench, _nothing):
        await ended(bench, job)
    assert 30 <= bench.clock.elapsed <= 36


@virtual
async def test_without_a_reset_interval_it_leaves_them_to_a_resetter(bench: Bench) -> None:
    job = await _die(bench)
    async with make(bench, _nothing, reset_interval=None):
        await asyncio.sleep(600)
        assert (await bench.get(job)).locked_by == "dead"
        resetter = Resetter(bench.store, timedelta(seconds=10))  # type: ignore[arg-type]
        await resetter.start()
        await ended(bench, job)
        await resetter.stop()


@virtual
async def test_a_resetter_alone_takes_jobs_back(bench: Bench) -> None:
    job = await _die(bench)
    resetter = Resetter(bench.store, 10.0)
    await resetter.start()
    while (await bench.get(job)).state is not JobState.READY:
        await asyncio.sleep(0.1)
    await resetter.stop()
    await resetter.wait()
    assert 30 <= bench.clock.elapsed <= 41


@pytest.mark.parametrize("interval", [0, -1, float("nan"), "5", None])
def test_a_resetter_needs_an_interval(interval: Any) -> None:
    with pytest.raises((ConfigError, DurationError), match="interval"):
        Resetter(MemoryStore(FakeClock()), interval)


@virtual
async def test_a_resetter_whose_store_is_closed_ends_with_that(bench: Bench) -> None:
    resetter = Resetter(bench.store, 10.0)
    await resetter.start()
    await bench.ledger.close()
    with pytest.raises(StoreClosedError):
        await resetter.wait()


# ── run_all ──


class Routine:
    """Writes down what is done with it; `end` ends it, with an error or without."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen
        self.ended = asyncio.get_running_loop().create_future()
        self.refuses: Exception | None = None
        self.is_hurried = False

    async def start(self) -> None:
        self.seen.append(f"start {self.name}")
        if self.refuses is not None:
            raise self.refuses

    async def stop(self) -> None:
        self.seen.append(f"stop {self.name}")
        if not self.ended.done():
            self.ended.set_result(None)
        self.ended.result()  # as a worker's: what ended it is raised here too

    def hurry(self) -> None:
        self.is_hurried = True

    async def wait(self) -> None:
        await asyncio.shield(self.ended)


def _routines(bench: Bench) -> list[Routine]:
    return [Routine(name, bench.seen) for name in "abc"]


STARTED_AND_STOPPED = ["start a", "start b", "start c", "stop c", "stop b", "stop a"]


@virtual
async def test_routines_start_in_order_and_stop_in_reverse(bench: Bench) -> None:
    routines = _routines(bench)
    running = asyncio.ensure_future(run_all(*routines, handle_signals=False))
    await wait_until(lambda: len(bench.seen) == 3)
    routines[1].ended.set_result(None)
    await running
    assert bench.seen == STARTED_AND_STOPPED


@pytest.mark.parametrize("which", [0, 1, 2])
@virtual
async def test_what_ended_one_is_raised_after_all_are_stopped(bench: Bench, which: int) -> None:
    routines = _routines(bench)
    running = asyncio.ensure_future(run_all(*routines, handle_signals=False))
    await wait_until(lambda: len(bench.seen) == 3)
    routines[which].ended.set_exception(StoreClosedError("gone"))
    with pytest.raises(StoreClosedError, match="gone"):
        await running
    assert bench.seen == STARTED_AND_STOPPED


@virtual
async def test_what_cannot_start_stops_what_was_started(bench: Bench) -> None:
    routines = _routines(bench)
    routines[2].refuses = ConfigError("no table")
    with pytest.raises(ConfigError, match="no table"):
        await run_all(*routines, handle_signals=False)
    assert bench.seen == ["start a", "start b", "start c", "stop b", "stop a"]


@virtual
async def test_a_cancelled_run_stops_all(bench: Bench) -> None:
    running = asyncio.ensure_future(run_all(*_routines(bench), handle_signals=False))
    await wait_until(lambda: len(bench.seen) == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.seen == STARTED_AND_STOPPED


def _own_signals(body: Callable[[asyncio.AbstractEventLoop, list[str]], Any]) -> None:
    """On a real loop: a virtual one has no signals."""

    async def run() -> None:
        await body(asyncio.get_running_loop(), [])

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(run())
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_and_its_handler_is_given_back(number: signal.Signals) -> None:
    async def body(loop: asyncio.AbstractEventLoop, seen: list[str]) -> None:
        routines = [Routine(name, seen) for name in "abc"]
        running = asyncio.ensure_future(run_all(*routines))
        while len(seen) < 3:
            await asyncio.sleep(0)
        signal.raise_signal(number)
        await running
        assert seen == STARTED_AND_STOPPED
        assert not any(routine.is_hurried for routine in routines)

    _own_signals(body)


def test_signals_are_given_back_when_one_ends_with_an_error() -> None:
    async def body(loop: asyncio.AbstractEventLoop, seen: list[str]) -> None:
        routines = [Routine(name, seen) for name in "abc"]
        running = asyncio.ensure_future(run_all(*routines))
        while len(seen) < 3:
            await asyncio.sleep(0)
        routines[2].ended.set_exception(StoreClosedError("gone"))
        with pytest.raises(StoreClosedError):
            await running
        assert not loop.remove_signal_handler(signal.SIGTERM)

    _own_signals(body)


@virtual
async def test_it_ends_when_a_worker_had_its_jobs(bench: Bench) -> None:
    async def handle(record: Job) -> None:
        bench.seen.append(record.id)

    jobs = [await bench.add("t") for _ in range(3)]
    worker = make(bench, handle, num_total_jobs=2, reset_interval=None)
    await run_all(worker, Resetter(bench.store, 10.0), handle_signals=False)
    assert bench.seen == [job.id for job in jobs[:2]]


@virtual
async def test_workers_and_resetter_end_with_the_store_they_share(bench: Bench) -> None:
    workers = [make(bench, _nothing, reset_interval=None) for _ in range(2)]
    resetter = Resetter(bench.store, 1.0)
    running = asyncio.ensure_future(run_all(*workers, resetter, handle_signals=False))
    await asyncio.sleep(5)
    await bench.ledger.close()
    with pytest.raises(StoreClosedError):
        await running
