"""How work goes: depths, rates and groups of errors. A store that tells nothing of it says so by
its capability."""

from __future__ import annotations

from typing import Any, cast

from windlass.model.job import JobState
from windlass.store.figures import (
    BUCKETS,
    PERIOD,
    RATES_KEPT,
    Depth,
    ErrorGroup,
    Figures,
    FigureStore,
    RateFilter,
    TaskFigures,
)
from windlass.store.records import CANCEL, COMPLETE, Fail, JobFilter
from windlass.testing.contract.case import Body, Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases


def told(body: Body) -> Body:
    """A case for stores that tell how work goes."""

    async def asked(kit: Kit) -> None:
        if kit.store.capabilities.figures:
            await body(kit)

    asked.__name__ = body.__name__
    return case(asked)


def _store(kit: Kit) -> FigureStore:
    return cast(FigureStore, kit.store)


# ── depths ──


async def _one_of_each(kit: Kit, **options: Any) -> None:
    """A job in every state."""
    await kit.add("kept", keep=600.0, **options)
    await kit.settle(await kit.take(tasks=["kept"]), COMPLETE)
    failed, cancelled = await kit.add_many({"task": "x", **options}, {"task": "x", **options})
    await kit.store.fail([failed.id], "no")
    await kit.store.cancel([cancelled.id])
    await kit.add("run", **options)
    await kit.take(tasks=["run"])
    await kit.add("x", delay=60_000_000, **options)
    await kit.add("x", **options)


async def _counts(kit: Kit, **options: Any) -> dict[str, int]:
    """Those that are not zero."""
    depths = await _store(kit).depths(**options)
    assert list(depths.states) == list(JobState)
    assert not any(depth.is_estimate for depth in depths.states.values())
    return {str(state): depth.count for state, depth in depths.states.items() if depth.count}


@told
async def depths_of_nothing(kit: Kit) -> None:
    depths = await _store(kit).depths()
    assert depths.states == dict.fromkeys(JobState, Depth())
    assert (depths.now, depths.oldest_ready_at, depths.oldest_ready) == (
        kit.clock.now(),
        None,
        None,
    )


@told
async def depths_of_every_state(kit: Kit) -> None:
    await _one_of_each(kit)
    assert await _counts(kit) == {
        **dict.fromkeys(("scheduled", "ready", "running", "completed", "failed", "cancelled"), 1)
    }


@told
async def a_blocked_job_is_counted(kit: Kit) -> None:
    if kit.store.capabilities.chains:
        chain = await kit.start("first")
        await kit.add("then", blockers=(chain.id,))
        assert await _counts(kit) == {"blocked": 1, "ready": 1}
        assert await _counts(kit, task="then") == {"blocked": 1}


@told
async def depths_of_a_task(kit: Kit) -> None:
    await _one_of_each(kit)
    await kit.add("x", queue="q")
    assert await _counts(kit, task="x") == {
        "scheduled": 1,
        "ready": 2,
        "failed": 1,
        "cancelled": 1,
    }
    assert await _counts(kit, task="run") == {"running": 1}
    assert await _counts(kit, task="kept") == {"completed": 1}
    assert await _counts(kit, task="y") == {}


@told
async def depths_of_a_queue(kit: Kit) -> None:
    await kit.add_many(*[{"queue": "q"}] * 3, {"queue": "p"}, {}, {"queue": "q", "delay": 1})
    await kit.take(limit=1)
    assert await _counts(kit, queue="q") == {"running": 1, "ready": 2, "scheduled": 1}
    assert await _counts(kit, queue="p") == {"ready": 1}
    assert await _counts(kit, queue="p", task="other") == {}


@told
async def depths_of_a_tenant(kit: Kit) -> None:
    await _one_of_each(kit, tenant="acme")
    await _one_of_each(kit)
    await kit.add("x", tenant="other", queue="q")
    everything = dict.fromkeys(
        ("scheduled", "ready", "running", "completed", "failed", "cancelled"), 1
    )
    assert await _counts(kit, tenant="acme") == everything
    assert await _counts(kit, tenant="") == everything
    assert await _counts(kit, tenant="other") == {"ready": 1}
    assert (await _counts(kit))["ready"] == 3
    assert await _counts(kit, tenant="acme", task="run") == {"running": 1}


