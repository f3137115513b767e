"""Firing schedules: forward only, never early, each instant with its jobs or not at all."""

from __future__ import annotations

import asyncio
import threading

from msgspec.structs import replace

from windlass.clock import to_micros
from windlass.model.job import Job, JobState
from windlass.store.schedules import Fired, FireVerdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids
from windlass.testing.contract.schedules import (
    NAMES,
    ODD,
    all_jobs,
    begin,
    known,
    nothing_happens,
    schedule,
)

case = Group(__name__)
CASES = case.cases

PATIENCE = 60.0
"""Seconds a hint may take before it counts as never given."""


@case
async def firing_moves_it_and_adds_its_jobs(kit: Kit) -> None:
    [floor] = await begin(kit)
    before = await known(kit)
    until = kit.micros(-10)
    answer = await kit.store.fire("s", floor, until, [kit.new(payload="[1]", run_at=until)])
    assert answer == Fired(FireVerdict.APPLIED, until)
    assert await known(kit) == replace(before, floor_at=until, last_at=until)
    [job] = await all_jobs(kit)
    assert (job.payload, job.state, to_micros(job.run_at)) == ([1], JobState.READY, until)
    assert (job.created_at, job.updated_at) == (kit.at(), kit.at())
    assert (await kit.take()).job_id == job.id


@case
async def a_fired_job_has_every_value(kit: Kit) -> None:
    """Exactly the job that an enqueue would have made."""
    [floor] = await begin(kit)
    options = {
        "payload": '{"_cron":{"ts":"2026-01-01T00:01:00Z","backfilled":true},"a":[1]}',
        "queue": "q",
        "run_at": kit.micros(-30 + ODD),
        "max_attempts": 3,
        "priority": -7,
        "flags": ("f", "g"),
        "keep": 5.0,
    }
    news = [
        kit.new("plain"),
        kit.new("late", delay=60_000_000),
        kit.new("whole", **options),
        kit.new("keyed", **options, key="k", key_mode="preserve_run_at"),
    ]
    for new in news:
        await kit.store.fire("s", floor, floor + 1, [new])
        floor += 1
    fired = await all_jobs(kit)
    assert [job.task for job in fired] == ["plain", "late", "whole", "keyed"]
    await kit.store.remove("k")
    for job, new in zip(fired, news, strict=True):
        [added] = await kit.store.enqueue([new])
        assert job == replace(added, id=job.id)


@case.each(("plain",), ("keyed",))
async def many_instants_in_one_firing(kit: Kit, kind: str) -> None:
    """They become jobs in the order given, each due at its own instant."""
    [floor] = await begin(kit)
    instants = [floor + n * 100_000 for n in range(1, 601)]
    news = [
        kit.new(
            payload=str(n),
            run_at=instant,
            # Their order is not that of the instants.
            key=f"k{n * 7919 % 600}" if kind == "keyed" else None,
        )
        for n, instant in enumerate(instants)
    ]
    answer = await kit.store.fire("s", floor, instants[-1], news)
    assert answer == Fired(FireVerdict.APPLIED, instants[-1])
    jobs = await all_jobs(kit)
    assert [job.payload for job in jobs] == list(range(600))
    assert [to_micros(job.run_at) for job in jobs] == instants
    assert await kit.claimed(limit=1000) == ids(jobs)


@case
async def one_firing_after_another(kit: Kit) -> None:
    [floor] = await begin(kit)
    for _ in range(3):
        until = kit.micros()
        answer = await kit.store.fire("s", floor, until, [kit.new(payload=str(until))])
        assert answer == Fired(FireVerdict.APPLIED, until)
        floor = until
        kit.clock.advance(60)
    assert [job.payload for job in await all_jobs(kit)] == [
        kit.micros(s) for s in (-180, -120, -60)
    ]
    assert (await known(kit)).known_since == kit.micros(-240)


@case
async def a_firing_without_jobs_moves_it(kit: Kit) -> None:
    [floor] = await begin(kit)
    until = kit.micros()
    assert await kit.store.fire("s", floor, until, []) == Fired(FireVerdict.APPLIED, until)
    assert ((await known(kit)).floor_at, await all_jobs(kit)) == (until, [])


