"""Schedules: known once, and where they are until they are forgotten; pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from windlass.errors import StoreClosedError
from windlass.model.cron import Schedule
from windlass.model.job import Job
from windlass.store.port import Store
from windlass.store.records import NewJob
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases

ODD = 0.123457
"""Seconds that no coarser clock than microseconds can tell."""

NAMES = {
    "quotes": """it's "quoted" `so` \\ and %s :name $1 {x}""",
    "unicode": "zähler/каждый день/毎日/🕓",
    "long": "n" * 128,
    "spaces": " a  b ",
    "number": "10",
    "null": "null",
}


def schedule(identifier: str = "s", **options: Any) -> Schedule:
    return Schedule(**{"identifier": identifier, "task": "t", "pattern": "* * * * *", **options})


async def known(kit: Kit, identifier: str = "s", store: Store | None = None) -> KnownSchedule:
    """A schedule as the store has it."""
    found = {told.identifier: told for told in await (store or kit.store).schedules()}
    assert identifier in found, f"{identifier!r} is not known"
    return found[identifier]


async def begin(kit: Kit, *identifiers: str) -> list[int]:
    """Make schedules known (`s`, where none are named), and let a minute pass: their floors."""
    kit.clock.advance(ODD)
    told = await kit.store.register([schedule(name) for name in identifiers or ("s",)])
    kit.clock.advance(60)
    return [each.floor_at for each in told]


async def all_jobs(kit: Kit) -> list[Job]:
    return await kit.jobs(limit=10_000)


async def nothing_happens(
    kit: Kit, expected: int, until: int, answer: Fired, identifier: str = "s"
) -> None:
    """This firing gets that answer, moves nothing and adds nothing."""
    before = await kit.store.schedules(), await all_jobs(kit)
    assert await kit.store.fire(identifier, expected, until, [kit.new()]) == answer
    assert (await kit.store.schedules(), await all_jobs(kit)) == before


# ── knowing ──


@case
async def nothing_is_known_at_first(kit: Kit) -> None:
    assert await kit.store.schedules() == []
    assert await kit.store.register([]) == []
    assert await kit.store.schedules() == []


@case
async def a_new_one_is_known_since_now(kit: Kit) -> None:
    kit.clock.advance(ODD)
    now = kit.micros()
    wanted = schedule()
    expected = KnownSchedule(wanted, known_since=now, seen_at=now, floor_at=now)
    assert await kit.store.register([wanted]) == [expected]
    assert await kit.store.schedules() == [expected]
    assert await all_jobs(kit) == []


@case
async def known_again_it_stays_where_it_is(kit: Kit) -> None:
    [floor] = await begin(kit)
    await kit.store.fire("s", floor, kit.micros(-1), [kit.new()])
    await kit.store.pause_schedule("s")
    before = await known(kit)
    kit.clock.advance(5)
    changed = schedule(task="other", pattern="0 4 * * *", payload={"n": 2})
    [told] = await kit.store.register([changed])
    assert told == replace(before, schedule=changed, seen_at=kit.micros())
    assert (told.floor_at, told.last_at) == (kit.micros(-6), kit.micros(-6))
    assert await kit.store.schedules() == [told]


@case
async def the_answer_is_in_the_order_given(kit: Kit) -> None:
    await begin(kit, "b")
    told = await kit.store.register([schedule(name) for name in ("c", "_", "b", "B", "a")])
    assert [each.identifier for each in told] == ["c", "_", "b", "B", "a"]
    assert [each.known_since for each in told] == [
        kit.micros(-60 if each.identifier == "b" else 0) for each in told
    ]
    told = await kit.store.register([schedule("b"), schedule("a")])
    assert [each.identifier for each in told] == ["b", "a"]


@case
async def they_are_listed_by_identifier(kit: Kit) -> None:
    names = ["c", "_", "b", "B", "a", "é", "a/b", "a-b", "ab"]
    await begin(kit, *names)
    assert [each.identifier for each in await kit.store.schedules()] == sorted(names)


