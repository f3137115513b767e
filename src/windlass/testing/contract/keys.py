"""Keys: one open job per key, whatever the mode and whatever state that job is in.

A mode meets each of nine states of the job that has the key; the table below says what becomes
of it. Completed and cancelled jobs have given their key back, so they count as no job at all.
"""

from __future__ import annotations

from typing import Any

from windlass.model import payload as payloads
from windlass.model.job import Job, JobState
from windlass.model.names import KeyMode
from windlass.store.records import CANCEL, COMPLETE, RELEASE, Complete, Fail, Note, Verdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

MODES = ("replace", "preserve_run_at", "unsafe_dedupe")
STATES = (
    "none",
    "scheduled",
    "ready",
    "running",
    "awaiting_retry",
    "failed",
    "cancelled",
    "completed_and_kept",
    "completed_and_gone",
)
FREE = ("none", "cancelled", "completed_and_kept", "completed_and_gone")
"""States of the first job that leave the key free."""


async def _first(kit: Kit, state: str) -> Job | None:
    """The job that had the key first, brought to that state; None where there is none."""
    if state == "none":
        return None
    options: dict[str, Any] = {"key": "k", "payload": "1", "priority": 5, "max_attempts": 9}
    if state == "scheduled":
        return await kit.add(**options, delay=100_000_000)
    job = await kit.add(**options, keep=1000.0 if state == "completed_and_kept" else None)
    if state == "ready":
        return job
    if state == "cancelled":
        return (await kit.store.cancel([job.id]))[0]
    lease = await kit.take()
    if state == "awaiting_retry":
        await kit.fail(lease, delay=60)
    elif state == "failed":
        await kit.fail(lease, final=True)
    elif state != "running":
        await kit.settle(lease, COMPLETE)
    return await kit.store.get(job.id)


@case.each(*((mode, state) for mode in MODES for state in STATES))
async def adding_again(kit: Kit, mode: str, state: str) -> None:
    first = await _first(kit, state)
    kit.clock.advance(1)
    again = await kit.add(key="k", key_mode=mode, payload="2", delay=50_000_000)
    owner = await kit.store.get_by_key("k")
    assert owner == again
    if first is None or state in FREE:
        _is_new(kit, again, first)
        if first is not None:
            assert await kit.store.get(first.id) == first
    elif mode == "unsafe_dedupe":
        _is_untouched(again, first)
    elif state == "running":
        _is_new(kit, again, first)
        old = await kit.get(first.id)
        assert (old.state, old.key, old.payload) == (JobState.RUNNING, None, 1)
    else:
        _is_replaced(again, first)
        keeps_run_at = mode == "preserve_run_at" and state in ("scheduled", "ready")
        assert again.run_at == (first.run_at if keeps_run_at else kit.at(50))
        assert again.state is (first.state if keeps_run_at else JobState.SCHEDULED)


def _is_new(kit: Kit, job: Job, before: Job | None) -> None:
    assert before is None or job.id > before.id
    assert (job.payload, job.revision, job.attempts) == (2, 0, 0)
    assert (job.state, job.run_at) == (JobState.SCHEDULED, kit.at(50))


def _is_untouched(job: Job, before: Job) -> None:
    assert (job.id, job.payload, job.state) == (before.id, 1, before.state)
    assert (job.run_at, job.priority, job.max_attempts) == (before.run_at, 5, 9)
    assert (job.attempts, job.last_error) == (before.attempts, before.last_error)
    assert job.locked_by == before.locked_by


def _is_replaced(job: Job, before: Job) -> None:
    assert (job.id, job.payload, job.priority, job.max_attempts) == (before.id, 2, 0, 25)
    assert (job.attempts, job.last_error, job.finished_at) == (0, None, None)
    assert job.revision == before.revision + 1
    assert (job.created_at, job.updated_at > before.updated_at) == (before.created_at, True)


@case.each(("replace",), ("preserve_run_at",))
async def omitted_values_go_back_to_their_defaults(kit: Kit, mode: str) -> None:
    await kit.add(
        "a",
        payload="[1]",
        queue="q",
        max_attempts=3,
        key="k",
        priority=7,
        flags=("f",),
        keep=60.0,
    )
    job = await kit.add("b", key="k", key_mode=mode)
    assert (job.task, job.payload, job.queue) == ("b", {}, None)
    assert (job.max_attempts, job.priority, job.flags, job.keep) == (25, 0, None, None)
    assert (await kit.take(tasks=["b"])).max_attempts is None