@told
async def a_depth_is_exact_up_to_a_limit(kit: Kit) -> None:
    await kit.add_many(*[{}] * 4, *[{"task": "u"}] * 2)
    store = _store(kit)
    [exact, beyond] = [(await store.depths(most=most)).states for most in (6, 5)]
    assert exact[JobState.READY] == Depth(6)
    assert beyond[JobState.READY] == Depth(6) or beyond[JobState.READY].is_estimate
    assert beyond[JobState.READY].count >= 5
    assert beyond[JobState.FAILED] == Depth(0)
    assert (await store.depths(task="u", most=2)).states[JobState.READY] == Depth(2)


@told
async def the_oldest_ready_job_is_the_one_that_was_due_first(kit: Kit) -> None:
    started = kit.clock.now()
    await kit.add("b", priority=-1)
    await kit.pass_time(5)
    await kit.add("a")
    await kit.add("c", queue="q")
    await kit.add("late", delay=3_000_000)
    await kit.pass_time(7)
    depths = await _store(kit).depths()
    assert depths.oldest_ready_at == started
    assert depths.oldest_ready == 12.0
    for most in (10_000, 1):
        assert (await _store(kit).depths(task="late", most=most)).oldest_ready == 4.0
        assert (await _store(kit).depths(queue="q", most=most)).oldest_ready == 7.0
        assert (await _store(kit).depths(most=most)).oldest_ready == 12.0


@told
async def jobs_that_run_are_not_the_oldest_ready(kit: Kit) -> None:
    await kit.add_many(*[{}] * 40)
    await kit.pass_time(3)
    await kit.add()
    assert len(await kit.claim(limit=40)) == 40
    depths = await _store(kit).depths()
    assert depths.oldest_ready == 0.0
    assert depths.states[JobState.RUNNING] == Depth(40)
    assert depths.states[JobState.READY] == Depth(1)


# ── rates ──


def _done(ok: int = 1, task: str = "t", tenant: str = "", **more: Any) -> TaskFigures:
    counts = [0] * BUCKETS
    counts[2] = ok
    figures = Figures(ok=ok, waited=ok * 7, ran=ok * 11, waits=counts, runs=counts[::-1], **more)
    return TaskFigures(task, figures, tenant)


async def _rates(kit: Kit, seconds: float = 60.0, **options: Any) -> list[tuple[float, str, int]]:
    """Seconds ago, task, and how many were processed."""
    found = await _store(kit).rates(RateFilter(seconds, **options))
    now = kit.clock.now()
    return [((now - rate.at) / 1e6, rate.task, rate.figures.processed) for rate in found]


@told
async def no_rates_of_nothing(kit: Kit) -> None:
    await _store(kit).note_rates([])
    assert await _store(kit).rates(RateFilter(60.0)) == []


@told
async def what_workers_report_is_added_up(kit: Kit) -> None:
    store = _store(kit)
    await store.note_rates([_done(2, retry=1), _done(3, "u")])
    await store.note_rates([_done(5, failed=1, lost=2)])
    expected = _done(2, retry=1).figures
    expected.add(_done(5, failed=1, lost=2).figures)
    [rate] = await store.rates(RateFilter(60.0, task="t"))
    assert (rate.task, rate.figures) == ("t", expected)
    [both] = await store.rates(RateFilter(60.0))
    assert (both.task, both.figures.ok, both.figures.processed) == ("", 10, 14)
    assert sum(both.figures.waits) == sum(both.figures.runs) == 10
    assert (both.figures.waited, both.figures.ran) == (70, 110)


@told
async def a_period_is_the_databases(kit: Kit) -> None:
    store = _store(kit)
    begin = kit.clock.now() - kit.clock.now() % round(PERIOD * 1e6)
    kit.clock.advance(PERIOD - (kit.clock.now() - begin) / 1e6)
    await store.note_rates([_done(1)])
    kit.clock.advance(PERIOD - 1)
    await store.note_rates([_done(2)])
    kit.clock.advance(1)
    await store.note_rates([_done(4)])
    assert await _rates(kit) == [(PERIOD, "", 3), (0.0, "", 4)]
    assert await _rates(kit, 0.0) == [(0.0, "", 4)]


@told
async def rates_in_longer_steps(kit: Kit) -> None:
    store = _store(kit)
    kit.clock.advance(60 - kit.clock.now() / 1e6 % 60)
    for count in (1, 2, 4, 8, 16, 32, 64):
        await store.note_rates([_done(count)])
        kit.clock.advance(PERIOD)
    assert await _rates(kit, 120.0, step=60.0) == [(70.0, "", 63), (10.0, "", 64)]
    assert await _rates(kit, 120.0, step=20.0, task="t") == [
        (70.0, "t", 3),
        (50.0, "t", 12),
        (30.0, "t", 48),
        (10.0, "t", 64),
    ]


