"""Rows that cannot be read or written, and what becomes of the rows beside them."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from psycopg import sql

from tests.postgres.table.desk import Desk, observed, take, taken, using, work, worker
from windlass.errors import StoreError
from windlass.store.records import CANCEL, COMPLETE, RELEASE, Fail, Outcome
from windlass.table import TableStore

REFUSING = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'not this row';
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW
  WHEN (NEW.title = 'bad' AND OLD.state = 'processing' AND NEW.state {} 'processing')
  EXECUTE FUNCTION refuse();
"""


@pytest.fixture
def desk(desk18: Desk) -> Desk:
    desk18.make()
    return desk18


# ── comments in fragments ──


def test_a_comment_at_the_end_of_a_fragment_swallows_nothing(desk: Desk) -> None:
    ids = [desk.add(size=size) for size in (1, 2, 3)]
    store = desk.store(
        order_by="jobs.size DESC -- largest first",
        conditions=["jobs.size > 0 -- all", sql.SQL("jobs.size < {} -- not all").format(3)],
        column_expressions=["jobs.id -- the row", "jobs.size -- and this"],
    )
    conditions = ["true -- whatever", sql.SQL("true -- or not")]
    assert taken(store, 1, conditions) == [{"id": ids[1], "size": 2}]
    assert desk.states() == ["queued", "processing", "queued"]


# ── rows that cannot be read ──


@pytest.mark.parametrize(
    ("bad", "options"),
    [
        ("process_after = '-infinity'", {}),
        ("queued_at = '-infinity'", {}),
        ("valid_until = 'infinity'", {}),
        ("size = 0", {"column_expressions": ["jobs.id", "10 / jobs.size AS share"]}),
    ],
)
def test_a_row_that_cannot_be_read_fails_alone(
    desk: Desk, bad: str, options: dict[str, Any]
) -> None:
    desk.ask("ALTER TABLE jobs ADD COLUMN valid_until timestamptz")
    ids = [desk.add() for _ in range(3)]
    desk.ask(f"UPDATE jobs SET {bad} WHERE id = %s", ids[1])
    ran: list[int] = []
    work(desk.store(**options), lambda record: ran.append(record["id"]), 3, num_handlers=3)
    assert sorted(ran) == [ids[0], ids[2]]
    assert desk.states() == ["completed", "failed", "completed"]
    [[failure]] = desk.ask("SELECT failure_message FROM jobs WHERE id = %s", ids[1])
    assert failure.startswith(("DataError: timestamp too", "DivisionByZero: division by zero"))


def test_rows_beside_an_unreadable_one_keep_their_order(desk: Desk) -> None:
    ids = [desk.add(size=size) for size in (3, 0, 2, 4)]

    async def whole(store: TableStore[Any]) -> list[int]:
        return [lease.job_id for lease in await take(store)]

    store = desk.store(
        order_by="jobs.size DESC", column_expressions=["jobs.id", "10 / jobs.size AS share"]
    )
    assert using(store, whole) == [ids[3], ids[0], ids[2], ids[1]]


def test_a_statement_that_is_wrong_for_all_rows_fails_none_of_them(desk: Desk) -> None:
    desk.add()

    async def whole(store: TableStore[Any]) -> None:
        desk.ask("ALTER TABLE jobs DROP COLUMN title")
        with pytest.raises(StoreError, match="title"):
            await take(store)

    using(desk.store(column_expressions=["jobs.id", "jobs.title"]), whole)
    assert desk.states() == ["queued"]


def test_the_age_of_a_row_that_was_queued_before_all_time(desk: Desk) -> None:
    desk.ask("INSERT INTO jobs (queued_at) VALUES ('-infinity')")

    async def whole(store: TableStore[Any]) -> float:
        return await store.max_duration_in_queue()

    assert 2000 < using(desk.store(), whole) / (365 * 86_400) < 10_000


# ── types with a percent sign ──


def test_a_type_may_have_a_percent_sign(desk: Desk) -> None:
    words = "'queued', 'processing', 'errored', 'failed', 'completed', 'canceled'"
    desk.ask("DROP INDEX jobs_id_idx, jobs_id_idx1")
    desk.ask(f'CREATE TYPE "100%" AS ENUM ({words})')
    desk.ask("ALTER TABLE jobs ALTER state DROP DEFAULT, ALTER state TYPE \"100%\" USING 'queued'")
    ids = [desk.add(state="queued"), desk.add(state="queued")]

    async def cancel(store: TableStore[Any]) -> list[int]:
        return await store.cancel([ids[1]])

    assert using(desk.store(), cancel) == [ids[1]]
    work(desk.store(), lambda record: None)
    assert desk.states() == ["completed", "canceled"]


# ── rows that refuse to be written ──


