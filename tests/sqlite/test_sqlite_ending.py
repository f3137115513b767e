"""Every job that ends passes `ending.ended`, whatever ends it, in the transaction that ends it.

Triggers see each job that comes into a final state or leaves the table; the function that stands in
for `ended` writes down what it is told, on the connection it is given. So what is undone is undone
in both, and the two accounts must agree.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.sqlite.sqlite_kit import jobs, opened, plain, run, take
from windlass.clock import Clock
from windlass.model.job import JobState
from windlass.store.port import Store
from windlass.store.records import (
    CANCEL,
    CANCELLED_KEPT,
    COMPLETE,
    RELEASE,
    ChainFilter,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)
from windlass.store.webhooks import WEBHOOK_TASK
from windlass.stores.sqlite import SqliteStore, ending
from windlass.stores.sqlite.connection import Session, connect, enter_wal
from windlass.stores.sqlite.ending import Ended
from windlass.stores.sqlite.schema import migrate
from windlass.testing.clock import FakeClock

ACCOUNTS = """
CREATE TABLE seen (id INTEGER, tenant TEXT, queue TEXT, state TEXT);
CREATE TABLE told (id INTEGER, tenant TEXT, queue TEXT, state TEXT);
CREATE TRIGGER job_gone AFTER DELETE ON windlass_jobs WHEN old.state <> 'cancelled'
BEGIN INSERT INTO seen VALUES (old.id, old.tenant, old.queue, NULL); END;
CREATE TRIGGER job_ended AFTER UPDATE OF state ON windlass_jobs
WHEN new.state IN ('completed', 'failed', 'cancelled') AND new.state <> old.state
BEGIN INSERT INTO seen VALUES (new.id, new.tenant, new.queue, new.state); END;
"""
"""A cancelled job is deleted by `prune` alone, which is no end."""

Account = list[tuple[int, str, str | None, str | None]]

really_ended = ending.ended


def tell(db: Session, ends: Collection[Ended]) -> None:
    """Write down what ends, and nothing more."""
    assert db.connection.in_transaction
    assert ends, "a call without a job"
    for job in ends:
        values = (job.id, job.tenant, job.queue, job.state)
        db.connection.execute("INSERT INTO told VALUES (?, ?, ?, ?)", values)


def tell_and_go_on(db: Session, ends: Collection[Ended]) -> None:
    tell(db, ends)
    really_ended(db, ends)


def refuse(db: Session, ends: Collection[Ended]) -> None:
    raise RuntimeError("what hangs at the end has failed")


def make_file(path: Path) -> None:
    """A database with the two accounts."""
    with closing(connect(str(path), "normal", make=True)) as connection:
        enter_wal(connection, str(path))
        migrate(connection, str(path), 30.0)
        connection.executescript(ACCOUNTS)


def read(path: Path, account: Literal["seen", "told"]) -> Account:
    with closing(plain(path)) as connection:
        return connection.execute(f"SELECT * FROM {account} ORDER BY id, state").fetchall()


def forget(path: Path) -> None:
    with closing(plain(path, isolation_level=None)) as connection:
        connection.executescript("DELETE FROM seen; DELETE FROM told;")


def posted(path: Path) -> list[tuple[int, str]]:
    """Which jobs' ends are posted, and how they ended."""
    with closing(plain(path)) as connection:
        return connection.execute(
            "SELECT payload ->> '$.job.id', payload ->> '$.job.state' FROM windlass_jobs"
            " WHERE task = ? ORDER BY id",
            (WEBHOOK_TASK,),
        ).fetchall()


def assert_agreement(path: Path) -> None:
    """A job that completed is seen to leave the table."""
    told = [
        (job_id, tenant, queue, None if state == "completed" else state)
        for job_id, tenant, queue, state in read(path, "told")
    ]
    assert sorted(told, key=str) == sorted(read(path, "seen"), key=str)


