"""Keeps this worker's leases, and stops handlers that must not go on.

The keeper is a stepper: `step` does what is due and says when to come back. In production a thread
hosts it, on a connection of its own, so a handler that blocks the event loop loses nothing; under
virtual time the test's loop hosts it.

Three times matter, all on this process's monotonic clock:

* every `renew_every` (lease/3) the worker's lease is renewed, which covers all its jobs at once;
* every second, while jobs run, it only asks: was one lost, should one stop?
* `lease − margin` after the *start* of the last renewal that worked, the worker cannot be sure any
  more that it owns its jobs, so every handler is told to stop (self-fencing) before the store could
  give them to another worker.

A StoreBusyError is different: another connection holds the database, so no worker can take a lease
either, and the store does not count that time. Leases are frozen, and the fence moves along.

A store that is there and refuses the very first renewal (no privileges, no schema) will not be
mended by waiting: `refused` hears of it, and the worker ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from windlass.clock import Clock
from windlass.engine.delivery import Delivery
from windlass.engine.outage import Outage
from windlass.errors import (
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.observe.logs import Scoped
from windlass.store.port import Lifeline
from windlass.store.records import Renewal
from windlass.tasks.abort import AbortReason

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments

CHECK_EVERY = 1.0


class Keeper:
    """Pure stepping; it owns no thread and no time but the clock's."""

    def __init__(
        self,
        worker: str,
        lease: float,
        lifeline: Lifeline,
        in_hand: Mapping[int, Delivery],
        *,
        clock: Clock,
        outage: Outage,
        logger: Scoped,
        refused: Callable[[StoreError], None] = lambda error: None,
        renew_every: float | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        self._refused = refused
        self._has_renewed = False
        self._worker = worker
        self._lease = lease
        self._lifeline = lifeline
        self._in_hand = in_hand
        self._clock = clock
        self._outage = outage
        self._logger = logger
        self._instruments = instruments
        self._renew_every = lease / 3 if renew_every is None else renew_every
        self._margin = min(lease / 5, 5.0)
        self._renew_at = clock.monotonic()
        self._fence_at = self._renew_at + lease - self._margin

    @property
    def is_past_fence(self) -> bool:
        """Whether leases could not be renewed in time, so that whatever is claimed is lost."""
        return self._clock.monotonic() >= self._fence_at

    def step(self) -> float:
        """Do what is due; the seconds until the next step."""
        now = self._clock.monotonic()
        deliveries = list(self._in_hand.values())
        if now >= self._fence_at:  # this process was stopped, or the store did not answer in time
            for delivery in deliveries:
                if now >= delivery.owned_until - self._margin:
                    delivery.is_fenced = True
        asked = any(delivery.extension is not None for delivery in deliveries)
        try:
            if asked or now >= self._renew_at:
                self._renew(deliveries, now)
            elif deliveries:
                leases = [delivery.lease for delivery in deliveries]
                self._obey(self._lifeline.check(self._worker, leases), deliveries)
        except StoreClosedError:
            return self._lease
        except StoreBusyError:
            self._fence_at = self._clock.monotonic() + self._lease - self._margin
            return min(0.1, self._lease / 10)
        except StoreError as error:
            if not self._has_renewed and not isinstance(error, StoreUnavailableError):
                self._refused(error)
            now = self._clock.monotonic()
            self._fence(now)
            pause = min(self._outage.failed(error), self._lease / 10)
            return pause if now >= self._fence_at else min(pause, self._fence_at - now)
        self._outage.worked()
        # Also with nothing in hand: a job that starts meanwhile is looked after within a second.
        return max(0.0, min(self._renew_at - self._clock.monotonic(), CHECK_EVERY))

    def _renew(self, deliveries: list[Delivery], now: float) -> None:
        asked = [(d, d.extension) for d in deliveries if d.extension is not None]
        leases = [delivery.lease for delivery in deliveries]
        extend = [(delivery.lease, seconds) for delivery, seconds in asked]
        renewal = self._lifeline.renew(self._worker, self._lease, leases, extend)
        self._has_renewed = True
        for delivery, seconds in asked:
            if delivery.lease.job_id in renewal.locked:
                continue
            delivery.owned_until = max(delivery.owned_until, now + seconds)
            if delivery.extension == seconds:  # not asked for more in the meantime
                delivery.extension = None
        # Jobs that a transaction has locked are tried again soon: their leases go on running out.
        self._renew_at = now + min(self._renew_every, CHECK_EVERY if renewal.locked else 1e9)
        self._fence_at = now + self._lease - self._margin
        self._obey(renewal, deliveries)

    def _obey(self, renewal: Renewal, asked: Sequence[Delivery]) -> None:
        """Stop what must stop, of the deliveries that were asked about and no others: while the
        answer was on its way the same job may have been released and claimed here again."""
        lost = 0
        for delivery in asked:
            job_id = delivery.lease.job_id
            if (reason := renewal.lost.get(job_id)) is not None:
                if delivery.stop(AbortReason(reason.value)):
                    lost += 1
                    self._logger.warning(
                        "lost the lease of job %d: %s", job_id, reason, extra=delivery.log_fields
                    )
            elif job_id in renewal.cancel:
                delivery.stop(AbortReason.CANCELLED)
        self._count_lost(lost)

    def _fence(self, now: float) -> None:
        if now < self._fence_at:
            return
        lost = 0
        for delivery in list(self._in_hand.values()):
            if now < delivery.owned_until - self._margin:
                continue
            delivery.is_fenced = True
            if delivery.stopped is None:
                self._logger.error(
                    "stopping job %d: its lease could not be renewed",
                    delivery.lease.job_id,
                    extra=delivery.log_fields,
                )
                lost += delivery.stop(AbortReason.ERROR)
        self._count_lost(lost)

    def _count_lost(self, leases: int) -> None:
        if leases and self._instruments is not None:
            self._instruments.lost(leases)


def _step(keeper: Keeper, logger: Scoped) -> float:
    try:
        return keeper.step()
    except Exception:  # without leases nothing is safe: keep trying whatever happened
        logger.exception("the keeper met an error and goes on")
        return 0.5


class KeeperHost(Protocol):
    """Whatever keeps stepping a keeper until it is told to stop."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    async def stop(self) -> None: ...


class KeeperThread:
    """Hosts a keeper in a daemon thread, for as long as the event loop of its jobs exists."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self, keeper: Keeper, lifeline: Lifeline, logger: Scoped) -> None:
        self._keeper = keeper
        self._lifeline = lifeline
        self._logger = logger
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="windlass-keeper", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        try:
            while not self._stopping and not self._loop.is_closed():
                self._wake.wait(_step(self._keeper, self._logger))
                self._wake.clear()
        finally:
            self._lifeline.close()


class KeeperTask:
    """Hosts a keeper on the event loop, for virtual time."""

    def __init__(self, keeper: Keeper, lifeline: Lifeline, logger: Scoped) -> None:
        self._keeper = keeper
        self._lifeline = lifeline
        self._logger = logger
        self._event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="windlass-keeper")

    def wake(self) -> None:
        self._event.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._lifeline.close()

    async def _run(self) -> None:
        while True:
            delay = _step(self._keeper, self._logger)
            try:
                await asyncio.wait_for(self._event.wait(), delay)
            except TimeoutError:
                pass
            self._event.clear()