@case
async def every_part_of_a_schedule_is_kept(kit: Kit) -> None:
    whole = schedule(
        task="a/b:c.d-e",
        pattern="*/5 4-6 1,15 jan mon",
        tz="America/Argentina/Buenos_Aires",
        fill=93_784.5,
        fillmax=7,
        max_attempts=1,
        queue="q's",
        priority=0,
        key='k"y',
        key_mode="preserve_run_at",
        flags=("f", "ü"),
        payload={"a": [1, 2.5, None, True, {"": "ü\n\"'\\"}], "big": 2**63, "z": 0, "b": {}},
    )
    bare = schedule("bare", priority=None, flags=())
    await kit.store.register([whole, bare])
    assert (await known(kit)).schedule == whole
    assert (await known(kit, "bare")).schedule == bare
    assert list((await known(kit)).schedule.payload) == list(whole.payload)


@case.each(*((name,) for name in NAMES))
async def an_identifier_of(kit: Kit, name: str) -> None:
    """Whatever it is made of, every verb finds it, and finds no other."""
    identifier, store = NAMES[name], kit.store
    [floor, _] = await begin(kit, identifier, "other")
    before = await known(kit, "other")
    now = kit.micros()
    assert (await store.fire(identifier, floor, now, [kit.new()])) == Fired(
        FireVerdict.APPLIED, now
    )
    paused = await store.pause_schedule(identifier)
    assert paused is not None and (paused.identifier, paused.paused_at) == (identifier, now)
    resumed = await store.resume_schedule(identifier)
    assert resumed == replace(paused, paused_at=None)
    assert await known(kit, identifier) == resumed
    assert await store.forget_schedule(identifier) == resumed
    assert await store.schedules() == [before]


@case
async def identifiers_that_look_alike_are_apart(kit: Kit) -> None:
    names = ["s", "S", "s ", "ſ", "s%", "s_", "e\u0301", "\u00e9"]
    await begin(kit, *names)
    assert len(await kit.store.schedules()) == len(names)
    await kit.store.pause_schedule("s")
    await kit.store.forget_schedule("S")
    found = {each.identifier: each.paused_at for each in await kit.store.schedules()}
    assert found == {name: kit.micros() if name == "s" else None for name in names if name != "S"}


# ── pausing, resuming, forgetting ──


@case
async def a_pause_has_its_instant(kit: Kit) -> None:
    await begin(kit)
    before = await known(kit)
    paused = await kit.store.pause_schedule("s")
    assert paused == replace(before, paused_at=kit.micros())
    assert await kit.store.schedules() == [paused]


@case
async def pausing_twice_keeps_the_first_instant(kit: Kit) -> None:
    await begin(kit)
    paused = await kit.store.pause_schedule("s")
    kit.clock.advance(5)
    assert await kit.store.pause_schedule("s") == paused
    assert await kit.store.schedules() == [paused]


@case
async def resumed_it_goes_on_from_now(kit: Kit) -> None:
    """What came while it was paused is passed over, and was not fired."""
    [floor] = await begin(kit)
    fired = kit.micros(-30)
    await kit.store.fire("s", floor, fired, [kit.new()])
    before = await known(kit)
    await kit.store.pause_schedule("s")
    kit.clock.advance(300)
    now = kit.micros()
    resumed = await kit.store.resume_schedule("s")
    assert resumed == replace(before, floor_at=now)
    assert resumed.last_at == fired
    assert await kit.store.schedules() == [resumed]
    kit.clock.advance(60)
    await nothing_happens(kit, fired, kit.micros(), Fired(FireVerdict.LOST, now))
    answer = await kit.store.fire("s", now, kit.micros(), [kit.new()])
    assert answer == Fired(FireVerdict.APPLIED, kit.micros())


@case
async def resuming_what_was_not_paused_changes_nothing(kit: Kit) -> None:
    await begin(kit)
    before = await known(kit)
    assert await kit.store.resume_schedule("s") == before
    assert await kit.store.schedules() == [before]


