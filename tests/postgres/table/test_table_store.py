"""A store over a table of the user's own: names, records, retries, logs, cancels, counts."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import psycopg_pool
import pytest
from psycopg import sql

from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.table.desk import Desk, observed, run, take, taken, using, work, worker
from windlass import Abandon, Context, Failed, JobState, Nack, Poison, RetryAfter, RetryAt
from windlass.clock import to_datetime
from windlass.errors import ConfigError, LeaseLostError
from windlass.store.records import COMPLETE, RELEASE, Fail, Verdict
from windlass.table import TableOptions, TableStore, ddl
from windlass.testing import FakeClock

REPOSITORIES = """
CREATE TABLE repositories (id integer PRIMARY KEY, name text NOT NULL);
INSERT INTO repositories VALUES (1, 'one'), (2, 'two');
CREATE TABLE example_jobs (LIKE jobs INCLUDING ALL);
ALTER TABLE example_jobs ADD COLUMN repository_id integer NOT NULL DEFAULT 1;
CREATE VIEW example_jobs_with_names AS
SELECT j.*, r.name AS repository_name
FROM example_jobs AS j JOIN repositories AS r ON r.id = j.repository_id;
"""


@dataclass
class Title:
    id: int
    title: str


class Sized(msgspec.Struct, kw_only=True):
    id: int
    size: int


@dataclass(frozen=True)
class Example:
    id: int
    repository_name: str


def guide(desk: Desk) -> None:
    desk.make()
    desk.ask(REPOSITORIES)


# ── names ──


@pytest.mark.parametrize(
    ("made", "named", "alias"),
    [
        ("jobs", "jobs", "jobs"),
        ("jobs", "jobs j", "j"),
        ("jobs", "jobs AS j", "j"),
        ("jobs", "JOBS as J", "j"),
        ('"Jobs of mine"', '"Jobs of mine"', '"Jobs of mine"'),
        ('"Jobs of mine"', '"Jobs of mine" AS "the Job"', '"the Job"'),
        ('"order"', '"order" t', "t"),
        ("jobs", "jobs windlass_row", "windlass_row"),
        ('"a""b{}"', '"a""b{}" r', "r"),
    ],
)
def test_names(desk: Desk, made: str, named: str, alias: str) -> None:
    desk.make(made)
    first, second = desk.add(made, size=1), desk.add(made, size=2)
    store = desk.store(
        table_name=named,
        order_by=f"{alias}.size DESC",
        conditions=[f"{alias}.size > 0"],
        column_expressions=[f"{alias}.id", f"{alias}.title"],
        scan=Title,
    )
    assert taken(store) == [Title(second, "untitled"), Title(first, "untitled")]
    assert desk.states(made) == ["processing", "processing"]


@pytest.mark.parametrize("alias", ["", " AS j"])
def test_a_table_in_another_schema(desk: Desk, alias: str) -> None:
    desk.ask(ddl(f"{desk.schema}.jobs"))
    desk.add(f"{desk.schema}.jobs")
    store = desk.store(desk.plain_url, table_name=f"{desk.schema}.jobs{alias}")
    work(store, lambda record: None)
    assert desk.states() == ["completed"]


@pytest.mark.parametrize(
    ("table", "view"),
    [
        ("example_jobs j", "example_jobs_with_names j"),
        ("example_jobs", "example_jobs_with_names"),
        ("example_jobs", "example_jobs_with_names v"),
        ("example_jobs t", "example_jobs_with_names example_jobs"),
    ],
)
def test_a_view(desk: Desk, table: str, view: str) -> None:
    guide(desk)
    for repository in (2, 1, 2):
        desk.add("example_jobs", repository_id=repository)
    alias = view.split()[-1]
    store = desk.store(
        table_name=table,
        view_name=view,
        scan=Example,
        order_by=f"{alias}.repository_id, {alias}.id",
        conditions=[f"{alias}.repository_name IN ('one', 'two')"],
    )
    assert taken(store, 2) == [Example(2, "one"), Example(1, "two")]
    assert desk.states("example_jobs") == ["processing", "processing", "queued"]


def test_a_view_that_hides_processing_rows_is_told_and_loses_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.make()
    desk.ask("CREATE VIEW waiting AS SELECT * FROM jobs WHERE state IN ('queued', 'errored')")
    id_ = desk.add()
    store = desk.store(view_name="waiting")
    with pytest.raises(ConfigError, match=f"waiting does not show row {id_} once it is processing"):
        taken(store)
    assert desk.states() == ["queued"]
    assert desk.row(id_)["started_at"] is None

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, lambda record: None):
            await observed(lambda: "does not show row" in caplog.text, "the worker to say so")

    using(store, whole)
    assert desk.states() == ["queued"]


# ── records ──


def test_records(desk: Desk) -> None:
    desk.make()
    ids = [desk.add(size=n, title=f"no. {n}") for n in range(4)]
    assert taken(desk.store(scan=Title), 1) == [Title(ids[0], "no. 0")]
    assert taken(desk.store(scan=Sized), 1) == [Sized(id=ids[1], size=1)]
    assert taken(desk.store(scan=lambda row: (row["id"], row["title"])), 1) == [(ids[2], "no. 2")]
    [row] = taken(desk.store(), 1)
    assert (row["id"], row["size"], row["state"]) == (ids[3], 3, "processing")
    assert set(row) == set(desk.row(ids[3]))


def test_records_of_expressions(desk: Desk) -> None:
    desk.make()
    for n in range(4):
        desk.add(size=n, title="50%")
    expressions = [
        "j.id",
        sql.SQL("(SELECT count(*) FROM jobs WHERE size < {})").format(2),
        "(SELECT count(*) FROM jobs WHERE title LIKE '%0\\%')",
        "j.size % 2",
        "CASE WHEN j.title = '50%' THEN '{}' END",
    ]

    @dataclass(kw_only=True)
    class Counted:
        id: int
        few: int
        all: int
        odd: int
        text: str
        unset: str = "default"

    named = [*expressions[:1], *map(_named, expressions[1:], ("few", "all", "odd", "text"))]
    options: dict[str, Any] = {"table_name": "jobs j", "column_expressions": expressions}
    assert taken(desk.store(**options, scan=Counted), 1) == [
        Counted(id=1, few=2, all=4, odd=0, text="{}")
    ]
    options["column_expressions"] = named
    assert taken(desk.store(**options), 1) == [
        {"id": 2, "few": 2, "all": 4, "odd": 1, "text": "{}"}
    ]
    assert taken(desk.store(**options, scan=len), 1) == [5]


def _named(expression: Any, name: str) -> sql.Composed:
    text = sql.SQL(expression) if isinstance(expression, str) else expression
    return sql.SQL("{} AS {}").format(text, sql.Identifier(name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan": lambda row: row["colour"]}, "KeyError"),
        ({"scan": Title, "column_expressions": ["id"]}, "missing 1 required"),
        (
            {"scan": Title, "column_expressions": ["id", "title", "size"]},
            "3 columns are selected, but Title has only 2 fields",
        ),
        (
            {"column_expressions": ["(SELECT count(*) FROM jobs)"] * 2},
            "two of column_expressions are called count",
        ),
    ],
)
def test_a_row_that_cannot_be_read_fails_and_no_other(
    desk18: Desk, options: dict[str, Any], message: str
) -> None:
    desk18.make()
    bad, other = desk18.add(), desk18.add()
    if message == "KeyError":
        options = {"scan": lambda row: row["colour"] if row["id"] == bad else row}
    work(desk18.store(**options), lambda record: None, 2)
    assert message in desk18.row(bad)["failure_message"]
    assert (desk18.row(bad)["state"], desk18.row(bad)["num_failures"]) == ("failed", 1)
    assert desk18.row(other)["state"] == ("completed" if message == "KeyError" else "failed")


# ── columns ──


def test_every_column_by_another_name(desk: Desk) -> None:
    columns = [field.split()[0] for field in ddl("jobs", index=False).splitlines()[1:-1]]
    assert len(columns) == 13
    alternate = {column: f"my {column}" for column in columns}
    desk.ask(ddl("jobs"))
    for column, name in alternate.items():
        desk.ask(f'ALTER TABLE jobs RENAME COLUMN {column} TO "{name}"')
    desk.ask("INSERT INTO jobs DEFAULT VALUES")
    desk.ask("INSERT INTO jobs DEFAULT VALUES")
    desk.ask('INSERT INTO jobs ("my cancel") VALUES (true)')
    clock = FakeClock()
    store = desk.store(
        alternate_column_names=alternate, max_num_retries=1, retry_after=60, clock=clock
    )
    seen: list[Any] = []

    def handle(ctx: Context, record: Any) -> None:
        seen.append(record["my id"])
        ctx.log("began")
        if record["my id"] == 2:
            raise ValueError("no")

    async def whole(store: TableStore[Any]) -> None:
        one = worker(store, handle, num_total_jobs=2)
        await one.start()
        await one.wait()
        await store.reap(10, 5)
        clock.advance(61)
        [lease] = await take(store)
        lifeline = store.lifeline()
        await asyncio.to_thread(lifeline.renew, "w", 30.0, [lease])
        clock.advance(31)
        assert (await store.reap(10, 5)).requeued == (2,)
        assert await store.cancel([2]) == [2]
        assert await store.counts() == {"completed": 1, "canceled": 2}
        assert await store.max_duration_in_queue() == 0

    using(store, whole)
    assert seen == [1, 2]
    rows = desk.ask(
        'SELECT "my state", "my num_failures", "my num_resets", "my execution_logs"'
        ' FROM jobs ORDER BY "my id"'
    )
    assert rows == [
        ("completed", 0, 0, ["began"]),
        ("canceled", 1, 1, None),
        ("canceled", 0, 0, None),
    ]


@pytest.mark.parametrize(
    "type_",
    [
        "text",
        "varchar(40)",
        "state",
        '"Job State"',
    ],
)
def test_types_of_the_state(desk: Desk, type_: str) -> None:
    desk.make()
    for name in ("state", '"Job State"'):
        desk.ask(
            f"CREATE TYPE {name} AS ENUM ('queued', 'processing', 'errored', 'failed', 'completed',"
            " 'canceled', 'paused')"
        )
    for name in ("jobs_id_idx", "jobs_id_idx1"):
        desk.ask(f"DROP INDEX {name}")
    desk.ask("ALTER TABLE jobs ALTER state DROP DEFAULT")
    desk.ask(f"ALTER TABLE jobs ALTER state TYPE {type_} USING state::{type_}")
    desk.ask("ALTER TABLE jobs ALTER state SET DEFAULT 'queued'")
    desk.ask("CREATE INDEX ON jobs (id) WHERE state IN ('queued', 'errored')")
    ids = [desk.add(title=word) for word in ("fine", "fails", "poison", "later")]
    clock = FakeClock()
    store = desk.store(scan=Title, max_num_retries=1, retry_after=1, clock=clock)

    def handle(record: Title) -> Any:
        match record.title:
            case "fails":
                raise ValueError
            case "poison":
                raise Poison
            case "later":
                return Abandon()

    work(store, handle, 4)
    assert desk.states() == ["completed", "errored", "failed", "queued"]

    async def whole(store: TableStore[Any]) -> None:
        clock.advance(2)
        assert len(await take(store)) == 2
        clock.advance(60)
        assert len((await store.reap(10, 5)).requeued) == 2
        assert len(await take(store)) == 2
        await store.retire("w")
        assert await store.cancel([ids[1], ids[3]]) == [ids[1], ids[3]]
        assert await store.queued_count() == 0

    using(store, whole)
    assert desk.states() == ["completed", "canceled", "failed", "canceled"]


def test_a_message_longer_than_its_column_is_cut(desk: Desk) -> None:
    desk.make()
    desk.ask("ALTER TABLE jobs ALTER failure_message TYPE varchar(20)")
    ids = [desk.add(), desk.add(state="processing")]

    async def whole(store: TableStore[Any]) -> None:
        one = worker(store, lambda record: 1 // 0, num_total_jobs=1)
        await one.start()
        await one.wait()
        assert (await store.reap(10, 0)).ended == (ids[1],)

    using(desk.store(), whole)
    assert desk.states() == ["failed", "failed"]
    assert desk.row(ids[0])["failure_message"] == "ZeroDivisionError: i"
    assert desk.row(ids[1])["failure_message"] == "its worker died too "


def test_columns_of_the_users_own_are_left_alone(desk: Desk) -> None:
    desk.make(extra=["at timestamptz NOT NULL", "place integer NOT NULL", "kind text NOT NULL"])
    own: dict[str, Any] = {"at": datetime(2020, 1, 1, tzinfo=UTC), "place": 7, "kind": "x%"}
    id_ = desk.add(**own)
    store = desk.store(order_by="at, place", conditions=["at < now()", "kind LIKE 'x%'"])
    work(store, lambda record: None)
    row = desk.row(id_)
    assert row["state"] == "completed"
    assert {name: row[name] for name in own} == own


def test_without_the_optional_columns_the_rest_works(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.make()
    for column in ("execution_logs", "worker_hostname", "cancel"):
        desk.ask(f"ALTER TABLE jobs DROP COLUMN {column}")
    ids = [desk.add() for _ in range(4)]
    clock = FakeClock()
    store = desk.store(max_num_retries=1, retry_after=5, clock=clock)
    refused: list[BaseException] = []

    async def handle(ctx: Context, store: TableStore[Any], record: Any) -> None:
        ctx.log("nobody keeps this")
        ctx.progress(0.5)
        try:
            await store.add_execution_log_entry(ctx, "nor this")
        except ConfigError as error:
            refused.append(error)
        if record["id"] == ids[1]:
            raise ValueError("no")

    work(store, handle, 2)
    assert "no column for execution logs" in str(refused[0])
    assert desk.states() == ["completed", "errored", "queued", "queued"]

    async def whole(store: TableStore[Any]) -> None:
        [lease, other] = await take(store)
        assert await store.cancel([ids[2], ids[1]]) == [ids[1]]
        [applied] = await store.settle([(lease, COMPLETE)])
        assert applied.verdict is Verdict.APPLIED
        [again] = await store.settle([(lease, COMPLETE)])
        assert again.verdict is Verdict.LOST
        lifeline = store.lifeline()
        renewal = await asyncio.to_thread(lifeline.renew, "w", 30.0, [lease, other])
        assert list(renewal.lost) == [lease.job_id]
        await store.retire("w")
        clock.advance(60)
        assert (await store.reap(10, 5)).requeued == (ids[3],)

    using(store, whole)
    assert desk.states() == ["completed", "canceled", "completed", "queued"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == [
        record for record in caplog.records if "attempt" in record.message
    ]


def test_columns_that_may_be_null(desk: Desk) -> None:
    """The table of the guide says NOT NULL in few places; a NULL there hides nothing."""
    desk.make()
    for column in ("state", "queued_at", "worker_hostname", "cancel", "num_failures", "num_resets"):
        desk.ask(f"ALTER TABLE jobs ALTER {column} DROP NOT NULL")
    id_ = desk.add(
        queued_at=None, worker_hostname=None, cancel=None, num_failures=None, num_resets=None
    )
    store = desk.store(max_num_retries=1, retry_after=0.01)

    def handle(ctx: Context, record: Any) -> None:
        if ctx.job.attempts == 1:
            raise ValueError

    work(store, handle, 2)
    assert (desk.row(id_)["state"], desk.row(id_)["num_failures"]) == ("completed", 1)

    async def whole(store: TableStore[Any]) -> Any:
        return await store.get(id_), await store.max_duration_in_queue()

    job, seconds = using(store, whole)
    assert (job.id, seconds) == (id_, 0)


# ── which rows, in which order ──


def test_rows_that_are_not_due(desk: Desk) -> None:
    clock = FakeClock()
    now = to_datetime(clock.now())
    desk.make()
    future = desk.add(process_after=now + timedelta(seconds=0.5))
    late = desk.add(state="errored", process_after=now + timedelta(seconds=1))
    for state in ("processing", "failed", "completed", "canceled", "paused", "QUEUED"):
        desk.add(state=state)
    past = desk.add(state="errored", process_after=now - timedelta(days=1))
    never = desk.add(state="errored")
    store = desk.store(clock=clock, scan=lambda row: row["id"], max_num_retries=3, retry_after=30)
    assert taken(store) == [past, never]
    clock.advance(0.499999)
    assert taken(store) == []
    clock.advance(0.000001)
    assert taken(store) == [future]
    clock.advance(0.5)
    assert taken(store) == [late]


@pytest.mark.parametrize("view", [None, "seen"])
def test_errored_rows_wait_for_nothing_where_retries_are_off(desk: Desk, view: str | None) -> None:
    clock = FakeClock()
    now = to_datetime(clock.now())
    desk.make()
    desk.ask("CREATE VIEW seen AS SELECT * FROM jobs")
    first = desk.add(state="errored", finished_at=now - timedelta(days=1))
    desk.add(state="errored", process_after=now - timedelta(seconds=1))
    desk.add(state="errored")
    queued = desk.add(queued_at=now)

    async def seen(store: TableStore[Any]) -> list[Any]:
        job = await store.get(first)
        assert job is not None
        return [await store.queued_count(), await store.max_duration_in_queue(), job.state]

    store = desk.store(clock=clock, scan=lambda row: row["id"], view_name=view)
    assert using(store, seen) == [1, 0.0, JobState.FAILED]
    assert taken(store) == [queued]
    assert desk.states() == ["errored"] * 3 + ["processing"]
    assert using(store, lambda store: store.cancel([first])) == [first]


def test_an_errored_row_without_process_after_waits_for_retry_after(desk: Desk) -> None:
    """As a program that knows nothing of `process_after` would leave it."""
    clock = FakeClock()
    now = to_datetime(clock.now())
    desk.make()
    id_ = desk.add(state="errored", finished_at=now - timedelta(seconds=9), queued_at=now)
    store = desk.store(clock=clock, scan=lambda row: row["id"], max_num_retries=1, retry_after=10)

    async def age(store: TableStore[Any]) -> tuple[Any, float]:
        job = await store.get(id_)
        assert job is not None
        return job.state, await store.max_duration_in_queue()

    assert (taken(store), using(store, age)) == ([], (JobState.SCHEDULED, 0.0))
    clock.advance(1.0)
    assert using(store, age) == (JobState.READY, 0.0)
    clock.advance(2.5)
    assert using(store, age) == (JobState.READY, 2.5)
    assert taken(store) == [id_]


def test_conditions_and_order(desk: Desk) -> None:
    desk.make()
    for size in (3, 1, 2, 5, 4):
        desk.add(size=size, title=f"{size}% full")
    options: dict[str, Any] = {"scan": lambda row: row["size"], "order_by": "size DESC"}
    assert taken(desk.store(**options, conditions=["size < 5 OR false", "title LIKE '4%'"])) == [4]
    given = sql.SQL("size <= {} AND title LIKE {}").format(2, "%% full")
    assert taken(desk.store(**options), conditions=[given, "title LIKE '1%'"]) == [1]
    assert taken(desk.store(**options)) == [5, 3, 2]


def test_the_budget_of_the_guide(desk: Desk) -> None:
    """Jobs larger than the headroom left are skipped, and run when there is room again."""
    desk.make()
    budget = 10
    ids = {size: desk.add(size=size) for size in (6, 7, 3, 1)}

    class Handler:
        def __init__(self) -> None:
            self.free = budget
            self.lowest = budget
            self.running: list[int] = []
            self.seen: list[list[int]] = []
            self.gate = asyncio.Event()

        def pre_dequeue(self) -> tuple[bool, list[sql.Composable]]:
            return self.free > 0, [sql.SQL("size <= {}").format(self.free)]

        def pre_handle(self, ctx: Context, record: Sized) -> None:
            self.free -= record.size
            self.lowest = min(self.lowest, self.free)

        async def handle(self, ctx: Context, store: Any, record: Sized) -> None:
            self.running.append(record.size)
            self.seen.append(list(self.running))
            await self.gate.wait()
            self.running.remove(record.size)

        def post_handle(self, ctx: Context, record: Sized) -> None:
            assert desk.row(record.id)["state"] == "completed"
            self.free += record.size

    async def whole(store: TableStore[Any]) -> Handler:
        handler = Handler()
        async with worker(store, handler, num_handlers=4):
            await observed(lambda: handler.free == 0, "the budget to be used up")
            assert desk.row(ids[7])["state"] == "queued"
            handler.gate.set()
            await observed(lambda: desk.states() == ["completed"] * 4, "all to be done")
            await observed(lambda: handler.free == budget, "all to be given back")
        return handler

    handler = using(desk.store(scan=Sized), whole)
    assert handler.seen[:3] == [[6], [6, 3], [6, 3, 1]]
    assert handler.lowest == 0


def test_a_hook_that_says_no(desk18: Desk) -> None:
    desk18.make()
    desk18.add()
    asked: list[bool] = []

    class Handler:
        def pre_dequeue(self) -> bool:
            asked.append(len(asked) > 3)
            return asked[-1]

        def handle(self, ctx: Context, store: Any, record: Any) -> None:
            assert asked[-1]

    work(desk18.store(), Handler())
    assert asked[:5] == [False] * 4 + [True]
    assert desk18.states() == ["completed"]


# ── failures ──


def test_retries(desk: Desk) -> None:
    clock = FakeClock()
    desk.make()
    id_ = desk.add()
    store = desk.store(clock=clock, max_num_retries=2, retry_after=timedelta(milliseconds=250))
    tries: list[int] = []

    def handle(ctx: Context, record: Any) -> None:
        tries.append(ctx.job.attempts)
        raise ValueError(f"try {len(tries)}\nis in vain")

    for number in (1, 2):
        work(store, handle)
        row = desk.row(id_)
        assert (row["state"], row["num_failures"], row["num_resets"]) == ("errored", number, 0)
        assert row["process_after"] == to_datetime(clock.now()) + timedelta(milliseconds=250)
        assert row["finished_at"] == to_datetime(clock.now())
        assert row["failure_message"].startswith(f"ValueError: try {number}\nis in vain")
        assert "Traceback" in row["failure_message"]
        assert taken(store) == []
        clock.advance(0.25)
    work(store, handle)
    row = desk.row(id_)
    assert (row["state"], row["num_failures"], tries) == ("failed", 3, [1, 2, 3])
    clock.advance(3600)
    assert taken(store) == []


def test_without_retries(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()
    work(desk.store(), lambda record: 1 // 0)
    row = desk.row(id_)
    assert (row["state"], row["num_failures"], row["process_after"]) == ("failed", 1, None)
    assert row["failure_message"].startswith("ZeroDivisionError")


def test_what_handlers_say(desk: Desk) -> None:
    clock = FakeClock()
    desk.make()
    now = to_datetime(clock.now())
    at = now + timedelta(days=3, microseconds=5)

    def say(record: Title) -> Any:
        match record.title:
            case "poison":
                raise Poison("never")
            case "after":
                raise RetryAfter(0.125, "soon")
            case "at":
                raise RetryAt(at)
            case "nack":
                return Nack(7.5, "not now")
            case "failed":
                return Failed("in short")
            case "abandon":
                return Abandon()
            case "value":
                return {"any": "thing"}

    words = ("poison", "after", "at", "nack", "failed", "value", "none", "abandon")
    ids = {word: desk.add(title=word) for word in words}
    store = desk.store(clock=clock, scan=Title, max_num_retries=1, retry_after=60)
    work(store, say, len(words))
    rows = {word: desk.row(id_) for word, id_ in ids.items()}
    assert {word: row["state"] for word, row in rows.items()} == {
        "poison": "failed",
        "after": "errored",
        "at": "errored",
        "nack": "errored",
        "failed": "errored",
        "abandon": "queued",
        "value": "completed",
        "none": "completed",
    }
    failures = {word: row["num_failures"] for word, row in rows.items()}
    assert failures == dict.fromkeys(words, 1) | {"abandon": 0, "value": 0, "none": 0}
    due = {word: row["process_after"] for word, row in rows.items() if row["process_after"]}
    assert due == {
        "after": now + timedelta(seconds=0.125),
        "at": at,
        "nack": now + timedelta(seconds=7.5),
        "failed": now + timedelta(seconds=60),
    }
    messages = {word: (row["failure_message"] or "").split("\n")[0] for word, row in rows.items()}
    assert messages == dict.fromkeys(words, "") | {
        "poison": "Poison: never",
        "after": "RetryAfter: soon",
        "at": f"RetryAt: asked to be retried at {at.isoformat()}",
        "nack": "not now",
        "failed": "in short",
    }
    assert rows["abandon"]["started_at"] is None
    clock.advance(86400 * 4)
    work(store, lambda record: Nack(1), 5)  # their last attempts, and the abandoned one's first
    assert desk.states() == ["failed"] * 5 + ["completed", "completed", "errored"]


def test_a_runtime_that_is_too_long(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()

    async def handle(record: Any) -> None:
        await asyncio.Event().wait()

    work(desk.store(), handle, maximum_runtime_per_job=0.1)
    row = desk.row(id_)
    assert (row["state"], row["num_failures"]) == ("failed", 1)
    assert "timeout of 0.1 s" in row["failure_message"]


def test_what_a_claim_writes(desk: Desk) -> None:
    """A new try begins with nothing of the last one's."""
    clock = FakeClock()
    desk.make()
    id_ = desk.add(state="errored", failure_message="old", finished_at=to_datetime(clock.now()))
    desk.ask("UPDATE jobs SET execution_logs = ARRAY['\"old\"'::json]")
    [seen] = taken(desk.store(clock=clock, max_num_retries=1, retry_after=0))
    now = to_datetime(clock.now())
    for row in (seen, desk.row(id_)):
        assert (row["started_at"], row["last_heartbeat_at"]) == (now, now)
        assert (row["failure_message"], row["finished_at"], row["execution_logs"]) == (None,) * 3
        assert (row["state"], row["worker_hostname"]) == ("processing", "w")


