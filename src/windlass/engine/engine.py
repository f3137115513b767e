"""One worker's loops, put together, started and drained."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass.clock import SYSTEM, Clock
from windlass.engine import switching
from windlass.engine.claimer import Claimer, ClaimerLinks, ClaimOptions, ForbiddenFlags
from windlass.engine.delivery import Delivery
from windlass.engine.handler import EngineHandler
from windlass.engine.keeper import Keeper, KeeperHost, KeeperTask, KeeperThread
from windlass.engine.lookout import SOON, Lookout
from windlass.engine.loop import Loop
from windlass.engine.note_writer import NoteWriter
from windlass.engine.outage import Outage
from windlass.engine.promoter import Promoter
from windlass.engine.pruner import Pruner
from windlass.engine.rate_reporter import RateReporter
from windlass.engine.reaper import Reaper
from windlass.engine.reporter import Reporter
from windlass.engine.scheduler import Scheduler, Scheduling
from windlass.engine.settler import Settler, SettlerLinks
from windlass.engine.slots import Slots
from windlass.engine.sure import DONE
from windlass.engine.tools import Tools
from windlass.errors import StoreError
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.observe.events import Events
from windlass.observe.logs import scoped
from windlass.store.figures import PERIOD, FigureStore
from windlass.store.hints import ignore_due
from windlass.store.port import Lifeline, Listening, Roster
from windlass.store.records import Release, Settled, Verdict
from windlass.tasks.abort import AbortReason
from windlass.tasks.context import Surroundings

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments

PRUNE_AFTER = 5.0
"""Seconds after the start before history is looked at."""

LAST_WORDS = 2.0
"""Seconds a handler has to clean up after it was told to stop."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works. Times are seconds."""

    name: str | None = None
    slots: int = 10
    lease: float = 30.0
    poll_interval: float = 2.0
    reap_interval: float | None = 5.0
    """None leaves the jobs of dead workers to others, as a store without `upkeep` does anyway."""
    grace: float = 25.0
    max_resets: int = 5
    renew_every: float | None = None
    """How often leases are renewed; a third of `lease` by default."""
    prefetch: int | None = None
    forbidden_flags: ForbiddenFlags = None
    max_jobs: int | None = None
    once: bool = False
    tenants: tuple[str, ...] | None = None
    """Whose jobs to run; None for those of all tenants."""
    keep_chains: float = KEEP_CHAINS
    keep_failed_chains: float = KEEP_FAILED_CHAINS
    """How long chains are kept that completed, and that ended otherwise."""
    reports_rates: bool = True
    """Whether to report every ten seconds what was done, where the store keeps that."""
    tells_stranded: bool = True
    """Whether to log which tasks have ready jobs and no worker."""


def make_worker_id(name: str | None) -> str:
    """A readable name and a random part, so that two workers never share an id."""
    base = name or f"{socket.gethostname()}-{os.getpid()}"
    return f"{re.sub(r'[^A-Za-z0-9_.:-]', '-', base)[:80]}-{secrets.token_hex(4)}"


