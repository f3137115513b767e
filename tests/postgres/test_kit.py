"""The test kit does what the tests that use it rely on: servers, pooler, fault proxy."""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from psycopg import errors
from psycopg.pq.abc import PGconn, PGresult

from tests.postgres.cluster import (
    Cluster,
    ClusterError,
    Schema,
    available_versions,
    fresh_schema,
    shared_cluster,
)
from tests.postgres.pooler import POOLERS, TransactionPooler, pooler_named
from tests.postgres.proxy import FaultProxy
from tests.postgres.wire import message, startup_packet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def until(true: Callable[[], bool]) -> None:
    """Wait for something to become true; the test's own deadline is the last resort."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def value(connection: psycopg.Connection, statement: str) -> object:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def major(cluster: Cluster) -> int:
    with cluster.connect() as connection:
        return connection.info.server_version // 10000


def connected(url: str, *, autocommit: bool = True) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=autocommit, prepare_threshold=None)


def next_result(libpq: PGconn) -> PGresult | None:
    """As `get_result`, which alone would wait without letting the pooler's thread run."""
    while libpq.is_busy():
        select.select([libpq.socket], [], [])
        libpq.consume_input()
    return libpq.get_result()


def receive(raw: socket.socket, transactions: int) -> list[bytes]:
    """The server's messages, up to so many that say it is ready."""
    messages: list[bytes] = []
    while [one[:1] for one in messages].count(b"Z") < transactions:
        head = receive_exactly(raw, 5)
        messages.append(head + receive_exactly(raw, int.from_bytes(head[1:], "big") - 4))
    return messages


