"""Outcomes that the database will not have, handlers of odd shapes, hooks and threads."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, Ledger, virtual, wait_until
from windlass import ConfigError, Context, Job, JobState
from windlass.engine import settler
from windlass.engine.object_handler import ObjectHandler
from windlass.errors import StoreError
from windlass.store.records import Lease, Outcome, Settled
from windlass.testing import FaultyStore


class Picky(Ledger):
    """Refuses a batch that has the outcome of a job it dislikes, as a user's trigger may."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.disliked: Callable[[int], bool] = lambda job_id: False
        self.error: Exception = StoreError("a trigger says no")

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        if any(self.disliked(lease.job_id) for lease, _ in settlements):
            raise self.error
        return await super().settle(settlements)


def picky(bench: Bench) -> Picky:
    store = Picky(bench.clock)
    bench.ledger = store
    bench.store = bench.app.store = FaultyStore(store)
    return store


@pytest.mark.parametrize(
    "error", [StoreError("a trigger says no"), IndexError("the store says no")], ids=repr
)
@virtual
async def test_an_outcome_that_is_refused_holds_up_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    store = picky(bench)
    store.error = error

    @bench.app.task
    async def t() -> None: ...

    jobs = [await bench.add("t") for _ in range(40)]
    bad = jobs[7]
    store.disliked = lambda job_id: job_id == bad.id
    await bench.start()
    others = [job for job in jobs if job is not bad]
    await asyncio.sleep(30)
    assert all([await bench.gone(job) for job in others])
    assert (await bench.get(bad)).state is JobState.RUNNING
    told = [r.getMessage() for r in caplog.records if "is refused" in r.getMessage()]
    assert len(told) == 1 and f"job {bad.id}" in told[0] and "says no" in told[0]
    assert "does not answer" not in caplog.text
    store.disliked = lambda job_id: False
    await asyncio.sleep(5)
    assert await bench.gone(bad)
    assert len([lease for lease, _, _ in store.settled if lease.job_id == bad.id]) == 1


@virtual
async def test_slots_wait_when_every_outcome_is_refused(bench: Bench) -> None:
    store = picky(bench)
    store.disliked = lambda job_id: True
    ran = 0

    @bench.app.task
    async def t() -> None:
        nonlocal ran
        ran += 1

    for _ in range(1_000):
        await bench.add("t")
    runner = await bench.start(concurrency=2, prefetch=0)
    await asyncio.sleep(120)
    assert settler.MOST_REFUSED <= ran <= settler.MOST_REFUSED + 10
    store.disliked = lambda job_id: False
    await wait_until(lambda: ran == 1_000, pause=1.0)
    await runner.stop()


@virtual
async def test_a_hook_waits_for_the_thread_that_goes_on(bench: Bench) -> None:
    """What `post_handle` gives back is free only when nobody uses it any more."""
    go_on = threading.Event()
    seen: list[str] = []

    class Handler:
        def handle(self, record: Job) -> None:
            with bench.clock.waiting():
                go_on.wait(20)
            seen.append("handled")

        def post_handle(self, ctx: Context, record: Job) -> None:
            seen.append("after")

    await bench.add("t", max_attempts=1)
    await bench.start_object(Handler(), slots=2, plan={"timeout": 5.0})
    await asyncio.sleep(60)
    assert seen == []
    go_on.set()
    await wait_until(lambda: len(seen) == 2)
    assert seen == ["handled", "after"]


async def _async(record: Any) -> str:
    return f"async {record}"


@functools.wraps(_async)
def _wrapper(record: Any) -> str:
    return f"wrapper {record}"


def _with_option(record: Any, dry_run: bool = False) -> str:
    return f"{record} {dry_run}"


def _generator(record: Any) -> Any:
    yield record


async def _async_generator(record: Any) -> Any:
    yield record


def test_a_plain_wrapper_of_a_coroutine_function_is_plain() -> None:
    handler = ObjectHandler(_wrapper, None, ["t"], slots=1)
    assert handler._is_async is False
    assert ObjectHandler(_async, None, ["t"], slots=1)._is_async is True
    assert handler._call("ctx", "store", "record") == "wrapper record"


def test_what_is_needed_decides_what_is_given() -> None:
    handler = ObjectHandler(_with_option, None, ["t"], slots=1)
    assert handler._call("ctx", "store", "record") == "record False"


@pytest.mark.parametrize("handle", [_generator, _async_generator])
def test_a_generator_is_no_handler(handle: Any) -> None:
    with pytest.raises(ConfigError, match="generator"):
        ObjectHandler(handle, None, ["t"], slots=1)


@virtual
async def test_pre_dequeue_may_answer_with_a_list(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class Handler:
        def pre_dequeue(self) -> list[Any]:
            return [False, []]

        async def handle(self, record: Job) -> None:
            raise AssertionError("it was vetoed")

    job = await bench.add("t")
    await bench.start_object(Handler(), poll_interval=1.0)
    await asyncio.sleep(30)
    assert (await bench.get(job)).state is JobState.READY
