"""Leases outlive other people's transactions and jumps of the wall clock."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sqlite.sqlite_kit import guarded, jobs, opened, plain, run, take, until
from windlass import App
from windlass.errors import (
    LeaseLostError,
    StoreBusyError,
    StoreClosedError,
    StoreUnavailableError,
)
from windlass.model.job import JobState
from windlass.store.port import Lifeline
from windlass.store.records import CANCEL, COMPLETE, Lease, LostReason, Reaped, Verdict
from windlass.stores.sqlite import SqliteStore
from windlass.testing.clock import FakeClock

LEASE = 30.0


async def lock_is_awaited(store: SqliteStore) -> None:
    """Return once the store's thread waits for the lock with a write that was posted before.

    A read is served before the writes that wait, or while the lock is awaited: the second one can
    only have been served there.
    """
    await store.counts()
    await store.counts()


@pytest.mark.parametrize("waits", [True, False], ids=["it waits", "it is dead"])
def test_only_a_worker_that_says_it_waits_outlives_a_transaction(
    tmp_path: Path, waits: bool
) -> None:
    """Somebody's transaction of five leases: whoever tried to renew is alive, others are not."""
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store, opened(path, clock=clock) as other:
            await store.enqueue(jobs(3))
            held = await take(store, lease=LEASE)
            keeper = store.lifeline()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                writing = [asyncio.create_task(s.enqueue(jobs(1))) for s in (store, other)]
                for one in (store, other):
                    await lock_is_awaited(one)
                clock.advance(5 * LEASE)
                if waits:
                    with pytest.raises(StoreBusyError):
                        await asyncio.to_thread(keeper.renew, "w", LEASE, held)
                clock.advance(LEASE - 0.001)
                holder.execute("COMMIT")
            await asyncio.gather(*writing)
            taken = () if waits else tuple(lease.job_id for lease in held)
            assert (await other.reap(100, 5)).requeued == taken
            assert list(keeper.renew("w", LEASE, held).lost) == list(taken)

    run(scenario())


def test_what_a_worker_said_does_not_keep_it_alive_for_longer_than_a_lease(tmp_path: Path) -> None:
    """It was killed while it waited."""
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(1))
            [lease] = await take(store, lease=LEASE)
            keeper = store.lifeline()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                clock.advance(LEASE * 0.9)
                with pytest.raises(StoreBusyError):
                    await asyncio.to_thread(keeper.renew, "w", LEASE, [lease])
                holder.execute("COMMIT")
            clock.advance(LEASE - 0.001)
            assert await store.reap(100, 5) == Reaped()
            clock.advance(0.001)
            assert (await store.reap(100, 5)).requeued == (lease.job_id,)

    run(scenario())


def test_a_worker_that_cannot_say_that_it_waits_is_not_told_to_go_on(tmp_path: Path) -> None:
    """The keeper takes StoreBusyError for a frozen lease; anything else makes it stop in time."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(1))
            held = await take(store, lease=LEASE)
            keeper = store.lifeline()
            Path(f"{path}-waiting").mkdir()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailableError, match=r"jobs\.db-waiting"):
                    await asyncio.to_thread(keeper.renew, "w", LEASE, held)
                holder.execute("COMMIT")

    run(scenario())


def test_short_transactions_one_after_the_other_do_not_keep_the_dead_alive(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(2))
            held = await take(store, lease=2.1)
            with closing(plain(path, isolation_level=None)) as holder:
                for _ in range(7):
                    holder.execute("BEGIN IMMEDIATE")
                    writing = asyncio.create_task(store.enqueue(jobs(1)))
                    await lock_is_awaited(store)
                    clock.advance(0.3)
                    holder.execute("COMMIT")
                    await writing
            assert (await store.reap(100, 5)).requeued == tuple(lease.job_id for lease in held)

    run(scenario())


def test_a_reap_returns_however_short_leases_are(tmp_path: Path) -> None:
    """Also in a process that wrote nothing for a while."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store, opened(path) as other:
            await store.enqueue(jobs(1))
            [lease] = await take(store, lease=0.01)
            reaped = await other.reap(100, 5)
            while not reaped.total:
                reaped = await asyncio.wait_for(other.reap(100, 5), PATIENCE)
            assert reaped.requeued == (lease.job_id,)

    run(scenario())


