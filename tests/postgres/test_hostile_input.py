"""What the role of an application can send to the functions it may call, and other programs can
write into the tables: refused, or the cost of one job. Workers go on in any case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres.cluster import Cluster, Schema, fresh_schema
from windlass import App, Events, JobState
from windlass.store.records import (
    ChainFilter,
    ClaimRequest,
    Complete,
    JobFilter,
    NewChain,
    NewJob,
    Verdict,
    decode_blockers,
)
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import prepare

DEEP = json.loads("[" * 65 + "]" * 65)
REFUSED: dict[str, dict[str, Any]] = {
    "no task": {"task": None},
    "an empty task": {"task": ""},
    "a long task": {"task": "x" * 129},
    "an empty queue": {"queue": ""},
    "a long queue": {"queue": "x" * 129},
    "no attempts": {"max_attempts": 0},
    "a flag that is none": {"flags": [None]},
    "an empty flag": {"flags": [""]},
    "flags in flags": {"flags": [["a", "b"], ["c", "d"]]},
    "too many flags": {"flags": [str(n) for n in range(65)]},
    "a long flag": {"flags": ["x" * 8193]},
    "to keep for no number": {"keep": "NaN"},
    "to keep for ever": {"keep": "Infinity"},
    "to keep too long": {"keep": 1e300},
    "to keep for less than nothing": {"keep": -1},
    "an instant that is none": {"run_at": "infinity"},
    "a delay beyond all numbers": {"delay": 2**63 - 1},
    "a payload too deep": {"payload": DEEP},
}
KEYED: dict[str, dict[str, Any]] = {
    "an empty key": {"key": ""},
    "a long key": {"key": "x" * 513},
    "an unknown key mode": {"key_mode": "other"},
}
TEXTS = {
    "a number too large": '{"task": "t", "payload": [1e400]}',
    "a long number": '{"task": "t", "payload": %s}' % ("9" * 400),
    "a NUL": r'{"task": "t", "payload": "\u0000"}',
    "half a character": r'{"task": "t", "payload": "\ud800"}',
}


@pytest.fixture(scope="module")
def made(pg: Cluster) -> Iterator[Schema]:
    with fresh_schema(pg) as schema:
        with psycopg.connect(schema.url, autocommit=True) as connection:
            prepare(connection, schema.name, "auto")
        yield schema


@pytest.fixture
def installed(made: Schema) -> Schema:
    with psycopg.connect(made.url, autocommit=True) as connection:
        for table in ("_jobs", "_history", "_chains", "_blockers", "_workers", "_bells"):
            connection.execute(f"DELETE FROM {made.name}.{table}".encode())
    return made


def enqueue(schema: Schema, text: str, is_keyed: bool, now: str | None = None) -> None:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        connection.execute(
            f"SELECT {schema.name}._enqueue(%s, %s, %s::timestamptz)".encode(),
            [text, is_keyed, now],
        )


def count(schema: Schema, table: str = "_jobs") -> int:
    with psycopg.connect(schema.url, autocommit=True) as connection:
        found = connection.execute(
            f"SELECT count(*) FROM {schema.name}.{table}".encode()
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("name", [*REFUSED, *KEYED])
def test_a_value_that_no_job_may_have(installed: Schema, name: str) -> None:
    """One by one, many at once, and many that are alike: all or none."""
    bad = {"task": "t", "payload": {}, **(REFUSED | KEYED).get(name, {})}
    many = [{"task": "t"}, bad]
    if name in REFUSED:
        alike = {**bad, "payloads": [1, bad["payload"]]}
        for text in (json.dumps(many), json.dumps(alike)):
            with pytest.raises(psycopg.Error):
                enqueue(installed, text, False)
    with pytest.raises(psycopg.Error):
        enqueue(installed, json.dumps([{"key": "k", **each} for each in many]), True)
    assert count(installed) == 0


@pytest.mark.parametrize("name", TEXTS)
def test_a_payload_that_no_program_can_decode(installed: Schema, name: str) -> None:
    text = TEXTS[name]
    alike = text.replace('"payload": ', '"payloads": [').removesuffix("}") + "]}"
    keyed = text.replace("{", '{"key": "k", ', 1)
    for each, is_keyed in ((f"[{text}]", False), (alike, False), (f"[{keyed}]", True)):
        with pytest.raises(psycopg.Error):
            enqueue(installed, each, is_keyed)
    assert count(installed) == 0


@pytest.mark.parametrize("now", ["infinity", "-infinity", "1969-01-01", "20000-01-01"])
def test_a_clock_that_no_program_can_show(installed: Schema, now: str) -> None:
    for text, is_keyed in (('[{"task": "t"}]', False), ('[{"task": "t", "key": "k"}]', True)):
        with pytest.raises(psycopg.Error):
            enqueue(installed, text, is_keyed, now)
    assert count(installed) == 0


def start_chains(schema: Schema, starts: Any, keyed: Any = None) -> None:
    given = {"starts": starts, "keyed": keyed}
    text = json.dumps({name: value for name, value in given.items() if value is not None})
    with psycopg.connect(schema.url, autocommit=True) as connection:
        connection.execute(f"SELECT {schema.name}._start_chains(%s, true)".encode(), [text])


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_no_job_of_a_chain_may_have(installed: Schema, name: str) -> None:
    """As the first job of a chain, with a key and without, and as a job that waits for one."""
    bad = {"task": "t", **REFUSED[name], "places": [1]}
    group = {**bad, "payloads": [bad.pop("payload", 1)]}
    with pytest.raises(psycopg.Error):
        start_chains(installed, [group])
    with pytest.raises(psycopg.Error):
        start_chains(installed, None, [{**group, "chain_key": "k"}])
    with pytest.raises(psycopg.Error):
        enqueue(installed, json.dumps({"links": [group]}), True)
    assert count(installed) == 0
    assert count(installed, "_chains") == 0


LINKS: dict[str, dict[str, Any]] = {
    "a blocker that is none": {"blockers": [None]},
    "a blocker that is not there": {"blockers": [7]},
    "a chain that starts with it": {"blockers": [-1]},
    "one that is no number": {"blockers": ["x"]},
    "an unknown choice": {"on_blocker_failure": "never"},
    "two at one place": {"places": [1, 1], "payloads": [1, 2]},
    "an empty key": {"chain_key": ""},
    "a long key": {"chain_key": "x" * 513},
    "a window of less than nothing": {"chain_key": "k", "key_window": -1},
    "a window beyond the calendar": {"chain_key": "k", "key_window": 2**63 - 1},
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_that_no_job_may_have(installed: Schema, name: str) -> None:
    group = {"task": "t", "payloads": [1], "places": [1], **LINKS[name]}
    keyed = {"chain_key": "k", **group}
    with pytest.raises(psycopg.Error):
        start_chains(installed, None, [keyed])
    if "chain_key" not in group:
        with pytest.raises(psycopg.Error):
            start_chains(installed, [group])
        with pytest.raises(psycopg.Error):
            enqueue(installed, json.dumps({"links": [group]}), True)
    assert count(installed) == count(installed, "_chains") == count(installed, "_blockers") == 0


def test_places_beyond_the_end_add_nothing(installed: Schema) -> None:
    group = {"task": "t", "payloads": [1], "places": [10**6]}
    start_chains(installed, [group])
    enqueue(installed, json.dumps({"links": [group]}), True)
    assert count(installed) == count(installed, "_chains") == 0


SPOILT_CHAINS = {
    "payload": f"payload = '{'[' * 3000}{']' * 3000}'",
    "output": r"""output = '"\ud800"'""",
    "created_at": "created_at = '-infinity'",
    "finished_at": "finished_at = 'infinity'",
    "aged_at": "aged_at = '-infinity'",
    "key_window": "key_window = 9223372036854775807",
    "a window of less than nothing": "key_window = -9223372036854775808",
    "length": "length = -5",
}


@pytest.mark.parametrize("name", SPOILT_CHAINS)
def test_a_chain_that_cannot_be_decoded_costs_only_itself(installed: Schema, name: str) -> None:
    async def scenario() -> None:
        store = PostgresStore(installed.url, schema_name=installed.name)
        await store.open()
        try:
            new = [NewChain(job=NewJob("t"), key=key) for key in ("bad", "k")]
            chains = await store.start_chains(new)
            [job] = await store.enqueue([NewJob("u", blockers=tuple(c.id for c in chains))])
            leases = await store.claim(ClaimRequest("w", ("t",), 10))
            await store.settle([(lease, Complete("1")) for lease in leases])
            with psycopg.connect(installed.url, autocommit=True) as connection:
                connection.execute(
                    f"UPDATE {installed.name}._chains SET {SPOILT_CHAINS[name]}"
                    " WHERE key = 'bad'".encode()
                )
            assert len(await store.find_chains(ChainFilter())) == 2
            assert await store.get_chain(chains[0].id) is not None
            assert len(await store.blockers(job.id)) == 2
            [lease] = await store.claim(ClaimRequest("w", ("u",), 10))
            assert len(decode_blockers(lease.blockers or "")) == 2
            for window in (0, 10**6):
                again = NewChain(job=NewJob("t"), key="bad", key_window=window)
                assert len(await store.start_chains([again])) == 1
            await store.settle([(lease, Complete(next=NewJob("u", blockers=(chains[0].id,))))])
            await store.prune(100, 0.0, 0.0)
        finally:
            await store.close()

    asyncio.run(scenario())


WRITES = {
    "flags": "flags = ARRAY[NULL]",
    "flags of two dimensions": "flags = '{{a,b},{c,d}}'",
    "keep": "keep = 'NaN'",
    "an endless keep": "keep = 'Infinity'",
    "run_at": "run_at = 'infinity'",
    "created_at": "created_at = '-infinity'",
    "updated_at": "updated_at = 'infinity'",
    "finished_at": "finished_at = 'infinity'",
    "lease_until": "lease_until = 'infinity'",
    "claimed_at": "claimed_at = '-infinity'",
    "an instant beyond the calendar": "run_at = '20000-01-01'",
}


SPOILT = {
    "too deep": f"payload = '{'[' * 3000}{']' * 3000}'",
    "too large a number": "payload = '1e400'",
    "half a character": r"""payload = '"\ud800"'""",
    "progress": "progress = '{}'",
    "a deep progress": f"progress = '{'[' * 3000}{']' * 3000}'",
    "log": "log = '7'",
    "a deep log": f"log = '{'[' * 3000}{']' * 3000}'",
    **WRITES,
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_row_that_cannot_be_decoded_costs_only_itself(installed: Schema, name: str) -> None:
    """Wherever jobs are looked at."""

    async def scenario() -> None:
        store = PostgresStore(installed.url, schema_name=installed.name)
        await store.open()
        try:
            enqueue(installed, '[{"task": "t", "key": "bad"}, {"task": "t", "key": "k"}]', True)
            with psycopg.connect(installed.url, autocommit=True) as connection:
                connection.execute(
                    f"UPDATE {installed.name}._jobs SET {SPOILT[name]} WHERE key = 'bad'".encode()
                )
            found = await store.find(JobFilter())
            ids = [job.id for job in found]
            assert len(ids) == 2
            bad = await store.get_by_key("bad")
            assert bad is not None and await store.get(bad.id) == bad
            assert len(await store.fail(ids, "no")) == 2
            assert len(await store.reschedule(ids, attempts=0)) == 2
            await store.reschedule(ids, run_at=0)
            leases = await store.claim(ClaimRequest("w", ("t",), 10))
            assert len(leases) == 2
            assert len(await store.unlock(["w"], 5)) == 2
            assert len(await store.cancel(ids)) == 2
            assert len(await store.retry(ids)) == 2
            leases = await store.claim(ClaimRequest("w", ("t",), 10, suspects=10))
            settled = await store.settle([(lease, Complete(keep=60.0)) for lease in leases])
            assert [answer.verdict for answer in settled] == [Verdict.APPLIED] * 2
            assert len(await store.find(JobFilter())) == 2, "in the history"
        finally:
            await store.close()

    asyncio.run(scenario())


def test_ten_jobs_that_cannot_be_decoded_end_no_slot(installed: Schema) -> None:
    async def scenario() -> list[int]:
        events = Events()
        events.on("job:start", lambda **details: None)
        app = App(installed.url, schema=installed.name, events=events)
        seen: list[int] = []

        @app.task
        async def t(n: int) -> None:
            seen.append(n)

        async with app:
            bad = [await t.aenqueue(n=0) for _ in range(10)]
            with psycopg.connect(installed.url, autocommit=True) as connection:
                connection.execute(
                    f"UPDATE {installed.name}._jobs SET {SPOILT['too deep']}".encode()
                )
            await t.aenqueue(n=1)
            await app.run_once(concurrency=2)
            for job in bad:
                found = await app.client.get_job(job.id)
                assert found is not None and found.state is JobState.FAILED
                assert "payload" in str(found.last_error)
        return seen

    assert asyncio.run(scenario()) == [1]