@case
async def replace_takes_every_new_value(kit: Kit) -> None:
    first = await kit.add("a", key="k")
    job = await kit.add(
        "b",
        payload='"x"',
        queue="q",
        run_at=kit.micros(5),
        max_attempts=2,
        key="k",
        priority=-1,
        flags=("f",),
        keep=0.0,
    )
    assert (job.id, job.task, job.payload, job.queue) == (first.id, "b", "x", "q")
    assert (job.run_at, job.max_attempts, job.priority) == (kit.at(5), 2, -1)
    assert (job.flags, job.keep, job.state) == (("f",), 0.0, JobState.SCHEDULED)


@case
async def replace_brings_a_scheduled_job_forward(kit: Kit) -> None:
    await kit.add(key="k", delay=60_000_000)
    job = await kit.add(key="k")
    assert (job.state, job.run_at) == (JobState.READY, kit.at())
    assert await kit.claimed() == [job.id]


@case
async def preserve_run_at_keeps_a_job_on_its_way(kit: Kit) -> None:
    first = await kit.add(key="k", delay=60_000_000)
    kit.clock.advance(40)
    await kit.add(key="k", key_mode="preserve_run_at", payload="2", delay=60_000_000)
    await kit.pass_time(20)
    lease = await kit.take()
    assert (lease.job_id, lease.payload) == (first.id, "2")


@case
async def preserve_run_at_keeps_it_after_a_release(kit: Kit) -> None:
    first = await kit.add(key="k")
    await kit.settle(await kit.take(), RELEASE)
    kit.clock.advance(5)
    job = await kit.add(key="k", key_mode="preserve_run_at", delay=60_000_000)
    assert (job.run_at, job.state) == (first.run_at, JobState.READY)


@case
async def the_revision_counts_every_request(kit: Kit) -> None:
    for expected, mode in enumerate(["replace", *MODES, "replace"]):
        job = await kit.add(key="k", key_mode=mode)
        assert job.revision == expected
    assert (await kit.take()).revision == 4


@case
async def a_replaced_suspect_is_an_ordinary_job_again(kit: Kit) -> None:
    job = await kit.add(key="k")
    for _ in range(2):
        await kit.take(suspects=1)
        await kit.crash()
    assert (await kit.get(job.id)).resets == 1
    assert (await kit.add(key="k")).resets == 0
    lease = await kit.take(suspects=0)
    assert (lease.job_id, lease.suspect) == (job.id, False)


@case
async def a_replaced_job_forgets_its_progress_and_log(kit: Kit) -> None:
    await kit.add(key="k")
    lease = await kit.take()
    await kit.store.note(lease, Note(progress='[0.5,"half"]', entry='"began"'))
    await kit.fail(lease, final=True)
    job = await kit.add(key="k")
    assert (job.progress, job.log) == (None, ())


@case
async def a_revived_job_has_all_its_attempts(kit: Kit) -> None:
    await kit.add(key="k", max_attempts=2)
    for _ in range(2):
        await kit.fail(await kit.take())
    await kit.add(key="k", max_attempts=2)
    assert (await kit.fail(await kit.take())).state is JobState.READY
    assert (await kit.fail(await kit.take())).state is JobState.FAILED
    assert len(await kit.ids()) == 1


@case
async def a_revived_job_is_not_stopped_by_an_old_cancel(kit: Kit) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    await kit.store.cancel([job.id])
    await kit.fail(lease, final=True)
    await kit.add(key="k")
    again = await kit.take()
    assert again.job_id == job.id
    assert kit.check(again).cancel == frozenset()
    assert (await kit.fail(again)).state is JobState.READY


@case
async def a_key_belongs_to_no_task(kit: Kit) -> None:
    first = await kit.add("a", key="k")
    assert (await kit.add("b", key="k")).id == first.id
    assert await kit.claim(tasks=["a"]) == []


@case
async def keys_are_compared_exactly(kit: Kit) -> None:
    words = ("k", "K", "k ", " k", "ke", "k\u00e9", "ke\u0301")
    jobs = await kit.add_many(*({"key": word} for word in words))
    assert len(set(ids(jobs))) == len(words)
    assert [job.key for job in jobs] == list(words)