@case
async def a_second_time_is_lost(kit: Kit) -> None:
    [floor] = await begin(kit)
    until = kit.micros()
    await kit.store.fire("s", floor, until, [kit.new()])
    await nothing_happens(kit, floor, until, Fired(FireVerdict.LOST, until))
    assert len(await all_jobs(kit)) == 1


@case.each(("earlier",), ("later",))
async def expected_elsewhere_it_is_lost(kit: Kit, where: str) -> None:
    [floor] = await begin(kit)
    expected = floor + (1 if where == "later" else -1)
    await nothing_happens(kit, expected, kit.micros(), Fired(FireVerdict.LOST, floor))


@case.each(("same",), ("before",), ("long_before",))
async def it_never_goes_back(kit: Kit, where: str) -> None:
    [floor] = await begin(kit)
    until = floor - {"same": 0, "before": 1, "long_before": 10**12}[where]
    await nothing_happens(kit, floor, until, Fired(FireVerdict.LOST, floor))


@case
async def early_to_the_microsecond(kit: Kit) -> None:
    [floor] = await begin(kit)
    until = kit.micros() + 1
    await nothing_happens(kit, floor, until, Fired(FireVerdict.EARLY, floor))
    kit.clock.advance(1e-6)
    answer = await kit.store.fire("s", floor, until, [kit.new()])
    assert answer == Fired(FireVerdict.APPLIED, until)


@case
async def lost_goes_before_early(kit: Kit) -> None:
    [floor] = await begin(kit)
    await nothing_happens(kit, floor - 1, kit.micros(60), Fired(FireVerdict.LOST, floor))


@case
async def an_unknown_one_is_missing(kit: Kit) -> None:
    [floor] = await begin(kit)
    await nothing_happens(kit, floor, kit.micros(), Fired(FireVerdict.MISSING), "unknown")


@case
async def a_paused_one_is_not_fired(kit: Kit) -> None:
    [floor] = await begin(kit)
    await kit.store.pause_schedule("s")
    paused = Fired(FireVerdict.PAUSED, floor)
    await nothing_happens(kit, floor, kit.micros(), paused)
    await nothing_happens(kit, floor - 1, kit.micros(), paused)  # whatever else is wrong
    await nothing_happens(kit, floor, kit.micros(60), paused)


@case.each(("plain",), ("keyed",))
async def both_or_neither(kit: Kit, kind: str) -> None:
    """Where a job cannot be added, none is, and the schedule stays where it was."""
    [floor] = await begin(kit)
    key = "k" if kind == "keyed" else None
    kept = await kit.add(key="k")
    before = await known(kit)
    jobs = [kit.new(), kit.new(key=key, payload="[1]"), kit.new(payload="not JSON")]
    refused = False
    try:
        await kit.store.fire("s", floor, kit.micros(), jobs)
    except Exception:  # which one is the store's choice: no caller makes such a payload
        refused = True
    assert refused
    assert await known(kit) == before
    assert await all_jobs(kit) == [kept]
    answer = await kit.store.fire("s", floor, kit.micros(), jobs[:2])
    assert answer.verdict is FireVerdict.APPLIED


@case.each(*((name,) for name in NAMES))
async def a_payload_with(kit: Kit, name: str) -> None:
    [floor] = await begin(kit)
    text = NAMES[name]
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    await kit.store.fire("s", floor, kit.micros(), [kit.new(payload=f'{{"{quoted}":"{quoted}"}}')])
    assert (await kit.get((await kit.take()).job_id)).payload == {text: text}


@case
async def a_serial_queue_stays_serial(kit: Kit) -> None:
    [floor] = await begin(kit)
    news = [kit.new(queue="q", run_at=floor + n) for n in (1, 2, 3)]
    await kit.store.fire("s", floor, floor + 3, news)
    assert await kit.claimed() == [(await all_jobs(kit))[0].id]