@case
async def forgotten_it_is_gone(kit: Kit) -> None:
    [floor] = await begin(kit)
    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    paused = await kit.store.pause_schedule("s")
    jobs = await all_jobs(kit)
    assert await kit.store.forget_schedule("s") == paused
    assert await kit.store.schedules() == []
    assert await all_jobs(kit) == jobs
    assert await kit.store.forget_schedule("s") is None
    kit.clock.advance(60)
    await nothing_happens(kit, kit.micros(-60), kit.micros(), Fired(FireVerdict.MISSING))


@case
async def forgotten_and_known_it_is_new(kit: Kit) -> None:
    [floor] = await begin(kit)
    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    await kit.store.pause_schedule("s")
    await kit.store.forget_schedule("s")
    kit.clock.advance(60)
    now = kit.micros()
    assert await kit.store.register([schedule()]) == [KnownSchedule(schedule(), now, now, now)]


@case
async def what_is_unknown_stays_unknown(kit: Kit) -> None:
    await begin(kit)
    before = await kit.store.schedules()
    assert await kit.store.pause_schedule("unknown") is None
    assert await kit.store.resume_schedule("unknown") is None
    assert await kit.store.forget_schedule("unknown") is None
    assert await kit.store.schedules() == before


@case
async def the_others_are_left_alone(kit: Kit) -> None:
    [floor, *_] = await begin(kit, "s", "fired", "paused")
    await kit.store.fire("fired", floor, kit.micros(-1), [kit.new()])
    others = [await known(kit, "fired"), await kit.store.pause_schedule("paused")]

    async def alone() -> bool:
        return [await known(kit, name) for name in ("fired", "paused")] == others

    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    assert await alone()
    await kit.store.pause_schedule("s")
    assert await alone()
    kit.clock.advance(1)
    await kit.store.resume_schedule("s")
    assert await alone()
    await kit.store.register([schedule()])
    assert await alone()
    await kit.store.forget_schedule("s")
    assert await alone()


# ── other stores ──


@case
async def other_stores_see_the_same(kit: Kit) -> None:
    [floor] = await begin(kit)
    other, store = await kit.other(), kit.store
    until = kit.micros(-30)
    assert (await other.fire("s", floor, until, [kit.new()])).verdict is FireVerdict.APPLIED
    assert await store.fire("s", floor, until, [kit.new()]) == Fired(FireVerdict.LOST, until)
    await store.pause_schedule("s")
    paused = Fired(FireVerdict.PAUSED, until)
    assert await other.fire("s", until, kit.micros(), [kit.new()]) == paused
    assert await other.schedules() == await store.schedules()
    await other.resume_schedule("s")
    assert await known(kit) == await known(kit, store=other)
    await store.forget_schedule("s")
    assert await other.schedules() == []
    missing = Fired(FireVerdict.MISSING)
    assert await other.fire("s", kit.micros(), kit.micros(), [kit.new()]) == missing
    assert len(await all_jobs(kit)) == 1


@case
async def they_are_remembered(kit: Kit) -> None:
    [floor, *_] = await begin(kit, "s", "paused", "resumed", "forgotten")
    await kit.store.fire("s", floor, kit.micros(), [kit.new()])
    await kit.store.pause_schedule("paused")
    await kit.store.pause_schedule("resumed")
    kit.clock.advance(1)
    await kit.store.resume_schedule("resumed")
    await kit.store.forget_schedule("forgotten")
    before = await kit.store.schedules()
    assert [each.identifier for each in before] == ["paused", "resumed", "s"]
    await kit.reopen()
    assert await kit.store.schedules() == before
    await nothing_happens(kit, floor, kit.micros(-1), Fired(FireVerdict.LOST, kit.micros(-1)))
    await nothing_happens(kit, floor, kit.micros(), Fired(FireVerdict.PAUSED, floor), "paused")


@case
async def a_closed_store_says_so(kit: Kit) -> None:
    [floor] = await begin(kit)
    store = await kit.other()
    await store.close()
    news: Sequence[NewJob] = [kit.new()]
    for verb in (
        store.register([schedule()]),
        store.fire("s", floor, kit.micros(), news),
        store.pause_schedule("s"),
        store.resume_schedule("s"),
        store.forget_schedule("s"),
    ):
        try:
            await verb
        except StoreClosedError:
            continue
        raise AssertionError("a closed store answered")
