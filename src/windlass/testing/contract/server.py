"""What a server asks of a store: tokens, secrets, requests that may come twice, a look at whether
there is anything to claim, deliveries that change hands. A store that a server cannot work with
says so, and runs none of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, cast

from windlass.errors import ChainNotFoundError
from windlass.model.job import Job, JobState
from windlass.store.port import Store
from windlass.store.records import CANCEL, COMPLETE, RELEASE, Complete, Note, Verdict
from windlass.store.server import REQUESTS_KEPT, ClaimScope, Request, Requested, ServerStore, Token
from windlass.testing.contract.case import Group
from windlass.testing.contract.concurrency import compete
from windlass.testing.contract.kit import LEASE, Kit, ids

case = Group(__name__)
CASES = case.cases

A, B = "acme", "bond"
ONE_MICRO = 1e-6


def _of(store: Store) -> ServerStore:
    return cast(ServerStore, store)


def _served(body: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The body of a case, which is given what the server sees of the store."""

    @wraps(body)
    async def run(kit: Kit, *words: str) -> None:
        if kit.store.capabilities.server:
            await body(kit, _of(kit.store), *words)

    return run


# ── tokens ──


def _token(kit: Kit, name: str, **options: Any) -> Token:
    given = {"digest": f"digest of {name}", "roles": ("worker",), "created_at": kit.micros()}
    return Token(name=name, **{**given, **options})


@case
@_served
async def a_token_is_found_by_its_digest(kit: Kit, store: ServerStore) -> None:
    plain = _token(kit, "plain")
    full = _token(
        kit,
        "full ü",
        tenant=A,
        roles=("producer", "worker"),
        tasks=("t", "é"),
        expires_at=kit.micros(60),
    )
    no_tasks = _token(kit, "none", tasks=(), roles=())
    for token in (plain, full, no_tasks):
        assert await store.add_token(token)
    for token in (plain, full, no_tasks):
        assert await store.find_token(token.digest) == token
    assert await store.find_token("plain") is None
    assert await store.find_token("Digest of plain") is None


@case
@_served
async def a_token_without_tasks_may_run_all(kit: Kit, store: ServerStore) -> None:
    """None and an empty list are two things."""
    await store.add_token(_token(kit, "all"))
    await store.add_token(_token(kit, "none", tasks=()))
    assert [token.tasks for token in await store.tokens()] == [None, ()]


@case
@_served
async def tokens_are_listed_by_name(kit: Kit, store: ServerStore) -> None:
    assert await store.tokens() == []
    tokens = [_token(kit, name) for name in ("b", "a", "C")]
    for token in tokens:
        await store.add_token(token)
    await store.revoke_token("a")
    assert [token.name for token in await store.tokens()] == ["C", "a", "b"]


@case
@_served
async def a_name_is_taken_for_good(kit: Kit, store: ServerStore) -> None:
    first = _token(kit, "ci")
    assert await store.add_token(first)
    again = _token(kit, "ci", digest="another", tenant=A)
    assert not await store.add_token(again)
    assert await store.find_token("another") is None
    assert await store.tokens() == [first]
    await store.revoke_token("ci")
    assert not await store.add_token(again)
    assert len(await store.tokens()) == 1


@case
@_served
async def a_token_is_revoked_once(kit: Kit, store: ServerStore) -> None:
    token = _token(kit, "ci", expires_at=kit.micros(60))
    other = _token(kit, "other")
    await store.add_token(token)
    await store.add_token(other)
    kit.clock.advance(5)
    revoked = await store.revoke_token("ci")
    assert revoked is not None
    assert (revoked.revoked_at, revoked.created_at) == (kit.micros(), token.created_at)
    assert token.is_good(kit.micros()) and not revoked.is_good(kit.micros())
    kit.clock.advance(5)
    assert await store.revoke_token("ci") == revoked
    assert await store.find_token(token.digest) == revoked
    assert await store.tokens() == [revoked, other]
    assert await store.revoke_token("unknown") is None


