"""The worker inside a server: it does the upkeep of the database, and posts webhooks.

It is a worker like any other whose only task is `windlass.webhook`. So jobs become due, are taken
back from dead workers and are pruned wherever a server runs, also where no worker of Python does.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from windlass.app import App
from windlass.clock import Clock
from windlass.engine.engine import EngineOptions, make_worker_id
from windlass.engine.supervision import Supervision
from windlass.engine.task_handler import Defaults, TaskHandler
from windlass.observe.events import Events
from windlass.observe.instruments import Instruments
from windlass.server.service import ServedStore
from windlass.server.settings import ServeSettings
from windlass.server.webhooks.delivery import MAX_ATTEMPTS, RETRY, Poster, open_poster
from windlass.store.webhooks import WEBHOOK_TASK, EndedJob
from windlass.tasks.context import Context
from windlass.tasks.options import make_options
from windlass.tasks.registry import Registry
from windlass.tasks.task import make_task

_AT_A_TIME = 32
"""Webhooks that one process posts at a time."""


async def post_webhook(ctx: Context, url: str, job: EndedJob) -> int:
    """The task `windlass.webhook`; its output is the status of the answer."""
    poster: Poster = ctx.state
    return await poster.post(ctx.job, url, job)


class Upkeep(Supervision):
    """One such worker. `start` it, and `stop` it to drain it."""

    def __init__(
        self,
        app: App,
        store: ServedStore,
        served: ServeSettings,
        clock: Clock,
        instruments: Instruments | None = None,
    ) -> None:
        registry = Registry()
        options = make_options(retry=RETRY, max_attempts=MAX_ATTEMPTS)
        registry.add(make_task(WEBHOOK_TASK, post_webhook, options, typed=True, is_own=True))
        settings = app.settings
        super().__init__(
            store,
            TaskHandler(registry, [WEBHOOK_TASK], Defaults(), slots=_AT_A_TIME),
            EngineOptions(
                slots=_AT_A_TIME,
                lease=settings.lease,
                poll_interval=settings.poll_interval,
                reap_interval=settings.reap_interval,
                grace=served.grace,
                max_resets=settings.max_resets,
                keep_chains=settings.keep_chains,
                keep_failed_chains=settings.keep_failed_chains,
                tells_stranded=False,  # their workers may be clients that claim by REST,
            ),
            worker_id=make_worker_id(settings.worker_name),
            label="server",
            events=Events(),
            logger=app.logger,
            clock=clock,
            instruments=instruments,
        )
        self._app = app
        self._served_store = store
        self._allow = served.webhook_allow
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        poster = await self._stack.enter_async_context(
            open_poster(self._served_store, self._allow, clock=self._clock)
        )
        await self._begin(self._app.client, poster)

    async def _release(self) -> None:
        await self._stack.aclose()
