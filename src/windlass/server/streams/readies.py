"""The open Readys of a stream, and the jobs that answer them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex

from windlass.model.names import MAX_TASK, RESERVED
from windlass.server.identity import Identity
from windlass.server.streams import tasks_out
from windlass.server.streams.deliveries import Delivery, delivery_of
from windlass.server.streams.dispatcher import Want
from windlass.server.streams.keeping import Holding
from windlass.server.streams.shared import Shared
from windlass.store.records import RELEASE, Lease
from windlass.store.server import ClaimScope
from windlass.wire.windlass_pb2 import Ready, WorkerServerEvent

MOST_TASKS = 1_000
"""Jobs for one Ready."""
MOST_OPEN = 1_000
MOST_UNSETTLED = 100_000
MOST_SAID = 1_000
"""Commands in one Ready, whether the token allows them or not."""
MOST_COMMANDS = 256
"""Those of them that jobs are looked for."""
MOST_SCOPES = 64
"""Open Readys of one stream may name so many different sets of commands."""
BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""A TaskBatch stays below what clients of other languages accept unasked."""
_AROUND = 512
"""Bytes of a task beside its payload and what else may be long."""
_LONGEST_NAME = 200
_TOO_MANY = f"a Ready may name {MOST_COMMANDS} commands at most; send several"


class ReadyRefused(Exception):
    """Raised for a Ready that gets a ServerError; `code` is the name of a gRPC status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def worker_name(worker_id: str) -> str:
    """What the store calls a stream: a readable part, and one that no other stream has."""
    readable = "".join(letter if letter.isprintable() else "?" for letter in worker_id)
    return f"{readable[:_LONGEST_NAME]}-{token_hex(8)}"


class Readies:
    """Of one stream. `can_send` says whether its client reads, `send` gives it jobs."""

    def __init__(
        self,
        shared: Shared,
        identity: Identity,
        worker_id: str,
        holding: Holding,
        *,
        can_send: Callable[[], bool],
        send: Callable[[Sequence[WorkerServerEvent]], None],
    ) -> None:
        self._shared = shared
        self._identity = identity
        self._worker_id = worker_id
        self._holding = holding
        self._can_send = can_send
        self._send = send
        self._open: set[Want] = set()
        self._scopes: Counter[ClaimScope] = Counter()
        """Those of the open Readys."""
        self._tenants = None if identity.sees is None else (identity.sees,)

    def open(self, ready: Ready) -> None:
        """Raises ReadyRefused."""
        if len(self._open) >= MOST_OPEN:
            raise ReadyRefused(
                "ResourceExhausted", f"{MOST_OPEN:,} Readys are open on this stream, the most"
            )
        if len(self._holding.held) >= MOST_UNSETTLED:
            raise ReadyRefused(
                "ResourceExhausted",
                f"{MOST_UNSETTLED:,} tasks of this stream are not settled, the most",
            )
        scope = ClaimScope(self._tasks(ready), self._tenants)
        if scope not in self._scopes and len(self._scopes) >= MOST_SCOPES:
            raise ReadyRefused(
                "ResourceExhausted",
                f"the open Readys of this stream name {MOST_SCOPES} different sets of commands,"
                " the most",
            )
        seconds = float(ready.lease_seconds) if ready.lease_seconds > 0 else self._shared.lease
        count = min(max(1, ready.count), MOST_TASKS)
        want = Want(
            scope,
            self._holding.worker,
            self._shared.lease,
            count,
            give=lambda leases: self._give(want, leases, seconds, is_batch=ready.count > 1),
            can_take=self._can_take,
        )
        self._open.add(want)
        self._scopes[scope] += 1
        self._holding.is_known = True
        self._shared.dispatcher.add(want)

    def close(self) -> None:
        """Want nothing more."""
        for want in self._open:
            self._shared.dispatcher.remove(want)
        self._open.clear()
        self._scopes.clear()

    def _forget(self, want: Want) -> None:
        self._open.remove(want)
        self._scopes[want.scope] -= 1
        if not self._scopes[want.scope]:
            del self._scopes[want.scope]

    def look(self) -> None:
        """The stream may be able to take jobs again."""
        if self._open:
            self._shared.dispatcher.look(self._scopes)

    def _tasks(self, ready: Ready) -> tuple[str, ...] | None:
        """What the token allows of what is asked for; None for every task."""
        allowed = self._identity.tasks
        if not ready.commands:
            return allowed
        if len(ready.commands) > MOST_SAID:
            raise ReadyRefused("InvalidArgument", _TOO_MANY)
        asked = sorted({name for command in ready.commands if (name := command.strip())})
        if allowed is not None:
            asked = [name for name in asked if name in allowed]
        tasks = tuple(name for name in asked if _may_be_a_task(name))
        if not tasks:
            raise ReadyRefused("PermissionDenied", "the token allows none of these commands")
        if len(tasks) > MOST_COMMANDS:
            raise ReadyRefused("InvalidArgument", _TOO_MANY)
        return tasks

    def _can_take(self) -> bool:
        return len(self._holding.held) < MOST_UNSETTLED and self._can_send()

    def _give(self, want: Want, leases: list[Lease], seconds: float, *, is_batch: bool) -> None:
        """Send jobs, as many as one message takes; the others go back."""
        if want in self._open:
            self._forget(want)
        clock, shared = self._shared.clock, self._shared
        since = clock.monotonic()
        until = tasks_out.instant(clock.now() // 1_000_000 + round(seconds))
        event = WorkerServerEvent()
        fill = partial(tasks_out.fill, worker_id=self._worker_id, lease_until=until)
        taken: list[tuple[Lease, Delivery]] = []
        size = 0
        for lease in leases:
            delivery = delivery_of(lease, seconds)
            sealed = shared.deliveries.sealed(delivery)
            payload = tasks_out.payload_of(lease)
            size += len(payload) + 2 * len(sealed) + len(self._worker_id) * 4 + _AROUND
            if taken and size > BATCH_BYTES:
                break
            task = event.task_batch.tasks.add() if is_batch else event.task.task
            most = shared.rulings.most(lease)
            fill(task, lease, payload, max_attempts=most, delivery=sealed)
            taken.append((lease, delivery))
        if left := leases[len(taken) :]:
            shared.settlements.submit([(lease, RELEASE) for lease in left])
        for lease, delivery in taken:
            shared.keeping.take(self._holding, lease, delivery, since)
        self._send([event])


def _may_be_a_task(name: str) -> bool:
    return len(name) <= MAX_TASK and "\x00" not in name and not name.startswith(RESERVED)
