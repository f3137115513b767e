"""Fires schedules when they are due.

A schedule's instants are dealt with in order, in *stretches*. The first reaches from where the
database says the schedule is, or from `fill` before the start if that is later, up to the start of
this worker: the backfill. Each later one reaches from the end of the last to now: usually one
instant, and more after a pause of the process, the machine or the database (catch-up, which is not
backfill). A stretch holds at most `fillmax` instants, the latest ones.

Every worker does this for every schedule it has; `fire` lets one of them win each batch. The
others are told where the schedule is, and go on from there. A worker killed before the commit
has fired nothing, after it everything; an answer that was lost looks like a batch that another
worker won. A schedule that fails by itself is tried again after a growing pause while the
others go on.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from windlass.clock import to_datetime
from windlass.engine.tools import Tools
from windlass.errors import (
    SchemaTooNewError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.model.cron import Schedule
from windlass.model.cron.timetable import Timetable
from windlass.model.job import DEFAULT_TENANT
from windlass.store.port import Store
from windlass.store.schedules import FireVerdict, KnownSchedule, jobs_at

MOST_AT_ONCE = 500
MOST_TEXT = 4_000_000
"""The most jobs, and bytes of payload, of one batch."""
LOOK_EVERY = 5
"""Polls after which the database's clock is looked at even if nothing should be due: it may have
been set."""
EARLY_PAUSE = 0.01
PROGRESS_EVERY = 5.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
LONGEST_WAIT = 10.0
"""The longest pause after a failure, and while an open transaction is waited for."""
SCHEDULES_AT_ONCE = 50
_NEVER = 2**62


class Scheduling(NamedTuple):
    """Schedules, and the queue their jobs go to."""

    store: Store
    schedules: Sequence[Schedule]
    tenants: Sequence[str] = (DEFAULT_TENANT,)
    """To each of which the schedules belong."""


class Stretch:
    """Instants in (begin, until] that are to be fired, in order."""

    def __init__(
        self, schedule: Schedule, begin: int, until: int, *, backfilled: bool = False
    ) -> None:
        self.begin, self.total = schedule.timetable.cut(begin, until, schedule.fillmax)
        self.is_cut = self.begin > begin
        self.until = until
        self.backfilled = backfilled
        self.done = 0

    def next_batch(self, schedule: Schedule) -> list[int]:
        batch = schedule.timetable.between(self.begin, self.until)
        first = next(batch, None)
        if first is None:
            return []
        size = len(jobs_at(schedule, [first], backfilled=False)[0].payload)
        most = max(1, min(MOST_AT_ONCE, MOST_TEXT // size))
        return [first, *itertools.islice(batch, most - 1)]


class ScheduleState:
    """One schedule, as this worker sees it."""

    def __init__(self, schedule: Schedule, known: KnownSchedule, since: int) -> None:
        self.schedule = schedule
        self.tenant = known.tenant
        self.floor = known.floor_at
        """Where the database last said it is."""
        self.is_ahead = self.floor > known.seen_at
        """Dealt with beyond what the database's clock shows: it was set back."""
        self.is_paused = known.paused_at is not None
        fill = 0.0 if self.is_paused else schedule.fill
        begin = max(self.floor, since - round(fill * 1e6))
        self.stretch = Stretch(schedule, begin, since, backfilled=True)
        self.missed = _ends(schedule.timetable, self.floor, self.stretch.begin)
        """The first and the last instant that came before the start and are not made up for."""
        self.failures = 0
        self.retry_at = 0.0
        self.told_at = 0.0
        self._quiet = (0, 0)
        """From when until when nothing is due, by the database's clock."""

    @property
    def name(self) -> str:
        """For people: its identifier, and whose it is."""
        identifier = self.schedule.identifier
        return f"{identifier} of tenant {self.tenant}" if self.tenant else identifier

    def next_batch(self, now: int) -> list[int]:
        """Instants to fire now, at most one batch; a new stretch begins where the last ended."""
        self.stretch.until = min(self.stretch.until, now)  # the clock may have been set back
        if batch := self.stretch.next_batch(self.schedule):
            return batch
        # What was passed over stays so, also when the clock comes to it again.
        begin = max(self.floor, self.stretch.until, self.missed[1] if self.missed else 0)
        if now <= begin:
            return []
        self.stretch = Stretch(self.schedule, begin, now)
        return self.stretch.next_batch(self.schedule)

    @property
    def is_backfilling(self) -> bool:
        return self.stretch.backfilled and bool(self.stretch.next_batch(self.schedule))

    def move_to(self, floor: int) -> None:
        self._quiet = (0, 0)
        self.floor = floor
        self.stretch.begin = max(self.stretch.begin, floor)

    def put_off(self, now: float, *, most: float) -> float:
        """Leave it alone for a while, longer each time; the seconds."""
        self.failures += 1
        pause = min(most, FIRST_PAUSE * 2.0 ** (min(self.failures, 10) - 1))
        self.retry_at = now + pause
        return pause

    def rest(self, now: int) -> float | None:
        """Seconds in which nothing is due for certain; None if that must be worked out."""
        since, until = self._quiet
        return (until - now) / 1e6 if since <= now < until else None

    def rest_until_next(self, now: int) -> float:
        """Seconds until the next instant, worked out."""
        due = self.schedule.timetable.after(max(self.floor, now))
        self._quiet = (now, _NEVER if due is None else due)
        return (self._quiet[1] - now) / 1e6