class Rebooted:
    """The clocks of a machine that was started again: ticks begin anew, the wall may be behind."""

    def __init__(self, before: FakeClock, *, uptime: float, behind: float) -> None:
        self._ticks = before.monotonic() - uptime
        self._behind = round(behind * 1e6)
        self._clock = before

    def now(self) -> int:
        return self._clock.now() - self._behind

    def monotonic(self) -> float:
        return self._clock.monotonic() - self._ticks


@pytest.mark.parametrize("behind", [0.0, 3600.0, -3600.0], ids=["right", "behind", "ahead"])
@pytest.mark.parametrize("uptime", [5.0, 5_000.0], ids=["sooner", "later"])
@pytest.mark.parametrize("longer", [None, 900.0], ids=["plain", "longer"])
def test_jobs_come_back_after_a_reboot(
    tmp_path: Path, behind: float, uptime: float, longer: float | None
) -> None:
    """Within the lease, sooner or later after the machine's start than they were claimed."""
    path, clock = tmp_path / "jobs.db", FakeClock()
    lease = LEASE if longer is None else longer

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(2))
            held = await take(
                store, lease=LEASE, longer_leases={} if longer is None else {"t": longer}
            )
            assert await store.reap(100, 5) == Reaped()
        later = Rebooted(clock, uptime=uptime, behind=behind)
        async with opened(path, clock=later) as store:
            reaped = await store.reap(100, 5)
            clock.advance(lease)
            reaped = reaped if reaped.total else await store.reap(100, 5)
            assert reaped.requeued == tuple(lease.job_id for lease in held)

    run(scenario())


def test_a_worker_that_renewed_after_a_reboot_keeps_its_jobs(tmp_path: Path) -> None:
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(1))
            await take(store, lease=LEASE)
        later = Rebooted(clock, uptime=1.0, behind=3600.0)
        async with opened(path, clock=later) as store:
            await store.enqueue(jobs(1))
            [mine] = await take(store, worker="new", lease=LEASE)
            for _ in range(4):
                clock.advance(LEASE / 2)
                assert store.lifeline().renew("new", LEASE, [mine]).lost == {}
                assert mine.job_id not in (await store.reap(100, 5)).requeued

    run(scenario())


class Keeping:
    """Renews leases from a thread, as a live worker does."""

    def __init__(self, keeper: Lifeline, lease: float, held: list[Lease]) -> None:
        self.lost: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, args=(keeper, lease, held))

    def _keep(self, keeper: Lifeline, lease: float, held: list[Lease]) -> None:
        while not self._stop.wait(lease / 4):
            try:
                self.lost.extend(keeper.renew("w", lease, held).lost)
            except StoreBusyError:
                continue

    def __enter__(self) -> Keeping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("waiting", [True, False], ids=["waited", "just came"])
def test_a_real_transaction_of_five_leases_resets_no_job(tmp_path: Path, waiting: bool) -> None:
    """Neither a reaper that waited all along nor one that comes when the lock is free again."""
    path = tmp_path / "jobs.db"
    lease = 0.4

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(2))
            held = await take(store, lease=lease)
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                with Keeping(store.lifeline(), lease, held) as keeping:
                    async with opened(path) as other:
                        if waiting:
                            writing = asyncio.create_task(other.enqueue(jobs(1)))
                        await asyncio.sleep(5 * lease)
                        holder.execute("COMMIT")
                        assert await other.reap(100, 5) == Reaped()
                        if waiting:
                            await writing
                    assert await store.reap(100, 5) == Reaped()
            assert keeping.lost == []

    run(scenario())


def test_a_reaper_that_just_came_still_finds_the_dead(tmp_path: Path) -> None:
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(2))
            held = await take(store, lease=LEASE)
        clock.advance(LEASE)
        async with opened(path, clock=clock) as other:
            assert (await other.reap(100, 5)).requeued == tuple(lease.job_id for lease in held)

    run(scenario())


@pytest.mark.parametrize("jump_at", [3, 4], ids=["then renewed", "then reaped"])
@pytest.mark.parametrize("jump", [3600.0, -3600.0, 31.0, -31.0, -29.0])
def test_a_jump_of_the_wall_clock_resets_no_job_of_a_live_worker(
    tmp_path: Path, jump: float, jump_at: int
) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db", clock=clock) as store:
            await store.enqueue(jobs(2))
            held = await take(store, lease=LEASE)
            keeper = store.lifeline()
            assert await store.reap(100, 5) == Reaped()
            for moment in range(8):
                clock.advance(LEASE / 3)
                if moment == jump_at:
                    clock.jump(jump)
                if moment % 2:
                    keeper.renew("w", LEASE, held)
                    assert await store.reap(100, 5) == Reaped()
                else:
                    assert await store.reap(100, 5) == Reaped()
                    keeper.renew("w", LEASE, held)
            clock.advance(2 * LEASE)
            assert len((await store.reap(100, 5)).requeued) == 2, "a dead worker is still noticed"

    run(scenario())


