"""What `windlass top` asks of a store, how often, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from windlass import App
from windlass.cli.top.lines import line
from windlass.cli.top.picture import MOST_RUNNING, Picture, Speed, look
from windlass.model.job import JobState
from windlass.store.figures import BUCKETS, Depth, Figures, FigureStore, TaskFigures
from windlass.store.records import ClaimRequest, Fail, Note
from windlass.testing import FakeClock


class Counting:
    """A store that counts its calls, and may tell no figures."""

    def __init__(self, store: Any, *, figures: bool = True) -> None:
        self._store = store
        self.capabilities = msgspec.structs.replace(store.capabilities, figures=figures)
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


class Shop:
    """Jobs in memory, and time under the test's hand."""

    def __init__(self, *, figures: bool = True, tenant: str | None = None) -> None:
        self.clock = FakeClock()
        self.app = App("memory://", clock=self.clock, tenant=tenant)
        self.store = self.app.store = cast(Any, Counting(self.app.store, figures=figures))

    async def begin(self, *, limit: int = 10, worker: str = "w") -> list[Any]:
        request = ClaimRequest(worker=worker, tasks=None, limit=limit)
        return cast(list[Any], await self.store.claim(request))

    async def fail(self, error: str) -> None:
        for lease in await self.begin():
            await self.store.settle([(lease, Fail(error, final=True))])

    async def worked(self, task: str, tenant: str = "", **figures: Any) -> None:
        store = cast(FigureStore, self.store)
        await store.note_rates([TaskFigures(task, Figures(**figures), tenant)])

    async def look(self, chosen: tuple[Any, str] | None = None) -> Picture:
        return await look(self.app, chosen)


def run(body: Callable[[Shop], Awaitable[None]], **options: Any) -> None:
    async def work() -> None:
        shop = Shop(**options)
        async with shop.app:
            await body(shop)

    asyncio.run(work())


def counts(*numbers: int) -> list[int]:
    return [*numbers, *([0] * (BUCKETS - len(numbers)))]


def test_nothing() -> None:
    async def body(shop: Shop) -> None:
        picture = await shop.look()
        assert picture.speed == Speed()
        assert picture.history == (0.0,) * 60
        assert (picture.tasks, picture.queues, picture.running) == ((), (), ())
        assert (picture.failures, picture.workers) == ((), ())
        assert line(picture).endswith(
            "0 ready  0 running  0 failed  0.0 jobs/s  0.0 failing/s  0 workers"
        )

    run(body)


def test_rates_are_of_the_last_whole_minute() -> None:
    async def body(shop: Shop) -> None:
        shop.clock.advance(10 - shop.clock.now() % 10_000_000 / 1e6)
        await shop.worked("old", ok=1_000)
        shop.clock.advance(10)
        for _ in range(6):
            await shop.worked(
                "mail",
                ok=90,
                retry=10,
                waited=200_000_000,
                waits=counts(100),
                ran=1,
                runs=counts(1),
            )
            await shop.worked("mail", "acme", failed=5, poison=5, lost=10)
            shop.clock.advance(10)
        await shop.worked("mail", ok=1_000)
        picture = await shop.look()
        assert picture.speed == Speed(12.0, 2.0, 2.0, 1e-6)
        [mail] = [task for task in picture.tasks if task.name == "mail"]
        assert mail.speed == picture.speed
        assert mail.speed.failing == pytest.approx(1 / 6)
        assert picture.history[-7:] == (100.0, *([12.0] * 6))
        assert len(picture.history) == 60
        assert "12.0 jobs/s  2.00 failing/s  waited 2.0s  took 0ms" in line(picture)

    run(body)


