"""What a handler writes and its settlement commit together, where a store can do that.

What every store with transactions can write is a job. One with SQL also writes rows of a table of
the handler's own, which must fare the same. A store whose capabilities say that it lacks
transactions, or SQL, must refuse them, in each case the same.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.errors import ConfigError, LeaseLostError
from windlass.model.job import JobState
from windlass.store.port import Transaction
from windlass.store.records import COMPLETE, Complete, Fail, JobFilter, Lease
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


class Stop(Exception):
    """What a handler raises in the middle of its transaction."""


async def _lease(kit: Kit) -> Lease | None:
    """A running job, and with SQL a table of the handler's own; None without transactions."""
    await kit.add(keep=60.0)
    lease = await kit.take()
    able = kit.store.capabilities
    if not able.transactions:
        _refused(lambda: kit.store.transaction(lease))
    elif able.sql:
        with kit.store.transaction(lease) as tx:
            tx.execute("CREATE TABLE handlers_own (n integer)")
    else:
        with kit.store.transaction(lease) as tx:
            _refused(lambda: tx.execute("CREATE TABLE handlers_own (n integer)"))
    if not able.sql:
        _refused(kit.store.connection)
        _refused(lambda: kit.store.joined(object()))
    return lease if able.transactions else None


def _refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except ConfigError as error:
        assert "URL" in str(error), "it says what to do next"
    else:
        raise AssertionError("the store took what its capabilities say it cannot do")


def _write(kit: Kit, tx: Transaction) -> None:
    """What a handler writes: a job, and with SQL a row."""
    kit.store.joined(tx.connection).enqueue([kit.new("written")])
    if kit.store.capabilities.sql:
        tx.execute("INSERT INTO handlers_own VALUES (1)")


async def _written(kit: Kit) -> int:
    """How often what a handler wrote was committed."""
    jobs = len(await kit.store.find(JobFilter(task="written")))
    assert not kit.store.capabilities.sql or _rows(kit) == jobs, "a row and a job differ"
    return jobs


def _rows(kit: Kit) -> int:
    with kit.store.connection() as connection:
        [count] = connection.execute("SELECT count(*) FROM handlers_own").fetchone()
    return int(count)


