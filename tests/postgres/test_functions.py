"""Functions and views follow the program: replaced, dropped, and left alone where they fit.

Two versions of the program are the real one and one whose files are changed in some place: both
really install what they have.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass.errors import SchemaTooNewError, StoreUnavailableError
from windlass.store.records import COMPLETE, ClaimRequest, NewJob, Verdict
from windlass.stores.postgres import PostgresStore, functions, schema
from windlass.stores.postgres.functions import Routine
from windlass.stores.postgres.rendering import knots, latch, lock_number, turn

OURS = {routine.name: routine for routine in functions.routines()}

CATALOGUE = """
SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid),
  array(SELECT a::text FROM unnest(p.proacl) AS a ORDER BY 1)::text
FROM pg_proc AS p WHERE p.pronamespace = %(schema)s::regnamespace
UNION ALL
SELECT c.relname::text, pg_get_viewdef(c.oid),
  array(SELECT a::text FROM unnest(c.relacl) AS a ORDER BY 1)::text
FROM pg_class AS c WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'v'
ORDER BY 1
"""
WRITTEN = """
SELECT p.oid::regprocedure::text, p.xmin::text FROM pg_proc AS p
WHERE p.pronamespace = %(schema)s::regnamespace
ORDER BY 1
"""


@pytest.fixture
def empty(pg18: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg18) as one:
        yield one


@pytest.fixture
def made(empty: Schema) -> Schema:
    install(empty)
    return empty


def install(place: Schema, how: str = "auto") -> None:
    with psycopg.connect(place.url, autocommit=True) as connection:
        schema.prepare(connection, place.name, how)  # type: ignore[arg-type]


def ask(place: Schema, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {place.name}".encode())
        cursor = connection.execute(statement.encode(), {"schema": place.name})
        return cursor.fetchall() if cursor.description else []


class Program:
    """A version of the program with other files."""

    def __init__(self, patch: pytest.MonkeyPatch, version: str, *changed: Routine) -> None:
        routines = {**OURS, **{routine.name: routine for routine in changed}}
        self._patches = [
            (functions, "routines", lambda: tuple(routines.values())),
            (schema, "__version__", version),
        ]
        self._patch = patch

    def __enter__(self) -> None:
        self._context = self._patch.context()
        patch = self._context.__enter__()
        for module, name, value in self._patches:
            patch.setattr(module, name, value)

    def __exit__(self, *exc_info: object) -> None:
        self._context.__exit__(None, None, None)


def with_body(name: str) -> Routine:
    """The same function; its text begins to differ after the header."""
    text = OURS[name].text
    assert "BEGIN\n" in text
    return replace(OURS[name], text=text.replace("BEGIN\n", "BEGIN  -- newer\n", 1))


def with_argument(name: str) -> Routine:
    """Called differently: there is one more argument."""
    text = OURS[name].text
    assert "_now timestamptz DEFAULT NULL" in text
    more = "_now timestamptz DEFAULT NULL, _more integer DEFAULT NULL"
    return replace(OURS[name], text=text.replace("_now timestamptz DEFAULT NULL", more, 1))


def with_other_name(name: str, old: str, new: str) -> Routine:
    """An argument of the same type with another name, which PostgreSQL does not replace."""
    return replace(OURS[name], text=re.sub(rf"\b{old}\b", new, OURS[name].text))


# ── what is written ──


def test_the_second_program_of_a_version_writes_nothing(made: Schema) -> None:
    before = ask(made, WRITTEN)
    install(made)
    install(made, "check")
    assert ask(made, WRITTEN) == before


def test_the_printed_script_makes_the_same(made: Schema, pg18: Cluster) -> None:
    with fresh_schema(pg18) as other:
        with psycopg.connect(other.url, autocommit=True) as connection:
            connection.execute(schema.script(other.name).encode())
        install(other, "check")

        def catalogue(place: Schema) -> str:
            """Without what the schema's name decides."""
            text = str(ask(place, CATALOGUE)).replace(place.name, "<schema>")
            for lock in (latch, turn, knots):
                text = text.replace(str(lock(place.name)), f"<{lock.__name__}>")
            return text

        assert catalogue(made) == catalogue(other)


