"""The calls of one stream: each in a task of its own, answered in the order in which they end.

While one message of answers is being sent the next gathers. An answer that is too long for one
message crosses in parts. What a claim took, and could not be delivered, goes back at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from windlass.server.calls.desk import Desk, Given, Rule
from windlass.server.calls.refusals import Refused, answer_of
from windlass.store.records import Lease
from windlass.wire.calls import VERBS, encode
from windlass.wire.windlass_pb2 import Answer, Answers, Call, Calls, Hint, WorkerServerEvent

Send = Callable[[WorkerServerEvent], Awaitable[None]]
"""Returns when the message is on its way; raises where the stream has ended."""

MOST_OPEN = 1_000
"""Calls of a stream that may be under way; it is not read from while there are more."""
PART = 1 << 20
"""Bytes of one part of an answer, and of about one message."""


@dataclass(slots=True)
class _Ready:
    answers: Sequence[Answer]
    leases: Sequence[Lease] = ()
    """What is to go back if the answers cannot be sent."""

    @property
    def size(self) -> int:
        return sum(len(answer.value) for answer in self.answers)


class CallSession:
    """`release` takes back leases that were claimed and could not be delivered."""

    def __init__(
        self,
        desk: Desk,
        rules: dict[str, Rule],
        send: Send,
        release: Callable[[Sequence[Lease]], Awaitable[None]],
    ) -> None:
        self._desk = desk
        self._rules = rules
        self._send = send
        self._release = release
        self._under_way: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_OPEN)
        self._answers: list[_Ready] = []
        self._is_hinted = False
        self._due: float | None = None
        self._is_due = False
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def sees_all(self) -> bool:
        """Whether its caller is told of the jobs of all tenants."""
        return self._desk.caller.is_admin

    async def take(self, calls: Calls) -> None:
        """Begin these calls. Returns when the stream may be read on."""
        for call in calls.calls:
            await self._room.acquire()
            if self._is_closed:
                self._room.release()
                return
            task = asyncio.create_task(self._answer(call), name=f"windlass-call-{call.verb}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """The stream has ended. Calls that are under way go on to their ends; this returns then."""
        self._is_closed = True
        self._room.release()
        writer = self._writer
        if writer is not None:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        while self._under_way:
            await asyncio.wait(set(self._under_way))
        left, self._answers = self._answers, []
        await self._take_back(left)

    # ── hints ──

    def hint(self) -> None:
        """There may be something to claim; on the event loop."""
        self._is_hinted = True
        self._wake()

    def due(self, seconds: float | None) -> None:
        """A job is due then; the earliest of those told while a message is on its way counts, and
        a time that is not known exactly is asked for."""
        if not self._is_due:
            self._due = seconds
        elif self._due is not None:
            self._due = None if seconds is None else min(self._due, seconds)
        self._is_due = True
        self._wake()

    # ── answers ──

    async def _answer(self, call: Call) -> None:
        try:
            ready = await self._run(call)
        except Exception as error:
            ready = _Ready([answer_of(call.number, call.verb, error)])
        if self._is_closed:
            await self._take_back([ready])
        else:
            self._answers.append(ready)
            self._wake()

    async def _run(self, call: Call) -> _Ready:
        verb, rule = VERBS.get(call.verb), self._rules.get(call.verb)
        if verb is None or rule is None:
            raise Refused(
                f"this server knows no verb {call.verb[:100]!r}; it may be older than the client"
            )
        self._desk.caller.require(rule.power, call.verb)
        given = await rule.run(self._desk, verb.decode_arguments(call.arguments))
        if isinstance(given, Given):
            return _Ready(_parts(call.number, encode(given.value)), given.leases)
        return _Ready(_parts(call.number, encode(given)))

    def _wake(self) -> None:
        if self._writer is None and not self._is_closed:
            self._writer = asyncio.create_task(self._write(), name="windlass-answers")

    async def _write(self) -> None:
        batch: list[_Ready] = []
        try:
            while self._answers or self._is_hinted or self._is_due:
                while self._is_hinted or self._is_due:
                    await self._send(WorkerServerEvent(hint=self._next_hint()))
                batch = self._next()
                for answers in _messages(batch):
                    await self._send(WorkerServerEvent(answers=Answers(answers=answers)))
                for _ in batch:
                    self._room.release()
                batch = []
        except Exception:  # the stream has ended, as its reader finds, too
            self._is_closed = True
            self._room.release()
            await self._take_back(batch)
        except asyncio.CancelledError:
            self._answers += batch
            raise
        finally:
            self._writer = None

    def _next_hint(self) -> Hint:
        hint = Hint(ready=self._is_hinted)
        if self._is_due:
            # Without a time: look for it.
            hint.due_seconds = -1.0 if self._due is None else self._due
        self._is_hinted = self._is_due = False
        return hint

    def _next(self) -> list[_Ready]:
        """Answers for one message, or one answer that needs several."""
        batch: list[_Ready] = []
        size = 0
        while self._answers and (not batch or size + self._answers[0].size <= PART):
            batch.append(self._answers.pop(0))
            size += batch[-1].size
        return batch

    async def _take_back(self, left: Sequence[_Ready]) -> None:
        leases = [lease for ready in left for lease in ready.leases]
        if leases:
            await self._release(leases)


def _parts(number: int, value: bytes) -> list[Answer]:
    if len(value) <= PART:
        return [Answer(number=number, value=value)]
    pieces = [value[start : start + PART] for start in range(0, len(value), PART)]
    answers = [Answer(number=number, value=piece, more=True) for piece in pieces]
    answers[-1].more = False
    return answers


def _messages(batch: Sequence[_Ready]) -> list[Sequence[Answer]]:
    """Each part of a long answer is a message of its own."""
    if len(batch) == 1:
        return [[answer] for answer in batch[0].answers]
    return [[answer for ready in batch for answer in ready.answers]]
