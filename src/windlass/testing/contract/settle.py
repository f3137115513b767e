"""Settling: every outcome, and that only the delivery which owns the job may end it."""

from __future__ import annotations

from msgspec import structs

from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    Complete,
    Fail,
    Lease,
    Outcome,
    Settled,
    Verdict,
)
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases

LOST = Settled(Verdict.LOST)
MISSING = Settled(Verdict.MISSING)

OUTCOMES: dict[str, tuple[Outcome, JobState]] = {
    "complete": (COMPLETE, JobState.COMPLETED),
    "complete_kept": (Complete("1", keep=60.0), JobState.COMPLETED),
    "fail_and_retry_later": (Fail("oops", delay=60.0), JobState.SCHEDULED),
    "fail_and_retry_now": (Fail("oops"), JobState.READY),
    "fail_for_good": (Fail("oops", final=True), JobState.FAILED),
    "release": (RELEASE, JobState.READY),
    "cancel": (CANCEL, JobState.CANCELLED),
}
OUTPUTS = {
    "none": None,
    "null": "null",
    "false": "false",
    "zero": "0",
    "text": '"hej 🪝"',
    "object": '{"a":[1,2.5,null]}',
    "big": '"' + "y" * 200_000 + '"',
}


def _copy(lease: Lease, **changes: int) -> Lease:
    return structs.replace(lease, **changes)


@case.each(*((name,) for name in OUTCOMES))
async def an_outcome_is_applied(kit: Kit, name: str) -> None:
    outcome, state = OUTCOMES[name]
    job = await kit.add()
    kit.clock.advance(2)
    answer = await kit.settle(await kit.take(), outcome)
    assert answer == Settled(Verdict.APPLIED, state)
    if name == "complete":
        assert await kit.store.get(job.id) is None
        return
    seen = await kit.get(job.id)
    assert (seen.state, seen.locked_by) == (state, None)
    assert seen.finished_at == (kit.at() if state.is_final else None)


@case.each(*((name,) for name in OUTCOMES))
async def a_wrong_token_is_lost(kit: Kit, name: str) -> None:
    job = await kit.add()
    lease = await kit.take()
    before = await kit.get(job.id)
    assert await kit.settle(_copy(lease, token=lease.token + 1), OUTCOMES[name][0]) == LOST
    assert await kit.get(job.id) == before
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@case.each(*((name,) for name in OUTCOMES))
async def the_second_time_is_not_applied(kit: Kit, name: str) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.settle(lease, OUTCOMES[name][0])
    before = await kit.store.get(job.id)
    for again in (COMPLETE, Fail("late", final=True), RELEASE, CANCEL):
        assert await kit.settle(lease, again) == (MISSING if before is None else LOST)
    assert await kit.store.get(job.id) == before


