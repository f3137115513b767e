"""Adding jobs: what is stored, in which order, and when it is due."""

from __future__ import annotations

from typing import cast

from windlass.model import payload as payloads
from windlass.model.job import JobState
from windlass.store.records import COMPLETE, NewJob
from windlass.testing.contract.case import Group
from windlass.testing.contract.kit import Kit, ids

case = Group(__name__)
CASES = case.cases

PAYLOADS = {
    "object": '{"a":1,"b":[true,null]}',
    "empty_object": "{}",
    "array": "[1,2,3]",
    "empty_array": "[]",
    "string": '"hello"',
    "empty_string": '""',
    "integer": "42",
    "zero": "0",
    "fraction": "2.5",
    "true": "true",
    "false": "false",
    "null": "null",
    "unicode": '{"ключ":"значение 🪝 \\"quoted\\" \\\\ \\n"}',
    "large_integer": '{"n":9007199254740993,"m":-1234567890123456789}',
    "nested": '{"a":' * 60 + "1" + "}" * 60,
    "big": '{"text":"' + "x" * 250_000 + '"}',
    "looks_like_sql": '{"a":"\'; DROP TABLE jobs; -- %s $1 ? :name"}',
}

AWKWARD = {
    "unicode": "Größe/日本🪝",
    "quotes": 'it\'s "quoted" `so`',
    "sql": "'; DROP TABLE jobs; --",
    "placeholders": "%s $1 ? :name {0}",
    "backslash": "a\\b\\n",
    "spaces": " a  b ",
    "comma": "a,b;{c}",
}


@case
async def defaults(kit: Kit) -> None:
    job = await kit.add()
    assert job.state is JobState.READY
    assert (job.task, job.payload, job.priority) == ("t", {}, 0)
    assert (job.queue, job.key, job.flags, job.keep) == (None, None, None, None)
    assert (job.attempts, job.max_attempts, job.deliveries, job.resets) == (0, 25, 0, 0)
    assert (job.revision, job.last_error, job.locked_by) == (0, None, None)
    assert (job.output, job.progress, job.log, job.finished_at) == (None, None, (), None)
    assert job.run_at == job.created_at == job.updated_at == kit.at()


@case
async def what_is_returned_is_what_is_stored(kit: Kit) -> None:
    job = await kit.add(payload="[1]", queue="q", key="k", flags=("a",), delay=5)
    assert await kit.get(job.id) == job


@case
async def every_option_is_stored(kit: Kit) -> None:
    job = await kit.add(
        "mail",
        payload='{"to":7}',
        queue="q",
        run_at=kit.micros(60),
        max_attempts=3,
        key="k",
        priority=-5,
        flags=("gpu", "eu"),
        keep=9.5,
    )
    assert (job.task, job.payload, job.queue) == ("mail", {"to": 7}, "q")
    assert (job.run_at, job.max_attempts, job.key) == (kit.at(60), 3, "k")
    assert (job.priority, job.flags, job.keep) == (-5, ("gpu", "eu"), 9.5)


@case
async def nothing_to_add(kit: Kit) -> None:
    assert await kit.store.enqueue([]) == []
    assert await kit.ids() == []


@case
async def results_follow_the_order_given(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new(payload=str(n)) for n in range(20)])
    assert [job.payload for job in jobs] == list(range(20))


@case
async def ids_ascend_in_the_order_given(kit: Kit) -> None:
    jobs = await kit.add_many(
        {"priority": 9, "delay": 50}, {"queue": "q"}, {"task": "a"}, {"key": "k"}, {"priority": -9}
    )
    assert ids(jobs) == sorted(set(ids(jobs)))
    assert (await kit.add()).id > jobs[-1].id


@case
async def ids_are_not_used_again(kit: Kit) -> None:
    last = await kit.add()
    await kit.settle(await kit.take(), COMPLETE)
    assert (await kit.add()).id > last.id


@case
async def a_thousand_at_once(kit: Kit) -> None:
    jobs = await kit.store.enqueue([kit.new(payload=str(n)) for n in range(1000)])
    assert len(set(ids(jobs))) == 1000
    assert (await kit.store.counts())[JobState.READY] == 1000
    assert (await kit.get(jobs[700].id)).payload == 700


@case
async def all_or_nothing(kit: Kit) -> None:
    kept = await kit.add(key="k")
    broken = cast(NewJob, object())
    refused = False
    try:
        await kit.store.enqueue([kit.new(), kit.new(key="k", payload="[1]"), broken])
    except Exception:  # which one is the store's choice: the types forbid what is tried here
        refused = True
    assert refused
    assert await kit.ids() == [kept.id]
    assert await kit.get(kept.id) == kept


@case
async def unset_max_attempts_stays_unset(kit: Kit) -> None:
    unset, chosen = await kit.add_many({}, {"max_attempts": 25})
    leases = {lease.job_id: lease for lease in await kit.claim()}
    assert leases[unset.id].max_attempts is None
    assert leases[chosen.id].max_attempts == 25


@case
async def keep_zero_is_not_unset(kit: Kit) -> None:
    unset, zero = await kit.add_many({}, {"keep": 0.0})
    assert (unset.keep, zero.keep) == (None, 0.0)
    assert [lease.keep for lease in await kit.claim()] == [None, 0.0]


