"""The SQL functions, under the schema name `windlass` and under `graphile_worker`.

Each server gets one database per name, made once; the tables are emptied before every test. In the
statements `{s}` is the schema.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from windlass import App, Context, Poison, quick_add_job
from windlass.store.records import ClaimRequest, Complete, NewJob
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.rendering import channel
from windlass.stores.postgres.schema import prepare

VIEW_COLUMNS = [
    *("id", "queue_name", "task_identifier", "priority", "run_at", "attempts", "max_attempts"),
    *("last_error", "created_at", "updated_at", "key", "locked_at", "locked_by", "revision"),
    "flags",
]
TABLES = ("_jobs", "_history", "_chains", "_blockers", "_workers", "_bells", "_paused")


@dataclass(frozen=True, slots=True)
class Place:
    """A database with an installed schema, and an autocommit connection to it."""

    url: str
    name: str
    connection: psycopg.Connection[dict[str, Any]]

    def sql(self, statement: str) -> bytes:
        return statement.replace("{s}", self.name).encode()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        return self.connection.execute(self.sql(statement), values or None).fetchall()

    def row(self, statement: str, values: Sequence[Any] = ()) -> dict[str, Any]:
        [row] = self.rows(statement, values)
        return row

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        self.connection.execute(self.sql(statement), values or None)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs by id, with payload."""
        return self.rows(
            "SELECT v.*, j.payload FROM {s}.jobs AS v JOIN {s}._jobs AS j USING (id) ORDER BY id"
        )

    def job(self) -> dict[str, Any]:
        [job] = self.jobs()
        return job

    def add(self, arguments: str, values: Sequence[Any] = ()) -> dict[str, Any]:
        return self.row(f"SELECT * FROM {{s}}.add_job({arguments})", values)

    def claim(self, worker: str = "w-1", limit: int = 100) -> None:
        """Let a worker take what is ready, and hold it."""
        tasks = [row["task"] for row in self.rows("SELECT DISTINCT task FROM {s}._jobs")]

        async def claim() -> None:
            store = PostgresStore(self.url, schema_name=self.name)
            await store.open()
            try:
                await store.claim(ClaimRequest(worker, tuple(tasks), limit, lease=3600))
            finally:
                await store.close()

        asyncio.run(claim())

    def fail_for_good(self, job_id: int) -> None:
        self.run("SELECT {s}.permanently_fail_jobs(ARRAY[%s::bigint], 'broken')", [job_id])


@pytest.fixture(scope="module", params=["windlass", "graphile_worker"])
def installed(pg: Cluster, request: pytest.FixtureRequest) -> Iterator[Place]:
    with (
        fresh_database(pg) as url,
        psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection,
    ):
        with psycopg.connect(url, autocommit=True) as installer:
            prepare(installer, request.param, "auto")
        yield Place(url, request.param, connection)


@pytest.fixture
def place(installed: Place) -> Place:
    for table in TABLES:
        installed.run(f"DELETE FROM {{s}}.{table}")
    return installed


def refused(place: Place, code: str, statement: str, values: Sequence[Any] = ()) -> str:
    """The statement fails with this code and stores nothing; the message."""
    with pytest.raises(psycopg.Error) as caught:
        place.run(statement, values)
    assert caught.value.sqlstate == code
    assert place.jobs() == []
    return str(caught.value)


# ── adding ──


def test_a_job_with_a_built_payload(place: Place) -> None:
    place.run("SELECT {s}.add_job('hello', json_build_object('name', 'Bobby Tables'))")
    job = place.job()
    assert (job["task_identifier"], job["payload"]) == ("hello", {"name": "Bobby Tables"})


def test_every_default(place: Place) -> None:
    added = place.add("'hello'")
    job = place.job()
    assert list(added)[:15] == VIEW_COLUMNS
    assert added["payload"] == {}
    assert (job["queue_name"], job["key"], job["flags"]) == (None, None, None)
    assert (job["priority"], job["attempts"], job["max_attempts"]) == (0, 0, 25)
    assert (job["revision"], job["last_error"], job["locked_by"]) == (0, None, None)
    assert job["state"] == "ready"
    assert {name: added[name] for name in VIEW_COLUMNS} == {
        name: job[name] for name in VIEW_COLUMNS
    }


def test_arguments_by_their_places(place: Place) -> None:
    added = place.add(
        "'t', '{\"a\": 1}', 'q', '2030-01-02 03:04:05+00', 7, 'k', -5, ARRAY['f', 'g'],"
        " 'preserve_run_at'"
    )
    assert added["payload"] == {"a": 1}
    assert added["queue_name"] == "q"
    assert added["run_at"] == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (added["max_attempts"], added["key"], added["priority"]) == (7, "k", -5)
    assert (added["flags"], added["state"]) == (["f", "g"], "scheduled")


def test_the_signature(place: Place) -> None:
    names = place.row(
        "SELECT p.proargnames AS names FROM pg_proc AS p"
        " JOIN pg_namespace AS n ON n.oid = p.pronamespace"
        " WHERE p.proname = 'add_job' AND n.nspname = %s",
        [place.name],
    )["names"]
    assert names == [
        *("identifier", "payload", "queue_name", "run_at", "max_attempts", "job_key", "priority"),
        *("flags", "job_key_mode"),
    ]


def test_run_at_by_name(place: Place) -> None:
    place.run("SELECT {s}.add_job('reminder', run_at := NOW() + INTERVAL '2 days')")
    job = place.job()
    assert job["state"] == "scheduled"
    assert timedelta(days=1, hours=23) < job["run_at"] - job["created_at"] <= timedelta(days=2)


def test_a_prepared_statement_with_a_variable_delay(place: Place) -> None:
    place.run(
        "PREPARE add_later AS SELECT {s}.add_job($1, payload := $2, queue_name := $3,"
        " max_attempts := $4, run_at := NOW() + ($5 * INTERVAL '1 second'))"
    )
    try:
        place.run("EXECUTE add_later('t', '{\"n\": 1}', 'q', 12, 90)")
    finally:
        place.run("DEALLOCATE add_later")
    job = place.job()
    assert (job["queue_name"], job["max_attempts"], job["payload"]) == ("q", 12, {"n": 1})
    assert job["state"] == "scheduled"


def test_null_is_the_default_of_every_option(place: Place) -> None:
    added = place.add(
        "'t', NULL, NULL, NULL, NULL, NULL, NULL, NULL, job_key_mode := NULL",
    )
    assert (added["payload"], added["priority"], added["max_attempts"]) == ({}, 0, 25)
    assert added["state"] == "ready"
    assert added["created_at"] - added["run_at"] < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["null", "[]", "[1, 2]", '"text"', "0", "false"])
