"""The client for code without an event loop: every verb of `Client`, blocking."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from windlass.client.around import at_once, through
from windlass.client.client import Client
from windlass.client.portal import Portal
from windlass.client.prepare import checked_specs, specs_of
from windlass.model.chain import Chain
from windlass.model.job import Job, JobSpec
from windlass.store.records import NewChain, NewJob

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncClient, P], R]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._portal.call(method(self._client, *args, **kwargs))

    call.__doc__ = method.__doc__
    call.__name__ = call.__qualname__ = method.__name__
    return call


class SyncClient:
    """The verbs of `Client`, blocking. Get it from `app.sync`."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._client = client
        self._portal = portal

    def using(self, connection: Any) -> JoinedSyncClient:
        """Add jobs inside the transaction open on `connection`."""
        return JoinedSyncClient(self._client, self._portal, connection)

    def for_tenant(self, name: str | None) -> SyncClient:
        """The same verbs for one tenant; see `Client.for_tenant`."""
        return SyncClient(self._client.for_tenant(name), self._portal)

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
    delete_jobs = _blocking(Client.delete_jobs)
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
    start_chain = _blocking(Client.start_chain)
    start_chains = _blocking(Client.start_chains)
    start_typed = _blocking(Client.start_typed)
    get_chain = _blocking(Client.get_chain)
    list_chains = _blocking(Client.list_chains)
    chain_jobs = _blocking(Client.chain_jobs)
    blocked_jobs = _blocking(Client.blocked_jobs)
    blockers = _blocking(Client.blockers)
    wait_for_chain = _blocking(Client.wait_for_chain)
    complete_chain = _blocking(Client.complete_chain)
    cancel_chains = _blocking(Client.cancel_chains)
    retry_chains = _blocking(Client.retry_chains)
    delete_chains = _blocking(Client.delete_chains)


class JoinedSyncClient(SyncClient):
    """Adds jobs on the caller's connection, in the caller's thread."""

    def __init__(self, client: Client, portal: Portal, connection: Any) -> None:
        super().__init__(client, portal)
        self._connection = connection

    def add_jobs(self, specs: Iterable[JobSpec]) -> list[Job]:
        prepare = self._client._preparer.prepare
        if not self._client._layers:
            return self._join(prepare(specs))
        return self._through(checked_specs(specs), lambda passed: self._join(prepare(passed)))

    def add_typed(self, spec: JobSpec, payloads: Iterable[Any]) -> list[Job]:
        preparer = self._client._preparer
        if not self._client._layers:
            return self._join(preparer.prepare_typed(spec, payloads))
        return self._through(
            specs_of(spec, payloads),
            lambda passed: self._join(preparer.prepare_each_typed(passed)),
        )

    def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:
        return self.add_jobs([JobSpec(task=task, payload=payload, **options)])[0]

    def _join(self, new: Sequence[NewJob]) -> list[Job]:
        store = self._portal.call(self._client._opened())
        self._client._own_jobs(store, new)
        return store.joined(self._connection).enqueue(new) if new else []

    def start_chains(self, specs: Iterable[JobSpec]) -> list[Chain[Any]]:
        prepare = self._client._preparer.prepare_chains
        if not self._client._layers:
            return self._join_chains(prepare(specs))
        return self._through(
            checked_specs(specs), lambda passed: self._join_chains(prepare(passed))
        )

    def start_typed(self, spec: JobSpec) -> Chain[Any]:
        prepare = self._client._preparer.prepare_chain
        return self._through(
            [spec],
            lambda passed: self._join_chains([prepare(one, is_typed=True) for one in passed]),
        )[0]

    def _through(
        self, specs: Sequence[JobSpec], store: Callable[[Sequence[JobSpec]], list[R]]
    ) -> list[R]:
        """Through the enqueue middleware, in the caller's thread."""

        async def stored(passed: Sequence[JobSpec]) -> list[R]:
            return store(passed)

        return list(at_once(through(self._client._layers, specs, stored)))

    def start_chain(self, task: str, payload: Any = None, **options: Any) -> Chain[Any]:
        return self.start_chains([JobSpec(task=task, payload=payload, **options)])[0]

    def _join_chains(self, new: Sequence[NewChain]) -> list[Chain[Any]]:
        store = self._portal.call(self._client._opened())
        self._client._own_jobs(store, [chain.job for chain in new])
        return store.joined(self._connection).start_chains(new) if new else []
