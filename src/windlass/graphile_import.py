"""Move the jobs of a graphile-worker schema into an app's own, for `windlass import graphile`.

Both schemas are in one PostgreSQL database. The statements are in `stores.postgres.graphile`,
which is imported when the first call needs it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from windlass.app import App
from windlass.errors import ConfigError
from windlass.store.port import Store

if TYPE_CHECKING:
    from windlass.stores.postgres.graphile import Group, Imported, Survey

__all__ = ["Group", "Imported", "Survey", "import_graphile", "survey_graphile"]


async def survey_graphile(app: App, source: str, *, include_locked: bool = False) -> Survey:
    """What `import_graphile` would do with the schema `source`; changes nothing."""
    store = await _opened(app)
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

    `on_progress` hears how many were moved so far. A call that is cancelled ends after the batch
    under way.
    """
    store = await _opened(app)
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


async def _opened(app: App) -> Store:
    if not app._kind.is_postgres:
        raise ConfigError(
            f"graphile-worker's jobs are in PostgreSQL, and {app.place} is not: name the"
            " database they are in, -c postgresql://…"
        )
    await app.open()
    return app.store
