"""What this process knows of the workers that claim through it.

A worker that retires is forgotten. One that vanishes says nothing, and a program may use a new name
for each claim; so at most `MOST_WORKERS` are known, and the one that claimed longest ago is
forgotten first. That costs it a little and loses nothing: its next claim starts at the very start,
and the rows of its batches stay in the database until the keeper's questions dissolve batches that
have grown old, or the worker ends.

One thing must not be forgotten while its worker lives: a claim whose answer was lost, since the
worker holds what that claim took until it asks for it. Such a worker has free slots, and claims
again and again. So it stays known, beyond that number too, until it has not claimed for
`UNRESOLVED_FOR` seconds: then it is gone, and the reaper has taken back what it held.

A claim of many jobs writes one lease for all of them, a batch (`sql/batches/`). When the last of
them is settled its row in the database is of no use; the next claim takes it away.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

from windlass.clock import Clock
from windlass.store.records import Lease
from windlass.stores.postgres.marks import ClaimMarks
from windlass.stores.postgres.wire import NOWHERE

MOST_WORKERS = 1_000

MOST_BATCHES = 1_000
"""Batches of one worker: it may live long, and not settle all that it has claimed."""

UNRESOLVED_FOR = 3600.0
"""Seconds, far longer than a worker waits before it claims again."""


class KnownWorker:
    """A batch is known by its base, the number that makes a token of a job's id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tenants: tuple[str, ...] | None = None
        self.marks = ClaimMarks(clock)
        self.after = NOWHERE
        """The queue, with its tenant, after which its next claim looks behind heads: an array of
        SQL."""
        self.unresolved: set[int] = set()
        """The bases of claims whose answers were lost."""
        self.batches: dict[int, set[int]] = {}
        """By base, the ids of jobs that are not settled."""
        self.claimed_at = clock.monotonic()

    def serve(self, tenants: tuple[str, ...] | None) -> None:
        """Its next claim is for these tenants. Marks say what was claimed for the last ones."""
        if tenants != self._tenants:
            self._tenants = tenants
            self.marks = ClaimMarks(self._clock)


class KnownWorkers:
    """Used from event loops, from the threads that settle, and from the listener's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._workers: OrderedDict[str, KnownWorker] = OrderedDict()
        """The one that claimed longest ago comes first."""
        self._ended: dict[int, str] = {}
        """Batches in which nothing is left, and their workers."""

    def __len__(self) -> int:
        return len(self._workers)

    def claiming(self, name: str) -> KnownWorker:
        """The worker of that name, which claims now."""
        with self._lock:
            return self._claiming(name)

    def _claiming(self, name: str) -> KnownWorker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = KnownWorker(self._clock)
        worker.claimed_at = self._clock.monotonic()
        self._workers.move_to_end(name)
        if (excess := len(self._workers) - MOST_WORKERS) > 0:
            others = (each for each in self._workers if each != name and self._may_go(each))
            for other in list(islice(others, excess)):
                del self._workers[other]
        return worker

    def _may_go(self, name: str) -> bool:
        worker = self._workers[name]
        idle = self._clock.monotonic() - worker.claimed_at
        return not worker.unresolved or idle > UNRESOLVED_FOR

    def forget(self, name: str) -> None:
        """It has retired: its batches are no more."""
        with self._lock:
            self._workers.pop(name, None)
            self._ended = {base: each for base, each in self._ended.items() if each != name}

    def expect_new(self) -> None:
        """Something new may lie before the marks."""
        with self._lock:
            for worker in self._workers.values():
                worker.marks.expect_new()

    # ── claims whose answers were lost ──

    def add_unresolved(self, name: str, base: int) -> None:
        with self._lock:
            self._claiming(name).unresolved.add(base)

    def resolve(self, name: str, base: int, leases: Sequence[Lease]) -> None:
        """What that claim took is known: these leases."""
        with self._lock:
            self._claiming(name).unresolved.discard(base)
        if leases:
            self.begin_batch(name, base, leases)

    # ── batches ──

    def begin_batch(self, name: str, base: int, leases: Iterable[Lease]) -> None:
        with self._lock:
            batches = self._claiming(name).batches
            batches[base] = {lease.job_id for lease in leases}
            if len(batches) > MOST_BATCHES:
                del batches[next(iter(batches))]

    def leave_batches(self, leases: Iterable[Lease]) -> None:
        """These deliveries are over."""
        with self._lock:
            for lease in leases:
                if (worker := self._workers.get(lease.worker)) is None:
                    continue
                base = lease.token - lease.job_id
                if (left := worker.batches.get(base)) is not None:
                    left.discard(lease.job_id)
                    if not left:
                        del worker.batches[base]
                        self._ended[base] = lease.worker

    def ended_batches(self) -> list[int]:
        """Batches in which nothing is left."""
        with self._lock:
            return list(self._ended)

    def forget_batches(self, bases: Iterable[int]) -> None:
        """The database has removed them."""
        with self._lock:
            for base in bases:
                self._ended.pop(base, None)
