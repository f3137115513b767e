"""What a worker may say of a task, and what becomes of the job."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from tests.server.foreign.program import Tenant
from tests.server.foreign.streams import Worker
from tests.server.foreign.wire import Message, workerpb


def run_at(job: dict[str, object]) -> float:
    return datetime.fromisoformat(str(job["run_at"])).timestamp()


@pytest.mark.parametrize(
    ("sent", "output"),
    [
        (b"", None),
        (b"null", None),
        (b'{"sent": true}', {"sent": True}),
        (b"[1, 2]", [1, 2]),
        (b"7", 7),
        (b'"\xc3\xbc"', "ü"),
        (b"false", False),
    ],
    ids=str,
)
def test_completed_stores_any_json(tenant: Tenant, sent: bytes, output: object) -> None:
    id = tenant.producer().add("mail")
    worker = tenant.worker()
    ack = worker.complete(worker.get("mail"), sent)
    assert (ack.task_id, ack.ok, ack.error_message) == (id, True, "")
    job = tenant.server.job(id)
    assert (job["state"], job["output"], job["attempts"]) == ("completed", output, 1)


@pytest.mark.parametrize("sent", [b"{", b"NaN", b"\xff\x00", b'{"a": 1} x'], ids=repr)
def test_a_result_that_is_no_json_is_told_and_the_task_stays(tenant: Tenant, sent: bytes) -> None:
    id = tenant.producer().add("mail")
    worker = tenant.worker()
    task = worker.get("mail")
    ack = worker.complete(task, sent)
    assert not ack.ok and ack.error_message
    assert tenant.server.job(id)["state"] == "running"
    assert worker.complete(task, b"{}").ok


@pytest.mark.parametrize("status", ["", "completed", "DONE", "NACK", "ABANDON"])
def test_an_unknown_status_is_told_and_the_task_stays(tenant: Tenant, status: str) -> None:
    """NACK and ABANDON are for batches."""
    tenant.producer().add("mail")
    worker = tenant.worker()
    task = worker.get("mail")
    worker.send(result=workerpb.Result(task_id=task.id, status=status))
    ack = worker.take("result_ack")
    assert not ack.ok and ack.error_message
    assert worker.complete(task).ok


def test_failed_is_retried_by_policy_until_the_last_attempt(tenant: Tenant) -> None:
    id = tenant.producer().add("mail", max_attempts=2)
    worker = tenant.worker()
    task = worker.get("mail")
    assert (task.attempts, task.max_attempts) == (1, 2)
    assert worker.fail(task, "no such address").ok
    job = tenant.server.job(id)
    assert (job["state"], job["attempts"]) == ("scheduled", 1)
    assert "no such address" in job["last_error"]
    again = worker.get("mail")
    assert (again.id, again.attempts) == (id, 2)
    assert worker.fail(again, "still none").ok
    job = tenant.server.job(id)
    assert (job["state"], job["attempts"]) == ("failed", 2)
    assert "still none" in job["last_error"]


def test_failed_without_an_error_is_accepted(tenant: Tenant) -> None:
    id = tenant.producer().add("mail", max_attempts=1)
    worker = tenant.worker()
    assert worker.fail(worker.get("mail"), "").ok
    assert tenant.server.job(id)["state"] == "failed"


def test_nack_without_delay_is_again_at_once(tenant: Tenant) -> None:
    id = tenant.producer().add("mail", max_attempts=3)
    worker = tenant.worker()
    ack = worker.nack(worker.get("mail"), 0, "busy")
    assert (ack.task_id, ack.ok, ack.applied_delay_seconds, ack.dlq) == (id, True, 0, False)
    job = tenant.server.job(id)
    assert (job["state"], job["attempts"], job["last_error"]) == ("ready", 1, "busy")
    assert worker.get("mail").attempts == 2


def test_nack_with_a_delay_is_again_after_exactly_that_long(tenant: Tenant) -> None:
    id = tenant.producer().add("mail")
    worker = tenant.worker()
    task = worker.get("mail")
    before = time.time()
    ack = worker.nack(task, 3600, "closed")
    after = time.time()
    assert (ack.ok, ack.applied_delay_seconds, ack.dlq) == (True, 3600, False)
    job = tenant.server.job(id)
    assert (job["state"], job["last_error"]) == ("scheduled", "closed")
    assert before + 3599.9 <= run_at(job) <= after + 3600.1


def test_a_nacked_task_comes_back_when_its_delay_is_over(tenant: Tenant) -> None:
    id = tenant.producer().add("mail")
    worker = tenant.worker()
    task = worker.get("mail")
    began = time.monotonic()
    assert worker.nack(task, 1).ok
    again = worker.get("mail")
    assert (again.id, again.attempts) == (id, 2)
    assert time.monotonic() - began > 0.99


def test_a_negative_delay_of_a_nack_is_none(tenant: Tenant) -> None:
    tenant.producer().add("mail")
    worker = tenant.worker()
    ack = worker.nack(worker.get("mail"), -5)
    assert (ack.ok, ack.applied_delay_seconds) == (True, 0)
    assert worker.get("mail").attempts == 2


def test_the_nack_of_the_last_attempt_is_the_end(tenant: Tenant) -> None:
    id = tenant.producer().add("mail", max_attempts=2)
    worker = tenant.worker()
    assert not worker.nack(worker.get("mail")).dlq
    ack = worker.nack(worker.get("mail"), 60, "gone for good")
    assert (ack.ok, ack.dlq, ack.applied_delay_seconds) == (True, True, 0)
    job = tenant.server.job(id)
    assert (job["state"], job["attempts"], job["last_error"]) == ("failed", 2, "gone for good")


def test_abandon_gives_the_attempt_back(tenant: Tenant) -> None:
    id = tenant.producer().add("mail", max_attempts=1)
    worker = tenant.worker()
    for _ in range(3):
        task = worker.get("mail")
        assert (task.id, task.attempts) == (id, 1)
        ack = worker.abandon(task)
        assert (ack.task_id, ack.ok, ack.error_message) == (id, True, "")
        job = tenant.server.job(id)
        assert (job["state"], job["attempts"]) == ("ready", 0)
    assert worker.complete(worker.get("mail")).ok


def test_attempts_are_the_charged_deliveries(tenant: Tenant) -> None:
    tenant.producer().add("mail", max_attempts=9)
    worker = tenant.worker()
    seen = []
    for step in (worker.nack, worker.abandon, worker.abandon, worker.nack, worker.abandon):
        task = worker.get("mail")
        seen.append(task.attempts)
        assert step(task).ok
    assert seen == [1, 2, 2, 2, 3]


@pytest.mark.parametrize("verb", ["complete", "fail", "nack", "abandon", "heartbeat"])
def test_nothing_can_be_said_of_a_task_that_is_not_there(tenant: Tenant, verb: str) -> None:
    worker = tenant.worker()
    for id in ("999999999", "no number", "", "-1", "9" * 40, "1.5", "\N{ARABIC-INDIC DIGIT ONE}"):
        ack = say(worker, verb, workerpb.Task(id=id))
        assert (ack.task_id, ack.ok, ack.error_message) == (id, False, "not-found")


@pytest.mark.parametrize("verb", ["complete", "fail", "nack", "abandon", "heartbeat"])
def test_a_task_is_owned_by_its_delivery_and_not_by_a_name(tenant: Tenant, verb: str) -> None:
    tenant.producer().add("mail")
    owner, namesake = tenant.worker("twin"), tenant.worker("twin")
    task = owner.get("mail")
    ack = say(namesake, verb, task)
    assert (ack.task_id, ack.ok, ack.error_message) == (task.id, False, "not-owner")
    assert owner.complete(task).ok


@pytest.mark.parametrize("verb", ["complete", "fail", "nack", "abandon", "heartbeat"])
def test_an_answer_for_an_older_delivery_is_refused(tenant: Tenant, verb: str) -> None:
    tenant.producer().add("mail")
    first, second = tenant.worker(), tenant.worker()
    old = first.get("mail")
    assert first.nack(old).ok
    new = second.get("mail")
    assert new.id == old.id
    ack = say(first, verb, old)
    assert (ack.ok, ack.error_message) == (False, "not-owner")
    assert second.complete(new).ok


def test_a_task_is_settled_once(tenant: Tenant) -> None:
    id = tenant.producer().add("mail")
    worker = tenant.worker()
    task = worker.get("mail")
    assert worker.complete(task, b"1").ok
    for ack in (worker.complete(task, b"2"), worker.fail(task), worker.abandon(task)):
        assert not ack.ok
        assert ack.error_message in ("not-owner", "not-found")
    assert tenant.server.job(id)["output"] == 1


def test_a_delivery_decides_even_where_the_stream_has_another(tenant: Tenant) -> None:
    """The same stream has the job again: what it says about its older delivery is refused."""
    tenant.producer().add("mail")
    worker = tenant.worker()
    old = worker.get("mail")
    assert old.delivery
    assert worker.abandon(old).ok
    new = worker.get("mail")
    assert new.id == old.id and new.delivery != old.delivery
    for verb in ("result", "nack", "abandon", "heartbeat"):
        more = {"status": "COMPLETED"} if verb == "result" else {}
        ack = worker.present(verb, old.delivery, task_id=old.id, **more)
        assert (ack.ok, ack.error_message) == (False, "not-owner")
    assert worker.present("result", new.delivery, task_id=new.id, status="COMPLETED").ok


def test_a_delivery_can_be_presented_on_another_stream(tenant: Tenant) -> None:
    ids = tenant.producer().add_many("mail", 4)
    owner, other = tenant.worker(), tenant.worker()
    one, two, three, four = owner.get_all(4, "mail")
    assert other.present("result", one.delivery, task_id=one.id, status="COMPLETED").ok
    assert other.present("nack", two.delivery, task_id=two.id, delay_seconds=60).ok
    assert other.present("abandon", three.delivery, task_id=three.id).ok
    assert other.present("heartbeat", four.delivery, task_id=four.id, extend_seconds=60).ok
    states = [tenant.server.job(id)["state"] for id in ids]
    assert states == ["completed", "scheduled", "ready", "running"]


@pytest.mark.parametrize("change", ["cut", "bit", "other", "noise"])
def test_a_delivery_that_was_tampered_with_proves_nothing(tenant: Tenant, change: str) -> None:
    tenant.producer().add_many("mail", 2)
    owner, thief = tenant.worker(), tenant.worker()
    task, other = owner.get_all(2, "mail")
    # As the other one where they first differ, and as its own from there on.
    pairs = zip(task.delivery, other.delivery, strict=False)
    first = next(n for n, pair in enumerate(pairs) if len({*pair}) > 1)
    forged = {
        "cut": task.delivery[:-1],
        "bit": bytes([task.delivery[0] ^ 1]) + task.delivery[1:],
        "other": other.delivery[: first + 1] + task.delivery[first + 1 :],
        "noise": b"\xff\x00 noise",
    }[change]
    ack = thief.present("result", forged, task_id=task.id, status="COMPLETED")
    assert not ack.ok and ack.error_message in ("not-found", "not-owner")
    assert owner.complete(task).ok and owner.complete(other).ok


def test_a_task_says_what_it_is(tenant: Tenant) -> None:
    producer, worker = tenant.producer(), tenant.worker("ada")
    before = time.time()
    id = producer.add("mail", b'{"to": 7}', priority=3, max_attempts=4)
    task = worker.get("mail", lease=100)
    after = time.time()
    assert (task.id, task.command, json.loads(task.payload)) == (id, "mail", {"to": 7})
    assert (task.priority, task.max_attempts, task.attempts) == (3, 4, 1)
    assert (task.worker_id, task.tenant_id, task.webhook) == ("ada", tenant.name, "")
    lease_until = datetime.fromisoformat(task.lease_until)
    assert lease_until.tzinfo is not None
    assert before + 98 <= lease_until.timestamp() <= after + 102
    for instant in (task.created_at, task.updated_at):
        assert before - 1 <= instant.ToMicroseconds() / 1e6 <= after + 1


def test_a_task_without_max_attempts_has_those_of_the_server(tenant: Tenant) -> None:
    tenant.producer().add("mail")
    assert tenant.worker().get("mail").max_attempts > 1


def test_an_event_without_content_ends_nothing(tenant: Tenant) -> None:
    worker, producer = tenant.worker(), tenant.producer()
    worker.send()
    producer.send()
    id = producer.add("mail")
    task = worker.get("mail")
    assert task.id == id
    assert worker.complete(task).ok


def say(worker: Worker, verb: str, task: Message) -> Message:
    """One of the verbs; its ack."""
    match verb:
        case "complete":
            return worker.complete(task)
        case "fail":
            return worker.fail(task)
        case "nack":
            return worker.nack(task)
        case "abandon":
            return worker.abandon(task)
        case _:
            return worker.heartbeat(task, 60)