class Scheduler:
    """All schedules of one worker. A step fires at most one batch of each."""

    def __init__(self, scheduling: Scheduling, poll_interval: float, tools: Tools) -> None:
        self._store, self._schedules, self._tenants = scheduling
        self._look_every = poll_interval * LOOK_EVERY
        self._clock = tools.clock
        self._events = tools.events
        self._logger = tools.logger
        self._worker = tools.worker
        self._instruments = tools.instruments
        self._states: list[ScheduleState] | None = None
        self._started_at: float | None = None

    async def step(self) -> float | None:
        if self._started_at is None:
            self._started_at = self._clock.monotonic()
        now = await self._store.now()
        if self._states is None:
            # A worker has started even if the database did not answer it for a while.
            waited = self._clock.monotonic() - self._started_at
            self._states = await self._begin(now - round(waited * 1e6))
        waits: list[float] = []
        for number, state in enumerate(tuple(self._states), 1):
            try:
                waits.append(await self._attend(state, now))
            except StoreBusyError as error:
                # It has waited, and the next might too: those that cannot have their turn first.
                self._pause(state, error)
                return 0.0
            if number % SCHEDULES_AT_ONCE == 0:
                await asyncio.sleep(0)  # jobs run on this event loop too
        return min(waits, default=None)

    async def last_step(self) -> None:
        """Fire what is due before the worker ends: the next worker may pass over it.

        A backfill is left to that worker; the database knows how far it is.
        """
        self._states = [state for state in self._states or () if not state.is_backfilling]
        if self._states:
            await self.step()

    async def _begin(self, started: int) -> list[ScheduleState]:
        states = []
        for tenant in self._tenants:
            known = await self._store.register(self._schedules, tenant)
            # An instant that comes just then is on time.
            states += [
                ScheduleState(schedule, told, started - 1)
                for schedule, told in zip(self._schedules, known, strict=True)
            ]
        self._logger.info("schedules: %s", ", ".join(state.name for state in states))
        for state in states:
            self._tell_start(state)
        self._events.emit("cron:started", worker=self._worker, schedules=self._schedules)
        # Only schedules with a key may have to wait for an open transaction, so they come last.
        return sorted(states, key=lambda state: state.schedule.key is not None)

    async def _attend(self, state: ScheduleState, now: int) -> float:
        """Fire one batch of one schedule, if something is due; the seconds until it wants more."""
        pause = state.retry_at - self._clock.monotonic()
        if pause > 0:
            return min(pause, self._look_every)
        if (rest := state.rest(now)) is not None:
            return min(rest, self._look_every)
        try:
            batch = state.next_batch(now)
            if batch:
                return await self._fire(state, batch, now)
            return min(state.rest_until_next(now), self._look_every)
        except (StoreUnavailableError, StoreBusyError, StoreClosedError, SchemaTooNewError):
            raise  # nothing that is wrong with the schedule
        except Exception as error:  # whatever is wrong with one schedule, the others go on
            return self._failed(state, error)

    async def _fire(self, state: ScheduleState, batch: list[int], now: int) -> float:
        schedule, stretch = state.schedule, state.stretch
        jobs = jobs_at(schedule, batch, backfilled=stretch.backfilled, tenant=state.tenant)
        fired = await self._store.fire(
            schedule.identifier, state.floor, batch[-1], jobs, state.tenant
        )
        state.failures = 0
        match fired.verdict:
            case FireVerdict.APPLIED:
                state.move_to(fired.floor_at)
                stretch.done += len(batch)
                self._tell_fired(state, batch)
                if self._instruments is not None and not stretch.backfilled:
                    self._instruments.fired((now - instant) / 1e6 for instant in batch)
            case FireVerdict.LOST:
                state.move_to(fired.floor_at)
            case FireVerdict.PAUSED:
                state.move_to(fired.floor_at)
                stretch.begin = max(stretch.begin, stretch.until)
            case FireVerdict.EARLY:
                return EARLY_PAUSE
            case FireVerdict.MISSING:
                self._logger.warning(
                    "schedule %s was removed: this worker fires it no more", state.name
                )
                assert self._states is not None
                self._states.remove(state)
        return 0.0

    def _pause(self, state: ScheduleState, error: StoreBusyError) -> None:
        pause = state.put_off(self._clock.monotonic(), most=LONGEST_WAIT)
        if state.failures == 1:
            self._logger.warning(
                "schedule %s has to wait, again in %g s: %s",
                state.name,
                pause,
                error,
            )

    def _failed(self, state: ScheduleState, error: Exception) -> float:
        pause = state.put_off(self._clock.monotonic(), most=LONGEST_PAUSE)
        self._logger.error(
            "schedule %s could not be fired, again in %g s: %s",
            state.name,
            pause,
            error,
            exc_info=None if isinstance(error, StoreError) else error,
        )
        self._events.emit("cron:error", worker=self._worker, schedule=state.schedule, error=error)
        return min(pause, self._look_every)

    # ── what people are told ──

    def _tell_start(self, state: ScheduleState) -> None:
        name, stretch = state.name, state.stretch
        identifier = state.schedule.identifier
        if state.is_paused:
            self._logger.info(
                "schedule %s is paused, and fires nothing (windlass cron resume %s)",
                name,
                f"{identifier} --tenant {shlex.quote(state.tenant)}"
                if state.tenant
                else identifier,
            )
        elif state.missed is not None:
            first, last = map(_shown, state.missed)
            self._logger.info(
                "schedule %s was due %s before this worker started, which is passed over (%s)",
                name,
                f"at {first}" if first == last else f"from {first} to {last}",
                f"fillmax={state.schedule.fillmax}" if stretch.is_cut else "see fill=",
            )
        if stretch.total:
            self._tell_progress(state)
        if state.is_ahead:
            self._logger.warning(
                "schedule %s is dealt with until %s, which has not come yet: the clock was set"
                " back; it rests until then (windlass cron remove %s forgets it)",
                name,
                _shown(state.floor),
                identifier,
            )

    def _tell_fired(self, state: ScheduleState, batch: Sequence[int]) -> None:
        schedule, stretch = state.schedule, state.stretch
        if self._events.wants("cron:scheduled"):
            self._events.emit(
                "cron:scheduled",
                worker=self._worker,
                schedule=schedule,
                instants=[to_datetime(instant) for instant in batch],
                backfilled=stretch.backfilled,
            )
        if stretch.is_cut and not stretch.backfilled and stretch.done == len(batch):
            self._logger.warning(
                "schedule %s is late and catches up from %s; what came before is passed over"
                " (fillmax=%d)",
                state.name,
                _shown(batch[0]),
                schedule.fillmax,
            )
        if stretch.backfilled or stretch.total > MOST_AT_ONCE:
            is_over = next(schedule.timetable.between(batch[-1], stretch.until), None) is None
            if is_over or self._clock.monotonic() - state.told_at >= PROGRESS_EVERY:
                self._tell_progress(state)
        elif len(batch) == 1:
            self._logger.info("schedule %s fired for %s", state.name, _shown(batch[0]))

    def _tell_progress(self, state: ScheduleState) -> None:
        schedule, stretch = state.schedule, state.stretch
        state.told_at = self._clock.monotonic()
        self._logger.info(
            "schedule %s makes up for missed instants: %d of %d done",
            state.name,
            stretch.done,
            stretch.total,
        )
        self._events.emit(
            "cron:backfill",
            worker=self._worker,
            schedule=schedule,
            done=stretch.done,
            total=stretch.total,
        )


def _ends(timetable: Timetable, after: int, until: int) -> tuple[int, int] | None:
    """The first and the last instant of (after, until], if there are any."""
    first = next(timetable.between(after, until), None)
    return None if first is None else (first, next(timetable.latest(after, until)))


def _shown(instant: int) -> str:
    return f"{to_datetime(instant):%Y-%m-%d %H:%M} UTC"