def test_only_what_has_changed_is_replaced(made: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(ask(made, WRITTEN))
    with Program(monkeypatch, "9.0.0", with_body("_claim")):
        install(made)
    after = dict(ask(made, WRITTEN))
    changed = {signature for signature, wrote in after.items() if before[signature] != wrote}
    assert [signature.split("(")[0].split(".")[-1] for signature in changed] == ["_claim"]
    [[path]] = ask(made, "SELECT proconfig::text FROM pg_proc WHERE proname = '_claim'")
    assert "search_path=pg_catalog" in path


def test_a_header_that_changed_keeps_the_rights_and_what_is_bound_to_it(
    made: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(made, "DROP ROLE IF EXISTS granted")
    ask(made, "CREATE ROLE granted")
    ask(made, "GRANT EXECUTE ON FUNCTION _enqueue, _micros TO granted")
    ask(made, "REVOKE EXECUTE ON FUNCTION _finite FROM PUBLIC")
    ask(made, "GRANT EXECUTE ON FUNCTION _finite TO granted WITH GRANT OPTION")
    before = ask(made, CATALOGUE)
    newer = (
        with_argument("_enqueue"),
        with_other_name("_finite", "instant", "moment"),
        with_other_name("_micros", "instant", "moment"),
    )
    with Program(monkeypatch, "9.0.0", *newer):
        install(made)
    after = ask(made, CATALOGUE)
    assert len(after) == len(before)  # no overload is left, and nothing that was bound is gone
    assert [rights for *_, rights in after] == [rights for *_, rights in before]
    assert "moment timestamp with time zone" in str(after)
    ask(made, "DROP OWNED BY granted; DROP ROLE granted")


def test_what_is_gone_is_dropped_and_what_is_not_ours_stays(
    empty: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = empty
    extra = replace(
        OURS["_spans"], name="_extra", text=OURS["_spans"].text.replace("._spans", "._extra")
    )
    with Program(monkeypatch, "0.0.9", extra):
        install(made)
    ask(made, "CREATE FUNCTION theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    assert ask(made, "SELECT 1 FROM pg_proc WHERE proname = '_extra'") == [(1,)]
    install(made)
    left = ask(made, "SELECT proname FROM pg_proc WHERE proname IN ('_extra', 'theirs')")
    assert left == [("theirs",)]


def test_something_of_the_users_that_is_bound_to_a_function_stops_the_upgrade(
    made: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of theirs is dropped, and nothing of ours is changed."""
    ask(made, "CREATE VIEW theirs AS SELECT _micros(run_at) FROM _jobs")
    before = ask(made, CATALOGUE)
    with (
        Program(monkeypatch, "9.0.0", with_other_name("_micros", "instant", "moment")),
        pytest.raises(psycopg.errors.DependentObjectsStillExist, match="theirs"),
    ):
        install(made)
    assert ask(made, CATALOGUE) == before


# ── two versions at once ──


def test_an_older_worker_goes_on_beside_newer_bodies(
    made: Schema, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        old = PostgresStore(made.url, schema_name=made.name)
        await old.open()
        with Program(monkeypatch, "9.0.0", with_body("_claim"), with_body("_settle")):
            newer = PostgresStore(made.url, schema_name=made.name)
            await newer.open()
            await newer.enqueue([NewJob("t")])
        [lease] = await old.claim(ClaimRequest("old", ("t",), 10))
        [settled] = await old.settle([(lease, COMPLETE)])
        assert settled.verdict is Verdict.APPLIED
        for _ in range(3):
            await old.reap(10, 5)  # it looks at the version now and then
        await old.close()
        restarted = PostgresStore(made.url, schema_name=made.name)
        await restarted.open()
        await restarted.close()
        await newer.close()

    before = ask(made, "SELECT count(*) FROM _functions WHERE program = '9.0.0'")
    asyncio.run(work())
    after = ask(made, "SELECT count(*) FROM _functions WHERE program = '9.0.0'")
    assert (before, after) == ([(0,)], [(len(OURS),)])  # the older one has taken nothing back
    assert caplog.text.count("is newer than this program") == 1


def test_an_older_worker_stops_where_a_function_is_called_differently(
    made: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        old = PostgresStore(made.url, schema_name=made.name)
        await old.open()
        with Program(monkeypatch, "9.0.0", with_argument("_reap")):
            install(made)
        with pytest.raises(SchemaTooNewError):
            for _ in range(3):
                await old.reap(10, 5)
        await old.close()
        with pytest.raises(SchemaTooNewError):
            await PostgresStore(made.url, schema_name=made.name).open()

    asyncio.run(work())


def test_a_newer_program_brings_older_functions_up_to_date_or_says_so(
    empty: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = empty
    with Program(monkeypatch, "0.0.9", with_argument("_reap")):
        install(made)
    with pytest.raises(StoreUnavailableError, match="windlass migrate"):
        install(made, "check")
    install(made)
    install(made, "check")
    [[arguments]] = ask(
        made, "SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = '_reap'"
    )
    assert "_more" not in arguments


def test_programs_that_install_at_once_end_with_one_version(
    made: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the lock the second looks again, and finds nothing to do."""
    with Program(monkeypatch, "9.0.0", with_body("_claim"), with_argument("_reap")):
        with closing(psycopg.connect(made.url)) as first:
            first.execute("SET lock_timeout = 0")
            first.execute(
                "SELECT pg_advisory_xact_lock(%s)",
                [lock_number("migrate", made.name)],
            )

            async def race() -> None:
                waiting = [asyncio.create_task(asyncio.to_thread(install, made)) for _ in range(4)]
                while True:
                    blocked = ask(made, "SELECT count(*) FROM pg_locks WHERE NOT granted")
                    if blocked[0][0] == 4:
                        break
                    await asyncio.sleep(0.01)
                first.rollback()
                await asyncio.gather(*waiting)

            asyncio.run(race())
        [[written]] = ask(made, "SELECT count(DISTINCT xmin::text) FROM _functions")
        assert written == 1
        install(made, "check")