@told
async def rates_by_task(kit: Kit) -> None:
    store = _store(kit)
    kit.clock.advance(60 - kit.clock.now() / 1e6 % 60)
    await store.note_rates([_done(1, "b"), _done(2, "a"), _done(4, "a", "acme")])
    kit.clock.advance(PERIOD)
    await store.note_rates([_done(8, "b")])
    assert await _rates(kit, 30.0, step=60.0, by_task=True) == [(10.0, "a", 6), (10.0, "b", 9)]
    assert await _rates(kit, 30.0, by_task=True, task="b") == [(10.0, "b", 1), (0.0, "b", 8)]


@told
async def rates_of_a_tenant(kit: Kit) -> None:
    await _store(kit).note_rates([_done(1), _done(2, tenant="acme"), _done(4, "u", "acme")])
    for tenant, all_tasks, one in ((None, 7, 3), ("", 1, 1), ("acme", 6, 2)):
        [(_, _, count)] = await _rates(kit, tenant=tenant)
        [(_, _, of_task)] = await _rates(kit, tenant=tenant, task="t")
        assert (count, of_task) == (all_tasks, one)
    assert await _rates(kit, tenant="nobody") == []


@told
async def rates_are_seen_by_others_and_after_a_restart(kit: Kit) -> None:
    await _store(kit).note_rates([_done(1)])
    other = cast(FigureStore, await kit.other())
    await other.note_rates([_done(2)])
    await kit.reopen()
    assert await _rates(kit, by_task=True) == [(kit.clock.now() / 1e6 % PERIOD, "t", 3)]


@told
async def old_rates_are_dropped(kit: Kit) -> None:
    await _store(kit).note_rates([_done(1)])
    kit.clock.advance(RATES_KEPT + PERIOD)
    await _store(kit).note_rates([_done(2)])
    assert [count for _, _, count in await _rates(kit, 2 * RATES_KEPT)] == [2]


# ── groups of errors ──

_AT_HOME = 'ValueError: no user 12\n\nTraceback\n  File "/srv/app/users.py", line 8, in load'


async def _fail_all(kit: Kit, *errors: str, task: str = "t", **options: Any) -> list[int]:
    """Jobs that fail for good, one after the other."""
    jobs = await kit.add_many(*[{"task": task, "max_attempts": 1, **options}] * len(errors))
    for job, error in zip(jobs, errors, strict=True):
        lease = await kit.take(limit=1, tasks=[task])
        assert lease.job_id == job.id
        await kit.settle(lease, Fail(error))
        kit.clock.advance(1)
    return ids(jobs)


async def _groups(kit: Kit, **options: Any) -> list[ErrorGroup]:
    found = await _store(kit).error_groups(**options)
    assert not found.is_cut
    return list(found.groups)


