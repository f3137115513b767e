"""A database with its processes: one steady worker, others that come and go, and the load."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.faults import ledger, processes
from tests.faults.kit import until
from tests.faults.processes import Process
from tests.faults.symptoms import symptom
from tests.postgres.cluster import Cluster
from tests.postgres.faults import kit
from tests.postgres.proxy import FaultProxy
from windlass import App

LEASE = 5.0
SWEEP = 1.0
SETTINGS: dict[str, object] = {
    "lease": LEASE,
    "reap_interval": SWEEP,
    "poll_interval": 1.0,
    # Workers are killed all the time; jobs that are there by chance must not be parked for it.
    "max_resets": 1000,
    # Chains that have ended stay for moments, so that their number comes to rest.
    "keep_chains": 5.0,
    "keep_failed_chains": 5.0,
}

Row = tuple[Any, ...]


class AwayError(Exception):
    """The database does not answer, which is to be expected while a fault lasts."""


class Site(ABC):
    """What all stores have in common. `url` is for the rig itself, past the network's faults."""

    name: str
    url: str
    worker_url: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.figures = folder / "figures.jsonl"
        self.keeps_folder = False
        """Whether ledger and logs stay, because there is something to be found out."""
        self.snapshot_until = 0.0
        """When the last old snapshot was given up, by the monotonic clock; later than now while one
        is held."""
        self.victims: list[Process] = []
        self.steady: Process
        self.producer: Process
        self.app: App
        self._started: list[Process] = []
        self._names: dict[int, str] = {}

    # ── processes ──

    def start(self, *, rate: float, sample_every: float, plant: str, victims: int = 2) -> None:
        """Start everything and wait until it runs."""
        self._plant = plant
        self.steady = self._spawn("tests.soak.tasks", worker_name="steady", cost_every=sample_every)
        self.victims = [self._spawn_victim() for _ in range(victims)]
        self.until_ready(self.steady, *self.victims)
        self.producer = self._spawn("tests.soak.load", rate=rate)
        self.until_ready(self.producer)

    def replace(self, victim: Process) -> None:
        """Start another worker in place of one that has ended."""
        self.victims.remove(victim)
        self.victims.append(self._spawn_victim())

    def _spawn_victim(self) -> Process:
        return self._spawn("tests.soak.tasks", worker_name=f"victim-{len(self._started)}")

    def _spawn(
        self, module: str, worker_name: str = "", cost_every: float = 0.0, rate: float = 1.0
    ) -> Process:
        settings = SETTINGS | ({"worker_name": worker_name} if worker_name else {})
        environment = processes.worker_environment(self.worker_url, self.ledger, settings) | {
            "FIGURES": str(self.figures),
            "SOAK_PLANT": self._plant,
            "SOAK_COST_EVERY": str(cost_every),
            "SOAK_RATE": str(rate),
        }
        log = self.folder / f"process-{len(self._started)}-{worker_name or 'load'}.log"
        with log.open("wb") as output:
            process = processes.spawn(module, output, environment, tethered=True)
        self._started.append(process)
        self._names[process.pid] = worker_name
        return process

    def worker_name(self, process: Process) -> str:
        return self._names[process.pid]

    def until_ready(self, *started: Process) -> None:
        wanted = {process.pid for process in started}

        def are_ready() -> bool:
            for process in started:
                assert process.poll() is None, f"a process ended at once: see {self.folder}"
            return wanted <= self._ready()

        until(are_ready, "processes to be ready")

    def is_ready(self, process: Process) -> bool:
        """Whether a worker is at work: one that still waits for its database just ends."""
        return process.pid in self._ready()

    def _ready(self) -> set[int]:
        return {e["pid"] for e in ledger.read(self.figures) if e["event"] == "ready"}

    def kill_all(self) -> None:
        processes.kill(self._started)
        for process in self._started:
            if process.stdin is not None:
                process.stdin.close()

    def record(self, event: str, **details: Any) -> None:
        ledger.record(self.ledger, event, **details)

    # ── what must hold ──

    def check_processes(self) -> None:
        """I12: no process met an error that nothing caught."""
        for log in sorted(self.folder.glob("process-*.log")):
            found = symptom(log.read_text())
            assert found is None, f"{log.name}: {found}"

    @abstractmethod
    def check_at_rest(self) -> None:
        """I10, I12: nothing of the workers is left, and the database's own log is clean."""

    @abstractmethod
    def save_server_log(self) -> None:
        """Put the database's own log beside the others, where it has one."""

    # ── the database, as its user sees it ──

    @abstractmethod
    def ask(self, statement: str) -> list[Row]:
        """Run one statement past all faults; AwayError where the database does not answer."""

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """A connection with an open transaction, which the caller ends; AwayError as above."""

    def collect_effects(self) -> None:
        """Move what handlers wrote from the table to the ledger, so that the table stays small."""
        found = self.ask("DELETE FROM effects RETURNING job, n")
        if found:
            self.record("effects", ns=[n for _, n in found])


