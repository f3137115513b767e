"""Listing jobs page by page, and counting them: open jobs and history alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.model.job import Job, JobState
from windlass.store.records import COMPLETE, JobFilter
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, ["ready", "scheduled", "running", "cancelled", "failed", "kept"]),
    "one_state": ({"states": (JobState.READY,)}, ["ready"]),
    "kept_state": ({"states": (JobState.COMPLETED,)}, ["kept"]),
    "several_states": (
        {"states": (JobState.SCHEDULED, JobState.COMPLETED, JobState.RUNNING)},
        ["scheduled", "running", "kept"],
    ),
    "no_state": ({"states": ()}, []),
    "state_without_jobs": ({"states": (JobState.BLOCKED,)}, []),
    "task": ({"task": "x"}, ["scheduled", "kept"]),
    "unknown_task": ({"task": "y"}, []),
    "queue": ({"queue": "q"}, ["ready", "kept"]),
    "key": ({"key": "k"}, ["running", "kept"]),
    "task_and_queue": ({"task": "x", "queue": "q"}, ["kept"]),
    "state_and_queue": ({"states": (JobState.READY,), "queue": "q"}, ["ready"]),
    "state_and_key": ({"states": (JobState.RUNNING,), "key": "k"}, ["running"]),
}


async def _one_of_each(kit: Kit) -> dict[str, int]:
    """A job in every state, oldest first."""
    made = {}
    job = await kit.add("x", queue="q", key="k", keep=600.0)
    await kit.settle(await kit.take(tasks=["x"]), COMPLETE)
    made["kept"] = job.id
    made["failed"] = (await kit.add()).id
    await kit.store.fail([made["failed"]], "no")
    made["cancelled"] = (await kit.add()).id
    await kit.store.cancel([made["cancelled"]])
    made["running"] = (await kit.add(key="k")).id
    await kit.take()
    made["scheduled"] = (await kit.add("x", delay=60_000_000)).id
    made["ready"] = (await kit.add(queue="q")).id
    return made


def newest(jobs: Sequence[Job]) -> list[int]:
    """Their ids as a list shows them."""
    return sorted(ids(jobs), reverse=True)


@case.each(*((name,) for name in FILTERS))
async def find_by(kit: Kit, name: str) -> None:
    made = await _one_of_each(kit)
    options, expected = FILTERS[name]
    assert await kit.page(**options) == [made[word] for word in expected]


@case
async def find_by_ids(kit: Kit) -> None:
    made = await _one_of_each(kit)
    wanted = (made["ready"], made["kept"], made["kept"], 999_999)
    assert await kit.page(ids=wanted) == [made["ready"], made["kept"]]
    assert await kit.page(ids=wanted, states=(JobState.READY,)) == [made["ready"]]
    assert await kit.page(ids=()) == []


@case
async def what_is_found_is_what_get_says(kit: Kit) -> None:
    made = await _one_of_each(kit)
    found = await kit.store.find(JobFilter())
    assert found == [await kit.get(job_id) for job_id in reversed(made.values())]


@case
async def a_hundred_in_a_page_by_default(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new()] * 105)
    assert await kit.page() == newest(jobs)[:100]


@case
async def pages_begin_with_the_newest(kit: Kit) -> None:
    jobs = await kit.add_many(*({"priority": -n, "delay": n} for n in range(10)))
    seen: list[int] = []
    while page := await kit.page(after=seen[-1] if seen else None, limit=4):
        assert len(page) <= 4
        seen += page
    assert seen == newest(jobs)


@case
async def pages_run_through_open_jobs_and_history(kit: Kit) -> None:
    jobs = await kit.add_many(*({"task": "ab"[n % 2], "keep": 600.0} for n in range(10)))
    leases = await kit.claim(tasks=["a"])
    await kit.store.settle([(lease, COMPLETE) for lease in leases])
    seen: list[int] = []
    while page := await kit.page(after=seen[-1] if seen else None, limit=3):
        seen += page
    assert seen == newest(jobs)


@case
async def pages_are_stable_while_jobs_end(kit: Kit) -> None:
    jobs = await kit.add_many(*[{}] * 4, *[{"task": "new"}] * 2)
    first = await kit.page(limit=3)
    leases = await kit.claim(limit=2, tasks=["new"])
    await kit.store.settle([(lease, COMPLETE) for lease in leases])
    assert first + await kit.page(after=first[-1], limit=3) == newest(jobs)


@case
async def a_page_beyond_the_end_is_empty(kit: Kit) -> None:
    job = await kit.add()
    assert await kit.page(after=job.id) == []


@case
async def filters_apply_before_the_page_is_cut(kit: Kit) -> None:
    jobs = await kit.add_many(*({"task": "ab"[n % 2]} for n in range(10)))
    wanted = newest(jobs)[::2]
    assert await kit.page(task="b", limit=2) == wanted[:2]
    assert await kit.page(task="b", limit=2, after=wanted[1]) == wanted[2:4]


@case
async def counts_of_nothing(kit: Kit) -> None:
    counts = await kit.store.counts()
    assert counts == dict.fromkeys(JobState, 0)


@case
async def counts_of_every_state(kit: Kit) -> None:
    await _one_of_each(kit)
    await kit.add()
    assert await kit.store.counts() == {
        JobState.BLOCKED: 0,
        JobState.SCHEDULED: 1,
        JobState.READY: 2,
        JobState.RUNNING: 1,
        JobState.COMPLETED: 1,
        JobState.FAILED: 1,
        JobState.CANCELLED: 1,
    }


@case
async def waiting_behind_a_queue_counts_as_ready(kit: Kit) -> None:
    jobs = await kit.add_many(*[{"queue": "q"}] * 3)
    await kit.take()
    counts = await kit.store.counts()
    assert (counts[JobState.RUNNING], counts[JobState.READY]) == (1, 2)
    assert await kit.page(states=(JobState.READY,)) == newest(jobs)[:-1]
    assert await kit.state(jobs[1].id) is JobState.READY
