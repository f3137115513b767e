"""Many hands on one table: rows that others hold, workers that stall, and resetters at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.postgres.cluster import shared_cluster
from tests.postgres.table.desk import Desk, desk_on, observed, run, take, using, work, worker
from tests.postgres.versions import VERSIONS
from windlass import Context, Resetter
from windlass.clock import to_datetime
from windlass.errors import StoreBusyError
from windlass.store.records import COMPLETE, RELEASE, Lease, Renewal, Settled, Verdict
from windlass.stores.table import store as store_module
from windlass.stores.table.lifeline import TableLifeline
from windlass.table import TableStore
from windlass.testing import FakeClock


@contextmanager
def locked(desk: Desk, ids: Sequence[int]) -> Iterator[psycopg.Connection[Any]]:
    """Somebody's open transaction that holds these rows."""
    with desk.connect(autocommit=False) as connection:
        held = connection.execute("SELECT id FROM jobs WHERE id = ANY (%s) FOR UPDATE", [list(ids)])
        assert len(held.fetchall()) == len(ids)
        yield connection
        connection.rollback()


@pytest.fixture
def made(desk18: Desk) -> Desk:
    desk18.make()
    return desk18


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_BUSY_LIMIT", 0.1)


# ── claims ──


@pytest.mark.parametrize("view", [None, "v AS j"])
def test_rows_that_others_hold_hide_no_other(desk: Desk, view: str | None) -> None:
    desk.make()
    desk.ask("CREATE VIEW v AS SELECT * FROM jobs")
    ids = [desk.add() for _ in range(61)]

    async def whole(store: TableStore[Any]) -> list[int]:
        return [lease.job_id for lease in await take(store, 5)]

    with locked(desk, ids[:60]):
        assert using(desk.store(view_name=view), whole) == [ids[60]]
    assert using(desk.store(view_name=view), whole) == ids[:5]


