"""The composition root: URL → store, functions → tasks, settings → workers.

This is the only module that imports `windlass.stores`: each kind when it is first asked for, so
that no program pays for a database it does not use.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import msgspec

from windlass import config
from windlass.client import Client, Portal, Preparer, SyncClient
from windlass.clock import SYSTEM, Clock
from windlass.engine.claimer import ForbiddenFlags
from windlass.engine.engine import Engine, EngineOptions, make_worker_id
from windlass.engine.scheduler import Scheduling
from windlass.engine.signals import Signals
from windlass.engine.task_handler import Defaults, Middleware, TaskHandler
from windlass.errors import ConfigError, MissingExtraError, TaskError
from windlass.model.cron import CronItem, Schedule
from windlass.model.job import Job, JobSpec
from windlass.model.names import KeyMode
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.observe.events import Events
from windlass.observe.logs import scoped
from windlass.observe.urls import without_password
from windlass.store.port import Store
from windlass.stores.memory import MemoryStore
from windlass.tasks.context import SyncContext
from windlass.tasks.folder import load_folder
from windlass.tasks.options import Executor, make_options
from windlass.tasks.registry import Registry
from windlass.tasks.schedules import Schedules
from windlass.tasks.task import Task, make_task

if TYPE_CHECKING:
    from windlass.stores.postgres.graphile import Imported, Survey

P = ParamSpec("P")
R = TypeVar("R")

Lifespan = Callable[..., AbstractAsyncContextManager[Any]]


def make_store(
    settings: config.Settings, clock: Clock = SYSTEM, pool: Any = None, *, look_only: bool = False
) -> Store:
    """The store a URL names, or the one a psycopg pool leads to.

    With `look_only` a file stays as it is; a server's database does by the setting `migrate`.
    """
    if pool is not None:
        return _postgres(settings, clock, pool=pool)
    url = settings.url
    scheme, separator, rest = url.partition("://")
    if not separator:
        if not _DATABASE_NAME.fullmatch(url):
            raise ConfigError(
                f"{without_password(url)!r} is not a URL; use sqlite:///jobs.db, postgresql://… or memory://"
            )
        return _postgres(settings, clock, url=f"postgresql:///{url}")
    match scheme:
        case "memory":
            return MemoryStore(clock)
        case "sqlite":
            from windlass.stores.sqlite import SqliteStore

            return SqliteStore(
                _sqlite_path(url, rest),
                clock=clock,
                synchronous=settings.synchronous,
                migrate=settings.migrate,
                look_only=look_only,
            )
        case "postgresql" | "postgres":
            return _postgres(settings, clock, url=url)
        case _:
            raise ConfigError(
                f"there is no store for {scheme}:// URLs; use sqlite:///jobs.db, postgresql://…"
                " or memory://"
            )


_DATABASE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _postgres(settings: config.Settings, clock: Clock, url: str = "", pool: Any = None) -> Store:
    try:
        from windlass.stores.postgres import PostgresStore
    except ImportError as error:
        raise MissingExtraError("PostgreSQL", "postgres") from error
    return PostgresStore(
        url,
        pool=pool,
        schema_name=settings.schema,
        clock=clock,
        migrate=settings.migrate,
        max_pool_size=settings.max_pool_size,
        listen=settings.listen,
        prepared_statements=settings.prepared_statements,
    )


def look_only(app: App) -> None:
    """Let the app make and change nothing, before it is opened."""
    app.store = make_store(app.settings, app._clock, app._pool, look_only=True)


def schema_sql(settings: config.Settings) -> str:
    """The statements that make the schema of the database a URL names, without connecting."""
    store = make_store(settings)
    if isinstance(store, MemoryStore):
        raise ConfigError(f"{settings.url} has no schema to print")
    if _is_sqlite(store):
        from windlass.stores.sqlite.schema import script as sqlite_script

        return sqlite_script()
    from windlass.stores.postgres.schema import script

    return script(settings.schema)


def _is_sqlite(store: Store) -> bool:
    from windlass.stores.sqlite import SqliteStore

    return isinstance(store, SqliteStore)


async def survey_graphile(app: App, source: str, *, include_locked: bool = False) -> Survey:
    """What `import_graphile` would do; nothing is changed."""
    store = await _opened_postgres(app)
    from windlass.stores.postgres import graphile

    return await asyncio.to_thread(
        graphile.survey,
        store.connection,
        source,
        app.settings.schema,
        include_locked=include_locked,
    )


async def import_graphile(
    app: App,
    source: str,
    *,
    include_locked: bool = False,
    on_progress: Callable[[int], None] = lambda moved: None,
) -> Imported:
    """Move the jobs of the graphile-worker schema `source` into the app's own, in batches.

    When it is cancelled it ends after the batch under way.
    """
    store = await _opened_postgres(app)
    from windlass.stores.postgres import graphile

    is_stopping = threading.Event()
    moving = asyncio.to_thread(
        graphile.move,
        store.connection,
        source,
        app.settings.schema,
        include_locked=include_locked,
        on_progress=on_progress,
        is_stopping=is_stopping.is_set,
    )
    try:
        return await moving
    finally:
        is_stopping.set()


async def _opened_postgres(app: App) -> Store:
    if isinstance(app.store, MemoryStore) or _is_sqlite(app.store):
        raise ConfigError(
            f"graphile-worker's jobs are in PostgreSQL, and {app.settings.url} is not: name the"
            " database they are in, -c postgresql://…"
        )
    return await app._opened()


def _sqlite_path(url: str, rest: str) -> Path:
    if not rest.startswith("/"):
        host = rest.partition("/")[0]
        raise ConfigError(
            f"{url!r} has {host!r} where a host would be; write sqlite:///{rest}"
            f" for a relative path or sqlite:////{rest} for an absolute one"
        )
    if "?" in rest:
        raise ConfigError(f"{url!r} has parameters; write %3F for a ? in the file's name")
    path = unquote(rest[1:])
    if not path:
        raise ConfigError(f"{url!r} names no file; write sqlite:///jobs.db")
    return Path(path)


class _Around:
    """What the jobs of one worker share (`tasks.context.Surroundings`)."""

    def __init__(
        self, store: Store, client: Client, state: Any, worker_id: str, logger: logging.Logger
    ) -> None:
        self.store = store
        self.producer = client
        self.state = state
        self.loop = asyncio.get_running_loop()
        self.worker_id = worker_id
        self.logger = logger


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
        lifespan: Lifespan | None = None,
        logger: logging.Logger | None = None,
        events: Events | None = None,
        retry: Retry | None = None,
        clock: Clock = SYSTEM,
        **settings: Any,
    ) -> None:
        if tasks is not None and task_directory is not None:
            raise ConfigError("give tasks or task_directory, not both")
        if url is not None and pool is not None:
            raise ConfigError("give url or pool, not both: a pool knows its database")
        self.settings = config.load({"url": url, **settings})
        self.registry = Registry()
        self.middleware = list(middleware)
        self.events = events or Events()
        self.logger = logger or logging.getLogger("windlass")
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
    def place(self) -> str:
        """Where the jobs are, for people: never with a password."""
        if self._pool is not None:
            return f"the database of the given pool, schema {self.settings.schema}"
        return without_password(self.settings.url)

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
    ) -> _Decorator: ...

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
    ) -> _Scheduled:
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
            # Refused before the function is a task, so that it can be declared again.
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
        """Those declared by `@app.cron`, with their tasks' options."""
        return self._schedules.gather(None, None, [], max_payload=self.settings.max_payload)

    # ── life ──

    def configure(self, **settings: Any) -> None:
        """Change settings before anything is opened, as `windlass run -c URL` does; None is unset.

        Raises ConfigError once the database is open.
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
        """Open the database now; it is also done by itself when first needed."""
        await self._opened()

    async def migrate(self) -> None:
        """Create the schema or bring it up to date, whatever the setting `migrate` says.

        With `migrate="auto"` it is also done by itself when the database is first needed.
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
            # A forked child: the threads are the parent's, and so is the file's connection.
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
        workers) uses the other store inside the block; afterwards its own is back, untouched.
        """
        before = self.settings, self.store, self._is_open, self._clock
        self.settings = msgspec.structs.replace(self.settings, url=url)
        self._clock = self._clock if clock is None else clock
        self.store = make_store(self.settings, self._clock)
        self._is_open = False
        try:
            yield self
        finally:
            if self._is_open:
                self._portal.call(self.store.close())
                self._portal.close()
            self.settings, self.store, self._is_open, self._clock = before

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
        crontab: str | None = None,
        cron_items: Sequence[Schedule | CronItem] | None = None,
        **settings: Any,
    ) -> Runner:
        """Start working on jobs; returns as soon as the worker runs. See `Runner`.

        `only` and `exclude` name tasks. `once` stops when nothing is left to run, and fires no
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
            self,
            store,
            for_worker,
            names,
            forbidden_flags,
            max_jobs,
            once,
            schedules,
        )
        await runner.start(handle_signals)
        return runner

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