# ── the ways to end ──


class Scene:
    """One job, brought to where it is to end."""

    def __init__(self, path: Path, store: SqliteStore, clock: FakeClock) -> None:
        self.path = path
        self.store = store
        self.clock = clock
        self.id = 0
        self.tenant = ""
        self.lease: Lease | None = None

    @property
    def held(self) -> Lease:
        assert self.lease is not None
        return self.lease

    async def take(self) -> None:
        [self.lease] = await take(self.store)
        assert self.lease.job_id == self.id

    async def settle(self, outcome: Outcome) -> None:
        await self.store.settle([(self.held, outcome)])

    async def be_taken_back(self) -> None:
        """Its worker dies; from now on it is a suspect."""
        await self.store.unlock(["w"], 100)
        await self.take()


Step = Callable[[Scene], Awaitable[Any]]


def settled(outcome: Outcome) -> Step:
    return lambda scene: scene.settle(outcome)


async def settled_with_a_lost_one(scene: Scene) -> None:
    lost = msgspec.structs.replace(scene.held, job_id=10**9)
    await scene.store.settle([(scene.held, COMPLETE), (lost, COMPLETE)])


async def completed_in_a_transaction(scene: Scene) -> None:
    with scene.store.transaction(scene.held) as transaction:
        transaction.complete(COMPLETE)


async def reaped(scene: Scene) -> None:
    scene.clock.advance(3600.0)
    await scene.store.reap(10, 1)


class Way(NamedTuple):
    """How a job ends that is `ready`, `running` or `failed`; `before` is done to it first."""

    start: Literal["ready", "running", "failed"]
    state: JobState | None
    end: Step
    before: Step | None = None
    needs_key: bool = False


def ask_to_cancel(scene: Scene) -> Awaitable[Any]:
    return scene.store.cancel([scene.id])


def remove(scene: Scene) -> Awaitable[Any]:
    return scene.store.remove("k", scene.tenant)


COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED
LAST_TRY = Fail("broke", max_attempts=1)

WAYS = {
    "complete": Way("running", COMPLETED, settled(COMPLETE)),
    "complete-carefully": Way("running", COMPLETED, settled_with_a_lost_one),
    "complete-in-a-transaction": Way("running", COMPLETED, completed_in_a_transaction),
    "fail-for-good": Way("running", FAILED, settled(Fail("broke", final=True))),
    "fail-the-last-attempt": Way("running", FAILED, settled(LAST_TRY)),
    "fail-removed": Way("running", FAILED, settled(Fail("broke")), remove, needs_key=True),
    "fail-asked-to-cancel": Way("running", CANCELLED, settled(Fail("broke")), ask_to_cancel),
    "cancel": Way("running", CANCELLED, settled(CANCEL)),
    "release-removed": Way("running", FAILED, settled(RELEASE), remove, needs_key=True),
    "release-asked-to-cancel": Way("running", CANCELLED, settled(RELEASE), ask_to_cancel),
    "reap-killer": Way("running", FAILED, reaped, Scene.be_taken_back),
    "reap-removed": Way("running", FAILED, reaped, remove, needs_key=True),
    "reap-asked-to-cancel": Way("running", CANCELLED, reaped, ask_to_cancel),
    "expire-killer": Way(
        "running", FAILED, lambda scene: scene.store.expire([scene.held], 1), Scene.be_taken_back
    ),
    "expire-asked-to-cancel": Way(
        "running", CANCELLED, lambda scene: scene.store.expire([scene.held], 100), ask_to_cancel
    ),
    "unlock-killer": Way(
        "running", FAILED, lambda scene: scene.store.unlock(["w"], 1), Scene.be_taken_back
    ),
    "unlock-asked-to-cancel": Way(
        "running", CANCELLED, lambda scene: scene.store.unlock(["w"], 100), ask_to_cancel
    ),
    "retire-asked-to-cancel": Way(
        "running", CANCELLED, lambda scene: scene.store.retire("w"), ask_to_cancel
    ),
    "operator-cancel": Way("ready", CANCELLED, ask_to_cancel),
    "operator-complete": Way("ready", COMPLETED, lambda scene: scene.store.complete([scene.id])),
    "operator-fail": Way("ready", FAILED, lambda scene: scene.store.fail([scene.id], "no")),
    "operator-reschedule": Way(
        "ready",
        FAILED,
        lambda scene: scene.store.reschedule([scene.id], attempts=3, max_attempts=3),
    ),
    "remove": Way("ready", None, remove, needs_key=True),
    "complete-failed": Way("failed", COMPLETED, lambda scene: scene.store.complete([scene.id])),
    "remove-failed": Way("failed", None, remove, needs_key=True),
    "delete-failed": Way("failed", None, lambda scene: scene.store.delete_failed(10)),
    "delete": Way("ready", None, lambda scene: scene.store.delete([scene.id])),
    "delete-one-that-failed": Way("failed", None, lambda scene: scene.store.delete([scene.id])),
}

