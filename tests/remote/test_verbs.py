"""The table of verbs: complete, the same on both sides, and bound to tenants, roles and tokens.

The matrix is made from the table: a verb that is added needs a line in `_ARGUMENTS`, and is tried
with every role, and with a tenant that is not the caller's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.remote.serving import ADMIN, Serving, serving, token
from windlass.errors import (
    ChainNotFoundError,
    ConfigError,
    StoreError,
    ValidationError,
    WindlassError,
)
from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.server import pages
from windlass.server.calls import CallService
from windlass.server.calls.caller import Caller
from windlass.server.calls.table import rules
from windlass.server.calls.working import Renewals
from windlass.server.identity import Identity, Power, Role
from windlass.store import port
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    LostReason,
    NewChain,
    NewJob,
    Note,
    Verdict,
)
from windlass.stores.memory import MemoryStore
from windlass.stores.remote import RemoteStore, ServerAddress
from windlass.wire import calls
from windlass.wire.calls import NEEDS_DATABASE, NO_CALLS, VERBS
from windlass.wire.windlass_pb2 import WorkerServerEvent

MINE, OTHER = "mine", "other"
_OF_STREAM = {"describe", "subscribe"}


# ── the table ──


def _port() -> dict[str, Any]:
    """The port's verbs, those of the lifeline too."""
    found = {}
    for protocol in (port.Lifeline, port.Store):
        for name, member in inspect.getmembers(protocol):
            if not name.startswith("_"):
                found[name] = member
    return found


def test_each_verb_of_the_port_can_be_called_or_needs_the_database() -> None:
    assert set(_port()) == set(VERBS) - {"describe"} | {*NEEDS_DATABASE, *NO_CALLS}


@pytest.mark.parametrize("name", sorted(set(VERBS) - _OF_STREAM))
def test_arguments_have_the_names_of_the_ports_parameters(name: str) -> None:
    parameters = list(inspect.signature(_port()[name]).parameters.values())[1:]
    fields = msgspec.structs.fields(VERBS[name].arguments)
    assert {field.name for field in fields} == {each.name for each in parameters}
    for each in parameters:
        [field] = [field for field in fields if field.name == each.name]
        if each.default is not inspect.Parameter.empty and field.default_factory is not list:
            assert field.default == each.default


def test_the_server_has_a_rule_for_each_verb() -> None:
    renewals = Renewals(MemoryStore())
    try:
        assert set(rules(renewals)) == set(VERBS)
    finally:
        renewals.close()


def test_what_needs_the_database_is_refused_without_a_server() -> None:
    store = RemoteStore(ServerAddress("127.0.0.1", 1))
    for refused in (
        lambda: store.connection(),
        lambda: store.transaction(_lease()),
        lambda: store.joined(None),
    ):
        with pytest.raises(ConfigError, match="not its database"):
            refused()


# ── the matrix ──

_ROLES = (Role.PRODUCER, Role.WORKER, Role.OPERATOR, Role.ADMIN)


def _lease(job: int = 1, tenant: str = MINE, **more: Any) -> calls.Held:
    return calls.Held(
        task="t",
        tenant=tenant,
        job_id=job,
        token=1,
        worker="w",
        attempts=1,
        deliveries=1,
        run_at=0,
        revision=0,
        resets=0,
        suspect=False,
        created_at=0,
        updated_at=0,
        last_error=None,
        **more,
    )


def _new(tenant: str) -> NewJob:
    return NewJob("t", tenant=tenant)