def test_any_json_is_a_payload(place: Place, text: str) -> None:
    place.run("SELECT {s}.add_job('t', %s::json)", [text])
    place.run("SELECT {s}.add_jobs(ARRAY[('t', %s, NULL, NULL, NULL, NULL, NULL, NULL)]"
              "::{s}.job_spec[])", [text])  # fmt: skip
    stored = place.rows("SELECT payload::text AS text FROM {s}._jobs")
    assert [row["text"] for row in stored] == [text, text]


def test_an_instant_that_is_now_is_due_now(place: Place) -> None:
    with place.connection.transaction():
        place.run("SELECT pg_sleep(0.01)")
        assert place.add("'t', run_at := clock_timestamp()")["state"] == "ready"


@pytest.mark.parametrize(
    ("instant", "year", "state"),
    [
        ("infinity", 9999, "scheduled"),
        ("-infinity", 1970, "ready"),
        ("0044-03-15 BC", 1970, "ready"),
    ],
)
def test_an_instant_beyond_the_calendar(place: Place, instant: str, year: int, state: str) -> None:
    added = place.add("'t', run_at := %s::timestamptz", [instant])
    assert (added["run_at"].year, added["state"]) == (year, state)
    app = App(place.url, schema=place.name)
    assert read_all(app)[0].run_at.year == year


def test_the_smallest_and_the_largest_priority(place: Place) -> None:
    assert place.add("'t', priority := 2147483647")["priority"] == 2147483647
    assert place.add("'t', priority := -2147483648")["priority"] == -2147483648


def test_a_priority_that_is_too_large(place: Place) -> None:
    with pytest.raises(psycopg.Error):
        place.run("SELECT {s}.add_job('t', priority := 2147483648)")
    assert place.jobs() == []


def test_flags_are_a_plain_list(place: Place) -> None:
    assert place.add("'t', flags := ARRAY['a', NULL, 'b']")["flags"] == ["a", "b"]
    assert place.add("'t', flags := ARRAY[['a', 'b'], ['c', 'd']]")["flags"] == list("abcd")
    assert place.add("'t', flags := '{}'")["flags"] is None
    assert place.add("'t', flags := ARRAY[NULL]::text[]")["flags"] is None


def test_a_due_job_is_announced_and_a_future_one_is_not(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as listening:
        listening.execute(f'LISTEN "{channel(place.name)}"'.encode())
        place.run("SELECT {s}.add_job('t', run_at := NOW() + INTERVAL '1 hour')")
        place.run("SELECT {s}.add_job('t')")
        place.run("SELECT pg_notify(%s, 'end')", [channel(place.name)])
        heard = []
        for notice in listening.notifies(timeout=PATIENCE):
            heard.append(notice.payload)
            if notice.payload == "end":
                break
    assert heard == ["", "end"]


def test_a_job_exists_if_and_only_if_its_transaction_commits(place: Place) -> None:
    with place.connection.transaction(force_rollback=True):
        place.run("SELECT {s}.add_job('t')")
        assert len(place.jobs()) == 1
    assert place.jobs() == []


# ── refusals ──


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("GWBID", "repeat('x', 129)"),
        ("GWBID", "''"),
        ("GWBID", "NULL"),
        ("GWBQN", "'t', queue_name := repeat('x', 129)"),
        ("GWBQN", "'t', queue_name := ''"),
        ("GWBJK", "'t', job_key := repeat('x', 513)"),
        ("GWBJK", "'t', job_key := ''"),
        ("GWBMA", "'t', max_attempts := 0"),
        ("GWBMA", "'t', max_attempts := -1"),
        ("GWBKM", "'t', job_key_mode := 'other'"),
        ("GWBKM", "'t', job_key := 'k', job_key_mode := ''"),
        ("WLPAY", "'t', to_json(repeat('x', 262143))"),
        ("WLPAY", "'t', (repeat('[', 65) || repeat(']', 65))::json"),
        ("WLPAY", "'t', '[1e400]'"),
        ("WLPAY", "'t', '{\"a\": [-1E+999]}'"),
        ("WLPAY", "'t', repeat('9', 400)::json"),
    ],
)
def test_a_value_beyond_its_limit(place: Place, code: str, arguments: str) -> None:
    refused(place, code, f"SELECT {{s}}.add_job({arguments})")


@pytest.mark.parametrize("text", [r'["\u0000"]', r'["\ud800"]', r'{"\u0000": 1}'])
def test_text_that_is_no_text(place: Place, text: str) -> None:
    refused(place, "WLPAY", "SELECT {s}.add_job('t', %s::json)", [text])
    spec = "('t', %s, NULL, NULL, NULL, NULL, NULL, NULL)::{s}.job_spec"
    refused(place, "WLPAY", f"SELECT {{s}}.add_jobs(ARRAY[{spec}])", [text])


@pytest.mark.parametrize(
    "arguments",
    [
        "repeat('x', 128)",
        "repeat('ü', 128)",
        "'t', queue_name := repeat('x', 128)",
        "'t', job_key := repeat('x', 512)",
        "'t', max_attempts := 1",
        "'t', to_json(repeat('x', 262142))",
        "'t', (repeat('[', 64) || repeat(']', 64))::json",
        "'t', ('[' || repeat('{},', 100) || '1e300]')::json",
        r"""'t', '["\u00fc \\u0000"]'""",
    ],
)
def test_a_value_at_its_limit(place: Place, arguments: str) -> None:
    place.run(f"SELECT {{s}}.add_job({arguments})")
    assert len(read_all(App(place.url, schema=place.name))) == 1


def test_a_session_may_allow_larger_payloads(place: Place) -> None:
    with place.connection.transaction():
        place.run("SET LOCAL windlass.max_payload = 300000")
        place.run("SELECT {s}.add_job('t', to_json(repeat('x', 262143)))")
    refusal = "SELECT {s}.add_job('t', to_json(repeat('x', 262143)))"
    with pytest.raises(psycopg.Error, match="262145 bytes, more than the 262144"):
        place.run(refusal)


def test_a_refusal_rolls_its_transaction_back(place: Place) -> None:
    with pytest.raises(psycopg.Error), place.connection.transaction():
        place.run("SELECT {s}.add_job('first')")
        place.run("SELECT {s}.add_job('second', max_attempts := 0)")
    assert place.jobs() == []


# ── many at once ──


