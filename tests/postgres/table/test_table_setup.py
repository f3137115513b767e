"""A table against its options: everything that does not fit is told at once, with its cure."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.faults.kit import until
from tests.postgres.table.desk import Desk, run, using
from windlass.errors import ConfigError, ValidationError
from windlass.stores.table.columns import COLUMNS
from windlass.stores.table.names import _RESERVED
from windlass.table import Examined, TableOptions, TableStore, ddl, examine

NEEDED = [column.name for column in COLUMNS if column.is_needed]
OPTIONAL = [column.name for column in COLUMNS if not column.is_needed]
NEVER_NULL = ["failure_message", "execution_logs", "started_at", "finished_at", "last_heartbeat_at"]


@pytest.fixture
def made(desk18: Desk) -> Desk:
    desk18.make()
    return desk18


async def opened(store: TableStore[Any]) -> None:
    async with store:
        pass


def refusal(desk: Desk, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        run(opened(desk.store(**options)))
    return str(caught.value)


def look(desk: Desk, **options: Any) -> Examined:
    return examine(desk.url, TableOptions(**{"name": "jobs", "table_name": "jobs", **options}))


def mend(desk: Desk, **options: Any) -> None:
    """Run what an examination says is to be run, until it says nothing more."""
    examined = look(desk, **options)
    for found in (*examined.problems, *examined.advice, *examined.notes):
        assert found.mend, found
        for statement in found.mend.split(";\n"):
            desk.ask(statement)
    again = look(desk, **options)
    assert (again.problems, again.advice, again.notes) == ([], [], [])


def drop_indexes(desk: Desk) -> None:
    """All but those of keys."""
    for name, condition in desk.ask(
        "SELECT indexrelid::regclass::text, indpred FROM pg_index AS i"
        " JOIN pg_class AS c ON c.oid = indrelid WHERE c.relnamespace = %s::regnamespace",
        desk.schema,
    ):
        if condition is not None:
            desk.ask(f"DROP INDEX {name}")


@contextmanager
def no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    yield
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


# ── DDL ──


@pytest.mark.parametrize(
    "name", ["example_jobs", "{schema}.example_jobs", '"Example Jobs"', '"order"', "jobs"]
)
def test_the_ddl_makes_a_table_that_fits(
    desk: Desk, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = name.format(schema=desk.schema)
    desk.ask(ddl(name, extra=["repository_id integer NOT NULL", " PRIORITY real "]))
    with no_warnings(caplog):
        run(opened(desk.store(table_name=name, order_by="priority, repository_id")))
    assert look(desk, table_name=name).notes == []


def test_the_ddl_without_an_index(desk18: Desk) -> None:
    desk18.ask(ddl("jobs", index=False))
    assert [each.code for each in look(desk18).advice] == ["missing_index"]
    with pytest.raises(ConfigError, match="is not a name"):
        ddl("jobs; DROP TABLE jobs")


# ── one thing each ──


@pytest.mark.parametrize("column", NEEDED)
def test_a_missing_column(desk18: Desk, column: str) -> None:
    desk18.make()
    desk18.ask(f"ALTER TABLE jobs DROP COLUMN {column}")
    text = refusal(desk18)
    assert text.startswith("jobs does not fit: it has no column ")
    assert f"ALTER TABLE jobs ADD COLUMN {column} " in text
    mend(desk18)


def test_a_missing_id_beside_a_key_of_the_users_own(desk18: Desk) -> None:
    desk18.make()
    desk18.ask("ALTER TABLE jobs DROP COLUMN id, ADD COLUMN number bigserial PRIMARY KEY")
    mend(desk18)
    desk18.ask("ALTER TABLE jobs DROP COLUMN id")
    run(opened(desk18.store(alternate_column_names={"id": "number"})))


@pytest.mark.parametrize("column", OPTIONAL)
def test_an_optional_column(desk18: Desk, column: str, caplog: pytest.LogCaptureFixture) -> None:
    desk18.make()
    desk18.ask(f"ALTER TABLE jobs DROP COLUMN {column}")
    with no_warnings(caplog):
        run(opened(desk18.store()))
    [note] = look(desk18).notes
    assert (note.code, f"no column {column}, so" in note.text) == ("optional_column", True)
    # Somebody who says what it is called means that it is there.
    assert "it has no column mine" in refusal(desk18, alternate_column_names={column: "mine"})
    mend(desk18)


@pytest.mark.parametrize(
    ("column", "type_", "using_"),
    [
        ("id", "text", "id::text"),
        ("id", "numeric", "id"),
        ("queued_at", "timestamp", "queued_at"),
        ("started_at", "timestamp", "started_at"),
        ("finished_at", "text", "finished_at::text"),
        ("process_after", "date", "process_after"),
        ("last_heartbeat_at", "timestamp", "last_heartbeat_at"),
        ("num_failures", "text", "num_failures::text"),
        ("num_resets", "numeric", "num_resets"),
        ("failure_message", "json", "failure_message::json"),
        ("execution_logs", "text[]", "NULL"),
        ("worker_hostname", "char(20)", "worker_hostname"),
        ("cancel", "integer", "cancel::integer"),
        ("state", "name", "state::name"),
    ],
)
def test_a_wrong_type(desk18: Desk, column: str, type_: str, using_: str) -> None:
    desk18.make()
    desk18.add(failure_message="{}")
    drop_indexes(desk18)
    desk18.ask(f"ALTER TABLE jobs ALTER {column} DROP IDENTITY IF EXISTS")
    if column == "cancel":
        desk18.ask("ALTER TABLE jobs ALTER cancel DROP DEFAULT")
    desk18.ask(f"ALTER TABLE jobs ALTER {column} TYPE {type_} USING {using_}")
    text = refusal(desk18)
    assert f"column {column} is " in text
    assert f"ALTER COLUMN {column} TYPE " in text
    mend(desk18)
    assert desk18.one("SELECT count(*) FROM jobs") == 1


@pytest.mark.parametrize(
    ("column", "short", "enough"),
    [
        ("state", "varchar(9)", "varchar(10)"),
        ("worker_hostname", "varchar(40)", "varchar(89)"),
        ("started_at", "timestamptz(3)", "timestamptz(6)"),
    ],
)
def test_a_column_that_is_too_short(desk18: Desk, column: str, short: str, enough: str) -> None:
    desk18.make()
    drop_indexes(desk18)
    desk18.ask(f"ALTER TABLE jobs ALTER {column} TYPE {short}")
    assert f"column {column} is too short for what is written there" in refusal(desk18)
    mend(desk18)
    drop_indexes(desk18)
    desk18.ask(f"ALTER TABLE jobs ALTER {column} TYPE {enough}")
    run(opened(desk18.store()))


def test_times_without_a_zone_are_taken_for_utc(desk18: Desk) -> None:
    desk18.make()
    desk18.ask("ALTER TABLE jobs ALTER queued_at TYPE timestamp")
    desk18.add(queued_at="2026-07-01 12:00")
    desk18.ask("SET timezone = 'Asia/Kolkata'")
    mend(desk18)
    assert desk18.one("SELECT queued_at = '2026-07-01 12:00+00' FROM jobs") is True


@pytest.mark.parametrize(("column", "type_"), [("id", "uuid"), ("execution_logs", "jsonb")])
def test_a_type_that_nothing_turns_into_ours(desk18: Desk, column: str, type_: str) -> None:
    desk18.make()
    desk18.ask(f"ALTER TABLE jobs DROP COLUMN {column}")
    desk18.ask(f"ALTER TABLE jobs ADD COLUMN {column} {type_} UNIQUE")
    text = refusal(desk18)
    assert f"column {column} is {type_}, not " in text
    assert "ALTER" not in text


def test_a_state_that_lacks_words(desk: Desk) -> None:
    desk.ask("CREATE TYPE state AS ENUM ('queued', 'processing', 'completed', 'failed')")
    desk.make()
    drop_indexes(desk)
    desk.ask("ALTER TABLE jobs ALTER state DROP DEFAULT")
    desk.ask("ALTER TABLE jobs ALTER state TYPE state USING state::state")
    text = refusal(desk)
    assert "the type of column state lacks errored, canceled" in text
    examined = look(desk)
    for statement in examined.problems[0].mend.split(" ALTER"):
        desk.ask(statement if statement.startswith("ALTER") else f"ALTER{statement}")
    mend(desk)


@pytest.mark.parametrize("column", NEVER_NULL)
def test_a_column_that_is_set_to_null_may_not_forbid_it(made: Desk, column: str) -> None:
    made.ask(f"ALTER TABLE jobs ALTER {column} SET NOT NULL")
    assert refusal(made).endswith(
        f"column {column} is NOT NULL, but NULL is written to it:"
        f" ALTER TABLE jobs ALTER COLUMN {column} DROP NOT NULL;"
    )
    mend(made)


@pytest.mark.parametrize("kind", ["text", "character varying"])
def test_a_check_that_forbids_a_state(made: Desk, kind: str) -> None:
    made.ask(f"ALTER TABLE jobs ALTER state TYPE {kind}")
    made.ask(
        "ALTER TABLE jobs ADD CONSTRAINT fine CHECK (state <> 'lost'),"
        " ADD CONSTRAINT \"a 100% check\" CHECK (state IN ('queued', 'processing', 'completed'))"
    )
    [problem] = look(made).problems
    assert problem.code == "missing_state"
    assert "forbids errored, failed, canceled in column state" in problem.text
    mend(made)


def test_an_id_that_is_not_unique(desk18: Desk) -> None:
    desk18.make()
    desk18.ask("ALTER TABLE jobs DROP CONSTRAINT jobs_pkey")
    assert "ALTER TABLE jobs ADD PRIMARY KEY (id);" in refusal(desk18)
    desk18.ask("CREATE INDEX ON jobs (id)")
    desk18.ask("CREATE UNIQUE INDEX ON jobs (id, state)")
    desk18.ask("CREATE UNIQUE INDEX ON jobs (id) WHERE state = 'queued'")
    assert "column id is not unique" in refusal(desk18)
    desk18.ask("ALTER TABLE jobs ADD COLUMN number bigserial PRIMARY KEY")
    assert "ALTER TABLE jobs ADD UNIQUE (id);" in refusal(desk18)
    mend(desk18)


def test_a_missing_index_is_a_warning(desk18: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk18.make('"My Jobs"')
    drop_indexes(desk18)
    options: dict[str, Any] = {"table_name": '"My Jobs"'}
    run(opened(desk18.store(**options)))
    [warning] = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith("jobs: no index of My Jobs is by state, so every look")
    assert """CREATE INDEX ON "My Jobs" (id) WHERE state = 'processing';""" in warning
    mend(desk18, **options)
    drop_indexes(desk18)
    desk18.ask('CREATE INDEX ON "My Jobs" (state)')
    assert look(desk18, **options).advice == []


def test_an_index_for_an_order_of_its_own_is_enough(desk18: Desk) -> None:
    desk18.ask(ddl("jobs", extra=["size integer"], index=False))
    desk18.ask("CREATE INDEX ON jobs (size, id) WHERE state IN ('queued', 'errored')")
    assert look(desk18, order_by="jobs.size").advice == []


def test_a_long_heartbeat_is_a_warning(desk18: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk18.make()
    run(opened(desk18.store(stalled_max_age=10, heartbeat_interval=timedelta(seconds=6))))
    [warning] = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert "heartbeat_interval (6 s) is more than half of stalled_max_age (10 s)" in warning
    assert "set it to 3.3 s" in warning
    with no_warnings(caplog):
        run(opened(desk18.store(stalled_max_age=10, heartbeat_interval=5)))


# ── tables, views, fields ──


def test_a_missing_table_or_view(desk18: Desk) -> None:
    assert refusal(desk18).startswith(
        "jobs does not fit: there is no table jobs: CREATE TABLE jobs"
    )
    mend(desk18, alternate_column_names={"state": "status", "id": "order"})
    assert "there is no table JOBS" in refusal(desk18, table_name='"JOBS"')
    desk18.ask("DROP TABLE jobs")
    desk18.make()
    assert "there is no view nowhere.v" in refusal(desk18, view_name="nowhere.v AS j")


def test_a_view_without_the_id(desk18: Desk) -> None:
    desk18.make()
    desk18.ask("CREATE VIEW v AS SELECT title, id AS number FROM jobs")
    assert "view v lacks the column id of its table" in refusal(desk18, view_name="v")


def test_fields_that_are_not_there(desk18: Desk) -> None:
    @dataclass
    class Wanted:
        id: int
        title: str
        colour: str

    desk18.make()
    desk18.ask("CREATE VIEW v AS SELECT id, 'red' AS colour FROM jobs")
    text = refusal(desk18, scan=Wanted)
    assert "jobs has no column colour, which the record's class asks for" in text
    assert "v has no column title" in refusal(desk18, scan=Wanted, view_name="v j")
    expressions = ["j.id", "'x'", "j.colour"]
    run(opened(desk18.store(scan=Wanted, view_name="v j", column_expressions=expressions)))


def test_everything_is_told_at_once(desk: Desk) -> None:
    """Every problem of a table in one error, and one round of statements mends them all."""
    desk.ask("CREATE TABLE jobs (number integer, queued_at timestamp, num_resets text DEFAULT '0')")
    desk.ask("INSERT INTO jobs VALUES (1, '2026-01-01 00:00')")
    text = refusal(desk, alternate_column_names={"id": "number"})
    for part in ("column number is not unique", "queued_at is timestamp", "num_resets is text"):
        assert part in text
    for column in set(NEEDED) - {"id", "queued_at", "num_resets"}:
        assert f"it has no column {column}: ALTER TABLE" in text
    mend(desk, alternate_column_names={"id": "number"})
    run(opened(desk.store(alternate_column_names={"id": "number"})))
    assert desk.ask("SELECT state, num_resets FROM jobs") == [("queued", 0)]


def test_rights(desk: Desk) -> None:
    desk.make()
    role = f"r_{desk.schema}"
    desk.ask("CREATE VIEW v AS SELECT * FROM jobs")
    desk.ask(f"CREATE ROLE {role} LOGIN")
    try:
        desk.ask(f"GRANT USAGE ON SCHEMA {desk.schema} TO {role}")
        theirs = desk.url.replace("postgres@", f"{role}@")
        options: TableOptions[Any] = TableOptions(
            name="jobs", table_name="jobs", view_name="v", scan=lambda row: row["id"]
        )
        with pytest.raises(ConfigError, match=r"lacks the right to SELECT jobs.*UPDATE jobs.* v: "):
            run(opened(TableStore(theirs, options)))
        for found in examine(theirs, options).problems:
            assert found.code == "not_permitted"
            desk.ask(found.mend)
        run(opened(TableStore(theirs, options)))
        desk.ask(f"REVOKE UPDATE ON jobs FROM {role}")
        desk.ask(f"GRANT UPDATE (state) ON jobs TO {role}")
        with pytest.raises(ConfigError, match="jobs cannot be used: permission denied"):
            run(opened(TableStore(theirs, options)))
    finally:
        desk.ask(f"DROP OWNED BY {role}")
        desk.ask(f"DROP ROLE {role}")


# ── options and fragments ──


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "must not be empty"),
        ({"max_num_retries": 3}, "give both max_num_retries and retry_after"),
        ({"retry_after": 3}, "give both max_num_retries and retry_after"),
        ({"max_num_retries": -1}, "max_num_retries must be a whole number from 0 on, not -1"),
        ({"max_num_resets": 1.5}, "max_num_resets must be a whole number"),
        ({"max_num_resets": True}, "max_num_resets must be a whole number"),
        ({"max_num_retries": 1, "retry_after": -1}, "retry_after"),
        ({"stalled_max_age": 0.5}, "stalled_max_age must be at least 1 second"),
        ({"stalled_max_age": float("nan")}, "stalled_max_age"),
        ({"heartbeat_interval": 0}, "heartbeat_interval must be more than 0"),
        ({"heartbeat_interval": 30}, "less than stalled_max_age"),
        ({"conditions": "size < 5"}, "conditions is a list"),
        ({"conditions": sql.SQL("size < 5")}, "conditions is a list"),
        ({"column_expressions": "id"}, "column_expressions is a list"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValidationError), match=message):
        made: TableOptions[Any] = TableOptions(**{"name": "jobs", "table_name": "jobs", **options})
        assert made.delay  # read when a store is made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table_name": "jobs; DROP TABLE jobs"}, "table_name 'jobs; DROP TABLE jobs' is not"),
        ({"table_name": "a.b.jobs"}, "is not a name"),
        ({"table_name": "(SELECT 1) AS j"}, "is not a name"),
        ({"table_name": ""}, "is not a name"),
        ({"table_name": None}, "is not a name"),
        ({"view_name": "1jobs"}, "view_name '1jobs' is not a name"),
    ],
)
def test_names_that_are_none(desk18: Desk, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        desk18.store(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"table_name": '"a%b"'},
        {"table_name": 'jobs "%"'},
        {"view_name": '"100%"."of"'},
        {"alternate_column_names": {"state": "the %s state"}},
    ],
)
def test_names_with_a_percent_sign_are_refused(made: Desk, options: dict[str, Any]) -> None:
    assert "has a % in it" in refusal(made, **options)
    with pytest.raises(ConfigError, match="has a % in it"):
        look(made, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alternate_column_names": {"status": "x"}}, "alternate_column_names has 'status'"),
        ({"order_by": "size"}, 'column reference "size" is ambiguous; call rows j: j.id'),
        ({"order_by": "j.colour"}, "column j.colour does not exist; call rows j: j.id"),
        ({"order_by": "jobs.id"}, "call rows j: j.id"),
        ({"order_by": "j.id, ("}, "order_by or conditions cannot be used: syntax error"),
        ({"order_by": 5}, "5 is no SQL; write text, or psycopg.sql.SQL"),
        ({"conditions": ["colour = 5"]}, "order_by or conditions cannot be used"),
        ({"conditions": ["j.size"]}, "must be type boolean"),
        ({"conditions": ["j.size < 'x'"]}, "invalid input syntax"),
        ({"conditions": ["count(*) > 1"]}, "aggregate functions are not allowed"),
        ({"conditions": ["j.size < $1"]}, "there is no parameter"),
        ({"column_expressions": ["j.colour"]}, "column_expressions or order_by cannot be used"),
        ({"column_expressions": ["j.id", "j.title,"]}, "syntax error"),
        ({"column_expressions": ["t.id"]}, "call rows j: j.id"),
    ],
)
def test_fragments_that_cannot_be_used(desk18: Desk, options: dict[str, Any], message: str) -> None:
    desk18.make()
    desk18.ask("CREATE VIEW v AS SELECT * FROM jobs")
    assert message in refusal(desk18, view_name="v AS j", **options)


def test_fragments_of_a_table_without_a_view_need_no_alias(desk18: Desk) -> None:
    desk18.make()
    run(opened(desk18.store(order_by="size DESC, id", conditions=["size < 9", "jobs.size > 0"])))
    assert "call rows jobs: jobs.id" in refusal(desk18, order_by="colour")


def test_a_refused_store_leaves_no_connection(desk18: Desk) -> None:
    desk18.make()
    store = desk18.store(order_by="colour")
    with pytest.raises(ConfigError):
        run(opened(store))
    with pytest.raises(ConfigError):
        run(opened(store))
    left = (
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name = 'windlass' AND query LIKE '%colour%'"
    )
    until(lambda: desk18.ask(left) == [], "its connections to be closed")


def test_opening_twice_is_opening_once(desk18: Desk) -> None:
    desk18.make()

    async def whole(store: TableStore[Any]) -> None:
        await store.open()
        await store.open()
        assert await store.counts() == {}

    using(desk18.store(), whole)


def test_the_reserved_words_are_those_of_the_server(desk: Desk) -> None:
    words = {
        word
        for [word] in desk.ask("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')")
    }
    assert words - set(_RESERVED.split()) == set()
    with pytest.raises(psycopg.errors.SyntaxError):
        desk.ask("CREATE TABLE order (id integer)")