@case
async def a_firing_is_hinted(kit: Kit) -> None:
    [floor] = await begin(kit)
    hinted = threading.Event()
    stop = kit.store.subscribe(hinted.set)
    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    assert await asyncio.to_thread(hinted.wait, PATIENCE)
    stop()


# ── keys ──


async def _first(kit: Kit, state: str) -> Job:
    job = await kit.add(key="k", payload="1", delay=500_000_000 if state == "scheduled" else 0)
    if state == "running":
        await kit.take()
    return await kit.get(job.id)


@case.each(
    *(
        (mode, state)
        for mode in ("replace", "preserve_run_at", "unsafe_dedupe")
        for state in ("scheduled", "ready", "running")
    )
)
async def a_key_meets(kit: Kit, mode: str, state: str) -> None:
    """A fired job with a key is as any other that is added with it."""
    first = await _first(kit, state)
    [floor] = await begin(kit)
    until = kit.micros(-20)
    new = kit.new(key="k", key_mode=mode, payload="2", run_at=until)
    assert (await kit.store.fire("s", floor, until, [new])).verdict is FireVerdict.APPLIED
    owner = await kit.store.get_by_key("k")
    assert owner is not None
    old = await kit.get(first.id)
    is_new = state == "running" and mode != "unsafe_dedupe"
    assert len(await all_jobs(kit)) == (2 if is_new else 1)
    if mode == "unsafe_dedupe":
        assert (owner.id, owner.revision) == (first.id, 1)
        assert (old.payload, old.state, old.run_at) == (1, first.state, first.run_at)
    elif is_new:
        assert (old.state, old.key, old.payload) == (JobState.RUNNING, None, 1)
        assert (owner.payload, owner.revision, to_micros(owner.run_at)) == (2, 0, until)
        assert owner.id > first.id
    else:
        assert (owner.id, owner.payload, owner.revision) == (first.id, 2, 1)
        keeps_run_at = mode == "preserve_run_at"
        assert to_micros(owner.run_at) == (to_micros(first.run_at) if keeps_run_at else until)
        assert owner.state is (first.state if keeps_run_at else JobState.READY)


@case
async def instants_of_one_key_become_one_job(kit: Kit) -> None:
    [floor] = await begin(kit)
    news = [kit.new(key="k", payload=str(n), run_at=floor + n) for n in (1, 2, 3)]
    await kit.store.fire("s", floor, floor + 3, news)
    [job] = await all_jobs(kit)
    assert (job.payload, job.revision, to_micros(job.run_at)) == (3, 2, floor + 3)


# ── the clock set back ──


@case
async def a_clock_set_back_fires_nothing_again(kit: Kit) -> None:
    [floor] = await begin(kit)
    fired = kit.micros()
    await kit.store.fire("s", floor, fired, [kit.new()])
    kit.clock.jump(-120)
    for expected, until in ((floor, fired), (floor, kit.micros()), (fired, fired)):
        await nothing_happens(kit, expected, until, Fired(FireVerdict.LOST, fired))
    await nothing_happens(kit, fired, fired + 1, Fired(FireVerdict.EARLY, fired))
    kit.clock.jump(121)
    answer = await kit.store.fire("s", fired, fired + 1, [kit.new()])
    assert answer == Fired(FireVerdict.APPLIED, fired + 1)
    assert len(await all_jobs(kit)) == 2


@case
async def a_clock_set_back_moves_nothing_known(kit: Kit) -> None:
    [floor] = await begin(kit)
    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    before = await known(kit)
    kit.clock.jump(-3600)
    assert await kit.store.register([schedule()]) == [replace(before, seen_at=kit.micros())]


@case
async def resuming_never_goes_back(kit: Kit) -> None:
    [floor] = await begin(kit)
    fired = kit.micros()
    await kit.store.fire("s", floor, fired, [kit.new()])
    before = await known(kit)
    await kit.store.pause_schedule("s")
    kit.clock.jump(-3600)
    assert await kit.store.resume_schedule("s") == before
    assert await known(kit) == before