_ARGUMENTS: dict[str, Callable[[str], calls.Arguments]] = {
    "describe": lambda tenant: calls.Nothing(),
    "subscribe": lambda tenant: calls.Nothing(),
    "now": lambda tenant: calls.Nothing(),
    "stranded": lambda tenant: calls.Nothing(),
    "next_due": lambda tenant: calls.Nothing(),
    "renew": lambda tenant: calls.Renew(worker="w", lease=5.0, leases=[_lease(tenant=tenant)]),
    "check": lambda tenant: calls.Check(worker="w", leases=[_lease(tenant=tenant)]),
    "retire": lambda tenant: calls.Retire(worker="w"),
    "introduce": lambda tenant: calls.Introduce(worker="w", tasks=("t",), tenants=(tenant,)),
    "get": lambda tenant: calls.OneJob(job_id=1, tenant=tenant),
    "get_by_key": lambda tenant: calls.OneKey(key="k", tenant=tenant),
    "find": lambda tenant: calls.Find(wanted=JobFilter(tenant=tenant)),
    "counts": lambda tenant: calls.Seen(tenant=tenant),
    "workers": lambda tenant: calls.Seen(tenant=tenant),
    "paused": lambda tenant: calls.Seen(tenant=tenant),
    "pause": lambda tenant: calls.TaskOrQueue(task="p", tenant=tenant),
    "resume": lambda tenant: calls.TaskOrQueue(task="p", tenant=tenant),
    "schedules": lambda tenant: calls.Seen(tenant=tenant),
    "register": lambda tenant: calls.Register(
        wanted=[Schedule(identifier="s", task="t", pattern="* * * * *")], tenant=tenant
    ),
    "pause_schedule": lambda tenant: calls.OneSchedule(identifier="s", tenant=tenant),
    "resume_schedule": lambda tenant: calls.OneSchedule(identifier="s", tenant=tenant),
    "forget_schedule": lambda tenant: calls.OneSchedule(identifier="s", tenant=tenant),
    "get_chain": lambda tenant: calls.OneChain(chain_id=1, tenant=tenant),
    "find_chains": lambda tenant: calls.FindChains(wanted=ChainFilter(tenant=tenant)),
    "chain_jobs": lambda tenant: calls.OneChain(chain_id=1, tenant=tenant),
    "blocked_jobs": lambda tenant: calls.OneChain(chain_id=1, tenant=tenant),
    "blockers": lambda tenant: calls.OneJob(job_id=1, tenant=tenant),
    "claim": lambda tenant: calls.Claim(request=ClaimRequest("w", ("t",), 1, tenants=(tenant,))),
    "settle": lambda tenant: calls.Settle(
        settlements=[calls.ended(_lease(tenant=tenant), Complete(next=_new(tenant)))]
    ),
    "note": lambda tenant: calls.NoteOf(lease=_lease(tenant=tenant), note=Note('[1,""]')),
    "expire": lambda tenant: calls.Expire(leases=[_lease(tenant=tenant)], max_resets=1),
    "reap": lambda tenant: calls.Reap(limit=1, max_resets=1),
    "promote": lambda tenant: calls.Limit(limit=1),
    "prune": lambda tenant: calls.Prune(limit=1),
    "enqueue": lambda tenant: calls.Enqueue(jobs=[_new(tenant)]),
    "start_chains": lambda tenant: calls.StartChains(chains=[NewChain(job=_new(tenant))]),
    "fire": lambda tenant: calls.Fire(
        identifier="s", expected=0, until=1, jobs=[_new(tenant)], tenant=tenant
    ),
    "complete_chain": lambda tenant: calls.CompleteChain(
        chain_id=1, completion=COMPLETE, tenant=tenant
    ),
    "cancel_chains": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "retry_chains": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "delete_chains": lambda tenant: calls.DeleteChains(ids=(1,), tenant=tenant),
    "cancel": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "complete": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "fail": lambda tenant: calls.FailJobs(ids=(1,), reason="r", tenant=tenant),
    "reschedule": lambda tenant: calls.Reschedule(ids=(1,), priority=3, tenant=tenant),
    "retry": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "delete": lambda tenant: calls.Ids(ids=(1,), tenant=tenant),
    "remove": lambda tenant: calls.OneKey(key="k", tenant=tenant),
    "unlock": lambda tenant: calls.Unlock(workers=("w",), max_resets=1),
    "delete_failed": lambda tenant: calls.DeleteFailed(limit=1, tenant=tenant),
}

_SEEING = sorted(
    name
    for name, make in _ARGUMENTS.items()
    if getattr(make(OTHER), "tenant", None) == OTHER
    or getattr(getattr(make(OTHER), "wanted", None), "tenant", None) == OTHER
)
"""Verbs that name a tenant, and would look in it or change it."""


