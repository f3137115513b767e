"""The same random calls on the reference store and on this one give the same answers.

Two liberties are taken, where the port leaves the order to the store: a claim that may have to
look past heads of serial queues asks for everything, and takes all suspects or none.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sqlite.sqlite_kit import opened, run
from windlass.model.job import Job, JobState
from windlass.store.port import Lifeline, Store
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewJob,
    Note,
    Outcome,
)
from windlass.stores.memory import MemoryStore
from windlass.testing.clock import FakeClock

SEED = int(os.environ.get("WINDLASS_SEED", random.randrange(2**32)))
STEPS = 250
EVERYTHING = 10_000

TASKS = ("a", "b", "c")
QUEUES = (None, None, "q", "r")
KEYS = (None, None, "k1", "k2", "k3")
FLAGS = (None, None, ("x",), ("x", "y"))
PAYLOADS = ("{}", '{"n":1}', "[1,2.5]", '"text"', "7", "null", "true", '{"é":"\\n\\"ü"}')


def _leases(found: Sequence[Lease]) -> list[Lease]:
    return [msgspec.structs.replace(lease, token=0) for lease in found]


class Pair:
    """Both stores, asked the same things."""

    def __init__(self, seed: int, memory: Store, sqlite: Store, clock: FakeClock) -> None:
        self.random = random.Random(seed)
        self.stores = (memory, sqlite)
        self.clock = clock
        self.lifelines: list[Lifeline] = [store.lifeline() for store in self.stores]
        self.held: list[tuple[Lease, Lease]] = []
        self.paused = False

    async def same(self, verb: str, *arguments: Any, **options: Any) -> Any:
        expected, seen = [
            await getattr(store, verb)(*arguments, **options) for store in self.stores
        ]
        assert seen == expected, verb
        return seen

    async def step(self) -> None:
        verbs = {
            self.enqueue: 8,
            self.claim: 6,
            self.settle: 6,
            self.note: 1,
            self.renew: 2,
            self.upkeep: 4,
            self.change: 4,
            self.reschedule: 1,
            self.remove: 1,
            self.retire: 1,
            self.pause: 1,
            self.pass_time: 3,
        }
        [verb] = self.random.choices(list(verbs), list(verbs.values()))
        await verb()
        await self.compare()

    async def compare(self) -> None:
        found: list[Job] = await self.same("find", JobFilter(limit=EVERYTHING))
        await self.same("counts")
        await self.same("next_due")
        await self.same("paused")
        for job in self.random.sample(found, min(2, len(found))):
            await self.same("get", job.id)
        await self.same("get_by_key", "k1")
        await self.same(
            "find",
            JobFilter(
                states=tuple(self.random.sample(list(JobState), 2)),
                task=self.random.choice((None, "a")),
                queue=self.random.choice((None, None, "q")),
                after=self.random.randrange(20),
                limit=self.random.randrange(1, 8),
            ),
        )

    def new(self) -> NewJob:
        pick = self.random.choice
        return NewJob(
            task=pick(TASKS),
            payload=pick(PAYLOADS),
            queue=pick(QUEUES),
            run_at=pick((None, None, self.clock.now() - 5_000_000, self.clock.now() + 9_000_000)),
            delay=pick((0, 0, 3_000_000)),
            max_attempts=pick((None, 1, 3)),
            key=pick(KEYS),
            key_mode=pick(("replace", "replace", "preserve_run_at", "unsafe_dedupe")),
            priority=pick((0, 0, -1, 5)),
            flags=pick(FLAGS),
            keep=pick((None, None, 0.0, 20.0)),
        )

    async def enqueue(self) -> None:
        if self.random.random() < 0.3:
            new = msgspec.structs.replace(self.new(), key=None, payload='{"n":1}')
            await self.same("enqueue", [new] * self.random.randrange(1, 6))
        else:
            await self.same("enqueue", [self.new() for _ in range(self.random.randrange(5))])

    async def claim(self) -> None:
        worker = self.random.choice(("v", "w"))
        for lifeline in self.lifelines:
            lifeline.renew(worker, 30.0, [])
        longer = self.random.choice(({}, {"a": 50.0}))
        if self.paused or self.random.random() < 0.5:
            request = ClaimRequest(
                worker=worker,
                tasks=tuple(self.random.sample(TASKS, self.random.randrange(1, 4))),
                limit=EVERYTHING,
                suspects=self.random.choice((0, EVERYTHING)),
                longer_leases=longer,
                forbidden_flags=self.random.choice(((), ("y",), ("x", "z"))),
                past_heads=True,
            )
        else:
            request = ClaimRequest(
                worker=worker,
                tasks=TASKS,
                limit=self.random.randrange(1, 5),
                suspects=EVERYTHING,
                longer_leases=longer,
            )
        expected, seen = [await store.claim(request) for store in self.stores]
        assert _leases(seen) == _leases(expected)
        self.held += zip(expected, seen, strict=True)

    def some_held(self) -> list[tuple[Lease, Lease]]:
        some = self.random.sample(self.held, min(len(self.held), self.random.randrange(6)))
        if self.random.random() < 0.8:
            self.held = [pair for pair in self.held if pair not in some]
        return some

    def outcome(self) -> Outcome:
        return self.random.choice(
            (
                COMPLETE,
                COMPLETE,
                Complete('{"out":1}', keep=15.0),
                Fail("broke", delay=2.0),
                Fail("broke", max_attempts=2, payload="[9]"),
                Fail("poison", final=True),
                RELEASE,
                CANCEL,
            )
        )

    async def settle(self) -> None:
        outcomes = [(pair, self.outcome()) for pair in self.some_held()]
        expected, seen = [
            await store.settle([(pair[which], outcome) for pair, outcome in outcomes])
            for which, store in enumerate(self.stores)
        ]
        assert seen == expected

    async def note(self) -> None:
        what = self.random.choice((Note(progress='[0.5,"half"]'), Note(entry='{"line":1}')))
        for pair in self.some_held()[:1]:
            expected, seen = [
                await store.note(lease, what)
                for store, lease in zip(self.stores, pair, strict=True)
            ]
            assert seen == expected

    async def renew(self) -> None:
        expected, seen = [
            lifeline.renew(
                "w",
                30.0,
                [pair[which] for pair in self.held],
                [(pair[which], 45.0) for pair in self.held[:1]],
            )
            for which, lifeline in enumerate(self.lifelines)
        ]
        assert seen == expected

    async def upkeep(self) -> None:
        await self.same("promote", EVERYTHING)
        await self.same("reap", EVERYTHING, self.random.choice((1, 2, 5)))
        await self.same("prune", EVERYTHING)

    def some_ids(self) -> list[int]:
        return [self.random.randrange(1, 60) for _ in range(self.random.randrange(6))]

    async def change(self) -> None:
        verb = self.random.choice(("cancel", "complete", "fail", "retry", "delete_failed"))
        if verb == "fail":
            await self.same(verb, self.some_ids(), "because")
        elif verb == "delete_failed":
            await self.same(verb, EVERYTHING)
        else:
            await self.same(verb, self.some_ids())

    async def reschedule(self) -> None:
        pick = self.random.choice
        await self.same(
            "reschedule",
            self.some_ids(),
            run_at=pick((None, self.clock.now(), self.clock.now() + 4_000_000)),
            priority=pick((None, 0, -7)),
            attempts=pick((None, 0, 3)),
            max_attempts=pick((None, 3)),
        )

    async def remove(self) -> None:
        await self.same("remove", self.random.choice(("k1", "k2", "k3")))

    async def retire(self) -> None:
        worker = self.random.choice(("v", "w"))
        if self.random.random() < 0.5:
            await self.same("retire", worker)
        else:
            await self.same("unlock", [worker], 2)

    async def pause(self) -> None:
        await self.same("pause", **self.random.choice(({"task": "a"}, {"queue": "q"})))
        self.paused = True
        if self.random.random() < 0.6:
            await self.same("resume", task="a", queue="q")
            self.paused = False

    async def pass_time(self) -> None:
        self.clock.advance(self.random.choice((0.1, 2.0, 12.0, 31.0)))


@pytest.mark.parametrize("number", range(6))
def test_random_calls(number: int, tmp_path: Path) -> None:
    seed = SEED + number
    print(f"seed {seed} (run again with WINDLASS_SEED={seed})")

    async def scenario() -> None:
        clock = FakeClock()
        async with opened(tmp_path / "jobs.db", clock=clock) as sqlite:
            pair = Pair(seed, MemoryStore(clock), sqlite, clock)
            for _ in range(STEPS):
                await pair.step()

    run(scenario())
