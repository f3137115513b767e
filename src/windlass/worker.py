"""The generic worker: a store and a handler.

    async with TableStore(url, options) as store:
        await run_all(Worker(store, handler, WorkerOptions(name="example_jobs")))

`App.run` is the same engine with the tasks of an app as its handler.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from windlass.clock import SYSTEM, Clock
from windlass.engine.engine import EngineOptions, make_worker_id
from windlass.engine.loop import Loop
from windlass.engine.object_handler import ObjectHandler
from windlass.engine.outage import Outage
from windlass.engine.reaper import Reaper
from windlass.engine.signals import Signals
from windlass.engine.supervision import Supervision
from windlass.errors import ConfigError, StoreError
from windlass.model.job import JobSpec
from windlass.model.names import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_RESETS, check_seconds, check_task
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.observe.events import Events
from windlass.observe.logs import scoped
from windlass.store.defaults import WorkDefaults
from windlass.store.port import WorkStore
from windlass.tasks.context import Context

__all__ = [
    "Handler",
    "HandlerFunction",
    "Resetter",
    "Routine",
    "Worker",
    "WorkerOptions",
    "run_all",
]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Handler(Protocol[R_contra]):
    """An object that works on records of one kind. `pre_dequeue()`, `pre_handle(ctx, record)` and
    `post_handle(ctx, record)` are optional and found by presence; any of them may be a plain
    function or `async def`."""

    def handle(self, ctx: Context, store: Any, record: R_contra, /) -> Any: ...


HandlerFunction = Callable[..., Any] | Callable[..., Awaitable[Any]]


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works. Times are seconds, or timedeltas. Where a value is None, the store's own
    default applies or, if it has none, that of `windlass.config.Settings`."""

    name: str
    """The readable part of the worker's id."""
    interval: float | timedelta = 1.0
    """How long to wait after nothing was found."""
    num_handlers: int = 1
    """Records worked on at a time."""
    tasks: Sequence[str] = ()
    """Which tasks to work on, for stores that hold jobs of many."""
    maximum_runtime_per_job: float | timedelta | None = None
    """After this long a handler is told to stop, and its record is errored."""
    num_total_jobs: int | None = None
    """End after so many records."""
    once: bool = False
    """End when nothing is left to work on now."""
    grace: float | timedelta = 25.0
    """How long a stop waits for running handlers."""
    reset_interval: float | timedelta | None = 5.0
    """How often to look for records of dead workers; None leaves that to a `Resetter`."""
    lease: float | timedelta | None = None
    """How long the worker owns a record without a sign of life. Refused where the store sets it."""
    retry: Retry | None = None
    max_attempts: int | None = None


class Worker(Supervision, Generic[R]):
    """Works on the records of a store with a handler, until it is stopped.

    The worker opens the store if it is not open, and never closes it: the caller does.
    """

    def __init__(
        self,
        store: WorkStore,
        handler: Handler[R] | HandlerFunction,
        options: WorkerOptions,
        *,
        events: Events | None = None,
        logger: logging.Logger | None = None,
        state: Any = None,
        clock: Clock = SYSTEM,
    ) -> None:
        seconds = _seconds(options)
        defaults: WorkDefaults = getattr(store, "defaults", WorkDefaults())
        tasks = tuple(options.tasks) or defaults.tasks
        if options.lease is not None and defaults.lease is not None:
            raise ConfigError("this store says itself how long a record is held; leave lease out")
        if not tasks:
            raise ConfigError("which tasks? This store holds many: WorkerOptions(tasks=[…])")
        for task in tasks:
            check_task(task)
        self.options = options
        self.id = make_worker_id(f"{options.name}-{socket.gethostname()}")
        self._state = state
        super().__init__(
            store,
            ObjectHandler(
                handler,
                store,
                tasks,
                slots=options.num_handlers,
                retry=options.retry or defaults.retry or DEFAULT_RETRY,
                max_attempts=options.max_attempts or defaults.max_attempts or DEFAULT_MAX_ATTEMPTS,
                timeout=seconds["maximum_runtime_per_job"],
            ),
            EngineOptions(
                name=options.name,
                slots=options.num_handlers,
                lease=seconds["lease"] or defaults.lease or 30.0,
                renew_every=defaults.renew_every,
                poll_interval=seconds["interval"] or 0.0,
                reap_interval=seconds["reset_interval"],
                grace=seconds["grace"] or 0.0,
                max_resets=_max_resets(defaults),
                prefetch=defaults.prefetch,
                max_jobs=options.num_total_jobs,
                once=options.once,
            ),
            worker_id=self.id,
            label="worker",
            events=events or Events(),
            logger=logger or logging.getLogger("windlass"),
            clock=clock,
        )

    async def start(self) -> None:
        """Open the store and begin; returns as soon as it works."""
        await self._store.open()
        await self._begin(_NoProducer(), self._state)
        self._logger.info("worker %s looks for records", self.id)

    async def __aenter__(self) -> Worker[R]:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def completed(self) -> int:
        """Records whose outcome was written."""
        return 0 if self._engine is None else self._engine.completed