def test_many_jobs_in_the_order_given(place: Place) -> None:
    added = place.rows(
        "SELECT * FROM {s}.add_jobs(ARRAY["
        "('c', '{\"n\": 1}', 'q', NULL, 3, NULL, 9, ARRAY['f', NULL]),"
        "('a', NULL, NULL, '2030-01-01 00:00:00+00', NULL, NULL, NULL, NULL),"
        "('b', '[1]', NULL, NULL, NULL, 'k', -1, NULL)"
        "]::{s}.job_spec[])"
    )
    assert list(added[0])[:15] == VIEW_COLUMNS
    assert [job["task_identifier"] for job in added] == ["c", "a", "b"]
    assert [job["payload"] for job in added] == [{"n": 1}, {}, [1]]
    assert [job["queue_name"] for job in added] == ["q", None, None]
    assert [job["max_attempts"] for job in added] == [3, 25, 25]
    assert [job["key"] for job in added] == [None, None, "k"]
    assert [job["priority"] for job in added] == [9, 0, -1]
    assert [job["flags"] for job in added] == [["f"], None, None]
    assert [job["state"] for job in added] == ["ready", "scheduled", "ready"]
    assert added[0]["run_at"].year >= datetime.now(UTC).year


def test_many_without_keys_keep_their_order(place: Place) -> None:
    added = place.rows(
        "SELECT * FROM {s}.add_jobs(ARRAY(SELECT ROW("
        "'t', to_json(n), NULL, NULL, NULL, NULL, NULL, NULL)::{s}.job_spec"
        " FROM generate_series(1, 500) AS n))"
    )
    assert [job["payload"] for job in added] == list(range(1, 501))
    assert [job["id"] for job in added] == sorted(job["id"] for job in added)


@pytest.mark.parametrize("specs", ["'{}'", "ARRAY[]::{s}.job_spec[]", "NULL"])
def test_none_at_all(place: Place, specs: str) -> None:
    assert place.rows(f"SELECT * FROM {{s}}.add_jobs({specs})") == []


def test_one_key_twice_the_last_wins(place: Place) -> None:
    added = place.rows(
        "SELECT * FROM {s}.add_jobs(ARRAY["
        "('t', '1', NULL, NULL, NULL, 'k', NULL, NULL),"
        "('u', '2', NULL, NULL, NULL, NULL, NULL, NULL),"
        "('v', '3', NULL, NULL, NULL, 'k', NULL, NULL)"
        "]::{s}.job_spec[])"
    )
    assert [job["payload"] for job in added] == [3, 2, 3]
    assert added[0]["id"] == added[2]["id"]
    assert sorted(job["payload"] for job in place.jobs()) == [2, 3]


def test_many_with_keys_that_are_there(place: Place) -> None:
    waiting = place.add("'t', '1', job_key := 'a', run_at := '2030-01-01 00:00:00+00'")
    dead = place.add("'t', '2', job_key := 'b', run_at := '2030-01-01 00:00:00+00'")
    place.fail_for_good(dead["id"])
    specs = (
        "ARRAY[('t', '3', NULL, '2031-01-01 00:00:00+00', NULL, 'a', NULL, NULL),"
        "('t', '4', NULL, '2031-01-01 00:00:00+00', NULL, 'b', NULL, NULL)]::{s}.job_spec[]"
    )
    kept = place.rows(f"SELECT * FROM {{s}}.add_jobs({specs}, job_key_preserve_run_at := true)")
    assert [(job["id"], job["run_at"].year) for job in kept] == [
        (waiting["id"], 2030),
        (dead["id"], 2031),
    ]
    moved = place.rows(f"SELECT * FROM {{s}}.add_jobs({specs})")
    assert [(job["run_at"].year, job["revision"]) for job in moved] == [(2031, 2), (2031, 2)]
    assert len(place.jobs()) == 2


@pytest.mark.parametrize(
    ("code", "spec"),
    [
        ("GWBID", "(repeat('x', 129), NULL, NULL, NULL, NULL, NULL, NULL, NULL)"),
        ("GWBID", "NULL"),
        ("GWBQN", "('t', NULL, repeat('x', 129), NULL, NULL, NULL, NULL, NULL)"),
        ("GWBJK", "('t', NULL, NULL, NULL, NULL, '', NULL, NULL)"),
        ("GWBMA", "('t', NULL, NULL, NULL, 0, NULL, NULL, NULL)"),
        ("WLPAY", "('t', to_json(repeat('x', 262143)), NULL, NULL, NULL, NULL, NULL, NULL)"),
    ],
)
def test_one_bad_spec_refuses_all(place: Place, code: str, spec: str) -> None:
    good = "('t', NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    refused(place, code, f"SELECT {{s}}.add_jobs(ARRAY[{good}, {spec}]::{{s}}.job_spec[])")


# ── keys ──


def test_a_key_twice_in_one_transaction(place: Place) -> None:
    with place.connection.transaction():
        place.run("SELECT {s}.add_job('send_email', '{\"count\": 1}', job_key := 'abc')")
        place.run("SELECT {s}.add_job('send_email', '{\"count\": 2}', job_key := 'abc')")
    job = place.job()
    assert (job["payload"], job["revision"]) == ({"count": 2}, 1)


def test_replace_takes_every_value_anew(place: Place) -> None:
    first = place.add(
        "'a', '{\"n\": 1}', 'q', NOW() + INTERVAL '1 day', 5, 'k', 7, ARRAY['f']",
    )
    second = place.add("'b', '[2]', job_key := 'k'")
    assert second["id"] == first["id"]
    job = place.job()
    assert (job["task_identifier"], job["payload"], job["queue_name"]) == ("b", [2], None)
    assert (job["max_attempts"], job["priority"], job["flags"]) == (25, 0, None)
    assert (job["state"], job["revision"]) == ("ready", 1)
    assert job["created_at"] == first["created_at"] < job["updated_at"]


