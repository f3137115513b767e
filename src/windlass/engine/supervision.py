"""The life of one worker: its engine is started, watched, drained and signed off.

`Runner` (the tasks of an app) and `Worker` (any store, any handler) are both a `Supervision`. A
worker ends when it is asked to stop, when its engine is done (`once`, `max_jobs`), or when the
store refuses it. In each case it ends in this order:

1. *drain*: claim no more, let running jobs finish within `grace`, stop and hand back the rest;
2. close the handler: let go of its threads and processes;
3. `_release`: what the subclass opened for its jobs is closed;
4. *sign off*: end the lease. This is last, because the jobs of handlers that would not stop may
   begin elsewhere at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from windlass.clock import Clock
from windlass.engine.engine import Engine, EngineOptions
from windlass.engine.handler import EngineHandler
from windlass.engine.scheduler import Scheduling
from windlass.observe.events import Events
from windlass.observe.logs import Scoped, scoped
from windlass.store.port import Listening, WorkStore
from windlass.tasks.context import Producer

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments


class ClosableHandler(EngineHandler, Protocol):
    def close(self) -> bool:
        """Let go of threads and processes; False if a thread is still busy."""


class Around:
    """What the jobs of one worker share (`tasks.context.Surroundings`)."""

    def __init__(
        self,
        store: WorkStore,
        producer: Producer,
        state: Any,
        worker_id: str,
        logger: logging.Logger,
    ) -> None:
        self.store = store
        self.producer = producer
        self.state = state
        self.loop = asyncio.get_running_loop()
        self.worker_id = worker_id
        self.logger = logger


class Supervision:
    """One worker. A subclass calls `_begin`, and adds what it does at the turns of its life."""

    def __init__(
        self,
        store: WorkStore,
        handler: ClosableHandler,
        options: EngineOptions,
        *,
        worker_id: str,
        label: str,
        events: Events,
        logger: logging.Logger,
        clock: Clock,
        instruments: Instruments | None = None,
    ) -> None:
        """`label` is the field of that name in this worker's log records."""
        self.events = events
        self._store = store
        self._handler = handler
        self._engine_options = options
        self._worker_id = worker_id
        self._root_logger = logger
        self._logger: Scoped = scoped(logger, label, worker_id=worker_id)
        self._clock = clock
        self._instruments = instruments
        self._engine: Engine | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._handlers_left = False
        """Whether a handler still ran when the worker ended."""

    # ── what a subclass adds ──

    async def _release(self) -> None:
        """Close what the jobs used; also called where the engine could not start."""

    def _on_stop(self, why: str) -> None:
        """The worker was asked to stop; called once."""

    def _on_failure(self, error: BaseException) -> None:
        """The worker ends with an error, which `wait` raises."""

    def _on_end(self) -> None:
        """The worker has ended."""

    # ── life ──

    async def _begin(
        self,
        producer: Producer,
        state: Any,
        *,
        listening: Listening = lambda error: None,
        scheduling: Scheduling | None = None,
    ) -> Engine:
        """Start the engine, and watch over it from now on."""
        around = Around(self._store, producer, state, self._worker_id, self._root_logger)
        try:
            engine = self._engine = Engine(
                self._handler,
                around,
                self._engine_options,
                events=self.events,
                clock=self._clock,
                keeper_on_loop=getattr(self._clock, "is_virtual", False),
                listening=listening,
                scheduling=scheduling,
                instruments=self._instruments,
            )
            await engine.start()
        except BaseException:
            self._handler.close()
            await self._release()
            raise
        self._supervisor = around.loop.create_task(
            self._supervise(engine), name="windlass-supervision"
        )
        return engine

    async def _supervise(self, engine: Engine) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        done = asyncio.ensure_future(engine.done.wait())
        try:
            await asyncio.wait({stopping, done}, return_when=asyncio.FIRST_COMPLETED)
            await engine.drain()
            self._handlers_left = not self._handler.close() or engine.handlers_left
            try:
                await self._release()
            finally:
                await engine.sign_off()
            if engine.error is not None:
                raise engine.error
        except BaseException as error:
            self._on_failure(error)
            raise
        finally:
            stopping.cancel()
            done.cancel()
            self._on_end()

    def _ask_to_stop(self, why: str) -> None:
        if not self._stopping.is_set():
            self._on_stop(why)
            self._stopping.set()

    def hurry(self) -> None:
        """Give running jobs no more time: they are stopped and handed back."""
        self._ask_to_stop("hurried")
        if self._engine is not None:
            self._engine.hurry()

    async def stop(self) -> None:
        """Claim no more, hand back what has not started, let running jobs finish within `grace`,
        stop and hand back the rest. Returns when all that is done."""
        self._ask_to_stop("stop() was called")
        await self.wait()

    async def wait(self) -> None:
        """Return when the worker has ended; raises what ended it, if anything did."""
        if self._supervisor is not None:
            await asyncio.shield(self._supervisor)
