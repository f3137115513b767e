"""The server's side of one stream, without a network: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.patience import PATIENCE
from windlass.errors import (
    ChainNotFoundError,
    CrontabError,
    CrontabProblem,
    OutcomeUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    TaskNameError,
    WindlassError,
)
from windlass.model.job import Job
from windlass.server.calls.caller import Caller
from windlass.server.calls.gathering import Gathered
from windlass.server.calls.refusals import answer_of
from windlass.server.calls.service import CallService
from windlass.server.calls.session import PART, CallSession
from windlass.server.identity import Identity, Role
from windlass.store.records import ClaimRequest, JobFilter, NewJob, Release
from windlass.stores.memory import MemoryStore
from windlass.wire import calls
from windlass.wire.calls import VERBS, encode
from windlass.wire.failures import read_error
from windlass.wire.windlass_pb2 import Call, Calls, WorkerServerEvent

ADMIN = Identity(name="root", roles=frozenset({Role.ADMIN}), digest="0")


class Pair:
    """A client that speaks to a session in bytes. `blocked` keeps what is sent from arriving."""

    def __init__(self, store: MemoryStore) -> None:
        self.service = CallService(store, "secret")
        self.events: list[WorkerServerEvent] = []
        self.blocked: asyncio.Event | None = None
        self.is_broken = False
        self.session: CallSession = self.service.open(ADMIN, self._arrive)
        self._number = 0

    async def _arrive(self, event: WorkerServerEvent) -> None:
        if self.is_broken:
            raise ConnectionError("the stream has ended")
        if self.blocked is not None:
            await self.blocked.wait()
        self.events.append(WorkerServerEvent.FromString(event.SerializeToString()))

    async def call(self, *asked: tuple[str, calls.Arguments]) -> list[int]:
        message = Calls()
        for verb, arguments in asked:
            self._number += 1
            message.calls.append(Call(number=self._number, verb=verb, arguments=encode(arguments)))
        await self.session.take(Calls.FromString(message.SerializeToString()))
        return list(range(self._number - len(asked) + 1, self._number + 1))

    async def answer(self, number: int, verb: str) -> Any:
        """The answer, put together from its parts."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [
                    answer
                    for event in self.events
                    for answer in event.answers.answers
                    if answer.number == number
                ]
                if found and not found[-1].more:
                    break
                await asyncio.sleep(0)
        if found[-1].error:
            raise read_error(found[-1].error, found[-1].message, found[-1].fields)
        return VERBS[verb].decode_answer(b"".join(answer.value for answer in found))

    async def end(self) -> None:
        await self.service.end(self.session)
        await self.service.close()


