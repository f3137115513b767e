"""Requests that may come twice: jobs are added under a key of the caller's once a day at most.

Which requests are new is decided in the transaction that adds their jobs and remembers them, and
only one transaction writes at a time, so it makes no difference how many processes ask at once.
What the caller's thread prepares takes all of them to be new, which they nearly always are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.job import Job
from windlass.store.records import Row
from windlass.store.rules import micros
from windlass.store.server import REQUESTS_KEPT, Request, Requested
from windlass.stores.sqlite import rows
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.enqueue import Added, Enqueue
from windlass.stores.sqlite.rows import json_text

Place = tuple[str, str]
"""A request's tenant and key."""


class _Remembered(msgspec.Struct, array_like=True, gc=False):
    """Where a request stands in the list, what it asked for, and its jobs."""

    place: int
    digest: str
    ids: tuple[int, ...]


_remembered = msgspec.json.Decoder(list[_Remembered]).decode


class Told(msgspec.Struct):
    """What became of requests; `answers` turns it into what the caller is given."""

    requests: Sequence[Requested]
    added: Added | None
    found: Sequence[Row]

    def answers(self) -> list[Requested]:
        new = [] if self.added is None else self.added.jobs()
        jobs: dict[int, Job] = {job.id: job for job in new}
        jobs |= {row.id: row.job() for row in self.found}
        return [
            msgspec.structs.replace(it, jobs=tuple([jobs.get(job_id) for job_id in it.ids]))
            for it in self.requests
        ]


class EnqueueOnce:
    """One call, prepared; calling it does the work inside a transaction."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._first: dict[Place, Request] = {}
        """Of two with one key the first counts."""
        for request in requests:
            self._first.setdefault((request.tenant, request.key), request)
        self._keys = json_text([*self._first])
        self._all = _enqueue([*self._first.values()])
        self.rows = sum([len(request.jobs) for request in self._first.values()])

    def write(self, db: Session, now: int) -> Told:
        known = self._read(db, now)
        new = [request for place, request in self._first.items() if place not in known]
        added = None
        if new:
            add = self._all if len(new) == len(self._first) else _enqueue(new)
            added = add.write(db, now)
            self._remember(db, now, new, added.ids, known)
        answers = [self._answer(request, known) for request in self._requests]
        again = {job_id for it in answers if not it.is_new for job_id in it.ids}
        again -= set() if added is None else set(added.ids)
        return Told(answers, added, _read_jobs(db, again))

    def _read(self, db: Session, now: int) -> dict[Place, _Remembered]:
        values = {"keys": self._keys, "since": now - micros(REQUESTS_KEPT)}
        places = [*self._first]
        return {places[it.place]: it for it in _remembered(db.value("read_requests", values))}

    def _remember(
        self,
        db: Session,
        now: int,
        new: Sequence[Request],
        ids: Sequence[int],
        known: dict[Place, _Remembered],
    ) -> None:
        """Write them down, and add them to those that are known, for others of this call."""
        end = 0
        asked = []
        for request in new:
            start, end = end, end + len(request.jobs)
            own = tuple(ids[start:end])
            known[request.tenant, request.key] = _Remembered(-1, request.digest, own)
            asked.append((request.tenant, request.key, request.digest, own))
        db.run("write_requests", {"requests": json_text(asked), "now": now})

    def _answer(self, request: Request, known: dict[Place, _Remembered]) -> Requested:
        place = (request.tenant, request.key)
        it = known[place]
        if it.digest != request.digest:
            return Requested(is_conflict=True)
        is_new = it.place < 0 and self._first[place] is request
        return Requested(it.ids, is_new=is_new)


def _enqueue(requests: Sequence[Request]) -> Enqueue:
    return Enqueue([new for request in requests for new in request.jobs])


def _read_jobs(db: Session, ids: set[int]) -> list[Row]:
    if not ids:
        return []
    wanted = json_text(sorted(ids))
    return rows.read(db, "read_jobs", ids=wanted) + rows.read(db, "read_history", ids=wanted)
