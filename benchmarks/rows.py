"""What a run consists of: one step after the other, in an order that interleaves the systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import own, scenarios
from benchmarks.plan import BenchmarkPlan
from benchmarks.results import Figures
from benchmarks.systems import (
    BARE,
    GRAPHILE,
    GRAPHILE_DEFAULT,
    HUEY,
    HUEY_UNSAFE,
    PGQUEUER_100,
    PGQUEUER_500,
    PROCRASTINATE,
    WINDLASS,
)
from benchmarks.systems.base import System
from tests.postgres.cluster import Cluster
from windlass.cli.bench import KINDS

RATE = 2_000
"""Jobs a second while a snapshot is held."""
CALLERS = 16
ROWS = {
    "drain": "a preloaded queue, emptied by one worker process; how it was loaded, what it cost",
    "two": "the same with two worker processes",
    "cycle": "a producer and a worker at once",
    "single": "enqueue one by one, by one caller and by 16 at once",
    "sql": "SQL functions about many jobs at once",
    "sqlite": "the cycle on SQLite files",
    "wal": "bytes and records of the log for each job",
    "pickup": "latency of an idle worker",
    "startup": "start and stop with nothing to do",
    "serial": "drains through many serial queues",
    "chains": "chains of jobs, and jobs that wait for chains",
    "chains-sqlite": "the same on SQLite files",
    "stream": "drains through a server, by a worker that has no database",
    "stream-sqlite": "the same on SQLite files",
    "remote": "a worker and clients of Windlass's own that have no database, through a server",
    "remote-sqlite": "the same on SQLite files",
    "backlog": "drains beside jobs that lie about, and names of empty queues",
    "backlog-large": "the same beside ten times as many",
    "held": "a steady rate while a transaction holds the horizon",
}
_ROUNDS = ("drain", "cycle", "single", "sql", "sqlite")
"""Those of each round; `two` is beside `drain`, so that both are measured in the same minute."""
_START = 4.0
"""Seconds that a new database and new processes take, roughly."""

Found = Iterator[tuple[str, int, Figures]]
"""By system and round."""


@dataclass(frozen=True)
class Stage:
    """Where the steps are played."""

    cluster: Cluster
    folder: Path | None
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Step:
    row: str
    system: str
    round: int
    seconds: float
    """How long it takes, roughly."""
    play: Callable[[Stage], Found]

    @property
    def key(self) -> str:
        return f"{self.row} {self.round} {self.system}"


def steps(plan: BenchmarkPlan, systems: Sequence[System], wanted: Sequence[str]) -> list[Step]:
    """All of them in their order: the rows of each round, then those that are played once."""
    found: list[Step] = []
    for number in range(1, plan.rounds + 1):
        for row in _ROUNDS:
            there = _taking_part(row, first=number == 1)
            turn = (number - 1) % len(there)
            for system in there[turn:] + there[:turn]:
                found += _of_a_round(plan, row, number, system)
    found += _once(plan, systems)
    names = {system.name for system in systems}
    return [
        step
        for step in found
        if step.row in wanted and (step.system in names or step.row == "pickup")
    ]


_MAIN = (WINDLASS, BARE, GRAPHILE)
_POSTGRES = (*_MAIN, GRAPHILE_DEFAULT, PGQUEUER_100, PROCRASTINATE)
_PICKUP = (WINDLASS, BARE, GRAPHILE, GRAPHILE_DEFAULT, PGQUEUER_100, PROCRASTINATE)


def _taking_part(row: str, first: bool) -> tuple[System, ...]:
    """Systems that no target names are in the first round only, except that every drain is in
    all: it is what the page compares first."""
    match row:
        case "drain":
            return (*_POSTGRES, PGQUEUER_500)
        case "cycle":
            return _POSTGRES if first else _MAIN
        case "single":
            return (*_MAIN, PGQUEUER_100, PROCRASTINATE) if first else _MAIN
        case "sql":
            return (WINDLASS, GRAPHILE)
        case _:
            return (WINDLASS, HUEY, HUEY_UNSAFE)


def _of_a_round(plan: BenchmarkPlan, row: str, number: int, system: System) -> Iterator[Step]:
    match row:
        case "drain":
            yield _drain(plan, system, number)
            if system is WINDLASS:
                yield _drain(plan, system, number, 2)
        case "cycle":
            yield _cycle(plan, system, number)
        case "single":
            many = system is WINDLASS or (number == 1 and system is not BARE)
            yield _single(plan, system, number, (1, CALLERS) if many else (1,))
        case "sql":
            yield _sql_calls(plan, system, number)
        case _:
            own_file = system is WINDLASS
            yield _own_file_cycle(plan, number) if own_file else _file_cycle(plan, system, number)


def _drain(plan: BenchmarkPlan, system: System, number: int, processes: int = 1) -> Step:
    jobs = plan.jobs_of(system)

    def play(stage: Stage) -> Found:
        figures = scenarios.drain(stage.cluster, system, jobs, plan.longest, processes)
        if processes != 1:
            # The load is the same as that of one process; one sample of it a round is enough.
            figures = {name: value for name, value in figures.items() if "bulk" not in name}
        yield system.name, number, figures

    taken = _START + jobs / system.bulk_rate + jobs / system.rate
    return Step("drain" if processes == 1 else "two", system.name, number, taken, play)


def _cycle(plan: BenchmarkPlan, system: System, number: int) -> Step:
    jobs = plan.cycle_jobs_of(system)

    def play(stage: Stage) -> Found:
        yield system.name, number, scenarios.cycle(stage.cluster, system, jobs)

    return Step("cycle", system.name, number, _START + jobs / system.rate * 5 / 3, play)


def _single(plan: BenchmarkPlan, system: System, number: int, callers: Sequence[int]) -> Step:
    def play(stage: Stage) -> Found:
        figures: Figures = {}
        for count in callers:
            figures |= scenarios.singly(stage.cluster, system, plan.seconds, count)
        yield system.name, number, figures

    return Step("single", system.name, number, (_START + plan.seconds) * len(callers), play)


def _sql_calls(plan: BenchmarkPlan, system: System, number: int) -> Step:
    def play(stage: Stage) -> Found:
        figures = scenarios.sql_calls(stage.cluster, system, plan.sql_jobs)
        yield system.name, number, _named("sql", figures)

    return Step("sql", system.name, number, _START + plan.sql_jobs / 5_000, play)


def _own_file_cycle(plan: BenchmarkPlan, number: int) -> Step:
    def play(stage: Stage) -> Found:
        rate, limit = own.file_cycle(stage.folder, stage.tell, plan.sqlite_jobs)
        yield WINDLASS.name, number, {"sqlite": rate}
        yield BARE.name, number, {"sqlite": limit}

    return Step("sqlite", WINDLASS.name, number, 1 + plan.sqlite_jobs / 20_000, play)


def _file_cycle(plan: BenchmarkPlan, system: System, number: int) -> Step:
    jobs = min(plan.sqlite_jobs, int(system.rate * plan.seconds))

    def play(stage: Stage) -> Found:
        yield system.name, number, scenarios.file_cycle(system, jobs, stage.folder)

    return Step("sqlite", system.name, number, 2 + jobs / system.rate, play)


def _once(plan: BenchmarkPlan, systems: Sequence[System]) -> Iterator[Step]:
    for system in _POSTGRES:
        yield _wal(plan, system)
    yield _pickup(plan, [system for system in _PICKUP if system in systems])
    times = max(1, min(10, plan.samples // 20))

    def startup(stage: Stage) -> Found:
        figures = own.startup(stage.cluster, stage.tell, times)
        yield WINDLASS.name, 1, _named("startup", figures)

    yield Step("startup", WINDLASS.name, 1, 2 + times, startup)
    yield _serial(plan)
    yield _chains(plan)
    yield _file_chains(plan)
    yield _stream(plan)
    yield _file_stream(plan)
    yield _remote(plan)
    yield _file_remote(plan)
    yield _beside(plan, 0)
    yield _beside(plan, 1)

    def held(stage: Stage) -> Found:
        figures = own.held(stage.cluster, stage.tell, plan.held_seconds, RATE)
        yield WINDLASS.name, 1, _named("held", figures)

    yield Step("held", WINDLASS.name, 1, plan.held_seconds + _START, held)


def _wal(plan: BenchmarkPlan, system: System) -> Step:
    """Once: it does not depend on the machine's mood."""

    def play(stage: Stage) -> Found:
        yield system.name, 1, scenarios.wal_per_job(stage.cluster, system, plan.wal_jobs)

    return Step("wal", system.name, 1, 6 + min(4, plan.wal_jobs / system.rate), play)


