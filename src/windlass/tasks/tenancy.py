"""The tenant of the job that a handler runs: what the handler adds belongs to that tenant too."""

from __future__ import annotations

from contextvars import ContextVar

from windlass.store.port import WorkStore

_of_job: ContextVar[tuple[WorkStore | None, str] | None] = ContextVar(
    "windlass_tenant", default=None
)


def inherit_tenant(store: WorkStore | None, tenant: str) -> None:
    """From here on in this context, jobs added to `store` belong to `tenant`. In a child process,
    which opens a store of its own, `store` is None and every store counts."""
    _of_job.set((store, tenant))


def tenant_inside(store: WorkStore) -> str | None:
    """The tenant of the job whose handler this code runs in, if that job is of `store`."""
    found = _of_job.get()
    return found[1] if found is not None and found[0] in (None, store) else None
