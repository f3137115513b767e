"""The SQL functions with odd values, as the documented role of an application calls them: a job, or
a documented SQLSTATE and nothing stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kit import fuzz
from tests.fuzz.test_client_fuzz import some
from tests.fuzz.values import integers, json_like, texts
from tests.postgres.cluster import Schema, fresh_schema, shared_cluster
from windlass.model.payload import decode
from windlass.stores.postgres.schema import prepare

pytestmark = pytest.mark.slow

REFUSALS = re.compile(r"GWB(ID|QN|JK|MA|KM)|WLPAY|22\w{3}|54\w{3}")
"""Ours, and what PostgreSQL itself says of values and limits (data exception, limit exceeded)."""
no_nul = texts.filter(lambda text: "\x00" not in text and not re.search("[\ud800-\udfff]", text))
small = integers.filter(lambda number: abs(number) < 2**70)
INSTANTS = ("now", "infinity", "-infinity", "epoch", "1969-01-01", "9999-01-01", "20000-01-01")
instants = st.sampled_from((*INSTANTS, "4714-11-24 BC"))
DEEP = ["[" * depth + "]" * depth for depth in (64, 65, 9_000)]
DOCUMENTS = ("{}", "null", "[]", "", "{", "1e400", '"\\u0000"', '"\\ud800"', '{"a":1,"a":2}')
LONG = ("9" * 400, '"' + "x" * 300_000 + '"')
documents = st.sampled_from((*DOCUMENTS, *DEEP, *LONG)) | json_like.map(json.dumps)
flags = st.lists(st.none() | no_nul, max_size=3) | st.just(["x"] * 65)
ADDED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "payload": ("json", documents | st.none()),
    "queue_name": ("text", no_nul),
    "run_at": ("timestamptz", instants | st.none()),
    "max_attempts": ("int", small | st.none()),
    "job_key": ("text", no_nul),
    "job_key_mode": ("text", no_nul | st.none()),
    "priority": ("int", small | st.none()),
    "flags": ("text[]", flags),
}
ids = st.lists(st.none() | small, max_size=3) | st.none()
VERBS: dict[str, dict[str, tuple[str, st.SearchStrategy[Any]]]] = {
    "remove_job": {"job_key": ("text", no_nul | st.none())},
    "complete_jobs": {"job_ids": ("bigint[]", ids)},
    "permanently_fail_jobs": {
        "job_ids": ("bigint[]", ids),
        "reason": ("text", no_nul | st.none()),
    },
    "reschedule_jobs": {
        "job_ids": ("bigint[]", ids),
        "run_at": ("timestamptz", instants | st.none()),
        "priority": ("int", small | st.none()),
        "attempts": ("int", small | st.none()),
        "max_attempts": ("int", small | st.none()),
    },
    "force_unlock_workers": {"worker_ids": ("text[]", st.lists(st.none() | no_nul) | st.none())},
}
SPEC_WORDS = (
    *("task", "payload", "payloads", "queue", "run_at", "delay", "max_attempts", "key", "key_mode"),
    *("priority", "flags", "keep", "id", "other"),
)


@pytest.fixture(scope="module")
def schema() -> Iterator[Schema]:
    with fresh_schema(shared_cluster(18)) as made:
        with psycopg.connect(made.url, autocommit=True) as connection:
            prepare(connection, made.name, "auto")
            role = f"{made.name}_app"
            connection.execute(
                f"CREATE ROLE {role};"
                f"GRANT USAGE ON SCHEMA {made.name} TO {role};"
                f"GRANT EXECUTE ON FUNCTION {made.name}.add_job, {made.name}.add_jobs,"
                f" {made.name}._enqueue TO {role}".encode()
            )
        yield made
        with psycopg.connect(made.url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


class Caller:
    """A connection of the role, and one that counts."""

    def __init__(self, schema: Schema, owner: psycopg.Connection, role: psycopg.Connection) -> None:
        self.name = schema.name
        self.owner = owner
        self.role = role

    def count(self) -> Any:
        found = self.owner.execute(f"SELECT count(*), max(id) FROM {self.name}.jobs".encode())
        return found.fetchone()

    def call(self, connection: psycopg.Connection, sql: str, values: list[Any]) -> None:
        """It succeeds, or refuses as documented and stores nothing."""
        before = self.count()
        try:
            connection.execute(sql.encode(), values).fetchall()
        except psycopg.Error as error:
            assert REFUSALS.fullmatch(error.sqlstate or ""), (error.sqlstate, str(error))
            assert self.count() == before
        else:
            self.check_readable()

    def check_readable(self) -> None:
        """What was stored can be read by a program."""
        rows = self.owner.execute(
            f"SELECT run_at, created_at, flags, payload::text FROM {self.name}._jobs".encode()
        ).fetchall()
        for *_, payload in rows:
            decode(payload)
        self.owner.execute(f"DELETE FROM {self.name}._jobs".encode())


@pytest.fixture
def caller(schema: Schema) -> Iterator[Caller]:
    with (
        psycopg.connect(schema.url, autocommit=True) as owner,
        psycopg.connect(schema.url, autocommit=True) as role,
    ):
        role.execute(f"SET ROLE {schema.name}_app".encode())
        yield Caller(schema, owner, role)


def arguments(words: dict[str, tuple[str, Any]], chosen: dict[str, Any]) -> str:
    return ", ".join(f"{name} => %s::{words[name][0]}" for name in chosen)


def drawn(words: dict[str, tuple[str, Any]], most: int = 2) -> st.SearchStrategy[Any]:
    return some({name: strategy for name, (_, strategy) in words.items()}, most)


def test_add_job(caller: Caller) -> None:
    @fuzz(200)
    @given(st.just("t") | no_nul | st.none(), drawn(ADDED, 3))
    def check(task: str | None, chosen: dict[str, Any]) -> None:
        named = ", ".join(filter(None, ["%s", arguments(ADDED, chosen)]))
        sql = f"SELECT * FROM {caller.name}.add_job({named})"
        caller.call(caller.role, sql, [task, *chosen.values()])

    check()


def test_add_jobs(caller: Caller) -> None:
    columns = ("identifier", "payload", "queue_name", "run_at", "max_attempts", "job_key")
    kinds = {"identifier": ("text", no_nul | st.none()), **ADDED}
    row = st.tuples(*(kinds[name][1] for name in columns))

    @fuzz(150)
    @given(st.lists(row, max_size=3), st.booleans() | st.none())
    def check(rows: list[tuple[Any, ...]], preserve: bool | None) -> None:
        one = f"SELECT s FROM json_populate_record(NULL::{caller.name}.job_spec, %s::json) AS s"
        specs = ", ".join(f"({one})" for _ in rows)
        sql = f"SELECT * FROM {caller.name}.add_jobs(ARRAY[{specs}]::{caller.name}.job_spec[], %s)"
        texts = [
            json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows
        ]
        caller.call(caller.role, sql, [*texts, preserve])

    check()


def test_enqueue(caller: Caller) -> None:
    spec = st.dictionaries(st.sampled_from(SPEC_WORDS), json_like, max_size=4)
    named = spec.map(lambda found: {"task": "t", **found})
    asked = st.lists(named | spec | json_like, max_size=3) | named | json_like

    @fuzz(300)
    @given(asked.map(json.dumps) | documents, st.booleans() | st.none(), instants | st.none())
    def check(text: str, is_keyed: bool | None, now: str | None) -> None:
        sql = f"SELECT {caller.name}._enqueue(%s, %s, %s::timestamptz)"
        caller.call(caller.role, sql, [text, is_keyed, now])

    check()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(caller: Caller, verb: str) -> None:
    words = VERBS[verb]
    first, *_ = words

    @fuzz(60)
    @given(words[first][1], drawn(words))
    def check(one: Any, more: dict[str, Any]) -> None:
        chosen = {first: one, **more}
        sql = f"SELECT * FROM {caller.name}.{verb}({arguments(words, chosen)})"
        caller.call(caller.owner, sql, list(chosen.values()))

    check()
