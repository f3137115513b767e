"""Processes that work on a user's own table, and are killed, told to stop, or lose the server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults import ledger, processes
from tests.faults.kit import until
from tests.faults.processes import Process
from tests.faults.symptoms import symptom
from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from windlass.table import ddl


class Office:
    """One table and any number of processes over it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.folder = folder
        self.gate = folder / "gate"
        self.ledger = folder / "ledger.jsonl"
        self.processes: list[Process] = []
        self.ask(ddl("jobs", extra=["kind text NOT NULL"]))
        self.ask("CREATE TABLE effects (job bigint)")

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def add(self, kind: str, count: int = 1) -> list[int]:
        rows = self.ask(
            "INSERT INTO jobs (kind) SELECT %s FROM generate_series(1, %s) RETURNING id",
            *(kind, count),
        )
        return [id_ for [id_] in rows]

    def start(self, routines: str = "worker", **settings: str) -> Process:
        """Start a process and wait until its routines run."""
        environment = {
            "TABLE_URL": self.url,
            "LEDGER": str(self.ledger),
            "GATE": str(self.gate),
            "ROUTINES": routines,
            **settings,
        }
        with (self.folder / f"process-{len(self.processes)}.log").open("wb") as log:
            process = processes.spawn("tests.postgres.faults.table_app", log, environment)
        self.processes.append(process)
        until(lambda: process.pid in self.who("ready"), "the process to be ready")
        return process

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in ledger.read(self.ledger) if event["event"] == kind]

    def who(self, kind: str) -> set[int]:
        return {event["pid"] for event in self.events(kind)}

    def started(self, process: Process) -> set[int]:
        return {event["job"] for event in self.events("start") if event["pid"] == process.pid}

    def rows(self, columns: str = "state, num_resets, num_failures") -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {columns} FROM jobs ORDER BY id")

    def effects(self) -> list[int]:
        return [job for [job] in self.ask("SELECT job FROM effects ORDER BY job")]

    def check_logs(self) -> None:
        for number in range(len(self.processes)):
            log = (self.folder / f"process-{number}.log").read_text()
            assert symptom(log) is None

    def connections(self) -> int:
        [[count]] = self.ask(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(count)


@contextmanager
def office(folder: Path, url: str) -> Iterator[Office]:
    made = Office(folder, url)
    try:
        yield made
    finally:
        processes.kill(made.processes)


@pytest.fixture
def here(tmp_path: Path, pg18: Cluster) -> Iterator[Office]:
    with fresh_database(pg18) as url, office(tmp_path, url) as made:
        yield made


def stop(process: Process) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=PATIENCE)


def kill(process: Process) -> None:
    process.kill()
    process.wait()


def test_rows_of_a_killed_worker_are_queued_again_then_failed(here: Office) -> None:
    """P4: what it had written in its transactions is gone, and each reset is counted."""
    resetter = here.start("resetter")
    ids = set(here.add("nap", 4))
    victim = here.start()
    until(lambda: here.started(victim) == ids, "the victim to run them")
    assert {state for state, _, _ in here.rows()} == {"processing"}
    kill(victim)
    until(lambda: here.rows() == [("queued", 1, 0)] * 4, "all of them to be queued again")
    assert here.rows("started_at, finished_at, failure_message") == [(None, None, None)] * 4
    victim = here.start()
    until(lambda: here.started(victim) == ids, "the next victim to run them")
    kill(victim)
    until(lambda: here.rows() == [("failed", 1, 0)] * 4, "all of them to be failed")
    [[message, is_finished]] = here.ask(
        "SELECT DISTINCT failure_message, finished_at IS NOT NULL FROM jobs"
    )
    assert is_finished and "max_num_resets" in message
    assert here.effects() == []
    assert stop(resetter) == 0
    until(lambda: here.connections() == 0, "every connection to be closed")
    here.check_logs()


def test_sigterm_lets_handlers_finish(here: Office) -> None:
    worker = here.start("worker resetter")
    here.add("gate", 2)
    until(lambda: len(here.started(worker)) == 2, "both to run")
    worker.send_signal(signal.SIGTERM)
    until(lambda: here.events("stopping"), "the signal to be noticed")
    late = here.add("quick")
    here.gate.touch()
    assert worker.wait(timeout=PATIENCE) == 0
    assert here.rows() == [("completed", 0, 0)] * 2 + [("queued", 0, 0)]
    assert here.effects() == [1, 2]
    assert late == [3] and {event["job"] for event in here.events("end")} == {1, 2}
    assert len(here.events("stopped")) == 1
    until(lambda: here.connections() == 0, "every connection to be closed")
    here.check_logs()


def test_sigterm_hands_back_what_does_not_finish(here: Office) -> None:
    worker = here.start(GRACE="0.2")
    here.add("nap", 6)
    until(lambda: len(here.started(worker)) == 4, "its slots to be full")
    assert stop(worker) == 0
    assert here.rows() == [("queued", 0, 0)] * 6
    assert here.rows("started_at, failure_message") == [(None, None)] * 6
    assert here.effects() == []
    here.check_logs()


def test_a_worker_and_a_resetter_together_inherit_from_the_dead(here: Office) -> None:
    victim = here.start("worker resetter")
    ids = here.add("gate", 4)
    until(lambda: here.started(victim) == set(ids), "the victim to run them")
    kill(victim)
    heir = here.start("worker resetter")
    more = here.add("quick", 20)
    here.gate.touch()
    until(lambda: {row[0] for row in here.rows()} == {"completed"}, "all to be done")
    assert set(ids) <= here.started(heir)
    assert here.rows("num_resets") == [(1,)] * 4 + [(0,)] * 20
    assert here.effects() == ids + more
    assert stop(heir) == 0
    here.check_logs()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_is_restarted_under_a_worker(tmp_path: Path, how: str) -> None:
    with Cluster.create(18) as cluster, office(tmp_path, cluster.create_database("shop")) as here:
        worker = here.start("worker resetter")
        first = here.add("quick", 20)
        slow = here.add("gate", 2)
        until(lambda: set(first) <= set(here.effects()), "the first ones")
        until(lambda: set(slow) <= here.started(worker), "those in the middle to begin")
        if how == "stop":
            cluster.stop()
        else:
            cluster.kill()
        cluster.start()
        here.gate.touch()
        last = here.add("quick", 20)
        until(lambda: {row[0] for row in here.rows()} == {"completed"}, "all to be done")
        assert here.effects() == [*first, *slow, *last]
        assert stop(worker) == 0
