"""A store that fails on purpose, by a plan that a seed repeats.

    store = FaultyStore(MemoryStore(clock), seed=7, rate=0.2)
    store.fail_next("settle", "after", times=2)
    store.is_down = True                    # from now on every verb fails, until it is False

Three kinds of fault exist: `before` (the verb did nothing and raised), `after` (the verb was
carried out, then reported as failed: the caller cannot know) and `busy` (another connection holds
the database). What the n-th call of a verb meets depends on the seed, the verb and n alone, so a
run can be repeated even where loops interleave differently. `repr(store)` says the seed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

from windlass.errors import OutcomeUnknownError, StoreBusyError, StoreError, StoreUnavailableError
from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.store.hints import Due, ignore_due
from windlass.store.port import Joined, Lifeline, Listening, Store, Transaction
from windlass.store.records import (
    Capabilities,
    ClaimRequest,
    JobFilter,
    Lease,
    NewJob,
    Note,
    Outcome,
    Paused,
    Reaped,
    Renewal,
    Settled,
    Verdict,
    WorkerInfo,
)
from windlass.store.schedules import Fired, KnownSchedule

FaultKind = Literal["before", "after", "busy"]

WORKER_VERBS = (
    "claim",
    "settle",
    "note",
    "reap",
    "promote",
    "next_due",
    "prune",
    "renew",
    "check",
    "know",
    "fire",
)
"""What fails by chance unless `verbs` says otherwise."""

UNKNOWN = ("settle", "note", "reap", "promote", "prune", "renew", "know", "fire")
"""What fails *after* by chance unless `unknown` says otherwise: verbs one may simply repeat."""


class FaultyStore:
    """Wraps any store. `rate` of the calls of `verbs` fail; those in `unknown` may do so *after*.

    `calls` counts every verb called, `faults` lists what was done, as `settle#3 after`.
    """

    def __init__(
        self,
        store: Store,
        seed: int | str = 0,
        *,
        rate: float = 0.0,
        verbs: Collection[str] = WORKER_VERBS,
        unknown: Collection[str] = UNKNOWN,
    ) -> None:
        self.inner = store
        self.seed = seed
        self.rate = rate
        self.is_down = False
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []
        self._verbs = frozenset(verbs)
        self._unknown = frozenset(unknown)
        self._planned: dict[str, deque[FaultKind]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r}, seed={self.seed!r}, rate={self.rate})"

    def fail_next(self, verb: str, kind: FaultKind = "before", *, times: int = 1) -> None:
        """The next `times` calls of `verb` fail, whatever the seed says."""
        if kind not in get_args(FaultKind):
            raise ValueError(f"no fault is called {kind!r}; there are before, after and busy")
        self._planned.setdefault(verb, deque()).extend([kind] * times)

    def _next(self, verb: str) -> FaultKind | None:
        with self._lock:
            self.calls[verb] += 1
            count = self.calls[verb]
            kind = self._choose(verb, count)
            if kind is not None:
                self.faults.append(f"{verb}#{count} {kind}")
            return kind

    def _choose(self, verb: str, count: int) -> FaultKind | None:
        if self.is_down:
            return "before"
        if planned := self._planned.get(verb):
            return planned.popleft()
        if verb not in self._verbs:
            return None
        chance = random.Random(f"{self.seed}:{verb}:{count}")  # noqa: S311 - a plan, not a secret
        if chance.random() >= self.rate:
            return None
        return "after" if verb in self._unknown and chance.random() < 0.5 else "before"

    async def _do(self, verb: str, *args: Any, **options: Any) -> Any:
        kind = self._next(verb)
        if kind in ("before", "busy"):
            raise _error(verb, kind)
        answer = await getattr(self.inner, verb)(*args, **options)
        if kind == "after":
            raise _error(verb, kind)
        return answer

    def _do_now(self, verb: str, call: Callable[[], Any]) -> Any:
        kind = self._next(verb)
        if kind in ("before", "busy"):
            raise _error(verb, kind)
        answer = call()
        if kind == "after":
            raise _error(verb, kind)
        return answer

    # ── the port ──

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def open(self) -> None:
        await self._do("open")

    async def close(self) -> None:
        await self.inner.close()

    async def now(self) -> int:
        return int(await self._do("now"))

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        return self.inner.subscribe(hint, listening, due)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Job]:
        return list(await self._do("enqueue", jobs))

    def joined(self, connection: Any) -> Joined:
        return self.inner.joined(connection)

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        return list(await self._do("claim", request))

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        return list(await self._do("settle", settlements))

    async def note(self, lease: Lease, note: Note) -> Verdict:
        return Verdict(await self._do("note", lease, note))

    def lifeline(self) -> Lifeline:
        return _FaultyLifeline(self, self.inner.lifeline())

    def connection(self) -> AbstractContextManager[Any]:
        return self.inner.connection()

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        return self.inner.transaction(lease)

    async def retire(self, worker: str) -> None:
        await self._do("retire", worker)

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        reaped: Reaped = await self._do("reap", limit, max_resets)
        return reaped

    async def promote(self, limit: int) -> int:
        return int(await self._do("promote", limit))

    async def next_due(self) -> float | None:
        due: float | None = await self._do("next_due")
        return due

    async def prune(self, limit: int) -> int:
        return int(await self._do("prune", limit))

    async def know(self, wanted: Sequence[Schedule]) -> list[KnownSchedule]:
        return list(await self._do("know", wanted))

    async def fire(
        self, identifier: str, expected: int, until: int, jobs: Sequence[NewJob]
    ) -> Fired:
        fired: Fired = await self._do("fire", identifier, expected, until, jobs)
        return fired

    async def schedules(self) -> list[KnownSchedule]:
        return list(await self._do("schedules"))

    async def pause_schedule(self, identifier: str) -> KnownSchedule | None:
        known: KnownSchedule | None = await self._do("pause_schedule", identifier)
        return known

    async def resume_schedule(self, identifier: str) -> KnownSchedule | None:
        known: KnownSchedule | None = await self._do("resume_schedule", identifier)
        return known

    async def forget_schedule(self, identifier: str) -> KnownSchedule | None:
        known: KnownSchedule | None = await self._do("forget_schedule", identifier)
        return known

    async def get(self, job_id: int) -> Job | None:
        job: Job | None = await self._do("get", job_id)
        return job

    async def get_by_key(self, key: str) -> Job | None:
        job: Job | None = await self._do("get_by_key", key)
        return job

    async def find(self, wanted: JobFilter) -> list[Job]:
        return list(await self._do("find", wanted))

    async def counts(self) -> dict[JobState, int]:
        return dict(await self._do("counts"))

    async def cancel(self, ids: Sequence[int]) -> list[Job]:
        return list(await self._do("cancel", ids))

    async def complete(self, ids: Sequence[int]) -> list[Job]:
        return list(await self._do("complete", ids))

    async def fail(self, ids: Sequence[int], reason: str) -> list[Job]:
        return list(await self._do("fail", ids, reason))

    async def reschedule(
        self,
        ids: Sequence[int],
        run_at: int | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
    ) -> list[Job]:
        return list(
            await self._do("reschedule", ids, run_at, priority, attempts, max_attempts),
        )

    async def retry(self, ids: Sequence[int]) -> list[Job]:
        return list(await self._do("retry", ids))

    async def remove(self, key: str) -> Job | None:
        job: Job | None = await self._do("remove", key)
        return job

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        return list(await self._do("unlock", workers, max_resets))

    async def pause(self, *, task: str | None = None, queue: str | None = None) -> None:
        await self._do("pause", task=task, queue=queue)

    async def resume(self, *, task: str | None = None, queue: str | None = None) -> None:
        await self._do("resume", task=task, queue=queue)

    async def paused(self) -> Paused:
        paused: Paused = await self._do("paused")
        return paused

    async def workers(self) -> list[WorkerInfo]:
        return list(await self._do("workers"))

    async def introduce(self, worker: str, tasks: Sequence[str]) -> bool:
        return bool(await self._do("introduce", worker, tasks))

    async def stranded(self) -> list[str]:
        return list(await self._do("stranded"))

    async def delete_failed(self, limit: int) -> int:
        return int(await self._do("delete_failed", limit))


class _FaultyLifeline:
    """The lifeline of a faulty store: `renew` and `check` fail by the same plan."""

    def __init__(self, store: FaultyStore, inner: Lifeline) -> None:
        self._store = store
        self._inner = inner

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        renewal: Renewal = self._store._do_now(
            "renew", lambda: self._inner.renew(worker, lease, leases, extend)
        )
        return renewal

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        renewal: Renewal = self._store._do_now("check", lambda: self._inner.check(worker, leases))
        return renewal

    def close(self) -> None:
        self._inner.close()


def _error(verb: str, kind: FaultKind | None) -> StoreError:
    if kind == "busy":
        return StoreBusyError(f"{verb}: another connection holds the database (a planned fault)")
    if kind == "after":
        return OutcomeUnknownError(f"{verb}: its answer was lost (a planned fault)")
    return StoreUnavailableError(f"{verb}: the database does not answer (a planned fault, {kind})")
