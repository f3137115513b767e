"""How the fuzz tests run: the three stores side by side, and what counts as an outcome."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings

from tests.patience import PATIENCE
from windlass import App, Chain, Job, Runner
from windlass.errors import StoreError, ValidationError, WindlassError

R = TypeVar("R")

ASKED = os.environ.get("FUZZ_EXAMPLES")


def fuzz(few: int = 100) -> settings:
    """So many examples and always the same ones, or as many new ones as FUZZ_EXAMPLES says."""
    return settings(
        max_examples=int(ASKED or few),
        derandomize=ASKED is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class Complaints(logging.Handler):
    """What asyncio says of exceptions that no code looked at."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


class Site:
    """One store with a worker that runs beside the calls."""

    def __init__(self, name: str, url: str, **options: Any) -> None:
        self.name = name
        self.app = App(url, poll_interval=0.05, **options)
        self.runner: Runner
        self.loop = asyncio.Runner()

        @self.app.task(keep=60)
        async def control(n: int) -> int:
            return n

        @self.app.task
        async def typed(number: int = 0, text: str = "", rows: list[int] | None = None) -> None:
            pass

        self.control = control
        self.typed = typed

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.loop.run(work)

    def start(self) -> None:
        self.runner = self.run(self._started())

    async def _started(self) -> Runner:
        # Jobs that ran meanwhile would change the counts.
        await self.app.client.pause(task=self.typed.name)
        return await self.app.run(concurrency=2, handle_signals=False)

    async def count(self) -> dict[str, int]:
        return await self.app.client.counts()

    async def check_alive(self) -> None:
        """The worker completes a job that is added now."""
        job = await self.control.aenqueue(n=7)
        done = await self.app.client.wait_for(job.id, PATIENCE)
        assert done.output == 7, self.name

    def stop(self) -> None:
        async def ended() -> None:
            await self.runner.stop()
            await self.app.close()

        self.run(ended())
        self.loop.close()


def told(error: WindlassError) -> tuple[str, ...]:
    """What a refusal must say, and what must be the same on each store."""
    text = str(error)
    assert text and len(text) < 2_000, text
    text.encode()  # it can be shown and logged
    if isinstance(error, ValidationError):
        assert error.field
        return (type(error).__name__, error.field)
    assert not isinstance(error, StoreError), error
    return (type(error).__name__,)


def plain(answer: Any) -> Any:
    """An answer without what differs from store to store: ids and instants of now."""
    if isinstance(answer, Job):
        return (
            answer.task,
            msgspec.json.encode(answer.payload),
            answer.queue,
            answer.priority,
            answer.flags,
            answer.max_attempts,
            answer.key,
            answer.keep,
            answer.tenant,
            answer.strict,
            str(answer.state),
        )
    if isinstance(answer, Chain):
        payload, output = msgspec.json.encode(answer.payload), msgspec.json.encode(answer.output)
        kept = (answer.length, answer.key, answer.tenant, answer.deduplicated)
        return (answer.task, payload, output, str(answer.state), *kept, plain(answer.job))
    return [plain(each) for each in answer] if isinstance(answer, list) else None


async def outcome(site: Site, call: Callable[[Site], Awaitable[Any]]) -> Any:
    """Success or one refusal of the documented kind, which stored nothing."""
    before = await site.count()
    try:
        answer = await call(site)
    except WindlassError as error:
        assert await site.count() == before, f"{site.name} stored something"
        return told(error)
    return plain(answer)


def same_everywhere(sites: list[Site], call: Callable[[Site], Awaitable[Any]]) -> Any:
    """The outcome, which each store must have in common."""
    outcomes = {site.name: site.run(outcome(site, call)) for site in sites}
    first, *rest = outcomes.values()
    assert all(other == first for other in rest), outcomes
    return first


@contextmanager
def quiet_asyncio() -> Iterator[None]:
    """Nothing in it leaves a task whose exception no code looked at."""
    complaints = Complaints()
    logger = logging.getLogger("asyncio")
    logger.addHandler(complaints)
    try:
        yield
        gc.collect()
    finally:
        logger.removeHandler(complaints)
    assert complaints.heard == []