class _Decorator:
    """What `@app.task(…)` returns, for type checkers."""

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...

    def __call__(self, function: Any, /) -> Any: ...


class _Scheduled(Protocol):
    """What `@app.cron(…)` returns, for type checkers: a task stays as it is."""

    @overload
    def __call__(self, task: Task[P, R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class _AppEnqueuer:
    """How a task handle reaches its app's queue; typed payloads are checked."""

    def __init__(self, client: Client, sync: SyncClient) -> None:
        self._client = client
        self._sync = sync

    async def aenqueue(self, spec: JobSpec, payloads: Iterable[Any], connection: Any) -> list[Job]:
        client = self._client if connection is None else self._client.using(connection)
        return await client.add_typed(spec, payloads)

    def enqueue(self, spec: JobSpec, payloads: Iterable[Any], connection: Any) -> list[Job]:
        sync = self._sync if connection is None else self._sync.using(connection)
        return sync.add_typed(spec, payloads)


class Runner:
    """A worker at work. `stop` drains it; `wait` returns when it has ended."""

    def __init__(
        self,
        app: App,
        store: Store,
        settings: config.Settings,
        names: Sequence[str],
        forbidden_flags: ForbiddenFlags,
        max_jobs: int | None,
        once: bool,
        schedules: Sequence[Schedule],
    ) -> None:
        self.events = app.events
        self._schedules = schedules
        self.settings = settings
        self._app = app
        self._store = store
        self._options = EngineOptions(
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
        )
        self._handler = TaskHandler(
            app.registry,
            names,
            Defaults(
                retry=app._retry,
                max_attempts=settings.max_attempts,
                keep=settings.keep,
                timeout=settings.timeout,
            ),
            middleware=app.middleware,
            slots=settings.concurrency,
        )
        self._worker_id = make_worker_id(settings.worker_name)
        self._logger = scoped(app.logger, "core", worker_id=self._worker_id)
        self._stack = AsyncExitStack()
        self._signals = Signals(self._on_signal, self.hurry)
        self._loop = asyncio.get_running_loop()
        self._supervisor: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.worker: Engine
        self.handlers_left = False
        """Whether a handler still ran when the worker ended: a function in its thread, or a
        coroutine that would not be cancelled. Their jobs were handed back."""

    async def start(self, handle_signals: bool) -> None:
        self.events.emit("pool:create", pool=self)
        state = await self._stack.enter_async_context(self._lifespan())
        around = _Around(self._store, self._app.client, state, self._worker_id, self._app.logger)
        self.worker = Engine(
            self._handler,
            around,
            self._options,
            events=self.events,
            clock=self._app._clock,
            keeper_on_loop=getattr(self._app._clock, "is_virtual", False),
            listening=self._on_listening,
            scheduling=Scheduling(self._store, self._schedules),
        )
        self.events.emit("pool:listen:connecting", pool=self)
        try:
            await self.worker.start()
        except BaseException:
            self._handler.close()
            await self._stack.aclose()
            raise
        if handle_signals:
            self._signals.install()
        self._supervisor = asyncio.get_running_loop().create_task(
            self._supervise(), name="windlass-runner"
        )
        self._logger.info(
            "worker %s is looking for jobs in %s (tasks: %s)",
            self._worker_id,
            self._app.place,
            ", ".join(self.worker.tasks),
        )

    def _on_listening(self, error: BaseException | None) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_listening, error)

    def _tell_listening(self, error: BaseException | None) -> None:
        if error is None:
            self.events.emit("pool:listen:success", pool=self, client=None)
        else:
            self.events.emit("pool:listen:error", pool=self, error=error, client=None)

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[Any]:
        make = self._app._lifespan
        if make is None:
            yield None
            return
        takes_app = bool(inspect.signature(make).parameters)
        async with make(self._app) if takes_app else make() as state:
            yield state

    async def _supervise(self) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        done = asyncio.ensure_future(self.worker.done.wait())
        try:
            await asyncio.wait({stopping, done}, return_when=asyncio.FIRST_COMPLETED)
            await self.worker.drain()
            self.handlers_left = not self._handler.close() or self.worker.handlers_left
            try:
                await self._stack.aclose()
            finally:
                await self.worker.sign_off()
            if self.worker.error is not None:
                raise self.worker.error
        except BaseException as error:
            self.events.emit("pool:gracefulShutdown:error", pool=self, error=error)
            raise
        finally:
            stopping.cancel()
            done.cancel()
            self._signals.remove()
            self.events.emit("pool:release", pool=self)
            self.events.emit("stop")

    def _on_signal(self, name: str) -> None:
        self._logger.info("%s: finishing what runs; again to hurry", name)
        self.events.emit("gracefulShutdown", signal=name)
        self._begin_stop(f"caught {name}")

    def _begin_stop(self, message: str) -> None:
        if not self._stopping.is_set():
            self.events.emit("pool:gracefulShutdown", pool=self, message=message)
            self._stopping.set()

    def hurry(self) -> None:
        """Give running jobs no more time: they are stopped and handed back."""
        self._begin_stop("hurried")
        self.worker.hurry()

    async def stop(self) -> None:
        """Claim no more, hand back what has not started, let running jobs finish within `grace`,
        stop and hand back the rest. Returns when all that is done."""
        self._begin_stop("stop() was called")
        await self.wait()

    async def wait(self) -> None:
        """Return when the worker has ended; raises what ended it, if anything did."""
        if self._supervisor is not None:
            await asyncio.shield(self._supervisor)

    async def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:
        """Add a job; the arguments of `client.add_job`."""
        return await self._app.client.add_job(task, payload, **options)


async def quick_add_job(
    url: str, task: str, payload: Any = None, *, schema: str | None = None, **options: Any
) -> Job:
    """Connect, add one job, close. For scripts; a program keeps an App. `schema` is the one in
    which the jobs are on PostgreSQL, where it is another than the settings say."""
    async with App(url, schema=schema) as app:
        return await app.client.add_job(task, payload, **options)
