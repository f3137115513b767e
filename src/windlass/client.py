"""The client: adds jobs and manages them. `Client` is async; `SyncClient` blocks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from windlass.clock import to_datetime, to_micros
from windlass.errors import (
    ConfigError,
    InstantError,
    JobNotFoundError,
    JobNotKeptError,
    PayloadError,
    ScheduleNotFoundError,
    StoreClosedError,
    ValidationError,
    WaitTimeoutError,
)
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.cron import Schedule
from windlass.model.cron.fields import RefusedError
from windlass.model.job import Job, JobSpec, JobState
from windlass.model.outcome import clip
from windlass.store.port import Store
from windlass.store.records import JobFilter, NewJob, Paused, WorkerInfo
from windlass.store.schedules import KnownSchedule, jobs_at
from windlass.tasks.context import connection_inside
from windlass.tasks.registry import Registry

P = ParamSpec("P")
R = TypeVar("R")

Cleanup = Literal["gc-tasks", "gc-queues", "delete-failed", "prune"]
CLEANUPS: tuple[Cleanup, ...] = ("gc-tasks", "gc-queues", "delete-failed", "prune")
_BATCH = 1_000
_WAIT_FIRST = 0.01
_WAIT_LONGEST = 0.25


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the database knows it.

    `next_at` is None while it is paused, and where this machine does not know the time zone.
    `seen_at` is when a worker last started with it; whether one that has it is running now, the
    database does not know.
    """

    id: str
    task: str
    pattern: str
    tz: str
    next_at: datetime | None
    last_at: datetime | None
    paused_at: datetime | None
    known_since: datetime
    seen_at: datetime
    schedule: Schedule


class Preparer:
    """Turns what callers ask for into what stores take; every refusal happens here, before I/O."""

    def __init__(self, registry: Registry, max_payload: Callable[[], int]) -> None:
        """`max_payload` is asked for each call, because `App.configure` may change it."""
        self._registry = registry
        self._max_payload = max_payload

    def prepare(self, specs: Iterable[JobSpec]) -> list[NewJob]:
        """Jobs by name: any payload will do, known task or not."""
        limit = self._max_payload()
        if isinstance(specs, str | bytes) or not isinstance(specs, Iterable):
            raise ValidationError(
                f"specs must be a list of JobSpec, not {names.brief(specs)}", field="specs"
            )
        return [self._checked(spec)(payloads.encode(spec.payload, limit=limit)) for spec in specs]

    def prepare_typed(self, spec: JobSpec, values: Iterable[Any]) -> list[NewJob]:
        """Jobs of a task handle: one spec for all, and each payload must fit the function."""
        make = self._checked(spec)
        check = self._registry.get(spec.task).style.check
        limit = self._max_payload()
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise PayloadError(
                f"payloads must be a list of payloads, not {names.brief(values)}", field="payloads"
            )
        new = []
        encode = payloads.encode
        for value in values:
            payload = encode(value, limit=limit)
            check(payload)
            new.append(make(payload))
        return new

    def _checked(self, spec: JobSpec) -> Callable[[str], NewJob]:
        """Makes the job of a payload; all else is checked here, once, with the task's own options
        where the job says nothing."""
        if not isinstance(spec, JobSpec):
            raise ValidationError(
                f"specs must be a list of JobSpec, and {names.brief(spec)} is none", field="specs"
            )
        task = self._registry.find(names.check_task(spec.task))
        queue, priority, flags = spec.queue, spec.priority, spec.flags
        max_attempts = spec.max_attempts
        if task is not None:
            options = task.options
            max_attempts = options.max_attempts if max_attempts is None else max_attempts
            queue = options.queue if queue is None else queue
            priority = options.priority if priority is None else priority
            flags = options.flags if flags is None else flags
        if spec.run_at is not None and spec.delay is not None:
            raise InstantError("give run_at or delay, not both", field="run_at")
        name = spec.task if task is None else task.name
        queue = names.check_queue(queue)
        instant = names.check_instant(spec.run_at)
        run_at = None if instant is None else to_micros(instant)
        seconds = names.check_seconds(spec.delay, "delay")
        delay = 0 if seconds is None else round(seconds * 1e6)
        max_attempts = names.check_max_attempts(max_attempts)
        key, key_mode = names.check_key(spec.key), names.check_key_mode(spec.key_mode)
        priority = 0 if priority is None else names.check_priority(priority)
        flags = names.check_flags(flags)
        keep = names.check_seconds(spec.keep, "keep")

        def make(payload: str) -> NewJob:
            return NewJob(
                name,
                payload,
                queue,
                run_at,
                delay,
                max_attempts,
                key,
                key_mode,
                priority,
                flags,
                keep,
            )

        return make