@case
@_served
async def a_token_ends_on_the_microsecond(kit: Kit, store: ServerStore) -> None:
    await store.add_token(_token(kit, "ci", expires_at=kit.micros(60)))
    [token] = await store.tokens()
    assert token.is_good(kit.micros(60 - ONE_MICRO))
    assert not token.is_good(kit.micros(60))


@case
@_served
async def tokens_and_secrets_outlive_their_process(kit: Kit, store: ServerStore) -> None:
    token = _token(kit, "ci", tenant=A, tasks=("t",))
    await store.add_token(token)
    await store.secret("deliveries", "first")
    await kit.reopen()
    again = _of(kit.store)
    assert await again.find_token(token.digest) == token
    assert await again.secret("deliveries", "second") == "first"


@case
@_served
async def one_of_many_gets_a_name(kit: Kit, store: ServerStore) -> None:
    async def add(number: int, own: Store) -> list[bool]:
        digest = f"digest {number}"
        return [await _of(own).add_token(_token(kit, f"name {n}", digest=digest)) for n in range(5)]

    for answers in zip(*await compete(kit, add), strict=True):
        assert sorted(answers) == [False, False, False, True]
    assert len(await store.tokens()) == 5


# ── secrets ──


@case
@_served
async def a_secret_is_kept_as_it_was_first(kit: Kit, store: ServerStore) -> None:
    assert await store.secret("webhooks", "one") == "one"
    assert await store.secret("webhooks", "two") == "one"
    assert await store.secret("deliveries", "three") == "three"
    assert await store.secret("webhooks", "four", A) == "four"
    assert await store.secret("webhooks", "five", B) == "five"
    assert await store.secret("webhooks", "six") == "one"
    assert await store.secret("webhooks", "seven", A) == "four"


@case
@_served
async def a_secret_is_replaced(kit: Kit, store: ServerStore) -> None:
    await store.secret("webhooks", "one")
    await store.secret("webhooks", "other", A)
    await store.replace_secret("webhooks", "two")
    assert await store.secret("webhooks", "three") == "two"
    assert await store.secret("webhooks", "three", A) == "other"
    await store.replace_secret("new", "four", B)
    assert await store.secret("new", "five", B) == "four"


@case
@_served
async def all_get_the_same_secret(kit: Kit, store: ServerStore) -> None:
    async def ask(number: int, own: Store) -> list[str]:
        return [await _of(own).secret(f"name {n}", f"{number}") for n in range(5)]

    for answers in zip(*await compete(kit, ask), strict=True):
        assert len(set(answers)) == 1


# ── requests that may come twice ──


def _request(kit: Kit, key: str = "k", digest: str = "d", *jobs: Any, **options: Any) -> Request:
    return Request(key, digest, tuple(jobs) or (kit.new(**options),))


async def _once(store: ServerStore, *requests: Request) -> list[Requested]:
    return await store.enqueue_once(requests)


async def _one(store: ServerStore, request: Request) -> Requested:
    [answer] = await store.enqueue_once([request])
    return answer


@case
@_served
async def a_request_adds_its_jobs(kit: Kit, store: ServerStore) -> None:
    request = _request(
        kit, "k", "d", kit.new(payload="[1]", priority=3), kit.new("u", delay=5_000_000, key="j")
    )
    answer = await _one(store, request)
    assert (answer.is_new, answer.is_conflict) == (True, False)
    assert answer.jobs == tuple([await kit.get(job_id) for job_id in answer.ids])
    assert [(job.task, job.state) for job in answer.jobs if job] == [
        ("t", JobState.READY),
        ("u", JobState.SCHEDULED),
    ]
    assert await kit.ids() == [*answer.ids]
    assert await kit.claimed() == [answer.ids[0]]


@case
@_served
async def the_same_request_again_is_answered_with_its_jobs(kit: Kit, store: ServerStore) -> None:
    request = _request(kit, "k", "d", kit.new(), kit.new("u"))
    first = await _one(store, request)
    kit.clock.advance(5)
    again = await _one(store, request)
    assert again == Requested(first.ids, first.jobs)
    assert await kit.ids() == [*first.ids]


