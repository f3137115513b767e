"""What `windlass doctor` asks about the jobs in the file. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.store.findings import MOST_NAMED, Finding, failed_blockers, stuck_dependents
from windlass.stores.sqlite.connection import Session

_stuck = msgspec.json.Decoder(tuple[int, int | None]).decode
_failed = msgspec.json.Decoder(tuple[int, tuple[int, ...]]).decode


def examine(db: Session) -> list[Finding]:
    return [*_chains(db)]


def _chains(db: Session) -> Iterator[Finding]:
    count, first = _stuck(db.value("find_stuck_dependents", {}))
    if first is not None:
        yield stuck_dependents(first, count)
    jobs, chains = _failed(db.value("find_failed_blockers", {"most": MOST_NAMED + 1}))
    if jobs:
        yield failed_blockers(jobs, chains)
