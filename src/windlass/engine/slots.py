"""Runs handlers. A slot is one long-lived task that takes a delivery, runs it, and takes the next.

A coroutine runs in the slot's own task: no task per job, and `asyncio.timeout` and friends work as
anywhere. Whatever the handler does, the slot survives it and the job is settled.

Most quick handlers never wait for anything. A slot runs those in a plain loop, a `STREAK` at most,
and only one that waits costs a coroutine of the engine's, a timer and the bookkeeping for a stop:
nothing on the event loop can happen to a job before it first waits.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from windlass.engine import forking, outcomes
from windlass.engine.asks import Asks, may_follow
from windlass.engine.blockers import with_blockers
from windlass.engine.delivery import Delivery
from windlass.engine.demand import Load
from windlass.engine.handler import (
    EngineHandler,
    Run,
    TaskPlan,
    Waiting,
    maybe_await,
    run_until_wait,
)
from windlass.engine.settler import Settler
from windlass.engine.tools import Tools
from windlass.store.records import CANCEL, RELEASE, Lease, Outcome
from windlass.tasks.abort import AbortReason
from windlass.tasks.context import Context, Surroundings
from windlass.tasks.tenancy import inherit_tenant

_LAST_CHANCE = 2.0

PATIENCE = 2.0
"""Seconds after which a thread that was told to stop is spoken of."""

STREAK = 64
TURN = 0.001
"""Jobs, and seconds, that a slot may go on for without giving the event loop a turn."""


class Slots:
    """`count` slots over one buffer of claimed deliveries."""

    def __init__(
        self,
        count: int,
        handler: EngineHandler,
        around: Surroundings,
        settler: Settler,
        tools: Tools,
        *,
        in_hand: dict[int, Delivery],
        hungry: Callable[[], None],
        on_note: Callable[[Delivery], None],
        max_resets: int,
    ) -> None:
        self.count = count
        self.running = 0
        self.preparing = 0
        self.pace: float | None = None
        self.low_water = 0
        """Ask for more, once, when fewer than this are left in the buffer."""
        self._handler = handler
        self._around = around
        self._settler = settler
        self._in_hand = in_hand
        self._clock = tools.clock
        self._events = tools.events
        self._start_listeners = tools.events.listeners("job:start")
        self._chain_listeners = tools.events.listeners("chain:start")
        self._logger = tools.logger
        self._worker = tools.worker
        self._hungry = hungry
        self._on_note = on_note
        self._max_resets = max_resets
        self.accused: Delivery | None = None
        """The one suspect here, until it is settled, that was running when two workers died."""
        self._pre_handle: Any = getattr(handler, "pre_handle", None)
        self._has_post_handle = getattr(handler, "post_handle", None) is not None
        self._buffer: deque[Delivery] = deque()
        self._full_since = 0.0
        self.asks = Asks(hungry)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._plans: dict[str, TaskPlan] = {}
        self._closing = False
        self._life = 0
        self._loop: asyncio.AbstractEventLoop
        self._canary: asyncio.Task[None]
        """Cancelled only when the slots or the event loop end: tells that from a job's cancel."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._life = forking.lives
        forking.watch(self._loop)
        self._tasks = [
            self._loop.create_task(self._slot(), name=f"windlass-slot-{number}")
            for number in range(self.count)
        ]
        self._canary = self._loop.create_task(_for_ever(), name="windlass-canary")

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def load(self) -> Load:
        return Load(
            slots=self.count,
            running=self.running,
            buffered=len(self._buffer),
            preparing=self.preparing,
            pace=self.pace,
        )

    def feed(self, leases: Sequence[Lease], owned_until: Mapping[str, float]) -> bool:
        """Take claimed jobs, which come in their order. Those that precede buffered ones go before
        them; suspects go first, since each was claimed for a slot that is free. Whether there were
        suspects.

        Each worker that dies counts against all suspects it had in hand. So that a job that kills
        workers, or stops them for longer than a lease, does not take innocent ones with it, those
        that were counted against once run one at a time in a worker: what is too much goes back.

        `owned_until` says when leases end of tasks that asked for longer ones than the worker's.
        """
        now, loop, on_note = self._loop.time(), self._loop, self._on_note
        in_hand, buffer = self._in_hand, self._buffer
        has_suspects = False
        fresh: list[Delivery] = []
        for lease in leases:
            delivery = Delivery(lease, loop, now, on_note)
            job_id = lease.job_id
            if job_id in in_hand:
                # Its job was taken from it and given to this worker again; once the old delivery is
                # out of `in_hand`, the keeper does not stop it any more.
                in_hand[job_id].stop(AbortReason.TAKEN_BY_ANOTHER_WORKER)
            in_hand[job_id] = delivery
            if owned_until:
                delivery.owned_until = owned_until.get(lease.task, 0.0)
            if lease.suspect:
                has_suspects = True
                if lease.resets or self._max_resets <= 1:
                    if self.accused is not None:
                        delivery.is_over = True
                        self._settler.add(delivery, RELEASE)
                        continue
                    self.accused = delivery
            fresh.append(delivery)
        if not buffer:
            self._full_since = now
        if fresh and (has_suspects or (buffer and _order(fresh[0]) < _order(buffer[-1]))):
            self._buffer = deque(sorted([*buffer, *fresh], key=_order))
        else:
            buffer.extend(fresh)
        # Let the feeder ask for more first: jobs that never wait keep the loop to themselves, and
        # the store would have nothing to do meanwhile.
        self._loop.call_soon(self._rouse, len(fresh))
        return has_suspects

    def _rouse(self, count: int) -> None:
        """Wake up so many slots that wait for a job."""
        while count and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
        if count and self._buffer:
            self.asks.satisfy(self._buffer[0])

    # ── `observe.instruments.Load`, for any thread ──

    def busy_slots(self) -> int:
        return self.running

    def idle_slots(self) -> int:
        return max(0, self.count - self.running)

    def in_flight(self) -> Mapping[str, int]:
        """How many jobs of each task run."""
        deliveries = list(self._in_hand.values())
        return Counter(d.lease.task for d in deliveries if d.started_at and not d.is_over)

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

    def has_older(self, seconds: float) -> bool:
        """Whether a job in the buffer has been waiting for so long."""
        limit = self._loop.time() - seconds
        if not self._buffer or self._full_since > limit:
            return False  # none was there before the buffer was last empty
        self._full_since = min([delivery.claimed_at for delivery in self._buffer])
        return self._full_since <= limit

    async def close(self, grace: float, hurry: asyncio.Event) -> bool:
        """Take nothing more; wait up to `grace` seconds, or until `hurry`, for what runs."""
        self._closing = True
        self.asks.answer_all()
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
        running = [d for d in self._in_hand.values() if d.task is not None and not d.is_over]
        return sum(delivery.stop(reason) for delivery in running)

    async def join(self, seconds: float) -> bool:
        """Wait for the slots to end; False if some handler would not stop."""
        _, pending = await asyncio.wait(self._tasks, timeout=seconds)
        if not pending:
            self._canary.cancel()
        return not pending

    async def kill(self) -> bool:
        """End the slots, whatever they wait for; False if some coroutine would not be ended.

        What still runs then, there or in a thread, is not settled: its job stays ours until the
        worker signs off.
        """
        for task in self._tasks:
            task.cancel()
        self._canary.cancel()
        _, left = await asyncio.wait(self._tasks, timeout=_LAST_CHANCE)
        if left:
            self._logger.error("%d handlers refuse to stop and are left alone", len(left))
        return not left

    # ── one slot ──

    async def _slot(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        last: Delivery | None = None
        while True:
            while self._must_ask(last):
                last = await self._ask(last, task)
            if not self._buffer:
                if self._closing:
                    return
                self._hungry()
                waiter = self._loop.create_future()
                self._idle.append(waiter)
                await self._rest(waiter, task)
                continue
            self.running += 1
            try:
                rest, last = self._streak(last, task)
                if rest is not None:
                    last = _more_urgent(await rest, last)
                if task.cancelling() and not self._is_ending():
                    await self._forget_cancels(task)
            finally:
                self.running -= 1
            if rest is None and self._buffer:
                await self._rest(asyncio.sleep(0), task)
            if self._settler.is_full:
                await self._rest(self._settler.room(), task)

    def _must_ask(self, last: Delivery | None) -> bool:
        """Whether the slot must ask before it takes a job, after it ran `last` of a queue."""
        if self._closing:
            return False
        if self.asks.for_suspects and self._buffer:
            return True
        return last is not None and not (self._buffer and may_follow(self._buffer[0], last))

    async def _ask(self, last: Delivery | None, task: asyncio.Task[None]) -> Delivery | None:
        """Wait for a claim; the job whose successor is yet to be asked for."""
        if self.asks.for_suspects and self._buffer:
            self.asks.for_suspects = False  # one slot is enough
            await self._rest(self.asks.put(None, is_ripe=True), task)
            return last
        assert last is not None
        is_settled = self._in_hand.get(last.lease.job_id) is not last
        answered = self.asks.put(last, is_ripe=is_settled)
        await self._rest(answered, task)
        return None if answered.cancelled() or answered.result() else last

    def _streak(
        self, last: Delivery | None, task: asyncio.Task[None]
    ) -> tuple[Coroutine[Any, Any, Delivery] | None, Delivery | None]:
        """Run jobs until one waits for something, and return how that one goes on; and the most
        urgent job of a queue that has ended, `last` among them."""
        ended: list[Delivery] = []
        try:
            return self._run_into(ended, last, task)
        finally:
            self._settler.add_all(ended)

    def _run_into(
        self, ended: list[Delivery], last: Delivery | None, task: asyncio.Task[None]
    ) -> tuple[Coroutine[Any, Any, Delivery] | None, Delivery | None]:
        """Run jobs of the buffer, one after the other: those that end go to `ended`, which
        `_streak` settles. One that has to wait is returned, for `_slot` to await; and the most
        urgent that left a queue since `last`."""
        buffer, plans, time = self._buffer, self._plans, self._loop.time
        around, listeners, has_post_handle = (
            self._around,
            self._start_listeners,
            self._has_post_handle,
        )
        chain_listeners = self._chain_listeners
        outcome: Outcome
        now = time()
        until = now + TURN
        for _ in range(min(STREAK, self._settler.space)):
            if not buffer or (last is not None and not may_follow(buffer[0], last)):
                break
            delivery = buffer.popleft()
            if len(buffer) < self.low_water:
                self.low_water = 0  # said once: the claimer sets it again when it looks
                self._hungry()
            if delivery.stopped is not None:
                cancelled = delivery.stopped is AbortReason.CANCELLED
                self._end(delivery, CANCEL if cancelled else RELEASE)
                continue
            lease = delivery.lease
            plan = plans.get(lease.task) or self._plan(lease.task)
            if lease.max_attempts is None:
                lease.max_attempts = plan.max_attempts  # what the job shows is what counts for it
            delivery.keep = plan.keep
            delivery.started_at = started = now
            if has_post_handle:
                delivery.hooked = self._loop.create_future()
            context: Any = None if plan.is_bare else Context(around, delivery)
            if listeners:
                self._events.emit("job:start", worker=self._worker, job=lease.job)
            if chain_listeners and lease.step == 0 and lease.attempts == 1:
                self._emit_chain_start(lease)
            variables = contextvars.copy_context()
            if lease.tenant:
                variables.run(inherit_tenant, around.store, lease.tenant)
            try:
                result = variables.run(run_until_wait, variables, plan.run, context, delivery)
                if forking.lives != self._life:
                    forking.leave(delivery.title)
                if result is None:
                    outcome = outcomes.from_nothing(delivery, plan, self._complain)
                elif isinstance(result, Waiting) or outcomes.is_batch(result, delivery):
                    return self._go_on(delivery, plan, task, result, variables), last
                else:
                    outcome = outcomes.from_result(result, delivery, plan, self._complain)
            except BaseException as error:  # whatever it is, the job is settled, the slot goes on
                outcome = self._judge(error, delivery, plan)
            now = time()
            pace, took = self.pace, now - started
            self.pace = took if pace is None else pace + (took - pace) * 0.2
            delivery.outcome = outcome
            delivery.ended_at = now
            delivery.is_over = True
            ended.append(delivery)
            if lease.queue is not None:
                last = _more_urgent(delivery, last)
            if has_post_handle:
                return self._stay(delivery, task), last
            if now > until or task.cancelling():
                break  # a cancel is by the handler itself, and not for the next one
        return None, last

    async def _go_on(
        self,
        delivery: Delivery,
        plan: TaskPlan,
        task: asyncio.Task[None],
        result: Any,
        variables: contextvars.Context,
    ) -> Delivery:
        """See a job to its end that waits for something, or whose results do."""
        delivery.task = task
        timer = None
        if plan.timeout is not None:
            ends_at = delivery.started_at + plan.timeout
            timer = self._loop.call_at(ends_at, delivery.stop, AbortReason.TIMEOUT)
        raised: BaseException | None = None
        try:
            if isinstance(result, Waiting):
                result = await result
            else:
                await asyncio.sleep(0)  # there may be no results, and then nothing below waits
            outcome: Outcome
            if result is None:
                outcome = outcomes.from_nothing(delivery, plan, self._complain)
            elif outcomes.is_batch(result, delivery):
                outcome = await outcomes.from_batch(
                    result, delivery, plan, self._complain, variables
                )
            else:
                outcome = outcomes.from_result(result, delivery, plan, self._complain)
        except BaseException as error:  # as above
            raised = error
        if forking.lives != self._life:
            forking.leave(delivery.title, raised)
        if delivery.remains is not None:
            await self._outlast(delivery.remains, delivery)
        if timer is not None:
            timer.cancel()
        if raised is not None:
            outcome = self._judge(raised, delivery, plan)
        self._took(self._loop.time() - delivery.started_at)
        self._end(delivery, outcome)
        return delivery if delivery.hooked is None else await self._stay(delivery, task)

    async def _outlast(self, thread: asyncio.Future[Any], delivery: Delivery) -> None:
        """Wait for a thread that goes on although its handler was told to stop.

        Its job is still ours until then: settled now, it could run here or elsewhere beside the
        thread, and so could the next job of its queue or under its key. Only the end of the
        worker does not wait: the job is then handed back when the worker signs off.
        """
        told = False
        if not thread.done():
            delivery.abort.set(delivery.stopped or AbortReason.CANCELLED)
        while not thread.done():
            try:
                await asyncio.wait({thread}, timeout=None if told else PATIENCE)
            except asyncio.CancelledError:
                if self._is_ending():
                    raise
                continue
            if not thread.done() and not told:
                told = True
                self._logger.warning(
                    "job %d was told to stop (%s), but its function goes on in its thread; the job"
                    " ends when it returns. executor='process' makes a task that can be killed",
                    delivery.lease.job_id,
                    delivery.stopped or "its handler was cancelled",
                    extra=delivery.log_fields,
                )

    def _judge(self, error: BaseException, delivery: Delivery, plan: TaskPlan) -> Outcome:
        """What a handler that raised is settled to, unless its slot is being ended."""
        if forking.lives != self._life:
            forking.leave(delivery.title, error)
        if self._is_being_killed(error, delivery):
            self._end(delivery, RELEASE)
            raise error
        return outcomes.from_error(error, delivery, plan, self._clock, self._complain)

    def refused(self, delivery: Delivery, reason: str) -> Outcome:
        """What a job is settled to whose completion the store refuses."""
        plan = self._plans.get(delivery.lease.task) or self._plan(delivery.lease.task)
        return outcomes.refused(reason, delivery, plan, self._complain)

    def _emit_chain_start(self, lease: Lease) -> None:
        self._events.emit("chain:start", worker=self._worker, chain=lease.chain, job=lease.job)

    def _took(self, seconds: float) -> None:
        pace = self.pace
        self.pace = seconds if pace is None else pace + (seconds - pace) * 0.2

    def _plan(self, task: str) -> TaskPlan:
        plan = self._handler.plan(task)
        if self._pre_handle is not None:
            run = self._after_hook(plan.run)
            plan = msgspec.structs.replace(plan, run=run, is_bare=False)
        if not plan.is_bare and self._around.store.capabilities.chains:
            plan = msgspec.structs.replace(plan, run=with_blockers(plan.run))
        self._plans[task] = plan
        return plan

    def _after_hook(self, run: Run) -> Run:
        async def hooked(context: Context, delivery: Delivery) -> Any:
            self.preparing += 1
            try:
                await maybe_await(self._pre_handle(context, delivery.record))
            finally:
                self.preparing -= 1
                self._hungry()
            return await run(context, delivery)

        return hooked

    def _is_being_killed(self, error: BaseException, delivery: Delivery) -> bool:
        """Whether the slot itself is cancelled, rather than the job or something within it."""
        return (
            isinstance(error, asyncio.CancelledError)
            and delivery.stopped is None
            and self._is_ending()
        )

    def _is_ending(self) -> bool:
        return self._canary.done() or self._canary.cancelling() > 0

    def _end(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.task = None
        delivery.ended_at = self._loop.time()
        delivery.is_over = True
        self._settler.add(delivery, outcome)

    async def _rest(self, awaitable: Awaitable[Any], task: asyncio.Task[None]) -> None:
        """Wait between jobs. A cancel that arrives here comes from a job that has already finished;
        ignore it unless the slots are ending."""
        try:
            await awaitable
        except asyncio.CancelledError:
            if self._is_ending():
                raise
            await self._forget_cancels(task)

    async def _forget_cancels(self, task: asyncio.Task[Any]) -> None:
        """The job was cancelled, or cancelled its own task: the slot lives on."""
        try:
            await asyncio.sleep(0)  # a cancel not yet delivered would hit the next job
        except asyncio.CancelledError:
            pass
        while task.cancelling():
            task.uncancel()

    async def _stay(self, delivery: Delivery, task: asyncio.Task[None]) -> Delivery:
        """Keep the slot taken until `post_handle` has ended, also where the task is cancelled."""
        hooked = delivery.hooked
        assert hooked is not None
        if task.cancelling() and not self._is_ending():
            await self._forget_cancels(task)
        while not hooked.done():
            await self._rest(asyncio.wait({hooked}), task)
        return delivery

    def _complain(self, delivery: Delivery, message: str, *values: Any) -> None:
        self._logger.warning(message, *values, extra=delivery.log_fields)


def _order(delivery: Delivery) -> tuple[bool, int, int, int]:
    lease = delivery.lease
    return (not lease.suspect, lease.priority, lease.run_at, lease.job_id)


def _more_urgent(ended: Delivery, last: Delivery | None) -> Delivery | None:
    """Of jobs of queues that a slot has ended, the one whose successor is the first to ask for."""
    if ended.lease.queue is None:
        return last
    return ended if last is None or ended.lease.priority <= last.lease.priority else last


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