META = '{"webhook":"https://example.org/ended"}'

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"key": "k"},
    "queued": {"queue": "q"},
    "kept": {"keep": 3600.0},
    "tried": {},
    "strict": {"queue": "q", "is_strict": 1},
    "of-a-tenant": {"key": "k", "queue": "q", "tenant": "acme"},
    "everything": {"key": "k", "queue": "q", "keep": 3600.0},
    "webhook": {"meta": META},
    "webhook-and-everything": {"meta": META, "key": "k", "queue": "q", "keep": 3600.0},
}
TRIED = ("tried", "everything", "webhook-and-everything")
"""These have an attempt behind them."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with the two accounts, of which one is kept by what stands in for `ended`."""
    made = tmp_path / "jobs.db"
    make_file(made)
    monkeypatch.setattr(ending, "ended", tell_and_go_on)
    return made


async def set_up(scene: Scene, way: Way, kind: str) -> None:
    """The job, where it is to end, and before the others of its queue if it has one."""
    options = {**KINDS[kind], **({"key": "k"} if way.needs_key else {})}
    [job] = await scene.store.enqueue(jobs(1, **options))
    scene.id, scene.tenant = job.id, job.tenant or ""
    if job.queue is not None:
        await scene.store.enqueue(jobs(1, queue=job.queue, tenant=job.tenant or ""))
    if kind in TRIED:
        await scene.take()
        await scene.settle(Fail("broke"))
    if way.start != "ready":
        await scene.take()
    if way.before is not None:
        await way.before(scene)
    if way.start == "failed":
        await scene.settle(Fail("broke", final=True))
        [(ended, *_)] = read(scene.path, "told")
        assert ended == scene.id
        forget(scene.path)
    assert read(scene.path, "told") == read(scene.path, "seen") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WAYS)
