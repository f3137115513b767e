"""The measurements that all systems have in common.

Each begins with an empty database of its own and counts in that database.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from benchmarks.meter import MICRO, Meter, Reading, peak_memory, settled_wal
from benchmarks.process import Child, install
from benchmarks.results import Figures
from benchmarks.systems.base import System
from tests.postgres.cluster import Cluster

Connection = psycopg.Connection[tuple[int]]

_WARM_UP = 20
_LOOK_EVERY = 2.0
"""The most seconds between two looks at the database. A look counts all jobs that are left."""

_names = itertools.count(1)


class Counted(Protocol):
    """A system's own database."""

    @property
    def system(self) -> System: ...

    @property
    def url(self) -> str: ...

    def remaining(self) -> int:
        """Jobs that are not completed yet, counted by the database."""


@dataclass(frozen=True)
class Place:
    """A system's own database, and a connection that looks at it."""

    system: System
    cluster: Cluster
    url: str
    observer: Connection

    def remaining(self) -> int:
        row = self.observer.execute(self.system.remaining.encode()).fetchone()
        assert row is not None
        return row[0]

    def meter(self, *workers: Child) -> Meter:
        return Meter(self.cluster.pid, self.observer, [worker.pid for worker in workers])


@dataclass(frozen=True)
class FilePlace:
    """The same, as a file."""

    system: System
    url: str
    observer: sqlite3.Connection

    def remaining(self) -> int:
        count: int = self.observer.execute(self.system.remaining).fetchone()[0]
        return count


@contextlib.contextmanager
def place(cluster: Cluster, system: System) -> Iterator[Place]:
    name = f"bench_{next(_names)}"
    url = cluster.create_database(name)
    try:
        install(system, url)
        with psycopg.connect(url, autocommit=True) as observer:
            # Helpers of a parallel scan would be taken for the system's.
            observer.execute("SET max_parallel_workers_per_gather = 0")
            yield Place(system, cluster, url, observer)
    finally:
        cluster.drop_database(name)


def preload(here: Place, jobs: int) -> Figures:
    """Bulk enqueue. Afterwards the tables are vacuumed and analysed, and a checkpoint is made."""
    with Child(here.system, "add", here.url) as producer:
        producer.wait_until_ready()
        figures = {}
        for size, first, count in shares(here.system, jobs):
            taken = producer.ask(patience=600, do="bulk", first=first, count=count, size=size)
            figures[f"bulk{size}"] = figures["bulk"] = count / taken["seconds"]
    if here.remaining() != jobs:
        raise RuntimeError(f"{here.system.name}: {here.remaining()} of {jobs} jobs are there")
    here.observer.execute("VACUUM ANALYZE")
    here.observer.execute("CHECKPOINT")
    return figures


def shares(system: System, jobs: int) -> Iterator[tuple[int, int, int]]:
    """Jobs per call, the first number and how many, for each size of call the system has."""
    first = 0
    for left in range(len(system.bulk), 0, -1):
        count = (jobs - first) // left
        yield system.bulk[-left], first, count
        first += count


def drain(
    cluster: Cluster, system: System, jobs: int, longest: float, processes: int = 1
) -> Figures:
    """Preload, then let workers run the jobs.

    The clock starts when the first completion is seen in the database, so that the start of the
    processes does not count; the jobs completed until then do not count either. It ends after
    `longest` seconds even if jobs are left.
    """
    with place(cluster, system) as here, contextlib.ExitStack() as stack:
        figures = preload(here, jobs)
        workers = [stack.enter_context(Child(system, "work", here.url)) for _ in range(processes)]
        meter = here.meter(*workers)
        started = meter.read()
        for worker in workers:
            worker.wait_until_ready()
        first, begun = await_first(here, meter, jobs, started)
        left, spent = watch(here, meter, first, begun, longest)
        done = first - left
        memory = statistics.mean(peak_memory(worker.pid) for worker in workers)
    suffix = str(processes)
    return figures | {
        f"jobs{suffix}": done,
        f"drain{suffix}": done / spent.at,
        f"worker_cpu{suffix}": spent.workers / done * MICRO,
        f"server_cpu{suffix}": spent.server / done * MICRO,
        f"memory{suffix}": memory,
        f"others{suffix}": spent.cores_of_others,
    }