class Client:
    """Adds jobs and manages them. Get it from `app.client`."""

    def __init__(
        self,
        opened: Callable[[], Coroutine[Any, Any, Store]],
        preparer: Preparer,
        *,
        keep: Callable[[str], float | None],
        max_resets: Callable[[], int],
        connection: Any = None,
    ) -> None:
        """`keep` and `max_resets` are asked for each call, because `App.configure` may change
        what they answer."""
        self._opened = opened
        self._preparer = preparer
        self._keep = keep
        self._max_resets = max_resets
        self._connection = connection

    def using(self, connection: Any) -> Client:
        """The same verbs; what is added joins the transaction open on `connection`."""
        return Client(
            self._opened,
            self._preparer,
            keep=self._keep,
            max_resets=self._max_resets,
            connection=connection,
        )

    # ── adding ──

    async def add_job(
        self,
        task: str,
        payload: Any = None,
        *,
        queue: str | None = None,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        max_attempts: int | None = None,
        key: str | None = None,
        key_mode: names.KeyMode = "replace",
        priority: int | None = None,
        flags: Sequence[str] | None = None,
        keep: float | timedelta | None = None,
    ) -> Job:
        """Add one job by its task's name, known here or not."""
        spec = JobSpec(
            task=task,
            payload=payload,
            queue=queue,
            run_at=run_at,
            delay=delay,
            max_attempts=max_attempts,
            key=key,
            key_mode=key_mode,
            priority=priority,
            flags=flags,
            keep=keep,
        )
        return (await self.add_jobs([spec]))[0]

    async def add_jobs(self, specs: Iterable[JobSpec]) -> list[Job]:
        """Add many jobs, all or none, in the order given. Two with one key: the last wins."""
        return await self._add(self._preparer.prepare(specs))

    async def add_typed(self, spec: JobSpec, payloads: Iterable[Any]) -> list[Job]:
        """Add one job per payload, each checked against the task's function."""
        return await self._add(self._preparer.prepare_typed(spec, payloads))

    async def _add(self, new: Sequence[NewJob]) -> list[Job]:
        store = await self._opened()
        if not new:
            return []
        connection = connection_inside(store) if self._connection is None else self._connection
        if connection is not None:
            return await store.joined(connection).aenqueue(new)
        return await store.enqueue(new)

    # ── looking ──

    async def get_job(self, id: int | None = None, *, key: str | None = None) -> Job | None:
        """One job by id or by key, or None."""
        if (id is None) == (key is None):
            raise ValidationError("give an id or a key", field="id")
        if id is not None:
            wanted = names.check_job(id)
            return await (await self._opened()).get(wanted)
        wanted_key = names.check_one_key(key)
        return await (await self._opened()).get_by_key(wanted_key)

    async def list_jobs(
        self,
        *,
        state: str | Sequence[str] | None = None,
        task: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        ids: Sequence[int] | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[Job]:
        """A page of jobs, by ascending id; pass the last id as `after` for the next page."""
        wanted = make_filter(
            state=state, task=task, queue=queue, key=key, ids=ids, after=after, limit=limit
        )
        return await (await self._opened()).find(wanted)

    async def counts(self) -> dict[str, int]:
        """How many jobs are in each state; completed ones only where they are kept."""
        counts = await (await self._opened()).counts()
        return {state.value: counts.get(state, 0) for state in JobState}

    async def workers(self) -> list[WorkerInfo]:
        return await (await self._opened()).workers()

    async def wait_for(self, id: int, timeout: float | timedelta | None = None) -> Job:
        """The job once it is finished, with its output.

        Raises JobNotKeptError at once if its outcome will not be kept, JobNotFoundError if there
        is no such job (any more), WaitTimeoutError after `timeout` seconds.
        """
        names.check_job(id)
        limit = names.check_seconds(timeout, "timeout")
        store = await self._opened()
        loop = asyncio.get_running_loop()
        deadline = None if limit is None else loop.time() + limit
        pause = _WAIT_FIRST
        while True:
            job = await store.get(id)
            if job is None:
                raise JobNotFoundError(f"there is no job {id}, or it is finished and was not kept")
            if job.state.is_final:
                return job
            if not (self._keep(job.task) if job.keep is None else job.keep):
                raise JobNotKeptError(
                    f"job {id} is not kept when it completes, so there will be nothing to wait"
                    " for; set keep= on the job, the task or the app"
                )
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0:
                raise WaitTimeoutError(f"job {id} is still {job.state} after {limit:g} s")
            await asyncio.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, _WAIT_LONGEST)

    # ── schedules ──

    async def list_schedules(self) -> list[ScheduleInfo]:
        """What the database knows of schedules, by identifier."""
        store = await self._opened()
        now = await store.now()
        return [_schedule_info(known, now) for known in await store.schedules()]

    async def pause_schedule(self, id: str) -> ScheduleInfo:
        """Fire a schedule no more, in any worker, until `resume_schedule`; it is remembered."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.pause_schedule(id))

    async def resume_schedule(self, id: str) -> ScheduleInfo:
        """Fire a schedule again; what came while it was paused is passed over."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.resume_schedule(id))

    async def remove_schedule(self, id: str) -> ScheduleInfo:
        """Forget a schedule. Workers that have it fire it no more; one that starts with it in its
        crontab makes it known anew."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.forget_schedule(id))

    async def trigger_schedule(self, id: str) -> Job:
        """Add one job of a schedule now, paused or not; its own instants stay as they are."""
        names.check_schedule(id)
        store = await self._opened()
        for known in await store.schedules():
            if known.identifier == id:
                now = await store.now()
                return (await self._add(jobs_at(known.schedule, [now], backfilled=False)))[0]
        raise _no_schedule(id)

    async def _told(self, id: str, known: KnownSchedule | None) -> ScheduleInfo:
        if known is None:
            raise _no_schedule(id)
        return _schedule_info(known, await (await self._opened()).now())

    # ── changing ──

    async def remove_job(self, key: str) -> Job | None:
        """Delete the job with that key; one that runs loses its key and will not run again."""
        names.check_one_key(key)
        return await (await self._opened()).remove(key)

    async def complete_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Mark jobs as completed without running them; running ones are skipped."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).complete(chosen)

    async def permanently_fail_jobs(
        self, ids: Sequence[int], reason: str = "Manually marked as failed"
    ) -> list[Job]:
        """Mark jobs as failed for good; running ones are skipped."""
        chosen, text = names.check_jobs(ids), clip(names.check_reason(reason))
        return await (await self._opened()).fail(chosen, text)

    async def reschedule_jobs(
        self,
        ids: Sequence[int],
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
    ) -> list[Job]:
        """Change when and how jobs run; None leaves a value as it is, zero is a value.

        A failed job stays failed unless `attempts` is given; running jobs are skipped.
        """
        chosen = names.check_jobs(ids)
        instant = names.check_instant(run_at)
        if priority is not None:
            names.check_priority(priority)
        names.check_attempts(attempts)
        names.check_max_attempts(max_attempts)
        return await (await self._opened()).reschedule(
            chosen,
            run_at=None if instant is None else to_micros(instant),
            priority=priority,
            attempts=attempts,
            max_attempts=max_attempts,
        )

    async def retry_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Run failed, cancelled and scheduled jobs now, with all their attempts."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).retry(chosen)

    async def cancel_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Cancel waiting jobs; running ones are told to stop and are cancelled when they do."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).cancel(chosen)

    async def force_unlock_workers(self, ids: Sequence[str]) -> list[Job]:
        """Treat these workers as dead now, and put their jobs back."""
        workers = names.check_workers(ids)
        return await (await self._opened()).unlock(workers, self._max_resets())

    async def pause(self, *, task: str | None = None, queue: str | None = None) -> None:
        """Stop starting jobs of a task or a queue, in every worker, until `resume`."""
        _one_of(task, queue)
        await (await self._opened()).pause(task=task, queue=queue)

    async def resume(self, *, task: str | None = None, queue: str | None = None) -> None:
        _one_of(task, queue)
        await (await self._opened()).resume(task=task, queue=queue)

    async def paused(self) -> Paused:
        return await (await self._opened()).paused()

    async def cleanup(self, *what: Cleanup) -> dict[str, int]:
        """Remove what is no longer needed; how many rows each name removed.

        `gc-tasks` and `gc-queues` have nothing to do here: names live in the jobs themselves.
        """
        for name in what:
            if not isinstance(name, str) or name not in CLEANUPS:
                raise ConfigError(
                    f"no cleanup is called {names.brief(name)}; there are: {', '.join(CLEANUPS)}"
                )
        store = await self._opened()
        removed: dict[str, int] = {}
        for name in what:
            removed[name] = 0
            verb = {"delete-failed": store.delete_failed, "prune": store.prune}.get(name)
            while verb is not None and (count := await verb(_BATCH)):
                removed[name] += count
        return removed


def _no_schedule(id: str) -> ScheduleNotFoundError:
    return ScheduleNotFoundError(
        f"no schedule is called {id!r} here; `windlass cron list` shows those that are known,"
        " which is from the first start of a worker that has it"
    )


def _schedule_info(known: KnownSchedule, now: int) -> ScheduleInfo:
    schedule = known.schedule
    next_at = None
    if known.paused_at is None:
        with contextlib.suppress(RefusedError):  # a zone that this machine does not know
            next_at = schedule.timetable.after(max(now, known.floor_at))
    return ScheduleInfo(
        id=schedule.identifier,
        task=schedule.task,
        pattern=schedule.pattern,
        tz=schedule.tz,
        next_at=_instant(next_at),
        last_at=_instant(known.last_at),
        paused_at=_instant(known.paused_at),
        known_since=to_datetime(known.known_since),
        seen_at=to_datetime(known.seen_at),
        schedule=schedule,
    )


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


def make_filter(
    *,
    state: str | Sequence[str] | None = None,
    task: str | None = None,
    queue: str | None = None,
    key: str | None = None,
    ids: Sequence[int] | None = None,
    after: int = 0,
    limit: int = 100,
) -> JobFilter:
    """The filter for these words, each checked."""
    names.check_count(limit, "limit", 1, 10_000)
    names.check_count(after, "after", 0, 2**63 - 1)
    if task is not None:
        names.check_task(task)
    names.check_queue(queue)
    names.check_key(key)
    chosen = None if state is None else _states(state)
    return JobFilter(
        states=chosen,
        task=task,
        queue=queue,
        key=key,
        ids=None if ids is None else names.check_jobs(ids),
        after=after,
        limit=limit,
    )


def _states(state: object) -> tuple[JobState, ...]:
    states = [state] if isinstance(state, str) else state
    if isinstance(states, bytes) or not isinstance(states, Iterable):
        raise ValidationError(
            f"state must be a name or a list, not {names.brief(state)}", field="state"
        )
    chosen = []
    for name in states:
        if not isinstance(name, str) or name not in set(JobState):
            raise ValidationError(
                f"{names.brief(name)} is not a state; the states are {', '.join(JobState)}",
                field="state",
            )
        chosen.append(JobState(name))
    return tuple(chosen)


def _one_of(task: str | None, queue: str | None) -> None:
    if (task is None) == (queue is None):
        raise ValidationError("give a task or a queue", field="task")
    names.check_task(task) if task is not None else names.check_queue(queue)


class Portal:
    """An event loop in a daemon thread, for callers that have none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, coroutine: Coroutine[Any, Any, R]) -> R:
        waiting = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return waiting.result()
        except concurrent.futures.CancelledError:
            raise StoreClosedError("the app was closed during this call") from None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # After a fork the thread is no longer alive, and a new one takes its place.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="windlass-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_stop_loop(), loop)
            if thread is not threading.current_thread():
                thread.join()
                loop.close()


