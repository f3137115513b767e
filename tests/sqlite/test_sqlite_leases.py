"""Leases outlive other people's transactions and jumps of the wall clock."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take, until
from windlass.errors import LeaseLostError, StoreBusyError, StoreClosedError
from windlass.model.job import JobState
from windlass.store.port import Lifeline
from windlass.store.records import CANCEL, COMPLETE, Lease, LostReason, Reaped, Settled, Verdict
from windlass.testing.clock import FakeClock

LEASE = 30.0


def test_leases_move_by_the_time_nobody_could_write(tmp_path: Path) -> None:
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store, opened(path, clock=clock) as other:
            await store.enqueue(jobs(3))
            held = await take(store, lease=LEASE)
            [before] = await store.workers()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                waiting = [asyncio.create_task(s.enqueue(jobs(1))) for s in (store, other)]
                await asyncio.sleep(0.05)
                clock.advance(5 * LEASE)
                await asyncio.sleep(0.05)
                assert not any(call.done() for call in waiting)
                holder.execute("COMMIT")
            await asyncio.gather(*waiting)
            [after] = await store.workers()
            assert after.expires_at == before.expires_at + round(5 * LEASE * 1e6), "moved once"
            assert await other.reap(100, 5) == Reaped()
            assert (
                await store.settle([(lease, COMPLETE) for lease in held])
                == [Settled(Verdict.APPLIED, JobState.COMPLETED)] * 3
            )

    run(scenario())


def test_a_keeper_that_gave_up_still_counts_as_waiting(tmp_path: Path) -> None:
    """Its renewals fail while the lock is held; the reaper of its process must know."""
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.enqueue(jobs(1))
            held = await take(store, lease=LEASE)
            keeper = store.lifeline()
            with closing(plain(path, isolation_level=None)) as holder:
                holder.execute("BEGIN IMMEDIATE")
                for _ in range(2):
                    with pytest.raises(StoreBusyError):
                        await asyncio.to_thread(keeper.renew, "w", LEASE, held)
                    clock.advance(LEASE * 0.9)
                holder.execute("COMMIT")
            assert await store.reap(100, 5) == Reaped()
            assert keeper.renew("w", LEASE, held).lost == {}

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


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 31.0, -31.0, -29.0])
def test_a_jump_of_the_wall_clock_resets_no_job_of_a_live_worker(
    tmp_path: Path, jump: float
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
                if moment == 3:
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
