"""The App: functions become tasks, settings become a store, a client and workers.

It imports no store: `store_kinds` makes the one that the settings name.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload
from zoneinfo import ZoneInfo

import msgspec

from windlass import config
from windlass.client import Client, Portal, Preparer, SyncClient
from windlass.client.around import EnqueueMiddleware
from windlass.clock import SYSTEM, Clock
from windlass.engine.claimer import ForbiddenFlags
from windlass.engine.task_handler import Middleware
from windlass.errors import ConfigError, TaskError
from windlass.model.chain import Chain
from windlass.model.cron import CronItem, Schedule
from windlass.model.job import DEFAULT_TENANT, Job, JobSpec
from windlass.model.names import KeyMode, check_tenant
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.observe.events import Events
from windlass.observe.urls import without_password
from windlass.runner import Equipment, Runner
from windlass.store.port import Store
from windlass.store_kinds import POSTGRES, Kind, kind_of, make_store
from windlass.tasks.context import SyncContext
from windlass.tasks.decorators import CronDecorator, TaskDecorator
from windlass.tasks.folder import load_folder
from windlass.tasks.options import Executor, make_options
from windlass.tasks.registry import Registry
from windlass.tasks.schedules import Schedules
from windlass.tasks.task import Task, make_task

if TYPE_CHECKING:
    from windlass.observe.instruments import Instruments

P = ParamSpec("P")
R = TypeVar("R")

Lifespan = Callable[..., AbstractAsyncContextManager[Any]]


class App:
    """Your tasks, and where their jobs are.

    `url` and every other setting may also come from the environment (`WINDLASS_URL`, …) or from
    `windlass.toml`; the settings and their defaults are in `windlass.config.Settings`. Nothing is
    opened before it is needed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        pool: Any = None,
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        task_directory: str | os.PathLike[str] | None = None,
        middleware: Sequence[Middleware] = (),
        enqueue_middleware: Sequence[EnqueueMiddleware] = (),
        lifespan: Lifespan | None = None,
        logger: logging.Logger | None = None,
        events: Events | None = None,
        retry: Retry | None = None,
        clock: Clock = SYSTEM,
        instruments: Instruments | None = None,
        **settings: Any,
    ) -> None:
        if tasks is not None and task_directory is not None:
            raise ConfigError("give tasks or task_directory, not both")
        if url is not None and pool is not None:
            raise ConfigError("give url or pool, not both: a pool knows its database")
        self.settings = config.load({"url": url, **settings})
        self.registry = Registry()
        self.middleware = list(middleware)
        self.enqueue_middleware = list(enqueue_middleware)
        """Around each job that is added in Python, the first outermost; it may be added to."""
        self.events = events or Events()
        self.logger = logger or logging.getLogger("windlass")
        self.instruments = instruments
        """What counts the metrics of its workers; None counts none, and costs nothing."""
        self._retry = retry or DEFAULT_RETRY
        self._lifespan = lifespan
        self._clock = clock
        self._pool = pool
        self.store: Store = make_store(self.settings, clock, pool)
        self._portal = Portal()
        self._is_open = False
        self._pid = os.getpid()
        self.client = Client(
            self._opened,
            Preparer(self.registry, lambda: self.settings.max_payload),
            keep=self._keep_of,
            max_resets=lambda: self.settings.max_resets,
            chain_keeps=lambda: (self.settings.keep_chains, self.settings.keep_failed_chains),
            tenant=lambda: self.settings.tenant,
            layers=self.enqueue_middleware,
        )
        """Adds and manages jobs, async."""
        self.sync = SyncClient(self.client, self._portal)
        """The same verbs, blocking."""
        self._enqueuer = _AppEnqueuer(self.client, self.sync)
        self._schedules = Schedules(self.registry, task_directory)
        for name, function in (tasks or {}).items():
            self._register(name, function)
        if task_directory is not None:
            for task in load_folder(task_directory, self._enqueuer):
                self.registry.add(task)

    def __repr__(self) -> str:
        return f"<windlass.App {self.place} with {len(self.registry)} tasks>"

    @property
    def retry(self) -> Retry:
        """When failed attempts of tasks without a policy of their own are tried again."""
        return self._retry

    @property
    def place(self) -> str:
        """Where the jobs are, for messages and logs: never with a password."""
        if self._pool is not None:
            return f"the database of the given pool, schema {self.settings.schema}"
        return without_password(self.settings.url)

    @property
    def _kind(self) -> Kind:
        """The kind of store the jobs are in."""
        return kind_of(self.settings.url) if self._pool is None else POSTGRES

    # ── tasks ──

    @overload
    def task(self, function: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        lease: float | timedelta | None = None,
        keep: float | timedelta | None = None,
        flags: Sequence[str] | None = None,
        executor: Executor | None = None,
        strict: bool | None = None,
    ) -> TaskDecorator: ...

    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        lease: float | timedelta | None = None,
        keep: float | timedelta | None = None,
        flags: Sequence[str] | None = None,
        executor: Executor | None = None,
        strict: bool | None = None,
    ) -> Any:
        """Make a function a task; use it bare or with options.

        Arguments are the payload's keys, checked when a job is enqueued and when it runs. A
        parameter annotated `Context` is filled in.
        """
        chosen = make_options(
            queue=queue,
            priority=priority,
            flags=flags,
            max_attempts=max_attempts,
            keep=keep,
            retry=retry,
            timeout=timeout,
            lease=lease,
            executor=executor,
            strict=strict,
        )

        def decorate(function: Callable[..., Any]) -> Task[Any, Any]:
            if not callable(function):
                raise TaskError(f"@app.task goes on a function, not on {type(function).__name__}")
            if isinstance(function, Task):
                raise TaskError(
                    f"{function.name!r} is a task already; @app.cron goes above @app.task"
                )
            chosen_name = getattr(function, "__name__", None) if name is None else name
            if chosen_name is None:
                raise TaskError(f"{type(function).__name__} has no name of its own; give name=")
            task: Task[Any, Any] = make_task(
                chosen_name, function, chosen, self._enqueuer, typed=True
            )
            self.registry.add(task)
            return task

        return decorate if function is None else decorate(function)

    def cron(
        self,
        pattern: str,
        *,
        tz: str | ZoneInfo | None = None,
        id: str | None = None,
        payload: Mapping[str, Any] | None = None,
        fill: str | float | timedelta | None = None,
        fillmax: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        key: str | None = None,
        key_mode: KeyMode | None = None,
    ) -> CronDecorator:
        """Run a task by the clock: `@app.cron("0 4 * * 1", tz="Europe/Berlin")`.

        It goes above `@app.task`, and on a plain function it makes a task of it. `fill` (seconds,
        a timedelta or a phrase such as "2d") is how far back missed instants are made up for.
        Several schedules of one task need an `id` each. Workers of this app fire it.
        """
        if not isinstance(pattern, str):
            raise TaskError('@app.cron needs a pattern: @app.cron("0 4 * * *")')
        options = {
            "tz": tz,
            "id": id,
            "fill": fill,
            "fillmax": fillmax,
            "queue": queue,
            "priority": priority,
            "max": max_attempts,
            "jobKey": key,
            "jobKeyMode": key_mode,
        }

        def decorate(function: Any) -> Any:
            is_task = isinstance(function, Task)
            if is_task and self.registry.find(function.name) is not function:
                raise TaskError(f"{function.name!r} is no task of this app, so it cannot fire it")
            name = function.name if is_task else getattr(function, "__name__", "")
            # Refuse a bad schedule before there is a task: its name then stays free.
            schedule = self._schedules.make(name, pattern, options, payload) if name else None
            task = function if is_task else self.task(function)  # refuses what has no name
            if schedule is not None:
                self._schedules.add(schedule)
            return task

        return decorate

    def _register(self, name: str, function: Callable[..., Any]) -> None:
        """A function given by name is called as `function(payload, helpers)`."""
        if isinstance(function, Task):
            task: Task[Any, Any] = Task(
                name, function.function, function.options, self._enqueuer, function.style
            )
        else:
            task = make_task(name, function, make_options(), self._enqueuer, typed=False)
        self.registry.add(task)

    def _keep_of(self, task: str) -> float | None:
        found = self.registry.find(task)
        keep = None if found is None else found.options.keep
        return self.settings.keep if keep is None else keep

    @property
    def schedules(self) -> list[Schedule]:
        """The schedules that `@app.cron` declared, with their tasks' options."""
        return self._schedules.gather(None, None, [], max_payload=self.settings.max_payload)

    # ── life ──

    def configure(self, **settings: Any) -> None:
        """Change settings before the database is opened, as `windlass run -c URL` does.

        None leaves a setting as it is. Clients and tasks that were made before use the new
        settings too. Raises ConfigError once the database is open.
        """
        if self._is_open:
            raise ConfigError("the app has opened its database already; configure it earlier")
        self.settings = config.changed(self.settings, settings)
        if settings.get("url") is not None:
            self._pool = None
        self.store = make_store(self.settings, self._clock, self._pool)

    async def _opened(self) -> Store:
        if not self._is_open:
            await self.store.open()
            self._is_open = True
            self._pid = os.getpid()
        elif self._pid != os.getpid():
            raise ConfigError(
                "this app was used before the process forked, and its threads stayed behind; use"
                " it in the child only, or start processes by spawn"
            )
        return self.store

    async def open(self) -> None:
        """Open the database now. Without this call the first verb that needs it opens it."""
        await self._opened()

    async def migrate(self) -> None:
        """Create the schema or bring it up to date, also where the setting `migrate` forbids it.

        With `migrate="auto"` opening the database does the same.
        """
        if self.settings.migrate != "auto":
            settings = msgspec.structs.replace(self.settings, migrate="auto")
            store = make_store(settings, self._clock, self._pool)
            await store.open()
            await store.close()
        await self._opened()

    async def close(self) -> None:
        """Close the database and end the threads behind `app.sync`. The app can be used again."""
        was_open, self._is_open = self._is_open, False
        if self._pid != os.getpid():
            # In a forked child the threads and the file's connection belong to the parent.
            self.store = make_store(self.settings, self._clock, self._pool)
            return
        if was_open:
            await self.store.close()
        self._portal.close()

    async def __aenter__(self) -> App:
        await self._opened()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @contextmanager
    def override(self, url: str = "memory://", *, clock: Clock | None = None) -> Iterator[App]:
        """Put this app on another database for a while, an empty one in memory by default.

        `with app.override():` is for tests. Everything reached through the app (tasks, client,
        workers) uses the other store inside the block, and the app's own again afterwards.
        """
        before = self.settings, self.store, self._pool, self._is_open, self._clock
        self.settings = msgspec.structs.replace(self.settings, url=url)
        self._pool = None
        self._clock = self._clock if clock is None else clock
        self.store = make_store(self.settings, self._clock)
        self._is_open = False
        try:
            yield self
        finally:
            if self._is_open:
                self._portal.call(self.store.close())
                self._portal.close()
            self.settings, self.store, self._pool, self._is_open, self._clock = before

    # ── working ──

    async def run(
        self,
        *,
        concurrency: int | None = None,
        poll_interval: float | None = None,
        handle_signals: bool = True,
        forbidden_flags: ForbiddenFlags = None,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_jobs: int | None = None,
        once: bool = False,
        tenants: Sequence[str] | None = None,
        crontab: str | None = None,
        cron_items: Sequence[Schedule | CronItem] | None = None,
        **settings: Any,
    ) -> Runner:
        """Start working on jobs; returns as soon as the worker runs. See `Runner`.

        `only` and `exclude` name tasks, `tenants` whose jobs to run: those of the app's tenant by
        default, or of all where it has none. `once` stops when nothing is left to run, and fires no
        schedules; `max_jobs` stops after that many. Schedules come from `@app.cron` and from one
        of `crontab` (its text), `crontab_file` (its path) and `cron_items`. Other keywords are
        settings for this worker alone (`lease=`, `grace=`, …).
        """
        if settings.get("url") is not None:
            raise ConfigError("the url belongs to App(url=…), not to run()")
        for_worker = config.changed(
            self.settings,
            {"concurrency": concurrency, "poll_interval": poll_interval, **settings},
        )
        names = self._chosen_tasks(only, exclude)
        served = self._served_tenants(tenants)
        schedules = (
            []
            if once
            else self._schedules.gather(
                crontab,
                settings.get("crontab_file"),
                cron_items,
                default_file=for_worker.crontab_file,
                max_payload=for_worker.max_payload,
            )
        )
        store = await self._opened()
        runner = Runner(
            self._equipment(),
            store,
            for_worker,
            names,
            forbidden_flags=forbidden_flags,
            max_jobs=max_jobs,
            once=once,
            schedules=schedules,
            tenants=served,
        )
        await runner.start(handle_signals)
        return runner

    def _equipment(self) -> Equipment:
        return Equipment(
            registry=self.registry,
            client=self.client,
            middleware=self.middleware,
            retry=self._retry,
            lifespan=self._entered_lifespan,
            events=self.events,
            logger=self.logger,
            clock=self._clock,
            place=self.place,
            instruments=self.instruments,
        )

    @asynccontextmanager
    async def _entered_lifespan(self) -> AsyncIterator[Any]:
        if self._lifespan is None:
            yield None
            return
        takes_app = bool(inspect.signature(self._lifespan).parameters)
        async with self._lifespan(self) if takes_app else self._lifespan() as state:
            yield state

    def _chosen_tasks(self, only: Sequence[str], exclude: Sequence[str]) -> list[str]:
        for name in (*only, *exclude):
            self.registry.get(name)
        names = [n for n in self.registry.names if (not only or n in only) and n not in exclude]
        if not names:
            raise TaskError(
                "there is no task to run; declare one with @app.task, App(tasks=…) or a"
                " tasks/ folder"
            )
        return names

    def _served_tenants(self, asked: Sequence[str] | None) -> tuple[str, ...] | None:
        if asked is None:
            return None if self.settings.tenant is None else (self.settings.tenant,)
        if isinstance(asked, str) or not asked or None in asked:
            raise ConfigError(
                f"tenants must be a list of names ('' is the default tenant), not {asked!r}"
            )
        served = tuple(dict.fromkeys(check_tenant(name) or DEFAULT_TENANT for name in asked))
        own = self.settings.tenant
        if own is not None and served != (own,):
            # What handlers add by this app's client would be its tenant's, not their jobs'.
            raise ConfigError(
                f"this app is of the tenant {own!r}, so its workers serve no other; leave out"
                " tenants=, or the app's tenant"
            )
        return served

    async def run_once(self, **options: Any) -> int:
        """Run what is ready, and what it makes ready, then return how many jobs were settled."""
        runner = await self.run(once=True, **{"handle_signals": False, **options})
        try:
            await runner.wait()
        except asyncio.CancelledError:
            runner.hurry()
            await runner.stop()
            raise
        return runner.worker.completed