def _pickup(plan: BenchmarkPlan, systems: Sequence[System]) -> Step:
    """Once: the systems alternate with every sample."""

    def play(stage: Stage) -> Found:
        for name, figures in scenarios.pickup(stage.cluster, systems, plan.samples).items():
            yield name, 1, figures

    taken = _START * len(systems) + (plan.samples + 20) * len(systems) * 0.025
    return Step("pickup", "all in turns", 1, taken, play)


def _serial(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.serial(stage.cluster, stage.tell, plan.beside_jobs, plan.rounds)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("serial", figures)

    clean = 6 + plan.beside_jobs / 15_000
    return Step("serial", WINDLASS.name, 1, (clean + 12) * plan.rounds, play)


def _chains(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.chains(stage.cluster, stage.tell, plan.chain_jobs, plan.rounds)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("chains", figures)

    return Step("chains", WINDLASS.name, 1, _of_chains(plan), play)


def _file_chains(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.file_chains(stage.folder, stage.tell, plan.chain_jobs, plan.rounds)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("chains-sqlite", figures)

    return Step("chains-sqlite", WINDLASS.name, 1, _of_chains(plan), play)


def _of_chains(plan: BenchmarkPlan) -> float:
    """Seconds: each round has two cycles for each of three shapes, and one of plain jobs."""
    return plan.rounds * (7 * 2 + 3 * plan.chain_jobs / 10_000)


def _stream(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.stream(stage.cluster, stage.tell, plan.stream_jobs, plan.rounds)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("stream", figures)

    return Step("stream", WINDLASS.name, 1, _of_streams(plan), play)


def _file_stream(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.file_stream(stage.folder, stage.tell, plan.stream_jobs, plan.rounds)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("stream-sqlite", figures)

    return Step("stream-sqlite", WINDLASS.name, 1, _of_streams(plan), play)


def _of_streams(plan: BenchmarkPlan) -> float:
    """Seconds: each round has a direct drain, and drains and echoes of two forms."""
    return plan.rounds * (5 * 2 + plan.stream_jobs * (1 / 20_000 + 2 / 4_000 + 2 / 15_000))


def _remote(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.remote(stage.cluster, stage.tell, plan.stream_jobs, plan.rounds, plan.samples)
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("remote", figures)

    return Step("remote", WINDLASS.name, 1, _of_remotes(plan), play)


def _file_remote(plan: BenchmarkPlan) -> Step:
    def play(stage: Stage) -> Found:
        rounds = own.file_remote(
            stage.folder, stage.tell, plan.stream_jobs, plan.rounds, plan.samples
        )
        for number, figures in enumerate(rounds, 1):
            yield WINDLASS.name, number, _named("remote-sqlite", figures)

    return Step("remote-sqlite", WINDLASS.name, 1, _of_remotes(plan), play)


def _of_remotes(plan: BenchmarkPlan) -> float:
    """Seconds: each round has two drains and three times as many jobs added in bulk; then there are
    two latencies."""
    return plan.rounds * (5 * 2 + plan.stream_jobs * 8 / 30_000) + plan.samples * 0.06


def _beside(plan: BenchmarkPlan, which: int) -> Step:
    row = ("backlog", "backlog-large")[which]
    backlog, rounds = plan.beside[which], plan.beside_rounds[which]

    def play(stage: Stage) -> Found:
        found = own.beside(stage.cluster, stage.tell, plan.beside_jobs, rounds, backlog)
        for number, figures in enumerate(found, 1):
            yield WINDLASS.name, number, _named(row, figures)

    kinds = len(KINDS)
    heaps = 4 * kinds + backlog / 5_000
    drains = (1 + kinds) * (2 + plan.beside_jobs / 22_000) + plan.beside_jobs / 50_000
    return Step(row, WINDLASS.name, 1, heaps + drains * rounds, play)


def _named(row: str, figures: Figures) -> Figures:
    return {f"{row}.{name}": value for name, value in figures.items()}