# ── logs ──


@pytest.mark.parametrize("type_", ["json[]", "jsonb[]"])
def test_execution_logs(desk: Desk, type_: str) -> None:
    desk.make()
    desk.ask(f"ALTER TABLE jobs ALTER execution_logs TYPE {type_} USING NULL")
    id_ = desk.add()
    numbers: list[int] = []
    refused: list[str] = []

    async def handle(ctx: Context, store: TableStore[Any], record: Any) -> None:
        ctx.log({"key": "said", "out": "50% {}"})
        await observed(lambda: desk.row(id_)["execution_logs"], "the first entry")
        numbers.append(await store.add_execution_log_entry(ctx, {"key": "step", "exit": None}))
        numbers.append(await store.add_execution_log_entry(ctx, ["a", 1]))
        await store.update_execution_log_entry(ctx, numbers[0], {"key": "step", "exit": 0})
        for number in (0, 4):
            try:
                await store.update_execution_log_entry(ctx, number, "nowhere")
            except LeaseLostError as error:
                refused.append(str(error))

    work(desk.store(), handle)
    assert numbers == [2, 3]
    assert len(refused) == 2 and "no such entry" in refused[0]
    row = desk.row(id_)
    assert (row["state"], row["failure_message"]) == ("completed", None)
    assert row["execution_logs"] == [
        {"key": "said", "out": "50% {}"},
        {"key": "step", "exit": 0},
        ["a", 1],
    ]


