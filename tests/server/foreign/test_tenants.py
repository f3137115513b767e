"""Two tenants never meet: not in queues, ids, deliveries, keys or errors."""

from __future__ import annotations

import pytest

from tests.server.foreign.program import Tenant, identity
from tests.server.foreign.test_dispositions import say
from tests.server.foreign.wire import Message, workerpb


def test_a_worker_gets_tasks_of_its_tenant_alone(tenant: Tenant, other: Tenant) -> None:
    others = other.worker()
    others.ready("mail")
    others.ready(count=10)
    mine = tenant.producer().add_many("mail", 3)
    assert {task.id for task in tenant.worker().get_all(3)} == set(mine)
    theirs = other.producer().add_many("mail", 5)
    got: list[Message] = []
    while len(got) < 5:
        kind, event = others.next()
        got += [event.task] if kind == "task" else event.tasks
    assert {task.id for task in got} == set(theirs)
    assert {task.tenant_id for task in got} == {other.name}


@pytest.mark.parametrize("verb", ["complete", "fail", "nack", "abandon", "heartbeat"])
def test_another_tenants_task_does_not_exist(tenant: Tenant, other: Tenant, verb: str) -> None:
    tenant.producer().add("mail")
    owner, stranger = tenant.worker("twin"), other.worker("twin")
    task = owner.get("mail")
    ack = say(stranger, verb, task)
    assert (ack.task_id, ack.ok, ack.error_message) == (task.id, False, "not-found")
    kind = {"complete": "result", "fail": "result"}.get(verb, verb)
    more = {"status": "COMPLETED"} if kind == "result" else {}
    ack = stranger.present(kind, task.delivery, task_id=task.id, **more)
    assert (ack.ok, ack.error_message) == (False, "not-found")
    (ack,) = stranger.settle(
        [workerpb.Result(task_id=task.id, status="ABANDON", delivery=task.delivery)]
    )
    assert (ack.ok, ack.error_message) == (False, "not-found")
    assert owner.complete(task).ok


def test_the_default_tenant_is_one_of_them(tenant: Tenant) -> None:
    default = tenant.server.tenant("")
    command = f"only-{tenant.name}"
    mine, theirs = tenant.producer().add(command), default.producer().add(command)
    assert [task.id for task in default.worker().get_all(1, command)] == [theirs]
    assert [task.id for task in tenant.worker().get_all(1, command)] == [mine]


def test_another_tenants_job_is_not_shown(tenant: Tenant, other: Tenant) -> None:
    id = tenant.producer().add("mail")
    call = tenant.server.call
    for role in ("producer", "operator", "worker"):
        own, foreign = identity(role, tenant.name), identity(role, other.name)
        assert call("GET", f"/v1/jobs/{id}", token=own).status == 200
        assert call("GET", f"/v1/jobs/{id}", token=foreign).status == 404
        listed = call("GET", "/v1/jobs", token=foreign)
        assert (listed.status, listed.body["jobs"]) == (200, [])


def test_a_key_belongs_to_its_tenant(tenant: Tenant, other: Tenant) -> None:
    one = tenant.producer().add("mail", b"1", idempotency_key="order-7")
    two = other.producer().add("mail", b"2", idempotency_key="order-7")
    assert one != two
    assert tenant.producer().add("mail", b"1", idempotency_key="order-7") == one
    assert other.producer().add("mail", b"2", idempotency_key="order-7") == two
