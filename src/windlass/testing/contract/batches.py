"""Array payloads with partial success: only the items that failed stay for the retry."""

from __future__ import annotations

from windlass.model.job import JobState
from windlass.store.records import RELEASE, Fail, Verdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


@case
async def failed_items_replace_the_payload(kit: Kit) -> None:
    job = await kit.add(payload="[1,2,3]")
    answer = await kit.settle(await kit.take(), Fail("2 failed", payload="[2,3]", delay=5.0))
    assert answer.state is JobState.SCHEDULED
    seen = await kit.get(job.id)
    assert (seen.payload, seen.attempts, seen.last_error) == ([2, 3], 1, "2 failed")
    await kit.pass_time(5)
    assert (await kit.take()).payload == "[2,3]"


@case
async def a_payload_shrinks_attempt_by_attempt(kit: Kit) -> None:
    await kit.add(payload="[1,2,3]")
    for before, after in (("[1,2,3]", "[2,3]"), ("[2,3]", "[3]"), ("[3]", "[3]")):
        lease = await kit.take()
        assert lease.payload == before
        await kit.settle(lease, Fail("some", payload=after))


@case
async def failed_for_good_the_rest_can_be_seen(kit: Kit) -> None:
    job = await kit.add(payload="[1,2]", max_attempts=1)
    await kit.settle(await kit.take(), Fail("some", payload="[2]"))
    seen = await kit.get(job.id)
    assert (seen.state, seen.payload) == (JobState.FAILED, [2])


@case
async def without_a_payload_it_stays(kit: Kit) -> None:
    job = await kit.add(payload="[1,2]")
    await kit.settle(await kit.take(), Fail("all"))
    assert (await kit.get(job.id)).payload == [1, 2]


@case
async def a_release_leaves_the_payload(kit: Kit) -> None:
    await kit.add(payload="[1,2]")
    await kit.settle(await kit.take(), RELEASE)
    assert (await kit.take()).payload == "[1,2]"


@case
async def a_lost_delivery_cannot_shrink_the_payload(kit: Kit) -> None:
    job = await kit.add(payload="[1,2]")
    lease = await kit.take()
    await kit.crash()
    assert (await kit.settle(lease, Fail("late", payload="[2]"))).verdict is Verdict.LOST
    assert (await kit.get(job.id)).payload == [1, 2]


@case
async def a_superseded_batch_leaves_its_replacement_alone(kit: Kit) -> None:
    old = await kit.add(payload="[1,2]", key="k")
    lease = await kit.take()
    new = await kit.add(payload="[7,8]", key="k")
    await kit.settle(lease, Fail("some", payload="[2]"))
    assert (await kit.get(old.id)).payload == [2]
    assert (await kit.get(new.id)).payload == [7, 8]


@case
async def several_batches_in_one_call(kit: Kit) -> None:
    jobs = await kit.add_many({"payload": "[1,2]"}, {"payload": "[3,4]"}, {"payload": "[5]"})
    one, two, three = await kit.claim()
    await kit.store.settle(
        [
            (one, Fail("a", payload="[2]")),
            (two, Fail("b")),
            (three, Fail("c", payload="[]")),
        ]
    )
    assert [(await kit.get(job.id)).payload for job in jobs] == [[2], [3, 4], []]