def with_pair(
    test: Callable[[Pair, MemoryStore], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            store = MemoryStore()
            await store.open()
            pair = Pair(store)
            try:
                await test(pair, store)
            finally:
                await pair.end()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


def enqueue(*jobs: NewJob) -> tuple[str, calls.Arguments]:
    return "enqueue", calls.Enqueue(jobs=list(jobs))


CLAIM = "claim", calls.Claim(request=ClaimRequest("w", ("t",), 10))
FIND = "find", calls.Find(wanted=JobFilter())


@with_pair
async def test_additions_of_one_message_are_one_write(pair: Pair, store: MemoryStore) -> None:
    numbers = await pair.call(*(enqueue(NewJob("t", str(n))) for n in range(20)))
    for n, number in enumerate(numbers):
        [job_id] = (await pair.answer(number, "enqueue")).ids
        job = await store.get(job_id)
        assert job is not None and job.payload == n
    assert pair.service.writers.jobs.writes == 1


@with_pair
async def test_a_wrong_addition_hinders_no_other(pair: Pair, store: MemoryStore) -> None:
    good, bad, last = await pair.call(
        enqueue(NewJob("t")), enqueue(NewJob("t", blockers=(99,))), enqueue(NewJob("t"))
    )
    for number in (good, last):
        assert len((await pair.answer(number, "enqueue")).ids) == 1
    with pytest.raises(ChainNotFoundError):
        await pair.answer(bad, "enqueue")


@with_pair
async def test_a_long_answer_crosses_in_parts(pair: Pair, store: MemoryStore) -> None:
    text = "x" * (PART // 2)
    await store.enqueue([NewJob("t", f'"{text}"') for _ in range(5)])
    [number] = await pair.call(FIND)
    jobs: list[Job] = await pair.answer(number, "find")
    assert [job.payload for job in jobs] == [text] * 5
    assert len(pair.events) == 3
    assert all(len(event.SerializeToString()) < PART + 1_000 for event in pair.events)


@with_pair
async def test_answers_gather_while_one_is_sent(pair: Pair, store: MemoryStore) -> None:
    pair.blocked = asyncio.Event()
    numbers = [(await pair.call(FIND))[0] for _ in range(10)]
    await asyncio.sleep(0)
    pair.blocked.set()
    for number in numbers:
        assert await pair.answer(number, "find") == []
    assert len(pair.events) <= 2


@with_pair
async def test_what_a_claim_took_goes_back_if_the_stream_has_ended(
    pair: Pair, store: MemoryStore
) -> None:
    await store.enqueue([NewJob("t"), NewJob("t")])
    pair.is_broken = True
    await pair.call(CLAIM)
    await pair.service.end(pair.session)
    assert {(job.state, job.attempts) for job in await store.find(JobFilter())} == {("ready", 0)}


@with_pair
async def test_what_a_claim_took_goes_back_if_its_answer_waits_as_the_stream_ends(
    pair: Pair, store: MemoryStore
) -> None:
    await store.enqueue([NewJob("t")])
    pair.blocked = asyncio.Event()
    await pair.call(FIND)
    await pair.call(CLAIM)
    for _ in range(20):
        await asyncio.sleep(0)
    await pair.service.end(pair.session)
    [job] = await store.find(JobFilter())
    assert (job.state, job.attempts) == ("ready", 0)


@with_pair
async def test_hints_are_pushed_to_a_stream_that_asked(pair: Pair, store: MemoryStore) -> None:
    await store.enqueue([NewJob("t")])
    [number] = await pair.call(("subscribe", calls.Nothing()))
    await pair.answer(number, "subscribe")
    pair.events.clear()
    pair.blocked = asyncio.Event()
    for _ in range(50):
        await store.enqueue([NewJob("t")])
        await store.enqueue([NewJob("t", delay=5_000_000)])
    await asyncio.sleep(0.01)
    pair.blocked.set()
    async with asyncio.timeout(PATIENCE):
        while not any(event.hint.HasField("due_seconds") for event in pair.events):
            await asyncio.sleep(0)
    assert any(event.hint.ready for event in pair.events)
    assert len(pair.events) <= 3, "hints that come while one is sent are one"


@with_pair
async def test_wrong_calls_get_clear_answers(pair: Pair, store: MemoryStore) -> None:
    await pair.session.take(
        Calls(
            calls=[
                Call(number=1, verb="nonsense"),
                Call(number=2, verb="get", arguments=b'{"job_id":"x"}'),
                Call(number=3, verb="get", arguments=b"\xff"),
                Call(number=4, verb="__class__", arguments=b"{}"),
            ]
        )
    )
    for number, says in ((1, "no verb"), (2, "job_id"), (3, "get cannot"), (4, "no verb")):
        with pytest.raises((StoreError, ValueError), match=says):
            await pair.answer(number, "get")


# ── errors ──

_ERRORS: list[WindlassError] = [
    TaskNameError("task must not be empty", field="task"),
    ChainNotFoundError([3, 4]),
    CrontabError([CrontabProblem(1, 2, "minute", "must be 0 to 59")], "crontab"),
]


@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_again_as_it_was(error: WindlassError) -> None:
    answer = answer_of(1, "enqueue", error)
    again = read_error(answer.error, answer.message, answer.fields)
    assert (type(again), str(again)) == (type(error), str(error))
    for name, value in error.__dict__.items():
        wanted = tuple(map(tuple, value)) if name == "problems" else value
        assert getattr(again, name) == wanted


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("cannot connect to db.internal:5432", is_temporary=True),
        OutcomeUnknownError("lost the connection to db.internal:5432"),
        StoreBusyError("an open transaction in db.internal holds these jobs"),
        StoreError("db.internal refused a call"),
        RuntimeError("db.internal"),
        KeyError("db.internal"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_wrong_with_the_database_names_nothing_of_it(error: Exception) -> None:
    answer = answer_of(1, "enqueue", error)
    assert "internal" not in f"{answer.message}{answer.fields!r}"
    again = read_error(answer.error, answer.message, answer.fields)
    assert isinstance(again, StoreError)
    if isinstance(error, StoreError):
        assert type(again) is type(error)
        assert getattr(again, "is_temporary", None) == getattr(error, "is_temporary", None)


def test_a_class_that_is_not_known_is_a_store_error() -> None:
    for name in ("NewError", "Sequence", "annotations", "__name__"):
        assert type(read_error(name, "says", b"not json")) is StoreError


# ── gathering ──


def test_what_comes_while_one_write_is_made_is_the_next() -> None:
    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        written: list[list[int]] = []

        async def write(items: Any) -> list[int]:
            written.append(list(items))
            begun.set()
            await go_on.wait()
            if -1 in items:
                raise TaskNameError("no", field="task")
            if -2 in items:
                raise OutcomeUnknownError("lost")
            return [item * 10 for item in items]

        gathered = Gathered(write)
        first = asyncio.ensure_future(gathered.add([1]))
        await begun.wait()
        others = [asyncio.ensure_future(gathered.add(each)) for each in ([2, 3], [-1], [4])]
        await asyncio.sleep(0)
        go_on.set()
        answers = await asyncio.gather(first, *others, return_exceptions=True)
        assert answers[0] == [10] and answers[1] == [20, 30] and answers[3] == [40]
        assert isinstance(answers[2], TaskNameError)
        assert written == [[1], [2, 3, -1, 4], [2, 3], [-1], [4]]
        lost = await asyncio.gather(gathered.add([5]), gathered.add([-2]), return_exceptions=True)
        assert [type(each) for each in lost] == [OutcomeUnknownError] * 2
        assert lost[0] is not lost[1]

    asyncio.run(main())


def test_a_lease_that_was_changed_is_none() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        identity = Identity(name="w", roles=frozenset({Role.WORKER}), tenant="a", digest="x")
        caller = Caller(identity, b"k")
        await store.enqueue([NewJob("t", tenant="a", queue="q")])
        [lease] = await store.claim(ClaimRequest(caller.worker("w"), ("t",), 1))
        [held] = VERBS["claim"].decode_answer(encode([caller.hand_out(lease)]))
        held.max_attempts = 25  # as the engine does
        assert caller.take_back(calls.slim(held)) is not None
        for field, value in (
            ("job_id", 2),
            ("token", 7),
            ("worker", "v"),
            ("tenant", "b"),
            ("queue", "other"),
            ("chain", 1),
            ("meta", "{}"),
            ("seal", ""),
        ):
            changed = calls.slim(held)
            setattr(changed, field, value)
            assert caller.take_back(changed) is None, field
        others = (
            Caller(Identity(name="v", roles=identity.roles, tenant="a", digest="x"), b"k"),
            Caller(Identity(name="w", roles=identity.roles, tenant="b", digest="x"), b"k"),
            Caller(Identity(name="w", roles=identity.roles, tenant="a"), b"k"),
            Caller(identity, b"another"),
        )
        assert not any(other.take_back(calls.slim(held)) for other in others)
        await store.settle([(lease, Release())])

    asyncio.run(main())
