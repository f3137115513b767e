"""Webhooks: with the end of a job whose `meta` names an address comes the job that posts it.

Both are stored in one step, whatever ends the job, and once for each end. What only disappears
(removed, deleted, pruned) has not ended, and is not posted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from windlass.clock import to_micros
from windlass.model.job import Job, JobState
from windlass.store.records import CANCEL, COMPLETE, RELEASE, Complete, Fail, Lease, Note, Verdict
from windlass.store.webhooks import WEBHOOK_KEEP, WEBHOOK_TASK
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

URL = "https://example.org/ended?by=windlass"
META = f'{{"webhook":"{URL}"}}'

COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED


async def _posts(kit: Kit) -> list[Job]:
    """The jobs that post ends, the oldest first."""
    return await kit.jobs(task=WEBHOOK_TASK)


async def _told(kit: Kit) -> list[tuple[int, str]]:
    """Which jobs' ends are posted, and how they ended."""
    told = [job.payload["job"] for job in await _posts(kit)]
    return [(job["id"], job["state"]) for job in told]


# ── all ways to end ──


@dataclass
class Scene:
    """The job that is to end, and its delivery where it runs."""

    kit: Kit
    id: int
    lease: Lease | None = None

    @property
    def held(self) -> Lease:
        assert self.lease is not None
        return self.lease

    async def settle(self, outcome: Any) -> None:
        assert (await self.kit.settle(self.held, outcome)).verdict is Verdict.APPLIED

    async def be_taken_back(self) -> None:
        """Its worker dies; from now on it is a suspect."""
        await self.kit.store.unlock(["w"], 100)
        self.lease = await self.kit.take(suspects=1)

    async def be_asked_to_cancel(self) -> None:
        await self.kit.store.cancel([self.id])

    async def lose_its_key(self) -> None:
        await self.kit.store.remove("k")


Step = Callable[[Scene], Awaitable[Any]]


@dataclass(frozen=True)
class Way:
    """How a job ends that is ready, runs, or has failed; `before` is done to it first."""

    start: Literal["ready", "running", "failed"]
    state: JobState
    end: Step
    before: Step | None = None


def _settled(outcome: Any) -> Step:
    return lambda scene: scene.settle(outcome)


async def _reaped(scene: Scene) -> None:
    await scene.kit.crash(1)


