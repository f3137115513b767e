"""Tasks of Windlass's own: no caller can make, add or schedule one, and every caller can look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from windlass import App, CronItem, JobSpec, parse_cron_items, parse_crontab
from windlass.errors import CrontabError, TaskNameError
from windlass.store.webhooks import WEBHOOK_TASK
from windlass.tasks.options import make_options
from windlass.tasks.registry import Registry
from windlass.tasks.task import make_task

SAYS = "names that begin with 'windlass.' are for Windlass itself"


def nothing(payload: Any, helpers: Any) -> None:
    """Does nothing."""


REFUSED: dict[str, Callable[[App], Any]] = {
    "a decorated function": lambda app: app.task(name=WEBHOOK_TASK)(nothing),
    "a function given by name": lambda app: App("memory://", tasks={WEBHOOK_TASK: nothing}),
    "a job": lambda app: app.client.add_job(WEBHOOK_TASK),
    "a job of many": lambda app: app.client.add_jobs([JobSpec(task="windlass.")]),
    "a chain": lambda app: app.client.start_chain(WEBHOOK_TASK),
}


@pytest.mark.parametrize("what", REFUSED)
def test_no_caller_can_have_one(what: str) -> None:
    async def scenario() -> None:
        async with App("memory://") as app:
            with pytest.raises(TaskNameError, match=SAYS):
                await REFUSED[what](app)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "schedule",
    [
        lambda: parse_crontab(f"* * * * * {WEBHOOK_TASK}"),
        lambda: parse_cron_items([CronItem(task=WEBHOOK_TASK, pattern="* * * * *")]),
    ],
    ids=["crontab", "item"],
)
def test_no_schedule_can_add_one(schedule: Callable[[], Any]) -> None:
    with pytest.raises(CrontabError, match=SAYS):
        schedule()


def test_everyone_can_look_and_pause() -> None:
    async def scenario() -> None:
        async with App("memory://") as app:
            client = app.client
            assert await client.list_jobs(task=WEBHOOK_TASK) == []
            assert await client.list_chains(task=WEBHOOK_TASK) == []
            await client.pause(task=WEBHOOK_TASK)
            assert (await client.paused()).tasks
            await client.resume(task=WEBHOOK_TASK)

    asyncio.run(scenario())


def test_windlass_can_register_one() -> None:
    task = make_task(WEBHOOK_TASK, nothing, make_options(), typed=False, is_own=True)
    registry = Registry()
    registry.add(task)
    assert registry.get(WEBHOOK_TASK).name == WEBHOOK_TASK