def test_zero_is_a_value(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', job_key := 'k', priority := 5)")
    assert place.add("'t', job_key := 'k', priority := 0")["priority"] == 0


def test_preserve_run_at_keeps_only_that(place: Place) -> None:
    later = "NOW() + INTERVAL '1 day'"
    first = place.add(f"'a', '1', 'q', {later}, 5, 'k', 7, ARRAY['f']")
    second = place.add("'b', '2', job_key := 'k', job_key_mode := 'preserve_run_at'")
    assert (second["id"], second["run_at"]) == (first["id"], first["run_at"])
    job = place.job()
    assert (job["task_identifier"], job["payload"], job["queue_name"]) == ("b", 2, None)
    assert (job["priority"], job["flags"], job["state"]) == (0, None, "scheduled")


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
def test_a_job_that_failed_before_starts_anew(place: Place, mode: str) -> None:
    first = place.add("'t', '1', job_key := 'k', run_at := '2030-01-01 00:00:00+00'")
    place.run("UPDATE {s}._jobs SET attempts = 3, last_error = 'oh'")
    again = place.add(
        "'t', '2', job_key := 'k', run_at := '2031-01-01 00:00:00+00', job_key_mode := %s", [mode]
    )
    assert (again["id"], again["attempts"], again["last_error"]) == (first["id"], 0, None)
    assert (again["run_at"].year, again["payload"]) == (2031, 2)


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
def test_a_job_that_failed_for_good_is_reset_in_place(place: Place, mode: str) -> None:
    first = place.add("'t', '1', job_key := 'k', max_attempts := 1")
    place.fail_for_good(first["id"])
    assert place.job()["state"] == "failed"
    again = place.add("'t', '2', job_key := 'k', job_key_mode := %s", [mode])
    assert (again["id"], again["state"], again["attempts"]) == (first["id"], "ready", 0)
    job = place.job()
    assert (job["last_error"], job["finished_at"], job["payload"]) == (None, None, 2)


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
def test_a_running_job_gets_a_successor(place: Place, mode: str) -> None:
    first = place.add("'t', '1', job_key := 'k'")
    place.claim()
    second = place.add("'t', '2', job_key := 'k', job_key_mode := %s", [mode])
    assert second["id"] != first["id"]
    running, ready = place.jobs()
    assert (running["key"], running["state"]) == (None, "running")
    assert (ready["key"], ready["state"], ready["payload"]) == ("k", "ready", 2)
    place.run("SELECT {s}.force_unlock_workers(ARRAY['w-1'])")
    assert [job["state"] for job in place.jobs()] == ["failed", "ready"]


@pytest.mark.parametrize("state", ["scheduled", "ready", "running", "failed"])
def test_unsafe_dedupe_leaves_what_is_there(place: Place, state: str) -> None:
    when = "2030-01-01 00:00:00+00" if state == "scheduled" else "2020-01-01 00:00:00+00"
    first = place.add("'t', '1', job_key := 'k', priority := 4, run_at := %s", [when])
    if state == "running":
        place.claim()
    if state == "failed":
        place.fail_for_good(first["id"])
    again = place.add("'u', '2', job_key := 'k', job_key_mode := 'unsafe_dedupe'")
    job = place.job()
    assert again["id"] == job["id"] == first["id"]
    assert (job["task_identifier"], job["payload"], job["priority"]) == ("t", 1, 4)
    assert (job["state"], job["revision"], again["payload"]) == (state, 1, 1)


def test_unsafe_dedupe_adds_where_nothing_is(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', job_key := 'k', job_key_mode := 'unsafe_dedupe')")
    assert place.job()["key"] == "k"


def test_arrays_under_one_key_are_joined(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', '[1, 2]', job_key := 'k')")
    place.run("SELECT {s}.add_job('t', '[3]', job_key := 'k')")
    assert place.job()["payload"] == [1, 2, 3]
    spec = "('t', '[4]', NULL, NULL, NULL, 'k', NULL, NULL)::{s}.job_spec"
    place.run(f"SELECT {{s}}.add_jobs(ARRAY[{spec}, {spec}], job_key_preserve_run_at := true)")
    assert place.job()["payload"] == [1, 2, 3, 4, 4]
    place.run("SELECT {s}.add_job('t', '{}', job_key := 'k')")
    assert place.job()["payload"] == {}


def test_a_key_belongs_to_no_task(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', job_key := 'k')")
    place.run("SELECT {s}.add_job('u', job_key := 'k')")
    assert place.job()["task_identifier"] == "u"


def test_a_cancelled_job_does_not_hold_its_key(place: Place) -> None:
    first = place.add("'t', job_key := 'k'")
    place.run("SELECT {s}._cancel_jobs(ARRAY[%s::bigint])", [first["id"]])
    second = place.add("'t', job_key := 'k'")
    assert second["id"] != first["id"]
    assert [job["state"] for job in place.jobs()] == ["cancelled", "ready"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_key_that_a_snapshot_cannot_see_is_an_error_and_no_loop(place: Place, level: str) -> None:
    with psycopg.connect(place.url) as other:
        other.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        other.execute("SELECT 1 FROM pg_class LIMIT 1")
        place.run("SELECT {s}.add_job('t', job_key := 'k')")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.execute(place.sql("SELECT {s}.add_job('t', job_key := 'k')"))
    assert place.job()["revision"] == 0


# ── removing ──


def test_remove_job(place: Place) -> None:
    first = place.add("'t', '1', job_key := 'abc'")
    removed = place.row("SELECT * FROM {s}.remove_job('abc')")
    assert (removed["id"], removed["key"], removed["payload"]) == (first["id"], "abc", 1)
    assert place.jobs() == []


@pytest.mark.parametrize("key", ["unknown", None, ""])
def test_remove_job_without_such_a_key(place: Place, key: str | None) -> None:
    place.run("SELECT {s}.add_job('t')")
    row = place.row("SELECT {s}.remove_job(%s) IS NULL AS is_null", [key])
    assert row["is_null"]
    assert len(place.jobs()) == 1


def test_remove_job_while_it_runs(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', job_key := 'k')")
    place.claim()
    assert place.row("SELECT * FROM {s}.remove_job('k')")["key"] is None
    assert (place.job()["state"], place.job()["key"]) == ("running", None)
    place.run("SELECT {s}.force_unlock_workers(ARRAY['w-1'])")
    assert place.job()["state"] == "failed"


def test_remove_job_that_failed(place: Place) -> None:
    place.fail_for_good(place.add("'t', job_key := 'k'")["id"])
    place.run("SELECT {s}.remove_job('k')")
    assert place.jobs() == []


# ── administration ──


def test_complete_jobs(place: Place) -> None:
    ready, dead, running = (place.add("'t', priority := %s", [n])["id"] for n in (2, 3, 1))
    place.fail_for_good(dead)
    hold_one(place, running)
    done = place.rows(
        f"SELECT * FROM {{s}}.complete_jobs(ARRAY[{ready}, {dead}, {running}, 987654321])"
    )
    assert [job["id"] for job in done] == [ready, dead]
    assert list(done[0])[:15] == VIEW_COLUMNS
    assert [job["id"] for job in place.jobs()] == [running]


def test_permanently_fail_jobs(place: Place) -> None:
    first = place.add("'t', max_attempts := 7")["id"]
    second = place.add("'t'")["id"]
    failed = place.rows(
        f"SELECT * FROM {{s}}.permanently_fail_jobs(ARRAY[{first}, 987654321], 'Given up')"
    )
    assert [(job["id"], job["attempts"], job["last_error"]) for job in failed] == [
        (first, 7, "Given up")
    ]
    [job] = place.rows(f"SELECT * FROM {{s}}.permanently_fail_jobs(ARRAY[{second}])")
    assert (job["attempts"], job["max_attempts"]) == (25, 25)
    assert job["last_error"] == "Manually marked as failed"
    assert {job["state"] for job in place.jobs()} == {"failed"}


def test_permanently_fail_jobs_leaves_running_ones(place: Place) -> None:
    job_id = place.add("'t'")["id"]
    place.claim()
    assert place.rows(f"SELECT * FROM {{s}}.permanently_fail_jobs(ARRAY[{job_id}])") == []
    assert place.job()["state"] == "running"


def test_reschedule_jobs(place: Place) -> None:
    ids = [place.add("'t'")["id"], place.add("'t'")["id"]]
    changed = place.rows(
        f"SELECT * FROM {{s}}.reschedule_jobs(ARRAY[{ids[0]}, {ids[1]}, 987654321],"
        " run_at := NOW() + interval '5 minutes', priority := 5, attempts := 5,"
        " max_attempts := 30)"
    )
    assert [job["id"] for job in changed] == ids
    for job in place.jobs():
        assert (job["priority"], job["attempts"], job["max_attempts"]) == (5, 5, 30)
        assert job["state"] == "scheduled"


def test_reschedule_jobs_leaves_what_is_not_given(place: Place) -> None:
    before = place.add("'t', priority := 3, run_at := '2030-01-01 00:00:00+00'")
    place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{before['id']}], attempts := 0)")
    place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{before['id']}])")
    after = place.job()
    assert (after["run_at"], after["priority"]) == (before["run_at"], 3)
    assert (after["max_attempts"], after["state"]) == (25, "scheduled")


def test_reschedule_jobs_that_failed(place: Place) -> None:
    job_id = place.add("'t'")["id"]
    place.fail_for_good(job_id)
    place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{job_id}], run_at := NOW())")
    assert place.job()["state"] == "failed"
    place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{job_id}], attempts := 0)")
    assert (place.job()["state"], place.job()["attempts"]) == ("ready", 0)


