"""A bench for schedules: a store that remembers every firing, and days of virtual time.

Instants are written as `2026-01-01T04:00`, always UTC. A bench begins at `2026-01-01T00:00`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import msgspec

from tests.engine.engine_kit import Bench, Ledger
from windlass import App, Context, Events, Runner
from windlass.clock import to_datetime
from windlass.engine import keeper
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT
from windlass.store.records import NewJob
from windlass.store.schedules import Fired, FireVerdict, KnownSchedule
from windlass.testing import FaultyStore, VirtualClock, run_virtual

IDLE = {"poll_interval": 60.0, "reap_interval": 300.0, "lease": 600.0}
"""A worker that looks rarely, so that days pass quickly; it looks at the clock every 300 s."""
LONG = 30 * 86_400.0


def shown(instant: int | datetime) -> str:
    at = to_datetime(instant) if isinstance(instant, int) else instant
    return at.isoformat(timespec="minutes").removesuffix("+00:00")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def minutes(after: str, until: str) -> Iterator[datetime]:
    """Every full minute in (after, until]."""
    at = instant(after).replace(second=0, microsecond=0)
    while (at := at + timedelta(minutes=1)) <= instant(until):
        yield at


class Firing(msgspec.Struct, frozen=True):
    """One job as a schedule added it."""

    identifier: str
    at: str
    backfilled: bool
    payload: dict[str, Any]
    job: NewJob


class Run(msgspec.Struct, frozen=True):
    """One job as its task saw it; `run_at` and `began` are microseconds."""

    ts: str
    backfilled: bool
    run_at: int
    began: int


class Firings(Ledger):
    """Remembers what was fired, and may be slow or broken about some schedules."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.fired: list[Firing] = []
        self.batches_fired: list[tuple[str, int]] = []
        """Each `fire` that was applied: the identifier and its number of jobs."""
        self.tries: list[tuple[str, float, FireVerdict | None]] = []
        """Each `fire`: identifier, when, and its verdict (None: it raised)."""
        self.broken: dict[str, Exception] = {}
        self.slowness = 0.0

    async def fire(
        self,
        identifier: str,
        expected: int,
        until: int,
        jobs: Sequence[NewJob],
        tenant: str = DEFAULT_TENANT,
    ) -> Fired:
        began = self.clock.elapsed
        if identifier in self.broken:
            self.tries.append((identifier, began, None))
            raise self.broken[identifier]
        if self.slowness:
            await asyncio.sleep(self.slowness)
        answer = await super().fire(identifier, expected, until, jobs, tenant)
        self.tries.append((identifier, began, answer.verdict))
        if answer.verdict is FireVerdict.APPLIED:
            self.batches_fired.append((identifier, len(jobs)))
            self.fired += [_firing(identifier, job) for job in jobs]
        return answer

    def known(self, identifier: str) -> KnownSchedule:
        return self._schedules[DEFAULT_TENANT, identifier]

    def set_floor(self, identifier: str, at: str) -> None:
        """As if the schedule had been dealt with up to then, and no further."""
        micros = round(instant(at).timestamp() * 1e6)
        known = self.known(identifier)
        self._schedules[DEFAULT_TENANT, identifier] = msgspec.structs.replace(
            known, known_since=micros, floor_at=micros
        )


def _firing(identifier: str, job: NewJob) -> Firing:
    payload = msgspec.json.decode(job.payload)
    assert job.run_at is not None
    assert payload["_cron"]["ts"] == to_datetime(job.run_at).isoformat().replace("+00:00", "Z")
    return Firing(identifier, shown(job.run_at), payload["_cron"]["backfilled"], payload, job)


class ScheduleBench(Bench):
    """A bench whose app has the tasks `t`, `u` and `v`; `runs` has what they were given."""

    ledger: Firings

    def __init__(self, clock: VirtualClock) -> None:
        self.runs: list[Run] = []
        super().__init__(clock)
        self.use(FaultyStore(Firings(clock)))

    def use(self, store: FaultyStore) -> None:
        assert isinstance(store.inner, Firings)
        self.ledger = store.inner
        self.store = self.app.store = store

    def new_app(self, **options: Any) -> App:
        app = super().new_app(**options) if hasattr(self, "store") else self._first_app(**options)
        for name in ("t", "u", "v"):
            app.task(name=name)(self._task())
        return app

    def _first_app(self, **options: Any) -> App:
        return App("memory://", clock=self.clock, **options)

    def _task(self) -> Callable[..., Awaitable[None]]:
        async def task(ctx: Context, _cron: dict[str, Any]) -> None:
            self.runs.append(
                Run(
                    _cron["ts"],
                    _cron["backfilled"],
                    round(ctx.job.run_at.timestamp() * 1e6),
                    self.clock.now(),
                )
            )

        return task

    async def work(self, crontab: str, app: App | None = None, **options: Any) -> Runner:
        """A worker that looks rarely, started with this crontab."""
        return await self.start(app, **{"crontab": crontab, **IDLE, **options})

    async def until(self, at: str) -> None:
        """Let time pass until the wall clock shows `at`."""
        pause = (round(instant(at).timestamp() * 1e6) - self.clock.now()) / 1e6
        assert pause >= 0, f"it is {shown(self.clock.now())}, later than {at}"
        await asyncio.sleep(pause)

    def jump_to(self, at: str) -> None:
        """Set the wall clock."""
        self.clock.jump((round(instant(at).timestamp() * 1e6) - self.clock.now()) / 1e6)

    def instants(self, identifier: str = "t", *, backfilled: bool | None = None) -> list[str]:
        """What was fired, in the order it was."""
        return [
            firing.at
            for firing in self.ledger.fired
            if firing.identifier == identifier and backfilled in (None, firing.backfilled)
        ]

    async def downtime(self, runner: Runner, at: str, up: str) -> None:
        """Stop a worker at one instant and come back at another, without any worker between."""
        await self.until(at)
        await runner.stop()
        await self.until(up)


class Heard:
    """What was said by events of schedules."""

    def __init__(self, events: Events) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        for name in ("cron:started", "cron:backfill", "cron:scheduled", "cron:error"):
            events.on(name, functools.partial(self._hear, name))

    def _hear(self, name: str, **details: Any) -> None:
        self.all.append((name, details))

    def of(self, name: str, identifier: str | None = None) -> list[dict[str, Any]]:
        return [
            details
            for heard, details in self.all
            if heard == name and identifier in (None, _identifier(details))
        ]


def _identifier(details: dict[str, Any]) -> str | None:
    schedule = details.get("schedule")
    return schedule.identifier if isinstance(schedule, Schedule) else None


def over_days(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a pytest test of `async def test(bench, …)`, run on up to 30 days of virtual time."""
    signature = inspect.signature(test)
    fixtures = list(signature.parameters.values())[1:]

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        async def body(clock: VirtualClock) -> None:
            bench = ScheduleBench(clock)
            try:
                await test(bench, **arguments)
            finally:
                await bench.close()

        with mock.patch.object(keeper, "CHECK_EVERY", 60.0):  # most of an idle day's steps
            run_virtual(body, timeout=LONG, patience=10)

    run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    del run.__wrapped__
    return run