@told
async def no_groups_where_nothing_has_failed(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.settle(lease, Fail("again", delay=5))
    assert await _groups(kit) == []


@told
async def errors_that_differ_in_a_number_are_a_group(kit: Kit) -> None:
    first, second, third = await _fail_all(
        kit, _AT_HOME, "KeyError: 'name'", _AT_HOME.replace("12", "7").replace("line 8", "line 9")
    )
    groups = await _groups(kit)
    assert [(it.count, it.latest_job, it.task, it.tenant) for it in groups] == [
        (Depth(2), third, "t", ""),
        (Depth(1), second, "t", ""),
    ]
    assert groups[0].error.startswith("ValueError: no user 7\n")
    assert groups[0].latest_at == kit.micros(-1)
    assert len({it.fingerprint for it in groups}) == 2
    wanted = JobFilter(fingerprint=groups[0].fingerprint)
    assert ids(await kit.store.find(wanted)) == [third, first]


@told
async def errors_of_two_places_or_tasks_are_two_groups(kit: Kit) -> None:
    elsewhere = _AT_HOME.replace("in load", "in save")
    await _fail_all(kit, _AT_HOME, elsewhere, elsewhere.replace("users.py", "shops.py"))
    await _fail_all(kit, _AT_HOME, task="u")
    assert [(it.task, it.count.count) for it in await _groups(kit)] == [
        ("u", 1),
        *[("t", 1)] * 3,
    ]


@told
async def a_group_is_found_page_by_page_and_leaves_when_it_is_retried(kit: Kit) -> None:
    failed = await _fail_all(kit, "no 1", "no 2", "no 3")
    await _fail_all(kit, "other")
    group = (await _groups(kit))[1]
    options = {"fingerprint": group.fingerprint}
    assert await kit.page(limit=2, **options) == [failed[2], failed[1]]
    assert await kit.page(limit=2, after=failed[1], **options) == [failed[0]]
    assert await kit.page(task="u", **options) == []
    assert await kit.page(states=(JobState.READY,), **options) == []
    assert await kit.page(states=(JobState.FAILED,), **options) == failed[::-1]
    assert await kit.page(ids=(failed[0], failed[2] + 1), **options) == [failed[0]]
    assert ids(await kit.store.retry(failed[:2])) == failed[:2]
    assert await kit.page(**options) == [failed[2]]
    assert [it.count.count for it in await _groups(kit)] == [1, 1]


@told
async def a_job_that_fails_again_is_in_the_group_of_its_last_error(kit: Kit) -> None:
    [job] = await _fail_all(kit, "first")
    before = (await _groups(kit))[0].fingerprint
    await kit.store.retry([job])
    await kit.settle(await kit.take(), Fail("second", final=True))
    [group] = await _groups(kit)
    assert (group.error, group.latest_job) == ("second", job)
    assert group.fingerprint != before
    assert await kit.page(fingerprint=before) == []


@told
async def whatever_makes_jobs_fail_they_are_in_groups(kit: Kit) -> None:
    one, two = await kit.add_many({}, {})
    await kit.store.fail([one.id], "by hand, for 3 reasons")
    await kit.store.fail([two.id], "by hand, for 5 reasons")
    await kit.add("deadly")
    await kit.take(tasks=["deadly"], suspects=1)
    await kit.crash(max_resets=1)
    await kit.take(tasks=["deadly"], suspects=1)
    await kit.crash(max_resets=1)
    await kit.add("named", key="k")
    lease = await kit.take(tasks=["named"])
    await kit.store.remove("k")
    await kit.settle(lease, Fail("too late"))
    groups = {it.task: it for it in await _groups(kit)}
    assert {name: it.count.count for name, it in groups.items()} == {
        "t": 2,
        "deadly": 1,
        "named": 1,
    }
    assert groups["deadly"].error.startswith("its worker died 1 times")
    assert all(len(it.fingerprint) == 16 for it in groups.values())


@told
async def groups_belong_to_tenants(kit: Kit) -> None:
    mine = await _fail_all(kit, "no", tenant="acme")
    other = await _fail_all(kit, "no", "no")
    [acme] = await _groups(kit, tenant="acme")
    [default] = await _groups(kit, tenant="")
    assert (acme.latest_job, acme.tenant) == (mine[0], "acme")
    assert (default.latest_job, default.count) == (other[1], Depth(2))
    assert await _groups(kit) == [default, acme]
    assert await _groups(kit, tenant="nobody") == []
    assert await kit.page(fingerprint=acme.fingerprint, tenant="acme") == mine
    assert await kit.page(fingerprint=acme.fingerprint, tenant="") == []
    assert await kit.page(fingerprint=acme.fingerprint) == mine


@told
async def the_latest_groups_come_first_and_are_counted_to_a_limit(kit: Kit) -> None:
    await _fail_all(kit, "one", "two", "two", "two", "three", "one")
    groups = await _groups(kit, limit=2, most=2)
    assert [(it.error, it.count) for it in groups] == [("one", Depth(2)), ("three", Depth(1))]
    groups = await _groups(kit, most=2)
    assert [it.count for it in groups] == [Depth(2), Depth(1), Depth(2, is_estimate=True)]


@told
async def deleted_jobs_leave_their_group(kit: Kit) -> None:
    failed = await _fail_all(kit, "no", "no")
    await kit.store.delete(failed[1:])
    assert [it.latest_job for it in await _groups(kit)] == failed[:1]
    await kit.store.delete_failed(10)
    assert await _groups(kit) == []


@told
async def a_cancelled_job_is_in_no_group(kit: Kit) -> None:
    await kit.add()
    await kit.settle(await kit.take(), Fail("once"))
    [job] = await kit.jobs()
    await kit.store.cancel([job.id])
    await kit.add("u")
    await kit.settle(await kit.take(tasks=["u"]), CANCEL)
    assert await _groups(kit) == []
