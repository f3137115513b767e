"""What a running job says of itself: progress, and entries of its log."""

from __future__ import annotations

from windlass.model.job import Progress
from windlass.store.records import COMPLETE, MAX_LOG, Complete, Fail, Note, Verdict
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit

case = Group(__name__)
CASES = case.cases


@case
async def progress_is_shown(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    assert await kit.store.note(lease, Note(progress='[0.25,"a quarter"]')) is Verdict.APPLIED
    assert (await kit.get(job.id)).progress == Progress(0.25, "a quarter")
    await kit.store.note(lease, Note(progress='[1.0,""]'))
    assert (await kit.get(job.id)).progress == Progress(1.0, "")


@case
async def entries_are_kept_in_order(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    for entry in ('"one"', '{"two":[2]}', "null"):
        assert await kit.store.note(lease, Note(entry=entry)) is Verdict.APPLIED
    assert (await kit.get(job.id)).log == ("one", {"two": [2]}, None)


@case
async def progress_and_entry_leave_one_another_alone(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.store.note(lease, Note(progress='[0.5,"x"]', entry="1"))
    await kit.store.note(lease, Note(entry="2"))
    seen = await kit.get(job.id)
    assert (seen.progress, seen.log) == (Progress(0.5, "x"), (1, 2))


@case
async def the_log_drops_its_oldest_entries(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    for number in range(MAX_LOG + 5):
        await kit.store.note(lease, Note(entry=str(number)))
    assert (await kit.get(job.id)).log == tuple(range(5, MAX_LOG + 5))


@case
async def a_lost_delivery_cannot_note(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.crash()
    await kit.take(worker="b", suspects=1)
    assert await kit.store.note(lease, Note('[0.9,"late"]', '"late"')) is Verdict.LOST
    seen = await kit.get(job.id)
    assert (seen.progress, seen.log) == (None, ())


@case
async def a_job_that_is_gone_cannot_note(kit: Kit) -> None:
    await kit.add()
    lease = await kit.take()
    await kit.settle(lease, COMPLETE)
    assert await kit.store.note(lease, Note(entry="1")) is Verdict.MISSING


@case
async def notes_survive_a_retry(kit: Kit) -> None:
    job = await kit.add()
    lease = await kit.take()
    await kit.store.note(lease, Note(entry='"first"'))
    await kit.settle(lease, Fail("oops"))
    await kit.store.note(await kit.take(), Note(entry='"second"'))
    assert (await kit.get(job.id)).log == ("first", "second")


@case
async def a_kept_job_keeps_its_notes(kit: Kit) -> None:
    job = await kit.add(keep=60.0)
    lease = await kit.take()
    await kit.store.note(lease, Note('[1.0,"done"]', '"said"'))
    await kit.settle(lease, Complete("7"))
    seen = await kit.get(job.id)
    assert (seen.progress, seen.log, seen.output) == (Progress(1.0, "done"), ("said",), 7)
