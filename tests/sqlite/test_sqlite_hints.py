"""Who is told that there may be work, and who is left in peace."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from tests.sqlite.sqlite_kit import child, finish, jobs, line, opened, plain, run, take, tell, until
from windlass import App
from windlass.store.records import COMPLETE
from windlass.stores.sqlite import SqliteStore


class Hints:
    """Counts hints, and knows when the store has settled down."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        self.due: list[float | None] = []
        self.stop = store.subscribe(self._hint, due=self.due.append)

    def _hint(self) -> None:
        self.count += 1

    async def settle_down(self) -> None:
        """The first look always hints: whatever was there before may be new to us."""
        await until(lambda: self.count > 0)
        self.count = 0


def test_our_own_jobs_hint_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            hints = Hints(store)
            await hints.settle_down()
            await store.enqueue(jobs(1))
            await until(lambda: hints.count == 1)
            leases = await take(store)
            await store.settle([(lease, COMPLETE) for lease in leases])
            await store.counts()
            assert hints.count == 1, "completing a job gives nobody anything to do"
            hints.stop()

    run(scenario())


def test_a_freed_queue_hints(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(2, queue="q"))
            [lease] = await take(store)
            hints = Hints(store)
            await hints.settle_down()
            await store.settle([(lease, COMPLETE)])
            await until(lambda: hints.count == 1)
            hints.stop()

    run(scenario())


def test_another_processs_jobs_hint(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            hints = Hints(store)
            await hints.settle_down()
            process = child("add_when_told", path)
            assert await asyncio.to_thread(line, process) == "here"
            hints.count = 0
            tell(process, "go")
            await until(lambda: hints.count > 0)
            [lease] = await take(store)
            assert str(lease.job_id) == await asyncio.to_thread(line, process)
            await asyncio.to_thread(finish, process, "\n")
            hints.stop()

    run(scenario())


def test_commits_that_bring_no_work_do_not_hint(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            hints = Hints(store)
            await hints.settle_down()
            with closing(plain(path)) as connection:
                connection.execute("CREATE TABLE orders (n)")
                connection.commit()
            store.lifeline().renew("w", 30.0, [])
            looked = store.looks
            await until(lambda: store.looks >= looked + 3)
            assert (hints.count, hints.due) == (0, [])
            hints.stop()

    run(scenario())


def test_a_job_to_come_hints_at_its_time_and_at_nothing_to_claim(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            hints = Hints(store)
            await hints.settle_down()
            await store.enqueue(jobs(1, delay=400_000_000))
            await store.counts()
            assert hints.due == [], "far off: the next poll comes before"
            await store.enqueue([*jobs(1, delay=60_000_000), *jobs(1, delay=30_000_000)])
            await until(lambda: len(hints.due) == 1)
            assert 29 < (hints.due[0] or 0) <= 30
            assert hints.count == 0
            await store.enqueue([*jobs(1, delay=60_000_000), *jobs(1)])
            await until(lambda: hints.count == 1)
            hints.stop()

    run(scenario())


def test_another_connections_jobs_to_come_hint_at_their_time(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store, opened(path) as other:
            hints = Hints(store)
            await hints.settle_down()
            await other.enqueue(jobs(1, delay=400_000_000))
            looked = store.looks
            await until(lambda: store.looks >= looked + 3)
            assert hints.due == []
            [job] = await other.enqueue(jobs(1, delay=60_000_000))
            await until(lambda: len(hints.due) == 1)
            await other.reschedule([job.id], run_at=await other.now() + 30_000_000)
            await until(lambda: len(hints.due) == 2)
            sooner, later = sorted(seconds or 0 for seconds in hints.due)
            assert 29 < sooner <= 30 < 59 < later <= 60
            assert hints.count == 0
            hints.stop()

    run(scenario())


def test_one_who_stopped_hears_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            kept, stopped = Hints(store), Hints(store)
            await kept.settle_down()
            await stopped.settle_down()
            stopped.stop()
            stopped.stop()
            await store.enqueue(jobs(1))
            await until(lambda: kept.count == 1)
            assert stopped.count == 0
            kept.stop()

    run(scenario())


def test_a_subscriber_that_raises_hurts_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:

            def broken() -> None:
                raise RuntimeError("broken subscriber")

            stop = store.subscribe(broken)
            hints = Hints(store)
            await store.enqueue(jobs(1))
            await until(lambda: hints.count > 0)
            assert len(await take(store)) == 1
            stop()
            hints.stop()

    run(scenario())


def test_subscribers_stay_when_the_store_is_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.close()
            hints = Hints(store)
            await store.open()
            await hints.settle_down()
            await store.enqueue(jobs(1))
            await until(lambda: hints.count == 1)
            hints.stop()

    run(scenario())


def test_with_one_slot_a_serial_queue_goes_before_less_urgent_jobs(tmp_path: Path) -> None:
    """Its next job is claimable only once the one before is settled, when others lie buffered."""
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    ran: list[str] = []

    @app.task
    async def t(name: str) -> None:
        ran.append(name)

    async def scenario() -> None:
        async with app:
            await t.using(priority=10).aenqueue_many([{"name": "later"}] * 300)
            await t.using(queue="q").aenqueue_many([{"name": "serial"}] * 20)
            runner = await app.run(handle_signals=False, concurrency=1, once=True)
            await runner.wait()

    run(scenario())
    assert ran == ["serial"] * 20 + ["later"] * 300