@case
@_served
async def it_is_answered_with_them_as_they_are(kit: Kit, store: ServerStore) -> None:
    """Running, kept, failed, or gone."""
    request = _request(kit, "k", "d", *(kit.new(f"t{n}", keep=600.0 * (n == 1)) for n in range(4)))
    first = await _one(store, request)
    for lease in await kit.claim(tasks=["t1", "t3"]):
        await kit.settle(lease, Complete("7"))
    await kit.fail((await kit.claim(tasks=["t2"]))[0], final=True)
    await kit.claim(tasks=["t0"])
    again = await _one(store, request)
    assert (again.ids, again.is_new) == (first.ids, False)
    assert [job and job.state.value for job in again.jobs] == [
        "running",
        "completed",
        "failed",
        None,
    ]
    kept = again.jobs[1]
    assert kept is not None and kept.output == 7


@case
@_served
async def all_gone_it_still_is_no_new_request(kit: Kit, store: ServerStore) -> None:
    request = _request(kit)
    first = await _one(store, request)
    await kit.settle(await kit.take(), COMPLETE)
    again = await _one(store, request)
    assert again == Requested(first.ids, (None,))
    assert await kit.ids() == []


@case
@_served
async def another_digest_is_a_conflict(kit: Kit, store: ServerStore) -> None:
    first = await _one(store, _request(kit))
    answer = await _one(store, _request(kit, "k", "other", payload="[2]"))
    assert answer == Requested(is_conflict=True)
    assert await kit.ids() == [*first.ids]
    assert (await _one(store, _request(kit))).ids == first.ids


@case
@_served
async def a_conflict_hinders_no_other(kit: Kit, store: ServerStore) -> None:
    """Not even if its own jobs could not be added."""
    first = await _one(store, _request(kit))
    gone = kit.new(blockers=(first.ids[0],))
    conflict, new, same = await _once(
        store, _request(kit, "k", "other", gone), _request(kit, "l"), _request(kit)
    )
    assert conflict == Requested(is_conflict=True)
    assert new.is_new and len(new.ids) == 1
    assert (same.ids, same.is_new) == (first.ids, False)
    assert await kit.ids() == [*first.ids, *new.ids]


@case
@_served
async def two_of_one_key_in_one_call(kit: Kit, store: ServerStore) -> None:
    first, same, other = await _once(
        store, _request(kit), _request(kit), _request(kit, "k", "other")
    )
    assert (first.is_new, same.is_new, other.is_conflict) == (True, False, True)
    assert (same.ids, same.jobs) == (first.ids, first.jobs)
    assert await kit.ids() == [*first.ids]


@case
@_served
async def a_bulk_of_requests(kit: Kit, store: ServerStore) -> None:
    """New ones and known ones, in any order; each answer is in its place."""
    known = await _once(store, *(_request(kit, f"k{n}") for n in range(0, 40, 2)))
    answers = await _once(store, *(_request(kit, f"k{n}", payload=f"[{n}]") for n in range(40)))
    assert [answer.is_new for answer in answers] == [False, True] * 20
    assert [answer.ids for answer in answers[::2]] == [answer.ids for answer in known]
    new = [answer.jobs[0] for answer in answers[1::2]]
    assert [job and job.payload for job in new] == [[n] for n in range(1, 40, 2)]
    assert len(await kit.ids()) == 40
    assert await _once(store) == []


@case
@_served
async def keys_of_requests_belong_to_tenants(kit: Kit, store: ServerStore) -> None:
    answers = await _once(
        store,
        *(_request(kit, "k", f"d{tenant}", tenant=tenant) for tenant in ("", A, B)),
    )
    assert [answer.is_new for answer in answers] == [True] * 3
    assert [job and job.tenant for answer in answers for job in answer.jobs] == [None, A, B]
    again = await _one(store, _request(kit, "k", "dacme", tenant=A))
    assert (again.is_new, again.ids) == (False, answers[1].ids)


@case
@_served
async def keys_of_requests_are_compared_exactly(kit: Kit, store: ServerStore) -> None:
    keys = ["x", "X", "x ", "é", "%", "'", "x" * 512]
    answers = await _once(store, *(_request(kit, key) for key in keys))
    assert all(answer.is_new for answer in answers)
    assert len({answer.ids for answer in answers}) == len(keys)