class Engine:
    """Runs jobs of one store with one handler until it is stopped.

    `done` is set, with the reason in `why`, when it has nothing more to do by itself: after `once`
    ran dry, or after `max_jobs`.
    """

    def __init__(
        self,
        handler: EngineHandler,
        around: Surroundings,
        options: EngineOptions,
        *,
        events: Events | None = None,
        clock: Clock = SYSTEM,
        keeper_on_loop: bool = False,
        listening: Listening = lambda error: None,
        scheduling: Scheduling | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        self._listening = listening
        self._scheduling = scheduling
        self._instruments = instruments
        self.options = options
        self.id = around.worker_id
        self.tasks: Sequence[str] = tuple(handler.tasks)
        self.why = ""
        self.error: StoreError | None = None
        """What ended it, if it could not go on."""
        self.done = asyncio.Event()
        self.completed = 0
        """Deliveries whose settlement was written."""
        self._store = around.store
        self._handler = handler
        self._around = around
        self._events = events or Events()
        self._clock = clock
        self._keeper_on_loop = keeper_on_loop
        self._logger = scoped(around.logger, "worker", worker_id=self.id)
        self._in_hand: dict[int, Delivery] = {}
        self._hurry = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._unwatch: Callable[[], None] = lambda: None
        self._drain: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None
        self.handlers_left = False
        """Whether a coroutine would not be cancelled when the worker was drained."""
        self._hooks: set[asyncio.Task[None]] = set()
        self._keeper: Keeper
        self._build()

    def _build(self) -> None:
        options = self.options
        outage = Outage(self._logger)
        self._outage = outage
        self._note_writer = NoteWriter(self._store, self._logger)
        instruments = self._instruments
        tools = Tools(self._clock, self._logger, self._events, self, instruments)
        self._reporter = Reporter(self._handler, self._around, tools)
        self._settler = Settler(
            self._store,
            outage.sibling(),
            self._logger,
            SettlerLinks(
                buffered=lambda: self._slots.buffered,
                before=self._before_settling,
                refused=lambda delivery, reason: self._slots.refused(delivery, reason),
                tried=lambda batch: self._slots.asks.settled(batch),
                after=self._after_settling,
            ),
            instruments,
        )
        self._slots = Slots(
            options.slots,
            self._handler,
            self._around,
            self._settler,
            tools,
            in_hand=self._in_hand,
            hungry=self._on_hungry,
            on_note=self._on_note,
            max_resets=options.max_resets,
        )
        self._claimer = Claimer(
            self._store,
            self._slots,
            self._handler,
            ClaimOptions(
                worker_id=self.id,
                lease=options.lease,
                poll_interval=options.poll_interval,
                prefetch=options.prefetch,
                forbidden_flags=options.forbidden_flags,
                max_jobs=options.max_jobs,
                once=options.once,
                tenants=options.tenants,
            ),
            tools,
            ClaimerLinks(
                in_hand=lambda: len(self._in_hand),
                is_fenced=lambda: self._keeper.is_past_fence,
                finished=self._on_finished,
            ),
        )
        self._claiming = self._loop("claimer", self._claimer.step)
        self._promoter = Promoter(self._store, options.poll_interval, self._clock)
        self._promoting = self._loop("promoter", self._promoter.step)
        self._noting = self._loop("note-writer", self._note_writer.step, first_delay=None)
        self._loops = [self._claiming, self._noting]
        if self._store.capabilities.upkeep:
            self._loops += self._upkeep()
        if self._store.capabilities.roster and not options.once:
            roster = cast(Roster, self._store)
            lookout = Lookout(
                roster,
                self.id,
                self.tasks,
                options.tenants,
                self._logger if options.tells_stranded else None,
            )
            self._loops.append(self._loop("lookout", lookout.step, first_delay=SOON))
        self._rates: RateReporter | None = None
        if self._store.capabilities.figures and options.reports_rates:
            rates = self._rates = RateReporter(cast(FigureStore, self._store), self._clock)
            self._loops.append(self._loop("rate-reporter", rates.step, first_delay=PERIOD))
        self._scheduler: Scheduler | None = None
        if self._scheduling is not None and self._scheduling.schedules:
            scheduler = Scheduler(self._scheduling, options.poll_interval, tools)
            self._scheduler = scheduler
            self._loops.append(self._loop("scheduler", scheduler.step))

    def _upkeep(self) -> Iterator[Loop]:
        yield self._promoting
        options = self.options
        pruner = Pruner(self._store, options.keep_chains, options.keep_failed_chains)
        yield self._loop("pruner", pruner.step, first_delay=PRUNE_AFTER)
        if (interval := self.options.reap_interval) is not None:
            reaper = Reaper(
                self._store, interval, options.max_resets, self._logger, self._instruments
            )
            yield self._loop("reaper", reaper.step, first_delay=interval)

    def _loop(self, name: str, step: Any, first_delay: float | None = 0.0) -> Loop:
        return Loop(
            name,
            step,
            outage=self._outage.sibling(),
            logger=self._logger,
            on_ended=self._on_ended,
            first_delay=first_delay,
        )

    # ── life ──

    async def start(self) -> None:
        self._events.emit("worker:create", worker=self, tasks=self.tasks)
        lifeline = self._store.lifeline()
        switching.quicken()
        self._keeper_host = self._host(lifeline)
        self._keeper_host.start()
        self._slots.start()
        if self._instruments is not None:
            self._unwatch = self._instruments.watch(self.tasks, self._slots)
        due = self._on_due if self._store.capabilities.upkeep else ignore_due
        self._unsubscribe = self._store.subscribe(self._on_hint, self._listening, due)
        for loop in self._loops:
            loop.start()

    def _host(self, lifeline: Lifeline) -> KeeperHost:
        keeper = self._keeper = Keeper(
            self.id,
            self.options.lease,
            lifeline,
            self._in_hand,
            clock=self._clock,
            outage=self._outage.sibling(),
            logger=self._logger,
            refused=self._on_refused,
            renew_every=self.options.renew_every,
            instruments=self._instruments,
        )
        if self._keeper_on_loop:
            return KeeperTask(keeper, lifeline, self._logger)
        return KeeperThread(keeper, lifeline, self._logger)

    async def stop(self) -> None:
        """Drain and sign off. Nothing is left running."""
        await self.drain()
        await self.sign_off()

    async def drain(self) -> None:
        """Claim no more, hand back what has not started, wait up to the grace period, then tell the
        rest to stop and hand those back too.

        A handler that will not stop keeps its job, and `handlers_left` says so.
        """
        if self._drain is None:
            self._events.emit("worker:release", worker=self)
            self._drain = asyncio.ensure_future(self._do_drain())
        await asyncio.shield(self._drain)

    async def sign_off(self) -> None:
        """After the drain: end the lease, which hands back the jobs of handlers that would not
        stop. It is for the last moment, since those jobs may begin elsewhere at once."""
        if self._end is None:
            self._end = asyncio.ensure_future(self._do_sign_off())
        await asyncio.shield(self._end)

    def hurry(self) -> None:
        """Wait no longer for running handlers."""
        self._hurry.set()

    async def _do_drain(self) -> None:
        try:
            await self._wind_down()
        finally:
            switching.relax()

    async def _wind_down(self) -> None:
        self._claimer.is_closed = True
        self._unsubscribe()
        await asyncio.gather(*(loop.stop() for loop in self._loops if loop is not self._noting))
        await self._fire_last()
        self._slots.hand_back()
        if not await self._slots.close(self.options.grace, self._hurry):
            count = self._slots.stop_running(AbortReason.SHUTDOWN)
            if count:
                self._logger.warning("told %d running jobs to stop; they go back", count)
            if not await self._slots.join(LAST_WORDS):
                self.handlers_left = not await self._slots.kill()
        await self._note_writer.step()
        await self._noting.stop()
        await self._finish_settling()
        await self._report_last()
        await self._finish_hooks()

    async def _do_sign_off(self) -> None:
        self._unwatch()
        self._unwatch = lambda: None
        await self._keeper_host.stop()
        try:
            await self._store.retire(self.id)
        except StoreError as error:
            self._logger.warning("could not sign off; leases will run out instead: %s", error)
        self._events.emit("worker:stop", worker=self, error=None)

    async def _fire_last(self) -> None:
        if self._scheduler is not None and self.error is None:
            try:
                await asyncio.wait_for(self._scheduler.last_step(), LAST_WORDS)
            except (StoreError, TimeoutError) as error:
                self._logger.warning("what is due now is left to others: %r", error)

    async def _finish_settling(self) -> None:
        """What cannot be written within a lease is no longer ours to write."""
        try:
            await asyncio.wait_for(self._settler.flush(), self.options.lease)
        except TimeoutError:
            self._logger.error("some outcomes could not be written; those jobs will run again")
            await self._settler.stop()

    async def _report_last(self) -> None:
        if self._rates is not None:
            try:
                await asyncio.wait_for(self._rates.step(), LAST_WORDS)
            except Exception as error:  # whatever it is: the worker must sign off
                self._logger.debug("what was done last is not reported: %r", error)

    async def _finish_hooks(self) -> None:
        if self._hooks:
            _, late = await asyncio.wait(self._hooks, timeout=self.options.grace + LAST_WORDS)
            for hook in late:
                self._logger.error("a post_handle takes too long, and is stopped")
                hook.cancel()

    # ── what the parts tell each other ──

    def _on_hint(self) -> None:
        self._claimer.hinted()
        self._claiming.wake_from_anywhere()

    def _on_due(self, seconds: float | None) -> None:
        """From any thread, as hints are."""
        loop = self._around.loop
        if not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed between the look and the call
                loop.call_soon_threadsafe(self._hear_due, seconds)

    def _hear_due(self, seconds: float | None) -> None:
        if self._promoter.heard(seconds):
            self._promoting.wake()

    def _on_hungry(self) -> None:
        if self._claimer.is_wanting():
            self._claiming.wake()

    def _on_note(self, delivery: Delivery) -> None:
        self._note_writer.add(delivery)
        self._noting.wake()

    def _on_refused(self, error: StoreError) -> None:
        """From the keeper's thread."""
        self._around.loop.call_soon_threadsafe(self._on_ended, error)

    def _on_ended(self, error: StoreError) -> None:
        if self._drain is None and not self.done.is_set():
            self._logger.error("this worker cannot go on: %s", error)
            self._events.emit("worker:fatalError", worker=self, error=error, job_error=None)
            self.error = error
            self._on_finished("ended")

    def _on_finished(self, why: str) -> None:
        self.why = why
        self.done.set()

    def _call_hook(self, delivery: Delivery) -> None:
        """`post_handle`, in a task of its own: a slow one keeps no outcome from being written.

        Its slot stays taken until it ends, so that no more records are between `pre_handle` and
        `post_handle` than there are slots.
        """
        hook = asyncio.get_running_loop().create_task(
            self._reporter.call_hook(delivery), name="windlass-post-handle"
        )
        self._hooks.add(hook)
        hook.add_done_callback(lambda hook: self._on_hook_done(hook, delivery))

    def _on_hook_done(self, hook: asyncio.Task[None], delivery: Delivery) -> None:
        self._hooks.discard(hook)
        if delivery.hooked is not None and not delivery.hooked.done():
            delivery.hooked.set_result(None)
        self._claimer.hinted()  # what it gave back may be what `pre_dequeue` waited for
        self._claiming.wake()

    async def _before_settling(self, batch: Sequence[Delivery]) -> None:
        if self._note_writer.is_busy:
            await self._note_writer.flush([delivery for delivery in batch if delivery.notes])

    async def _after_settling(self, batch: Sequence[Delivery], settled: Sequence[Settled]) -> None:
        in_hand = self._in_hand
        for delivery in batch:
            job_id = delivery.lease.job_id
            if in_hand.get(job_id) is delivery:
                del in_hand[job_id]
        if (accused := self._slots.accused) is not None and accused in batch:
            self._slots.accused = None
            self._claimer.hinted()  # others like it were left in the store
            self._claiming.wake()
        is_heard = self._reporter.is_heard()
        all_done = settled.count(DONE) == len(batch)
        if batch:
            now = asyncio.get_running_loop().time()
            for figures in (self._instruments, self._rates):
                if figures is not None:
                    figures.settled(batch, settled, now, all_done=all_done)
        if is_heard or self._reporter.has_hook or not all_done:
            self._tell(batch, settled, is_heard=is_heard)
        else:
            self.completed += len(batch)
        if self._claimer.is_exhausted and not in_hand:
            self._on_finished("max_jobs")
        if self.options.once:
            self._claimer.hinted()
            self._claiming.wake()

    def _tell(
        self, batch: Sequence[Delivery], settled: Sequence[Settled], *, is_heard: bool
    ) -> None:
        for delivery, answer in zip(batch, settled, strict=True):
            if answer.verdict is not Verdict.APPLIED and not delivery.settled_inside:
                if delivery.started_at and not isinstance(delivery.outcome, Release):
                    self._logger.warning(
                        "job %d ended, but its lease was %s; the outcome was not written",
                        delivery.lease.job_id,
                        answer.verdict,
                        extra=delivery.log_fields,
                    )
            else:
                self.completed += 1
                if is_heard and delivery.started_at:
                    self._reporter.tell(delivery, answer)
            if self._reporter.has_hook and delivery.started_at:
                self._call_hook(delivery)
