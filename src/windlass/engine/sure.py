"""What became of a write whose answer was lost, seen from the answer to its repetition.

While a worker's lease holds no other worker can end its job. So if the token is used up, it was the
write whose answer never came.
"""

from __future__ import annotations

from typing import cast

from windlass.errors import StoreBusyError, StoreError, StoreUnavailableError
from windlass.model.job import JobState
from windlass.store.port import ChainStore, WorkStore
from windlass.store.records import (
    Cancel,
    Complete,
    Fail,
    Lease,
    Outcome,
    Release,
    Settled,
    Verdict,
)

DONE = Settled(Verdict.APPLIED, JobState.COMPLETED)
"""The usual answer."""


async def sure(store: WorkStore, lease: Lease, outcome: Outcome, answer: Settled) -> Settled:
    """The answer after an earlier one was lost, for a delivery whose lease still holds.

    The job may have gone on since, in other deliveries with states of their own: only a state that
    cannot be theirs is read here.
    """
    if answer.verdict not in (Verdict.LOST, Verdict.MISSING):
        return answer
    if isinstance(outcome, Complete) and lease.chain is not None:
        return await _sure_of_chain(store, lease, outcome, answer)
    job = await store.get(lease.job_id)
    match outcome:
        case Complete():
            if job is not None and job.state is not JobState.COMPLETED:
                return answer  # a job that is done does not go on, so it was not written
            return DONE
        case Cancel():
            return Settled(Verdict.APPLIED, JobState.CANCELLED)
        case Release():
            return Settled(Verdict.APPLIED, JobState.READY)
        case Fail():
            is_final = job is not None and job.state is JobState.FAILED
            state = JobState.FAILED if is_final else JobState.SCHEDULED
            return Settled(Verdict.APPLIED, state)


async def _sure_of_chain(
    store: WorkStore, lease: Lease, outcome: Complete, answer: Settled
) -> Settled:
    """The same for a completion in a chain, which an operator may complete or delete at any time:
    that the job is gone says nothing.

    The store knows which delivery ended a chain. One that goes on has gone on by this delivery,
    unless an operator has let it go on with another job in the very same moment.
    """
    if outcome.next is None:
        return DONE if answer.state is JobState.COMPLETED else answer
    assert lease.chain is not None
    chain = await cast(ChainStore, store).get_chain(lease.chain)
    has_gone_on = chain is not None and chain.length > (lease.step or 0) + 1
    return DONE if has_gone_on else answer


_MISTAKES = ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError
"""What a store raises that met an outcome which it cannot write: no outage passes so."""


def is_refusal(error: Exception) -> bool:
    """Whether the database answered, and said no: a constraint, say, or a trigger of the user's; or
    the store could not make sense of an outcome."""
    passes = StoreUnavailableError, StoreBusyError
    if isinstance(error, StoreError):
        return not isinstance(error, passes)
    return isinstance(error, _MISTAKES)
