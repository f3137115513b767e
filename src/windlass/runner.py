"""The Runner: a worker with the tasks of an app, as `app.run()` starts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windlass.client import Client
from windlass.clock import Clock
from windlass.config import Settings
from windlass.engine.claimer import ForbiddenFlags
from windlass.engine.engine import Engine, EngineOptions, make_worker_id
from windlass.engine.scheduler import Scheduling
from windlass.engine.signals import Signals
from windlass.engine.supervision import Supervision
from windlass.engine.task_handler import Defaults, Middleware, TaskHandler
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, Job
from windlass.model.retry import Retry
from windlass.observe.events import Events
from windlass.store.port import Store
from windlass.tasks.registry import Registry

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments


@dataclass(frozen=True, slots=True)
class Equipment:
    """What an app gives to each of its workers."""

    registry: Registry
    client: Client
    middleware: Sequence[Middleware]
    retry: Retry
    lifespan: Callable[[], AbstractAsyncContextManager[Any]]
    events: Events
    logger: logging.Logger
    clock: Clock
    place: str
    """Where the jobs are, for the log."""
    instruments: Instruments | None = None
    """What its metrics are counted by."""


class Runner(Supervision):
    """A worker at work. `stop` drains it; `wait` returns when it has ended."""

    _handler: TaskHandler

    def __init__(
        self,
        equipment: Equipment,
        store: Store,
        settings: Settings,
        names: Sequence[str],
        *,
        forbidden_flags: ForbiddenFlags,
        max_jobs: int | None,
        once: bool,
        schedules: Sequence[Schedule],
        tenants: tuple[str, ...] | None,
    ) -> None:
        handler = TaskHandler(
            equipment.registry,
            names,
            Defaults(
                retry=equipment.retry,
                max_attempts=settings.max_attempts,
                keep=settings.keep,
                timeout=settings.timeout,
            ),
            middleware=equipment.middleware,
            slots=settings.concurrency,
        )
        options = EngineOptions(
            name=settings.worker_name,
            slots=settings.concurrency,
            lease=settings.lease,
            poll_interval=settings.poll_interval,
            reap_interval=settings.reap_interval,
            grace=settings.grace,
            max_resets=settings.max_resets,
            prefetch=settings.prefetch,
            forbidden_flags=forbidden_flags,
            max_jobs=max_jobs,
            once=once,
            tenants=tenants,
            keep_chains=settings.keep_chains,
            keep_failed_chains=settings.keep_failed_chains,
            reports_rates=settings.rates,
        )
        super().__init__(
            store,
            handler,
            options,
            worker_id=make_worker_id(settings.worker_name),
            label="core",
            events=equipment.events,
            logger=equipment.logger,
            clock=equipment.clock,
            instruments=equipment.instruments,
        )
        self.settings = settings
        self._equipment = equipment
        self._scheduling = Scheduling(store, schedules, tenants or (DEFAULT_TENANT,))
        self._stack = AsyncExitStack()
        self._signals = Signals(self._on_signal, self.hurry)
        self._loop = asyncio.get_running_loop()

    @property
    def worker(self) -> Engine:
        """The engine that runs."""
        if self._engine is None:
            raise RuntimeError("the runner has not been started")
        return self._engine

    @property
    def handlers_left(self) -> bool:
        """Whether a handler still ran when the worker ended: a function in its thread, or a
        coroutine that would not be cancelled. Their jobs were handed back."""
        return self._handlers_left

    async def start(self, handle_signals: bool) -> None:
        """Enter the app's lifespan, start the engine and, if asked, listen to signals."""
        self.events.emit("pool:create", pool=self)
        state = await self._stack.enter_async_context(self._equipment.lifespan())
        self.events.emit("pool:listen:connecting", pool=self)
        engine = await self._begin(
            self._equipment.client,
            state,
            listening=self._on_listening,
            scheduling=self._scheduling,
        )
        if handle_signals:
            self._signals.install()
        self._logger.info(
            "worker %s is looking for jobs in %s (tasks: %s)",
            self._worker_id,
            self._equipment.place,
            ", ".join(engine.tasks),
        )

    async def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:
        """Add a job; the arguments of `client.add_job`."""
        return await self._equipment.client.add_job(task, payload, **options)

    # ── the turns of its life, told as events ──

    def _on_listening(self, error: BaseException | None) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_listening, error)

    def _tell_listening(self, error: BaseException | None) -> None:
        if error is None:
            self.events.emit("pool:listen:success", pool=self, client=None)
        else:
            self.events.emit("pool:listen:error", pool=self, error=error, client=None)

    def _on_signal(self, name: str) -> None:
        self._logger.info("%s: finishing what runs; again to hurry", name)
        self.events.emit("gracefulShutdown", signal=name)
        self._ask_to_stop(f"caught {name}")

    async def _release(self) -> None:
        await self._stack.aclose()

    def _on_stop(self, why: str) -> None:
        self.events.emit("pool:gracefulShutdown", pool=self, message=why)

    def _on_failure(self, error: BaseException) -> None:
        self.events.emit("pool:gracefulShutdown:error", pool=self, error=error)

    def _on_end(self) -> None:
        self._signals.remove()
        self.events.emit("pool:release", pool=self)
        self.events.emit("stop")
