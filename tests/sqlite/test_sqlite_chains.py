"""Chains on SQLite: the quick way leaves the rows of the careful one, and costs what it should."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.sqlite_kit import opened, plain, run, take
from tests.sqlite.test_sqlite_cost import statements
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import (
    COMPLETE,
    MOST_BLOCKER_TEXT,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewChain,
    NewJob,
    Outcome,
    decode_blockers,
)
from windlass.stores.sqlite import chain_admin
from windlass.stores.sqlite.chained import is_quick
from windlass.stores.sqlite.claim import ClaimMemory, claim, leases_of
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.schema import migrate
from windlass.stores.sqlite.settle import Settle
from windlass.stores.sqlite.starting import StartChains

__all__ = ["statements"]  # a fixture

NOW = 1_767_225_600_000_000
TABLES = {
    "windlass_jobs": "id",
    "windlass_history": "id",
    "windlass_chains": "id",
    "windlass_blockers": "chain, job, place",
}


@contextmanager
def transaction(path: Path, *, careful: bool = False) -> Iterator[Session]:
    """The writer's own session on a file, which is made if it is not there."""
    with closing(connect(str(path), "normal", make=True)) as connection:
        migrate(connection, str(path), 1.0)
        db = Session(connection)
        db.careful = careful
        db.control("BEGIN IMMEDIATE")
        yield db
        db.control("COMMIT")