@case
@_served
async def keys_of_requests_are_no_keys_of_jobs(kit: Kit, store: ServerStore) -> None:
    job = await kit.add(key="k")
    answer = await _one(store, _request(kit))
    assert answer.is_new and answer.ids != (job.id,)
    assert answer.jobs[0] is not None and answer.jobs[0].key is None


@case
@_served
async def jobs_of_requests_have_keys_of_their_own(kit: Kit, store: ServerStore) -> None:
    """Two requests that ask for one job by its key: each is told of that job, as it is then."""
    job = await kit.add(key="j", payload="[0]")
    one, two = await _once(
        store,
        _request(kit, "k", "d", kit.new(key="j", payload="[1]")),
        _request(kit, "l", "d", kit.new(key="j", payload="[2]")),
    )
    assert one.ids == two.ids == (job.id,)
    assert one.is_new and two.is_new
    seen = await kit.get(job.id)
    assert one.jobs == two.jobs == (seen,)
    assert seen.payload == [0, 1, 2]
    assert (await _one(store, _request(kit, "k", "d", kit.new(key="j")))).jobs == (seen,)


@case
@_served
async def a_request_that_cannot_be_added_stores_nothing(kit: Kit, store: ServerStore) -> None:
    job = await kit.add()
    try:
        await _once(store, _request(kit, "l"), _request(kit, blockers=(job.id,)))
    except ChainNotFoundError as error:
        assert str(job.id) in str(error)
    else:
        raise AssertionError("a job cannot wait for what is no chain")
    assert await kit.ids() == [job.id]
    for key in "kl":
        assert (await _one(store, _request(kit, key))).is_new


@case
@_served
async def a_request_may_wait_for_chains(kit: Kit, store: ServerStore) -> None:
    chain = await kit.start()
    request = _request(kit, blockers=(chain.id,))
    first = await _one(store, request)
    assert [job and job.state for job in first.jobs] == [JobState.BLOCKED]
    await kit.settle(await kit.take(), COMPLETE)
    await kit.settle(await kit.take(), COMPLETE)
    await kit.store.delete_chains([chain.id])
    assert await _one(store, request) == Requested(first.ids, (None,))


@case
@_served
async def a_request_is_forgotten_after_a_day(kit: Kit, store: ServerStore) -> None:
    """By the clock, on the microsecond, whether or not something was pruned."""
    first = await _one(store, _request(kit))
    kit.clock.advance(REQUESTS_KEPT - ONE_MICRO)
    assert (await _one(store, _request(kit, "k", "other"))).is_conflict
    assert (await _one(store, _request(kit))).ids == first.ids
    kit.clock.advance(ONE_MICRO)
    other = await _one(store, _request(kit, "k", "other"))
    assert other.is_new and other.ids != first.ids
    assert (await _one(store, _request(kit))).is_conflict
    kit.clock.advance(REQUESTS_KEPT - 1)
    assert (await _one(store, _request(kit, "k", "other"))).ids == other.ids


@case
@_served
async def old_requests_are_pruned(kit: Kit, store: ServerStore) -> None:
    await _once(store, *(_request(kit, f"old {n}") for n in range(5)))
    kit.clock.advance(60)
    young = await _one(store, _request(kit, "young"))
    assert await kit.store.prune(100) == 0
    kit.clock.advance(REQUESTS_KEPT - 60)
    assert [await kit.store.prune(2) for _ in range(4)] == [2, 2, 1, 0]
    assert (await _one(store, _request(kit, "young"))).ids == young.ids
    assert (await _one(store, _request(kit, "old 0"))).is_new


@case
@_served
async def requests_outlive_their_process(kit: Kit, store: ServerStore) -> None:
    first = await _one(store, _request(kit))
    await kit.reopen()
    again = await _one(_of(kit.store), _request(kit))
    assert again == Requested(first.ids, first.jobs)