@case
async def writes_and_completion_commit_together(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        _write(kit, tx)
        tx.complete(Complete('"done"'))
    seen = await kit.get(lease.job_id)
    assert (seen.state, seen.output) == (JobState.COMPLETED, "done")
    assert await _written(kit) == 1


@case
async def nothing_is_seen_before_the_commit(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    other = await kit.other()
    with kit.store.transaction(lease) as tx:
        _write(kit, tx)
        tx.complete(COMPLETE)
        assert await other.find(JobFilter(task="written")) == []
        seen = await other.get(lease.job_id)
        assert seen is not None
        assert seen.state is JobState.RUNNING
    assert await _written(kit) == 1


@case
async def a_job_is_completed_once_in_its_transaction(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    try:
        with kit.store.transaction(lease) as tx:
            tx.complete(COMPLETE)
            tx.complete(COMPLETE)
    except LeaseLostError:
        pass
    else:
        raise AssertionError("a delivery ended twice")
    assert await kit.state(lease.job_id) is JobState.RUNNING


@case
async def rows_are_had_by_place_and_by_name(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None or not kit.store.capabilities.sql:
        return
    with kit.store.transaction(lease) as tx:
        assert tx.execute("INSERT INTO handlers_own VALUES (7)") == []
        [row] = tx.execute("SELECT n, n + 1 AS more FROM handlers_own")
    assert row == (7, 8)
    assert (row[1], row["n"], row["more"]) == (8, 7, 8)
    assert dict(row) == {"n": 7, "more": 8}


@case
async def a_statement_is_not_disturbed_by_an_interrupt_before_it(kit: Kit) -> None:
    """A handler that was told to stop may still tidy up."""
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        tx.interrupt()
        _write(kit, tx)
        tx.complete(COMPLETE)
    assert await kit.state(lease.job_id) is JobState.COMPLETED
    assert await _written(kit) == 1


@case
async def an_exception_rolls_everything_back(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    try:
        with kit.store.transaction(lease) as tx:
            _write(kit, tx)
            tx.complete(COMPLETE)
            raise Stop
    except Stop:
        pass
    assert await kit.state(lease.job_id) is JobState.RUNNING
    assert await _written(kit) == 0
    assert (await kit.settle(lease, COMPLETE)).state is JobState.COMPLETED


@case
async def without_completion_the_job_stays_running(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        _write(kit, tx)
    assert await kit.state(lease.job_id) is JobState.RUNNING
    assert await _written(kit) == 1


@case
async def a_lost_lease_rolls_everything_back(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    await kit.crash()
    try:
        with kit.store.transaction(lease) as tx:
            _write(kit, tx)
            tx.complete(COMPLETE)
    except LeaseLostError:
        pass
    else:
        raise AssertionError("a lost delivery completed its job")
    assert await kit.state(lease.job_id) is JobState.READY
    assert await _written(kit) == 0


@case
async def any_outcome_may_end_the_transaction(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        tx.complete(Fail("not yet", delay=5.0))
    seen = await kit.get(lease.job_id)
    assert (seen.state, seen.run_at) == (JobState.SCHEDULED, kit.at(5))


@case
async def completing_in_a_transaction_frees_the_queue(kit: Kit) -> None:
    if await _lease(kit) is None:
        return
    jobs = await kit.add_many({"queue": "q"}, {"queue": "q"})
    with kit.store.transaction(await kit.take()) as tx:
        tx.complete(COMPLETE)
    assert await kit.claimed() == ids(jobs)[1:]


@case
async def a_joined_enqueue_exists_if_that_transaction_commits(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        [job] = kit.store.joined(tx.connection).enqueue([kit.new(key="k", payload="[1]")])
    assert await kit.get(job.id) == job
    assert await kit.claimed() == [job.id]


@case
async def a_joined_enqueue_of_no_jobs_adds_none(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    with kit.store.transaction(lease) as tx:
        joined = kit.store.joined(tx.connection)
        assert joined.enqueue([]) == []
        assert await joined.aenqueue([]) == []
        tx.complete(COMPLETE)
    assert await kit.ids() == [lease.job_id]


@case
async def a_joined_enqueue_is_gone_if_that_transaction_rolls_back(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    kept = await kit.add(key="k", payload="[1]", delay=1_000_000)
    try:
        with kit.store.transaction(lease) as tx:
            kit.store.joined(tx.connection).enqueue([kit.new(), kit.new(key="k", payload="[2]")])
            raise Stop
    except Stop:
        pass
    assert await kit.ids() == [lease.job_id, kept.id]
    assert await kit.get(kept.id) == kept


@case
async def a_key_is_free_after_its_job_is_completed_inside(kit: Kit) -> None:
    if await _lease(kit) is None:
        return
    job = await kit.add(key="k")
    with kit.store.transaction(await kit.take()) as tx:
        tx.complete(COMPLETE)
        again = kit.new(key="k", key_mode="unsafe_dedupe")
        [added] = kit.store.joined(tx.connection).enqueue([again])
    assert added.id != job.id
    assert (added.revision, added.state) == (0, JobState.READY)
    assert await kit.store.get_by_key("k") == added


@case
async def two_with_one_key_inside_are_answered_as_one(kit: Kit) -> None:
    lease = await _lease(kit)
    if lease is None:
        return
    news = [kit.new(key="k", payload="1"), kit.new(key="k", payload="2")]
    with kit.store.transaction(lease) as tx:
        answers = kit.store.joined(tx.connection).enqueue(news)
    assert answers == [await kit.store.get_by_key("k")] * 2


@case
async def a_key_taken_inside_before_the_job_fails_ends_it(kit: Kit) -> None:
    """In the order in which they are asked for: the job lost its key, and so does not run again."""
    if await _lease(kit) is None:
        return
    job = await kit.add(key="k")
    with kit.store.transaction(await kit.take()) as tx:
        [added] = kit.store.joined(tx.connection).enqueue([kit.new(key="k")])
        tx.complete(Fail("not yet"))
    assert added.id != job.id
    assert await kit.state(job.id) is JobState.FAILED
    assert await kit.store.get_by_key("k") == added


@case
async def a_plain_connection_commits_or_rolls_back(kit: Kit) -> None:
    if await _lease(kit) is None or not kit.store.capabilities.sql:
        return
    with kit.store.connection() as connection:
        connection.execute("INSERT INTO handlers_own VALUES (1)")
    try:
        with kit.store.connection() as connection:
            connection.execute("INSERT INTO handlers_own VALUES (2)")
            raise Stop
    except Stop:
        pass
    assert _rows(kit) == 1
