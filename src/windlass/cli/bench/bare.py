"""The limit: the same cycle as bare `sqlite3` calls, in batches, on the least table that works."""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from pathlib import Path

_TABLE = """
CREATE TABLE job (
  id integer PRIMARY KEY, task text, payload text, run_at real, priority integer,
  attempts integer, locked_by text, lease real
);
CREATE INDEX job_ready ON job (priority, run_at, id) WHERE locked_by IS NULL;
"""
_ADD = "INSERT INTO job (task, payload, run_at, priority, attempts) VALUES ('noop', ?, ?, 0, 0)"
_CLAIM = """
UPDATE job SET locked_by = 'w', attempts = attempts + 1, lease = ? WHERE id IN (
  SELECT id FROM job WHERE locked_by IS NULL AND run_at <= ? ORDER BY priority, run_at, id LIMIT ?
) RETURNING id, task, payload
"""


def bare_cycle(folder: Path, jobs: int, batch: int, synchronous: str) -> tuple[float, float]:
    """Seconds to add all jobs, and to claim and delete them all."""
    path = folder / "bare.db"
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = wal")
        database.execute(f"PRAGMA synchronous = {synchronous}")
        database.executescript(_TABLE)
        started = time.perf_counter()
        for first in range(0, jobs, batch):
            database.execute("BEGIN IMMEDIATE")
            now = time.time()
            rows = [(f'{{"id":{n}}}', now) for n in range(first, min(first + batch, jobs))]
            database.executemany(_ADD, rows)
            database.execute("COMMIT")
        added = time.perf_counter()
        while True:
            database.execute("BEGIN IMMEDIATE")
            now = time.time()
            rows = database.execute(_CLAIM, (now + 30, now, batch)).fetchall()
            database.execute("COMMIT")
            if not rows:
                return added - started, time.perf_counter() - added
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM job WHERE id = ?", [(row[0],) for row in rows])
            database.execute("COMMIT")
    finally:
        database.close()
        for name in ("bare.db", "bare.db-wal", "bare.db-shm"):
            (folder / name).unlink(missing_ok=True)


class Disk:
    """Times single durable writes of a page, to be taken between other measurements."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fsync"
        self._handle = os.open(self._path, os.O_CREAT | os.O_WRONLY)
        self._sync = getattr(os, "fdatasync", os.fsync)
        self.taken: list[float] = []

    def sample(self) -> None:
        started = time.perf_counter()
        os.write(self._handle, bytes(4096))
        self._sync(self._handle)
        self.taken.append(time.perf_counter() - started)

    def close(self) -> float:
        """The median, in seconds."""
        os.close(self._handle)
        self._path.unlink()
        return statistics.median(self.taken)
