"""What every verb of the client needs: the store, the caller's tenant and connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

from windlass.client.around import EnqueueMiddleware
from windlass.client.prepare import Preparer
from windlass.model import names
from windlass.model.job import DEFAULT_TENANT
from windlass.store.port import Store
from windlass.store.records import NewJob
from windlass.tasks.tenancy import tenant_inside
from windlass.tasks.transaction import connection_inside


class Caller:
    """Whose calls these are, and where they go."""

    def __init__(
        self,
        opened: Callable[[], Coroutine[Any, Any, Store]],
        preparer: Preparer,
        *,
        keep: Callable[[str], float | None],
        max_resets: Callable[[], int],
        chain_keeps: Callable[[], tuple[float, float]],
        tenant: Callable[[], str | None],
        connection: Any = None,
        layers: Sequence[EnqueueMiddleware] = (),
    ) -> None:
        """`keep`, `max_resets`, `chain_keeps` (seconds for which completed chains, and others, are
        kept) and `tenant` are asked for each call, because `App.configure` may
        change what they answer. `layers` is the list of the app's enqueue middleware."""
        self._opened = opened
        self._preparer = preparer
        self._keep = keep
        self._max_resets = max_resets
        self._chain_keeps = chain_keeps
        self._tenant = tenant
        self._connection = connection
        self._layers = layers

    def using(self, connection: Any) -> Self:
        """The same verbs; jobs that are added join the transaction open on `connection`."""
        return self._with(self._tenant, connection)

    def for_tenant(self, name: str | None) -> Self:
        """The same verbs for one tenant: what is added belongs to it, nothing of another's is seen
        or changed. '' is the default tenant alone; None adds to the default one and sees all."""
        tenant = names.check_tenant(name)
        return self._with(lambda: tenant, self._connection)

    def prepare_plain(self, task: str, payload: str) -> NewJob:
        """The job of a task with this payload, which is JSON text and has been checked, as far as
        the task's own options say. For servers, whose callers are elsewhere."""
        return self._preparer.prepare_plain(task, payload)

    def _with(self, tenant: Callable[[], str | None], connection: Any) -> Self:
        return type(self)(
            self._opened,
            self._preparer,
            keep=self._keep,
            max_resets=self._max_resets,
            chain_keeps=self._chain_keeps,
            tenant=tenant,
            connection=connection,
            layers=self._layers,
        )

    def _own(self, store: Store) -> str:
        """Whose names this client means: its tenant's, else those of the tenant whose job's handler
        this is, else the default one's."""
        tenant = self._tenant()
        if tenant is None:
            tenant = tenant_inside(store)
        return DEFAULT_TENANT if tenant is None else tenant

    def _own_jobs(self, store: Store, new: Sequence[NewJob]) -> None:
        if tenant := self._own(store):
            for job in new:
                job.tenant = tenant

    def _connection_in(self, store: Store) -> Any:
        """The connection whose transaction what is added joins, if any."""
        return connection_inside(store) if self._connection is None else self._connection