@case
async def nobody_has_an_unknown_key(kit: Kit) -> None:
    await kit.add(key="k")
    assert await kit.store.get_by_key("other") is None


@case
async def a_key_may_be_cancelled_many_times(kit: Kit) -> None:
    jobs = [await kit.add(key="k")]
    await kit.store.cancel([jobs[0].id])
    jobs.append(await kit.add(key="k"))
    await kit.store.cancel([jobs[1].id])
    assert await kit.store.get_by_key("k") is None
    assert await kit.ids(key="k", states=(JobState.CANCELLED,)) == ids(jobs)


@case
async def a_cancelled_delivery_frees_the_key(kit: Kit) -> None:
    first = await kit.add(key="k")
    await kit.settle(await kit.take(), CANCEL)
    assert (await kit.add(key="k")).id != first.id


@case
async def a_kept_completed_job_does_not_answer_for_its_key(kit: Kit) -> None:
    job = await kit.add(key="k", keep=60.0)
    await kit.settle(await kit.take(), COMPLETE)
    assert await kit.store.get_by_key("k") is None
    assert (await kit.get(job.id)).key == "k"


# ── two with one key in one call ──


@case.each(("none",), ("ready",), ("scheduled",), ("running",), ("failed",))
async def the_last_of_two_in_one_call_wins(kit: Kit, state: str) -> None:
    first = await _first(kit, state)
    before, one, two, after = await kit.add_many(
        {"payload": '"before"'},
        {"key": "k", "payload": "2"},
        {"key": "k", "payload": "3", "delay": 9_000_000},
        {"payload": '"after"'},
    )
    assert one.id == two.id
    owner = await kit.store.get_by_key("k")
    assert owner is not None
    assert (owner.id, owner.payload, owner.run_at) == (two.id, 3, kit.at(9))
    held = [] if first is None or first.id == owner.id else [first.id]
    assert await kit.ids() == sorted({*held, owner.id, before.id, after.id})


@case
async def different_keys_in_one_call(kit: Kit) -> None:
    jobs = await kit.add_many(*({"key": f"k{n}"} for n in range(50)))
    again = await kit.add_many(*({"key": f"k{n}"} for n in reversed(range(50))))
    assert ids(again) == ids(jobs)[::-1]


# ── replaced while it runs ──


@case.each(("fail",), ("release",), ("reap",), ("retire",), ("unlock",))
async def a_superseded_job_does_not_run_again(kit: Kit, ending: str) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    new = await kit.add(key="k", delay=1_000_000_000)
    if ending == "fail":
        assert (await kit.fail(lease)).state is JobState.FAILED
    elif ending == "release":
        assert (await kit.settle(lease, RELEASE)).state is JobState.FAILED
    elif ending == "reap":
        assert (await kit.crash()).ended == (job.id,)
    elif ending == "retire":
        await kit.store.retire("w")
    else:
        [told] = await kit.store.unlock(["w"], 5)
        assert told.state is JobState.FAILED
    old = await kit.get(job.id)
    assert (old.state, old.key, old.locked_by) == (JobState.FAILED, None, None)
    assert old.last_error
    assert await kit.claim(suspects=9) == []
    assert await kit.ids() == [job.id, new.id]


@case
async def a_superseded_job_may_complete(kit: Kit) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    await kit.add(key="k")
    assert (await kit.settle(lease, Complete("1", keep=60))).state is JobState.COMPLETED
    assert (await kit.get(job.id)).output == 1


@case
async def a_superseded_job_keeps_its_lease(kit: Kit) -> None:
    await kit.add(key="k")
    lease = await kit.take()
    await kit.add(key="k")
    assert kit.renew(lease).lost == {}
    assert (await kit.store.note(lease, Note(entry="1"))) is Verdict.APPLIED


@case
async def superseded_and_its_replacement_may_both_run(kit: Kit) -> None:
    await kit.add(key="k")
    old = await kit.take()
    await kit.add(key="k", payload="2")
    new = await kit.take()
    answers = await kit.store.settle([(old, COMPLETE), (new, COMPLETE)])
    assert [answer.verdict for answer in answers] == [Verdict.APPLIED] * 2
    assert await kit.ids() == []


