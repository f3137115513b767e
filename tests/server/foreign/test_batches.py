"""Many tasks in one message, and many outcomes in one."""

from __future__ import annotations

import pytest

from tests.server.foreign.program import Tenant
from tests.server.foreign.wire import Message, workerpb


def outcome(task: Message, status: str, **more: object) -> Message:
    return workerpb.Result(task_id=task.id, status=status, **more)


@pytest.mark.parametrize("proved", [False, True], ids=["by-stream", "by-delivery"])
def test_outcomes_of_a_batch_are_judged_one_by_one(tenant: Tenant, proved: bool) -> None:
    ids = tenant.producer().add_many("mail", 7, max_attempts=2)
    worker = tenant.worker()
    tasks = {task.id: task for task in worker.get_all(7, "mail")}
    done, failed, nacked, nacked_now, abandoned, odd, twice = (tasks[id] for id in ids)
    results = [
        outcome(done, "COMPLETED", result_json=b'{"n": 1}'),
        outcome(workerpb.Task(id="999999999"), "COMPLETED"),
        outcome(failed, "FAILED", error="broken"),
        outcome(nacked, "NACK", error="later", delay_seconds=600),
        outcome(nacked_now, "NACK", error="now"),
        outcome(abandoned, "ABANDON", error="leaving"),
        outcome(odd, "completed"),
        outcome(twice, "COMPLETED", result_json=b"1"),
        outcome(twice, "COMPLETED", result_json=b"2"),
        outcome(odd, "COMPLETED", result_json=b"{"),
    ]
    if proved:
        for result in results:
            if result.task_id in tasks:
                result.delivery = tasks[result.task_id].delivery
        worker = tenant.worker()
    acks = worker.settle(results)
    assert [ack.task_id for ack in acks] == [result.task_id for result in results]
    assert [ack.ok for ack in acks] == [
        *(True, False, True, True, True, True, False),
        *(True, False, False),
    ]
    assert all(ack.error_message for ack in acks if not ack.ok)
    assert acks[1].error_message == "not-found"
    jobs = [tenant.server.job(id) for id in ids]
    assert [job["state"] for job in jobs] == [
        *("completed", "scheduled", "scheduled", "ready", "ready", "running", "completed"),
    ]
    assert [job["attempts"] for job in jobs] == [1, 1, 1, 1, 0, 1, 1]
    assert [job["last_error"] for job in jobs[1:4]] == ["broken", "later", "now"]
    assert [jobs[0]["output"], jobs[6]["output"]] == [{"n": 1}, 1]


def test_an_empty_batch_gets_an_empty_ack(tenant: Tenant) -> None:
    assert tenant.worker().settle([]) == []
    assert tenant.producer().create_all([]) == []


def test_another_streams_tasks_in_a_batch_are_not_its_own(tenant: Tenant) -> None:
    tenant.producer().add_many("mail", 2)
    one, two = tenant.worker(), tenant.worker()
    mine, others = one.get("mail"), two.get("mail")
    acks = one.settle([outcome(others, "COMPLETED"), outcome(mine, "COMPLETED")])
    assert [(ack.ok, ack.error_message) for ack in acks] == [(False, "not-owner"), (True, "")]
    assert two.complete(others).ok


@pytest.mark.parametrize("count", [0, 1])
def test_a_ready_for_one_is_answered_by_a_task(tenant: Tenant, count: int) -> None:
    tenant.producer().add_many("mail", 2)
    worker = tenant.worker()
    worker.ready("mail", count=count)
    assert worker.task().command == "mail"


def test_a_ready_for_many_is_answered_by_a_batch_even_of_one(tenant: Tenant) -> None:
    tenant.producer().add("mail")
    worker = tenant.worker()
    worker.ready("mail", count=10)
    (task,) = worker.batch()
    assert task.delivery


def test_a_ready_for_too_many_is_cut(tenant: Tenant) -> None:
    ids = tenant.producer().add_many("mail", 1_100)
    worker = tenant.worker()
    worker.ready("mail", count=100_000)
    first = worker.batch()
    assert 1 <= len(first) <= 1_000
    rest = worker.get_all(1_100 - len(first), "mail")
    tasks = [*first, *rest]
    assert sorted(int(task.id) for task in tasks) == sorted(map(int, ids))
    acks = worker.settle(outcome(task, "COMPLETED") for task in tasks)
    assert len(acks) == 1_100 and all(ack.ok for ack in acks)


def test_many_open_readys_get_one_task_each(tenant: Tenant) -> None:
    worker = tenant.worker()
    for _ in range(100):
        worker.ready("mail")
    ids = tenant.producer().add_many("mail", 120)
    got = [worker.task() for _ in range(100)]
    assert len({task.id for task in got}) == 100
    # The others are still there for the Readys that follow.
    rest = worker.get_all(20, "mail")
    assert sorted(int(task.id) for task in [*got, *rest]) == sorted(map(int, ids))


def test_one_ready_too_many_is_told_and_ends_nothing(tenant: Tenant) -> None:
    worker = tenant.worker()
    for _ in range(1_001):
        worker.ready("mail")
    assert worker.take("error").code == "ResourceExhausted"
    tenant.producer().add_many("mail", 1_000)
    assert len({worker.task().id for _ in range(1_000)}) == 1_000
    assert worker.kinds() == []


def test_a_batch_is_one_that_every_client_takes(tenant: Tenant) -> None:
    """Seven tasks of 900 kB do not fit into one message of 4 MiB."""
    producer, worker = tenant.producer(), tenant.worker()
    payload = b'"' + b"x" * 900_000 + b'"'
    ids = [producer.add("large", payload) for _ in range(7)]
    tasks = worker.get_all(7, "large")
    assert [task.id for task in tasks] == ids
    assert all(task.payload == payload for task in tasks)
    assert all(ack.ok for ack in worker.settle(outcome(task, "COMPLETED") for task in tasks))


def test_readys_for_different_commands_get_their_own(tenant: Tenant) -> None:
    worker, producer = tenant.worker(), tenant.producer()
    for command in ("a", "b", "c"):
        worker.ready(command)
    worker.ready("d", "e", count=5)
    for command in ("c", "a", "b"):
        producer.add(command)
    assert {worker.task().command for _ in range(3)} == {"a", "b", "c"}
    producer.add("e")
    assert [task.command for task in worker.batch()] == ["e"]


def test_a_ready_without_commands_takes_all_of_its_tenant(tenant: Tenant, other: Tenant) -> None:
    other.producer().add("a")
    producer, worker = tenant.producer(), tenant.worker()
    wanted = {producer.add(command) for command in ("a", "b", "c")}
    assert {task.id for task in worker.get_all(3)} == wanted


def test_commands_are_cut_to_what_the_token_allows(tenant: Tenant) -> None:
    producer, worker = tenant.producer(), tenant.worker(tasks=["a", "b"])
    for command in ("c", "b", "a"):
        producer.add(command)
    assert worker.get("c", "b").command == "b"
    assert worker.get().command == "a"
    worker.ready("c")
    worker.ready("c", "d", count=3)
    assert [worker.take("error").code for _ in range(2)] == ["PermissionDenied"] * 2
    producer.add("a")
    assert worker.get().command == "a"


def test_names_of_commands_are_exact(tenant: Tenant) -> None:
    producer, worker = tenant.producer(), tenant.worker(tasks=["Mail"])
    producer.add("mail")
    producer.add("Mail")
    assert worker.get().command == "Mail"
    worker.ready("mail")
    assert worker.take("error").code == "PermissionDenied"