@contextmanager
def two_tenants() -> Iterator[Serving]:
    """A server with a token of each role for each of two tenants."""
    tokens = dict(
        token(f"{role}-{tenant}", role, tenant=tenant)
        for role in _ROLES
        for tenant in (MINE, OTHER)
    )
    with serving("memory://", tokens=tokens) as served:
        yield served


@pytest.fixture
def served() -> Iterator[Serving]:
    with two_tenants() as server:
        yield server


def _text(served: Serving, role: Role, tenant: str = MINE) -> str:
    return served.texts[f"{role}-{tenant}"]


async def _answers(served: Serving, text: str, each: dict[str, calls.Arguments]) -> dict[str, Any]:
    """The answer of each verb, or the error."""
    store = served.remote(text)
    await store.open()
    try:
        found = {}
        for name, arguments in each.items():
            try:
                answer = await asyncio.wrap_future(store.link.call(name, arguments))
                found[name] = VERBS[name].decode_answer(answer)
            except WindlassError as error:
                found[name] = error
        return found
    finally:
        await store.close()


def _is_refused(answer: Any) -> bool:
    return isinstance(answer, StoreError) and "may not call" in str(answer)


@pytest.mark.parametrize("role", _ROLES)
def test_each_role_may_call_the_verbs_of_its_powers(served: Serving, role: Role) -> None:
    renewals = Renewals(MemoryStore())
    table = rules(renewals)
    renewals.close()
    identity = Identity(name="x", roles=frozenset({role}))
    each = {name: make(MINE) for name, make in _ARGUMENTS.items()}
    assert set(each) == set(VERBS)
    answers = asyncio.run(_answers(served, _text(served, role), each))
    refused = {name for name, answer in answers.items() if _is_refused(answer)}
    assert refused == {name for name, rule in table.items() if not identity.may(rule.power)}
    powers = {name: rule.power for name, rule in table.items()}
    assert powers["reap"] is powers["unlock"] is Power.ADMINISTER


def test_a_verb_that_names_another_tenant_is_refused(served: Serving) -> None:
    each = {name: _ARGUMENTS[name](OTHER) for name in _SEEING}
    assert len(each) > 20
    for role in (Role.PRODUCER, Role.WORKER, Role.OPERATOR):
        answers = asyncio.run(_answers(served, _text(served, role), each))
        for name, answer in answers.items():
            assert isinstance(answer, StoreError), (role, name, answer)
            assert _is_refused(answer) or "for one tenant" in str(answer), (role, name, answer)


# ── one tenant beside another ──


async def _world(served: Serving) -> dict[str, int]:
    """A job, a running one, a failed one, and a chain of the other tenant."""
    boss = served.remote(_text(served, Role.ADMIN))
    await boss.open()
    added = await boss.enqueue(
        [NewJob("t", key=f"k{n}", tenant=OTHER, max_attempts=1) for n in range(3)]
    )
    [chain] = await boss.start_chains([NewChain(job=NewJob("t", tenant=OTHER), key="c")])
    await boss.fail([added[2].id], "broken")
    await boss.close()
    return {"job": added[0].id, "failed": added[2].id, "chain": chain.id}


def test_ids_of_another_tenant_do_not_exist(served: Serving) -> None:
    asyncio.run(_foreign_ids(served))