@case
@_served
async def one_of_many_requests_is_the_first(kit: Kit, store: ServerStore) -> None:
    """Competing servers: each key is added once, and all are told of the same jobs."""

    async def ask(number: int, own: Store) -> list[Requested]:
        answers = []
        for n in range(10):
            wanted = [_request(kit, f"k{m}", "d", kit.new(), kit.new()) for m in (n, n + 1)]
            answers += await _once(_of(own), *(wanted if number % 2 else wanted[::-1]))
        return answers

    answers = [answer for part in await compete(kit, ask) for answer in part]
    new = [answer for answer in answers if answer.is_new]
    assert len(new) == 11
    assert {answer.ids for answer in answers} == {answer.ids for answer in new}
    assert await kit.ids() == sorted(job_id for answer in new for job_id in answer.ids)


@case
@_served
async def one_of_many_digests_wins(kit: Kit, store: ServerStore) -> None:
    async def ask(number: int, own: Store) -> list[Requested]:
        return [await _one(_of(own), _request(kit, f"k{n}", f"{number}")) for n in range(10)]

    for answers in zip(*await compete(kit, ask), strict=True):
        assert sorted(answer.is_new for answer in answers) == [False, False, False, True]
        assert sorted(answer.is_conflict for answer in answers) == [False, True, True, True]
    assert len(await kit.ids()) == 10


# ── a look before claims ──


async def _claimable(kit: Kit, tasks: Sequence[str] | None = ("t",), *tenants: str) -> bool:
    """Whether a claim may find a job; and if it is said that none can, that none does."""
    named = None if tasks is None else tuple(tasks)
    [answer] = await _of(kit.store).claimable([ClaimScope(named, tenants or None)])
    if not answer:
        leases = await kit.claim(tasks=tasks, tenants=tenants or None, past_heads=True, suspects=9)
        assert leases == [], "it was said that there is nothing"
    return answer


async def _is_idle(kit: Kit, tasks: Sequence[str] | None = ("t",), *tenants: str) -> bool:
    """Whether a claim that finds nothing is followed by the answer that there is nothing."""
    options: dict[str, Any] = {"tasks": tasks, "tenants": tenants or None, "worker": "looker"}
    assert await kit.claim(past_heads=True, **options) == []
    return not await _claimable(kit, tasks, *tenants)


async def _is_due(kit: Kit, tasks: Sequence[str] | None = ("t",), *tenants: str) -> bool:
    """Whether it is said that there may be something, and there is; which is handed back."""
    answer = await _claimable(kit, tasks, *tenants)
    leases = await kit.claim(tasks=tasks, tenants=tenants or None, past_heads=True, suspects=9)
    await kit.store.settle([(lease, RELEASE) for lease in leases])
    return answer and bool(leases)


@case
@_served
async def nothing_is_claimable_of_nothing(kit: Kit, store: ServerStore) -> None:
    assert await store.claimable([]) == []
    assert await _is_idle(kit)
    assert await _is_idle(kit, None)
    assert await _is_idle(kit, (), A)
    assert not (await store.claimable([ClaimScope((), None)]))[0]
    await kit.add()
    assert not (await store.claimable([ClaimScope(None, ())]))[0]


@case
@_served
async def a_ready_job_is_claimable_until_it_is_claimed(kit: Kit, store: ServerStore) -> None:
    await kit.add()
    assert await _is_due(kit)
    assert await _is_due(kit, ("u", "t"))
    assert await _is_due(kit, None)
    assert await _is_idle(kit, ("u",))
    lease = await kit.take()
    assert await _is_idle(kit)
    assert await _is_idle(kit, None)
    await kit.settle(lease, RELEASE)
    assert await _is_due(kit)


@case.each(("scheduled",), ("failed",), ("cancelled",), ("blocked",), ("completed",))
@_served
async def a_job_that_is_not_ready_is_not(kit: Kit, store: ServerStore, state: str) -> None:
    if state == "scheduled":
        await kit.add(delay=60_000_000)
    elif state == "blocked":
        chain = await kit.start("other")
        await kit.add(blockers=(chain.id,))
    else:
        job = await kit.add(keep=600.0)
        if state == "cancelled":
            await kit.store.cancel([job.id])
        elif state == "failed":
            await kit.fail(await kit.take(), final=True)
        else:
            await kit.settle(await kit.take(), COMPLETE)
    assert await _is_idle(kit)
    if state == "scheduled":
        await kit.pass_time(60)
        assert await _is_due(kit)


