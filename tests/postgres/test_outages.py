"""LISTEN, and answers that get lost: hints come back, and no job is lost or run twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.proxy import FaultProxy
from windlass import App
from windlass.errors import OutcomeUnknownError, StoreUnavailableError
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres import schema as schemas

LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'windlass' AND query LIKE 'UNLISTEN%'"
)


@pytest.fixture
def url(pg18: Cluster) -> Iterator[str]:
    with fresh_database(pg18) as url:
        yield url


class Seen:
    """What ran, and waiting for it."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self._news = asyncio.Event()

    def note(self, n: int) -> None:
        self.ran.append(n)
        self._news.set()

    async def until(self, count: int) -> list[int]:
        """Wait until that many jobs have run; all that have."""
        async with asyncio.timeout(PATIENCE):
            while len(self.ran) < count:
                self._news.clear()
                await self._news.wait()
        return self.ran


def _app(url: str, seen: Seen, **settings: Any) -> App:
    app = App(url, **{"poll_interval": 60.0, "lease": 2.0, "reap_interval": 0.5, **settings})

    @app.task(name="say")
    async def say(n: int) -> None:
        seen.note(n)

    return app


def _with_worker(url: str, work: Callable[[App, Seen], Awaitable[None]], **settings: Any) -> None:
    """Run `work` beside a worker that polls once a minute and so depends on hints."""

    async def main() -> None:
        seen = Seen()
        async with _app(url, seen, **settings) as app:
            runner = await app.run(handle_signals=False)
            try:
                await work(app, seen)
            finally:
                await runner.stop()

    asyncio.run(main())


async def _eventually(condition: Callable[[], Any]) -> Any:
    """Wait until a look at the database shows something."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await asyncio.to_thread(condition)):
            await asyncio.sleep(0.01)
    return found


def _ask(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True, application_name="test") as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def _add(url: str, n: int) -> None:
    _ask(url, "SELECT windlass.add_job('say', %s::json)", f'{{"n": {n}}}')


# ── hints ──


def test_a_job_from_plain_sql_starts_at_once(url: str) -> None:
    """The worker is idle and would not look for a minute."""

    async def work(app: App, seen: Seen) -> None:
        await _eventually(lambda: _ask(url, LISTENERS))
        for n in range(10):
            await asyncio.to_thread(_add, url, n)
            assert await seen.until(n + 1) == list(range(n + 1))

    _with_worker(url, work)


def test_a_lost_listener_comes_back(url: str) -> None:
    """Its backend is terminated, and what was added in between is found as well."""

    async def work(app: App, seen: Seen) -> None:
        for n in range(3):
            [[pid]] = await _eventually(lambda: _ask(url, LISTENERS))
            _ask(url, "SELECT pg_terminate_backend(%s, 5000)", pid)
            await asyncio.to_thread(_add, url, n)  # perhaps while nobody listens
            assert await seen.until(n + 1) == list(range(n + 1))

        [[pid]] = await _eventually(lambda: _ask(url, LISTENERS))
        await asyncio.to_thread(_add, url, 3)
        assert await seen.until(4) == [0, 1, 2, 3]

    _with_worker(url, work)


class Ear:
    """A connection that listens on a schema's channel."""

    def __init__(self, url: str, schema: str = "windlass") -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._end = f"end {self._connection.info.backend_pid}"
        self._connection.execute(f'LISTEN "{schema}:jobs"; LISTEN "{self._end}"'.encode())

    def heard(self) -> int:
        """How many notifications have come since the last call: all of those sent before it."""
        self._connection.execute("SELECT pg_notify(%s, '')", (self._end,))
        for count, notice in enumerate(self._connection.notifies(timeout=PATIENCE)):
            if notice.channel == self._end:
                return count
        raise AssertionError("the mark was never heard")

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()


