"""The chains that a job waited for come with its claim, unless their outputs are too long."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, cast

from windlass.engine.delivery import Delivery
from windlass.engine.handler import Run
from windlass.errors import StoreBusyError, StoreUnavailableError
from windlass.model.outcome import Abandon
from windlass.store.port import ChainStore
from windlass.tasks.context import Context


def with_blockers(run: Run) -> Run:
    """A job whose blockers' outputs were too long for the claim gets them before anything that may
    look at them starts: hooks, middleware, the handler."""

    def run_with_blockers(context: Context, delivery: Delivery) -> Coroutine[Any, Any, Any]:
        lease = delivery.lease
        if lease.blockers_total and lease.blockers is None:
            return _fetch(run, context, delivery)
        return run(context, delivery)

    return run_with_blockers


async def _fetch(run: Run, context: Context, delivery: Delivery) -> Any:
    """Where the database does not answer the job is given back: its handler has not started, and no
    attempt is used."""
    store = cast(ChainStore, context._around.store)
    try:
        delivery.blockers = await store.blockers(delivery.lease.job_id)
    except (StoreUnavailableError, StoreBusyError):
        return Abandon()
    return await run(context, delivery)