def receive_exactly(raw: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = raw.recv(size - len(content))
        assert part, "the connection was closed"
        content += part
    return content


@pytest.fixture
def pooler(pg16: Cluster) -> Iterator[TransactionPooler]:
    with TransactionPooler("127.0.0.1", pg16.port, pg16.shared_database()) as pooler:
        yield pooler


@pytest.fixture
def proxy(pg16: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", pg16.port, pg16.shared_database()) as proxy:
        yield proxy


@pytest.fixture
def table(pg16: Cluster) -> Iterator[str]:
    """A table with one column, n, in a schema of its own."""
    with fresh_schema(pg16) as schema:
        with pg16.connect(pg16.shared_database()) as connection:
            connection.execute(f"CREATE SCHEMA {schema.name}")
            connection.execute(f"CREATE TABLE {schema.name}.rows (n int)")
        yield f"{schema.name}.rows"


@pytest.fixture
def rows(pg16: Cluster, table: str) -> Callable[[], list[int]]:
    """What is committed in the table."""

    def read() -> list[int]:
        with pg16.connect(pg16.shared_database()) as connection:
            return [n for (n,) in connection.execute(f"SELECT n FROM {table} ORDER BY n")]

    return read


class TestCluster:
    def test_has_the_versions_it_says(self, pg16: Cluster, pg18: Cluster) -> None:
        assert [major(pg16), major(pg18)] == [16, 18]
        assert {16, 18} <= set(available_versions())

    def test_asyncpg_and_psycopg_use_the_same_urls(self, pg: Cluster, database: str) -> None:
        async def name(url: str) -> object:
            connection = await asyncpg.connect(url)
            try:
                return await connection.fetchval("SELECT current_database()")
            finally:
                await connection.close()

        with connected(database) as connection:
            own = str(value(connection, "SELECT current_database()"))
        assert asyncio.run(name(database)) == own
        assert asyncio.run(name(pg.url(own, tcp=True))) == own

    def test_a_fresh_database_is_empty(self, database: str) -> None:
        with connected(database) as connection:
            tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            assert value(connection, tables) == 0

    def test_a_fresh_schema_does_not_exist_and_is_dropped_in_use(self, pg: Cluster) -> None:
        def exists(schema: Schema) -> bool:
            with connected(schema.url) as connection:
                return bool(value(connection, f"SELECT to_regnamespace('{schema.name}') NOTNULL"))

        with fresh_schema(pg) as schema:
            assert not exists(schema)
            holder = connected(schema.url, autocommit=False)
            holder.execute(f"CREATE SCHEMA {schema.name}")
            holder.execute(f"CREATE TABLE {schema.name}.t (n int)")
            holder.commit()
            holder.execute(f"LOCK TABLE {schema.name}.t")
            assert exists(schema)
        assert not exists(schema)
        with pytest.raises(psycopg.OperationalError):
            holder.execute("SELECT 1")
        holder.close()

    def test_schema_names_differ(self, schema: Schema, pg: Cluster) -> None:
        with fresh_schema(pg) as other:
            assert (other.url, other.name) != (schema.url, schema.name)
            assert other.url == schema.url

    @pytest.mark.parametrize("version", [16, 18])
    def test_a_killed_server_recovers_what_was_committed(self, version: int) -> None:
        with Cluster.create(16 if version == 16 else 18, work_mem="5MB") as cluster:
            with cluster.connect() as connection:
                assert value(connection, "SHOW work_mem") == "5MB"
                connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
                open_end = connected(cluster.url(), autocommit=False)
                open_end.execute("INSERT INTO kept VALUES (2)")
                pid, port = cluster.pid, cluster.port
                cluster.kill()
                with pytest.raises(psycopg.OperationalError):
                    connection.execute("SELECT 1")
            open_end.close()
            assert not cluster.running
            cluster.start()
            assert (cluster.pid == pid, cluster.port) == (False, port)
            with cluster.connect() as connection:
                assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
            assert "was not properly shut down" in cluster.log()

    def test_stop_and_start_keep_the_data(self) -> None:
        with Cluster.create(16) as cluster:
            cluster.create_database("shop")
            cluster.stop()
            with pytest.raises(psycopg.OperationalError):
                cluster.connect("shop")
            cluster.start()
            with cluster.connect("shop") as connection:
                assert value(connection, "SELECT 1") == 1

    def test_a_standby_follows_and_is_promoted(self) -> None:
        with Cluster.create(18) as primary, primary.standby() as standby:
            with primary.connect() as connection:
                connection.execute("CREATE TABLE t AS SELECT 7 AS n")
            standby.catch_up(primary)
            with standby.connect() as connection:
                with pytest.raises(errors.ReadOnlySqlTransaction):
                    connection.execute("INSERT INTO t VALUES (8)")
                primary.kill()
                standby.promote()
                connection.execute("INSERT INTO t VALUES (8)")
                found = connection.execute("SELECT n FROM t ORDER BY n").fetchall()
            assert found == [(7,), (8,)]

    def test_a_server_that_cannot_start_says_why(self) -> None:
        cluster = Cluster.create(16, shared_buffers="rubbish")
        with pytest.raises(ClusterError, match="shared_buffers"):
            cluster.start()
        cluster.destroy()

    def test_destroy_leaves_nothing(self) -> None:
        cluster = Cluster.create(16).start()
        cluster.kill()
        cluster.destroy()
        assert not cluster.folder.exists()
        assert not cluster.socket_dir.exists()

    def test_a_server_dies_with_the_process_that_started_it(self) -> None:
        program = (
            "from tests.postgres.cluster import Cluster\n"
            "cluster = Cluster.create(16).start()\n"
            "print(cluster.port, cluster.folder, flush=True)\n"
            "input()\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdout is not None
            port, folder = child.stdout.readline().split()
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            connected(url).close()
            os.kill(child.pid, signal.SIGKILL)
        until(lambda: not Path(folder).exists())
        with pytest.raises(psycopg.OperationalError):
            connected(url)


class TestPooler:
    @pytest.mark.parametrize("size", [1, 3])
    def test_session_state_is_lost_between_transactions(self, pg16: Cluster, size: int) -> None:
        with (
            TransactionPooler("127.0.0.1", pg16.port, size=size) as pooler,
            connected(pooler.url()) as client,
        ):
            client.execute("SET work_mem = '7MB'")
            assert value(client, "SHOW work_mem") == "4MB"
            client.execute("SELECT pg_advisory_lock(42)")
            assert value(client, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
            client.execute("CREATE TEMP TABLE mine (n int)")
            with pytest.raises(errors.UndefinedTable):
                client.execute("SELECT * FROM mine")
            client.execute("PREPARE q AS SELECT 1")
            with pytest.raises(errors.InvalidSqlStatementName):
                client.execute("EXECUTE q")
            client.execute("LISTEN news")
            assert client.execute("SELECT pg_listening_channels()").fetchall() == []

    def test_prepared_statements_of_the_driver_fail(self, pooler: TransactionPooler) -> None:
        with psycopg.connect(pooler.url(), autocommit=True, prepare_threshold=0) as client:
            with pytest.raises(errors.InvalidSqlStatementName):
                for _ in range(2):
                    client.execute("SELECT %s::int", (1,))

    def test_transactions_keep_and_then_change_the_connection(
        self, pooler: TransactionPooler
    ) -> None:
        seen: list[object] = []
        with connected(pooler.url()) as client:
            for _ in range(6):
                with client.transaction():
                    client.execute("SET LOCAL work_mem = '7MB'")
                    pids = {value(client, "SELECT pg_backend_pid()") for _ in range(3)}
                    assert value(client, "SHOW work_mem") == "7MB"
                assert len(pids) == 1
                seen += pids
        assert all(one != other for one, other in itertools.pairwise(seen))
        assert 2 <= len(set(seen)) <= pooler.size

    def test_more_clients_than_connections_share_them(
        self, pooler: TransactionPooler, table: str, rows: Callable[[], list[int]]
    ) -> None:
        def work(number: int) -> None:
            with connected(pooler.url()) as client:
                for part in range(5):
                    with client.transaction():
                        client.execute(f"INSERT INTO {table} VALUES (%s)", (number * 5 + part,))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rows() == list(range(40))

    def test_pipelines_with_several_syncs(self, pooler: TransactionPooler, table: str) -> None:
        with connected(pooler.url()) as client:
            with client.pipeline() as pipeline:
                cursors = []
                for number in range(30):
                    client.execute(f"INSERT INTO {table} VALUES (%s)", (number,))
                    cursors.append(client.execute("SELECT %s::int", (number,)))
                    if number % 3 == 0:
                        pipeline.sync()
                found = [cursor.fetchone() for cursor in cursors]
            assert found == [(number,) for number in range(30)]
            assert value(client, f"SELECT count(*) FROM {table}") == 30

    def test_a_pipeline_gives_its_connection_back(self, pg16: Cluster) -> None:
        with TransactionPooler("127.0.0.1", pg16.port, size=1) as pooler:
            with connected(pooler.url()) as client, connected(pooler.url()) as other:
                with client.pipeline():
                    client.execute("SELECT 1")
                assert value(other, "SELECT 2") == 2

    def test_requests_sent_ahead_are_answered_in_order(self, pooler: TransactionPooler) -> None:
        def ask(number: int) -> bytes:
            statement = f"SELECT {number}".encode() + b"\0"
            bind = message(b"B", b"\0" * 8)
            return message(b"P", b"\0" + statement + b"\0\0") + bind + message(b"E", b"\0" * 5)

        sync = message(b"S")
        with socket.create_connection((pooler.host, pooler.port)) as raw:
            raw.settimeout(30)
            raw.sendall(startup_packet(user="postgres", database=pooler.default_database))
            received = receive(raw, 1)
            # Two transactions before any answer is read; then one and the beginning of another.
            raw.sendall(ask(1) + sync + message(b"Q", b"SELECT 2\0"))
            received += receive(raw, 2)
            raw.sendall(ask(3) + sync + ask(4))
            received += receive(raw, 1)
            raw.sendall(sync)
            received += receive(raw, 1)
            raw.sendall(message(b"X"))
        assert [answer[-1:] for answer in received if answer[:1] == b"D"] == [
            b"1",
            b"2",
            b"3",
            b"4",
        ]

    def test_a_failed_pipeline_leaves_a_usable_client(self, pooler: TransactionPooler) -> None:
        with connected(pooler.url()) as client:
            with pytest.raises(errors.DivisionByZero):
                with client.pipeline():
                    client.execute("SELECT 1")
                    client.execute("SELECT 1/0")
                    client.execute("SELECT 2")
            assert value(client, "SELECT 3") == 3

    def test_copy_in_and_out(self, pooler: TransactionPooler, table: str) -> None:
        with connected(pooler.url()) as client:
            cursor = client.cursor()
            for _ in range(2):
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for number in range(1000):
                        copy.write_row((number,))
            with pytest.raises(errors.InvalidTextRepresentation):
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(b"rubbish\n" * 10000)
            with cursor.copy(f"COPY {table} TO STDOUT") as copy:
                assert len(list(copy.rows())) == 2000
            with cursor.copy("COPY (SELECT %s::int) TO STDOUT", (5,)) as copy:
                assert list(copy.rows()) == [("5",)]
            assert value(client, "SELECT 1") == 1

    def test_copy_in_over_the_extended_protocol(
        self, pooler: TransactionPooler, table: str, rows: Callable[[], list[int]]
    ) -> None:
        with connected(pooler.url()) as client:
            for number in (b"1", b"2"):
                libpq = client.pgconn
                libpq.exec_params(f"COPY {table} FROM STDIN".encode(), [])
                libpq.put_copy_data(number + b"\n")
                libpq.put_copy_end()
                libpq.flush()
                result = next_result(libpq)
                assert result is not None and result.status == psycopg.pq.ExecStatus.COMMAND_OK
                assert next_result(libpq) is None
                assert value(client, "SHOW work_mem") == "4MB"
                client.execute("SET work_mem = '7MB'")
        assert rows() == [1, 2]

    def test_a_server_restart_is_survived(self) -> None:
        with Cluster.create(16) as cluster:
            with TransactionPooler("127.0.0.1", cluster.port) as pooler:
                with connected(pooler.url()) as client:
                    assert value(client, "SELECT 1") == 1
                    cluster.kill()
                    with pytest.raises(psycopg.OperationalError):
                        connected(pooler.url()).execute("SELECT 1")
                    cluster.start()
                with connected(pooler.url()) as client:
                    assert value(client, "SELECT 1") == 1

    def test_asyncpg_copies_and_runs_transactions(
        self, pooler: TransactionPooler, table: str, rows: Callable[[], list[int]]
    ) -> None:
        async def work() -> object:
            client = await asyncpg.connect(pooler.url(), statement_cache_size=0)
            try:
                schema, name = table.split(".")
                records = [(number,) for number in range(100)]
                await client.copy_records_to_table(name, schema_name=schema, records=records)
                async with client.transaction():
                    return await client.fetchval("SELECT $1::int", 4)
            finally:
                await client.close()

        assert asyncio.run(work()) == 4
        assert rows() == list(range(100))

    @pytest.mark.parametrize("parameter", ["options", "search_path"])
    def test_startup_parameters_are_refused(
        self, pooler: TransactionPooler, parameter: str
    ) -> None:
        async def connect() -> None:
            await asyncpg.connect(pooler.url(), server_settings={parameter: "-c jit=off"})

        with pytest.raises(
            asyncpg.ProtocolViolationError, match=f"unsupported startup parameter: {parameter}"
        ):
            asyncio.run(connect())

    def test_application_name_is_accepted(self, pooler: TransactionPooler) -> None:
        with connected(pooler.url() + "?application_name=shop") as client:
            assert value(client, "SHOW application_name") == ""

    def test_leaving_in_a_transaction_rolls_back(
        self, pg16: Cluster, pooler: TransactionPooler, table: str
    ) -> None:
        client = connected(pooler.url(), autocommit=False)
        client.execute(f"INSERT INTO {table} VALUES (1)")
        pid = value(client, "SELECT pg_backend_pid()")
        client.close()
        with pg16.connect(pg16.shared_database()) as watcher:
            gone = f"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})"
            until(lambda: value(watcher, gone) is True)
            assert value(watcher, f"SELECT count(*) FROM {table}") == 0
        with connected(pooler.url()) as other:
            found = {value(other, "SELECT pg_backend_pid()") for _ in range(6)}
            assert pid not in found
            assert 2 <= len(found) <= pooler.size

    def test_a_cancel_request_reaches_the_running_statement(
        self, pg16: Cluster, pooler: TransactionPooler
    ) -> None:
        with connected(pooler.url()) as client, pg16.connect() as watcher:
            failed: list[BaseException] = []

            def work() -> None:
                try:
                    client.execute("SELECT pg_sleep(600) /* cancel me */")
                except psycopg.Error as error:
                    failed.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            running = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                " AND query LIKE '%cancel me%'"
            )
            until(lambda: value(watcher, running) == 1)
            client.cancel_safe()
            thread.join()
            assert [type(error) for error in failed] == [errors.QueryCanceled]
            assert value(client, "SELECT 1") == 1

    def test_a_lost_server_connection_ends_its_client_only(
        self, pg16: Cluster, pooler: TransactionPooler
    ) -> None:
        with connected(pooler.url()) as idle, connected(pooler.url(), autocommit=False) as busy:
            pids = {value(idle, "SELECT pg_backend_pid()") for _ in range(pooler.size)}
            pids.add(value(busy, "SELECT pg_backend_pid()"))
            with pg16.connect() as watcher:
                for pid in pids:
                    watcher.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            with pytest.raises(psycopg.OperationalError):
                busy.execute("SELECT 1")
            assert value(idle, "SELECT pg_backend_pid()") not in pids

    def test_an_unknown_database_is_an_error_of_the_connection(
        self, pooler: TransactionPooler
    ) -> None:
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            connected(pooler.url("nowhere"))

    @pytest.mark.parametrize("kind", POOLERS)
    def test_poolers_agree(self, pg16: Cluster, kind: str) -> None:
        with pooler_named(kind, "127.0.0.1", pg16.port) as either:
            with connected(either.url()) as client:
                with client.transaction():
                    assert value(client, "SELECT 1") == 1
            with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
                connected(either.url() + "?options=-c%20jit%3Doff")


class TestProxy:
    def test_cut_resets_what_is_open_and_takes_new_connections(self, proxy: FaultProxy) -> None:
        with connected(proxy.url()) as client:
            assert value(client, "SELECT 1") == 1
            assert (proxy.connections, proxy.open_connections) == (1, 1)
            proxy.cut()
            assert proxy.open_connections == 0
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        with connected(proxy.url()) as client:
            assert value(client, "SELECT 1") == 1
        assert proxy.connections == 2

    def test_refuse_and_restore(self, proxy: FaultProxy) -> None:
        with connected(proxy.url()) as client:
            proxy.refuse()
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connected(proxy.url())
        proxy.restore()
        with connected(proxy.url()) as client:
            assert value(client, "SELECT 1") == 1

    def test_a_black_hole_answers_nothing_until_restored(
        self, pg16: Cluster, proxy: FaultProxy, table: str, rows: Callable[[], list[int]]
    ) -> None:
        async def work() -> None:
            client = await psycopg.AsyncConnection.connect(proxy.url(), autocommit=True)
            async with client:
                proxy.black_hole()
                late = asyncio.create_task(client.execute(f"INSERT INTO {table} VALUES (1)"))
                new = asyncio.create_task(psycopg.AsyncConnection.connect(proxy.url()))
                while proxy.held < 2:
                    await asyncio.sleep(0.01)
                assert not (late.done() or new.done())
                assert rows() == []
                proxy.restore()
                await late
                await (await new).close()

        asyncio.run(work())
        assert rows() == [1]

    def test_throttle_carries_everything_bit_by_bit(self, proxy: FaultProxy) -> None:
        with connected(proxy.url()) as client:
            proxy.throttle(200_000)
            assert value(client, "SELECT repeat('x', 20000)") == "x" * 20000
            proxy.throttle(None)
            assert value(client, "SELECT 1") == 1

    def test_a_dropped_commit_answer_is_a_commit(
        self, proxy: FaultProxy, table: str, rows: Callable[[], list[int]]
    ) -> None:
        with connected(proxy.url(), autocommit=False) as client:
            client.execute(f"INSERT INTO {table} VALUES (1)")
            client.commit()
            dropped = proxy.drop_next_commit_answer()
            client.execute(f"INSERT INTO {table} VALUES (2)")
            assert not dropped.is_set()
            with pytest.raises(psycopg.OperationalError):
                client.commit()
        assert dropped.is_set()
        assert rows() == [1, 2]
        with connected(proxy.url(), autocommit=False) as client:
            client.execute(f"INSERT INTO {table} VALUES (3)")
        assert rows() == [1, 2, 3]

    def test_a_commit_answer_is_dropped_only_after_its_marker(
        self, proxy: FaultProxy, table: str, rows: Callable[[], list[int]]
    ) -> None:
        dropped = proxy.drop_next_commit_answer(after=b"marker")
        with connected(proxy.url(), autocommit=False) as other:
            with connected(proxy.url(), autocommit=False) as client:
                client.execute(f"INSERT INTO {table} VALUES (1) /* marker */")
                other.execute(f"INSERT INTO {table} VALUES (2)")
                other.commit()
                assert not dropped.is_set()
                with pytest.raises(psycopg.OperationalError):
                    client.commit()
            assert dropped.is_set()
            other.execute(f"INSERT INTO {table} VALUES (3)")
        assert rows() == [1, 2, 3]

    @pytest.mark.parametrize("pipelined", [False, True])
    def test_a_dropped_autocommit_answer_is_a_commit(
        self, proxy: FaultProxy, table: str, rows: Callable[[], list[int]], pipelined: bool
    ) -> None:
        with connected(proxy.url()) as client:
            client.execute(f"INSERT INTO {table} VALUES (%s)", (1,))
            dropped = proxy.drop_answer_after(b"marker")
            with pytest.raises(psycopg.OperationalError):
                if pipelined:
                    with client.pipeline():
                        client.execute(f"INSERT INTO {table} VALUES (%s) /* marker */", (2,))
                else:
                    client.execute(f"INSERT INTO {table} VALUES (%s) /* marker */", (2,))
        assert dropped.is_set()
        assert rows() == [1, 2]

    def test_redirect_sends_new_connections_to_another_server(
        self, pg18: Cluster, proxy: FaultProxy
    ) -> None:
        with connected(proxy.url("postgres")) as old:
            proxy.redirect("127.0.0.1", pg18.port)
            with connected(proxy.url("postgres")) as new:
                majors = [one.info.server_version // 10000 for one in (old, new)]
        assert majors == [16, 18]


def test_shared_clusters_are_shared(pg16: Cluster) -> None:
    assert shared_cluster(16) is pg16