async def _foreign_ids(served: Serving) -> None:
    ids = await _world(served)
    store = served.remote(_text(served, Role.OPERATOR))
    await store.open()
    all_ids = tuple(ids.values())
    try:
        for job in all_ids:
            assert await store.get(job) is None
            assert await store.get_chain(job) is None
            assert await store.chain_jobs(job) == await store.blocked_jobs(job) == []
            assert await store.blockers(job) == []
        assert await store.get_by_key("k0") is None
        assert await store.remove("k0") is None
        assert await store.find(JobFilter()) == []
        assert await store.find_chains(ChainFilter()) == []
        assert set((await store.counts()).values()) <= {0}
        for change in (store.cancel, store.complete, store.retry, store.delete):
            assert await change(all_ids) == []
        assert await store.fail(all_ids, "r") == []
        assert await store.reschedule(all_ids, priority=1) == []
        assert await store.delete_failed(100) == 0
        assert await store.delete_chains([ids["chain"]]) == []
        for of_chains in (store.cancel_chains, store.retry_chains):
            with pytest.raises(LookupError):
                await of_chains([ids["chain"]])
        with pytest.raises(LookupError):
            await store.complete_chain(ids["chain"], COMPLETE)
        with pytest.raises(LookupError):
            await store.enqueue([NewJob("t", blockers=(ids["chain"],))])
        await store.pause(task="t")
        assert (await store.paused()).tasks == ("t",)
        assert (await store.paused()).elsewhere == ()
        [added] = await store.enqueue([NewJob("t", key="k0")])
        assert added.tenant == MINE
        assert added.id not in all_ids
    finally:
        await store.close()
    there = served.remote(_text(served, Role.PRODUCER, OTHER))
    await there.open()
    try:
        left = {job.id: job.state for job in await there.find(JobFilter())}
        assert (left[ids["job"]], left[ids["failed"]]) == (JobState.READY, JobState.FAILED)
        assert (await there.paused()).tasks == ()
    finally:
        await there.close()


def _two(served: Serving) -> tuple[RemoteStore, RemoteStore]:
    return served.remote(_text(served, Role.WORKER)), served.remote(
        _text(served, Role.WORKER, OTHER)
    )