@case
@_served
async def many_scopes_are_answered_in_their_order(kit: Kit, store: ServerStore) -> None:
    await kit.add_many({"task": "a"}, {"task": "b", "tenant": A}, {"task": "c", "tenant": B})
    scopes = [
        (ClaimScope(tasks, tenants), due)
        for tasks, tenants, due in (
            (("a",), None, True),
            (("a",), (A,), False),
            (("b",), ("",), False),
            (("b",), (A,), True),
            (("b", "c"), (B,), True),
            (("x",), None, False),
            (None, (B,), True),
            (None, ("nobody",), False),
            (("c",), None, True),
            (("c",), ("", A), False),
            (("c",), (A, B), True),
            (None, None, True),
        )
    ]
    assert await store.claimable([scope for scope, _ in scopes]) == [due for _, due in scopes]
    assert await store.claimable([scope for scope, _ in scopes][::-1]) == [
        due for _, due in scopes[::-1]
    ]


@case.each(("default",), (A,), ("all",))
@_served
async def jobs_of_a_paused_task_are_not(kit: Kit, store: ServerStore, which: str) -> None:
    tenant = "" if which == "default" else A
    named = () if which == "all" else (tenant,)
    await kit.add(tenant=tenant)
    await kit.store.pause(task="t", tenant=tenant)
    assert await _is_idle(kit, ("t",), *named)
    assert await _is_idle(kit, None, *named)
    other = await kit.add("u", tenant=tenant)
    assert await _is_due(kit, ("t", "u"), *named)
    assert await _is_due(kit, None, *named)
    await kit.store.delete([other.id])
    await kit.store.resume(task="t", tenant=tenant)
    assert await _is_due(kit, ("t",), *named)


@case.each(("",), (A,))
@_served
async def a_queue_whose_head_runs_is_not(kit: Kit, store: ServerStore, tenant: str) -> None:
    await kit.add_many(*[{"queue": "q", "tenant": tenant}] * 2)
    assert await _is_due(kit)
    lease = await kit.take(limit=1)
    assert await _is_idle(kit)
    assert await _is_idle(kit, ("t",), tenant)
    await kit.settle(lease, COMPLETE)
    assert await _is_due(kit, ("t",), tenant)


@case.each(("",), (A,))
@_served
async def a_paused_queue_is_not(kit: Kit, store: ServerStore, tenant: str) -> None:
    await kit.add(queue="q", tenant=tenant)
    await kit.store.pause(queue="q", tenant=tenant)
    assert await _is_idle(kit)
    assert await _is_idle(kit, None, tenant)
    await kit.store.resume(queue="q", tenant=tenant)
    assert await _is_due(kit)


@case.each(("",), (A,))
@_served
async def a_job_behind_a_foreign_head_is(kit: Kit, store: ServerStore, tenant: str) -> None:
    """It may be claimed before the head, whose task this worker does not run."""
    await kit.add("foreign", queue="q", tenant=tenant)
    await kit.add(queue="q", tenant=tenant)
    assert await _is_due(kit)
    assert await _is_due(kit, ("t",), tenant)
    [head] = await kit.claim(tasks=["foreign"], past_heads=True)
    assert await _is_idle(kit)
    await kit.settle(head, CANCEL)
    assert await _is_due(kit)


@case
@_served
async def a_queue_that_is_held_is_not(kit: Kit, store: ServerStore) -> None:
    first, _ = await kit.add_many({"queue": "q", "is_strict": 1}, {"queue": "q"})
    await kit.fail(await kit.take(), final=True)
    assert await _is_idle(kit)
    await kit.store.retry([first.id])
    assert await _is_due(kit)


@case
@_served
async def a_suspect_is(kit: Kit, store: ServerStore) -> None:
    await kit.add()
    await kit.take()
    await kit.crash()
    assert await _is_due(kit)
    assert await kit.claim() == [], "though it needs a free slot"
    assert await _claimable(kit)


