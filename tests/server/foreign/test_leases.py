"""How long a task is its stream's: leases, heartbeats, and ends of streams."""

from __future__ import annotations

import pytest

from tests.server.foreign.program import Tenant
from tests.server.foreign.wire import producerpb, workerpb


def test_heartbeats_keep_a_task_and_its_lease_ends_without_them(tenant: Tenant) -> None:
    """Three tasks with a lease of 2 s: one is let go; one is kept by a heartbeat; one has a long
    lease, which a heartbeat for one second does not shorten."""
    producer, worker, second = tenant.producer(), tenant.worker(), tenant.worker()
    lost, kept = (producer.add("mail", max_attempts=1) for _ in range(2))
    tasks = {task.id: task for task in worker.get_all(2, "mail", lease=2)}
    long = producer.add("mail")
    tasks |= {long: worker.get("mail", lease=600)}
    assert worker.heartbeat(tasks[kept], 600).ok
    assert worker.heartbeat(tasks[long], 1).ok
    again = second.get("mail")
    assert (again.id, again.attempts) == (lost, 1)
    # When that one came back, the lease of the others would have been over, too.
    assert worker.complete(tasks[kept]).ok
    assert worker.complete(tasks[long]).ok
    for ack in (worker.complete(tasks[lost]), worker.heartbeat(tasks[lost], 60)):
        assert (ack.ok, ack.error_message) == (False, "not-owner")
    assert second.complete(again).ok


def test_a_half_closed_stream_claims_nothing_more(tenant: Tenant) -> None:
    half, whole = tenant.worker(), tenant.worker()
    for _ in range(5):
        half.ready("mail")
        half.ready("mail", count=10)
    half.half_close()
    assert half.end().code == "OK"
    ids = tenant.producer().add_many("mail", 20)
    tasks = whole.get_all(20, "mail")
    assert {task.id for task in tasks} == set(ids)
    assert {task.attempts for task in tasks} == {1}
    assert half.kinds() == []


def test_what_was_said_before_a_half_close_is_answered(tenant: Tenant) -> None:
    ids = tenant.producer().add_many("mail", 3)
    worker = tenant.worker()
    tasks = worker.get_all(3, "mail")
    for task in tasks:
        worker.send(result=workerpb.Result(task_id=task.id, status="COMPLETED"))
    worker.half_close()
    assert worker.end().code == "OK"
    acks = [worker.take("result_ack") for _ in range(3)]
    assert [ack.task_id for ack in acks] == [task.id for task in tasks]
    assert all(ack.ok for ack in acks)
    assert {tenant.server.job(id)["state"] for id in ids} == {"completed"}


def test_a_producer_that_half_closes_gets_its_acks(tenant: Tenant) -> None:
    producer = tenant.producer()
    asked = [producer.request("mail") for _ in range(5)]
    for request in asked:
        producer.send(create_task=request)
    producer.half_close()
    assert producer.end().code == "OK"
    acks = [producer.take("create_ack") for _ in asked]
    assert sorted(ack.seq for ack in acks) == [request.seq for request in asked]
    assert all(ack.ok for ack in acks)


def test_streams_that_break_while_they_are_sent_to_charge_nothing(tenant: Tenant) -> None:
    """Streams with open Readys are cut while jobs arrive: what was claimed for them and could not
    be sent goes back, and so does what was sent."""
    producer, good = tenant.producer(), tenant.worker()
    count = 0
    for _ in range(10):
        broken = tenant.worker()
        for _ in range(5):
            broken.ready("mail")
        requests = [producer.request("mail", max_attempts=1) for _ in range(5)]
        producer.send(create_task_batch=producerpb.CreateTaskBatch(tasks=requests))
        broken.cancel()
        acks = producer.take("create_ack_batch").acks
        assert all(ack.ok for ack in acks)
        count += len(acks)
    seen: set[str] = set()
    while len(seen) < count:
        for task in good.get_all(1, "mail"):
            assert task.attempts == 1
            assert good.complete(task).ok
            assert task.id not in seen
            seen.add(task.id)


@pytest.mark.slow
def test_tasks_of_a_broken_stream_stay_its_own_for_a_while_and_go_back(tenant: Tenant) -> None:
    ids = tenant.producer().add_many("mail", 3, max_attempts=1)
    broken, second = tenant.worker(), tenant.worker()
    tasks = {task.id: task for task in broken.get_all(3, "mail", lease=3600)}
    broken.cancel()
    assert broken.end().code == "CANCELLED"
    second.ready("mail", count=3)
    saved = tasks[ids[0]]
    back = tenant.worker()
    assert back.present("heartbeat", saved.delivery, task_id=saved.id, extend_seconds=600).ok
    # The others come back, uncharged; the one that was presented does not.
    got = second.batch()
    while len(got) < 2:
        got += second.get_all(1, "mail")
    assert {task.id for task in got} == set(ids[1:])
    assert {task.attempts for task in got} == {1}
    late = back.present("result", tasks[ids[1]].delivery, task_id=ids[1], status="COMPLETED")
    assert (late.ok, late.error_message) == (False, "not-owner")
    assert back.present("result", saved.delivery, task_id=saved.id, status="COMPLETED").ok
    assert all(second.complete(task).ok for task in got)
