"""What a producer may ask for, and what a worker is given."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime

import pytest

from tests.server.foreign.program import Tenant, serving
from tests.server.foreign.wire import Message, timestamp


def test_acks_have_the_numbers_of_their_requests(tenant: Tenant) -> None:
    producer = tenant.producer()
    numbers = [7, 3, 2**64 - 1, 0, 3]
    for seq in numbers:
        producer.send(create_task=producer.request("mail", seq=seq))
    acks = [producer.take("create_ack") for _ in numbers]
    assert sorted(ack.seq for ack in acks) == sorted(numbers)
    assert len({ack.task_id for ack in acks}) == len(numbers)


def test_a_batch_is_acked_in_order_and_a_bad_item_fails_alone(tenant: Tenant) -> None:
    producer = tenant.producer()
    requests = [
        producer.request("mail", b'{"n": 1}'),
        producer.request(""),
        producer.request("mail", delay_seconds=-1),
        producer.request("mail", webhook="no address"),
        producer.request("windlass.webhook"),
        producer.request("m" * 10_000),
        producer.request("mail", max_attempts=-1),
        producer.request("mail", b'{"n": 2}'),
    ]
    acks = producer.create_all(requests)
    assert [ack.seq for ack in acks] == [request.seq for request in requests]
    assert [ack.ok for ack in acks] == [True, *[False] * 6, True]
    for ack in acks[1:-1]:
        assert ack.error_message and not ack.task_id
    tasks = tenant.worker().get_all(2)
    assert [task.id for task in tasks] == [acks[0].task_id, acks[-1].task_id]
    for request in requests[1:-1]:
        ack = producer.create(request.command, webhook=request.webhook, delay_seconds=-1)
        assert not ack.ok
    assert producer.add("mail")


def test_nine_runs_first(tenant: Tenant) -> None:
    producer = tenant.producer()
    ids = {p: producer.add("mail", priority=p) for p in (0, 5, 9, 1, 8)}
    later = producer.add("mail", priority=5)
    worker = tenant.worker()
    got = [worker.get("mail") for _ in range(6)]
    assert [task.id for task in got] == [ids[9], ids[8], ids[5], later, ids[1], ids[0]]
    assert [task.priority for task in got] == [9, 8, 5, 5, 1, 0]
    assert tenant.server.job(ids[9])["priority"] == -9
    assert tenant.server.job(ids[0])["priority"] == 0


PAYLOADS = [
    b"\x00\x01\xff\xfe",
    b"not json",
    b"\xef\xbb\xbf{}",
    b"NaN",
    b"[1, 2",
    b'{"a": 1} {"b": 2}',
    b"\x80",
    b'"\xff"',
    bytes(range(256)) * 40,
    b" ",
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda it: repr(it[:20]))
def test_bytes_that_are_no_json_come_back_unchanged(tenant: Tenant, payload: bytes) -> None:
    tenant.producer().add("mail", payload)
    worker = tenant.worker()
    task = worker.get("mail")
    assert task.payload == payload
    # Not only the first time.
    assert worker.abandon(task).ok
    assert worker.get("mail").payload == payload


JSONS = [
    b"{}",
    b"null",
    b"[]",
    b'"text"',
    b"0",
    b"-1.5e3",
    b'{"a": {"b": [1, 2, {"c": null}]}}',
    '{"grüße": "\N{SNOWMAN}\U0001f600"}'.encode(),
    b'"\\u0000 and \\ud83d\\ude00"',
    b'{"$windlass": 1, "__bytes__": "AA=="}',
]


@pytest.mark.parametrize("payload", JSONS, ids=repr)
def test_json_comes_back_as_what_it_says(tenant: Tenant, payload: bytes) -> None:
    id = tenant.producer().add("mail", payload)
    assert json.loads(tenant.worker().get("mail").payload) == json.loads(payload)
    if b"\\u0000" not in payload:
        assert tenant.server.job(id)["payload"] == json.loads(payload)


@pytest.mark.parametrize("payload", [b"12345678901234567890123", b"1e400"])
def test_json_that_python_says_otherwise_comes_back_unchanged(
    tenant: Tenant, payload: bytes
) -> None:
    tenant.producer().add("mail", payload)
    assert tenant.worker().get("mail").payload == payload


def test_no_payload_is_null(tenant: Tenant) -> None:
    tenant.producer().add("mail", b"")
    assert tenant.worker().get("mail").payload in (b"", b"null")


def test_delays(tenant: Tenant) -> None:
    producer, worker = tenant.producer(), tenant.worker()
    before = time.time()
    late = producer.add("mail", delay_seconds=7200)
    later = producer.add("mail", run_at=timestamp(before + 200_000))
    both = producer.add("mail", run_at=timestamp(before + 5_000), delay_seconds=60)
    past = producer.add("mail", run_at=timestamp(before - 5_000), delay_seconds=60)
    after = time.time()
    assert worker.get("mail").id == past
    for id, least, most in (
        (late, before + 7199, after + 7201),
        (later, before + 199_999, before + 200_001),
        (both, before + 4_999, before + 5_001),
    ):
        job = tenant.server.job(id)
        assert job["state"] == "scheduled"
        assert least <= datetime.fromisoformat(job["run_at"]).timestamp() <= most


def test_a_delayed_task_comes_when_it_is_due(tenant: Tenant) -> None:
    worker, producer = tenant.worker(), tenant.producer()
    worker.ready("mail")
    began = time.monotonic()
    id = producer.add("mail", delay_seconds=1)
    assert worker.task().id == id
    assert time.monotonic() - began > 0.99


@pytest.mark.parametrize("seconds", [-1e12, 1e14, 253402300800.0], ids=str)
def test_an_instant_that_is_none_fails_alone(tenant: Tenant, seconds: float) -> None:
    producer = tenant.producer()
    odd = producer.request("mail")
    odd.run_at.seconds, odd.run_at.nanos = int(seconds), -5
    odd_ack, ack = producer.create_all([odd, producer.request("mail")])
    assert ack.ok
    assert odd_ack.ok or odd_ack.error_message


def test_traces_are_accepted(tenant: Tenant) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id = tenant.producer().add("mail", trace_parent=trace, trace_state="a=1")
    assert trace in json.dumps(tenant.server.job(id)["meta"])


# ── idempotency ──


def test_a_request_that_comes_again_is_its_first_job(tenant: Tenant) -> None:
    producer, worker = tenant.producer(), tenant.worker()
    id = producer.add("mail", b'{"n": 1}', idempotency_key="one")
    assert producer.add("mail", b'{"n": 1}', idempotency_key="one") == id
    assert tenant.producer().add("mail", b'{"n": 1}', idempotency_key="one") == id
    acks = producer.create_all(
        producer.request("mail", b'{"n": 1}', idempotency_key="one") for _ in range(3)
    )
    assert [ack.task_id for ack in acks] == [id] * 3
    # Whatever became of it.
    assert worker.complete(worker.get("mail")).ok
    assert producer.add("mail", b'{"n": 1}', idempotency_key="one") == id
    other = producer.add("mail", b'{"n": 1}', idempotency_key="two")
    assert worker.get("mail").id == other != id


@pytest.mark.parametrize("changed", ["payload", "command", "priority"])
def test_a_key_with_another_request_is_an_error(tenant: Tenant, changed: str) -> None:
    producer = tenant.producer()
    id = producer.add("mail", b'{"n": 1}', idempotency_key="one")
    asked = producer.request("mail", b'{"n": 1}', idempotency_key="one")
    match changed:
        case "payload":
            asked.payload = b'{"n": 2}'
        case "command":
            asked.command = "letter"
        case _:
            asked.priority = 4
    refused, ack = producer.create_all([asked, producer.request("mail", b'{"n": 3}')])
    assert not refused.ok and refused.error_message
    assert ack.ok and ack.task_id != id
    assert len(tenant.worker().get_all(2)) == 2


def test_two_servers_share_the_keys(
    tenant: Tenant, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Eight callers at two servers ask for the same twenty jobs at once."""
    folder = tmp_path_factory.mktemp("second")
    with serving(tenant.server.url, folder) as second:
        found: list[list[str]] = []

        def ask(one: Tenant) -> None:
            producer = one.producer()
            keys = [f"key-{number}" for number in range(20)]
            acks: list[Message] = [
                producer.create("mail", b"1", idempotency_key=key) for key in keys
            ]
            found.append([ack.task_id if ack.ok else ack.error_message for ack in acks])

        callers = [
            threading.Thread(target=ask, args=(one,))
            for one in (tenant, tenant.on(second))
            for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert len(found) == 8
        assert all(ids == found[0] for ids in found), found
        assert len(set(found[0])) == 20
        # A task that is added at one server wakes a worker of the other.
        worker = tenant.on(second).worker()
        got = worker.get_all(20, "mail")
        assert {task.id for task in got} == set(found[0])
        worker.ready("letter")
        added = tenant.producer().add("letter")
        assert worker.task().id == added