def test_jobs_workers_and_failures() -> None:
    async def body(shop: Shop) -> None:
        client = shop.app.client
        for number in range(3):
            await client.add_job("report", {"n": number}, max_attempts=3)
        await shop.fail("LookupError: there is nothing")
        shop.clock.advance(5)
        await client.add_job("video", queue="encoding", max_attempts=7)
        await client.add_job("video", queue="encoding")
        [lease] = await shop.begin(worker="host-1")
        shop.clock.advance(2)
        await shop.store.note(lease, Note(progress='[0.25, "frame 9"]'))
        shop.clock.advance(3)
        await client.add_job("mail")
        picture = await shop.look()
        [running] = picture.running
        assert (running.task, running.queue, running.worker) == ("video", "encoding", "host-1")
        assert (running.attempt, running.max_attempts) == (1, 7)
        assert (running.progress, running.note, running.seconds) == (0.25, "frame 9", 3.0)
        [queue] = picture.queues
        assert (queue.name, queue.job, queue.task) == ("encoding", running.job, "video")
        [failure] = picture.failures
        assert (failure.task, failure.count, failure.seconds) == ("report", Depth(3), 10.0)
        assert failure.error == "LookupError: there is nothing"
        assert {task.name: task.running for task in picture.tasks} == {
            "mail": 0,
            "report": 0,
            "video": 1,
        }
        assert {worker.name: worker.running for worker in picture.workers} == {"host-1": 1, "w": 0}
        assert picture.depths.states[JobState.FAILED] == Depth(3)
        assert picture.depths.oldest_ready == 5.0
        shop.clock.advance(60)
        assert not any(worker.is_alive for worker in (await shop.look()).workers)
        assert line(await shop.look()).endswith("0 workers and 2 dead")

    run(body)


def test_what_is_paused_is_there_without_jobs() -> None:
    async def body(shop: Shop) -> None:
        client = shop.app.client
        await client.pause(task="mail")
        await client.pause(queue="encoding")
        await client.for_tenant("acme").pause(task="mail")
        await client.for_tenant("acme").pause(queue="letters")
        picture = await shop.look()
        assert {task.name: task.paused for task in picture.tasks} == {"mail": ("", "acme")}
        assert {queue.name: queue.paused for queue in picture.queues} == {
            "encoding": ("",),
            "letters": ("acme",),
        }

    run(body)


def test_one_tenant_sees_its_own() -> None:
    async def body(shop: Shop) -> None:
        everyone = shop.app.client.for_tenant(None)
        await everyone.add_job("mail")
        await shop.app.client.add_job("report")
        await shop.app.client.pause(task="report")
        await shop.worked("mail", ok=1)
        await shop.worked("report", "acme", ok=60)
        shop.clock.advance(10)
        picture = await shop.look()
        assert [(task.name, task.paused) for task in picture.tasks] == [("report", ("acme",))]
        assert picture.speed == Speed(1.0)
        assert picture.depths.states[JobState.READY] == Depth(1)

    run(body, tenant="acme")


def test_the_depths_of_what_is_chosen() -> None:
    async def body(shop: Shop) -> None:
        client = shop.app.client
        await client.add_job("mail", queue="letters")
        await client.add_job("mail")
        for chosen, count in ((("task", "mail"), 2), (("queue", "letters"), 1), (("task", "x"), 0)):
            detail = (await shop.look(cast(Any, chosen))).detail
            assert detail is not None
            assert (detail.kind, detail.name) == chosen
            assert detail.depths.states[JobState.READY] == Depth(count)
        assert (await shop.look()).detail is None

    run(body)


def test_a_look_is_ten_calls_however_much_there_is() -> None:
    async def body(shop: Shop) -> None:
        for number in range(MOST_RUNNING + 50):
            await shop.app.client.add_job(f"task {number}", queue=f"queue {number}")
            await shop.worked(f"task {number}", ok=1)
        await shop.begin(limit=MOST_RUNNING + 20)
        shop.clock.advance(10)
        shop.store.calls.clear()
        picture = await shop.look(("task", "task 1"))
        asked = shop.store.calls
        assert asked.pop("open", 0) <= 1
        assert asked == {
            "find": 2,
            "workers": 1,
            "paused": 1,
            "depths": 2,
            "rates": 2,
            "error_groups": 1,
        }
        assert len(picture.running) == MOST_RUNNING
        assert picture.is_cut
        assert len(picture.tasks) == MOST_RUNNING + 50

    run(body)


def test_a_store_that_tells_no_figures() -> None:
    async def body(shop: Shop) -> None:
        client = shop.app.client
        await client.add_job("report", max_attempts=1)
        await client.add_job("report", max_attempts=1)
        await shop.fail("oops")
        shop.clock.advance(3)
        await client.add_job("mail")
        picture = await shop.look(("task", "mail"))
        assert picture.speed is None
        assert picture.detail is None
        assert picture.depths.states[JobState.READY] == Depth(1)
        assert picture.depths.states[JobState.FAILED] == Depth(2)
        assert [(one.job, one.count, one.seconds) for one in picture.failures] == [
            (2, Depth(1), 3.0),
            (1, Depth(1), 3.0),
        ]
        assert "jobs/s" not in line(picture)

    run(body, figures=False)
