"""Chains and blockers: what follows for other jobs when one is added, ends or is brought back.

`rules.py` says what happens to one row; this says what happens between rows. Stores that change
rows in Python call it inside their write transaction, with a `Book` that reads and writes there;
`memory` and `sqlite` do. A store that changes rows in SQL states the same rules there.

The model
    A chain has a row from the moment it starts, or from the moment a job of no chain continues. At
    most one of its jobs is in the table of jobs, its *current* job; the others are completed. The
    chain ends with its current job: completed if that job completes without a next one, else
    failed or cancelled. It opens again when that job is retried.

    A job that named blockers has one `Blocker` row for each place in its list. While
    `blockers_open`, the number of distinct chains it still waits for, is above zero, the job is
    BLOCKED. The end of a chain finds the jobs that named it, and for each that is BLOCKED decides:
    the chain completed, or the job would run all the same, and the count goes down, at zero the job
    is released; or the job fails too, and so does its own chain; or it goes on waiting.

    A job that is not BLOCKED when a chain it named ends (it failed or was cancelled before) is left
    alone. It is looked at again when it is retried.

    Every job that ends passes here, and with the end of one that asked for it comes the job that
    posts it (`webhooks.py`). What is deleted or removed does not pass.

What makes it right
    Everything happens in the transaction of the end itself, and only one transaction writes at a
    time. Failures go along lines of any length by a list of chains still to be told, never by
    recursion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from windlass.errors import BlockerReferenceError, ChainClosedError, ChainNotFoundError
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.model.names import OnBlockerFailure
from windlass.store import rules
from windlass.store.records import (
    COMPLETE,
    Blocker,
    BlockerState,
    ChainRow,
    Complete,
    NewChain,
    NewJob,
    Row,
    sees,
)
from windlass.store.webhooks import address_of, call_for

OWN_CHAIN = (
    "the continuation would wait for its own chain {0}; let it wait only for chains that do not"
    " wait for this one"
)

_ENDS = {
    JobState.COMPLETED: ChainState.COMPLETED,
    JobState.FAILED: ChainState.FAILED,
    JobState.CANCELLED: ChainState.CANCELLED,
}


class Book(Protocol):
    """The rows of jobs, chains and blockers, inside one write transaction.

    What is read stays the same object until the transaction ends; after a change it is handed to
    the verb that writes it.
    """

    def job(self, job_id: int) -> Row | None:
        """A job in the table of jobs; one in the history is over and is not found here."""

    def current(self, chain_id: int) -> Row | None:
        """The job of this chain in the table of jobs."""

    def chain(self, chain_id: int) -> ChainRow | None: ...

    def keyed(self, tenant: str, key: str, since: int | None) -> ChainRow | None:
        """The open chain of this key; or else the last that ended after the instant `since`."""

    def blockers(self, job_id: int) -> Sequence[Blocker]:
        """What a job named, in order; of a job in the history too."""

    def naming(self, chain_id: int) -> Sequence[Blocker]:
        """All that name this chain, in the order of their jobs' ids."""

    def chain_jobs(self, chain_id: int) -> Sequence[Row]:
        """Every job of the chain that is stored, in the table of jobs or in the history."""

    def add_job(self, row: Row) -> None:
        """Store a new job; a row without an id (0) gets one."""

    def write_job(self, row: Row) -> None:
        """A job whose chain or blockers changed it; it may have ended."""

    def delete_job(self, row: Row) -> None:
        """Take a job out of the tables, the history too, with its blockers."""

    def write_chain(self, chain: ChainRow) -> None: ...

    def delete_chain(self, chain: ChainRow) -> None: ...

    def write_blockers(self, job_id: int, blockers: Sequence[Blocker]) -> None:
        """All that a job named; those before are gone."""

    def write_blocker(self, blocker: Blocker) -> None:
        """One whose state has changed. A job may have named very many, so the end of a chain
        touches only those that name this chain."""


class Started(NamedTuple):
    """A chain that was asked for, and whether it was there already."""

    chain: ChainRow
    is_duplicate: bool