def test_eight_stores_claim_each_row_once(desk: Desk) -> None:
    desk.make()
    desk.ask("INSERT INTO jobs (size) SELECT n % 7 FROM generate_series(1, 500) AS n")
    claims: list[list[tuple[int, int]]] = []

    def claimer(number: int) -> None:
        async def whole(store: TableStore[Any]) -> None:
            while leases := await take(store, 1 + number, f"w{number}"):
                claims.append([lease.record for lease in leases])

        store = desk.store(order_by="size", scan=lambda row: (row["size"], row["id"]))
        asyncio.run(_with(store, whole))

    threads = [threading.Thread(target=claimer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(claim == sorted(claim) for claim in claims)
    assert sorted(id_ for claim in claims for _, id_ in claim) == list(range(1, 501))
    assert set(desk.states()) == {"processing"}


async def _with(store: TableStore[Any], body: Callable[[TableStore[Any]], Any]) -> Any:
    async with store:
        return await body(store)


@pytest.mark.parametrize("view", [None, "v AS j"])
def test_rows_that_others_refer_to_are_not_held(desk: Desk, view: str | None) -> None:
    """A foreign key locks what it refers to; that is no reason to pass a row over."""
    desk.make()
    desk.ask("CREATE VIEW v AS SELECT * FROM jobs")
    desk.ask("CREATE TABLE results (job bigint REFERENCES jobs)")
    ids = tuple(desk.add() for _ in range(4))
    clock = FakeClock()

    async def whole(store: TableStore[Any]) -> None:
        with desk.connect(autocommit=False) as other:
            other.execute("INSERT INTO results SELECT id FROM jobs")
            leases = await take(store)
            assert tuple(lease.job_id for lease in leases) == ids
            lifeline = store.lifeline()
            assert await asyncio.to_thread(lifeline.renew, "w", 30.0, leases) == Renewal()
            for settled in await store.settle([(leases[0], COMPLETE), (leases[1], RELEASE)]):
                assert settled.verdict is Verdict.APPLIED
            clock.advance(31)
            assert (await store.reap(10, 5)).requeued == ids[2:]
            assert await store.cancel([ids[3]]) == [ids[3]]
            await take(store, 1)
            await store.retire("w")
            other.commit()

    using(desk.store(view_name=view, clock=clock), whole)
    assert desk.states() == ["completed", "queued", "queued", "canceled"]


# ── heartbeats ──


def test_a_locked_row_does_not_block_the_heartbeat_of_the_rest(desk: Desk) -> None:
    desk.make()
    ids = [desk.add() for _ in range(20)]
    clock = FakeClock()
    began = to_datetime(clock.now())

    async def whole(store: TableStore[Any]) -> None:
        leases = await take(store, 20)
        clock.advance(10)
        lifeline = store.lifeline()

        async def beat() -> Renewal:
            return await asyncio.to_thread(lifeline.renew, "w", 30.0, leases)

        with locked(desk, ids[7:9]):
            # The lock is held until this returns, so a beat that waited would never end.
            assert await beat() == Renewal(locked=frozenset(ids[7:9]))
            late = {began + timedelta(seconds=10)}
            beats = {id_: desk.row(id_)["last_heartbeat_at"] for id_ in ids}
            assert {beats.pop(id_) for id_ in ids[7:9]} == {began}
            assert set(beats.values()) == late
        assert await beat() == Renewal()
        assert {desk.row(id_)["last_heartbeat_at"] for id_ in ids} == late

    using(desk.store(clock=clock), whole)


def test_a_running_worker_beats_beside_a_locked_row(desk18: Desk) -> None:
    desk18.make()
    ids = [desk18.add(), desk18.add()]
    gate = asyncio.Event()

    async def handle(record: Any) -> None:
        await gate.wait()

    def beats() -> list[Any]:
        return [desk18.row(id_)["last_heartbeat_at"] for id_ in ids]

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, handle, num_handlers=2):
            await observed(lambda: desk18.states() == ["processing"] * 2, "both to run")
            with locked(desk18, ids[:1]):
                held, free = beats()
                await observed(lambda: beats()[1] > free, "a heartbeat of the other")
                assert beats()[0] == held
            await observed(lambda: beats()[0] > held, "a heartbeat of the first")
            gate.set()
            await observed(lambda: desk18.states() == ["completed"] * 2, "both to be done")

    using(desk18.store(heartbeat_interval=0.05), whole)


def test_a_longer_lease_is_a_later_heartbeat(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()
    clock = FakeClock()

    async def whole(store: TableStore[Any]) -> None:
        [lease] = await take(store)
        lifeline = store.lifeline()
        await asyncio.to_thread(lifeline.renew, "w", 30.0, [lease], [(lease, 300.0)])
        clock.advance(200)
        await asyncio.to_thread(lifeline.renew, "w", 30.0, [lease])
        clock.advance(99)
        assert (await store.reap(10, 5)).requeued == ()
        clock.advance(1)
        assert (await store.reap(10, 5)).requeued == (id_,)

    using(desk.store(clock=clock), whole)


# ── workers that stall ──


class HeldBack(TableLifeline):
    """Heartbeats that are under way and do not arrive, until `go` is set."""

    go = threading.Event()

    def renew(self, *args: Any) -> Renewal:
        self.go.wait()
        return super().renew(*args)

    def check(self, *args: Any) -> Renewal:
        self.go.wait()
        return super().check(*args)


@pytest.mark.parametrize("has_hostname", [True, False])
def test_a_stalled_worker_and_its_heir_never_both_complete(
    desk: Desk, has_hostname: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeats of the first are held back until the second has done its row; then its late
    settlement is lost, its handler was stopped, and there is one effect."""
    desk.make()
    if not has_hostname:
        desk.ask("ALTER TABLE jobs DROP COLUMN worker_hostname")
    desk.ask("CREATE TABLE effects (who text)")
    desk.add()
    clock = FakeClock()
    go = threading.Event()
    began = asyncio.Event()
    told: list[str] = []
    answers: list[Settled] = []

    async def first(ctx: Context, record: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append(str(ctx.abort.reason))  # and it carries on to its end all the same

    class Transactional:
        transactional = True

        async def handle(self, ctx: Context, store: Any, record: Any) -> None:
            await store.execute("INSERT INTO effects VALUES ('second')")

    async def whole() -> None:
        store, other = desk.store(clock=clock), desk.store(clock=clock)
        async with store, other:
            real = store.settle

            async def settle(settlements: Sequence[Any]) -> list[Settled]:
                answers.extend(found := await real(settlements))
                return found

            monkeypatch.setattr(store, "settle", settle)
            lifeline = HeldBack(store._handlers.address, store._statements, lambda: store._now)
            lifeline.go = go
            monkeypatch.setattr(store, "lifeline", lambda: lifeline)
            stalled = worker(store, first)
            await stalled.start()
            await began.wait()
            clock.advance(31)
            heir = worker(other, Transactional(), reset_interval=0.05)
            await heir.start()
            await observed(lambda: desk.states() == ["completed"], "the heir to do it")
            finished = desk.row(1)["finished_at"]
            assert told == []
            go.set()
            await observed(lambda: answers, "the late settlement")
            assert [answer.verdict for answer in answers] == [Verdict.LOST]
            assert told == ["already_completed"]
            assert desk.row(1)["finished_at"] == finished
            await stalled.stop()
            await heir.stop()
            lifeline.close()

    run(whole())
    assert desk.ask("SELECT who FROM effects") == [("second",)]
    assert desk.row(1)["num_resets"] == 1


def test_a_late_settlement_is_lost_whatever_the_row_does_now(desk: Desk) -> None:
    desk.make()
    clock = FakeClock()

    async def whole(store: TableStore[Any]) -> None:
        async def stalled() -> Lease:
            desk.add()
            [lease] = await take(store, 1)
            clock.advance(31)
            assert (await store.reap(10, 5)).requeued == (lease.job_id,)
            return lease

        async def late(lease: Lease) -> tuple[Verdict, list[Any]]:
            lifeline = store.lifeline()
            renewal = await asyncio.to_thread(lifeline.renew, "w", 30.0, [lease])
            [settled] = await store.settle([(lease, COMPLETE)])
            return settled.verdict, [str(why) for why in renewal.lost.values()]

        waiting = await stalled()
        assert await late(waiting) == (Verdict.LOST, ["taken_by_another_worker"])
        # By the same worker, in the same place: only the time of its claim is another.
        [again] = await take(store, 1)
        assert again.job_id == waiting.job_id and again.worker == waiting.worker
        assert await late(waiting) == (Verdict.LOST, ["taken_by_another_worker"])
        await store.settle([(again, COMPLETE)])
        assert await late(waiting) == (Verdict.LOST, ["already_completed"])
        assert await late(again) == (Verdict.LOST, ["already_completed"])
        desk.ask("DELETE FROM jobs")
        assert await late(waiting) == (Verdict.MISSING, ["not_found"])

    using(desk.store(clock=clock), whole)


# ── settlements ──


def test_a_settlement_of_a_row_that_somebody_holds_is_busy_then_applied(desk: Desk) -> None:
    desk.make()
    ids = [desk.add(), desk.add()]

    async def whole(store: TableStore[Any]) -> None:
        leases = await take(store)
        both = [(lease, COMPLETE) for lease in leases]
        with locked(desk, ids[:1]):
            verdicts = [settled.verdict for settled in await store.settle(both)]
            assert verdicts == [Verdict.BUSY, Verdict.APPLIED]
            assert desk.states() == ["processing", "completed"]
        verdicts = [settled.verdict for settled in await store.settle(both)]
        assert verdicts == [Verdict.APPLIED, Verdict.LOST]
        assert desk.states() == ["completed", "completed"]

    using(desk.store(), whole)


def test_a_worker_goes_on_beside_a_row_that_somebody_holds(desk18: Desk) -> None:
    desk18.make()
    ids = [desk18.add() for _ in range(5)]
    gate = asyncio.Event()

    async def handle(record: Any) -> None:
        if record["id"] == ids[0]:
            await gate.wait()

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, handle, num_handlers=2):
            await observed(lambda: desk18.row(ids[0])["state"] == "processing", "it to run")
            with locked(desk18, ids[:1]):
                gate.set()
                await observed(lambda: desk18.states()[1:] == ["completed"] * 4, "the others")
                assert desk18.states()[0] == "processing"
            await observed(lambda: desk18.states()[0] == "completed", "the first")

    using(desk18.store(), whole)


def test_cancelling_waits_for_no_lock_in_a_thread(made: Desk, short_patience: None) -> None:
    """More calls than the store has threads wait for locked rows, and it can still claim."""
    ids = [made.add(title="held") for _ in range(5)]
    free, other = made.add(title="free"), made.add()

    async def whole(store: TableStore[Any]) -> None:
        with made.connect(autocommit=False) as holder:
            holder.execute("SELECT FROM jobs WHERE title = 'held' FOR UPDATE")
            calls = [asyncio.create_task(store.cancel([id_, other])) for id_ in ids]
            [lease] = await take(store, conditions=["jobs.title = 'free'"])
            assert lease.job_id == free
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for id_, answer in zip(ids, answers, strict=True):
                assert isinstance(answer, StoreBusyError)
                assert str(answer).endswith(f"hold them: {id_}")
            assert made.row(other)["state"] == "canceled"
        assert await store.cancel([*ids, free, other]) == [*ids, free]

    using(made.store(), whole)
    assert made.states() == [*["canceled"] * 5, "processing", "canceled"]


def test_cancelling_asks_again_until_a_row_is_free(made: Desk) -> None:
    id_ = made.add()

    async def whole(store: TableStore[Any]) -> None:
        with made.connect(autocommit=False) as holder:
            holder.execute("SELECT FROM jobs FOR UPDATE")
            before = store._open_threads().statements
            call = asyncio.create_task(store.cancel([id_]))
            await observed(lambda: store._open_threads().statements > before + 1, "a second try")
        assert await call == [id_]

    using(made.store(), whole)
    assert made.states() == ["canceled"]


def test_a_handler_that_holds_its_own_row_is_told_that_it_cannot_log(
    made: Desk, short_patience: None
) -> None:
    made.add()
    told: list[str] = []

    class Handler:
        transactional = True

        async def handle(self, ctx: Any, store: Any, record: Any) -> None:
            number = await store.unbound.add_execution_log_entry(ctx, "before")
            await store.execute("UPDATE jobs SET title = 'held' WHERE id = %s", [record["id"]])
            for call in (
                store.unbound.add_execution_log_entry(ctx, "held"),
                store.unbound.update_execution_log_entry(ctx, number, "held"),
            ):
                with pytest.raises(StoreBusyError, match="an open transaction holds record") as why:
                    await call
                told.append(str(why.value))

    work(made.store(), Handler())
    assert len(told) == 2
    assert (made.row(1)["state"], made.row(1)["execution_logs"]) == ("completed", ["before"])


# ── resets ──


def test_a_resetter_passes_over_rows_that_others_hold(desk: Desk) -> None:
    desk.make()
    ids = [desk.add() for _ in range(10)]
    clock = FakeClock()

    async def whole(store: TableStore[Any]) -> None:
        await take(store)
        clock.advance(31)
        with locked(desk, ids[:6]):
            assert (await store.reap(3, 5)).requeued == tuple(ids[6:9])
            assert (await store.reap(3, 5)).requeued == tuple(ids[9:])
            assert (await store.reap(3, 5)).requeued == ()
        assert (await store.reap(100, 5)).requeued == tuple(ids[:6])

    using(desk.store(clock=clock), whole)


def test_resetters_at_once_count_a_reset_once(desk: Desk) -> None:
    desk.make()
    desk.ask("INSERT INTO jobs (size) SELECT n FROM generate_series(1, 200) AS n")
    clock = FakeClock()

    async def whole() -> None:
        stores = [desk.store(clock=clock) for _ in range(4)]
        for store in stores:
            await store.open()
        await take(stores[0], 200)
        clock.advance(31)
        reaped = await asyncio.gather(*(store.reap(70, 5) for store in stores * 4))
        found = [id_ for one in reaped for id_ in one.requeued]
        assert sorted(found) == list(range(1, 201))
        for store in stores:
            await store.close()

    run(whole())
    assert desk.ask("SELECT DISTINCT state, num_resets FROM jobs") == [("queued", 1)]


def test_at_most_so_many_resets(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()
    clock = FakeClock()

    async def whole(store: TableStore[Any]) -> None:
        for number in (1, 2):
            await take(store)
            clock.advance(31)
            assert (await store.reap(10, 2)).requeued == (id_,)
            row = desk.row(id_)
            assert (row["state"], row["num_resets"], row["started_at"]) == ("queued", number, None)
            assert (row["failure_message"], row["finished_at"]) == (None, None)
        await take(store)
        clock.advance(31)
        assert (await store.reap(10, 2)).ended == (id_,)

    using(desk.store(clock=clock, reset_failure_message="it kills its workers"), whole)
    row = desk.row(id_)
    assert (row["state"], row["num_resets"], row["num_failures"]) == ("failed", 2, 0)
    assert row["failure_message"] == "it kills its workers"
    assert row["finished_at"] == to_datetime(clock.now())


def test_a_resetter_by_itself(desk: Desk) -> None:
    """Rows of a worker that is gone, also one that never wrote a heartbeat."""
    desk.make()
    desk.add(state="processing")
    desk.ask(
        "INSERT INTO jobs (state, started_at, num_resets) VALUES ('processing', '2020-1-1', 1)"
    )
    desk.ask("INSERT INTO jobs (state, last_heartbeat_at) VALUES ('processing', now())")

    async def whole(store: TableStore[Any]) -> None:
        resetter = Resetter(store, 0.05)
        await resetter.start()
        await observed(lambda: desk.states() == ["queued", "failed", "processing"], "resets")
        await resetter.stop()

    using(desk.store(max_num_resets=1), whole)
    assert desk.row(2)["failure_message"].startswith("its worker died too often")


def test_two_claims_of_one_row_never_have_one_token(desk: Desk) -> None:
    """By the server's clock: handed back and taken again as fast as can be."""
    desk.make()
    desk.ask("ALTER TABLE jobs DROP COLUMN worker_hostname")
    desk.add()

    async def whole(store: TableStore[Any]) -> list[int]:
        tokens = []
        for _ in range(100):
            [lease] = await take(store)
            tokens.append(lease.token)
            await store.settle([(lease, RELEASE)])
        return tokens

    tokens = using(desk.store(), whole)
    assert tokens == sorted(set(tokens))


# ── plans ──


def scanned(plan: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Each scan of a table: how, by which index, and how many rows it met."""
    if "Relation Name" in plan or "Index Name" in plan:
        met = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield plan["Node Type"], plan.get("Index Name", ""), round(met * plan["Actual Loops"])
    for part in plan.get("Plans", ()):
        yield from scanned(part)


@pytest.fixture(scope="module", params=VERSIONS)
def full(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """100,000 completed rows, 10,000 that are not due, 100 that are, 10 that run."""
    with desk_on(shared_cluster(request.param)) as desk:
        desk.make()
        desk.ask("ALTER TABLE jobs SET (autovacuum_enabled = off)")
        desk.ask("CREATE VIEW v AS SELECT * FROM jobs")
        desk.ask("INSERT INTO jobs (state) SELECT 'completed' FROM generate_series(1, 100000)")
        desk.ask(
            "INSERT INTO jobs (process_after) SELECT now() + interval '1 day'"
            " FROM generate_series(1, 10000)"
        )
        desk.ask("INSERT INTO jobs (size) SELECT n FROM generate_series(1, 100) AS n")
        desk.ask("INSERT INTO jobs (state) SELECT 'processing' FROM generate_series(1, 10)")
        yield desk


def scans_of(desk: Desk, statement: sql.Composable, values: Any = None) -> list[Any]:
    with desk.connect(autocommit=False) as connection:
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + statement
        [[found]] = connection.execute(explain, values).fetchall()
        connection.rollback()
    return list(scanned((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("order_by", [None, "size DESC"])
@pytest.mark.parametrize("view", [None, "v AS j"])
def test_what_a_claim_reads(
    full: Desk, view: str | None, order_by: str | None, is_analyzed: bool
) -> None:
    """By the index, and no more than what waits."""
    if is_analyzed:
        full.ask("ANALYZE jobs")
    order = order_by and (f"j.{order_by}" if view else order_by)

    async def statement(store: TableStore[Any]) -> sql.Composed:
        return store._statements.claim(10, "w", (), None)

    scans = scans_of(full, using(full.store(view_name=view, order_by=order), statement))
    assert "Seq Scan" not in {kind for kind, _, _ in scans}
    assert "jobs_id_idx" in {index for _, index, _ in scans}
    # Each way to a row is counted: by an index, then in the table, then in the view.
    assert sum(met for _, _, met in scans) < 35_000


def test_what_a_resetter_reads(full: Desk) -> None:
    full.ask("ANALYZE jobs")

    async def statement(store: TableStore[Any]) -> sql.Composed:
        return store._statements.reset

    values = {"ids": None, "limit": 100, "most": 5, "stall": 30.0, "message": "", "now": None}
    scans = scans_of(full, using(full.store(), statement), values)
    assert "Seq Scan" not in {kind for kind, _, _ in scans}
    assert "jobs_id_idx1" in {index for _, index, _ in scans}
    assert sum(met for _, _, met in scans) < 25_000