class SqliteSite(Site):
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "jobs.db"
        self.url = self.worker_url = f"sqlite:///{self.file}"
        self.app = App(self.url)
        self.app.sync.counts()  # makes the schema
        self.ask("CREATE TABLE effects (job INTEGER NOT NULL, n INTEGER NOT NULL)")

    def ask(self, statement: str) -> list[Row]:
        with closing(sqlite3.connect(self.file, timeout=30.0, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file, timeout=30.0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def save_server_log(self) -> None:
        pass

    def check_at_rest(self) -> None:
        assert self.app.sync.counts()["running"] == 0
        assert self.ask("SELECT name FROM windlass_workers") == []


class PostgresSite(Site):
    name = "postgres"

    def __init__(self, folder: Path, cluster: Cluster, proxy: FaultProxy, place: kit.Place) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.proxy = proxy
        self.place = place
        self.url, self.worker_url = place.url, place.worker_url
        self.app = place.app

    def ask(self, statement: str) -> list[Row]:
        try:
            return self.place.ask(statement)
        except psycopg.OperationalError as error:
            raise AwayError(str(error)) from error

    def look(self, statement: str) -> list[Row]:
        """The same without the use of any index, so that the counts of their use do not tell of
        the rig."""
        try:
            with self.place.connect() as connection:
                for way in ("indexscan", "indexonlyscan", "bitmapscan"):
                    connection.execute(f"SET enable_{way} = off".encode())
                return connection.execute(statement.encode()).fetchall()
        except psycopg.OperationalError as error:
            raise AwayError(str(error)) from error

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(self.url, application_name="test") as connection:
                connection.execute("SELECT count(*) FROM windlass.jobs")
                yield connection
        except psycopg.OperationalError as error:
            raise AwayError(str(error)) from error

    def save_server_log(self) -> None:
        (self.folder / "server.log").write_text(self.cluster.log())

    def check_at_rest(self) -> None:
        self.place.check_at_rest()
        kit.check_server_log(self.cluster.log(), during_faults=True)


@contextmanager
def site(store: str) -> Iterator[Site]:
    """A fresh database of that kind in a folder of its own; all of it is gone afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"windlass-soak-{store}-"))
        made: Site
        if store == "sqlite":
            made = SqliteSite(folder)
            stack.callback(lambda: asyncio.run(made.app.close()))
        else:
            cluster = stack.enter_context(Cluster.create(18, track_functions="pl"))
            proxy = stack.enter_context(FaultProxy("127.0.0.1", cluster.port))
            place = stack.enter_context(kit.place(folder, cluster.url(), proxy.url()))
            made = PostgresSite(folder, cluster, proxy, place)
        stack.callback(_leave, made)
        yield made


def _leave(made: Site) -> None:
    made.kill_all()
    if made.keeps_folder:
        made.save_server_log()
    else:
        shutil.rmtree(made.folder, ignore_errors=True)


STORES: Sequence[str] = ("postgres", "sqlite")