def await_first(here: Place, meter: Meter, jobs: int, started: Reading) -> tuple[int, Reading]:
    """What is left when the first completions are seen, and the reading of that moment.

    A count sees the moment at which it begins, so the reading is taken before it. Where the jobs
    are so few that none is left at the first look, it is all of them since the look before.
    """
    before = started
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        reading = meter.read()
        left = here.remaining()
        if left == 0:
            return jobs, before
        if left < jobs:
            return left, reading
        before = reading
        time.sleep(0.01)
    raise RuntimeError(f"{here.system.name} completed nothing in a minute")


def watch(
    here: Place, meter: Meter, first: int, begun: Reading, seconds: float
) -> tuple[int, Reading]:
    """Look until nothing is left or time is up; what is left, and what it cost.

    Looking costs the server something, so it is rare while much is left: half of the estimated
    rest is waited for each time.
    """
    while True:
        reading = meter.read()
        left = here.remaining()
        spent = reading - begun
        if left == 0 or spent.at >= seconds:
            break
        done = first - left
        rest = left / done * spent.at if done else 0.0
        time.sleep(min(_LOOK_EVERY, seconds - spent.at, max(0.01, rest / 2)))
    if left == first:
        raise RuntimeError(f"{here.system.name} completed nothing after its first jobs")
    return left, spent


def singly(cluster: Cluster, system: System, seconds: float, callers: int) -> Figures:
    """One-by-one enqueue, by so many callers at once in one process; each call is durable."""
    with place(cluster, system) as here:
        with Child(system, "add", here.url, callers=callers) as producer:
            producer.wait_until_ready()
            # The first calls open connections and prepare statements.
            before = producer.ask(do="one", first=0, seconds=min(0.3, seconds))["count"]
            taken = producer.ask(patience=600, do="one", first=before, seconds=seconds)
        if (found := here.remaining()) != before + taken["count"]:
            raise RuntimeError(f"{system.name}: {found} jobs are there")
    return {"one" if callers == 1 else f"one{callers}": taken["count"] / taken["seconds"]}


_GIVEN = """
CREATE TEMP TABLE given AS SELECT
  ARRAY(SELECT ('noop', json_build_object('id', n), NULL, NULL, NULL, NULL, NULL, NULL)
    ::{schema}.job_spec FROM generate_series(1, {jobs}) AS n) AS plain,
  ARRAY(SELECT ('noop', json_build_object('id', n), NULL, NULL, NULL, 'key ' || n, NULL, NULL)
    ::{schema}.job_spec FROM generate_series(1, {jobs}) AS n) AS keyed,
  NULL::bigint[] AS ids
"""


def sql_calls(cluster: Cluster, system: System, jobs: int) -> Figures:
    """Jobs a second of each SQL function that takes many, in one call; half of the jobs for those
    that take ids. What a call is given is there before, and all that it returns is read."""
    with place(cluster, system) as here, psycopg.connect(here.url, autocommit=True) as caller:
        for size in (10, jobs):  # the first calls of a session make plans
            figures = _call_all(caller, system.schema, size)
    return figures