class Chaining:
    """The rules on one transaction's `book`, at one instant."""

    def __init__(self, book: Book, now: int) -> None:
        self.book = book
        self.now = now

    # ── adding ──

    def require(self, jobs: Iterable[NewJob]) -> None:
        """Refuse jobs that name chains which are not there for their tenant."""
        unknown = {
            blocker: None
            for new in jobs
            for blocker in new.blockers
            if not self._is_there(blocker, new.tenant)
        }
        if unknown:
            raise ChainNotFoundError([*unknown])

    def _is_there(self, chain_id: int, tenant: str) -> bool:
        chain = self.book.chain(chain_id)
        return chain is not None and chain.tenant == tenant

    def block(self, row: Row, blockers: Sequence[int], *, is_cancelled: bool = False) -> None:
        """Let a job that was just added, or replaced, wait for these chains; or store it as
        cancelled, for a job that was asked to stop and went on."""
        if row.blockers_total is not None:
            self.book.write_blockers(row.id, [])
        row.blockers_open = row.blockers_total = None
        if blockers:
            named = [Blocker(row.id, place, chain) for place, chain in enumerate(blockers)]
            row.blockers_open = row.blockers_total = len(set(blockers))
            if not is_cancelled:
                self._stand(row, named)
            self.book.write_blockers(row.id, named)
        if is_cancelled:
            rules.cancel(row, self.now)
        if blockers or is_cancelled:
            self.book.write_job(row)
        if row.state.is_final:
            self._post(row)
            if row.chain is not None:
                self._close(row)

    def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
        """Start a chain, unless one has its key. `ended` is a chain that ends in the same step: its
        key is free, even for its successor's `key_window`."""
        there = self._same_key(new, ended)
        if there is not None:
            return Started(there, is_duplicate=True)
        row = rules.new_row(new.job, self.now, job_id)
        row.step = 0
        self.book.add_job(row)
        row.chain = row.id
        chain = _chain_of(row, row.id)
        chain.key, chain.key_window = new.key, new.key_window
        self.book.write_chain(chain)
        self.book.write_job(row)
        self.block(row, new.job.blockers)
        return Started(chain, is_duplicate=False)

    def _same_key(self, new: NewChain, ended: int | None = None) -> ChainRow | None:
        if new.key is None:
            return None
        since = self.now - new.key_window if new.key_window else None
        there = self.book.keyed(new.job.tenant, new.key, since)
        return None if there is None or there.id == ended else there

    # ── how a job stands with the chains it named ──

    def _stand(self, row: Row, named: Sequence[Blocker]) -> None:
        """Look at each chain that is not met, and give the job its state: blocked, due, or failed.
        One that is blocked holds no queue: what it waits for may be in the same one."""
        failed = self._weigh(row, named)
        if failed is not None:
            rules.fail_blocked(row, failed.id, failed.state, self.now)
        elif row.blockers_open:
            row.state = JobState.BLOCKED
            row.holds = 0
        else:
            row.state = rules.state_when_due(row.run_at, self.now)

    def _weigh(self, row: Row, named: Sequence[Blocker]) -> ChainRow | None:
        """Note how the job stands with each chain; the chain because of which it fails, if any. One
        that is not there any more, though it was named, is met: it was deleted, or ended long
        ago."""
        failed: ChainRow | None = None
        for it in named:
            if it.state is BlockerState.MET:
                continue
            chain = self.book.chain(it.chain)
            it.state = self._standing(row, chain)
            if it.state is BlockerState.FAILED and failed is None:
                failed = chain
        row.blockers_open = len({it.chain for it in named if it.state is not BlockerState.MET})
        return failed

    def _standing(
        self, row: Row, chain: ChainRow | None, reopened: Collection[int] = ()
    ) -> BlockerState:
        if chain is None or chain.state is ChainState.COMPLETED:
            return BlockerState.MET
        if chain.state is ChainState.OPEN or chain.id in reopened:
            return BlockerState.OPEN
        return _ON_FAILURE[row.on_blocker_failure]

    # ── ends ──

    def refusal(self, row: Row, completion: Complete) -> str | None:
        """Why a job cannot be completed so: it names chains that are not there, or its own chain
        would wait for itself. Nothing is changed."""
        asked = [new.job for new in completion.starts]
        if completion.next is not None:
            asked.append(completion.next)
        unknown = {
            blocker: None
            for new in asked
            for blocker in new.blockers
            if blocker >= 0 and not self._is_there(blocker, row.tenant)
        }
        if unknown:
            return str(ChainNotFoundError([*unknown]))
        if completion.next is None or not completion.next.blockers:
            return None
        own = row.id if row.chain is None else row.chain
        if not self._is_reached(own, self._waited_for(completion.next, completion.starts)):
            return None
        return OWN_CHAIN.format(own)

    def _waited_for(self, new: NewJob, starts: Sequence[NewChain]) -> set[int]:
        """The chains that are there already and for which this job would wait, itself or through
        chains that start with it."""
        found: set[int] = set()
        seen: set[int] = set()
        todo = list(new.blockers)
        while todo:
            blocker = todo.pop()
            if blocker >= 0:
                found.add(blocker)
            elif blocker not in seen:
                seen.add(blocker)
                todo += self._waited_for_by(starts, -blocker - 1)
        return found

    def _waited_for_by(self, starts: Sequence[NewChain], place: int) -> Sequence[int]:
        """What the chain at this place of `starts` would wait for: it may be one before it, which
        has the key, or a chain that is there, and then that is waited for."""
        own = starts[place]
        if own.key is None:
            return own.job.blockers
        for start in starts[: place + 1]:
            if start.key == own.key and self._same_key(start) is None:
                return start.job.blockers
        there = self._same_key(own)
        return [] if there is None else [there.id]

    def _is_reached(self, target: int, chains: Iterable[int]) -> bool:
        """Whether one of these chains is the target, or waits for it; or would, if what failed
        were retried."""
        todo = list(chains)
        seen: set[int] = set()
        while todo:
            chain = todo.pop()
            if chain == target:
                return True
            if chain in seen:
                continue
            seen.add(chain)
            row = self.book.current(chain)
            if row is not None and row.blockers_total:
                named = self.book.blockers(row.id)
                todo += [it.chain for it in named if it.state is not BlockerState.MET]
        return False

    def ended(
        self,
        row: Row,
        completion: Complete = COMPLETE,
        *,
        token: int | None = None,
        is_cancelled: bool = False,
    ) -> None:
        """What follows from the end of a job. `completion` says how it was completed, if it was,
        `token` by which delivery; `is_cancelled` that it had been asked to stop."""
        self._go_on_or_close(row, completion, token, is_cancelled=is_cancelled)
        self._post(row)

    def _post(self, row: Row) -> None:
        """Store the job that posts the end of this one, where there is an address for it."""
        url = address_of(row.meta)
        if url is not None:
            self.book.add_job(rules.new_row(call_for(row, url, self.now), self.now))

    def _go_on_or_close(
        self, row: Row, completion: Complete, token: int | None, *, is_cancelled: bool
    ) -> None:
        if row.state is not JobState.COMPLETED:
            if row.chain is not None:
                self._close(row, token)
            return
        goes_on = completion.next is not None
        if row.chain is not None and not goes_on:
            self._close(row, token)
        started: list[int] = []
        for new in completion.starts:
            job = _named(new.job, started)
            ended = None if goes_on else row.chain
            start = NewChain(job=job, key=new.key, key_window=new.key_window)
            started.append(self.start(start, ended=ended).chain.id)
        if completion.next is not None:
            self._go_on(row, _named(completion.next, started), is_cancelled=is_cancelled)

    def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
        """Store the next job of a chain; a job of no chain begins one by it."""
        if row.chain is None:
            row.chain, row.step = row.id, 0
            self.book.write_chain(_chain_of(row, row.id))
        self._add_next(row.chain, (row.step or 0) + 1, new, is_cancelled=is_cancelled)

    def _add_next(self, chain: int, step: int, new: NewJob, *, is_cancelled: bool = False) -> None:
        row = rules.new_row(new, self.now)
        row.chain, row.step = chain, step
        self.book.add_job(row)
        self.block(row, new.blockers, is_cancelled=is_cancelled)

    def _close(self, row: Row, token: int | None = None) -> None:
        """The chain of this job, its current one, ends as the job did. Jobs that wait for it are
        told, and so on along the line."""
        todo = deque([self._end_chain(row, token)])
        while todo:
            chain = todo.popleft()
            if chain is None:
                continue
            for waiting, about in self._blocked_by(chain.id):
                self._hear(waiting, about, chain)
                if waiting.state.is_final:
                    todo.append(self._end_chain(waiting))

    def _end_chain(self, row: Row, token: int | None = None) -> ChainRow | None:
        """None where the job is in no chain, or its chain failed so long ago that it was pruned."""
        chain = None if row.chain is None else self.book.chain(row.chain)
        if chain is None:
            return None
        chain.state = _ENDS[row.state]
        chain.output = row.output
        chain.error = row.last_error if row.state is JobState.FAILED else None
        chain.length = (row.step or 0) + 1
        chain.finished_at = self.now
        chain.ended_by = token
        self.book.write_chain(chain)
        return chain

    def _blocked_by(self, chain_id: int) -> Iterator[tuple[Row, list[Blocker]]]:
        """The jobs that wait for a chain, each once, with all places at which they named it."""
        for job_id, named in groupby(self.book.naming(chain_id), lambda it: it.job):
            row = self.book.job(job_id)
            if row is not None and row.state is JobState.BLOCKED:
                yield row, list(named)

    def _hear(self, row: Row, named: Sequence[Blocker], chain: ChainRow | None) -> None:
        """A blocked job learns that a chain it named has ended; or was deleted (None)."""
        standing = self._standing(row, chain)
        about = [it for it in named if it.state is BlockerState.OPEN]
        if not about or standing is BlockerState.OPEN:
            return
        for it in about:
            it.state = standing
            self.book.write_blocker(it)
        if chain is not None and standing is BlockerState.FAILED:
            rules.fail_blocked(row, chain.id, chain.state, self.now)
        else:
            row.blockers_open = (row.blockers_open or 0) - 1
            if row.blockers_open == 0:
                rules.release(row, self.now)
        self.book.write_job(row)
        if row.state.is_final:
            self._post(row)

    # ── brought back ──

    def check_retry(self, rows: Iterable[Row], reopened: Collection[int] = ()) -> None:
        """Refuse to bring back jobs that wait for a chain which has failed, and would fail at once;
        and jobs whose chain cannot be open, because another has its key, or would have it. Chains
        among `reopened` will be open."""
        opened: dict[tuple[str, str], int] = {}
        for row in rows:
            failed = [
                it.chain
                for it in (self.book.blockers(row.id) if row.blockers_total else ())
                if it.state is not BlockerState.MET
                and self._standing(row, self.book.chain(it.chain), reopened) is BlockerState.FAILED
            ]
            if failed:
                first = failed[0]
                raise BlockerReferenceError(
                    f"job {row.id} cannot be retried while chain {first}, which it waits for, has"
                    f" not completed; retry chain {first} first",
                    [*dict.fromkeys(failed)],
                )
            chain = None if row.chain is None else self.book.chain(row.chain)
            if chain is None or chain.key is None:
                continue
            self._check_key(chain)
            first = opened.setdefault((chain.tenant, chain.key), chain.id)
            if first != chain.id:
                raise ChainClosedError(
                    f"chains {first} and {chain.id} cannot both be open again: they have the key"
                    f" {chain.key!r}; retry one of them"
                )

    def _check_key(self, chain: ChainRow) -> None:
        rival = self._rival(chain)
        if rival is not None:
            raise ChainClosedError(
                f"chain {chain.id} cannot be open again: its key {chain.key!r} belongs to chain"
                f" {rival.id} now; wait for that one, or cancel it"
            )

    def _rival(self, chain: ChainRow) -> ChainRow | None:
        """Another open chain that has this one's key."""
        if chain.key is None or chain.state is ChainState.OPEN:
            return None
        return self.book.keyed(chain.tenant, chain.key, None)

    def brought_back(self, rows: Sequence[Row]) -> None:
        """Jobs that had ended may run again: they wait for the chains that are still open, their
        own chains are open again, and jobs that failed because of those wait again."""
        # All are open before a job looks at its chains, and before another is put back that has
        # the key of one. A chain that failed long ago was pruned, and begins anew with its job.
        opened = [
            self._open(self.book.chain(row.chain) or _chain_of(row, row.chain))
            for row in rows
            if row.chain is not None
        ]
        for row in rows:
            if row.blockers_total:
                named = self.book.blockers(row.id)
                self._stand(row, named)
                self.book.write_blockers(row.id, named)
                self.book.write_job(row)
        self._put_back_behind(opened)

    def _open(self, chain: ChainRow) -> ChainRow:
        chain.state = ChainState.OPEN
        chain.output = chain.error = chain.finished_at = chain.ended_by = None
        self.book.write_chain(chain)
        return chain

    def _put_back_behind(self, opened: Iterable[ChainRow]) -> None:
        """Put back the jobs that failed because of chains which are open again, and so on."""
        todo = deque(opened)
        while todo:
            chain = todo.popleft()
            for job_id in dict.fromkeys(
                it.job for it in self.book.naming(chain.id) if it.state is BlockerState.FAILED
            ):
                row = self.book.job(job_id)
                if row is not None and row.state is JobState.FAILED:
                    own = self._put_back(row)
                    if own is not None:
                        todo.append(own)

    def _put_back(self, row: Row) -> ChainRow | None:
        """A job that failed because of a chain waits for it again, unless another chain that it
        waits for has failed, too, or its own chain's key was taken. Its own chain, if that is open
        by it."""
        own = None if row.chain is None else self.book.chain(row.chain)
        rival = None if own is None else self._rival(own)
        if own is not None and rival is not None:
            rules.blame(
                row,
                f"chain {own.id} stays failed: its key {own.key!r} belongs to chain {rival.id} now",
            )
            own.error = row.last_error
            self.book.write_chain(own)
            self.book.write_job(row)
            return None
        named = self.book.blockers(row.id)
        rules.wait_again(row, self.now)
        self._stand(row, named)
        self.book.write_blockers(row.id, named)
        self.book.write_job(row)
        if row.state is JobState.FAILED:
            self._end_chain(row)
            return None
        return None if own is None else self._open(own)

    # ── operators ──

    def find(self, ids: Sequence[int], tenant: str | None) -> list[ChainRow]:
        """The chains of these ids that the tenant sees, or ChainNotFoundError."""
        found = {chain_id: self._seen(chain_id, tenant) for chain_id in ids}
        unknown = [chain_id for chain_id, chain in found.items() if chain is None]
        if unknown:
            raise ChainNotFoundError(unknown)
        return [chain for chain in found.values() if chain is not None]

    def _seen(self, chain_id: int, tenant: str | None) -> ChainRow | None:
        chain = self.book.chain(chain_id)
        return chain if chain is not None and sees(tenant, chain) else None

    def complete(self, chain: ChainRow, completion: Complete, inherits: Sequence[str]) -> None:
        """Complete the current job of a chain without a worker. `inherits` are the values that the
        next one has from it."""
        if chain.state is ChainState.COMPLETED:
            raise ChainClosedError(f"chain {chain.id} is completed already")
        row = self.book.current(chain.id)
        new = completion.next
        if new is not None:
            new.tenant = chain.tenant
            for name in inherits if row is not None else ():
                setattr(new, name, getattr(row, name))
            self.require([new])
            if self._is_reached(chain.id, new.blockers):
                raise BlockerReferenceError(
                    f"chain {chain.id} would wait for itself; name other blockers", [chain.id]
                )
            self._check_key(chain)
            if chain.state.is_final:
                self._put_back_behind([self._open(chain)])
        if row is not None:
            rules.complete_by_hand(row, completion, self.now)
            self.book.write_job(row)
            self.ended(row, completion)
        elif new is not None:
            self._add_next(chain.id, chain.length, new)
        else:
            chain.state, chain.error = ChainState.COMPLETED, None
            chain.output, chain.finished_at = completion.output, self.now
            chain.ended_by = None
            self.book.write_chain(chain)
            for waiting, about in self._blocked_by(chain.id):
                self._hear(waiting, about, chain)

    def cancel(self, chains: Sequence[ChainRow]) -> None:
        """Cancel the current jobs of these chains; those that run are asked to stop."""
        over = [chain for chain in chains if chain.state.is_final]
        if over:
            raise ChainClosedError(
                f"chain {over[0].id} is {over[0].state} already; nothing was cancelled"
            )
        found = [self.book.current(chain.id) for chain in chains]
        rows = [row for row in found if row is not None]
        for row in rows:
            rules.cancel(row, self.now)
            self.book.write_job(row)
        # All are cancelled before one hears that a chain it waited for was.
        for row in rows:
            if row.state.is_final:
                self.ended(row)

    def retry(self, chains: Sequence[ChainRow]) -> list[ChainRow]:
        """Run the failed or cancelled jobs of these chains again; the chains that are open now and
        were not."""
        rows = {
            chain.id: row
            for chain in chains
            if chain.state in _CAN_OPEN and (row := self.book.current(chain.id)) is not None
        }
        self.check_retry(rows.values(), rows.keys())
        for row in rows.values():
            rules.run_again(row, self.now)
            self.book.write_job(row)
        self.brought_back([*rows.values()])
        return [chain for chain in chains if chain.id in rows]

    def delete(self, ids: Sequence[int], tenant: str | None, *, cascade: bool) -> list[ChainRow]:
        """Delete chains with their jobs; with `cascade` also the chains that these jobs named, and
        so on. Ids of no chain are passed over. The chains that are deleted."""
        doomed: dict[int, ChainRow] = {}
        todo = list(dict.fromkeys(ids))
        while todo:
            chain = self._seen(todo.pop(0), tenant)
            if chain is None or chain.id in doomed:
                continue
            doomed[chain.id] = chain
            if cascade:
                for row in self.book.chain_jobs(chain.id):
                    if row.blockers_total:
                        todo += [it.chain for it in self.book.blockers(row.id)]
        self._refuse_references(doomed)
        for chain in doomed.values():
            for row in self.book.chain_jobs(chain.id):
                self.book.delete_job(row)
            self.book.delete_chain(chain)
        for chain_id in doomed:
            for waiting, about in self._blocked_by(chain_id):
                self._hear(waiting, about, None)
        return [*doomed.values()]

    def _refuse_references(self, doomed: Mapping[int, ChainRow]) -> None:
        """Of a chain that failed or was cancelled no open job has anything more to expect."""
        references: dict[int, int] = {}
        for chain in doomed.values():
            if chain.state in _CAN_OPEN:
                continue
            for it in self.book.naming(chain.id):
                row = self.book.job(it.job)
                if row is not None and not row.state.is_final and row.chain not in doomed:
                    references.setdefault(row.id, chain.id)
        if references:
            job_id, chain_id = next(iter(references.items()))
            raise BlockerReferenceError(
                f"chain {chain_id} cannot be deleted: job {job_id} names it as a blocker"
                f" ({len(references)} in all); cancel these jobs first, or wait for them",
                [*references],
            )


_CAN_OPEN = (ChainState.FAILED, ChainState.CANCELLED)

_ON_FAILURE: dict[OnBlockerFailure | None, BlockerState] = {
    None: BlockerState.FAILED,
    "fail": BlockerState.FAILED,
    "run": BlockerState.MET,
    "wait": BlockerState.OPEN,
}
"""How a job stands with a chain that failed or was cancelled."""


def _chain_of(row: Row, chain_id: int) -> ChainRow:
    """The row of a chain that begins with this job."""
    return ChainRow(
        id=chain_id,
        tenant=row.tenant,
        task=row.task,
        payload=row.payload,
        created_at=row.created_at,
    )


def _named(new: NewJob, started: Sequence[int]) -> NewJob:
    """The job with chains as its blockers in place of -1, -2, … of those that were just started."""
    if all(blocker >= 0 for blocker in new.blockers):
        return new
    chains = tuple(it if it >= 0 else started[-it - 1] for it in new.blockers)
    return replace(new, blockers=chains)
