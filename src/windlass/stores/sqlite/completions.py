"""Completing deliveries the quick way: few statements for all of them, each guarded by the tokens.

If a statement meets fewer rows than it was given, a delivery lost its lease, or something else is
not as expected; the whole transaction is then done again carefully.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.job import JobState
from windlass.store.records import Complete, Lease
from windlass.store.rules import micros
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.rows import json_text

Completion = tuple[Lease, Complete]

_FEW_CLAIMS = 3


class NotAllHeld(Exception):
    """Raised inside a transaction when the quick way met a lost lease; never leaves the store."""


class Completions:
    """Jobs that complete, prepared by the caller, so that the writer thread only runs statements.

    They leave the table by the statement `delete`, and by `keep` they come into the history, those
    that are kept.
    """

    def __init__(
        self,
        completions: Sequence[Completion],
        delete: str = "delete_completed",
        keep: str = "keep_completed",
    ) -> None:
        self.leases = [lease for lease, _ in completions]
        self._keep = keep
        self._kept = [
            (lease, outcome.output, seconds)
            for lease, outcome in completions
            if (seconds := kept_for(lease, outcome))
        ]
        self._deletes = _deletes(self.leases, delete)
        self.ended = [
            Ended(lease.job_id, lease.tenant, lease.queue, JobState.COMPLETED)
            for lease in self.leases
        ]

    def write(self, db: Session, now: int) -> None:
        if self._kept:
            kept = [
                (lease.job_id, lease.token, output, keep, now + micros(keep))
                for lease, output, keep in self._kept
            ]
            if db.run(self._keep, {"completed": json_text(kept), "now": now}) != len(kept):
                raise NotAllHeld
        if self.leases:
            deleted = sum([db.run(name, parameters) for name, parameters in self._deletes])
            if deleted != len(self.leases):
                raise NotAllHeld


def kept_for(lease: Lease, outcome: Complete) -> float | None:
    """Seconds for which a completed job is kept."""
    return outcome.keep if lease.keep is None else lease.keep


def _deletes(leases: Sequence[Lease], statement: str) -> list[tuple[str, dict[str, object]]]:
    """The statements that end these deliveries: one for each claim they come from, if few."""
    by_claim: dict[int, list[int]] = {}
    for lease in leases:
        by_claim.setdefault(lease.token - lease.job_id, []).append(lease.job_id)
    if len(by_claim) > _FEW_CLAIMS:
        pairs = json_text([(lease.job_id, lease.token) for lease in leases])
        return [(f"{statement}_pairs", {"pairs": pairs})]
    return [(statement, {"ids": json_text(ids), "base": base}) for base, ids in by_claim.items()]