def rows_of(path: Path) -> dict[str, list[Any]]:
    with closing(plain(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
            for table, order in TABLES.items()
        }


def claimed(db: Session, number: int = 1_000) -> list[Lease]:
    request = ClaimRequest(worker="w", tasks=("t", "u"), limit=number, suspects=number)
    return leases_of(claim(db, request, NOW, ClaimMemory()))


# ── the quick way and the careful one ──


def _new(choose: random.Random) -> NewJob:
    return NewJob(
        choose.choice("tu"),
        choose.choice(('{"n":1}', "[1]", '"x"', "7", "null")),
        queue=choose.choice((None, None, None, "p", "q")),
        priority=choose.choice((0, 0, 0, 1)),
        keep=choose.choice((None, None, 60.0)),
        delay=choose.choice((0, 0, 0, 5_000_000)),
        flags=choose.choice((None, None, ("f", "g"))),
        meta=choose.choice((None, '{"trace":"a b"}')),
        is_strict=choose.choice((0, 0, 0, 1)),
        on_blocker_failure=choose.choice((None, "run", "wait")),
    )


def _completion(choose: random.Random) -> Complete:
    """One that can be done the quick way."""
    number = choose.choice((0, 0, 0, 1, 2, 5))
    starts = []
    for before in range(number):
        job = _new(choose)
        if before:
            job.blockers = tuple(-choose.randint(1, before) for _ in range(choose.randint(0, 2)))
        starts.append(NewChain(job=job))
    next_one = None
    if choose.random() < 0.5:
        next_one = _new(choose)
        if number:
            next_one.blockers = tuple(
                -choose.randint(1, number) for _ in range(choose.randint(0, 2 * number))
            )
    output = choose.choice((None, "1", '{"a": "b\\nc"}', '"\\u00e9"'))
    return Complete(output, keep=choose.choice((None, 30.0)), next=next_one, starts=tuple(starts))


def _prepare(path: Path, choose: random.Random) -> list[Lease]:
    """Plain jobs, chains and jobs that wait for them; what a worker holds of these."""
    with transaction(path) as db:
        chains = [NewChain(job=_new(choose)) for _ in range(12)]
        started = StartChains(chains).write(db, NOW).chains()
        ids = [chain.id for chain in started]
        Enqueue([_new(choose) for _ in range(4)]).write(db, NOW)
        for _ in range(6):
            new = _new(choose)
            new.blockers = tuple(choose.choices(ids, k=choose.randint(1, 4)))
            if choose.random() < 0.5:
                StartChains([NewChain(job=new)]).write(db, NOW)
            else:
                Enqueue([new]).write(db, NOW)
        return claimed(db)


@pytest.mark.parametrize("seed", range(60))
def test_the_quick_way_leaves_the_rows_of_the_careful_one(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    quick, careful = tmp_path / "quick.db", tmp_path / "careful.db"
    leases = _prepare(quick, choose)
    for step in range(4):
        shutil.copy(quick, careful)
        settlements: list[tuple[Lease, Outcome]] = [
            (lease, _completion(choose)) for lease in leases
        ]
        assert all(is_quick(outcome) for _, outcome in settlements)
        now = NOW + (step + 1) * 1_000_000
        answers = []
        for path in (quick, careful):
            with transaction(path, careful=path is careful) as db:
                answers.append(Settle(settlements).write(db, now))
        assert answers[0] == answers[1]
        assert rows_of(quick) == rows_of(careful), f"seed {seed}, step {step}"
        with transaction(quick) as db:
            leases = claimed(db, choose.randint(1, 12))


def test_what_may_be_refused_is_not_quick() -> None:
    job, chain = NewJob("t"), NewChain(job=NewJob("t"))
    assert is_quick(Complete())
    assert is_quick(Complete(next=NewJob("t", blockers=(-1,)), starts=(chain,)))
    for asked in (
        Complete(next=NewJob("t", blockers=(7,))),
        Complete(next=NewJob("t", key="k")),
        Complete(next=NewJob("t", blockers=(-2,)), starts=(chain,)),
        Complete(starts=(NewChain(job=job, key="k"),)),
        Complete(starts=(NewChain(job=NewJob("t", blockers=(-1,))),)),
        Complete(starts=(chain, NewChain(job=NewJob("t", blockers=(7,))))),
    ):
        assert not is_quick(asked)
    assert not is_quick(Fail("broke"))


def test_settlements_of_chains_keep_their_order(tmp_path: Path) -> None:
    """A chain ends, and another job of the batch starts one with its key: only what comes after the
    end finds the key free."""

    async def scenario(ends_first: bool) -> list[bool]:
        async with opened(tmp_path / f"{ends_first}.db") as store:
            await store.start_chains([NewChain(job=NewJob("t"), key="k")])
            await store.enqueue([NewJob("u")])
            leases = {lease.task: lease for lease in await take(store)}
            end: tuple[Lease, Outcome] = (leases["t"], COMPLETE)
            start: tuple[Lease, Outcome] = (
                leases["u"],
                Complete(starts=(NewChain(job=NewJob("t"), key="k"),)),
            )
            await store.settle([end, start] if ends_first else [start, end])
            return [it.state is ChainState.OPEN for it in await store.find_chains(ChainFilter())]

    assert run(scenario(True)) == [True, False]
    assert run(scenario(False)) == [False]


def test_a_lost_lease_in_a_batch_of_chains_fails_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.start_chains([NewChain(job=NewJob("t")) for _ in range(6)])
            leases = await take(store)
            await store.complete_chain(leases[2].job_id, COMPLETE)
            on = Complete(next=NewJob("u"))
            answers = await store.settle([(lease, on) for lease in leases])
            assert [answer.verdict for answer in answers] == [
                "lost" if lease is leases[2] else "applied" for lease in leases
            ]
            assert len(await take(store)) == 5

    run(scenario())


def test_a_job_that_was_asked_to_stop_goes_on_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.start_chains([NewChain(job=NewJob("t")) for _ in range(3)])
            leases = await take(store)
            await store.cancel([leases[1].job_id])
            await store.settle([(lease, Complete(next=NewJob("u"))) for lease in leases])
            chains = await store.find_chains(ChainFilter())
            states = {chain.id: (chain.state, chain.length) for chain in chains}
            assert states[leases[1].job_id] == (ChainState.CANCELLED, 2)
            assert states[leases[0].job_id] == (ChainState.OPEN, 2)

    run(scenario())


# ── what it costs ──


@pytest.mark.parametrize("number", [3, 300])
def test_a_batch_is_few_statements(tmp_path: Path, statements: list[str], number: int) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            await store.enqueue([NewJob("t")])
            await take(store)  # from here on the worker is known

            @contextmanager
            def these(*expected: str) -> Iterator[None]:
                statements.clear()
                yield
                assert statements == ["BEGIN", *expected, "COMMIT"]

            def payload(n: int) -> str:
                return f'{{"n":{n}}}'

            with these("SELECT", "INSERT", "INSERT"):  # next id, jobs, chains
                await store.start_chains(
                    [NewChain(job=NewJob("t", payload(n))) for n in range(number)]
                )
            for _ in range(3):
                leases = await take(store, limit=number)
                with these("DELETE", "SELECT", "INSERT"):
                    await store.settle(
                        [
                            (lease, Complete(next=NewJob("t", payload(lease.job_id))))
                            for lease in leases
                        ]
                    )
            leases = await take(store, limit=number)
            with these("DELETE", "UPDATE", "SELECT"):  # jobs, chains, and that none waits
                await store.settle([(lease, Complete('"done"')) for lease in leases])

            started = await store.start_chains(
                [NewChain(job=NewJob("t", payload(n))) for n in range(number)]
            )
            named = [chain.id for chain in started]
            with these("SELECT", "SELECT", "INSERT", "WITH"):  # chains, next id, job, blockers
                await store.enqueue([NewJob("u", blockers=tuple(named))])
            leases = await take(store, limit=number)
            with these("DELETE", "UPDATE", "SELECT", "UPDATE", "UPDATE"):
                await store.settle([(lease, Complete('"done"')) for lease in leases])
            [merge] = await take(store)
            assert merge.blockers is not None
            assert [chain.id for chain in decode_blockers(merge.blockers)] == named
            starts = tuple(NewChain(job=NewJob("t", payload(n))) for n in range(number))
            waits = NewJob("u", blockers=tuple(-n - 1 for n in range(number)))
            # Its row becomes that of a chain; what it named goes; next id, jobs of two kinds,
            # chains, blockers.
            with these(
                *("INSERT", "DELETE", "DELETE", "SELECT", "INSERT", "INSERT", "INSERT", "WITH")
            ):
                await store.settle([(merge, Complete(next=waits, starts=starts))])

    run(scenario())


def _steps(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """What SQLite's own machine does, exactly."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 1)
    return count


def _end_of_one(path: Path, blockers: int, outcome: Outcome, policy: Any) -> int:
    """The steps of one blocker's end, among as many of one dependent."""
    with transaction(path) as db:
        started = StartChains([NewChain(job=NewJob("t")) for _ in range(blockers)]).write(db, NOW)
        named = tuple(chain.id for chain in started.chains())
        Enqueue([NewJob("u", blockers=named, on_blocker_failure=policy)]).write(db, NOW)
        [lease] = claimed(db, 1)
        settle = Settle([(lease, outcome)])
        steps = _steps(db.connection, lambda: settle.write(db, NOW))
        left = db.connection.execute(
            "SELECT state, blockers_open FROM windlass_jobs WHERE task = 'u'"
        )
        failed = isinstance(outcome, Fail) and policy == "fail"
        expected = ("failed", blockers) if failed else ("blocked", blockers - 1)
        assert left.fetchall() == [expected]
    return steps


@pytest.mark.parametrize(
    ("outcome", "policy"),
    [
        (Complete('"done"'), "fail"),
        (Fail("broke", final=True), "run"),
        (Fail("broke", final=True), "fail"),
    ],
    ids=["completes", "fails and is run without", "fails with it"],
)
def test_one_blocker_of_very_many_ends_as_one_of_two(
    tmp_path: Path, outcome: Outcome, policy: str
) -> None:
    few = _end_of_one(tmp_path / "few.db", 2, outcome, policy)
    many = _end_of_one(tmp_path / "many.db", 20_000, outcome, policy)
    assert few > 100, "the counter counts"
    assert many <= few * 1.05, (few, many)


def _loop(path: Path, at: Sequence[int], keep: float | None) -> list[int]:
    """The steps of one turn of a loop (claim and settle), the first times and much later."""
    counted = []
    with transaction(path) as db:
        StartChains([NewChain(job=NewJob("t", keep=keep))]).write(db, NOW)
        claimed(db, 0)  # the worker is known

        def turn() -> None:
            [lease] = claimed(db, 1)
            Settle([(lease, Complete("1", next=NewJob("t", keep=keep)))]).write(db, NOW)

        for number in range(max(at) + 1):
            if number in at:
                counted.append(_steps(db.connection, turn))
            else:
                turn()
        [(jobs,)] = db.connection.execute("SELECT count(*) FROM windlass_jobs")
        [(chains,)] = db.connection.execute("SELECT count(*) FROM windlass_chains")
        assert (jobs, chains) == (1, 1)
    return counted


@pytest.mark.parametrize("keep", [None, 3600.0], ids=["", "kept"])
def test_a_loop_costs_the_same_at_its_end_as_at_its_beginning(
    tmp_path: Path, keep: float | None
) -> None:
    early, late = _loop(tmp_path / "jobs.db", (5, 5_000), keep)
    assert early > 100, "the counter counts"
    assert late == early, (early, late)


def _look(path: Path, turns: int) -> int:
    """The steps of a look at a chain that has come so far, all of its jobs kept."""
    _loop(path, (turns,), 3600.0)
    with transaction(path) as db:
        [seen] = chain_admin.find(db, ChainFilter())
        assert seen.job is not None and seen.job.step == turns + 1
        looks = [
            _steps(db.connection, lambda: chain_admin.find(db, ChainFilter())),
            _steps(db.connection, lambda: chain_admin.get(db, seen.row.id, None)),
        ]
    return sum(looks)


def test_a_look_at_a_chain_reads_one_of_its_jobs(tmp_path: Path) -> None:
    assert _look(tmp_path / "few.db", 3) == _look(tmp_path / "many.db", 2_000)


@pytest.mark.parametrize("state", [ChainState.COMPLETED, ChainState.FAILED])
def test_a_list_of_one_state_reads_nothing_of_the_others(tmp_path: Path, state: ChainState) -> None:
    steps = []
    for number in (100, 5_000):
        with transaction(tmp_path / f"{number}.db") as db:
            StartChains([NewChain(job=NewJob("t"))] * 60).write(db, NOW)
            StartChains([NewChain(job=NewJob("u"))] * number).write(db, NOW)
            db.connection.execute(
                "UPDATE windlass_chains SET state = ?, finished_at = 1 WHERE task = 't'", (state,)
            )
            db.control("COMMIT")
            db.control("BEGIN IMMEDIATE")

            def look(db: Session = db) -> None:
                found = chain_admin.find(db, ChainFilter(states=(state,), limit=20))
                assert [seen.row.id for seen in found] == list(range(60, 40, -1))

            steps.append(_steps(db.connection, look))
    few, many = steps
    assert few > 100, "the counter counts"
    assert many <= few * 1.02, (few, many)


# ── leases, and the caller's own transaction ──


def test_outputs_beyond_the_limit_are_not_read_into_leases(tmp_path: Path) -> None:
    """The job that waited is claimed all the same, and `blockers` tells its chains."""

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            started = await store.start_chains([NewChain(job=NewJob("t"))] * 4)
            named = tuple(chain.id for chain in started)
            await store.enqueue([NewJob("u", blockers=named), NewJob("u", blockers=named[:1])])
            third = '"' + "x" * (MOST_BLOCKER_TEXT // 3) + '"'
            await store.settle([(lease, Complete(third)) for lease in await take(store)])
            long, short = sorted(await take(store), key=lambda lease: lease.job_id)
            assert long.blockers is None
            assert short.blockers is not None
            assert [chain.id for chain in decode_blockers(short.blockers)] == [named[0]]
            assert [chain.id for chain in await store.blockers(long.job_id)] == [*named]

    run(scenario())


def test_a_chain_joins_a_transaction_that_has_read_nothing_yet(tmp_path: Path) -> None:
    """It takes the write lock before it looks: what it has read cannot be out of date."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            with closing(plain(path, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                joined = store.joined(connection)
                [chain] = joined.start_chains([NewChain(job=NewJob("t"), key="k")])
                with (
                    closing(plain(path, timeout=0.0)) as other,
                    pytest.raises(sqlite3.OperationalError, match="locked"),
                ):
                    other.execute("UPDATE windlass_meta SET value = value")
                [again] = await joined.astart_chains([NewChain(job=NewJob("t"), key="k")])
                assert (again.id, again.deduplicated) == (chain.id, True)
                assert await store.get_chain(chain.id) is None
                connection.execute("COMMIT")
            found = await store.get_chain(chain.id)
            assert found is not None and found.job is not None
            assert found.job.state is JobState.READY

    run(scenario())