class Resetter:
    """Takes records back from dead workers, beside or without a worker in this process.

    `interval` is in seconds. Workers do the same by default; several at once do no harm.
    """

    def __init__(
        self, store: WorkStore, interval: float = 30.0, *, logger: logging.Logger | None = None
    ) -> None:
        if not check_seconds(interval, "interval"):
            raise ConfigError("interval must be more than 0 seconds")
        self._store = store
        defaults: WorkDefaults = getattr(store, "defaults", WorkDefaults())
        self._logger = scoped(logger or logging.getLogger("windlass"), "resetter")
        self._reaper = Reaper(store, interval, _max_resets(defaults), self._logger)
        self._loop: Loop | None = None
        self._ended: asyncio.Future[None] | None = None

    async def start(self) -> None:
        await self._store.open()
        self._ended = asyncio.get_running_loop().create_future()
        self._loop = Loop(
            "resetter",
            self._reaper.step,
            outage=Outage(self._logger),
            logger=self._logger,
            on_ended=self._on_ended,
        )
        self._loop.start()

    async def stop(self) -> None:
        if self._loop is not None:
            await self._loop.stop()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def hurry(self) -> None:
        """Does nothing: a step of a Resetter is short."""

    async def wait(self) -> None:
        if self._ended is not None:
            await asyncio.shield(self._ended)

    def _on_ended(self, error: StoreError) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)


class Routine(Protocol):
    """What `run_all` runs: a Worker, a Resetter, or an object of yours with these methods."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def wait(self) -> None: ...

    def hurry(self) -> None: ...


async def run_all(*routines: Routine, handle_signals: bool = True) -> None:
    """Start routines in order, and stop all of them, the last first, when one of them ends or,
    with `handle_signals`, at SIGINT or SIGTERM. Raises what ended the first."""
    stopping = asyncio.Event()

    def on_signal(name: str) -> None:
        logging.getLogger("windlass").info("%s: finishing what runs; again to hurry", name)
        stopping.set()

    def hurry() -> None:
        for routine in routines:
            routine.hurry()

    signals = Signals(on_signal, hurry)
    started: list[Routine] = []
    waits: list[asyncio.Future[Any]] = []
    try:
        for routine in routines:
            await routine.start()
            started.append(routine)
        if handle_signals:
            signals.install()
        waits = [asyncio.ensure_future(stopping.wait())]
        waits += [asyncio.ensure_future(routine.wait()) for routine in started]
        ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in ended:
            wait.result()
    finally:
        for wait in waits:
            wait.cancel()
        try:
            await _stop_all(started)
        finally:
            signals.remove()


async def _stop_all(started: Sequence[Routine]) -> None:
    """Stop all of them, the last first. The first error of a stop is raised when all have ended."""
    errors: list[Exception] = []
    for routine in reversed(started):
        try:
            await routine.stop()
        except Exception as error:  # the others must be stopped all the same
            errors.append(error)
    if errors:
        raise errors[0]


class _NoProducer:
    """A generic worker has no queue of its own to add jobs to."""

    async def add_job(self, *args: Any, **kwargs: Any) -> Any:
        raise ConfigError(_NO_QUEUE)

    add_jobs = add_job

    def prepare_next(self, spec: JobSpec, meta: str | None = None) -> Any:
        raise ConfigError(_NO_QUEUE)

    prepare_chain = prepare_next


_NO_QUEUE = "this worker has no queue to add jobs to; use an App's client"


def _max_resets(defaults: WorkDefaults) -> int:
    return DEFAULT_MAX_RESETS if defaults.max_resets is None else defaults.max_resets


_DURATIONS = (
    "interval",
    "grace",
    "maximum_runtime_per_job",
    "reset_interval",
    "lease",
)


def _seconds(options: WorkerOptions) -> dict[str, float | None]:
    """The durations among the options, all of which are checked; each refusal names its field."""
    if not options.name:
        raise ConfigError("a worker needs a name: WorkerOptions(name=…)")
    for name in ("num_handlers", "num_total_jobs", "max_attempts"):
        value = getattr(options, name)
        if value is None and name != "num_handlers":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} must be a whole number from 1 on, not {value!r}")
    if isinstance(options.tasks, str):
        raise ConfigError(f"tasks is a list of names: [{options.tasks!r}]")
    durations = {name: check_seconds(getattr(options, name), name) for name in _DURATIONS}
    for name, seconds in durations.items():
        if seconds == 0 and name != "grace":
            raise ConfigError(f"{name} must be more than 0 seconds")
    return durations
