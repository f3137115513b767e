"""Which batches are done: those of whose jobs none is in this program's hands any more.

A claim of many jobs writes one lease for all of them (`sql/batches/`). When the last
of them is settled its row in the database is of no use; the next claim takes it away. What is
forgotten here costs a little and loses nothing: the keeper's questions dissolve batches that grow
old, and a worker's end dissolves all of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from windlass.store.records import Lease


class Batches:
    """By base, the number that makes a token of a job's id. Used from the threads of the crew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[int, set[int]] = {}
        self._workers: dict[int, str] = {}

    def begin(self, base: int, worker: str, leases: Sequence[Lease]) -> None:
        with self._lock:
            self._left[base] = {lease.job_id for lease in leases}
            self._workers[base] = worker

    def leave(self, leases: Iterable[Lease]) -> None:
        """These deliveries are over."""
        with self._lock:
            for lease in leases:
                if (left := self._left.get(lease.token - lease.job_id)) is not None:
                    left.discard(lease.job_id)

    def ended(self) -> list[int]:
        """Batches in which nothing is left."""
        with self._lock:
            return [base for base, left in self._left.items() if not left]

    def forget(self, bases: Iterable[int]) -> None:
        with self._lock:
            for base in bases:
                self._left.pop(base, None)
                self._workers.pop(base, None)

    def retire(self, worker: str) -> None:
        with self._lock:
            bases = [base for base, name in self._workers.items() if name == worker]
        self.forget(bases)