def test_a_job_that_ends_passes_there_once(path: Path, name: str, kind: str) -> None:
    way, clock = WAYS[name], FakeClock()
    tenant, queue = KINDS[kind].get("tenant", ""), KINDS[kind].get("queue")

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up(scene, way, kind)
            before = posted(path)
            await way.end(scene)
            assert read(path, "told") == [(scene.id, tenant, queue, way.state)]
            assert_agreement(path)
            is_told = "meta" in KINDS[kind] and way.state is not None
            assert posted(path) == [*before, *([(scene.id, way.state)] if is_told else [])]
            holds = kind == "strict" and way.state is FAILED and not way.needs_key
            next_ones = await take(store, "v")
            expected = [scene.id + 1] if queue and not holds else []
            assert [lease.job_id for lease in next_ones] == expected

    run(scenario())


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.start != "failed"])
def test_the_queue_goes_on_from_there_and_nowhere_else(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, clock = WAYS[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up(scene, way, "queued")
            monkeypatch.setattr(ending, "ended", tell)
            await way.end(scene)
            assert await take(store, "v") == []

    run(scenario())


@pytest.mark.parametrize("kind", ["plain", "everything", "webhook"])
@pytest.mark.parametrize("name", WAYS)
def test_an_end_that_cannot_have_its_consequence_does_not_happen(
    path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, clock = WAYS[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up(scene, way, kind)
            before, told = await store.get(scene.id), posted(path)
            assert before is not None
            monkeypatch.setattr(ending, "ended", refuse)
            with pytest.raises(RuntimeError, match="what hangs"):
                await way.end(scene)
            assert await store.get(scene.id) == before
            assert posted(path) == told
            assert read(path, "seen") == []

    run(scenario())


# ── chains and blockers ──

ROLES = ("of-a-chain", "last-of-a-blocker", "dependent")


async def end_a_chain(store: SqliteStore) -> int:
    """A chain that has completed."""
    [chain] = await store.start_chains([NewChain(job=NewJob("t"))])
    [lease] = await take(store, "starter")
    assert lease.job_id == chain.id
    await store.settle([(lease, COMPLETE)])
    return chain.id


async def set_up_role(
    scene: Scene, way: Way, role: str, keep: float | None, meta: str | None = None
) -> int | None:
    """The job, where it is to end; the job that waits for its chain, if one does."""
    store, waiting = scene.store, None
    if role == "dependent":
        new = NewJob("t", key="k", keep=keep, meta=meta, blockers=(await end_a_chain(store),))
        [job] = await store.enqueue([new])
        scene.id = job.id
    else:
        [chain] = await store.start_chains([NewChain(job=NewJob("t", keep=keep, meta=meta))])
        scene.id = chain.id
    if role == "last-of-a-blocker":
        [dependent] = await store.enqueue([NewJob("t", queue="q", meta=meta, blockers=(scene.id,))])
        waiting = dependent.id
    if way.start != "ready":
        await scene.take()
    if way.before is not None:
        await way.before(scene)
    if way.start == "failed":
        await scene.settle(Fail("broke", final=True))
    forget(scene.path)
    return waiting


BY_ID = ("delete", "delete-one-that-failed")
"""One job is deleted, which is nothing to its chain, and does not happen while that is open."""


def _fits(name: str, role: str) -> bool:
    """A job of a chain has no key."""
    return role == "dependent" or not (WAYS[name].needs_key or name in BY_ID)


ROLE_WAYS = [(name, role) for name in WAYS for role in ROLES if _fits(name, role)]


@pytest.mark.parametrize("meta", [None, META], ids=["", "webhook"])
@pytest.mark.parametrize("keep", [None, 3600.0], ids=["", "kept"])
@pytest.mark.parametrize(("name", "role"), ROLE_WAYS)
def test_what_follows_for_chains_happens_with_the_end(
    path: Path, name: str, role: str, keep: float | None, meta: str | None
) -> None:
    way, clock = WAYS[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            waiting = await set_up_role(scene, way, role, keep, meta)
            before = posted(path)
            await way.end(scene)
            told: Account = [(scene.id, "", None, way.state)]
            if waiting is not None:
                dependent = await store.get(waiting)
                if way.start == "failed":  # it failed with the chain before
                    expected = None if way.state is None else FAILED
                    told += [(waiting, "", "q", None)] if way.state is None else []
                else:
                    expected = JobState.READY if way.state is COMPLETED else FAILED
                    told += [(waiting, "", "q", FAILED)] if expected is FAILED else []
                assert (None if dependent is None else dependent.state) is expected
            assert read(path, "told") == told
            assert_agreement(path)
            ends = [(job_id, state) for job_id, _, _, state in told if state is not None]
            assert sorted(posted(path)[len(before) :]) == (sorted(ends) if meta else [])
            if role != "dependent":
                chain = await store.get_chain(scene.id)
                assert chain is not None
                assert chain.state.value == (way.state or FAILED).value
            else:
                is_stored = await store.get(scene.id) is not None
                assert stored_blockers(path, scene.id) == int(is_stored)

    run(scenario())


def stored_blockers(path: Path, job_id: int) -> int:
    with closing(plain(path)) as connection:
        counted = connection.execute(
            "SELECT count(*) FROM windlass_blockers WHERE job = ?", (job_id,)
        )
        return int(counted.fetchone()[0])


@pytest.mark.parametrize(("name", "role"), ROLE_WAYS)
def test_nothing_follows_for_chains_from_an_end_that_does_not_happen(
    path: Path, name: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, clock = WAYS[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up_role(scene, way, role, None)

            async def everything() -> Any:
                jobs = await store.find(JobFilter())
                chains = await store.find_chains(ChainFilter())
                return jobs, chains, [await store.blockers(job.id) for job in jobs]

            before = await everything()
            monkeypatch.setattr(ending, "ended", refuse)
            with pytest.raises(RuntimeError, match="what hangs"):
                await way.end(scene)
            assert await everything() == before
            assert read(path, "seen") == []

    run(scenario())


ON = NewJob("u")
STEPS: dict[str, Complete] = {
    "goes-on": Complete("1", next=ON),
    "goes-on-in-a-queue": Complete("1", next=NewJob("u", queue="q")),
    "starts-others": Complete("1", starts=(NewChain(job=ON), NewChain(job=ON))),
    "fans-out-and-in": Complete(
        "1",
        next=NewJob("u", blockers=(-1, -2)),
        starts=(NewChain(job=ON), NewChain(job=NewJob("u", blockers=(-1,)))),
    ),
}


@pytest.mark.parametrize("meta", [None, META], ids=["", "webhook"])
@pytest.mark.parametrize("carefully", [False, True], ids=["quick", "careful"])
@pytest.mark.parametrize("is_chain", [False, True], ids=["job", "chain"])
@pytest.mark.parametrize("step", STEPS)
def test_a_job_that_goes_on_passes_there_once(
    path: Path, step: str, is_chain: bool, carefully: bool, meta: str | None
) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            if is_chain:
                await store.start_chains([NewChain(job=NewJob("t", queue="p", meta=meta))])
            else:
                await store.enqueue([NewJob("t", queue="p", meta=meta)])
            await store.enqueue([NewJob("t", queue="p")])
            [lease] = await take(store)
            asked: list[tuple[Lease, Outcome]] = [(lease, STEPS[step])]
            if carefully:
                asked.append((msgspec.structs.replace(lease, job_id=10**9), COMPLETE))
            await store.settle(asked)
            assert read(path, "told") == [(lease.job_id, "", "p", COMPLETED)]
            assert_agreement(path)
            assert posted(path) == ([(lease.job_id, "completed")] if meta else [])
            due = 2 if step.startswith("goes-on") else 3 if step == "starts-others" else 2
            assert len(await take(store, "v")) == due

    run(scenario())


# ── what is no end ──


async def replaced_by_key(scene: Scene) -> None:
    [job] = await scene.store.enqueue([NewJob(task="t", payload="{}", key="k")])
    assert job.id == scene.id


async def forgotten(scene: Scene) -> None:
    """Kept and cancelled jobs go, long after their ends."""
    scene.clock.advance(2 * CANCELLED_KEPT)
    assert await scene.store.prune(10) == 1


NO_END = {
    "release": Way("running", None, settled(RELEASE)),
    "fail-with-attempts-left": Way("running", None, settled(Fail("broke"))),
    "be-asked-to-cancel": Way("running", None, ask_to_cancel),
    "be-removed-while-it-runs": Way("running", None, remove),
    "be-taken-back": Way("running", None, lambda scene: scene.store.unlock(["w"], 1)),
    "be-expired": Way("running", None, lambda scene: scene.store.expire([scene.held], 1)),
    "be-retired": Way("running", None, lambda scene: scene.store.retire("w")),
    "be-rescheduled": Way(
        "ready", None, lambda scene: scene.store.reschedule([scene.id], priority=7)
    ),
    "be-replaced": Way("ready", None, replaced_by_key),
    "be-retried": Way("failed", None, lambda scene: scene.store.retry([scene.id])),
    "fail-again": Way("failed", None, lambda scene: scene.store.fail([scene.id], "no")),
    "be-replaced-failed": Way("failed", None, replaced_by_key),
}


@pytest.mark.parametrize("name", NO_END)
def test_no_end(path: Path, name: str) -> None:
    way, clock = NO_END[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up(scene, way, "everything")
            await way.end(scene)
            assert read(path, "told") == read(path, "seen") == []

    run(scenario())


@pytest.mark.parametrize("name", ["complete", "operator-complete", "operator-cancel"])
def test_to_be_forgotten_is_no_end(path: Path, name: str) -> None:
    way, clock = WAYS[name], FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            scene = Scene(path, store, clock)
            await set_up(scene, way, "kept")
            await way.end(scene)
            forget(path)
            await forgotten(scene)
            assert read(path, "told") == read(path, "seen") == []

    run(scenario())


# ── batches ──


def test_a_batch_is_one_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(db: Session, ends: Collection[Ended]) -> None:
        calls.append(len(ends))
        tell_and_go_on(db, ends)

    monkeypatch.setattr(ending, "ended", count)

    async def scenario() -> None:
        async with opened(path) as store:
            await store.enqueue(jobs(40))
            leases = await take(store)
            await store.settle([(lease, COMPLETE) for lease in leases[:10]])
            await store.settle([(lease, CANCEL) for lease in leases[10:20]])
            await store.settle([(lease, Fail("broke", final=True)) for lease in leases[20:]])
            await store.complete([lease.job_id for lease in leases[20:30]])
            assert await store.delete_failed(100) == 10
            assert await store.delete_failed(100) == 0

    run(scenario())
    assert calls == [10, 10, 20, 10, 10]
    assert_agreement(path)


def test_queues_that_changed_go_on_beside_those_where_a_job_ended(path: Path) -> None:
    """In one batch one job ends, another is to be tried again; both queues have a next job."""

    async def scenario() -> None:
        async with opened(path) as store:
            for queue in ("ends", "again"):
                await store.enqueue(jobs(2, queue=queue))
            leases = {lease.queue: lease for lease in await take(store)}
            await store.settle(
                [
                    (leases["ends"], Fail("broke", final=True)),
                    (leases["again"], Fail("broke", delay=60.0)),
                ]
            )
            claimed = {lease.queue: lease.job_id for lease in await take(store)}
            assert claimed == {queue: lease.job_id + 1 for queue, lease in leases.items()}

    run(scenario())
    assert_agreement(path)


# ── whatever programs do ──

END_NOTHING = ("introduce", "find", "register", "change_schedule")
"""Rules of the machine that are left out, so that more of each program concerns ends."""


@pytest.mark.slow
def test_random_programs_end_no_job_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    from tests.machines.machine import Machine

    ends = 0

    @contextmanager
    def fresh(clock: Clock) -> Iterator[Store]:
        nonlocal ends
        with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
            path = Path(folder) / "jobs.db"
            make_file(path)
            yield SqliteStore(path, clock=clock, synchronous="normal")
            assert_agreement(path)
            ends += len(read(path, "told"))

    kept = {"fresh": staticmethod(fresh), **dict.fromkeys(END_NOTHING)}
    machine = type("EndingMachine", (Machine,), kept)
    monkeypatch.setattr(ending, "ended", tell_and_go_on)
    chosen = settings(
        max_examples=15,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
    assert ends > 20, "too few for the agreement to say much"
