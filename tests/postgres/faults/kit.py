"""Worker processes over a PostgreSQL database, and what must hold when the dust has settled."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.faults import ledger, processes
from tests.faults.kit import until
from tests.faults.processes import Process
from tests.faults.symptoms import symptom
from windlass import App
from windlass.errors import OutcomeUnknownError, StoreError

LEASE = 2.0
SWEEP = 0.5
EFFECTS = "CREATE TABLE effects (job bigint NOT NULL, n integer NOT NULL)"

_ERROR = re.compile(
    r"\] (?!autovacuum )[a-z ]+ (ERROR|FATAL|PANIC):"
    r"(?!  (?:canceling statement due to lock timeout|connection to client lost)$)"
)


class Place:
    """One database, one ledger and any number of worker processes, each with a log of its own.

    `url` is what the test itself uses; workers and producers may go through `worker_url`.
    """

    def __init__(self, folder: Path, url: str, worker_url: str | None = None) -> None:
        self.url = url
        self.worker_url = worker_url or url
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.app = App(url, listen=False)
        self.app.sync.counts()  # installs the schema
        self.workers: list[Process] = []
        self._started = 0
        with self.connect() as connection:
            connection.execute(EFFECTS)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the test's own, in autocommit."""
        return psycopg.connect(self.url, autocommit=True, application_name="test")

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(statement.encode(), values).fetchall()

    # ── processes ──

    def spawn(self, module: str, **settings: Any) -> Process:
        """Run a module of this package; its output goes to a log of its own."""
        chosen = {"lease": LEASE, "reap_interval": SWEEP, "poll_interval": 0.5, **settings}
        self._started += 1
        with (self.folder / f"process-{self._started}.log").open("wb") as log:
            return processes.spawn(
                f"tests.postgres.faults.{module}",
                log,
                processes.worker_environment(self.worker_url, self.ledger, chosen),
            )

    def start(self, count: int = 1, **settings: Any) -> list[Process]:
        """Start workers and wait until each says it is ready."""
        started = [self.spawn("worker_app", **settings) for _ in range(count)]
        self.workers += started
        wanted = {worker.pid for worker in started}
        until(
            lambda: wanted <= {event["pid"] for event in self.events("ready")},
            "workers to be ready",
        )
        return started

    def stop(self) -> list[int]:
        """SIGTERM every worker; their exit codes."""
        codes = processes.stop(self.workers)
        self.workers = []
        return codes

    # ── what can be seen ──

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = ledger.read(self.ledger)
        return [event for event in found if kind is None or event["event"] == kind]

    def logs(self) -> list[str]:
        """What each process has written, in the order they were started."""
        return [
            (self.folder / f"process-{number}.log").read_text()
            for number in range(1, self._started + 1)
        ]

    def counts(self) -> dict[str, int]:
        return self.app.sync.counts()

    def unfinished(self) -> int:
        """Jobs that run or may still run."""
        counts = self.counts()
        return counts["scheduled"] + counts["ready"] + counts["running"]

    def until_empty(self, timeout: float = 30.0) -> None:
        """Wait until no job is left, whatever its state."""
        until(lambda: sum(self.counts().values()) == 0, "all jobs to be done", timeout)

    # ── what must hold ──

    def check_at_rest(self) -> None:
        """I10: nothing runs, no worker's lease is left, and none of their connections."""
        assert self.counts()["running"] == 0
        assert self.ask("SELECT name FROM windlass._workers WHERE expires_at > now()") == []
        own = "pid <> pg_backend_pid() AND datname = current_database()"
        asyncio.run(self.app.close())
        until(
            lambda: self.ask(f"SELECT FROM pg_stat_activity WHERE {own}") == [],
            "every connection to be closed",
        )

    def check_processes(self) -> None:
        """I12: no process met an error that nobody caught."""
        for log in self.logs():
            assert symptom(log) is None

    def check_deliveries(self) -> None:
        ledger.check_deliveries(self.events())

    def check_effects(self, wanted: list[int]) -> None:
        """I6: each of these jobs took effect exactly once, and no other job did."""
        found = sorted(job for [job] in self.ask("SELECT job FROM effects"))
        assert found == sorted(wanted)

    def check_produced(self, producer: Producer) -> None:
        """I1, I6: what was acknowledged took effect once, what is unknown at most once."""
        found = [n for [n] in self.ask("SELECT n FROM effects")]
        ledger.check_produced(found, producer.acknowledged, producer.unknown)


class Producer:
    """A thread that adds jobs, each with a number of its own, whatever the database does."""

    def __init__(self, url: str, tasks: Sequence[str]) -> None:
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.refused: list[int] = []
        self._app = App(url, listen=False)
        self._tasks = tasks
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for n in itertools.count(1):
            try:
                self._app.sync.add_job(self._tasks[n % len(self._tasks)], {"n": n})
                self.acknowledged.append(n)
            except OutcomeUnknownError:
                self.unknown.append(n)
            except StoreError:
                self.refused.append(n)
            if self._stopping.wait(0.005):
                return

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._thread.join()
        asyncio.run(self._app.close())


@contextmanager
def place(folder: Path, url: str, worker_url: str | None = None) -> Iterator[Place]:
    here = Place(folder, url, worker_url)
    try:
        yield here
    finally:
        processes.kill(here.workers)
        asyncio.run(here.app.close())


def check_server_log(log: str, *, during_faults: bool = False) -> None:
    """I12: no deadlock, and unless faults were made no error at all.

    A settlement that meets a held row is told so by a short lock timeout, which is no error. Nor
    is the end of a session whose worker was killed while the server was answering it. What happens
    to autovacuum, whose database another test of this cluster may drop just then, is not ours.
    """
    assert "deadlock detected" not in log
    if not during_faults:
        errors = [line for line in log.splitlines() if _ERROR.search(line)]
        assert not errors, "\n".join(errors)