def test_what_notifies_and_what_does_not(url: str) -> None:
    """One hint for a transaction, none for jobs of the future, and none for another schema."""
    for schema in ("windlass", "other"):
        asyncio.run(_install(url, schema))
    with Ear(url) as ear, Ear(url, "other") as other_ear:
        with psycopg.connect(url) as own:
            for _ in range(50):
                own.execute("SELECT windlass.add_job('say', '{}')")
        assert ear.heard() == 1
        _ask(url, "SELECT windlass.add_job('say', run_at => now() + interval '1 hour')")
        _ask(url, "SELECT windlass.add_job('say', run_at => now() + '1 day', queue_name => 'q')")
        assert ear.heard() == 0
        with psycopg.connect(url) as own:
            own.execute("SELECT windlass.add_job('say', '{}')")
            own.rollback()
        assert ear.heard() == 0
        assert other_ear.heard() == 0
        _ask(url, "SELECT other.add_job('say', '{}')")
        assert (ear.heard(), other_ear.heard()) == (0, 1)


async def _install(url: str, schema: str) -> None:
    async with App(url, schema=schema) as app:
        await app.client.counts()


# ── answers that get lost ──


def _through_a_proxy(
    pg: Cluster, work: Callable[[App, Seen, FaultProxy, str], Awaitable[None]]
) -> None:
    with fresh_database(pg) as url:
        database = url.partition("?")[0].rpartition("/")[2]
        with FaultProxy("127.0.0.1", pg.port, database) as proxy:

            async def main() -> None:
                seen = Seen()
                settings = {"poll_interval": 0.2, "prepared_statements": False}
                async with _app(proxy.url(), seen, **settings) as app:
                    await work(app, seen, proxy, url)

            asyncio.run(main())


async def _happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


@pytest.mark.parametrize("marker", [b"_claim(", b"_settle("])
def test_a_worker_whose_answer_was_lost(pg18: Cluster, marker: bytes) -> None:
    """The claim or the settlement happened: the job runs once, long before its lease would end."""

    async def work(app: App, seen: Seen, proxy: FaultProxy, url: str) -> None:
        ended: list[tuple[int, int]] = []
        app.events.on(
            "job:success", lambda job, worker: ended.append((job.payload["n"], job.deliveries))
        )
        for n in range(3):
            await asyncio.to_thread(_add, url, n)
            dropped = proxy.drop_answer_after(marker)
            runner = await app.run(handle_signals=False, lease=600.0)
            try:
                await _happened(dropped)
                assert await seen.until(n + 1) == list(range(n + 1))
                await _eventually(lambda: _ask(url, "SELECT FROM windlass._jobs") == [])
            finally:
                await runner.stop()
        assert ended == [(0, 1), (1, 1), (2, 1)]
        assert seen.ran == [0, 1, 2]

    _through_a_proxy(pg18, work)


def test_an_enqueue_whose_answer_was_lost(pg18: Cluster) -> None:
    """The caller is told that nobody knows; asking again under the same key adds nothing."""

    async def work(app: App, seen: Seen, proxy: FaultProxy, url: str) -> None:
        for key in (None, "once"):
            dropped = proxy.drop_answer_after(b"_enqueue(")
            with pytest.raises(OutcomeUnknownError):
                await app.client.add_job("say", {"n": 1}, key=key)
            await _happened(dropped)
        await app.client.add_job("say", {"n": 2}, key="once")
        found = _ask(url, "SELECT key, payload FROM windlass._jobs ORDER BY id")
        assert found == [(None, {"n": 1}), ("once", {"n": 2})]

    _through_a_proxy(pg18, work)


@pytest.mark.parametrize(
    ("statement", "is_temporary"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", True),
        ("SELECT 1 / 0", False),
    ],
    ids=["the server goes away", "the server refuses"],
)
def test_a_server_that_goes_away_while_the_schema_is_looked_at_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch, statement: str, is_temporary: bool
) -> None:
    """`windlass run` waits for what is temporary, and ends with what is not."""

    def prepare(connection: psycopg.Connection[Any], name: str, how: str) -> None:
        connection.execute(statement.encode())

    monkeypatch.setattr(schemas, "prepare", prepare)
    with pytest.raises(StoreUnavailableError) as told:
        asyncio.run(PostgresStore(url).open())
    assert told.value.is_temporary is is_temporary