def test_reschedule_jobs_to_infinity(place: Place) -> None:
    job_id = place.add("'t'")["id"]
    place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{job_id}], run_at := 'infinity')")
    assert place.job()["run_at"].year == 9999


def test_reschedule_jobs_refuses_no_attempts(place: Place) -> None:
    job_id = place.add("'t'")["id"]
    with pytest.raises(psycopg.Error) as caught:
        place.run(f"SELECT {{s}}.reschedule_jobs(ARRAY[{job_id}], max_attempts := 0)")
    assert caught.value.sqlstate == "GWBMA"
    assert place.job()["max_attempts"] == 25


def test_force_unlock_workers(place: Place) -> None:
    place.run("SELECT {s}.add_job('t')")
    place.claim("w-1")
    held = place.job()
    assert (held["locked_by"], held["attempts"], held["state"]) == ("w-1", 1, "running")
    assert held["locked_at"] is not None
    freed = place.rows("SELECT * FROM {s}.force_unlock_workers(ARRAY['w-1', 'nobody'])")
    assert [(job["id"], job["locked_by"]) for job in freed] == [(held["id"], None)]
    assert (place.job()["state"], place.job()["attempts"]) == ("ready", 0)


@pytest.mark.parametrize(
    "call",
    [
        "complete_jobs(ARRAY[]::bigint[])",
        "complete_jobs(NULL)",
        "permanently_fail_jobs('{}')",
        "permanently_fail_jobs(NULL, NULL)",
        "reschedule_jobs('{}', NOW())",
        "force_unlock_workers('{}')",
        "force_unlock_workers(NULL)",
    ],
)
def test_nothing_to_administer(place: Place, call: str) -> None:
    place.run("SELECT {s}.add_job('t')")
    assert place.rows(f"SELECT * FROM {{s}}.{call}") == []
    assert place.job()["state"] == "ready"


def hold_one(place: Place, job_id: int) -> None:
    """Let a worker take just this job: it must be the most urgent one."""
    place.claim(limit=1)
    [held] = place.rows("SELECT id FROM {s}.jobs WHERE state = 'running'")
    assert held["id"] == job_id


# ── the view ──


def test_the_columns_of_the_view(place: Place) -> None:
    columns = [
        row["column_name"]
        for row in place.rows(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = 'jobs' ORDER BY ordinal_position",
            [place.name],
        )
    ]
    assert columns[:15] == VIEW_COLUMNS
    assert "payload" not in columns
    assert "state" in columns[15:]


def test_the_view_shows_a_job_behind_its_queue_as_ready(place: Place) -> None:
    place.run("SELECT {s}.add_job('t', queue_name := 'q') FROM generate_series(1, 2)")
    place.claim()
    assert [job["state"] for job in place.jobs()] == ["running", "ready"]


# ── triggers and wrappers ──


TRIGGERS = """
CREATE TABLE user_emails (id serial PRIMARY KEY, verified boolean NOT NULL DEFAULT false);
CREATE TABLE users (id serial PRIMARY KEY, name text);
CREATE TABLE pdfs (id serial PRIMARY KEY, title text);

CREATE FUNCTION trigger_job() RETURNS trigger AS $$
BEGIN
  PERFORM {s}.add_job(TG_ARGV[0], json_build_object(
    'schema', TG_TABLE_SCHEMA,
    'table', TG_TABLE_NAME,
    'op', TG_OP,
    'id', (CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END)
  ));
  RETURN NEW;
END;
$$ LANGUAGE plpgsql VOLATILE;

CREATE TRIGGER send_verification_email AFTER INSERT ON user_emails
  FOR EACH ROW WHEN (NEW.verified is false)
  EXECUTE PROCEDURE trigger_job('send_verification_email');
CREATE TRIGGER user_changed AFTER INSERT OR UPDATE OR DELETE ON users
  FOR EACH ROW EXECUTE PROCEDURE trigger_job('user_changed');
CREATE TRIGGER generate_pdf AFTER INSERT ON pdfs
  FOR EACH ROW EXECUTE PROCEDURE trigger_job('generate_pdf');
CREATE TRIGGER generate_pdf_update AFTER UPDATE ON pdfs
  FOR EACH ROW WHEN (NEW.title IS DISTINCT FROM OLD.title)
  EXECUTE PROCEDURE trigger_job('generate_pdf');
"""


@pytest.fixture
def tables(place: Place) -> Iterator[Place]:
    place.run(TRIGGERS)
    yield place
    place.run("DROP TABLE user_emails, users, pdfs")
    place.run("DROP FUNCTION trigger_job")


