"""What this program knows of the workers that claim through it.

A claim's answer may be lost on the way, and then the worker holds jobs of which this program knows
nothing, for as long as it renews its lease. No server can tell them from the others: it may be
another one than the claim went to, and it keeps nothing. So the worker goes on under another name:

1. Its next claims are made under the new name.
2. What it is known to hold under the old name gets leases of its own, job by job, and keeps them.
3. The lease of the old name is ended. What is left under it is taken back by the next reaper.

Until the second step has worked the old name is renewed, too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

from windlass.store.records import Lease

MOST_WORKERS = 1_000


class KnownWorker:
    """`name` is what the worker is called now. The lock of `KnownWorkers` guards it."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._turns = 0
        self.name = base
        self.held: dict[int, Lease] = {}
        """By job, what it is known to hold."""
        self.renewed: set[str] = set()
        """Names that it had, and whose leases must be renewed still."""
        self.left: set[str] = set()
        """All names that it had; they may hold jobs with leases of their own."""

    def turn(self) -> None:
        """Go on under another name."""
        self.renewed.add(self.name)
        self.left.add(self.name)
        self._turns += 1
        self.name = f"{self._base}~{self._turns}"


class KnownWorkers:
    """At most so many are known; the one that claimed longest ago is forgotten first, unless it has
    leases that need it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: OrderedDict[str, KnownWorker] = OrderedDict()
        self._bases: dict[str, str] = {}
        """By another name that a worker got, its first."""

    def _get(self, base: str) -> KnownWorker:
        worker = self._workers.get(base)
        if worker is None:
            worker = self._workers[base] = KnownWorker(base)
            if (excess := len(self._workers) - MOST_WORKERS) > 0:
                idle = (name for name, it in self._workers.items() if not it.left and name != base)
                for name in list(islice(idle, excess)):
                    del self._workers[name]
        return worker

    def name(self, base: str) -> str:
        """What to call this worker."""
        with self._lock:
            self._get(base)
            self._workers.move_to_end(base)
            return self._workers[base].name

    def names(self, base: str) -> list[str]:
        """Every name it has and had, the current one last."""
        with self._lock:
            worker = self._get(base)
            return [*sorted(worker.left), worker.name]

    def took(self, base: str, leases: Iterable[Lease]) -> None:
        with self._lock:
            held = self._get(base).held
            held.update((lease.job_id, lease) for lease in leases)

    def ended(self, leases: Iterable[Lease]) -> None:
        """These deliveries are over, as far as this program is concerned."""
        with self._lock:
            for lease in leases:
                worker = self._workers.get(self._bases.get(lease.worker, lease.worker))
                known = None if worker is None else worker.held.get(lease.job_id)
                if worker is not None and known is not None and known.token == lease.token:
                    del worker.held[lease.job_id]

    def knows(self, base: str) -> bool:
        with self._lock:
            return base in self._workers

    def forget(self, base: str) -> None:
        with self._lock:
            if (worker := self._workers.pop(base, None)) is not None:
                for name in (*worker.left, worker.name):
                    self._bases.pop(name, None)

    # ── a claim whose answer was lost ──

    def lost(self, base: str, name: str) -> None:
        """A claim that was made under this name will not be answered: the worker goes on under
        another, unless it does already."""
        with self._lock:
            worker = self._get(base)
            if worker.name == name:
                worker.turn()
                self._bases[worker.name] = base

    def under(self, base: str, names: Iterable[str]) -> list[Lease]:
        """What it is known to hold under these names."""
        chosen = set(names)
        with self._lock:
            held = self._get(base).held.values()
            return [lease for lease in held if lease.worker in chosen]

    def to_renew(self, base: str, leases: Sequence[Lease]) -> tuple[str, list[str], list[Lease]]:
        """What a renewal is for: the name, other names, and leases that need one of their own."""
        with self._lock:
            worker = self._get(base)
            if not worker.left:
                return worker.name, [], []
            own = {
                id(lease): lease for lease in worker.held.values() if lease.worker in worker.left
            }
            own |= {id(lease): lease for lease in leases if lease.worker in worker.left}
            chosen = {lease.job_id: lease for lease in own.values()}
            return worker.name, sorted(worker.renewed), list(chosen.values())

    def end(self, base: str, name: str) -> None:
        """The lease of this name is to be ended now: it is renewed no more."""
        with self._lock:
            self._get(base).renewed.discard(name)
