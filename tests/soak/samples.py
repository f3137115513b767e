"""What is measured every few seconds: processes in /proc, tables and connections in the database.

A sample is a flat table of figures by name. A figure that cannot be had just then (the server is
away, no job ended since the last sample) is left out of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.soak.sites import AwayError, PostgresSite, Site, SqliteSite

Sample = dict[str, float]
MIB = 2**20
SETTLING = 10.0
"""Seconds after the end of an old snapshot in which its dead index entries are still met."""

_TABLES = ("_jobs", "_history", "_chains", "_blockers", "_workers", "_bells", "_batches", "_clocks")
_NAMES = ", ".join(f"'{name}'" for name in _TABLES)
_ROWS = "SELECT " + ", ".join(f"(SELECT count(*) FROM windlass.{name})" for name in _TABLES)
_SIZES = f"""
SELECT sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)) FROM pg_class AS c
WHERE c.relnamespace = 'windlass'::regnamespace AND c.relname IN ({_NAMES})
"""
_DEAD = "SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = 'windlass'"
_STATES = """
SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND application_name <> 'test' GROUP BY 1
"""
_READ = """
SELECT (SELECT sum(n_tup_ins) FROM pg_stat_user_tables
        WHERE schemaname = 'windlass' AND relname = '_jobs'),
  (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
   WHERE schemaname = 'windlass' AND relname IN ('_jobs', '_bells', '_batches', '_workers')),
  (SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_tables
   WHERE schemaname = 'windlass' AND relname IN ('_jobs', '_bells', '_batches', '_workers')),
  (SELECT sum(calls) FROM pg_stat_user_functions
   WHERE schemaname = 'windlass' AND funcname = '_claim')
"""


def of_process(pid: int) -> Sample:
    """Memory in MiB, open descriptors and threads of a process; nothing if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return {}
    memory, threads = (
        re.search(pattern, status) for pattern in (r"VmRSS:\s+(\d+) kB", r"Threads:\s+(\d+)")
    )
    if memory is None or threads is None:
        return {}
    return {
        "memory, MiB": int(memory[1]) / 1024,
        "descriptors": descriptors,
        "threads": int(threads[1]),
    }


def per_unit(before: Mapping[str, float], after: Mapping[str, float], unit: str) -> Sample:
    """How much each counter went up per unit of another one.

    Nothing where few units were counted, or where counting began anew in between.
    """
    units = after.get(unit, 0.0) - before.get(unit, 0.0)
    if units < 10 or any(after[name] < before.get(name, 0.0) for name in after):
        return {}
    return {name: (after[name] - before.get(name, 0.0)) / units for name in after if name != unit}


class Tail:
    """The lines that were appended to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
            self._read += len(whole) + 1 if whole else 0
            return [json.loads(line) for line in whole.splitlines()]
        return []


class Sampler(ABC):
    """Takes samples of one site in a thread, until it is stopped."""

    cost_name: str

    def __init__(self, site: Site, every: float) -> None:
        self.samples: list[Sample] = []
        """Each with the seconds since the first as `at`."""
        self.delays: list[tuple[float, float]] = []
        """Of probe jobs: when they started, and how long after they were added, in ms."""
        self.error: BaseException | None = None
        self._every = every
        self._site = site
        self._tail = Tail(site.figures)
        self._cost: Sample = {}
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-sampler")

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every):
                self.samples.append(self.take())
        except BaseException as error:  # the run ends by it, and shows it
            self.error = error

    def take(self) -> Sample:
        sample: Sample = {"at": time.monotonic() - self._began}
        for role, process in (("worker", self._site.steady), ("load", self._site.producer)):
            sample |= {f"{role}: {name}": n for name, n in of_process(process.pid).items()}
        for victim in list(self._site.victims):
            for name, n in of_process(victim.pid).items():
                sample[f"other workers: {name}"] = max(n, sample.get(f"other workers: {name}", 0))
        sample |= self._from_figures(self._tail.events())
        with contextlib.suppress(AwayError):
            sample |= self.of_database()
        return sample

    def _from_figures(self, events: Iterable[Mapping[str, Any]]) -> Sample:
        found: Sample = {}
        for event in events:
            if event["event"] == "probe":
                self.delays.append((event["at"] - self._began, event["delay"] * 1e3))
            elif event["event"] == "cost":
                now = {self.cost_name: event["cost"], "settled": event["settled"]}
                found |= per_unit(self._cost, now, "settled") if self._cost else {}
                self._cost = now
        return found

    @abstractmethod
    def of_database(self) -> Sample: ...


class SqliteSampler(Sampler):
    cost_name = "SQLite's instructions per job"

    def of_database(self) -> Sample:
        site = self._site
        assert isinstance(site, SqliteSite)
        wal = site.file.with_name(f"{site.file.name}-wal")
        tables = ("jobs", "history", "chains", "blockers", "workers")
        [rows] = site.ask(
            "SELECT " + ", ".join(f"(SELECT count(*) FROM windlass_{name})" for name in tables)
        )
        sizes = {"file, MiB": site.file, "write-ahead log, MiB": wal}
        return {f"rows of {name}": n for name, n in zip(tables, rows, strict=True)} | {
            name: path.stat().st_size / MIB for name, path in sizes.items() if path.exists()
        }


class PostgresSampler(Sampler):
    cost_name = "statements per job"

    def __init__(self, site: Site, every: float) -> None:
        super().__init__(site, every)
        self._counters: Sample = {}
        self._looked_at = time.monotonic()

    def of_database(self) -> Sample:
        site = self._site
        assert isinstance(site, PostgresSite)
        [rows] = site.look(_ROWS)  # these reads must not count as those of workers
        [[tables, indexes]] = site.ask(_SIZES)
        [[dead]] = site.ask(_DEAD)
        states = {str(state): int(count) for state, count in site.ask(_STATES)}
        sample: Sample = {f"rows of {name}": n for name, n in zip(_TABLES, rows, strict=True)}
        sample |= {
            "tables, MiB": float(tables) / MIB,
            "indexes, MiB": float(indexes) / MIB,
            "dead rows": float(dead or 0),
            "connections": sum(states.values()),
            "connections idle in transaction": states.get("idle in transaction", 0),
            "connections active": states.get("active", 0),
        }
        [counts] = site.ask(_READ)
        added, entries, pages, claims = (float(count or 0) for count in counts)
        now = {"added": added, "claims": claims, "entries": entries, "pages": pages}
        read: Sample = {}
        for unit, name in (("added", "job"), ("claims", "claim")) if self._counters else ():
            each = per_unit(self._counters, now, unit)
            read |= {f"index {it} read per {name}": each[it] for it in ("entries", "pages") if each}
        # Dead index entries stay while a snapshot is old, and claims pass them at bounded cost. The
        # two cases differ by far more than what is looked for here, so they are told apart.
        since, self._looked_at = self._looked_at, time.monotonic()
        is_old = site.snapshot_until > since - SETTLING
        sample |= {f"{name}, old snapshot" if is_old else name: n for name, n in read.items()}
        self._counters = now
        return sample


def sampler(site: Site, every: float) -> Sampler:
    kind = SqliteSampler if isinstance(site, SqliteSite) else PostgresSampler
    return kind(site, every)
