"""How much a run measures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.systems.base import System


@dataclass(frozen=True)
class BenchmarkPlan:
    rounds: int = 5
    seconds: float = 20.0
    """What a measured run of one system is to last; the number of its jobs follows from that."""
    jobs: int = 1_000_000
    """The most jobs of a run, which then may end sooner."""
    samples: int = 2_000
    """Pickup latencies of each system."""
    beside: tuple[int, int] = (100_000, 1_000_000)
    """Jobs or queue names that lie about."""
    beside_jobs: int = 400_000
    """Jobs of each drain beside them, and of the clean drain of the same round."""
    beside_rounds: tuple[int, int] = (5, 3)
    chain_jobs: int = 200_000
    """Jobs of chains in each of their shapes."""
    stream_jobs: int = 200_000
    """Jobs that go through a server."""
    held_seconds: float = 180.0
    wal_jobs: int = 20_000
    sql_jobs: int = 20_000
    """Jobs of each SQL call about many."""
    sqlite_jobs: int = 100_000

    @property
    def longest(self) -> float:
        """Seconds after which a drain ends even if jobs are left."""
        return self.seconds * 1.5

    def jobs_of(self, system: System) -> int:
        """Of a drain."""
        return max(1_000, min(self.jobs, int(system.rate * self.seconds)))

    def cycle_jobs_of(self, system: System) -> int:
        """Adding and working at once is slower than working alone."""
        return max(1_000, self.jobs_of(system) * 3 // 5)

    def scaled(self, factor: float) -> BenchmarkPlan:
        """Runs that are shorter by `factor`, as many of them, and beside as many jobs."""
        return replace(
            self,
            seconds=max(0.5, self.seconds * factor),
            jobs=max(1_000, int(self.jobs * factor)),
            samples=max(10, int(self.samples * factor)),
            beside_jobs=max(1_000, int(self.beside_jobs * factor)),
            chain_jobs=max(1_000, int(self.chain_jobs * factor)),
            stream_jobs=max(1_000, int(self.stream_jobs * factor)),
            held_seconds=max(2.0, self.held_seconds * factor),
        )


FULL = BenchmarkPlan()
QUICK = BenchmarkPlan(
    rounds=1,
    seconds=1.5,
    jobs=30_000,
    samples=60,
    beside=(5_000, 20_000),
    beside_jobs=20_000,
    beside_rounds=(1, 1),
    chain_jobs=10_000,
    stream_jobs=5_000,
    held_seconds=8.0,
    wal_jobs=4_000,
    sql_jobs=5_000,
    sqlite_jobs=20_000,
)