def test_a_row_that_refuses_to_be_reset_keeps_no_other_from_it(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.ask(REFUSING.format("<>"))
    for title in ("bad", "good", "bad", "last"):
        resets = 5 if title == "last" else 0
        desk.add(title=title, state="processing", started_at="yesterday", num_resets=resets)
    desk.add(cancel=True)

    async def whole(store: TableStore[Any]) -> None:
        reaped = await store.reap(100, 5)
        assert (reaped.requeued, reaped.ended) == ((2,), (4,))

    with caplog.at_level(logging.WARNING, logger="windlass"):
        using(desk.store(), whole)
    assert desk.states() == ["processing", "queued", "processing", "failed", "canceled"]
    assert [record.getMessage() for record in caplog.records] == [
        "jobs: 2 rows of dead workers cannot be taken back, the first of them 1: not this row"
    ]


def test_a_row_that_refuses_its_heartbeat_stops_no_other(desk: Desk) -> None:
    desk.ask(REFUSING.format("="))
    bad, good = desk.add(title="bad"), desk.add(title="good")
    stopped: list[int] = []
    ended = threading.Event()

    async def handler(ctx: Any, record: Any) -> None:
        try:
            while not ended.is_set():
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            stopped.append(record["id"])
            raise

    async def whole(store: TableStore[Any]) -> None:
        one = worker(store, handler, num_handlers=2)
        await one.start()
        await observed(lambda: len(stopped) >= 2, "the bad row to be stopped, twice")
        assert set(stopped) == {bad}
        ended.set()
        await observed(lambda: desk.states() == ["completed", "completed"], "both to end")
        await one.stop()

    using(desk.store(stalled_max_age=3, heartbeat_interval=0.2), whole)
    assert desk.row(good)["num_resets"] == 0
    assert good not in stopped


def test_a_row_that_refuses_its_heartbeat_is_kept_while_the_last_one_holds(desk: Desk) -> None:
    desk.ask(REFUSING.format("="))
    bad, good = desk.add(title="bad"), desk.add(title="good")

    async def whole(store: TableStore[Any]) -> None:
        leases = await take(store)
        lifeline = store.lifeline()
        lifeline.renew("w", 30.0, [])
        before = desk.row(good)["last_heartbeat_at"]
        first = lifeline.renew("w", 30.0, leases)
        assert (first.locked, dict(first.lost)) == (frozenset([bad]), {})
        assert desk.row(good)["last_heartbeat_at"] > before
        lifeline._held_until = 0.0  # type: ignore[attr-defined]
        assert list(lifeline.renew("w", 30.0, leases).lost) == [bad]

    using(desk.store(), whole)


# ── canceled rows ──


@pytest.mark.parametrize("outcome", [CANCEL, RELEASE, COMPLETE, Fail("no", max_attempts=1)])
def test_a_row_that_has_ended_asks_no_longer_to_be_canceled(desk: Desk, outcome: Outcome) -> None:
    id_ = desk.add()

    async def whole(store: TableStore[Any]) -> None:
        [lease] = await take(store)
        assert await store.cancel([id_]) == [id_]
        assert desk.row(id_)["cancel"] is True
        await store.settle([(lease, outcome)])
        assert desk.row(id_)["cancel"] is False
        desk.ask("UPDATE jobs SET state = 'queued'")
        assert len(await take(store)) == 1

    using(desk.store(), whole)


@pytest.mark.parametrize("state", ["queued", "processing"])
def test_neither_does_one_that_a_reset_has_ended(desk: Desk, state: str) -> None:
    id_ = desk.add(state=state, cancel=True)

    async def whole(store: TableStore[Any]) -> None:
        assert (await store.reap(10, 5)).ended == ((id_,) if state == "processing" else ())

    using(desk.store(), whole)
    assert (desk.row(id_)["state"], desk.row(id_)["cancel"]) == ("canceled", False)


# ── in plain words ──


def test_a_table_that_went_away_is_not_called_a_schema_of_ours(desk: Desk) -> None:
    desk.add()
    desk.add()

    async def whole(store: TableStore[Any]) -> None:
        [lease] = await take(store, 1)
        lifeline = store.lifeline()
        lifeline.renew("w", 30.0, [lease])
        desk.ask("ALTER TABLE jobs RENAME TO gone")
        texts = []
        with pytest.raises(StoreError) as why:
            await take(store)
        texts.append(str(why.value))
        for call in (lifeline.renew, lambda w, _, leases: lifeline.check(w, leases)):
            with pytest.raises(StoreError) as why:
                call("w", 30.0, [lease])
            texts.append(str(why.value))
        with pytest.raises(StoreError) as why, store.transaction(lease) as tx:
            tx.complete(COMPLETE)
        texts.append(str(why.value))
        for text in texts:
            assert text.endswith('refused a statement on jobs: relation "jobs" does not exist')

    using(desk.store(), whole)


def test_a_condition_that_is_wrong_is_told_with_its_table(desk: Desk) -> None:
    async def whole(store: TableStore[Any]) -> None:
        with pytest.raises(StoreError, match="refused a statement on jobs: operator does not"):
            await take(store, conditions=["jobs.title <= 5"])

    using(desk.store(), whole)
