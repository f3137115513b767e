"""The verbs of the client: add jobs, look at them, change them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Unpack

from msgspec.structs import replace

from windlass.client.around import through
from windlass.client.chains import ChainVerbs
from windlass.client.filters import make_filter
from windlass.client.prepare import checked_specs, specs_of
from windlass.client.schedules import ScheduleInfo, no_schedule, schedule_info
from windlass.client.waiting import wait_until
from windlass.clock import to_micros
from windlass.errors import (
    ConfigError,
    JobNotFoundError,
    JobNotKeptError,
    ValidationError,
)
from windlass.model import names
from windlass.model.job import Job, JobOptions, JobSpec, JobState
from windlass.model.outcome import clip
from windlass.store.port import Store
from windlass.store.records import NewJob, Paused, WorkerInfo
from windlass.store.schedules import KnownSchedule, jobs_at

Cleanup = Literal["gc-tasks", "gc-queues", "delete-failed", "prune"]
CLEANUPS: tuple[Cleanup, ...] = ("gc-tasks", "gc-queues", "delete-failed", "prune")
_BATCH = 1_000


class Client(ChainVerbs):
    """Adds jobs and manages them. Get it from `app.client`."""

    # ── adding ──

    async def add_job(self, task: str, payload: Any = None, **options: Unpack[JobOptions]) -> Job:
        """Add one job by its task's name, known here or not; the options are JobSpec's fields."""
        return (await self.add_jobs([JobSpec(task=task, payload=payload, **options)]))[0]

    async def add_jobs(self, specs: Iterable[JobSpec]) -> list[Job]:
        """Add many jobs, all or none, in the order given. Two with one key: the last wins."""
        if not self._layers:
            return await self._add(self._preparer.prepare(specs))

        async def store(passed: Sequence[JobSpec]) -> list[Job]:
            return await self._add(self._preparer.prepare(passed))

        return list(await through(self._layers, checked_specs(specs), store))

    async def add_typed(self, spec: JobSpec, payloads: Iterable[Any]) -> list[Job]:
        """Add one job per payload, each checked against the task's function."""
        if not self._layers:
            return await self._add(self._preparer.prepare_typed(spec, payloads))

        async def store(passed: Sequence[JobSpec]) -> list[Job]:
            return await self._add(self._preparer.prepare_each_typed(passed))

        return list(await through(self._layers, specs_of(spec, payloads), store))

    async def prepare_jobs(self, specs: Iterable[JobSpec]) -> list[NewJob]:
        """Jobs of this client's tenant as a store takes them, checked and not added: for a server,
        which adds them under the key of their request."""
        new = self._preparer.prepare(specs)
        self._own_jobs(await self._opened(), new)
        return new

    async def _add(self, new: Sequence[NewJob]) -> list[Job]:
        store = await self._opened()
        if not new:
            return []
        self._own_jobs(store, new)
        connection = self._connection_in(store)
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
            return await (await self._opened()).get(wanted, self._tenant())
        wanted_key = names.check_one_key(key)
        store = await self._opened()
        return await store.get_by_key(wanted_key, self._own(store))

    async def list_jobs(
        self,
        *,
        state: str | Sequence[str] | None = None,
        task: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        ids: Sequence[int] | None = None,
        after: int | None = None,
        limit: int = 100,
        fingerprint: str | None = None,
    ) -> list[Job]:
        """A page of jobs, the newest first; pass the last id as `after` for the next page.

        `fingerprint` is that of the error of failed jobs: those with the same one are a group."""
        wanted = make_filter(
            state=state,
            task=task,
            queue=queue,
            key=key,
            ids=ids,
            after=after,
            limit=limit,
            fingerprint=fingerprint,
        )
        return await (await self._opened()).find(replace(wanted, tenant=self._tenant()))

    async def counts(self) -> dict[str, int]:
        """How many jobs are in each state; completed ones only where they are kept."""
        counts = await (await self._opened()).counts(self._tenant())
        return {state.value: counts.get(state, 0) for state in JobState}

    async def workers(self) -> list[WorkerInfo]:
        return await (await self._opened()).workers(self._tenant())

    async def wait_for(self, id: int, timeout: float | timedelta | None = None) -> Job:
        """The job once it is finished, with its output.

        Raises JobNotKeptError at once if its outcome will not be kept, JobNotFoundError if there
        is no such job (any more), WaitTimeoutError after `timeout` seconds.
        """
        wanted = names.check_job(id)
        names.check_seconds(timeout, "timeout")
        store = await self._opened()

        state = ""

        async def finished() -> Job | None:
            nonlocal state
            job = await store.get(wanted, self._tenant())
            if job is None:
                raise JobNotFoundError(f"there is no job {id}, or it is finished and was not kept")
            if not job.state.is_final and not self.is_kept(job):
                raise JobNotKeptError(
                    f"job {id} is not kept when it completes, so there will be nothing to wait"
                    " for; set keep= on the job, the task or the app"
                )
            state = job.state.value
            return job if job.state.is_final else None

        return await wait_until(finished, timeout, lambda: f"job {id} is still {state}")

    def is_kept(self, job: Job) -> bool:
        """Whether the job can still be read once it has completed."""
        return bool(self._keep(job.task) if job.keep is None else job.keep)

    # ── schedules ──

    async def list_schedules(self) -> list[ScheduleInfo]:
        """The schedules that the database knows, by tenant and identifier."""
        store = await self._opened()
        now = await store.now()
        return [schedule_info(known, now) for known in await store.schedules(self._tenant())]

    async def pause_schedule(self, id: str) -> ScheduleInfo:
        """Fire a schedule no more, in any worker, until `resume_schedule`; it is remembered."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.pause_schedule(id, self._own(store)))

    async def resume_schedule(self, id: str) -> ScheduleInfo:
        """Fire a schedule again; instants that passed while it was paused are skipped."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.resume_schedule(id, self._own(store)))

    async def remove_schedule(self, id: str) -> ScheduleInfo:
        """Forget a schedule. Workers that have it fire it no more; one that starts with it in its
        crontab makes it known anew."""
        names.check_schedule(id)
        store = await self._opened()
        return await self._told(id, await store.forget_schedule(id, self._own(store)))

    async def trigger_schedule(self, id: str) -> Job:
        """Add one job of a schedule now, paused or not; its own instants stay as they are."""
        names.check_schedule(id)
        store = await self._opened()
        for known in await store.schedules(self._own(store)):
            if known.identifier == id:
                now = await store.now()
                return (await self._add(jobs_at(known.schedule, [now], backfilled=False)))[0]
        raise no_schedule(id)

    async def _told(self, id: str, known: KnownSchedule | None) -> ScheduleInfo:
        if known is None:
            raise no_schedule(id)
        return schedule_info(known, await (await self._opened()).now())

    # ── changing ──

    async def remove_job(self, key: str) -> Job | None:
        """Delete the job with that key; one that runs loses its key and will not run again."""
        names.check_one_key(key)
        store = await self._opened()
        return await store.remove(key, self._own(store))

    async def complete_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Mark jobs as completed without running them; running ones are skipped."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).complete(chosen, self._tenant())

    async def permanently_fail_jobs(
        self, ids: Sequence[int], reason: str = "Manually marked as failed"
    ) -> list[Job]:
        """Mark jobs as failed for good; running ones are skipped."""
        chosen, text = names.check_jobs(ids), clip(names.check_reason(reason))
        return await (await self._opened()).fail(chosen, text, self._tenant())

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
            tenant=self._tenant(),
        )

    async def retry_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Run failed, cancelled and scheduled jobs now, with all their attempts."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).retry(chosen, self._tenant())

    async def cancel_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Cancel waiting jobs; running ones are told to stop and are cancelled when they do."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).cancel(chosen, self._tenant())

    async def delete_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Delete jobs, finished ones too; running ones and jobs of open chains are skipped. The
        answer is the jobs as they were."""
        chosen = names.check_jobs(ids)
        return await (await self._opened()).delete(chosen, self._tenant())

    async def force_unlock_workers(self, ids: Sequence[str]) -> list[Job]:
        """Treat these workers as dead now, and put their jobs back.

        ConfigError from the client of one tenant, because a worker may hold jobs of others.
        """
        workers = names.check_workers(ids)
        if self._tenant() is not None:
            raise ConfigError(
                "a worker may hold jobs of several tenants; unlock it with a client of none"
            )
        return await (await self._opened()).unlock(workers, self._max_resets())

    async def pause(self, *, task: str | None = None, queue: str | None = None) -> None:
        """Stop starting jobs of a task or a queue, in every worker, until `resume`. It is the
        tenant's task or queue, the default one's where the client has none."""
        _one_of(task, queue)
        store = await self._opened()
        await store.pause(task=task, queue=queue, tenant=self._own(store))

    async def resume(self, *, task: str | None = None, queue: str | None = None) -> None:
        _one_of(task, queue)
        store = await self._opened()
        await store.resume(task=task, queue=queue, tenant=self._own(store))

    async def paused(self) -> Paused:
        return await (await self._opened()).paused(self._tenant())

    async def cleanup(self, *what: Cleanup) -> dict[str, int]:
        """Remove rows that are no longer needed; the answer says how many each name removed.

        `gc-tasks` and `gc-queues` remove nothing: only jobs hold the names of tasks and queues.
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
            while count := await self._clean(store, name):
                removed[name] += count
        return removed

    async def _clean(self, store: Store, name: Cleanup) -> int:
        match name:
            case "delete-failed":
                return await store.delete_failed(_BATCH, self._tenant())
            case "prune":
                return await store.prune(_BATCH, *self._chain_keeps())
            case _:
                return 0


def _one_of(task: str | None, queue: str | None) -> None:
    if (task is None) == (queue is None):
        raise ValidationError("give a task or a queue", field="task")
    names.check_any_task(task) if task is not None else names.check_queue(queue)
