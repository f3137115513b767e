"""What a measurement costs: CPU of processes, of the server and of strangers, memory, WAL."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

TICK = 1 / os.sysconf("SC_CLK_TCK")
MICRO = 1e6


@dataclass(frozen=True)
class Reading:
    """Seconds on the clock and of CPU at one instant."""

    at: float
    workers: float
    server: float
    machine: float

    def __sub__(self, before: Reading) -> Reading:
        return Reading(
            self.at - before.at,
            self.workers - before.workers,
            self.server - before.server,
            self.machine - before.machine,
        )

    @property
    def cores_of_others(self) -> float:
        """Cores that were busy with neither the workers nor the server.

        The runner's own looking is in it, so it is a little too high.
        """
        return max(0.0, (self.machine - self.workers - self.server) / self.at)


class Meter:
    """Reads the CPU of some worker processes and of the server without one observing backend."""

    def __init__(self, postmaster: int, observer: psycopg.Connection, workers: list[int]) -> None:
        self._postmaster = postmaster
        self._backend = observer.info.backend_pid
        self._workers = workers

    def read(self) -> Reading:
        return Reading(
            at=time.perf_counter(),
            workers=sum(cpu_of(pid) for pid in self._workers),
            server=self._server(),
            machine=machine_cpu(),
        )

    def _server(self) -> float:
        """The whole tree: processes that live, and through the postmaster those that ended."""
        total = cpu_of(self._postmaster, with_ended=True)
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children")
        for pid in map(int, children.read_text().split()):
            if pid != self._backend:
                total += cpu_of(pid)
        return total


def cpu_of(pid: int, *, with_ended: bool = False) -> float:
    """Seconds of CPU of a process with all its threads; 0 when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11 : 15 if with_ended else 13])) * TICK


def machine_cpu() -> float:
    """Seconds of CPU of everything on this machine, and what the host took away."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK


def steal() -> float:
    """Seconds of CPU that the host took away from this machine."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(words[8]) * TICK


def peak_memory(pid: int) -> float:
    """The most memory a process had resident, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


@dataclass(frozen=True)
class Wal:
    records: int
    page_images: int
    size: int


def wal(connection: psycopg.Connection) -> Wal:
    """What the cluster has written to its log. Backends tell it when they end, or a second late."""
    row = connection.execute("SELECT wal_records, wal_fpi, wal_bytes FROM pg_stat_wal").fetchone()
    assert row is not None
    return Wal(*map(int, row))


def settled_wal(connection: psycopg.Connection) -> Wal:
    """`wal`, when it has not moved for more than a second."""
    last, since = wal(connection), time.monotonic()
    while time.monotonic() - since < 1.5:
        time.sleep(0.1)
        found = wal(connection)
        if found != last:
            last, since = found, time.monotonic()
    return last