def _each(test: Callable[[Serving], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """With a fresh database, and tokens of both tenants."""

    def run() -> None:
        with two_tenants() as served:
            asyncio.run(test(served))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def _claim(store: RemoteStore, **more: Any) -> list[Lease]:
    return await store.claim(ClaimRequest("w", ("t",), 10, **more))


@_each
async def test_a_lease_of_another_tenant_is_missing(served: Serving) -> None:
    mine, theirs = _two(served)
    await mine.open()
    await theirs.open()
    try:
        [job] = await theirs.enqueue([NewJob("t")])
        assert await _claim(mine) == []
        [lease] = await _claim(theirs)
        assert (lease.worker, lease.tenant) == ("w", OTHER)
        forged = msgspec.structs.replace(lease, tenant=MINE)
        for each in (lease, forged, _lease(job.id, OTHER), _lease(job.id, MINE)):
            [settled] = await mine.settle([(each, COMPLETE)])
            [expired] = await mine.expire([each], 1)
            assert settled.verdict is expired.verdict is Verdict.MISSING
            assert await mine.note(each, Note('[1,"half"]')) is Verdict.MISSING
            line = mine.lifeline()
            renewal = await asyncio.to_thread(line.renew, "w", 5.0, [each], [(each, 500.0)])
            assert renewal.lost == {job.id: LostReason.NOT_FOUND}
            checked = await asyncio.to_thread(line.check, "w", [each])
            assert checked.lost == {job.id: LostReason.NOT_FOUND}
            line.close()
        [settled] = await theirs.settle([(lease, COMPLETE)])
        assert settled.verdict is Verdict.APPLIED
    finally:
        await mine.close()
        await theirs.close()


@_each
async def test_workers_of_one_name_are_not_one(served: Serving) -> None:
    """The other tenant's worker is neither renewed nor retired, and its name is not told."""
    mine, theirs = _two(served)
    await mine.open()
    await theirs.open()
    try:
        await theirs.enqueue([NewJob("t")])
        await mine.enqueue([NewJob("t")])
        [theirs_lease] = await _claim(theirs)
        [mine_lease] = await _claim(mine)
        assert [info.id for info in await mine.workers()] == ["w"]
        assert [job.locked_by for job in await mine.find(JobFilter())] == ["w"]
        assert await mine.introduce("w", ("t",))
        await mine.retire("w")
        assert await mine.workers() == []
        [info] = await theirs.workers()
        assert (info.id, info.running) == ("w", 1)
        [lost] = await mine.settle([(mine_lease, COMPLETE)])
        assert lost.verdict is Verdict.LOST
        [applied] = await theirs.settle([(theirs_lease, COMPLETE)])
        assert applied.verdict is Verdict.APPLIED
        names = {info.id for info in await served_workers(served)}
        assert len(names) == 1
        assert all("@" in name for name in names), "the tenant is part of the name"
    finally:
        await mine.close()
        await theirs.close()


async def served_workers(served: Serving) -> Any:
    boss = served.remote(ADMIN)
    await boss.open()
    try:
        return await boss.workers()
    finally:
        await boss.close()


@_each
async def test_jobs_from_a_client_that_checks_nothing_are_checked(served: Serving) -> None:
    store = served.remote(_text(served, Role.WORKER))
    await store.open()
    bad = [
        NewJob(""),
        NewJob("x" * 200),
        NewJob("windlass.webhook"),
        NewJob("t", "{not json"),
        NewJob("t", "[" * 100 + "]" * 100),
        NewJob("t", '"\\u0000"'),
        NewJob("t", queue=""),
        NewJob("t", key="k" * 600),
        NewJob("t", priority=2**40),
        NewJob("t", max_attempts=0),
        NewJob("t", flags=("",)),
        NewJob("t", keep=-1.0),
        NewJob("t", delay=-5),
        NewJob("t", run_at=-5),
        NewJob("t", meta="{"),
        NewJob("t", meta='{"webhook":"http://127.0.0.1/"}'),
    ]
    try:
        await store.enqueue([NewJob("t")])
        [lease] = await _claim(store)
        for new in bad:
            with pytest.raises(ValidationError):
                await store.enqueue([NewJob("t"), new])
            with pytest.raises(ValidationError):
                await store.start_chains([NewChain(job=new)])
            with pytest.raises(ValidationError):
                await store.settle([(lease, Complete(next=new))])
            with pytest.raises(ValidationError):
                await store.settle([(lease, Complete(starts=(NewChain(job=new),)))])
        assert [job.state for job in await store.find(JobFilter())] == [JobState.RUNNING]
    finally:
        await store.close()


def test_a_worker_of_some_tasks_reads_these_alone() -> None:
    text, known = token("w", Role.WORKER, tasks=("a", "b"))
    with serving("memory://", tokens={text: known}) as served:
        asyncio.run(_some_tasks(served, text))


async def _some_tasks(served: Serving, text: str) -> None:
    store = served.remote(text)
    await store.open()
    try:
        added = await store.enqueue([NewJob(task) for task in "abcabc"])
        newest_first = list(reversed([job for job in added if job.task != "c"]))
        assert await store.find(JobFilter()) == newest_first
        assert await store.find(JobFilter(limit=3)) == newest_first[:3]
        page = await store.find(JobFilter(limit=3, after=newest_first[2].id))
        assert page == newest_first[3:]
        assert await store.find(JobFilter(task="c")) == []
        seen: list[Job | None] = [await store.get(job.id) for job in added]
        assert [job is not None for job in seen] == [True, True, False] * 2
        with pytest.raises(StoreError, match="for some tasks"):
            await store.counts()
        leases = await store.claim(ClaimRequest("w", None, 10))
        assert sorted(lease.task for lease in leases) == ["a", "a", "b", "b"]
        assert await store.claim(ClaimRequest("w", ("a", "c"), 10)) == []
        with pytest.raises(StoreError, match="it is for: a, b"):
            await store.claim(ClaimRequest("w", ("c",), 10))
    finally:
        await store.close()


@_each
async def test_jobs_of_windlass_itself_are_not_claimed(served: Serving) -> None:
    store = served.remote(_text(served, Role.WORKER))
    await store.open()
    try:
        await served.store.enqueue([NewJob("windlass.webhook", tenant=MINE)])
        await store.enqueue([NewJob("t")])
        with pytest.raises(StoreError, match="Windlass's own"):
            await store.claim(ClaimRequest("w", ("windlass.webhook",), 10))
        leases = await store.claim(ClaimRequest("w", ("windlass.webhook", "t"), 10))
        assert [lease.task for lease in leases] == ["t"]
    finally:
        await store.close()


def test_a_worker_of_some_tasks_learns_nothing_of_others_by_adding() -> None:
    text, known = token("w", Role.WORKER, tasks=("a",))
    with serving("memory://", tokens={text: known}) as served:
        asyncio.run(_adds_for_some_tasks(served, text))


async def _adds_for_some_tasks(served: Serving, text: str) -> None:
    store = served.remote(text)
    await store.open()
    try:
        [chain] = await served.store.start_chains([NewChain(job=NewJob("c", "[1]"), key="c")])
        [held] = await served.store.enqueue([NewJob("c", "[1]", key="k")])
        [job] = await served.store.enqueue([NewJob("a", blockers=(chain.id,))])
        with pytest.raises(ChainNotFoundError):
            await store.enqueue([NewJob("a", blockers=(chain.id,))])
        with pytest.raises(ValidationError, match="key"):
            await store.enqueue([NewJob("a", key="k")])
        with pytest.raises(ChainNotFoundError):
            await store.start_chains([NewChain(job=NewJob("a", blockers=(chain.id,)))])
        [same] = await store.start_chains([NewChain(job=NewJob("a"), key="c")])
        [blocker] = await store.blockers(job.id)
        assert same.id == blocker.id == chain.id
        assert same.payload is same.job is blocker.payload is blocker.job is None
        assert (await served.store.get(held.id)) == held
        # A worker's own job is shown what it waited for.
        [first] = await served.store.claim(ClaimRequest("x", ("c",), 1))
        await served.store.settle([(first, Complete(output="[2]"))])
        [lease] = await store.claim(ClaimRequest("w", ("a",), 1))
        [shown] = await store.blockers(lease.job_id)
        assert shown.output == [2]
        with pytest.raises(ChainNotFoundError):
            next_job = NewJob("a", blockers=(chain.id,))
            await store.settle([(lease, Complete(next=next_job))])
    finally:
        await store.close()


@_each
async def test_ends_and_notes_from_a_client_that_checks_nothing_are_checked(
    served: Serving,
) -> None:
    store = served.remote(_text(served, Role.WORKER))
    await store.open()
    try:
        await store.enqueue([NewJob("t", keep=60.0)] * 2)
        lease, other = await _claim(store)
        bad: list[Complete | Fail] = [
            Complete("{not json"),
            Complete('"\\u0000"'),
            Complete(keep=-1.0),
            Fail("e", delay=-1.0),
            Fail("e", payload="{"),
            Fail("e", run_at=-5),
        ]
        settled = await store.settle([(lease, outcome) for outcome in bad])
        assert {each.verdict for each in settled} == {Verdict.REFUSED}
        for note in (Note("{"), Note('[2,""]'), Note(entry="{"), Note(entry=f'"{"x" * 20_000}"')):
            with pytest.raises(ValidationError):
                await store.note(lease, note)
        assert await store.note(lease, Note('[0.5,"half"]', '{"a":1}')) is Verdict.APPLIED
        both: list[tuple[Lease, Complete | Fail]] = [
            (lease, Fail("e" * 100_000, final=True)),
            (other, Complete("[1]")),
        ]
        assert {each.verdict for each in await store.settle(both)} == {Verdict.APPLIED}
        job = await store.get(lease.job_id)
        assert job is not None and len(job.last_error or "") < 20_000
    finally:
        await store.close()


def test_an_admin_adds_to_its_own_tenant_unless_it_names_one() -> None:
    text, known = token("boss", Role.ADMIN, tenant=MINE)
    with serving("memory://", tokens={text: known}) as served:
        asyncio.run(_adds_as_admin(served, text))


async def _adds_as_admin(served: Serving, text: str) -> None:
    store = served.remote(text)
    await store.open()
    try:
        own, named = await store.enqueue([NewJob("t"), NewJob("t", tenant=OTHER)])
        assert (own.tenant, named.tenant) == (MINE, OTHER)
        await store.enqueue([NewJob("t", key="k")])
        assert await store.get_by_key("k") is not None
        [there] = await served.store.enqueue([NewJob("d")])
        [lease] = await store.claim(ClaimRequest("w", ("d",), 1))
        [settled] = await store.settle([(lease, Complete(next=NewJob("next")))])
        assert settled.verdict is Verdict.APPLIED
        [after] = await store.find(JobFilter(task="next"))
        assert (after.tenant, after.chain) == (None, there.id), "of the tenant of its chain"
    finally:
        await store.close()


@_each
async def test_the_answer_to_an_addition_is_the_job_as_it_is_stored(served: Serving) -> None:
    """A client builds it from its own request, the ids and the instant."""
    store = served.remote(_text(served, Role.WORKER))
    await store.open()
    new = [
        NewJob("t", '{"n":1}'),
        NewJob("t", '{"n":2}'),
        NewJob("t", "[3]", tenant=MINE, delay=60_000_000),
        NewJob("u", run_at=4_000_000_000_000_000, priority=3, flags=("a",), meta='{"b":1}'),
        NewJob("u", queue="q", is_strict=1, max_attempts=2, keep=30.0),
    ]
    try:
        added = await store.enqueue(new)
        assert added == [await served.store.get(job.id) for job in added]
        assert {job.tenant for job in added} == {MINE}
        assert [job.tenant for job in new] == ["", "", MINE, "", ""], "a request is not changed"
        [keyed] = await store.enqueue([NewJob("t", key="k")])
        assert keyed == await served.store.get(keyed.id)
        [chain] = await store.start_chains([NewChain(job=NewJob("t"))])
        [waiting] = await store.enqueue([NewJob("t", blockers=(chain.id,))])
        assert waiting == await served.store.get(waiting.id)
    finally:
        await store.close()


@_each
async def test_a_page_has_at_least_one_place(served: Serving) -> None:
    store = served.remote(_text(served, Role.WORKER))
    await store.open()
    try:
        await store.enqueue([NewJob("t")] * 3)
        for limit in (0, -1):
            with pytest.raises(ValidationError, match="limit"):
                await store.find(JobFilter(limit=limit))
            with pytest.raises(ValidationError, match="limit"):
                await store.find_chains(ChainFilter(limit=limit))
        assert len(await store.find(JobFilter(limit=2))) == 2
    finally:
        await store.close()


def test_jwts_for_other_tasks_prove_no_lease_of_each_other() -> None:
    def caller(*tasks: str) -> Caller:
        roles = frozenset({Role.WORKER})
        return Caller(Identity(name="jwt", roles=roles, tasks=tasks or None), b"secret")

    a, again, both = caller("a"), caller("a"), caller("b", "a")
    every = caller()
    assert a.worker("w") == again.worker("w")
    assert len({each.worker("w") for each in (a, both, every)}) == 3
    for task, is_good in (("a", True), ("b", False)):
        held = replace(calls.slim(_lease(tenant="")), task=task)
        held.seal = a._seal(replace(held, worker=a.worker("w"))).decode()
        assert (a.take_back(held) is not None) is is_good


def test_only_admins_are_told_when_a_job_is_due() -> None:
    told: list[tuple[str, float | None]] = []

    async def run() -> None:
        async def send(event: WorkerServerEvent) -> None:
            if event.hint.HasField("due_seconds"):
                told.append((name, event.hint.due_seconds))
                heard.set()

        heard = asyncio.Event()
        service = CallService(MemoryStore(), "secret")
        for name, role in (("boss", Role.ADMIN), ("w", Role.WORKER)):
            session = service.open(Identity(name=name, roles=frozenset({role})), send)
            service._hinted = {session}
            heard.clear()
            service._tell_due(7.0)
            await heard.wait()
            await service.end(session)
        await service.close()

    asyncio.run(run())
    assert told == [("boss", 7.0), ("w", -1.0)]


def test_a_claim_is_not_larger_than_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_BYTES", 1_000)
    text, known = token("w", Role.WORKER)
    with serving("memory://", tokens={text: known}) as served:
        asyncio.run(_claims_large_jobs(served, text))


async def _claims_large_jobs(served: Serving, text: str) -> None:
    store = served.remote(text)
    await store.open()
    try:
        added = await store.enqueue([NewJob("t", f'"{"x" * 400}"')] * 5)
        claimed = [await _claim(store) for _ in range(3)]
        assert [len(leases) for leases in claimed] == [2, 2, 1]
        assert [lease.job_id for each in claimed for lease in each] == [job.id for job in added]
        assert {lease.attempts for each in claimed for lease in each} == {1}
    finally:
        await store.close()