@case
async def superseded_once_the_next_request_replaces_the_replacement(kit: Kit) -> None:
    first = await kit.add(key="k")
    await kit.take()
    second = await kit.add(key="k", payload="2")
    third = await kit.add(key="k", payload="3")
    assert (third.id, third.payload) == (second.id, 3)
    assert await kit.ids() == [first.id, second.id]


@case
async def superseded_the_operator_may_still_retry_it(kit: Kit) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    await kit.add(key="k", delay=1_000_000_000)
    await kit.fail(lease)
    await kit.store.retry([job.id])
    assert (await kit.fail(await kit.take())).state is JobState.READY


@case
async def superseded_the_operator_may_still_reschedule_it(kit: Kit) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    await kit.add(key="k", delay=1_000_000_000)
    await kit.fail(lease)
    await kit.store.reschedule([job.id], attempts=0)
    assert (await kit.fail(await kit.take())).state is JobState.READY


# ── removed by key ──


@case.each(("scheduled",), ("ready",), ("awaiting_retry",), ("failed",))
async def remove_deletes(kit: Kit, state: str) -> None:
    first = await _first(kit, state)
    assert first is not None
    removed = await kit.store.remove("k")
    assert removed is not None and removed.id == first.id
    assert await kit.ids() == []


@case.each(("none",), ("cancelled",), ("completed_and_kept",), ("completed_and_gone",))
async def remove_finds_nothing(kit: Kit, state: str) -> None:
    first = await _first(kit, state)
    assert await kit.store.remove("k") is None
    if first is not None:
        assert await kit.store.get(first.id) == first


@case
async def remove_of_a_running_job_only_stops_its_retry(kit: Kit) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    removed = await kit.store.remove("k")
    assert removed is not None
    assert (removed.id, removed.state, removed.key) == (job.id, JobState.RUNNING, None)
    assert await kit.store.remove("k") is None
    assert kit.renew(lease).lost == {}
    assert (await kit.settle(lease, Fail("oops", delay=5))).state is JobState.FAILED
    assert (await kit.get(job.id)).last_error == "oops"


ARRAYS = {
    "two": ("[1,2]", "[3]", [1, 2, 3]),
    "none before": ("[]", "[3]", [3]),
    "none now": (" [ 1 ] ", "[ ]", [1]),
    "none at all": ("[]", "[]", []),
    "arrays in arrays": ('[[1],"]"]', '[["["]]', [[1], "]", ["["]]),
    "an object before": ('{"a":[1]}', "[3]", [3]),
    "an object now": ("[1]", '{"a":[3]}', {"a": [3]}),
    "text before": ('"[1]"', "[3]", [3]),
}


@case.each(*((mode, name) for mode in ("replace", "preserve_run_at") for name in ARRAYS))
async def arrays_under_one_key_are_joined(kit: Kit, mode: KeyMode, name: str) -> None:
    old, new, expected = ARRAYS[name]
    await kit.add(key="k", payload=old, key_mode=mode)
    job = await kit.add(key="k", payload=new, key_mode=mode)
    assert job.payload == expected
    lease = await kit.take()
    assert payloads.decode(lease.payload) == expected


@case
async def arrays_in_one_call_are_joined(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"key": "k", "payload": "[1]"}, {"key": "other"}, {"key": "k", "payload": "[2]"}
    )
    assert jobs[0].id == jobs[2].id
    assert (await kit.get(jobs[0].id)).payload == [1, 2]


@case
async def what_is_left_of_a_failed_job_is_joined(kit: Kit) -> None:
    """Its items were not done."""
    job = await kit.add(key="k", payload="[1,2]")
    await kit.settle(await kit.take(), Fail("oops", final=True, payload="[2]"))
    again = await kit.add(key="k", payload="[3]")
    assert (again.id, again.payload, again.state) == (job.id, [2, 3], JobState.READY)


@case
async def an_array_beside_a_running_job_is_a_job_of_its_own(kit: Kit) -> None:
    await kit.add(key="k", payload="[1]")
    await kit.take()
    assert (await kit.add(key="k", payload="[2]")).payload == [2]


@case
async def an_array_is_dropped_by_unsafe_dedupe(kit: Kit) -> None:
    await kit.add(key="k", payload="[1]")
    assert (await kit.add(key="k", payload="[2]", key_mode="unsafe_dedupe")).payload == [1]