def _call_all(caller: psycopg.Connection, schema: str, jobs: int) -> Figures:
    figures: Figures = {}

    def ask(name: str, call: str, ids: Sequence[int] = ()) -> list[int]:
        caller.execute("UPDATE given SET ids = %s", [list(ids)])
        caller.execute("CHECKPOINT")
        statement = f"SELECT array_agg(c.id) FROM given CROSS JOIN LATERAL {schema}.{call} AS c"
        since = time.perf_counter()
        row = caller.execute(statement.encode()).fetchone()
        taken = time.perf_counter() - since
        assert row is not None
        found: list[int] = row[0]
        if len(found) != (len(ids) or jobs):
            raise RuntimeError(f"{schema}.{call} returned {len(found)} jobs")
        figures[name] = len(found) / taken
        return found

    caller.execute(_GIVEN.format(schema=schema, jobs=jobs).encode())
    added = ask("add", "add_jobs(given.plain)")
    some, others = added[: jobs // 2], added[jobs // 2 :]
    ask("reschedule", "reschedule_jobs(given.ids, run_at := now())", some)
    ask("fail", "permanently_fail_jobs(given.ids)", some)
    ask("complete", "complete_jobs(given.ids)", others)
    ask("new_keys", "add_jobs(given.keyed)")
    keyed = ask("old_keys", "add_jobs(given.keyed)")
    caller.execute(
        f"SELECT count(*) FROM {schema}.complete_jobs(%s::bigint[])".encode(), [some + keyed]
    )
    caller.execute("DROP TABLE given")
    return figures


def cycle(cluster: Cluster, system: System, jobs: int) -> Figures:
    with place(cluster, system) as here:
        return {"cycle": cycle_at(here, jobs)}


def file_cycle(system: System, jobs: int, folder: Path | None) -> Figures:
    """The same for a system whose database is a file."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as home:
        path = str(Path(home) / "jobs.db")
        install(system, path)
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as observer:
            return {"sqlite": cycle_at(FilePlace(system, path, observer), jobs)}


def cycle_at(here: Counted, jobs: int) -> float:
    """One process adds in bulk while one works; from the first call until nothing is left."""
    with (
        Child(here.system, "work", here.url) as worker,
        Child(here.system, "add", here.url) as producer,
    ):
        worker.wait_until_ready()
        producer.wait_until_ready()
        size = here.system.bulk[-1]
        producer.ask(do="bulk", first=0, count=_WARM_UP, size=size)
        await_empty(here, 60)
        begun = time.perf_counter()
        producer.ask(patience=600, do="bulk", first=_WARM_UP, count=jobs, size=size)
        await_empty(here, 600)
        return jobs / (time.perf_counter() - begun)


def await_empty(here: Counted, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        since = time.monotonic()
        left = here.remaining()
        if not left:
            return
        if since > deadline:
            raise RuntimeError(f"{here.system.name}: {left} jobs are left after {patience:g} s")
        # A count of many rows costs the server something, so most of the time nobody counts.
        time.sleep(max(0.01, 4 * (time.monotonic() - since)))


def wal_per_job(cluster: Cluster, system: System, most: int) -> Figures:
    """What a job's life, added in bulk and run by one worker, writes to the log.

    Full-page images are switched off for this measurement alone: how many there are depends on
    where checkpoints fall, not on the system.
    """
    jobs = min(most, system.rate * 4)
    with place(cluster, system) as here:
        with without_page_images(cluster):
            before = settled_wal(here.observer)
            with Child(system, "add", here.url) as producer:
                producer.wait_until_ready()
                producer.ask(patience=600, do="bulk", first=0, count=jobs, size=system.bulk[-1])
            with Child(system, "work", here.url):
                await_empty(here, 600)
            after = settled_wal(here.observer)
    return {
        "wal_bytes": (after.size - before.size) / jobs,
        "wal_records": (after.records - before.records) / jobs,
    }


@contextlib.contextmanager
def without_page_images(cluster: Cluster) -> Iterator[None]:
    with cluster.connect() as connection:
        # A page gets an image at its first change after a checkpoint.
        connection.execute("CHECKPOINT")
        _set(connection, "full_page_writes", "off")
        try:
            yield
        finally:
            _set(connection, "full_page_writes", "on")


def _set(connection: psycopg.Connection, name: str, value: str) -> None:
    statement = sql.SQL("ALTER SYSTEM SET {} = {}")
    connection.execute(statement.format(sql.Identifier(name), sql.Literal(value)))
    connection.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 10
    while connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone() != (
        value,
    ):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} does not become {value}")
        time.sleep(0.01)


def pickup(cluster: Cluster, systems: Sequence[System], samples: int) -> dict[str, Figures]:
    """From the call that adds a job to the first line of its handler in an idle worker, in ms.

    All workers are there at once, each on its own database, and take turns: one job every 20 ms,
    so that whatever disturbs the machine disturbs all alike.
    """
    taken: dict[str, list[float]] = {system.name: [] for system in systems}
    with contextlib.ExitStack() as stack:
        pairs = []
        for system in systems:
            here = stack.enter_context(place(cluster, system))
            worker = stack.enter_context(Child(system, "work", here.url, stamp=True))
            producer = stack.enter_context(Child(system, "add", here.url))
            worker.wait_until_ready()
            producer.wait_until_ready()
            pairs.append((producer, worker))
        for number in range(-_WARM_UP, samples):
            for turn in range(len(pairs)):
                producer, worker = pairs[(turn + number) % len(pairs)]
                next_at = time.monotonic() + 0.02
                milliseconds = _sample(producer, worker, number + _WARM_UP)
                if number >= 0:
                    taken[producer.system.name].append(milliseconds)
                time.sleep(max(0.0, next_at - time.monotonic()))
    return {
        name: {f"pickup{percent}": percentile(values, percent) for percent in (50, 95, 99)}
        for name, values in taken.items()
    }


def _sample(producer: Child, worker: Child, number: int) -> float:
    called: int = producer.ask(do="stamp", id=number)["called"]
    found = worker.receive()
    if found["id"] != number:
        raise RuntimeError(f"{worker.system.name} ran {found['id']} instead of {number}")
    started: int = found["started"]
    return (started - called) / 1e6


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
