"""Memory and SQLite walk the same random path and must say the same at every step.

The contract's cases are small; here long histories of verbs mix. A failure prints the seed and
the step. Tokens are each store's own choice, so leases are compared without them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.model.job import Job
from windlass.store.port import Lifeline, Store
from windlass.store.records import (
    CANCEL,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewJob,
    Note,
    Outcome,
    Reaped,
)
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore
from windlass.testing.clock import FakeClock

STEPS = 250
TASKS = ("a", "b", "c")
QUEUES = (None, None, "q", "r")
KEYS = (None, None, "k", "l", "m")
WORKERS = ("w1", "w2", "w3")
MODES: tuple[Any, ...] = ("replace", "preserve_run_at", "unsafe_dedupe")

Step = Callable[["Side"], Awaitable[Any]]


class Side:
    """One store, and the leases it gave, in the same places on both sides."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leases: list[Lease] = []
        self._line: Lifeline | None = None

    @property
    def line(self) -> Lifeline:
        if self._line is None:
            self._line = self.store.lifeline()
        return self._line

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()
        await self.store.close()

    async def claim(self, request: ClaimRequest) -> list[Any]:
        leases = await self.store.claim(request)
        self.line.renew(request.worker, request.lease, ())  # an empty claim need not renew
        self.leases += leases
        return [shown(lease) for lease in leases]


def shown(lease: Lease) -> list[Any]:
    names = [name for name in Lease.__struct_fields__ if name not in ("token", "updated_at")]
    return [getattr(lease, name) for name in names]


def by_id(jobs: list[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.id)


def next_step(chance: random.Random, clock: FakeClock, most: int) -> tuple[str, Step]:
    """One random verb with its arguments already chosen, so both sides get the same."""
    some_ids = [chance.randint(1, most + 1) for _ in range(chance.randint(1, 3))]
    places = [chance.random() for _ in range(chance.randint(1, 3))]
    outcome = chance.choice(outcomes(chance))
    worker = chance.choice(WORKERS)

    def held(side: Side) -> list[Lease]:
        recent = side.leases[-12:]
        return [recent[int(place * len(recent))] for place in places] if recent else []

    def enqueue() -> Step:
        jobs = [new_job(chance, clock) for _ in range(chance.randint(1, 4))]
        return lambda side: side.store.enqueue(jobs)

    def claim() -> Step:
        # Behind a head that it may not run a worker is given something only if it has room.
        free = chance.random() < 0.5
        limit = chance.randint(1, 4) if free else 50
        request = ClaimRequest(
            worker=worker,
            tasks=TASKS if free else tuple(chance.sample(TASKS, chance.randint(1, 3))),
            limit=limit,
            suspects=limit if free else chance.choice((0, limit)),
            lease=chance.choice((10.0, 30.0)),
            longer_leases=chance.choice(({}, {"a": 50.0})),
            forbidden_flags=() if free else chance.choice(((), ("f",))),
            past_heads=True,
        )
        return lambda side: side.claim(request)

    async def renew(side: Side) -> Any:
        return side.line.renew(worker, 20.0, held(side), [(x, 40.0) for x in held(side)[:1]])

    async def check(side: Side) -> Any:
        return side.line.check(worker, held(side))

    async def notes(side: Side) -> Any:
        return [await side.store.note(lease, Note('[0.5,"x"]', "1")) for lease in held(side)]

    async def reap(side: Side) -> Any:
        reaped = await side.store.reap(100, 2)
        return Reaped(tuple(sorted(reaped.requeued)), tuple(sorted(reaped.ended)))

    async def unlock(side: Side) -> Any:
        return by_id(await side.store.unlock([worker], 2))

    reschedule = {
        "run_at": chance.choice((None, clock.now() + chance.randint(-5, 30) * 10**6)),
        "priority": chance.choice((None, 0, 1)),
        "attempts": chance.choice((None, None, 0, 2)),
        "max_attempts": chance.choice((None, None, 1, 3)),
    }
    queue, key = chance.choice(("q", "r")), chance.choice(("k", "l", "m"))
    steps: dict[str, tuple[int, Step]] = {
        "enqueue": (20, enqueue()),
        "claim": (25, claim()),
        "settle": (25, lambda side: side.store.settle([(x, outcome) for x in held(side)])),
        "renew": (6, renew),
        "check": (3, check),
        "note": (2, notes),
        "retire": (2, lambda side: side.store.retire(worker)),
        "reap": (8, reap),
        "unlock": (1, unlock),
        "promote": (8, lambda side: side.store.promote(100)),
        "prune": (2, lambda side: side.store.prune(100)),
        "cancel": (3, lambda side: side.store.cancel(some_ids)),
        "complete": (1, lambda side: side.store.complete(some_ids)),
        "fail": (1, lambda side: side.store.fail(some_ids, "by hand")),
        "retry": (3, lambda side: side.store.retry(some_ids)),
        "reschedule": (3, lambda side: side.store.reschedule(some_ids, **reschedule)),
        "remove": (2, lambda side: side.store.remove(key)),
        "pause": (2, lambda side: side.store.pause(queue=queue)),
        "resume": (3, lambda side: side.store.resume(queue=queue)),
    }
    [name] = chance.choices(list(steps), [weight for weight, _ in steps.values()])
    return name, steps[name][1]


def outcomes(chance: random.Random) -> list[Outcome]:
    fail = Fail(
        "oops",
        delay=chance.choice((0.0, 3.5, 20.0)),
        max_attempts=3,
        final=chance.random() < 0.2,
        payload=chance.choice((None, "[9]")),
    )
    return [Complete("1", keep=chance.choice((None, 15.0))), fail, fail, RELEASE, CANCEL]


def new_job(chance: random.Random, clock: FakeClock) -> NewJob:
    return NewJob(
        chance.choice(TASKS),
        payload=str(chance.randint(0, 9)),
        queue=chance.choice(QUEUES),
        run_at=chance.choice((None, clock.now() + chance.randint(-9, 9) * 10**6)),
        delay=chance.choice((0, 0, 5_000_000)),
        max_attempts=chance.choice((None, None, 1, 2)),
        key=chance.choice(KEYS),
        key_mode=chance.choice(MODES),
        priority=chance.choice((0, 0, 1, -1)),
        flags=chance.choice((None, None, ("f",), ("g",))),
        keep=chance.choice((None, 0.0, 20.0)),
    )


async def everything(side: Side) -> Any:
    store = side.store
    jobs = await store.find(JobFilter(limit=10_000))
    counts = await store.counts()
    return jobs, counts, await store.paused(), await store.next_due()


async def walk(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    clock = FakeClock()
    sides = [Side(MemoryStore(clock)), Side(SqliteStore(folder / "jobs.db", clock=clock))]
    try:
        for side in sides:
            await side.store.open()
        most = 0
        for number in range(STEPS):
            clock.advance(chance.choice((0.0, 0.0, 0.25, 1.0, 6.0)))
            name, step = next_step(chance, clock, most)
            memory, sqlite = [await step(side) for side in sides]
            where = f"seed {seed}, step {number}: {name}"
            assert memory == sqlite, where
            memory, sqlite = [await everything(side) for side in sides]
            assert memory == sqlite, where
            most = max([job.id for job in memory[0]], default=most)
    finally:
        for side in sides:
            await side.close()


@pytest.mark.parametrize("seed", range(12))
def test_both_stores_say_the_same(seed: int, tmp_path: Path) -> None:
    asyncio.run(walk(seed, tmp_path))
