"""Mistakes that the simulation must find, each put into the engine or the store for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from msgspec.structs import replace

from windlass.client import caller
from windlass.engine import outcomes
from windlass.engine.claimer import Claimer
from windlass.engine.delivery import Delivery
from windlass.engine.keeper import Keeper
from windlass.engine.settler import Settler
from windlass.engine.slots import Slots
from windlass.errors import StoreError
from windlass.model import payload as payloads
from windlass.model.job import DEFAULT_TENANT, JobSpec, JobState
from windlass.store import rules
from windlass.store.chaining import Chaining
from windlass.store.records import (
    Blocker,
    ChainRow,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Renewal,
    Row,
    Settled,
    Verdict,
)
from windlass.store.schedules import Fired
from windlass.stores.memory import MemoryStore, MemoryTransaction, _Addition
from windlass.tasks.abort import AbortReason
from windlass.tasks.context import Context
from windlass.tasks.transaction import JobTransaction


def answers_by_job() -> AbstractContextManager[Any]:
    """The keeper takes an answer for one delivery as one for whatever delivery it holds now."""

    def obey(self: Keeper, renewal: Renewal, asked: Any) -> None:
        for job_id, reason in renewal.lost.items():
            if (delivery := self._in_hand.get(job_id)) is not None:
                delivery.stop(AbortReason(reason.value))
        for job_id in renewal.cancel:
            if (delivery := self._in_hand.get(job_id)) is not None:
                delivery.stop(AbortReason.CANCELLED)

    return mock.patch.object(Keeper, "_obey", obey)


@contextmanager
def unaware_of_commits() -> Iterator[None]:
    """That a handler completes its job by itself is known only when its commit was answered."""
    finish, end = JobTransaction._finish, JobTransaction._end

    def finish_quietly(self: JobTransaction, *error: Any) -> None:
        with mock.patch.object(type(self._delivery), "begin_commit", lambda delivery: None):
            finish(self, *error)

    def end_loudly(self: JobTransaction, *error: Any) -> bool | None:
        answer = end(self, *error)
        if self._sync.is_completing and error[0] is None:
            self._delivery.begin_commit()
        return answer

    with (
        mock.patch.object(JobTransaction, "_finish", finish_quietly),
        mock.patch.object(JobTransaction, "_end", end_loudly),
    ):
        yield


def leases_by_the_wall_clock() -> AbstractContextManager[Any]:
    """Leases end by a clock that people and time servers set."""
    return mock.patch.object(MemoryStore, "_ticks", lambda self: self._clock.now())


def payloads_decoded_to_be_shown() -> AbstractContextManager[Any]:
    """A job that is only shown has its payload decoded, which raises where it cannot be."""
    return mock.patch.object(payloads, "shown", payloads.decode)


def tokens_not_compared() -> AbstractContextManager[Any]:
    """Whoever held a job once may settle it, as long as it runs."""

    def owned(self: MemoryStore, lease: Lease) -> Row | None:
        row = self._rows.get(lease.job_id)
        return row if row is not None and row.state is JobState.RUNNING else None

    return mock.patch.object(MemoryStore, "_owned", owned)


def handlers_not_fenced() -> AbstractContextManager[Any]:
    """A worker that cannot renew its lease lets its handlers go on."""
    return mock.patch.object(Keeper, "_fence", lambda self, now: None)


def queues_not_serial() -> AbstractContextManager[Any]:
    """A job of a serial queue is claimed while another one of it runs."""
    claim = MemoryStore.claim

    async def claim_more(self: MemoryStore, request: ClaimRequest) -> list[Lease]:
        running = [row for row in self._rows.values() if row.state is JobState.RUNNING]
        queues = [row.queue for row in running]
        for row in running:
            row.queue = None
        leases = await claim(self, request)
        for row, queue in zip(running, queues, strict=True):
            row.queue = queue
        return leases

    return mock.patch.object(MemoryStore, "claim", claim_more)


def instants_fired_by_all() -> AbstractContextManager[Any]:
    """Every worker fires an instant, wherever the schedule is by then."""
    fire = MemoryStore.fire

    async def fire_again(
        self: MemoryStore,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        known = self._schedules.get((tenant, identifier))
        if known is not None and known.floor_at != expected:
            self._schedules[tenant, identifier] = replace(known, floor_at=expected)
        return await fire(self, identifier, expected, until, jobs, tenant)

    return mock.patch.object(MemoryStore, "fire", fire_again)


def workers_not_signed_off() -> AbstractContextManager[Any]:
    """A worker that stops stays known."""

    async def retire(self: MemoryStore, worker: str) -> None: ...

    return mock.patch.object(MemoryStore, "retire", retire)


def no_polling() -> AbstractContextManager[Any]:
    """A worker looks for jobs only when it is told that there may be some."""
    step = Claimer.step

    async def step_once(self: Claimer) -> float | None:
        pause = await step(self)
        return pause if pause == 0.0 else None

    return mock.patch.object(Claimer, "step", step_once)


def rollbacks_that_write() -> AbstractContextManager[Any]:
    """The jobs added in a transaction that is rolled back are there."""
    end = MemoryTransaction.__exit__

    def write(self: MemoryTransaction, kind: Any, *rest: object) -> None:
        if kind is not None:
            self._steps = [step for step in self._steps if isinstance(step, _Addition)]
        end(self, None, *rest)

    return mock.patch.object(MemoryTransaction, "__exit__", write)


def settlements_not_repeated() -> AbstractContextManager[Any]:
    """What a handler returned is forgotten where the answer to its settlement was lost."""

    async def settle(self: Settler, batch: Sequence[Delivery]) -> list[Settled]:
        try:
            return await self._store.settle([(d.lease, d.outcome) for d in batch])
        except StoreError:
            return [Settled(Verdict.LOST)] * len(batch)

    return mock.patch.object(Settler, "_settle", settle)


def killers_let_loose() -> AbstractContextManager[Any]:
    """A job that kills its worker starts again and again."""
    take_back = rules.take_back

    def forgive(row: Row, max_resets: int, now: int) -> None:
        take_back(row, 2 * max_resets, now)

    return mock.patch.object(rules, "take_back", forgive)


def jobs_counted_twice() -> AbstractContextManager[Any]:
    """A worker counts what it completed before it is written, and after."""
    end = Slots._end

    def count(self: Slots, delivery: Delivery, outcome: Outcome) -> None:
        self._worker.completed += 1
        end(self, delivery, outcome)

    return mock.patch.object(Slots, "_end", count)


def interruptions_charged() -> AbstractContextManager[Any]:
    """A job that was stopped because its worker stops has used up an attempt."""
    from_error = outcomes.from_error

    def charge(error: BaseException, delivery: Delivery, *rest: Any) -> Outcome:
        if delivery.stopped is AbortReason.SHUTDOWN:
            return Fail("its worker stopped")
        return from_error(error, delivery, *rest)

    return mock.patch.object(outcomes, "from_error", charge)


def tenants_ignored() -> AbstractContextManager[Any]:
    """A worker of some tenants is given the jobs of all."""
    claim = MemoryStore.claim

    async def claim_of_all(self: MemoryStore, request: ClaimRequest) -> list[Lease]:
        return await claim(self, replace(request, tenants=None))

    return mock.patch.object(MemoryStore, "claim", claim_of_all)


def tenants_not_inherited() -> AbstractContextManager[Any]:
    """What a handler adds belongs to the default tenant."""
    return mock.patch.object(caller, "tenant_inside", lambda store: None)


def releases_lost() -> AbstractContextManager[Any]:
    """The end of a chain by the death of its job's last worker, or by an operator, releases no
    job."""
    close = Chaining._close

    def close_quietly(self: Chaining, row: Row, token: int | None = None) -> None:
        if token is None:
            self._end_chain(row)
        else:
            close(self, row, token)

    return mock.patch.object(Chaining, "_close", close_quietly)


def released_by_the_first() -> AbstractContextManager[Any]:
    """A job that waits for several chains starts when the first of them ends."""
    hear = Chaining._hear

    def hear_all(
        self: Chaining, row: Row, named: Sequence[Blocker], chain: ChainRow | None
    ) -> None:
        row.blockers_open = 1
        hear(self, row, named, chain)

    return mock.patch.object(Chaining, "_hear", hear_all)


def continuations_repeated() -> AbstractContextManager[Any]:
    """A settlement that is asked for again stores the next job again."""
    settle = MemoryStore._settle

    def settle_again(self: MemoryStore, lease: Lease, outcome: Any, now: int) -> Settled:
        answer = settle(self, lease, outcome, now)
        is_late = answer.verdict is Verdict.LOST and isinstance(outcome, Complete)
        if is_late and outcome.next is not None and lease.chain in self._book.chains:
            self._chaining(now)._add_next(lease.chain, (lease.step or 0) + 1, outcome.next)
        return answer

    return mock.patch.object(MemoryStore, "_settle", settle_again)


def chains_begun_at_once() -> AbstractContextManager[Any]:
    """What a handler starts begins at once, whether or not its delivery completes."""
    prepare = Context._prepare_start

    def begin(self: Context, spec: JobSpec) -> int:
        place = prepare(self, spec)
        store: Any = self._around.store
        starts = self._delivery.starts or []
        new = starts[-1]
        if all(blocker > 0 for blocker in new.job.blockers):
            store.inner._chaining(store.inner._clock.now()).start(new)
        return place

    return mock.patch.object(Context, "_prepare_start", begin)


def keys_of_chains_free() -> AbstractContextManager[Any]:
    """Every start under a key begins a chain."""
    return mock.patch.object(Chaining, "_same_key", lambda self, new, ended=None: None)


def refusals_unheard() -> AbstractContextManager[Any]:
    """A completion that the store refuses counts as written."""

    def postpone(
        self: Settler, batch: Sequence[Delivery], settled: Sequence[Settled]
    ) -> tuple[list[Delivery], list[Settled]]:
        return list(batch), list(settled)

    return mock.patch.object(Settler, "_postpone", postpone)


def failures_that_stop() -> AbstractContextManager[Any]:
    """Jobs behind a chain that failed because of another hear nothing of it."""

    def close(self: Chaining, row: Row, token: int | None = None) -> None:
        chain = self._end_chain(row, token)
        if chain is not None:
            for waiting, named in self._blocked_by(chain.id):
                self._hear(waiting, named, chain)
                if waiting.state.is_final:
                    self._end_chain(waiting)

    return mock.patch.object(Chaining, "_close", close)


PLANTED: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "answers by job": (answers_by_job, "P5: .* was told .* while it held its lease"),
    "unaware of commits": (unaware_of_commits, "P6: .* after it had completed by itself"),
    "a clock set back": (leases_by_the_wall_clock, "P7: .* did not come back"),
    "a clock set forward": (leases_by_the_wall_clock, "I4: .* whose lease holds for another"),
    "undecodable payloads": (payloads_decoded_to_be_shown, "I12: windlass-slot-.* failed unheard"),
    "tokens": (tokens_not_compared, "I2|I4|P5"),
    "fence": (handlers_not_fenced, "P5: .* was not told to stop before its lease ended|I4"),
    "queues": (queues_not_serial, "I8"),
    "instants": (instants_fired_by_all, "I9: instant .* was fired"),
    "sign-off": (workers_not_signed_off, "I10"),
    "polling": (no_polling, "P3: jobs do not end"),
    "rollbacks": (rollbacks_that_write, "I6"),
    "killers": (killers_let_loose, "P10"),
    "counters": (jobs_counted_twice, "I11"),
    "interruptions": (interruptions_charged, "I2: .* settled as Fail"),
    "tenants of workers": (tenants_ignored, "P12: .* was given job"),
    "tenants of handlers": (tenants_not_inherited, "P12: .* to another tenant"),
    "releases": (releases_lost, "I7: job .* waits for chain .*, which is not open|P3"),
    "the first release": (released_by_the_first, "I7: job .* counts"),
    "continuations": (continuations_repeated, "I7: chain .* went on with step"),
    "early starts": (chains_begun_at_once, "I7: .* started"),
    "keys of chains": (keys_of_chains_free, "I8: key c. is held by chains"),
    "refusals": (refusals_unheard, "P3: jobs do not end|I10"),
    "the line of failures": (failures_that_stop, "I7: job .* waits for chain"),
    "lost settlements": (settlements_not_repeated, "P3: jobs do not end|P7|I10"),
}
"""What is planted, and what the simulation says of it."""
