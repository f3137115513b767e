"""Runs handlers. A slot is one long-lived task that takes a delivery, runs it, and takes the next.

A coroutine is awaited in the slot's own task: no task per job, and `asyncio.timeout` and friends
work as anywhere. Whatever the handler does, the slot survives it and the job is settled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from windlass.clock import Clock
from windlass.engine import outcomes
from windlass.engine.delivery import Delivery
from windlass.engine.handler import Handler, Plan, Run, isolated, maybe_await
from windlass.engine.settler import Settler
from windlass.observe.events import Events
from windlass.observe.logs import Scoped
from windlass.store.records import CANCEL, RELEASE, Lease, Outcome
from windlass.tasks.abort import AbortReason
from windlass.tasks.context import Context, Surroundings

_LAST_CHANCE = 2.0

STREAK = 16
"""Jobs a slot may run without giving the event loop a turn."""


class Slots:
    """`count` slots over one buffer of claimed deliveries."""

    def __init__(
        self,
        count: int,
        handler: Handler,
        around: Surroundings,
        settler: Settler,
        *,
        held: dict[int, Delivery],
        clock: Clock,
        events: Events,
        logger: Scoped,
        hungry: Callable[[], None],
        worker: Any,
        on_note: Callable[[Delivery], None],
    ) -> None:
        self.count = count
        self.running = 0
        self.started = 0
        self.preparing = 0
        """Jobs whose `pre_handle` has not ended yet."""
        self.pace: float | None = None
        """Seconds a job takes, averaged over the recent ones; None before the first."""
        self.low_water = 0
        """Ask for more when fewer than this are left in the buffer."""
        self._handler = handler
        self._around = around
        self._settler = settler
        self._held = held
        self._clock = clock
        self._events = events
        self._logger = logger
        self._hungry = hungry
        self._worker = worker
        self._on_note = on_note
        self._pre_handle: Any = getattr(handler, "pre_handle", None)
        self._buffer: deque[Delivery] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._plans: dict[str, Plan] = {}
        self._closing = False
        self._loop: asyncio.AbstractEventLoop
        self._canary: asyncio.Task[None]
        """Nobody cancels it but whoever ends the whole event loop."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            self._loop.create_task(self._slot(), name=f"windlass-slot-{number}")
            for number in range(self.count)
        ]
        self._canary = self._loop.create_task(_for_ever(), name="windlass-canary")

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def free(self) -> int:
        """Slots that neither run a job nor have one waiting for them."""
        return max(0, self.count - self.running - len(self._buffer))

    def feed(self, leases: Iterable[Lease], owned_until: Mapping[str, float]) -> None:
        """Take claimed jobs; suspects go first, so that the next free slot takes them.

        `owned_until` says when leases end of tasks that asked for longer ones than the worker's.
        """
        now = self._loop.time()
        added = 0
        for lease in leases:
            delivery = Delivery(lease, self._loop, now)
            if (lost := self._held.get(lease.job_id)) is not None:
                # Its job was taken from it and given to this worker again; once out of `_held`
                # nobody else would tell it.
                lost.stop(AbortReason.TAKEN_BY_ANOTHER_WORKER)
            self._held[lease.job_id] = delivery
            if owned_until:
                delivery.owned_until = owned_until.get(lease.task, 0.0)
            if lease.suspect:
                self._buffer.appendleft(delivery)
            else:
                self._buffer.append(delivery)
            added += 1
        while added and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                added -= 1

    def hand_back(self, older_than: float = 0.0) -> int:
        """Return buffered jobs that have waited longer than `older_than` seconds."""
        limit = self._loop.time() - older_than
        back = [delivery for delivery in self._buffer if delivery.claimed_at <= limit]
        if back:
            gone = set(map(id, back))
            self._buffer = deque(d for d in self._buffer if id(d) not in gone)
            for delivery in back:
                delivery.is_over = True
                self._settler.add(delivery, RELEASE)
        return len(back)

    def oldest_age(self) -> float:
        """Seconds the job at the head of the buffer has been waiting."""
        return self._loop.time() - self._buffer[0].claimed_at if self._buffer else 0.0

    async def close(self, grace: float, hurry: asyncio.Event) -> bool:
        """Take nothing more; wait up to `grace` seconds, or until `hurry`, for what runs."""
        self._closing = True
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
        deadline = self._loop.time() + grace
        waiting: asyncio.Task[Any] = self._loop.create_task(hurry.wait())
        try:
            while pending := [task for task in self._tasks if not task.done()]:
                left = deadline - self._loop.time()
                if left <= 0 or hurry.is_set():
                    return False
                await asyncio.wait(
                    {*pending, waiting}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            waiting.cancel()
        self._canary.cancel()
        return True

    def stop_running(self, reason: AbortReason) -> int:
        """Tell every running handler to stop; how many there were."""
        running = [d for d in self._held.values() if d.task is not None and not d.is_over]
        for delivery in running:
            delivery.stop(reason)
        return len(running)

    async def join(self, seconds: float) -> bool:
        """Wait for the slots to end; False if some handler would not stop."""
        _, pending = await asyncio.wait(self._tasks, timeout=seconds)
        if not pending:
            self._canary.cancel()
        return not pending

    async def kill(self) -> None:
        """End the slots, whatever they wait for."""
        for task in self._tasks:
            task.cancel()
        self._canary.cancel()
        _, left = await asyncio.wait(self._tasks, timeout=_LAST_CHANCE)
        if left:
            self._logger.error("%d handlers refuse to stop and are left alone", len(left))

    # ── one slot ──

    async def _slot(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        streak = 0
        while True:
            buffer = self._buffer
            if not buffer:
                if self._closing:
                    return
                self._hungry()
                waiter = self._loop.create_future()
                self._idle.append(waiter)
                try:
                    await waiter
                except asyncio.CancelledError:  # by whom? A job that is long over may do that
                    if self._is_ending():
                        raise
                    await self._forget_cancels(task)
                streak = 0
                continue
            delivery = buffer.popleft()
            if len(buffer) < self.low_water:
                self._hungry()
            self.running += 1
            try:
                await self._deliver(delivery, task)
                if task.cancelling() and not self._is_ending():
                    await self._forget_cancels(task)
                if delivery.remains is not None and not delivery.remains.done():
                    await asyncio.wait({delivery.remains})
            finally:
                self.running -= 1
            streak += 1
            if streak >= STREAK:
                streak = 0
                await asyncio.sleep(0)
            if self._settler.is_full:
                await self._settler.room()

    async def _deliver(self, delivery: Delivery, task: asyncio.Task[None]) -> None:
        lease = delivery.lease
        if delivery.abort.reason is not None:
            stopped = delivery.abort.reason is AbortReason.CANCELLED
            self._end(delivery, CANCEL if stopped else RELEASE)
            return
        plan = self._plans.get(lease.task) or self._plan(lease.task)
        if lease.max_attempts is None:
            lease.max_attempts = plan.max_attempts  # what the job shows is what counts for it
        context = Context(self._around, delivery)
        delivery.task = task
        delivery.on_note = self._on_note
        delivery.keep = plan.keep
        delivery.started_at = started = self._loop.time()
        self.started += 1
        timer = None
        if plan.timeout is not None:
            timer = self._loop.call_later(plan.timeout, delivery.stop, AbortReason.TIMEOUT)
        if self._events.wants("job:start"):
            self._events.emit("job:start", worker=self._worker, job=context.job)
        try:
            run = plan.run if self._pre_handle is None else self._after_hook(plan.run)
            result = await isolated(run(context, delivery))
            if result is None:
                outcome: Outcome = plan.complete
            else:
                outcome = await outcomes.from_result(result, delivery, plan, self._complain)
        except BaseException as error:  # whatever it is, the job is settled and the slot goes on
            if self._is_being_killed(error, delivery):
                self._end(delivery, RELEASE)
                raise
            outcome = outcomes.from_error(error, delivery, plan, self._clock, self._complain)
        if timer is not None:
            timer.cancel()
        pace, took = self.pace, self._loop.time() - started
        self.pace = took if pace is None else pace + (took - pace) * 0.2
        self._end(delivery, outcome)

    def _after_hook(self, run: Run) -> Run:
        self.preparing += 1

        async def hooked(context: Context, delivery: Delivery) -> Any:
            try:
                await maybe_await(self._pre_handle(context, delivery.record))
            finally:
                self.preparing -= 1
                self._hungry()
            return await run(context, delivery)

        return hooked

    def _plan(self, task: str) -> Plan:
        plan = self._plans[task] = self._handler.plan(task)
        return plan

    def _is_being_killed(self, error: BaseException, delivery: Delivery) -> bool:
        """Whether the slot itself is cancelled, rather than the job or something within it."""
        return (
            isinstance(error, asyncio.CancelledError)
            and delivery.abort.reason is None
            and self._is_ending()
        )

    def _is_ending(self) -> bool:
        return self._canary.done() or self._canary.cancelling() > 0

    def _end(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.task = None
        delivery.is_over = True
        self._settler.add(delivery, outcome)

    async def _forget_cancels(self, task: asyncio.Task[Any]) -> None:
        """The job was cancelled, or cancelled its own task: the slot lives on."""
        try:
            await asyncio.sleep(0)  # a cancel not yet delivered would hit the next job
        except asyncio.CancelledError:
            pass
        while task.cancelling():
            task.uncancel()

    def _complain(self, message: str, *values: Any) -> None:
        self._logger.warning(message, *values)


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