async def _stop_loop() -> None:
    """End the running loop, but not before everybody who waits on it has been told."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=1.0) if others else None
    loop.call_soon(loop.stop)


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncClient, P], R]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._portal.call(method(self._client, *args, **kwargs))

    call.__doc__ = method.__doc__
    call.__name__ = call.__qualname__ = method.__name__
    return call


class SyncClient:
    """`Client` for code without an event loop: the same verbs, blocking. Get it from `app.sync`."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._client = client
        self._portal = portal

    def using(self, connection: Any) -> JoinedSyncClient:
        """Add jobs inside the transaction open on `connection`."""
        return JoinedSyncClient(self._client, self._portal, connection)

    add_job = _blocking(Client.add_job)
    add_jobs = _blocking(Client.add_jobs)
    add_typed = _blocking(Client.add_typed)
    get_job = _blocking(Client.get_job)
    list_jobs = _blocking(Client.list_jobs)
    counts = _blocking(Client.counts)
    workers = _blocking(Client.workers)
    wait_for = _blocking(Client.wait_for)
    remove_job = _blocking(Client.remove_job)
    complete_jobs = _blocking(Client.complete_jobs)
    permanently_fail_jobs = _blocking(Client.permanently_fail_jobs)
    reschedule_jobs = _blocking(Client.reschedule_jobs)
    retry_jobs = _blocking(Client.retry_jobs)
    cancel_jobs = _blocking(Client.cancel_jobs)
    force_unlock_workers = _blocking(Client.force_unlock_workers)
    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    paused = _blocking(Client.paused)
    cleanup = _blocking(Client.cleanup)
    list_schedules = _blocking(Client.list_schedules)
    pause_schedule = _blocking(Client.pause_schedule)
    resume_schedule = _blocking(Client.resume_schedule)
    remove_schedule = _blocking(Client.remove_schedule)
    trigger_schedule = _blocking(Client.trigger_schedule)


class JoinedSyncClient(SyncClient):
    """Adds jobs on the caller's connection, in the caller's thread."""

    def __init__(self, client: Client, portal: Portal, connection: Any) -> None:
        super().__init__(client, portal)
        self._connection = connection

    def add_jobs(self, specs: Iterable[JobSpec]) -> list[Job]:
        return self._join(self._client._preparer.prepare(specs))

    def add_typed(self, spec: JobSpec, payloads: Iterable[Any]) -> list[Job]:
        return self._join(self._client._preparer.prepare_typed(spec, payloads))

    def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:
        return self.add_jobs([JobSpec(task=task, payload=payload, **options)])[0]

    def _join(self, new: Sequence[NewJob]) -> list[Job]:
        store = self._portal.call(self._client._opened())
        return store.joined(self._connection).enqueue(new) if new else []
