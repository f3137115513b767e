"""Completions that concern chains, the quick way: whole batches, set by set.

A job completes, and its chain goes on with the next; or the chain ends, and the jobs that wait for
it wait for one chain less, or are released. Chains may start with the completion. What each of
these needs is one or two statements for all of them, and one blocker's end reads as much where its
dependent waits for 20,000 chains as where it waits for two: their number is counted down.

What could be refused, or could meet another chain's key, is not done here: `is_quick` says so.
Order does not matter among the rest: completed in any order, they leave the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.store.records import Complete, Lease, NewJob, Outcome
from windlass.stores.sqlite import ending, queues
from windlass.stores.sqlite.additions import OWN, Additions, next_job_id
from windlass.stores.sqlite.completions import Completion, Completions, NotAllHeld, kept_for
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.queues import Place
from windlass.stores.sqlite.rows import json_text


class _Waiting(msgspec.Struct, array_like=True, gc=False):
    """A job that waits for chains, some of which have just completed."""

    id: int
    completed: int
    blockers_open: int
    run_at: int
    tenant: str
    queue: str | None


_waiting = msgspec.json.Decoder(list[_Waiting]).decode


def concerns_chains(lease: Lease, outcome: Outcome) -> bool:
    """Whether anything but the job itself and its serial queue may change."""
    if lease.chain is not None or lease.blockers_total is not None:
        return True
    return isinstance(outcome, Complete) and (outcome.next is not None or bool(outcome.starts))


def is_quick(outcome: Outcome) -> bool:
    """Whether it is a completion that names no chains but those that start with it, and no keys: it
    cannot be refused, and starts what it asks for."""
    if not isinstance(outcome, Complete):
        return False
    for before, new in enumerate(outcome.starts):
        if new.key is not None or not _is_plain(new.job, before):
            return False
    return outcome.next is None or _is_plain(outcome.next, len(outcome.starts))


def _is_plain(new: NewJob, started: int) -> bool:
    """Whether it has no key, and names only some of the chains that have started by then."""
    if new.key is not None:
        return False
    return not new.blockers or -started <= min(new.blockers) <= max(new.blockers) < 0


class ChainedCompletions:
    """Such completions, prepared by the caller; calling it does the work inside a transaction."""

    def __init__(self, completions: Sequence[Completion]) -> None:
        going_on = [it for it in completions if it[1].next is not None]
        self._continued = Completions(going_on, "delete_continued", "keep_continued")
        self._others = Completions([it for it in completions if it[1].next is None])
        self._begun = json_text([lease.job_id for lease, _ in going_on if lease.chain is None])
        over = [(lease, outcome) for lease, outcome in completions if outcome.next is None]
        ended = [
            (lease.chain, outcome.output, (lease.step or 0) + 1, lease.token)
            for lease, outcome in over
            if lease.chain is not None
        ]
        self._ended, self._chains = json_text(ended), json_text([chain for chain, *_ in ended])
        self._number_ended = len(ended)
        waited = [
            lease.job_id
            for lease, outcome in completions
            if lease.blockers_total is not None and not kept_for(lease, outcome)
        ]
        self._waited = json_text(waited) if waited else None
        self._additions = _additions(completions)

    def write(self, db: Session, now: int) -> None:
        if self._begun != "[]":
            db.run("become_chains", {"ids": self._begun})
        self._continued.write(db, now)
        self._others.write(db, now)
        if self._waited is not None:
            db.run("delete_blockers", {"jobs": self._waited})
        if self._additions.new:
            self._additions.write(db, now, next_job_id(db), names_offsets=True)
        left = self._additions.queues | self._end_chains(db, now)
        ends = [*self._continued.ended, *self._others.ended]
        ending.ended(db, ends)
        queues.admit(db, left - ending.queues_of(ends))

    def _end_chains(self, db: Session, now: int) -> set[Place]:
        """End chains, and release the jobs that waited for them; the queues of these jobs."""
        if not self._number_ended:
            return set()
        if db.run("complete_chains", {"ended": self._ended, "now": now}) != self._number_ended:
            raise NotAllHeld
        waiting = _waiting(db.value("find_waiting", {"chains": self._chains}))
        if not waiting:
            return set()
        db.run("meet_blockers", {"chains": self._chains})
        released = [job for job in waiting if job.blockers_open == job.completed]
        if len(released) < len(waiting):
            fewer = [
                (job.id, job.completed) for job in waiting if job.blockers_open > job.completed
            ]
            db.run("count_down", {"jobs": json_text(fewer)})
        if released:
            db.run("release_jobs", {"ids": json_text([job.id for job in released]), "now": now})
            db.made_ready = True
            if any(job.run_at > now for job in released):
                db.made_scheduled = True
        return {(job.tenant, job.queue) for job in released if job.queue is not None}


def _additions(completions: Sequence[Completion]) -> Additions:
    """The chains that start and the jobs that come next, in the order of their ids."""
    additions = Additions()
    for lease, outcome in completions:
        started: list[int] = []
        for new in outcome.starts:
            named = _offsets(new.job, started)
            started.append(additions.add(new.job, OWN, 0, named))
        if outcome.next is not None:
            chain = lease.job_id if lease.chain is None else lease.chain
            named = _offsets(outcome.next, started)
            additions.add(outcome.next, chain, (lease.step or 0) + 1, named)
    return additions.prepare()


def _offsets(new: NewJob, started: Sequence[int]) -> Sequence[int]:
    """Where the chains begin that a job names as -1, -2, …"""
    return [started[-blocker - 1] for blocker in new.blockers] if new.blockers else ()