def test_one_trigger_function_for_many_tables(tables: Place) -> None:
    tables.run("INSERT INTO user_emails (verified) VALUES (false), (true)")
    tables.run("INSERT INTO users (name) VALUES ('Ada')")
    tables.run("UPDATE users SET name = 'Grace'")
    tables.run("DELETE FROM users")
    tables.run("INSERT INTO pdfs (title) VALUES ('one')")
    tables.run("UPDATE pdfs SET title = title")
    tables.run("UPDATE pdfs SET title = 'two'")
    seen = [(job["task_identifier"], job["payload"]["op"]) for job in tables.jobs()]
    assert seen == [
        ("send_verification_email", "INSERT"),
        ("user_changed", "INSERT"),
        ("user_changed", "UPDATE"),
        ("user_changed", "DELETE"),
        ("generate_pdf", "INSERT"),
        ("generate_pdf", "UPDATE"),
    ]
    assert tables.jobs()[0]["payload"] == {
        "schema": "public", "table": "user_emails", "op": "INSERT", "id": 1
    }  # fmt: skip


def test_a_trigger_of_one_table(place: Place) -> None:
    place.run(
        "CREATE TABLE my_table (id serial PRIMARY KEY);"
        "CREATE FUNCTION my_table_created() RETURNS trigger AS $$ BEGIN"
        " PERFORM {s}.add_job('task_identifier_here', json_build_object('id', NEW.id));"
        " RETURN NEW; END; $$ LANGUAGE plpgsql VOLATILE;"
        "CREATE TRIGGER trigger_name AFTER INSERT ON my_table FOR EACH ROW"
        " EXECUTE PROCEDURE my_table_created()"
    )
    try:
        place.run("INSERT INTO my_table SELECT FROM generate_series(1, 3)")
        assert [job["payload"] for job in place.jobs()] == [{"id": 1}, {"id": 2}, {"id": 3}]
    finally:
        place.run("DROP TABLE my_table; DROP FUNCTION my_table_created")


@pytest.fixture
def stranger(place: Place) -> Iterator[str]:
    """A role that may connect and nothing else."""
    name = f"stranger_{place.name}"
    place.run(f"CREATE ROLE {name} LOGIN")
    yield name
    place.run(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_wrapper_for_a_role_without_rights(place: Place, stranger: str) -> None:
    place.run(
        "CREATE FUNCTION ask_for_report(month text) RETURNS bigint AS $$"
        " SELECT id FROM {s}.add_job('report', json_build_object('month', month)) $$"
        " LANGUAGE sql SECURITY DEFINER"
    )
    try:
        with psycopg.connect(place.url, user=stranger, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(place.sql("SELECT {s}.add_job('report')"))
            assert place.jobs() == []
            connection.execute("SELECT ask_for_report('May')")
    finally:
        place.run("DROP FUNCTION ask_for_report")
    assert place.job()["payload"] == {"month": "May"}


def test_the_callers_search_path_does_not_matter(place: Place, stranger: str) -> None:
    """A function that runs with its owner's rights must not call what a caller put in its way."""
    place.run(f"GRANT USAGE ON SCHEMA {{s}} TO {stranger}")
    place.run(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{s}} TO {stranger}")
    place.run(f"CREATE SCHEMA trap AUTHORIZATION {stranger}")
    try:
        with psycopg.connect(place.url, user=stranger, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION trap.equal(text, text) RETURNS boolean AS"
                " $$ BEGIN RAISE 'trapped as %', current_user; END $$ LANGUAGE plpgsql"
            )
            connection.execute(
                "CREATE OPERATOR trap.= (FUNCTION = trap.equal, LEFTARG = text, RIGHTARG = text)"
            )
            connection.execute("SET search_path = trap, pg_catalog")
            connection.execute(place.sql("SELECT {s}.add_job('t', job_key := 'k')"))
            connection.execute(place.sql("SELECT {s}.add_job('t', job_key := 'k')"))
            connection.execute(
                place.sql('SELECT {s}._enqueue(\'[{"task": "t", "key": "k"}]\', true)')
            )
            connection.execute(place.sql("SELECT {s}.remove_job('k')"))
    finally:
        place.run("DROP SCHEMA trap CASCADE")
    assert place.jobs() == []


# ── and Python ──


def read_all(app: App) -> list[Any]:
    async def read() -> list[Any]:
        async with app:
            return await app.client.list_jobs()

    return asyncio.run(read())


def test_a_worker_runs_what_sql_added(place: Place) -> None:
    ran: list[tuple[str, Any, int]] = []
    app = App(place.url, schema=place.name)

    @app.task(max_attempts=2)
    async def fragile(ctx: Context, n: int) -> None:
        ran.append(("fragile", n, ctx.job.max_attempts))
        raise LookupError("never works")

    @app.task
    async def welcome(ctx: Context, name: str) -> None:
        ran.append(("welcome", name, ctx.job.max_attempts))

    @app.task(name="bare")
    def bare(ctx: Context) -> None:
        ran.append(("bare", ctx.job.payload, ctx.job.max_attempts))

    async def work() -> None:
        async with app:
            await app.run_once()
            await app.client.reschedule_jobs(
                [job.id for job in await app.client.list_jobs()], run_at=datetime.now(UTC)
            )
            await app.run_once()

    place.run("SELECT {s}.add_job('welcome', json_build_object('name', 'Ada'))")
    place.run("SELECT {s}.add_job('bare', NULL)")
    place.run("SELECT {s}.add_job('fragile', '{\"n\": 1}')")
    place.run("SELECT {s}.add_job('fragile', '{\"n\": 2}', max_attempts := 1)")
    asyncio.run(work())
    assert [(task, what) for task, what, _ in ran if task != "fragile"] == [
        ("welcome", "Ada"),
        ("bare", {}),
    ]
    assert sorted(n for task, n, _ in ran if task == "fragile") == [1, 1, 2]
    by_payload = {job["payload"]["n"]: job for job in place.jobs()}
    assert {n: (job["state"], job["attempts"]) for n, job in by_payload.items()} == {
        1: ("failed", 25),  # no more of them, whatever the task's own limit is
        2: ("failed", 1),
    }


def test_a_tasks_keep_holds_for_what_sql_added(place: Place) -> None:
    app = App(place.url, schema=place.name)

    @app.task(keep=60)
    async def double(n: int) -> int:
        return 2 * n

    async def work() -> Any:
        async with app:
            await app.run_once()
            return await app.client.get_job(added["id"])

    added = place.add("'double', '{\"n\": 4}'")
    done = asyncio.run(work())
    assert (done.state, done.output) == ("completed", 8)


def test_python_and_sql_share_keys(place: Place) -> None:
    app = App(place.url, schema=place.name)

    async def add() -> int:
        async with app:
            job = await app.client.add_job("t", {"n": 1}, key="k", queue="q")
            return job.id

    job_id = asyncio.run(add())
    assert place.add("'t', '{\"n\": 2}', job_key := 'k'")["id"] == job_id
    [job] = read_all(app)
    assert (job.payload, job.revision, job.queue) == ({"n": 2}, 1, None)


def test_schemas_do_not_see_each_other(place: Place) -> None:
    other = f"{place.name}_2"
    try:
        with psycopg.connect(place.url, autocommit=True) as installer:
            prepare(installer, other, "auto")
        second = Place(place.url, other, place.connection)
        place.run("SELECT {s}.add_job('t', '1', job_key := 'k', queue_name := 'q')")
        second.run("SELECT {s}.add_job('t', '2', job_key := 'k', queue_name := 'q')")
        place.run("SELECT {s}._pause('', 'task', 't')")
        second.claim()
        assert (place.job()["payload"], place.job()["state"]) == (1, "ready")
        assert (second.job()["payload"], second.job()["state"]) == (2, "running")
        place.run("SELECT {s}.remove_job('k')")
        assert (place.jobs(), len(second.jobs())) == ([], 1)
    finally:
        place.run(f"DROP SCHEMA IF EXISTS {other} CASCADE")


# ── attempts that are over, as graphile-worker's monitoring looks for them ──


def over(place: Place) -> list[int]:
    """Jobs that will not run again, found as monitoring of graphile-worker finds them."""
    return [
        row["id"] for row in place.rows("SELECT id FROM {s}.jobs WHERE attempts >= max_attempts")
    ]


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_running_job_that_lost_its_key_shows_no_attempts_left(place: Place, how: str) -> None:
    job_id = place.add("'t', job_key := 'k', max_attempts := 7")["id"]
    place.claim()
    assert over(place) == []
    if how == "replaced":
        place.run("SELECT {s}.add_job('t', job_key := 'k')")
    else:
        assert place.row("SELECT * FROM {s}.remove_job('k')")["attempts"] == 7
    assert over(place) == [job_id]
    assert read_all(App(place.url, schema=place.name))[-1].attempts == 1, "what was charged"


def test_a_job_that_failed_for_good_shows_no_attempts_left(place: Place) -> None:
    app = App(place.url, schema=place.name)

    @app.task
    async def poisoned() -> None:
        raise Poison("never")

    async def work() -> None:
        async with app:
            await app.run_once()

    job_id = place.add("'poisoned'")["id"]
    asyncio.run(work())
    assert over(place) == [job_id]
    assert read_all(App(place.url, schema=place.name))[-1].attempts == 1, "what was charged"
    [row] = place.rows(f"SELECT * FROM {{s}}.reschedule_jobs(ARRAY[{job_id}], priority := 2)")
    assert (row["attempts"], row["max_attempts"]) == (25, 25)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "Manually marked as failed"),
        (", 'mine'", "mine"),
        (", error_message := 'mine'", "mine"),
        (", reason := 'mine'", "mine"),
        (", NULL", "Manually marked as failed"),
    ],
)
def test_why_a_job_was_failed_by_both_names(place: Place, arguments: str, error: str) -> None:
    job_id = place.add("'t'")["id"]
    [row] = place.rows(f"SELECT * FROM {{s}}.permanently_fail_jobs(ARRAY[{job_id}]{arguments})")
    assert row["last_error"] == error


