"""A look at whether there is anything to claim, for many scopes at once and without the write lock.

Ready jobs are found by one statement, which looks at one entry of an index for each task and owner.
Where there are none, a job may still be claimed from behind the head of its queue. Such queues are
looked at as a claim does, but only a few of them: a queue's jobs are not claimable as long as its
head runs, and how many such queues there are must cost nothing. Where there are more, there may be
something to claim.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.names import RESERVED
from windlass.store.records import ClaimRequest
from windlass.store.server import ClaimScope
from windlass.stores.sqlite import heads
from windlass.stores.sqlite.branches import Owner, owners_of, with_tasks
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

_MOST_QUEUES = 20
"""Queues per task and owner that are looked at."""

Branch = tuple[Owner, str | None]
"""An owner, and a task or None for any."""

_places = msgspec.json.Decoder(list[int]).decode


def claimable(db: Session, scopes: Sequence[ClaimScope]) -> list[bool]:
    requests = [_request(scope) for scope in scopes]
    asked = [_branches(request) for request in requests]
    found = _with_ready_jobs(db, list(dict.fromkeys(it for each in asked for it in each)))
    answers = [not found.isdisjoint(each) for each in asked]
    if not all(answers) and db.value("peek_waiting"):
        answers = [
            answer or _may_be_behind_a_head(db, request)
            for answer, request in zip(answers, requests, strict=True)
        ]
    return answers


def _request(scope: ClaimScope) -> ClaimRequest:
    return ClaimRequest("", scope.tasks, 1, scope.tenants, past_heads=True)


def _branches(request: ClaimRequest) -> list[Branch]:
    tasks: Sequence[str | None] = (None,) if request.tasks is None else request.tasks
    return [(owner, task) for owner in owners_of(request) for task in tasks]


def _with_ready_jobs(db: Session, branches: Sequence[Branch]) -> set[Branch]:
    values = {"branches": json_text(branches), "reserved": RESERVED}
    return {branches[place] for place in _places(db.value("find_claimable", values))}


def _may_be_behind_a_head(db: Session, request: ClaimRequest) -> bool:
    look = heads.look(db, with_tasks(db, request), heads.BEGINNING, _MOST_QUEUES)
    return bool(look.found) or look.after != heads.BEGINNING
