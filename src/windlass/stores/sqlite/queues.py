"""Serial queues: which job is at the head.

A queue's jobs are stored as *waiting*; one of them at a time is made claimable. Every transaction
that adds to a queue, takes from it or changes the order in it ends with `admit`, which is why
nothing else needs to know about queues.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text


def admit(db: Session, queues: Collection[str]) -> None:
    """Make the best job of each of these queues claimable, if nothing of the queue runs."""
    if not queues:
        return
    names = json_text(sorted(queues))
    db.run("demote_heads", {"queues": names})
    db.run("admit_heads", {"queues": names})