def test_quick_add_job_with_a_schema(place: Place) -> None:
    job = asyncio.run(quick_add_job(place.url, "t", {"n": 1}, schema=place.name, priority=3))
    assert (place.job()["id"], place.job()["priority"]) == (job.id, 3)


# ── in bulk ──

_SPEC = (
    "('t', json_build_object('n', n), {queue}, NULL, NULL, {key}, NULL, {flags})::{{s}}.job_spec"
)
_ADD = (
    "SELECT count(*) FROM {{s}}.add_jobs(ARRAY(SELECT "
    + _SPEC
    + " FROM generate_series(1, %s) AS n))"
)
_ALL = "ARRAY(SELECT id FROM {s}._jobs)"
BULK = {
    "add": _ADD.format(queue="NULL", key="NULL", flags="NULL"),
    "add to queues": _ADD.format(queue="'q' || n", key="NULL", flags="NULL"),
    "add with keys": _ADD.format(queue="NULL", key="'k' || n", flags="NULL"),
    "complete": f"SELECT count(*) FROM {{s}}.complete_jobs({_ALL})",
    "fail": f"SELECT count(*) FROM {{s}}.permanently_fail_jobs({_ALL})",
    "reschedule": f"SELECT count(*) FROM {{s}}.reschedule_jobs({_ALL}, run_at := now())",
}


@pytest.mark.parametrize("name", BULK)
def test_a_call_for_many_makes_no_call_for_each(place: Place, name: str) -> None:
    def made() -> Counter[str]:
        found = place.rows(
            "SELECT funcname, calls FROM pg_stat_xact_user_functions WHERE schemaname = %s",
            [place.name],
        )
        return Counter({row["funcname"]: row["calls"] for row in found})

    def calls(count: int) -> dict[str, int]:
        for table in TABLES:
            place.run(f"DELETE FROM {{s}}.{table}")
        if "add" not in name:
            place.run(BULK["add"], [count])
        with place.connection.transaction():
            place.run("SET LOCAL track_functions = 'all'")
            before = made()
            place.run(BULK[name], [count] if "add" in name else [])
            return dict(made() - before)

    few, many = calls(10), calls(300)
    assert few == many


# ── chains ──

CHAIN_COLUMNS = [
    *("id", "task_identifier", "state", "length", "key", "output", "error"),
    *("created_at", "finished_at"),
]
START_ARGUMENTS = (
    "identifier text, payload json, queue_name text, run_at timestamp with time zone,"
    " max_attempts integer, chain_key text, priority integer, flags text[], blockers bigint[]"
)


def start(place: Place, arguments: str, values: Sequence[Any] = ()) -> dict[str, Any]:
    return place.row(f"SELECT * FROM {{s}}.start_chain({arguments})", values)


def test_a_chain_starts_with_a_job(place: Place) -> None:
    chain = start(
        place,
        "'charge', '{\"order\": 7}', 'q', now() - interval '1 hour', 3, 'k', -5, ARRAY['slow']",
    )
    assert list(chain) == CHAIN_COLUMNS
    assert (chain["task_identifier"], chain["state"], chain["length"]) == ("charge", "open", 1)
    assert (chain["key"], chain["output"], chain["error"]) == ("k", None, None)
    job = place.job()
    assert job["id"] == chain["id"]
    assert (job["queue_name"], job["max_attempts"], job["priority"]) == ("q", 3, -5)
    assert (job["flags"], job["payload"], job["key"]) == (["slow"], {"order": 7}, None)
    assert job["run_at"] < datetime.now(UTC) - timedelta(minutes=59)