@case
async def twice_in_one_call_is_applied_once(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    first, second = await kit.store.settle([(lease, Fail("one")), (lease, Fail("two"))])
    assert first.verdict is Verdict.APPLIED
    assert second == LOST
    seen = await kit.get(job.id)
    assert (seen.last_error, seen.attempts) == ("one", 1)


@case
async def an_unknown_job_is_missing(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    assert await kit.settle(_copy(lease, job_id=lease.job_id + 999), COMPLETE) == MISSING


@case
async def nothing_to_settle(kit: Kit) -> None:
    assert await kit.store.settle([]) == []


@case
async def a_reaped_delivery_is_lost(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.crash()
    assert await kit.settle(lease, COMPLETE) == LOST
    assert await kit.state(job.id) is JobState.READY


@case
async def an_old_delivery_cannot_end_the_new_one(kit: Kit) -> None:
    job = await kit.add()
    old = await kit.take(worker="a")
    await kit.crash()
    new = await kit.take(worker="a", suspects=1)
    for outcome in (COMPLETE, Fail("late", final=True), RELEASE, CANCEL):
        assert await kit.settle(old, outcome) == LOST
    assert await kit.state(job.id) is JobState.RUNNING
    assert (await kit.settle(new, COMPLETE)).verdict is Verdict.APPLIED
    assert await kit.settle(old, COMPLETE) == MISSING


@case
async def old_deliveries_of_many_claims_end_nothing(kit: Kit) -> None:
    """One call settles what many claims took, all of which was lost."""
    await kit.add_many(*({"payload": str(n)} for n in range(6)))
    old = [lease for _ in range(6) for lease in await kit.claim(limit=1)]
    await kit.crash()
    new = [lease for _ in range(6) for lease in await kit.claim(limit=1, suspects=1)]
    assert await kit.store.settle([(lease, COMPLETE) for lease in old]) == [LOST] * 6
    done = Settled(Verdict.APPLIED, JobState.COMPLETED)
    assert await kit.store.settle([(lease, COMPLETE) for lease in new]) == [done] * 6


@case
async def an_expired_lease_that_was_not_reaped_still_counts(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    kit.clock.advance(3600)
    assert (await kit.settle(lease, COMPLETE)).verdict is Verdict.APPLIED


@case
async def a_mixed_batch_is_answered_row_by_row(kit: Kit) -> None:
    jobs = await kit.add_many(*({"payload": str(n)} for n in range(7)))
    leases = await kit.claim()
    await kit.settle(leases[1], COMPLETE)
    await kit.settle(leases[3], Fail("oops"))
    answers = await kit.store.settle(
        [
            (leases[6], CANCEL),
            (leases[1], COMPLETE),
            (leases[0], Complete("7", keep=60.0)),
            (leases[3], COMPLETE),
            (leases[2], Fail("oops", delay=5.0)),
            (leases[4], RELEASE),
            (leases[5], Fail("poison", final=True)),
        ]
    )
    assert [(answer.verdict.value, answer.state) for answer in answers] == [
        ("applied", JobState.CANCELLED),
        ("missing", None),
        ("applied", JobState.COMPLETED),
        ("lost", None),
        ("applied", JobState.SCHEDULED),
        ("applied", JobState.READY),
        ("applied", JobState.FAILED),
    ]
    states = [await kit.state(job.id) for job in jobs]
    assert states == [
        JobState.COMPLETED,
        None,
        JobState.SCHEDULED,
        JobState.READY,
        JobState.READY,
        JobState.FAILED,
        JobState.CANCELLED,
    ]


@case
async def five_hundred_at_once(kit: Kit) -> None:
    await kit.store.enqueue([kit.new()] * 500)
    leases = await kit.claim(limit=500)
    answers = await kit.store.settle([(lease, COMPLETE) for lease in reversed(leases)])
    assert answers == [Settled(Verdict.APPLIED, JobState.COMPLETED)] * 500
    assert await kit.ids() == []


@case
async def other_jobs_are_left_alone(kit: Kit) -> None:
    await kit.add_many({}, {}, {"delay": 60_000_000}, {"task": "x"})
    lease, _ = await kit.claim()
    before = [await kit.get(job_id) for job_id in await kit.ids() if job_id != lease.job_id]
    await kit.settle(lease, COMPLETE)
    assert [await kit.get(job.id) for job in before] == before


# ── failing ──


@case
async def the_delay_is_exact(kit: Kit) -> None:
    job = await kit.add()
    kit.clock.advance(3)
    await kit.fail(await kit.take(), delay=12.345678)
    seen = await kit.get(job.id)
    assert (seen.state, seen.run_at) == (JobState.SCHEDULED, kit.at(12.345678))


@case
async def delay_zero_is_ready_now(kit: Kit) -> None:
    job = await kit.add()
    kit.clock.advance(3)
    await kit.fail(await kit.take(), delay=0.0)
    assert (await kit.get(job.id)).run_at == kit.at()
    assert await kit.claimed() == [job.id]


@case
async def an_instant_goes_before_the_delay(kit: Kit) -> None:
    """The database's clock may differ from the worker's; an instant needs neither."""
    first, second = await kit.add_many({}, {"queue": "q"})
    leases = await kit.claim()
    kit.clock.advance(3)
    await kit.fail(leases[0], delay=5.0, run_at=kit.micros(60.000001))
    await kit.fail(leases[1], delay=5.0, run_at=kit.micros(-1))
    later, now = await kit.get(first.id), await kit.get(second.id)
    assert (later.state, later.run_at) == (JobState.SCHEDULED, kit.at(60.000001))
    assert (now.state, now.run_at) == (JobState.READY, kit.at(-1))


@case
async def nothing_is_due_after_the_year_9999(kit: Kit) -> None:
    last = to_datetime(rules.LAST_INSTANT)
    centuries = 300_000_000_000.0
    added = await kit.add(delay=round(centuries * 1e6))
    keyed = await kit.add(key="k", delay=round(centuries * 1e6))
    failing = await kit.add()
    await kit.fail(await kit.take(), delay=centuries)
    assert (added.run_at, keyed.run_at) == (last, last)
    for job in (added, keyed, failing):
        seen = await kit.get(job.id)
        assert (seen.state, seen.run_at) == (JobState.SCHEDULED, last)


@case
async def a_failed_attempt_keeps_its_error(kit: Kit) -> None:
    job = await kit.add()
    await kit.fail(await kit.take(), "ValueError: nein\n\nTraceback …")
    seen = await kit.get(job.id)
    assert (seen.last_error, seen.attempts) == ("ValueError: nein\n\nTraceback …", 1)
    await kit.fail(await kit.take(), "second")
    assert (await kit.get(job.id)).last_error == "second"


@case
async def the_jobs_own_limit_decides(kit: Kit) -> None:
    job = await kit.add(max_attempts=3)
    states = []
    for _ in range(3):
        states.append((await kit.fail(await kit.take(), max_attempts=1)).state)
    assert states == [JobState.READY, JobState.READY, JobState.FAILED]
    assert (await kit.get(job.id)).attempts == 3
    assert await kit.claim() == []


@case
async def a_small_own_limit_beats_a_larger_one(kit: Kit) -> None:
    await kit.add(max_attempts=1)
    assert (await kit.fail(await kit.take(), max_attempts=9)).state is JobState.FAILED


@case
async def without_its_own_the_settlements_limit_decides(kit: Kit) -> None:
    await kit.add()
    assert (await kit.fail(await kit.take(), max_attempts=2)).state is JobState.READY
    assert (await kit.fail(await kit.take(), max_attempts=2)).state is JobState.FAILED


@case
async def twenty_five_attempts_by_default(kit: Kit) -> None:
    job = await kit.add()
    for _ in range(24):
        assert (await kit.fail(await kit.take())).state is JobState.READY
    assert (await kit.fail(await kit.take())).state is JobState.FAILED
    assert (await kit.get(job.id)).attempts == 25


@case
async def final_fails_whatever_is_left(kit: Kit) -> None:
    job = await kit.add(max_attempts=9)
    assert (await kit.fail(await kit.take(), final=True, delay=5.0)).state is JobState.FAILED
    seen = await kit.get(job.id)
    assert (seen.attempts, seen.last_error, seen.finished_at) == (1, "oops", kit.at())
    await kit.pass_time(100)
    assert await kit.claim() == []


@case
async def the_row_as_it_is_now_decides(kit: Kit) -> None:
    job = await kit.add(key="k", max_attempts=9)
    lease = await kit.take()
    await kit.store.remove("k")
    assert (await kit.fail(lease)).state is JobState.FAILED
    assert await kit.state(job.id) is JobState.FAILED


# ── handing back ──


@case
async def a_release_gives_the_attempt_back(kit: Kit) -> None:
    job = await kit.add(max_attempts=1)
    for _ in range(3):
        await kit.settle(await kit.take(), RELEASE)
    seen = await kit.get(job.id)
    assert (seen.state, seen.attempts, seen.deliveries) == (JobState.READY, 0, 3)


@case
async def a_release_keeps_the_error_and_the_place(kit: Kit) -> None:
    job = await kit.add(run_at=kit.micros(-9))
    await kit.fail(await kit.take(), "before")
    held = await kit.get(job.id)
    kit.clock.advance(1)
    await kit.settle(await kit.take(), RELEASE)
    seen = await kit.get(job.id)
    assert (seen.last_error, seen.run_at, seen.attempts) == ("before", held.run_at, 1)


# ── asked to stop ──


@case.each(
    ("fail_and_retry_now", "cancelled"),
    ("fail_and_retry_later", "cancelled"),
    ("release", "cancelled"),
    ("cancel", "cancelled"),
    ("fail_for_good", "failed"),
    ("complete", "completed"),
)
async def after_a_cancel_request(kit: Kit, name: str, state: str) -> None:
    job = await kit.add(key="k")
    lease = await kit.take()
    await kit.store.cancel([job.id])
    answer = await kit.settle(lease, OUTCOMES[name][0])
    assert answer == Settled(Verdict.APPLIED, JobState(state))
    await kit.pass_time(100)
    assert await kit.claim() == []


# ── what is kept ──


@case.each(*((name,) for name in OUTPUTS))
async def output(kit: Kit, name: str) -> None:
    text = OUTPUTS[name]
    job = await kit.add(keep=60.0)
    await kit.settle(await kit.take(), Complete(text))
    seen = await kit.get(job.id)
    assert seen.state is JobState.COMPLETED
    assert seen.output == (None if text is None else payloads.decode(text))


@case.each(
    ("unset", "unset", "gone"),
    ("unset", "zero", "gone"),
    ("unset", "some", "kept"),
    ("zero", "some", "gone"),
    ("some", "zero", "kept"),
    ("some", "unset", "kept"),
)
async def the_jobs_keep_beats_the_settlements(kit: Kit, own: str, given: str, fate: str) -> None:
    seconds = {"unset": None, "zero": 0.0, "some": 60.0}
    job = await kit.add(keep=seconds[own])
    answer = await kit.settle(await kit.take(), Complete("1", keep=seconds[given]))
    assert answer.state is JobState.COMPLETED
    assert await kit.state(job.id) is (JobState.COMPLETED if fate == "kept" else None)


# ── the record of failed attempts ──


@case
async def failed_attempts_are_remembered(kit: Kit) -> None:
    job = await kit.add()
    for attempt in (1, 2):
        lease = await kit.take(f"w{attempt}")
        kit.clock.advance(1)
        await kit.fail(lease, f"reason {attempt}", delay=0.0)
    seen = await kit.get(job.id)
    assert [(e.attempt, e.at, e.worker, e.error) for e in seen.errors] == [
        (1, kit.at(-1), "w1", "reason 1"),
        (2, kit.at(), "w2", "reason 2"),
    ]


@case
async def the_last_ten_failed_attempts_are_kept_and_the_beginning_of_each(kit: Kit) -> None:
    job = await kit.add(max_attempts=20)
    for attempt in range(12):
        await kit.fail(await kit.take(), f"{attempt} " + "ä" * 5_000)
    errors = (await kit.get(job.id)).errors
    assert [e.attempt for e in errors] == list(range(3, 13))
    assert errors[-1].error == "11 " + "ä" * 4_093


@case
async def failed_attempts_go_with_a_kept_job(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    await kit.fail(await kit.take(), "once")
    await kit.settle(await kit.take(), COMPLETE)
    assert [e.error for e in (await kit.get(job.id)).errors] == ["once"]


@case
async def a_job_that_was_not_charged_has_no_failed_attempt(kit: Kit) -> None:
    job = await kit.add()
    await kit.settle(await kit.take(), RELEASE)
    assert (await kit.get(job.id)).errors == ()
    await kit.settle(await kit.take(), CANCEL)
    assert (await kit.get(job.id)).errors == ()


@case
async def a_key_that_is_used_again_forgets_the_failed_attempts(kit: Kit) -> None:
    await kit.add(key="k")
    await kit.fail(await kit.take(), final=True)
    assert (await kit.add(key="k")).errors == ()


@case
async def an_operators_retry_keeps_the_record(kit: Kit) -> None:
    job = await kit.add()
    await kit.fail(await kit.take(), final=True)
    [told] = await kit.store.retry([job.id])
    assert len(told.errors) == 1
