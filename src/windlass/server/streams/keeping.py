"""Keeps what streams have been given: renews, watches deadlines, and takes back.

A stream is one worker of the store, its *holding*. While a holding has deliveries its worker's
lease is renewed here, every third of it, from one thread for all streams and on a connection of its
own, so that nothing is lost while the event loop is busy. Each delivery has a deadline besides: the
seconds that its client asked for. One that passes while its stream lives is taken back by the
reaper's rule (`store.expire`), so a client that hangs cannot loop for ever.

A stream that ends keeps its deliveries for `AFTERLIFE` seconds. A client that comes back, to
any server, presents them, and each is *adopted* by its new stream: in the store it is its worker's
from now on (`store.move`). The others go back when the time is over, since nothing renews their
worker. The server that had a delivery before may not know that it is gone, if it is not this one;
so it hands back by its worker alone, whose it is not any more, and asks whose it is before it takes
one back whose deadline has passed.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windlass.clock import Clock
from windlass.errors import StoreBusyError, StoreClosedError, StoreError
from windlass.model.job import Job
from windlass.server.streams.deliveries import Delivery
from windlass.server.streams.lease_thread import (
    AFTER_AN_ERROR,
    LeaseHost,
    LeaseThread,
    Question,
)
from windlass.store.port import Lifeline
from windlass.store.records import JobFilter, Lease, Renewal, Settled, Verdict

AFTERLIFE = 10.0
"""Seconds for which the deliveries of a stream that ended stay its own."""
CHECK_EVERY = 1.0
"""Seconds between looks for jobs that should stop, for streams that want to know."""
_AGAIN = 1.0
_MOST_SOUGHT = 1_000
_SOON = 0.1
"""Seconds after which a renewal that was locked out is tried again."""

_log = logging.getLogger("windlass.server")


class KeptStore(Protocol):
    """What keeping needs of a store."""

    def lifeline(self) -> Lifeline: ...

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]: ...

    async def retire(self, worker: str) -> None: ...

    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict: ...

    async def find(self, wanted: JobFilter) -> list[Job]: ...


@dataclass(slots=True, eq=False)
class Held:
    """One delivery that a stream has. `deadline` is on the monotonic clock."""

    lease: Lease
    delivery: Delivery
    deadline: float
    holding: Holding
    is_settling: bool = False
    is_told: bool = False
    """Whether its client has been told to stop."""


Stopped = Callable[[Held, str], None]
"""Is told why a delivery should not go on."""


@dataclass(slots=True, eq=False)
class Holding:
    """What one stream has, as one worker of the store. `stopped` is set if it wants to know of jobs
    that should stop."""

    worker: str
    stopped: Stopped | None = None
    held: dict[int, Held] = field(default_factory=dict)
    """By job."""
    renew_at: float = 0.0
    is_known: bool = False
    """Whether the store may know its worker."""


class Keeping:
    """Made and used on one event loop; `start` it first."""

    def __init__(
        self,
        store: KeptStore,
        clock: Clock,
        *,
        lease: float,
        max_resets: int,
        host: Callable[[Lifeline, Callable[[Lifeline], float], Clock], LeaseHost] = LeaseThread,
    ) -> None:
        self._store = store
        self._host = host
        self._clock = clock
        self._lease = lease
        self._max_resets = max_resets
        self._holdings: dict[str, Holding] = {}
        self._by_token: dict[tuple[int, int], Held] = {}
        self._deadlines: list[tuple[float, int, Held]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: LeaseHost | None = None
        self._is_failing = False
        """Whether the last step could not renew some lease."""

    def start(self) -> None:
        self._thread = self._host(self._store.lifeline(), self._step, self._clock)
        self._thread.start()

    async def close(self) -> None:
        """After all holdings were closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._thread is not None:
            await self._thread.stop()
            self._thread = None

    # ── what streams do ──

    def open(self, worker: str, stopped: Stopped | None = None) -> Holding:
        holding = Holding(worker, stopped)
        self._holdings[worker] = holding
        return holding

    def take(self, holding: Holding, lease: Lease, delivery: Delivery, since: float) -> Held:
        """A holding has a new delivery, claimed at `since` on the monotonic clock."""
        if not holding.held:
            holding.renew_at = since + self._lease / 3
        holding.is_known = True
        held = Held(delivery.lease, delivery, since + delivery.seconds, holding)
        self._put(held)
        return held

    def drop(self, held: Held) -> None:
        """A delivery is over. Dropping one that is gone changes nothing."""
        lease = held.lease
        if self._by_token.get((lease.job_id, lease.token)) is held:
            del self._by_token[lease.job_id, lease.token]
        if held.holding.held.get(lease.job_id) is held:
            del held.holding.held[lease.job_id]

    def find(self, delivery: Delivery) -> Held | None:
        """A delivery that some stream of this server has."""
        return self._by_token.get((delivery.job_id, delivery.token))

    def extend(self, held: Held, seconds: float) -> None:
        """It ends so many seconds from now, or later."""
        held.deadline = max(held.deadline, self._clock.monotonic() + seconds)

    async def adopt(self, holding: Holding, delivery: Delivery) -> Held | None:
        """A stream goes on with the delivery of another, which may have ended; None if the lease is
        lost. Raises StoreError where that cannot be known now."""
        lease = delivery.lease
        now = self._clock.monotonic()
        holding.is_known = True
        verdict = await self._store.move(lease, holding.worker, self._lease)
        before = self.find(delivery)
        match verdict:
            case Verdict.APPLIED:
                pass
            case Verdict.BUSY:
                raise StoreBusyError("the delivery is locked by another transaction")
            case _:
                if before is not None:
                    self.drop(before)
                return None
        if before is not None:
            self.drop(before)
        if self._holdings.get(holding.worker) is not holding:
            return None
        held = Held(lease, delivery, now + delivery.seconds, holding)
        holding.renew_at = now + self._lease / 3
        self._put(held)
        return held

    async def lost(self, held: Sequence[Held]) -> set[Held]:
        """Those of these deliveries that are not held any more, as far as can be known now."""
        lost: set[Held] = set()
        for part in _apart(held):
            leases = [one.lease for one in part]
            try:
                renewal = await self._ask(_checking(leases))
            except StoreError as error:
                _log.warning("leases could not be checked: %s", error)
            else:
                lost.update(one for one in part if one.lease.job_id in renewal.lost)
        return lost

    def end(self, holding: Holding, *, hand_back: bool, rest: Awaitable[None]) -> None:
        """A stream has ended. Its deliveries stay its own for a while, or are handed back at once.

        `rest` ends when nothing is being claimed or settled for it any more. Its worker is renewed
        no more from now on, however long that takes.
        """
        self._holdings.pop(holding.worker, None)
        self._spawn(self._end(holding, hand_back, rest))

    # ── endings ──

    async def _end(self, holding: Holding, hand_back: bool, rest: Awaitable[None]) -> None:
        if holding.held and not hand_back:
            await self._linger(holding.worker)
        await rest
        is_empty = not holding.held
        for held in list(holding.held.values()):
            self.drop(held)
        if not holding.is_known or not (hand_back or is_empty):
            return
        try:
            await self._store.retire(holding.worker)
        except StoreError as error:  # its lease runs out by itself
            _tell_of_end(holding.worker, error)

    async def _linger(self, worker: str) -> None:
        """The last renewal of a worker whose stream has ended."""
        try:
            await self._ask(lambda lifeline: lifeline.renew(worker, AFTERLIFE, []))
        except StoreError as error:
            _tell_of_end(worker, error)

    # ── deadlines ──

    def _put(self, held: Held) -> None:
        before = held.holding.held.get(held.lease.job_id)
        if before is not None:
            self.drop(before)  # an older delivery of the job, which is lost
        held.holding.held[held.lease.job_id] = held
        self._by_token[held.lease.job_id, held.lease.token] = held
        self._watch(held, held.deadline)
        if self._thread is not None:
            holding = held.holding
            soon = CHECK_EVERY if holding.stopped is not None else self._lease
            self._thread.wake_by(min(holding.renew_at, self._clock.monotonic() + soon))

    def _watch(self, held: Held, at: float) -> None:
        if len(self._deadlines) > 2 * len(self._by_token) + 1_000:
            self._deadlines = [each for each in self._deadlines if self._is_held(each[2])]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (at, next(self._numbers), held))
        self._set_timer()

    def _is_held(self, held: Held) -> bool:
        return self._by_token.get((held.lease.job_id, held.lease.token)) is held

    def _set_timer(self) -> None:
        at = self._deadlines[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        delay = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        due = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, held = heapq.heappop(self._deadlines)
            if not self._is_held(held):
                continue
            if held.is_settling:
                self._watch(held, now + _AGAIN)
            elif held.deadline > now:
                self._watch(held, held.deadline)
            else:
                due.append(held)
        if due:
            self._spawn(self._expire(due))
        if self._deadlines:
            self._set_timer()

    async def _expire(self, due: Sequence[Held]) -> None:
        try:
            own = await self._own(due)
            leases = [held.lease for held in own]
            answers = await self._store.expire(leases, self._max_resets) if own else []
        except StoreClosedError:
            return
        except StoreError as error:
            _log.warning("deliveries that ran out were not taken back, and will be: %s", error)
            own, answers = list(due), [Settled(Verdict.BUSY)] * len(due)
        for held, answer in zip(own, answers, strict=True):
            if answer.verdict is Verdict.BUSY:
                if self._is_held(held):
                    self._watch(held, self._clock.monotonic() + _AGAIN)
                continue
            if self._is_held(held):
                self.drop(held)
                self._stop(held, "taken_by_another_worker")

    async def _own(self, due: Sequence[Held]) -> list[Held]:
        """Those that a stream of another server has not adopted; the others are dropped."""
        ids = sorted({held.lease.job_id for held in due})
        workers: dict[int, str | None] = {}
        for start in range(0, len(ids), _MOST_SOUGHT):
            part = tuple(ids[start : start + _MOST_SOUGHT])
            jobs = await self._store.find(JobFilter(ids=part, limit=len(part)))
            workers |= {job.id: job.locked_by for job in jobs}
        own = []
        for held in due:
            if workers.get(held.lease.job_id) in (None, held.holding.worker):
                own.append(held)
            else:
                self.drop(held)
        return own

    def _stop(self, held: Held, reason: str) -> None:
        stopped = held.holding.stopped
        if stopped is not None and not held.is_told:
            held.is_told = True
            stopped(held, reason)

    # ── the thread ──

    async def _ask(self, question: Question) -> Renewal:
        if self._thread is None:
            raise StoreClosedError("this server was closed")
        return await asyncio.wrap_future(self._thread.ask(question))

    def _step(self, lifeline: Lifeline) -> float:
        """In the thread: renew what is due, and look for jobs that should stop; seconds until the
        next step."""
        now = self._clock.monotonic()
        pause = self._lease
        failure: Exception | None = None
        watched: list[Held] = []
        for holding in list(self._holdings.values()):
            held = list(holding.held.values())
            if not held:
                continue
            if holding.stopped is not None:
                watched += held
                pause = min(pause, CHECK_EVERY)
            if now >= holding.renew_at:
                try:
                    lifeline.renew(holding.worker, self._lease, [])
                    holding.renew_at = now + self._lease / 3
                except StoreClosedError:
                    raise
                except StoreBusyError:
                    holding.renew_at = self._clock.monotonic() + _SOON
                except Exception as error:  # the others need their leases all the same
                    failure = error
                    holding.renew_at = self._clock.monotonic() + AFTER_AN_ERROR
            pause = min(pause, holding.renew_at - now)
        self._note_outage(failure)
        for part in _apart(watched):
            renewal = lifeline.check("", [one.lease for one in part])
            if renewal.lost or renewal.cancel:
                self._tell(part, renewal)
        return max(0.05, pause)

    def _note_outage(self, failure: Exception | None) -> None:
        """In the thread: say once that leases cannot be renewed, however long that lasts."""
        if failure is not None and not self._is_failing:
            _log.warning("leases could not be renewed, and this is tried again: %s", failure)
        self._is_failing = failure is not None

    def _tell(self, part: Sequence[Held], renewal: Renewal) -> None:
        """In the thread: tell streams what of theirs should stop."""
        assert self._thread is not None
        self._thread.tell(lambda: self._obey(part, renewal))

    def _obey(self, part: Sequence[Held], renewal: Renewal) -> None:
        for held in part:
            if not self._is_held(held):
                continue
            reason = renewal.lost.get(held.lease.job_id)
            if reason is not None and not held.is_settling:
                self.drop(held)
                self._stop(held, reason.value)
            elif held.lease.job_id in renewal.cancel:
                self._stop(held, "cancelled")

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run(), name="windlass-keeping")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _tell_of_end(worker: str, error: StoreError) -> None:
    _log.warning("the end of the stream %s was not stored: %s", worker, error)


def _checking(leases: Sequence[Lease]) -> Question:
    return lambda lifeline: lifeline.check("", leases)


def _apart(held: Iterable[Held]) -> list[list[Held]]:
    """These deliveries in parts that have at most one delivery of a job each, as a lifeline is
    asked."""
    parts: list[dict[int, Held]] = []
    for one in held:
        for part in parts:
            if one.lease.job_id not in part:
                part[one.lease.job_id] = one
                break
        else:
            parts.append({one.lease.job_id: one})
    return [list(part.values()) for part in parts]