def test_logs_of_a_record_that_was_lost_are_refused(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()
    clock = FakeClock()

    class Late:
        def __init__(self, lease: Any) -> None:
            self._delivery = self
            self.lease = lease

    async def whole(store: TableStore[Any]) -> None:
        [lease] = await take(store)
        clock.advance(60)
        await store.reap(10, 5)
        with pytest.raises(LeaseLostError):
            await store.add_execution_log_entry(Late(lease), "late")
        clock.advance(1)
        await take(store)
        with pytest.raises(LeaseLostError):
            await store.add_execution_log_entry(Late(lease), "late")

    using(desk.store(clock=clock), whole)
    assert desk.row(id_)["execution_logs"] is None


# ── cancel ──


def test_cancel_of_what_waits(desk: Desk) -> None:
    desk.make()
    queued, errored, done = desk.add(), desk.add(state="errored"), desk.add(state="completed")

    async def whole(store: TableStore[Any]) -> tuple[list[int], list[Any]]:
        canceled = await store.cancel([queued, errored, done, 999])
        return canceled, await take(store)

    canceled, claimed = using(desk.store(), whole)
    assert (sorted(canceled), claimed) == ([queued, errored], [])
    assert desk.states() == ["canceled", "canceled", "completed"]
    assert desk.row(queued)["finished_at"] is not None


@pytest.mark.parametrize("by", ["store", "UPDATE"])
@pytest.mark.parametrize("kind", ["async def", "def"])
def test_cancel_of_what_runs(desk: Desk, by: str, kind: str) -> None:
    desk.make()
    id_ = desk.add()
    reasons: list[str] = []

    async def on_loop(ctx: Context, record: Any) -> None:
        reasons.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(str(ctx.abort.reason))

    def in_thread(ctx: Context, record: Any) -> None:
        reasons.append("began")
        while not ctx.abort.is_set():
            time.sleep(0.002)
        reasons.append(str(ctx.abort.reason))
        raise RuntimeError("stopped")

    async def whole(store: TableStore[Any]) -> None:
        async with worker(store, on_loop if kind == "async def" else in_thread):
            await observed(lambda: reasons, "the job to begin")
            if by == "store":
                assert await store.cancel([id_]) == [id_]
            else:
                desk.ask("UPDATE jobs SET cancel = true")
            await observed(lambda: desk.states() == ["canceled"], "the job to be canceled")

    using(desk.store(heartbeat_interval=0.1), whole)
    assert reasons == ["began", "cancelled"]
    assert desk.row(id_)["num_failures"] == 0


def test_waiting_rows_with_cancel_are_never_run_and_end_canceled(desk: Desk) -> None:
    desk.make()
    ids = [desk.add(cancel=True), desk.add(cancel=True, state="errored")]
    last = desk.add()
    seen: list[int] = []

    async def whole(store: TableStore[Any]) -> None:
        handler = lambda record: seen.append(record["id"])  # noqa: E731
        async with worker(store, handler, reset_interval=0.05):
            await observed(
                lambda: desk.states() == ["canceled", "canceled", "completed"], "all to end"
            )

    using(desk.store(), whole)
    assert seen == [last]
    assert all(desk.row(id_)["finished_at"] for id_ in ids)


# ── numbers ──


def test_counts_and_ages(desk: Desk) -> None:
    clock = FakeClock()
    now = to_datetime(clock.now())
    desk.make()

    def ago(seconds: float) -> datetime:
        return now - timedelta(seconds=seconds)

    async def numbers(store: TableStore[Any]) -> tuple[dict[str, int], int, float]:
        return (
            await store.counts(),
            await store.queued_count(),
            await store.max_duration_in_queue(),
        )

    store = desk.store(clock=clock, max_num_retries=1, retry_after=1)
    assert using(store, numbers) == ({}, 0, 0.0)
    desk.add(queued_at=ago(500), state="completed")
    desk.add(queued_at=ago(400), state="processing")
    desk.add(queued_at=ago(300), process_after=ago(-1))
    desk.add(queued_at=ago(200), process_after=ago(20.5), state="errored")
    assert using(store, numbers)[2] == 20.5
    desk.add(queued_at=ago(30.25))
    assert using(store, numbers) == (
        {"completed": 1, "processing": 1, "queued": 2, "errored": 1},
        3,
        30.25,
    )


def test_rows_that_the_view_does_not_show_are_not_counted(desk: Desk) -> None:
    """No worker can take them, so they do not wait for one. A view may have a row twice."""
    clock = FakeClock()
    now = to_datetime(clock.now())
    desk.make()
    desk.ask(
        "CREATE VIEW shown AS SELECT j.id, n FROM jobs j, generate_series(1, 2) n WHERE j.size > 0"
    )
    desk.add(queued_at=now - timedelta(seconds=500), size=0)
    desk.add(state="failed", size=0)
    desk.add(queued_at=now - timedelta(seconds=3))
    desk.add(state="failed")

    async def numbers(store: TableStore[Any]) -> list[Any]:
        return [
            await store.counts(),
            await store.queued_count(),
            await store.max_duration_in_queue(),
        ]

    store = desk.store(clock=clock, view_name="shown AS s", order_by="s.id")
    assert using(store, numbers) == [{"queued": 1, "failed": 1}, 1, 3.0]


# ── places ──


def test_places(desk: Desk) -> None:
    desk.make()
    id_ = desk.add()
    with psycopg.connect(desk.url) as connection:
        work(desk.store(connection), lambda record: Abandon())
        assert not connection.closed
    with psycopg_pool.ConnectionPool(desk.url, min_size=1, max_size=4) as pool:
        work(desk.store(pool), lambda record: Abandon())
        with pool.connection() as connection:
            assert not connection.autocommit
    work(desk.store(), lambda record: None)
    assert desk.row(id_)["state"] == "completed"

    async def with_async_ones() -> list[int]:
        async with (
            psycopg_pool.AsyncConnectionPool(desk.url, open=False, max_size=4) as pool,
            await psycopg.AsyncConnection.connect(desk.url) as connection,
        ):
            found = []
            for place in (pool, connection):
                async with desk.store(place) as store:
                    found.append(sum((await store.counts()).values()))
            return found

    assert run(with_async_ones()) == [1, 1]


@pytest.mark.parametrize("place", ["sqlite:///jobs.db", "memory://", 5, object()])
def test_places_that_are_none(place: Any) -> None:
    with pytest.raises(ConfigError):
        TableStore(place, TableOptions(name="jobs", table_name="jobs"))


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_a_time_zone_changes_nothing(pg: Cluster, zone: str) -> None:
    with fresh_database(pg) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(sql.SQL(ddl("jobs")))
            connection.execute(f"ALTER DATABASE {name} SET timezone = '{zone}'".encode())
        connection = psycopg.connect(url, autocommit=True)
        with connection:
            assert connection.execute("SHOW timezone").fetchone() == (zone,)
            for _ in range(2):
                connection.execute("INSERT INTO jobs DEFAULT VALUES")
            clock = FakeClock()
            options: TableOptions[Any] = TableOptions(
                name="jobs", table_name="jobs", max_num_retries=1, retry_after=0.5
            )
            store = TableStore(url, options, clock=clock)

            async def whole(store: TableStore[Any]) -> None:
                kept, failing = await take(store)
                assert kept.token == clock.now()
                [failed] = await store.settle([(failing, Fail("no", delay=0.5, max_attempts=2))])
                assert failed.verdict is Verdict.APPLIED
                clock.advance(20)
                lifeline = store.lifeline()
                renewal = await asyncio.to_thread(lifeline.renew, "w", 30.0, [kept])
                assert (dict(renewal.lost), renewal.locked) == ({}, frozenset())
                clock.advance(20)
                assert (await store.reap(10, 5)).requeued == ()
                [again] = await take(store)
                assert again.job_id == failing.job_id
                assert {x.verdict for x in await store.settle([(kept, COMPLETE)])} == {
                    Verdict.APPLIED
                }
                await store.settle([(again, RELEASE)])
                job = await store.get(failing.job_id)
                assert job is not None and abs(await store.now() - clock.now()) == 0

            using(store, whole)
            beat = connection.execute(
                "SELECT extract(epoch FROM last_heartbeat_at)::bigint FROM jobs WHERE id = 1"
            ).fetchone()
            assert beat == ((clock.now() - 20_000_000) // 1_000_000,)
            # And by the server's own clock.
            using(TableStore(url, options), take)
            row = connection.execute(
                "SELECT abs(extract(epoch FROM clock_timestamp() - started_at)) < 60"
                " FROM jobs WHERE state = 'processing'"
            ).fetchone()
            assert row == (True,)