def _expired(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.expire([scene.held], 1)


def _unlocked(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.unlock(["w"], 1)


def _retired(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.retire("w")


def _completed(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.complete([scene.id])


def _failed(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.fail([scene.id], "by hand")


def _out_of_attempts(scene: Scene) -> Awaitable[Any]:
    return scene.kit.store.reschedule([scene.id], attempts=3, max_attempts=3)


async def _inside(scene: Scene) -> None:
    if not scene.kit.store.capabilities.transactions:
        await scene.settle(COMPLETE)
        return
    with scene.kit.store.transaction(scene.held) as transaction:
        transaction.complete(COMPLETE)


async def _beside_a_lost_one(scene: Scene) -> None:
    lost = scene.kit.new().payload
    other = await scene.kit.add("other", payload=lost)
    [gone] = await scene.kit.claim(tasks=["other"], worker="v")
    await scene.kit.store.unlock(["v"], 100)
    answers = await scene.kit.store.settle([(gone, COMPLETE), (scene.held, COMPLETE)])
    assert [answer.verdict for answer in answers] == [Verdict.LOST, Verdict.APPLIED]
    assert await scene.kit.state(other.id) is JobState.READY


ASKED, DEAD, KEYLESS = Scene.be_asked_to_cancel, Scene.be_taken_back, Scene.lose_its_key
BROKE = Fail("broke")

WAYS = {
    "complete": Way("running", COMPLETED, _settled(Complete('{"n":1}'))),
    "complete beside a lost one": Way("running", COMPLETED, _beside_a_lost_one),
    "complete inside a transaction": Way("running", COMPLETED, _inside),
    "fail for good": Way("running", FAILED, _settled(Fail("broke", final=True))),
    "fail the last attempt": Way("running", FAILED, _settled(Fail("broke", max_attempts=1))),
    "fail without its key": Way("running", FAILED, _settled(BROKE), KEYLESS),
    "fail, asked to cancel": Way("running", CANCELLED, _settled(BROKE), ASKED),
    "cancel": Way("running", CANCELLED, _settled(CANCEL)),
    "release without its key": Way("running", FAILED, _settled(RELEASE), KEYLESS),
    "release, asked to cancel": Way("running", CANCELLED, _settled(RELEASE), ASKED),
    "reap a killer": Way("running", FAILED, _reaped, DEAD),
    "reap, asked to cancel": Way("running", CANCELLED, _reaped, ASKED),
    "expire a killer": Way("running", FAILED, _expired, DEAD),
    "expire, asked to cancel": Way("running", CANCELLED, _expired, ASKED),
    "unlock a killer": Way("running", FAILED, _unlocked, DEAD),
    "unlock, asked to cancel": Way("running", CANCELLED, _unlocked, ASKED),
    "retire, asked to cancel": Way("running", CANCELLED, _retired, ASKED),
    "operator cancels": Way("ready", CANCELLED, ASKED),
    "operator completes": Way("ready", COMPLETED, _completed),
    "operator fails": Way("ready", FAILED, _failed),
    "operator takes the attempts": Way("ready", FAILED, _out_of_attempts),
    "operator completes a failed one": Way("failed", COMPLETED, _completed),
}

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"key": "k"},
    "kept": {"key": "k", "keep": 600.0},
    "queued": {"key": "k", "queue": "q"},
}


async def _set_up(kit: Kit, way: Way, **options: Any) -> Scene:
    job = await kit.add(meta=META, **options)
    scene = Scene(kit, job.id)
    if way.start != "ready":
        scene.lease = await kit.take()
    if way.before is not None:
        await way.before(scene)
    if way.start == "failed":
        await scene.settle(Fail("broke", final=True))
    return scene


@case.each(*((way, kind) for way in WAYS for kind in KINDS))
async def an_end_is_posted_once(kit: Kit, way: str, kind: str) -> None:
    how = WAYS[way]
    scene = await _set_up(kit, how, **KINDS[kind])
    before = await _told(kit)
    assert before == ([(scene.id, "failed")] if how.start == "failed" else [])
    await how.end(scene)
    assert await _told(kit) == [*before, (scene.id, how.state.value)]
    if scene.lease is not None and kind == "plain":
        await kit.settle(scene.lease, COMPLETE)  # a late answer ends nothing
        assert len(await _posts(kit)) == len(before) + 1


@case.each(*((way,) for way in WAYS))
async def an_end_without_an_address_is_not_posted(kit: Kit, way: str) -> None:
    how = WAYS[way]
    job = await kit.add(key="k", meta='{"from":"webhook"}')
    scene = Scene(kit, job.id)
    if how.start != "ready":
        scene.lease = await kit.take()
    if how.before is not None:
        await how.before(scene)
    if how.start == "failed":
        await scene.settle(Fail("broke", final=True))
    await how.end(scene)
    assert await _posts(kit) == []


# ── what is posted ──


@case
async def what_is_told_of_a_completed_job(kit: Kit) -> None:
    job = await kit.add(
        key="k", queue="q", tenant="acme", meta=META, payload='{"user":7}', priority=4
    )
    kit.clock.advance(2)
    lease = await kit.take()
    await kit.store.note(lease, Note('[0.5,"half"]', '"said"'))
    kit.clock.advance(3)
    await kit.settle(lease, Complete('{"näme":[1,2.5]}'))
    [post] = await _posts(kit)
    assert post.payload == {
        "url": URL,
        "job": {
            "id": job.id,
            "task": "t",
            "state": "completed",
            "output": {"näme": [1, 2.5]},
            "error": None,
            "attempts": 1,
            "key": "k",
            "queue": "q",
            "tenant": "acme",
            "chain": None,
            "created_at": to_micros(kit.at(-5)),
            "finished_at": kit.micros(),
        },
    }
    assert (post.state, post.tenant, post.key, post.queue) == (JobState.READY, "acme", None, None)
    assert (post.keep, post.meta, post.priority, post.max_attempts) == (WEBHOOK_KEEP, None, 0, 25)
    assert (post.run_at, post.created_at) == (kit.at(), kit.at())


@case
async def what_is_told_of_a_failed_job(kit: Kit) -> None:
    job = await kit.add(meta=META)
    await kit.fail(await kit.take(), "first", delay=0.0)
    await kit.fail(await kit.take(), "secönd", final=True)
    [post] = await _posts(kit)
    told = post.payload["job"]
    assert (told["id"], told["state"], told["error"]) == (job.id, "failed", "secönd")
    assert (told["output"], told["attempts"], told["tenant"]) == (None, 2, None)
    assert post.tenant is None


@case
async def without_an_output_it_is_null(kit: Kit) -> None:
    await kit.add(meta=META)
    await kit.settle(await kit.take(), COMPLETE)
    [post] = await _posts(kit)
    assert post.payload["job"]["output"] is None


@case
async def the_end_of_a_job_that_is_kept_is_posted_and_kept(kit: Kit) -> None:
    job = await kit.add(meta=META, keep=600.0)
    await kit.settle(await kit.take(), Complete("7"))
    assert (await kit.get(job.id)).output == 7
    [post] = await _posts(kit)
    assert post.payload["job"]["output"] == 7


@case
async def a_mixed_batch(kit: Kit) -> None:
    """Some of a batch are posted, some not; each is settled and answered as it would be alone."""
    jobs = await kit.add_many(*({"meta": META if n % 3 == 0 else None} for n in range(12)))
    leases = await kit.claim(limit=12)
    asked = [
        (lease, Fail("broke", final=True) if n % 2 else Complete(f"{n}"))
        for n, lease in enumerate(leases)
    ]
    answers = await kit.store.settle(asked)
    assert [answer.state for answer in answers] == [COMPLETED, FAILED] * 6
    assert sorted(await _told(kit)) == [
        (jobs[0].id, "completed"),
        (jobs[3].id, "failed"),
        (jobs[6].id, "completed"),
        (jobs[9].id, "failed"),
    ]


@case
async def a_job_that_runs_again_is_posted_again(kit: Kit) -> None:
    job = await kit.add(meta=META)
    await kit.fail(await kit.take(), final=True)
    await kit.store.retry([job.id])
    await kit.settle(await kit.take(), COMPLETE)
    assert await _told(kit) == [(job.id, "failed"), (job.id, "completed")]


@case
async def the_job_that_posts_is_run_like_any(kit: Kit) -> None:
    await kit.add(meta=META)
    await kit.settle(await kit.take(), COMPLETE)
    lease = await kit.take(tasks=[WEBHOOK_TASK])
    await kit.fail(lease, "no answer", delay=1.0)
    await kit.pass_time(1)
    lease = await kit.take(tasks=[WEBHOOK_TASK])
    await kit.settle(lease, COMPLETE)
    [post] = await _posts(kit)
    assert (post.state, post.attempts) == (COMPLETED, 2)


@case
async def a_worker_of_every_task_does_not_post(kit: Kit) -> None:
    job = await kit.add("u", meta=META)
    await kit.store.complete([job.id])
    other = await kit.add("zebra")
    assert await kit.claimed(tasks=None) == [other.id]
    assert await kit.claim(tasks=None, past_heads=True) == []
    assert await kit.claim(tasks=None, tenants=("",), past_heads=True) == []
    assert len(await kit.claim(tasks=[WEBHOOK_TASK])) == 1


@case.each(("7",), ("null",), ('{"webhook":7}',), ('{"webhook":null}',), ('["webhook"]',))
async def what_is_no_address_is_not_posted(kit: Kit, meta: str) -> None:
    await kit.add(meta=meta)
    await kit.settle(await kit.take(), COMPLETE)
    await kit.add(meta=meta)
    await kit.fail(await kit.take(), final=True)
    assert await _posts(kit) == []


# ── what is no end ──


async def _no_end(kit: Kit, what: str) -> None:
    job = await kit.add(meta=META, key="k", delay=60_000_000 if what == "reschedule" else 0)
    store = kit.store
    match what:
        case "cancel request":
            await kit.take()
            await store.cancel([job.id])
        case "delete":
            await store.delete([job.id])
        case "fail, attempts left":
            await kit.fail(await kit.take())
        case "release":
            await kit.settle(await kit.take(), RELEASE)
        case "remove":
            await store.remove("k")
        case "remove while it runs":
            await kit.take()
            await store.remove("k")
        case "replace":
            await kit.add(meta=META, key="k")
        case "reschedule":
            await store.reschedule([job.id], priority=3)
        case "suspect":
            await kit.take()
            await kit.crash()
        case _:
            raise AssertionError(what)


@case.each(
    ("cancel request",),
    ("delete",),
    ("fail, attempts left",),
    ("release",),
    ("remove",),
    ("remove while it runs",),
    ("replace",),
    ("reschedule",),
    ("suspect",),
)
async def no_end(kit: Kit, what: str) -> None:
    await _no_end(kit, what)
    assert await _posts(kit) == []


@case
async def what_has_ended_ends_no_more(kit: Kit) -> None:
    """Failed again by hand, deleted, pruned: all long after the end that was posted."""
    jobs = await kit.add_many(
        *({"meta": META, "task": task, "keep": 60.0} for task in ("t", "u", "v"))
    )
    await kit.settle((await kit.claim(tasks=["t"]))[0], COMPLETE)
    await kit.fail((await kit.claim(tasks=["u"]))[0], final=True)
    await kit.store.cancel([jobs[2].id])
    ended = await _told(kit)
    assert len(ended) == 3
    await kit.store.fail([jobs[1].id], "again")
    await kit.store.delete_failed(10)
    await kit.store.delete([jobs[2].id])
    kit.clock.advance(60)
    await kit.store.prune(10)
    assert await _told(kit) == ended
    assert await kit.ids() == ids(await _posts(kit))


# ── chains ──


@case.each(("completed",), ("failed",), ("cancelled",))
async def the_last_job_of_a_chain(kit: Kit, how: str) -> None:
    chain = await kit.start(meta=META)
    lease = await kit.take()
    if how == "cancelled":
        await kit.store.cancel_chains([chain.id])
        await kit.settle(lease, CANCEL)
    elif how == "failed":
        await kit.fail(lease, final=True)
    else:
        await kit.settle(lease, Complete("7"))
    assert await _told(kit) == [(chain.id, how)]
    [post] = await _posts(kit)
    assert post.payload["job"]["chain"] == chain.id
    assert post.chain is None


@case
async def a_job_that_goes_on(kit: Kit) -> None:
    """Each job of a chain that has an address is posted; a job of no chain begins one."""
    first = await kit.add(meta=META)
    await kit.go_on(await kit.take())
    await kit.go_on(await kit.take(), meta=META)
    last = await kit.take()
    await kit.settle(last, Complete("7"))
    assert await _told(kit) == [(first.id, "completed"), (last.job_id, "completed")]
    assert [post.payload["job"]["chain"] for post in await _posts(kit)] == [first.id] * 2
    assert (await kit.chain(first.id)).length == 3


@case.each(("complete",), ("go on",), ("cancel",), ("delete",))
async def what_operators_do_to_chains(kit: Kit, verb: str) -> None:
    chain = await kit.start(meta=META)
    if verb == "complete":
        await kit.store.complete_chain(chain.id, Complete("7"))
    elif verb == "go on":
        await kit.store.complete_chain(chain.id, Complete(next=kit.new()))
    elif verb == "cancel":
        await kit.store.cancel_chains([chain.id])
    else:
        await kit.store.delete_chains([chain.id])
    ended = {"complete": ["completed"], "go on": ["completed"], "cancel": ["cancelled"]}
    assert await _told(kit) == [(chain.id, state) for state in ended.get(verb, [])]


@case
async def a_chain_asked_to_stop_that_goes_on(kit: Kit) -> None:
    """Its job completes, and the next one is stored as cancelled: both have ended."""
    chain = await kit.start(meta=META)
    lease = await kit.take()
    await kit.store.cancel([chain.id])
    await kit.go_on(lease, meta=META)
    told = await _told(kit)
    assert [state for _, state in sorted(told)] == ["completed", "cancelled"]
    assert len(await _posts(kit)) == 2


@case.each(("fail",), ("cancel",), ("by hand",))
async def those_that_fail_because_a_blocker_did(kit: Kit, how: str) -> None:
    """Along a line of chains, and jobs of no chain."""
    chain = await kit.start()
    middle = await kit.start(blockers=(chain.id,), meta=META)
    last = await kit.start(blockers=(middle.id,), meta=META, queue="q")
    single = await kit.add(blockers=(chain.id,), meta=META)
    spared = await kit.add(blockers=(chain.id,), meta=META, on_blocker_failure="run", priority=9)
    if how == "fail":
        await kit.fail(await kit.take(), final=True)
    elif how == "cancel":
        await kit.store.cancel_chains([chain.id])
    else:
        await kit.store.fail([chain.id], "by hand")
    failed = [middle.id, last.id, single.id]
    assert sorted(await _told(kit)) == [(job_id, "failed") for job_id in failed]
    assert str(chain.id) in (await _posts(kit))[0].payload["job"]["error"]
    assert await kit.claimed() == [spared.id]


@case.each(("job",), ("chain",), ("next",), ("replaced",))
async def a_job_that_is_added_behind_a_failed_chain(kit: Kit, which: str) -> None:
    """It fails at once, and that is its end."""
    chain = await kit.start()
    await kit.fail(await kit.take(), final=True)
    waiting: dict[str, Any] = {"meta": META, "blockers": (chain.id,)}
    if which == "job":
        job_id = (await kit.add(**waiting)).id
    elif which == "chain":
        job_id = (await kit.start(**waiting)).id
    elif which == "next":
        await kit.add()
        lease = await kit.take()
        await kit.go_on(lease, **waiting)
        current = (await kit.chain(lease.job_id)).job
        assert current is not None
        job_id = current.id
    else:
        job_id = (await kit.add(key="k", delay=60_000_000)).id
        assert (await kit.add(key="k", **waiting)).id == job_id
    assert await kit.state(job_id) is FAILED
    assert await _told(kit) == [(job_id, "failed")]


@case
async def a_blocked_job_is_cancelled(kit: Kit) -> None:
    chain = await kit.start()
    job = await kit.add(blockers=(chain.id,), meta=META)
    await kit.store.cancel([job.id])
    await kit.fail(await kit.take(), final=True)
    assert await _told(kit) == [(job.id, "cancelled")]


@case
async def one_that_waits_again_is_posted_again(kit: Kit) -> None:
    chain = await kit.start()
    job = await kit.add(blockers=(chain.id,), meta=META)
    await kit.fail(await kit.take(), final=True)
    await kit.store.retry_chains([chain.id])
    assert await kit.state(job.id) is JobState.BLOCKED
    assert await _told(kit) == [(job.id, "failed")]
    await kit.settle(await kit.take(), COMPLETE)
    await kit.settle(await kit.take(), COMPLETE)
    assert await _told(kit) == [(job.id, "failed"), (job.id, "completed")]


# ── transactions ──


class _Stop(Exception):
    """Raised inside a transaction to roll it back."""


@case.each(("commits",), ("rolls back",))
async def in_a_transaction(kit: Kit, how: str) -> None:
    if not kit.store.capabilities.transactions:
        return
    job = await kit.add(meta=META)
    lease = await kit.take()
    try:
        with kit.store.transaction(lease) as transaction:
            transaction.complete(Complete("7"))
            if how == "rolls back":
                raise _Stop
    except _Stop:
        assert await _posts(kit) == []
        await kit.settle(lease, Complete("8"))
    [post] = await _posts(kit)
    told = post.payload["job"]
    assert (told["id"], told["output"]) == (job.id, 7 if how == "commits" else 8)


@case
async def a_transaction_goes_on_and_starts_others(kit: Kit) -> None:
    """What is foreseen before the commit posts nothing."""
    if not kit.store.capabilities.transactions:
        return
    failed = await kit.start()
    await kit.fail(await kit.take(), final=True)
    job = await kit.add(meta=META)
    lease = await kit.take()
    with kit.store.transaction(lease) as transaction:
        joined = kit.store.joined(transaction.connection)
        [added] = joined.enqueue([kit.new(meta=META, blockers=(failed.id,))])
        transaction.complete(Complete(next=kit.new(meta=META, delay=60_000_000)))
        joined.enqueue([kit.new("u")])
    assert sorted(await _told(kit)) == [(job.id, "completed"), (added.id, "failed")]