def test_a_jump_back_does_not_keep_the_dead_alive(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db", clock=clock) as store:
            await store.enqueue(jobs(1))
            await take(store, lease=LEASE)
            await store.reap(100, 5)
            clock.jump(-24 * 3600.0)
            await store.reap(100, 5)
            clock.advance(LEASE)
            assert len((await store.reap(100, 5)).requeued) == 1

    run(scenario())


def test_an_idle_reaper_writes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db", clock=FakeClock()) as store:
            await store.enqueue(jobs(1))
            await take(store)
            await store.reap(100, 5)
            before = store.commits
            for _ in range(3):
                await store.reap(100, 5)
                await store.promote(100)
                await store.prune(100)
                assert await take(store) == []
            assert store.commits == before

    run(scenario())


def test_a_closed_lifeline_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            keeper = store.lifeline()
        with pytest.raises(StoreClosedError):
            keeper.renew("w", LEASE, [])

    run(scenario())


def test_a_check_is_answered_while_somebody_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(2))
            one, two = await take(store)
            await store.settle([(one, CANCEL)])
            keeper = store.lifeline()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                assert keeper.check("w", [one, two]).lost == {
                    one.job_id: LostReason.ALREADY_COMPLETED
                }
                waiting = asyncio.create_task(store.enqueue(jobs(1)))
                assert (await store.counts())[JobState.RUNNING] == 1, "reads do not wait"
                assert not waiting.done()
                holder.execute("COMMIT")
            await waiting

    run(scenario())


# ── a handler's transaction ──


def test_a_caught_lost_lease_still_rolls_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(1))
            [lease] = await take(store)
            await store.unlock(["w"], 5)
            with store.transaction(lease) as tx:
                tx.execute("CREATE TABLE own (n)")
                with pytest.raises(LeaseLostError):
                    tx.complete(COMPLETE)
            with store.connection() as connection, pytest.raises(sqlite3.OperationalError):
                connection.execute("SELECT * FROM own")

    run(scenario())


def test_a_transaction_in_a_thread_holds_up_writers_but_not_leases(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue(jobs(2))
            first, second = await take(store)
            inside, leave = threading.Event(), threading.Event()

            def handler() -> None:
                with store.transaction(first) as tx:
                    inside.set()
                    leave.wait()
                    tx.complete(COMPLETE)

            handling = asyncio.create_task(asyncio.to_thread(handler))
            await until(inside.is_set)
            settling = asyncio.create_task(store.settle([(second, COMPLETE)]))
            await asyncio.sleep(0.05)
            assert not settling.done()
            leave.set()
            await handling
            assert (await settling)[0].verdict is Verdict.APPLIED
            assert sum((await store.counts()).values()) == 0

    run(scenario())


def test_a_worker_whose_loop_ended_lets_its_leases_run_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = App(url, synchronous="normal", lease=1.0)

    @app.task(name="t")
    async def held() -> None:
        started.set()
        await asyncio.sleep(1_000)

    started = threading.Event()
    before = set(threading.enumerate())
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await held.aenqueue()
        await app.run(handle_signals=False, concurrency=1)
        await until(started.is_set)
        raise ValueError("the request failed")

    with pytest.raises(ValueError, match="the request failed"):
        asyncio.run(main())
    for task in asyncio.all_tasks(loops.pop()):
        # The slot's last word, begun when the loop ended: no loop can end it any more.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    keepers = [
        thread
        for thread in set(threading.enumerate()) - before
        if thread.name.startswith("windlass-keeper")
    ]
    for keeper in keepers:
        keeper.join(10)
    assert not any(keeper.is_alive() for keeper in keepers)

    other = App(url, synchronous="normal", lease=1.0, reap_interval=0.2)

    @other.task(name="t", keep=60)
    async def again() -> None: ...

    async def take_over() -> JobState:
        runner = await other.run(handle_signals=False)
        while (await other.client.counts())["completed"] == 0:
            await asyncio.sleep(0.05)
        [job] = await other.client.list_jobs()
        await runner.stop()
        return job.state

    assert guarded(other, take_over) is JobState.COMPLETED
    asyncio.run(asyncio.wait_for(app.close(), PATIENCE))