def test_the_arguments_of_the_functions(place: Place) -> None:
    found = place.rows(
        "SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments FROM pg_proc AS p"
        " WHERE p.pronamespace = %s::regnamespace"
        " AND p.proname IN ('start_chain', 'complete_chain') ORDER BY 1",
        [place.name],
    )
    assert [row["arguments"] for row in found] == ["chain_id bigint, output json", START_ARGUMENTS]


def test_a_chain_with_nothing_but_a_task(place: Place) -> None:
    chain = start(place, "'t', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL")
    job = place.job()
    assert (job["id"], job["payload"], job["priority"]) == (chain["id"], {}, 0)
    assert (job["state"], job["max_attempts"]) == ("ready", 25)
    later = start(place, "'t', run_at := now() + interval '1 day'")
    assert place.row("SELECT state FROM {s}.jobs WHERE id = %s", [later["id"]]) == {
        "state": "scheduled"
    }


def test_the_key_of_a_chain(place: Place) -> None:
    first = start(place, "'t', chain_key := 'k'")
    assert start(place, "'u', chain_key := 'k'") == first
    assert len(place.jobs()) == 1
    place.run("SELECT {s}.set_tenant('acme')")  # a transaction of its own
    with place.connection.transaction():
        place.run("SELECT {s}.set_tenant('acme')")
        assert start(place, "'t', chain_key := 'k'")["id"] != first["id"]


def test_a_chain_that_waits_for_others(place: Place) -> None:
    first, second = start(place, "'a'"), start(place, "'b'")
    third = start(place, "'c', blockers := ARRAY[%s, %s]", [first["id"], second["id"]])
    state = "SELECT state FROM {s}.jobs WHERE id = %s"
    for chain in (first, second):
        assert place.row(state, [third["id"]]) == {"state": "blocked"}
        done = place.row("SELECT * FROM {s}.complete_chain(%s, '[1]')", [chain["id"]])
        assert list(done) == CHAIN_COLUMNS
        assert (done["id"], done["state"], done["output"]) == (chain["id"], "completed", [1])
        assert done["finished_at"] is not None
    assert place.row(state, [third["id"]]) == {"state": "ready"}


def test_chains_that_are_not_there(place: Place) -> None:
    chain, plain = start(place, "'t'"), place.add("'t'")
    for unknown in (plain["id"], 10**9):
        with pytest.raises(psycopg.Error, match=f"no chain {unknown}") as caught:
            start(place, "'t', blockers := ARRAY[%s, %s]", [chain["id"], unknown])
        assert caught.value.sqlstate == "WLCNF"
        assert caught.value.diag.message_detail == str(unknown)
        with pytest.raises(psycopg.Error) as caught:
            place.run("SELECT {s}.complete_chain(%s)", [unknown])
        assert caught.value.sqlstate == "WLCNF"
    for bad in ("ARRAY[NULL]::bigint[]", "ARRAY[0]", "ARRAY[-1]"):
        with pytest.raises(psycopg.Error, match="Blockers must be ids") as caught:
            start(place, f"'t', blockers := {bad}")
        assert caught.value.sqlstate == "22023"
    assert len(place.jobs()) == 2


def test_a_chain_that_is_completed(place: Place) -> None:
    chain = start(place, "'t'")
    done = place.row("SELECT * FROM {s}.complete_chain(%s)", [chain["id"]])
    assert (done["state"], done["output"], done["length"]) == ("completed", None, 1)
    with pytest.raises(psycopg.Error, match="is completed already") as caught:
        place.run("SELECT {s}.complete_chain(%s, '2')", [chain["id"]])
    assert caught.value.sqlstate == "WLCCL"
    assert place.jobs() == []


def test_completing_a_running_chain_takes_it_from_its_worker(place: Place) -> None:
    chain = start(place, "'t'")
    place.claim()
    place.run("SELECT {s}.complete_chain(%s)", [chain["id"]])
    assert place.jobs() == []


def test_a_tenant_completes_its_own_chains(place: Place) -> None:
    chain = start(place, "'t'")
    with place.connection.transaction():
        place.run("SELECT {s}.set_tenant('acme')")
        own = start(place, "'t'")
        with pytest.raises(psycopg.Error) as caught, place.connection.transaction():
            place.run("SELECT {s}.complete_chain(%s)", [chain["id"]])
        assert caught.value.sqlstate == "WLCNF"
        place.run("SELECT {s}.complete_chain(%s)", [own["id"]])


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("GWBID", "''"),
        ("GWBID", "NULL"),
        ("GWBQN", "'t', queue_name := ''"),
        ("GWBMA", "'t', max_attempts := 0"),
        ("GWBJK", "'t', chain_key := ''"),
        ("WLPAY", "'t', payload := to_json(repeat('x', 300000))"),
        ("WLPAY", "'t', payload := '[1e400]'"),
    ],
)
def test_what_no_chain_may_start_with(place: Place, code: str, arguments: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        start(place, arguments)
    assert caught.value.sqlstate == code
    assert place.jobs() == place.rows("SELECT * FROM {s}.chains") == []


def test_the_columns_of_the_view_of_chains(place: Place) -> None:
    async def work() -> None:
        app = App(place.url, schema=place.name)

        @app.task
        async def ship(order: int) -> str:
            return f"shipped {order}"

        @app.task
        async def charge(ctx: Context, order: int) -> object:
            return ctx.continue_with(ship, order=order)

        async with app:
            await app.run_once()

    chain = start(place, "'charge', '{\"order\": 7}'")
    asyncio.run(work())
    seen = place.row("SELECT * FROM {s}.chains")
    assert list(seen) == CHAIN_COLUMNS
    assert (seen["id"], seen["task_identifier"]) == (chain["id"], "charge")
    assert (seen["state"], seen["length"], seen["output"]) == ("completed", 2, "shipped 7")


def test_the_view_counts_the_jobs_of_an_open_chain(place: Place) -> None:
    start(place, "'charge'")

    async def work() -> None:
        store = PostgresStore(place.url, schema_name=place.name)
        await store.open()
        try:
            for _ in range(3):
                [lease] = await store.claim(ClaimRequest("w", ("charge",), 1))
                await store.settle([(lease, Complete(next=NewJob("charge")))])
        finally:
            await store.close()

    asyncio.run(work())
    assert place.row("SELECT state, length FROM {s}.chains") == {"state": "open", "length": 4}
