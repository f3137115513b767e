"""Strategies for what a client may send: events of the right shape with odd values, messages of any
shape, and bytes of no shape at all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.server.foreign.wire import Message, producerpb, workerpb

REAL = ["fuzz", "good", "COMPLETED", "FAILED", "NACK", "ABANDON", "windlass.webhook"]
_ODD = ["", " ", "\x00", "\u202e", "\U0010ffff", "-1", "1", "9" * 30, "x" * 70_000, "a" * 129]
texts = st.sampled_from(REAL) | st.sampled_from(_ODD) | st.text(max_size=30)
_EDGES = [0, 1, -1, 2, 1000, 1001, 2**31 - 1, -(2**31)]
ints = st.sampled_from(_EDGES) | st.integers(-(2**31), 2**31 - 1)
seqs = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
_jsons = st.sampled_from(
    [b"", b"null", b"{}", b"[", b"NaN", b'"\\u0000"', b'"\\ud800"', b"1e999", b"[" * 5_000]
)
blobs = _jsons | st.binary(max_size=60) | st.just(b"x" * 200_000)


def ids_of(known: list[str]) -> st.SearchStrategy[str]:
    """Ids of real tasks among others."""
    return st.sampled_from(known) | texts


def worker_events(ids: st.SearchStrategy[str], deliveries: st.SearchStrategy[bytes]) -> Any:
    """Well-formed events of a worker with any values."""
    proof = deliveries | st.just(b"") | st.binary(max_size=80)
    results = made(
        workerpb.Result,
        task_id=ids,
        status=texts,
        result_json=blobs,
        error=texts,
        delivery=proof,
        delay_seconds=ints,
    )
    return st.one_of(
        event("hello", made(workerpb.Hello, token=texts, worker_id=texts)),
        event(
            "ready",
            made(
                workerpb.Ready,
                commands=st.lists(texts, max_size=5),
                lease_seconds=ints,
                count=ints,
            ),
        ),
        event("result", results),
        event(
            "nack",
            made(workerpb.Nack, task_id=ids, delay_seconds=ints, reason=texts, delivery=proof),
        ),
        event(
            "heartbeat", made(workerpb.Heartbeat, task_id=ids, extend_seconds=ints, delivery=proof)
        ),
        event("abandon", made(workerpb.Abandon, task_id=ids, delivery=proof)),
        event("result_batch", made(workerpb.ResultBatch, results=st.lists(results, max_size=8))),
    )


def producer_events() -> Any:
    """Well-formed events of a producer with any values."""
    instants = st.builds(
        lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
        st.sampled_from([0, -1, 2**62, -(2**62), 253402300800, 1]),
        ints,
    )
    tasks = made(
        producerpb.CreateTask,
        seq=seqs,
        command=texts,
        payload=blobs,
        priority=ints,
        webhook=texts | st.sampled_from(["http://[", "http://example.org/", "http://127.0.0.1/"]),
        max_attempts=ints,
        idempotency_key=texts,
        run_at=instants | st.none(),
        delay_seconds=ints,
        trace_parent=texts,
        trace_state=texts,
    )
    return st.one_of(
        st.builds(
            lambda it: producerpb.ProducerEvent(hello=it).SerializeToString(),
            made(producerpb.Hello, token=texts),
        ),
        st.builds(lambda it: producerpb.ProducerEvent(create_task=it).SerializeToString(), tasks),
        st.builds(
            lambda them: producerpb.ProducerEvent(
                create_task_batch=producerpb.CreateTaskBatch(tasks=them)
            ).SerializeToString(),
            st.lists(tasks, max_size=8),
        ),
    )


def made(kind: Callable[..., Message], **fields: st.SearchStrategy[Any]) -> Any:
    return st.builds(
        lambda **given: kind(**{name: it for name, it in given.items() if it is not None}),
        **fields,
    )


def event(name: str, strategy: Any) -> Any:
    return st.builds(lambda it: workerpb.WorkerEvent(**{name: it}).SerializeToString(), strategy)


# ── messages of any shape ──


def varint(number: int) -> bytes:
    out = bytearray()
    number &= 2**64 - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: int | bytes | float) -> bytes:
    """One field as protobuf writes it, of whichever wire type the value has."""
    match value:
        case bytes():
            return varint(number << 3 | 2) + varint(len(value)) + value
        case float():
            return varint(number << 3 | 1) + struct.pack("<d", value)
        case _:
            return varint(number << 3) + varint(value)


_numbers = st.integers(1, 11) | st.sampled_from([0, 20, 21, 22, 2**29 - 1])
_leaves = seqs | ints | st.binary(max_size=40) | st.floats() | texts.map(str.encode)


def _message(children: Any) -> Any:
    fields = st.builds(_field, _numbers, children)
    return st.lists(fields, min_size=1, max_size=6).map(b"".join)


any_messages = _message(st.recursive(_leaves, _message, max_leaves=8))
"""Fields with any numbers and any wire types, strings that are no UTF-8 among them."""

garbage = st.binary(max_size=300)
