"""A bench for the engine: an app on a memory store that can be made to fail, on virtual time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from windlass import App, Events, Job, Runner
from windlass.engine.engine import Engine, EngineOptions
from windlass.engine.object_handler import ObjectHandler
from windlass.store.port import Store
from windlass.store.records import ClaimRequest, Lease, Outcome, Settled, Verdict
from windlass.stores.memory import MemoryStore
from windlass.testing import FaultyStore, VirtualClock, run_virtual


class Ledger(MemoryStore):
    """A memory store that remembers what it was asked to settle and to claim."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.clock = clock
        self.settled: list[tuple[Lease, Outcome, Settled]] = []
        self.batches: list[int] = []
        self.claims: list[tuple[float, ClaimRequest, int]] = []
        self.held: set[int] = set()
        """Jobs that somebody's open transaction holds."""

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        leases = await super().claim(request)
        self.claims.append((self.clock.elapsed, request, len(leases)))
        return leases

    async def settle(self, settlements: Any) -> list[Settled]:
        answers = [
            Settled(Verdict.BUSY)
            if lease.job_id in self.held
            else (await super(Ledger, self).settle([(lease, outcome)]))[0]
            for lease, outcome in settlements
        ]
        self.batches.append(len(answers))
        for (lease, outcome), answer in zip(settlements, answers, strict=True):
            self.settled.append((lease, outcome, answer))
        return answers


class Bench:
    """What a test works with. `start` starts a worker; everything is stopped at the end."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ledger = Ledger(clock)
        self.store = FaultyStore(self.ledger)
        self.app = self.new_app()
        self.seen: list[Any] = []
        self._runners: list[Runner] = []
        self._workers: list[tuple[Engine, ObjectHandler]] = []

    def new_app(self, **options: Any) -> App:
        """Another app on the same store."""
        app = App("memory://", clock=self.clock, **options)
        app.store = self.store
        return app

    async def start(self, app: App | None = None, **options: Any) -> Runner:
        app = app or self.app
        app.store = self.store
        runner = await app.run(**{"handle_signals": False, **options})
        self._runners.append(runner)
        return runner

    async def start_object(
        self,
        target: Any,
        *,
        tasks: tuple[str, ...] = ("t",),
        events: Events | None = None,
        plan: dict[str, Any] | None = None,
        **options: Any,
    ) -> Engine:
        """A generic worker around a user's object."""
        around = Around(self.store, self.app)
        handler = ObjectHandler(
            target, self.store, tasks, slots=options.get("slots", 10), **(plan or {})
        )
        worker = Engine(
            handler,
            around,
            EngineOptions(**options),
            events=events,
            clock=self.clock,
            keeper_on_loop=True,
        )
        await worker.start()
        self._workers.append((worker, handler))
        return worker

    async def add(self, task: str, payload: Any = None, **options: Any) -> Job:
        return await self.app.client.add_job(task, payload, **options)

    async def get(self, job: Job) -> Job:
        found = await self.ledger.get(job.id)
        assert found is not None, f"job {job.id} is gone"
        return found

    async def gone(self, job: Job) -> bool:
        return await self.ledger.get(job.id) is None

    async def idle(self) -> None:
        """Let time pass until nothing is ready or running."""
        while True:
            counts = await self.app.client.counts()
            if counts["ready"] + counts["running"] == 0:
                return
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        for runner in self._runners:
            await runner.stop()
        for worker, handler in self._workers:
            await worker.stop()
            handler.close()
        await self.app.close()


class Around:
    """Surroundings for a generic worker."""

    def __init__(self, store: Store, app: App, worker_id: str = "generic-1") -> None:
        self.store = store
        self.producer = app.client
        self.state: Any = None
        self.loop = asyncio.get_running_loop()
        self.worker_id = worker_id
        self.logger = logging.getLogger("windlass")


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a pytest test of `async def test(bench, …fixtures)`, run on virtual time."""
    signature = inspect.signature(test)
    fixtures = list(signature.parameters.values())[1:]

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        async def body(clock: VirtualClock) -> None:
            bench = Bench(clock)
            try:
                await test(bench, **arguments)
            finally:
                await bench.close()

        run_virtual(body, timeout=4_000, patience=10)

    run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    del run.__wrapped__
    return run


async def wait_until(condition: Callable[[], bool], pause: float = 0.01) -> None:
    while not condition():
        await asyncio.sleep(pause)