@case
@_served
async def tasks_of_windlass_are_claimable_by_name_alone(kit: Kit, store: ServerStore) -> None:
    await kit.add("windlass.webhook")
    await kit.add("windlass.webhook", tenant=A)
    assert await _is_idle(kit, None)
    assert await _is_idle(kit, None, "")
    assert await _is_idle(kit, None, A)
    assert await _is_due(kit, ("windlass.webhook",))
    assert await _is_due(kit, ("windlass.webhook",), A)
    for task in ("windlas", "windlasz"):
        job: Job = await kit.add(task)
        assert await _is_due(kit, None)
        assert await _is_due(kit, None, "")
        assert ids(await kit.store.delete([job.id])) == [job.id]


@case
@_served
async def what_is_said_of_every_state_is_true(kit: Kit, store: ServerStore) -> None:
    """Through a life of many jobs: what is said to be impossible does not happen."""
    jobs = await kit.add_many(
        *(
            {"task": "tu"[n % 2], "tenant": ("", A)[n % 3 == 0], "queue": (None, "q")[n % 5 == 0]}
            for n in range(30)
        )
    )
    ended = 0
    while ended < len(jobs):
        for tasks, tenants in ((("t",), ()), (("u",), (A,)), (None, ("",)), (None, ())):
            if await _claimable(kit, tasks, *tenants):
                leases = await kit.claim(limit=3, tasks=tasks, tenants=tenants or None)
                await kit.store.settle([(lease, COMPLETE) for lease in leases])
                ended += len(leases)
    assert not await _claimable(kit, None)


# ── deliveries that change hands ──


@case
@_served
async def a_delivery_that_moved_goes_back_with_its_new_worker(kit: Kit, store: ServerStore) -> None:
    await kit.add_many(*[{}] * 5)
    leases = await kit.claim()
    moved = leases[2]
    assert await store.move(moved, "v", LEASE) is Verdict.APPLIED
    assert (await kit.get(moved.job_id)).locked_by == "v"
    await kit.store.retire("w")
    others = sorted(lease.job_id for lease in leases if lease is not moved)
    assert await kit.claimed(worker="u") == others
    assert kit.check(moved).lost == {}
    await kit.store.retire("v")
    job = await kit.get(moved.job_id)
    assert (job.state, job.attempts, job.resets) == (JobState.READY, 0, 0)
    assert (await kit.settle(moved, COMPLETE)).verdict is Verdict.LOST


@case
@_served
async def a_delivery_that_moved_lives_with_its_new_worker(kit: Kit, store: ServerStore) -> None:
    await kit.add_many({}, {})
    moved, left = await kit.claim()
    kit.clock.advance(LEASE / 2)
    assert await store.move(moved, "v", LEASE) is Verdict.APPLIED
    kit.clock.advance(LEASE * 0.75)
    assert (await kit.reap()).total == 1
    assert set(kit.check(moved, left).lost) == {left.job_id}
    kit.clock.advance(LEASE / 2)
    assert (await kit.reap()).total == 1
    assert set(kit.check(moved).lost) == {moved.job_id}


@case
@_served
async def a_delivery_that_moved_is_proved_by_the_same_lease(kit: Kit, store: ServerStore) -> None:
    job = await kit.add(keep=60.0)
    lease = await kit.take()
    for worker in ("v", "u", "w", "v"):
        assert await store.move(lease, worker, LEASE) is Verdict.APPLIED
    assert await kit.store.note(lease, Note(entry='"on"')) is Verdict.APPLIED
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED
    assert (await kit.get(job.id)).attempts == 1


@case
@_served
async def only_the_delivery_that_owns_the_job_moves(kit: Kit, store: ServerStore) -> None:
    gone, kept = await kit.add_many({}, {"keep": 60.0})
    old = {lease.job_id: lease for lease in await kit.claim()}
    await kit.store.settle([(lease, COMPLETE) for lease in old.values()])
    assert await store.move(old[gone.id], "v", LEASE) is Verdict.MISSING
    assert await store.move(old[kept.id], "v", LEASE) is Verdict.LOST
    await kit.add()
    first = await kit.take()
    await kit.settle(first, RELEASE)
    second = await kit.take(worker="u")
    assert await store.move(first, "v", LEASE) is Verdict.LOST
    assert (await kit.get(second.job_id)).locked_by == "u"