class _AppEnqueuer:
    """Adds the jobs of a task handle to its app's queue; payloads are checked against the task."""

    def __init__(self, client: Client, sync: SyncClient) -> None:
        self._client = client
        self._sync = sync

    async def aenqueue(self, spec: JobSpec, payloads: Iterable[Any], connection: Any) -> list[Job]:
        client = self._client if connection is None else self._client.using(connection)
        return await client.add_typed(spec, payloads)

    def enqueue(self, spec: JobSpec, payloads: Iterable[Any], connection: Any) -> list[Job]:
        sync = self._sync if connection is None else self._sync.using(connection)
        return sync.add_typed(spec, payloads)

    async def astart(self, spec: JobSpec, connection: Any) -> Chain[Any]:
        client = self._client if connection is None else self._client.using(connection)
        return await client.start_typed(spec)

    def start(self, spec: JobSpec, connection: Any) -> Chain[Any]:
        sync = self._sync if connection is None else self._sync.using(connection)
        return sync.start_typed(spec)


def look_only(app: App) -> None:
    """Call before the app is opened: it then makes and changes nothing in its database."""
    app.store = make_store(app.settings, app._clock, app._pool, look_only=True)


async def quick_add_job(
    url: str, task: str, payload: Any = None, *, schema: str | None = None, **options: Any
) -> Job:
    """Connect, add one job, close. For scripts; a program keeps an App. `schema` is the one in
    which the jobs are on PostgreSQL, where it is another than the settings say."""
    async with App(url, schema=schema) as app:
        return await app.client.add_job(task, payload, **options)
