"""Serial queues: which job is at the head.

A queue's jobs are stored as *waiting*; one of them at a time is made claimable. Every transaction
that adds to a queue, takes from it or changes the order in it ends with `admit`, which is why
nothing else needs to know about queues.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import named

Place = tuple[str, str]
"""A serial queue: its tenant, and its name."""


def admit(db: Session, queues: Collection[Place]) -> None:
    """Make the best job of each of these queues claimable, if nothing of the queue runs.

    While jobs hold a queue these are the only ones that count.
    """
    if not queues:
        return
    for statement in ("demote_heads", "admit_heads"):
        for variant, names in named(statement, queues):
            db.run(variant, {"names": names})
