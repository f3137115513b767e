"""Schedules in the hands of several workers and operators at once: one of them wins each instant.

As in `concurrency`, every case ends after a fixed number of operations; only who wins may vary.
"""

from __future__ import annotations

from collections import Counter

from windlass.store.port import Store
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.testing.contract.case import Group
from windlass.testing.contract.concurrency import RIVALS, compete
from windlass.testing.contract.kit import Kit
from windlass.testing.contract.schedules import all_jobs, begin, known, schedule

case = Group(__name__)
CASES = case.cases

ROUNDS = 5
WORDS = [f"s{n}" for n in range(8)]


@case
async def an_instant_is_fired_by_one(kit: Kit) -> None:
    [floor] = await begin(kit)
    instants = [floor + n * 1_000_000 for n in range(1, 21)]

    async def work(number: int, store: Store) -> list[Fired]:
        """Every rival tries every instant; the later ones are told where the schedule is."""
        answers, expected = [], floor
        for instant in instants:
            new = kit.new(payload=str(instant))
            answers.append(await store.fire("s", expected, instant, [new]))
            expected = instant
        return answers

    for instant, answers in zip(instants, zip(*await compete(kit, work), strict=True), strict=True):
        verdicts = Counter(answer.verdict for answer in answers)
        assert verdicts == {FireVerdict.APPLIED: 1, FireVerdict.LOST: RIVALS - 1}
        assert all(answer.floor_at >= instant for answer in answers)
    assert [job.payload for job in await all_jobs(kit)] == instants
    assert (await known(kit)).last_at == instants[-1]


@case
async def everybody_goes_on_from_where_it_is(kit: Kit) -> None:
    """As workers do it: in batches of their own size, and from where they are told it is."""
    [floor] = await begin(kit)
    instants = [floor + n * 1_000_000 for n in range(1, 51)]

    async def work(number: int, store: Store) -> int:
        place, applied = floor, 0
        while batch := [instant for instant in instants if instant > place][: number + 2]:
            news = [kit.new(payload=str(instant), run_at=instant) for instant in batch]
            answer = await store.fire("s", place, batch[-1], news)
            assert answer.verdict in (FireVerdict.APPLIED, FireVerdict.LOST)
            assert answer.floor_at > place
            applied += len(batch) if answer.verdict is FireVerdict.APPLIED else 0
            place = answer.floor_at
        return applied

    assert sum(await compete(kit, work)) == len(instants)
    assert [job.payload for job in await all_jobs(kit)] == instants


async def _meet(kit: Kit, store: Store, verb: str) -> KnownSchedule:
    match verb:
        case "pause":
            told = await store.pause_schedule("s")
        case "resume":
            told = await store.resume_schedule("s")
        case _:
            told = await store.forget_schedule("s")
    assert told is not None
    return told


@case.each(("pause", "paused"), ("forget", "missing"))
async def a_firing_meets(kit: Kit, verb: str, refusal: str) -> None:
    """Either it was fired before, and the operator is told so, or no worker fires it."""
    for _ in range(ROUNDS):
        [floor] = await begin(kit)
        until = kit.micros()
        before = len(await all_jobs(kit))
        told: list[KnownSchedule] = []

        async def work(
            number: int,
            store: Store,
            floor: int = floor,
            until: int = until,
            told: list[KnownSchedule] = told,
        ) -> FireVerdict | None:
            if number == 0:
                told.append(await _meet(kit, store, verb))
                return None
            return (await store.fire("s", floor, until, [kit.new()])).verdict

        verdicts = Counter(await compete(kit, work, rivals=3))
        applied = verdicts[FireVerdict.APPLIED]
        assert applied <= 1
        assert applied or verdicts[FireVerdict(refusal)] == 2
        assert applied or not verdicts[FireVerdict.LOST]
        assert len(await all_jobs(kit)) == before + applied
        assert told[0].floor_at == (until if applied else floor)
        assert told[0].last_at == (until if applied else None)
        await kit.store.forget_schedule("s")


@case
async def a_firing_meets_a_resume(kit: Kit) -> None:
    """No worker fires an instant that came while the schedule was paused."""
    for _ in range(ROUNDS):
        [floor] = await begin(kit)
        await kit.store.pause_schedule("s")
        kit.clock.advance(60)
        now = kit.micros()

        async def work(
            number: int, store: Store, floor: int = floor, now: int = now
        ) -> FireVerdict | None:
            if number == 0:
                await store.resume_schedule("s")
                return None
            return (await store.fire("s", floor, now, [kit.new()])).verdict

        verdicts = await compete(kit, work, rivals=3)
        assert set(verdicts) <= {None, FireVerdict.PAUSED, FireVerdict.LOST}
        seen = await known(kit)
        assert (seen.floor_at, seen.last_at, seen.paused_at) == (now, None, None)
        assert await all_jobs(kit) == []
        await kit.store.forget_schedule("s")


@case
async def known_in_opposite_orders(kit: Kit) -> None:
    """So many that calls overlap: none of them waits for another for ever."""
    names = [f"s{n:03}" for n in range(200)]

    async def work(number: int, store: Store) -> None:
        for step in range(8):
            words = names[step % 3 :] if number % 2 else names[::-1]
            told = await store.register([schedule(word) for word in words])
            assert [each.identifier for each in told] == words

    await compete(kit, work)
    found = await kit.store.schedules()
    assert [each.identifier for each in found] == names
    assert {each.known_since for each in found} == {kit.micros()}


@case
async def known_fired_and_forgotten_at_once(kit: Kit) -> None:
    """Workers start and fire while an operator removes: every answer is whole."""
    [floor, *_] = await begin(kit, *WORDS)
    until = kit.micros()

    async def work(number: int, store: Store) -> Counter[str]:
        applied: Counter[str] = Counter()
        for step in range(8):
            words = WORDS if step % 2 else WORDS[::-1]
            if number == 0:
                for word in words:
                    await store.forget_schedule(word)
            elif number == 1:
                told = await store.register([schedule(word) for word in words])
                assert [each.identifier for each in told] == words
            else:
                for word in words:
                    answer = await store.fire(word, floor, until, [kit.new(payload=f'"{word}"')])
                    applied[word] += answer.verdict is FireVerdict.APPLIED
        return applied

    applied = sum(await compete(kit, work), Counter[str]())
    # One that is forgotten and known again is known since now: it begins later than that instant.
    assert all(count == 1 for count in applied.values())
    assert Counter(str(job.payload) for job in await all_jobs(kit)) == applied


@case
async def the_same_keys_in_opposite_orders(kit: Kit) -> None:
    """Schedules that share their keys: one open job of each, and no call waits for ever."""
    [floor, *_] = await begin(kit, *WORDS[:RIVALS])

    async def work(number: int, store: Store) -> None:
        for step in range(1, 9):
            words = WORDS if number % 2 else WORDS[::-1]
            answer = await store.fire(
                WORDS[number],
                floor + step - 1,
                floor + step,
                [kit.new(key=word, payload=f"[{number},{step}]") for word in words],
            )
            assert answer.verdict is FireVerdict.APPLIED

    await compete(kit, work)
    jobs = await kit.jobs()
    assert sorted(job.key or "" for job in jobs) == WORDS
    assert {job.revision for job in jobs} == {RIVALS * 8 - 1}