@case
async def priority_may_be_anything_in_32_bits(kit: Kit) -> None:
    low, high = await kit.add_many({"priority": -(2**31)}, {"priority": 2**31 - 1})
    assert (low.priority, high.priority) == (-(2**31), 2**31 - 1)
    assert await kit.claimed() == [low.id, high.id]


@case
async def run_at_in_the_past_is_ready_and_kept(kit: Kit) -> None:
    job = await kit.add(run_at=kit.micros(-3600))
    assert (job.state, job.run_at) == (JobState.READY, kit.at(-3600))


@case
async def run_at_now_is_ready(kit: Kit) -> None:
    assert (await kit.add(run_at=kit.micros())).state is JobState.READY


@case
async def run_at_a_microsecond_ahead_is_scheduled(kit: Kit) -> None:
    job = await kit.add(run_at=kit.micros() + 1)
    assert job.state is JobState.SCHEDULED
    assert await kit.claim() == []


@case
async def run_at_far_away(kit: Kit) -> None:
    job = await kit.add(run_at=kit.micros(200 * 365 * 86400.0))
    assert (await kit.get(job.id)).run_at == kit.at(200 * 365 * 86400.0)


@case
async def delay_counts_from_the_databases_now(kit: Kit) -> None:
    kit.clock.advance(123.456789)
    job = await kit.add(delay=90_000_001)
    assert (job.state, job.run_at) == (JobState.SCHEDULED, kit.at(90.000001))


@case
async def delay_zero_is_ready(kit: Kit) -> None:
    job = await kit.add(delay=0)
    assert (job.state, job.run_at) == (JobState.READY, kit.at())


@case
async def run_at_goes_before_delay(kit: Kit) -> None:
    assert (await kit.add(run_at=kit.micros(10), delay=99_000_000)).run_at == kit.at(10)


@case
async def flags_keep_their_order(kit: Kit) -> None:
    await kit.add(flags=("z", "a", "m"))
    assert (await kit.take()).flags == ("z", "a", "m")


@case
async def equal_jobs_without_a_key_are_all_stored(kit: Kit) -> None:
    jobs = await kit.add_many({"payload": "1"}, {"payload": "1"}, {"payload": "1"})
    assert await kit.ids() == ids(jobs)


@case
async def a_task_nobody_knows_is_accepted(kit: Kit) -> None:
    job = await kit.add("not/yet/written")
    assert job.state is JobState.READY
    assert await kit.claim() == []


@case.each(*((name,) for name in PAYLOADS))
async def payload(kit: Kit, name: str) -> None:
    text = PAYLOADS[name]
    job = await kit.add(payload=text)
    assert job.payload == payloads.decode(text)
    assert type(job.payload) is type(payloads.decode(text))
    lease = await kit.take()
    assert payloads.decode(lease.payload) == job.payload
    assert (await kit.get(job.id)).payload == job.payload


@case.each(*((name,) for name in AWKWARD))
async def awkward_names(kit: Kit, name: str) -> None:
    word = AWKWARD[name]
    job = await kit.add(word, queue=word, key=word, flags=(word, "plain"))
    await kit.add("other", flags=("plain",))
    assert await kit.claim(tasks=[word], forbidden_flags=(word,)) == []
    lease = await kit.take(tasks=[word], worker=word)
    assert (lease.job_id, lease.task, lease.queue, lease.key) == (job.id, word, word, word)
    assert (lease.flags, lease.worker) == ((word, "plain"), word)
    found = await kit.store.get_by_key(word)
    assert found is not None and (found.id, found.locked_by) == (job.id, word)
    assert await kit.ids(task=word, queue=word, key=word) == [job.id]


# ── meta ──

META = '{"trace":"00-ab","n":[1,null]}'


@case
async def meta_goes_along_with_a_job(kit: Kit) -> None:
    """From the request to the worker, through a retry, and into the history."""
    job = await kit.add(meta=META, keep=60.0)
    shown = {"trace": "00-ab", "n": [1, None]}
    assert job.meta == shown
    assert (await kit.get(job.id)).meta == shown
    lease = await kit.take()
    assert lease.job.meta == shown
    await kit.fail(lease)
    lease = await kit.take()
    assert lease.job.meta == shown
    await kit.settle(lease, COMPLETE)
    assert (await kit.get(job.id)).meta == shown


@case
async def each_job_of_a_call_has_its_own_meta(kit: Kit) -> None:
    jobs = await kit.add_many({"meta": '{"n":1}'}, {}, {"meta": '{"n":3}', "key": "k"})
    assert [job.meta for job in jobs] == [{"n": 1}, None, {"n": 3}]
    assert [(await kit.get(job.id)).meta for job in jobs] == [{"n": 1}, None, {"n": 3}]


@case
async def meta_is_replaced_with_the_job(kit: Kit) -> None:
    await kit.add(key="k", meta='{"n":1}')
    assert (await kit.add(key="k", meta='{"n":2}')).meta == {"n": 2}
    assert (await kit.add(key="k")).meta is None
