"""The process that adds jobs at a steady rate and works as operator, whatever the database does.

Each kind of request is one loop. A loop that was held up does not make up for it, so that no outage
is followed by a flood. The ledger is told what came of every request: acknowledged, unknown (the
answer was lost) or refused (nothing was stored).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.faults.ledger import record
from tests.soak.tether import end_with_parent
from windlass import App, Job, JobNotFoundError, JobNotKeptError, JobSpec, WaitTimeoutError
from windlass.errors import OutcomeUnknownError, ScheduleNotFoundError, StoreError
from windlass.model.names import KeyMode

LEDGER = os.environ.get("LEDGER", "ledger.jsonl")
FIGURES = os.environ.get("FIGURES", "figures.jsonl")
RATE = float(os.environ.get("SOAK_RATE", "1"))
"""1 is about 120 jobs a second."""

LINES = 8
KEYS = 24
MODES: tuple[KeyMode, ...] = ("replace", "preserve_run_at", "unsafe_dedupe")
LONG = 3600.0

Step = Callable[[], Awaitable[object]]


class Load:
    def __init__(self, app: App) -> None:
        self._client = app.client
        self._numbers = itertools.count(1)
        self._dice = random.Random(1)

    # ── adding ──

    async def add(self, task: str, count: int = 1, **options: Any) -> list[Job]:
        """Add jobs of one task and tell the ledger what came of it."""
        ns = [next(self._numbers) for _ in range(count)]
        payload = options.pop("payload", {})
        specs = [JobSpec(task, {"n": n, **payload}, **options) for n in ns]
        asked = {"task": task, "ns": ns}
        if "key" in options:
            asked |= {"key": options["key"], "mode": options.get("key_mode", "replace")}
        try:
            jobs = await self._client.add_jobs(specs)
        except OutcomeUnknownError:
            record(LEDGER, "unknown", **asked)
        except StoreError:
            record(LEDGER, "refused", **asked)
        else:
            record(LEDGER, "acknowledged", jobs=[job.id for job in jobs], **asked)
            return jobs
        return []

    async def add_quick(self) -> None:
        await self.add("quick", 5)

    async def start_fan_out(self) -> None:
        """A chain; what came of it is told as of a job."""
        n = next(self._numbers)
        asked = {"task": "fan_out", "ns": [n]}
        try:
            chain = await self._client.start_chain("fan_out", {"n": n})
        except OutcomeUnknownError:
            record(LEDGER, "unknown", **asked)
        except StoreError:
            record(LEDGER, "refused", **asked)
        else:
            record(LEDGER, "acknowledged", jobs=[chain.id], **asked)

    async def add_nap(self) -> None:
        await self.add("nap", payload={"seconds": self._dice.uniform(0.0, 0.1)})

    async def add_later(self) -> None:
        await self.add("later", delay=self._dice.uniform(0.1, 10.0))

    async def add_in_line(self) -> None:
        await self.add("in_line", queue=f"line {self._dice.randrange(LINES)}")

    async def add_keyed(self) -> None:
        """Under few keys, most of them for a job that is still scheduled."""
        key, mode = f"key {self._dice.randrange(KEYS)}", self._dice.choice(MODES)
        delay = self._dice.choice((None, 0.5, 3.0))
        await self.add("keyed", key=key, key_mode=mode, delay=delay)

    async def probe(self) -> None:
        payload = {"sent_at": time.monotonic()}
        await self._client.add_job("probe", payload, priority=-1)

    # ── operators ──

    async def cancel(self) -> None:
        """What is cancelled is brought back by `retry`, so that it must run all the same."""
        jobs = await self.add("later", 2, delay=30.0)
        jobs += await self.add("nap", payload={"seconds": 1.0})
        await asyncio.sleep(0.1)
        await self._client.cancel_jobs([job.id for job in jobs])

    async def retry(self) -> None:
        jobs = await self._client.list_jobs(state="cancelled")
        await self._client.retry_jobs([job.id for job in jobs])

    async def reschedule(self) -> None:
        jobs = await self._client.list_jobs(state="scheduled", task="later", limit=5)
        await self._client.reschedule_jobs([job.id for job in jobs], priority=1, attempts=0)

    async def end_idle(self) -> None:
        """Complete, fail or remove jobs that must never run."""
        ids = [job.id for job in await self.add("idle", 2, delay=LONG)]
        await self._client.complete_jobs(ids[:1])
        await self._client.permanently_fail_jobs(ids[1:], "an operator says so")
        removed = f"idle {next(self._numbers)}"
        await self.add("idle", key=removed, delay=LONG)
        await self._client.remove_job(removed)

    async def delete_failed(self) -> None:
        await self._client.cleanup("delete-failed")

    async def pause(self) -> None:
        which: dict[str, str] = self._dice.choice(({"task": "nap"}, {"queue": "line 1"}))
        await self._client.pause(**which)
        await asyncio.sleep(0.5)
        await self._client.resume(**which)

    async def look(self) -> None:
        await self._client.counts()
        await self._client.workers()
        await self._client.get_job(key="key 1")
        await self._client.list_jobs(state="running", limit=20)
        for chain in await self._client.list_chains(state="open", limit=5):
            await self._client.blocked_jobs(chain.id)

    async def wait_for(self) -> None:
        """A job's output is what its handler returned."""
        for job in await self.add("kept", keep=60.0):
            done = await self._client.wait_for(job.id, timeout=30.0)
            if done.state == "completed" and done.output != {"n": job.payload["n"]}:
                record(LEDGER, "wrong", job=job.id, output=done.output)

    async def pause_schedule(self) -> None:
        await self._client.pause_schedule("restless")
        await self._client.trigger_schedule("restless")
        await asyncio.sleep(1.0)
        await self._client.resume_schedule("restless")

    # ── life ──

    def loops(self) -> list[tuple[float, Step]]:
        """How often a second, and what."""

        def adding(task: str, **options: Any) -> Step:
            return lambda: self.add(task, **options)

        return [
            (10.0, self.add_quick),
            (8.0, self.add_nap),
            (4.0, self.add_later),
            (10.0, self.add_in_line),
            (10.0, self.add_keyed),
            (5.0, adding("effect")),
            (5.0, adding("plain_effect")),
            (2.0, self.start_fan_out),
            (3.0, adding("flaky")),
            (0.5, adding("hopeless")),
            (8.0, adding("kept")),
            (4.0, self.probe),
            (0.5, self.cancel),
            (0.3, self.retry),
            (0.3, self.reschedule),
            (0.5, self.end_idle),
            (0.1, self.delete_failed),
            (0.1, self.pause),
            (0.5, self.look),
            (0.5, self.wait_for),
            (0.05, self.pause_schedule),
        ]


async def repeat(per_second: float, step: Step, stopping: asyncio.Event) -> None:
    period = 1.0 / per_second
    due = time.monotonic() + random.uniform(0, period)
    while not stopping.is_set():
        pause = due - time.monotonic()
        if pause > 0:
            try:
                await asyncio.wait_for(stopping.wait(), pause)
                return
            except TimeoutError:
                pass
        try:
            await step()
        except (StoreError, JobNotFoundError, JobNotKeptError, WaitTimeoutError):
            pass  # an operator's verb that the database could not answer, or that came too late
        except ScheduleNotFoundError:
            pass  # no worker has told of it yet
        due = max(due + period, time.monotonic())


async def run(loops: Sequence[tuple[float, Step]], stopping: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for per_second, step in loops:
            rate = per_second * RATE if per_second >= 1 else per_second
            group.create_task(repeat(rate, step, stopping))


async def main() -> None:
    end_with_parent()
    logging.basicConfig(level="WARNING")
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with App(listen=False) as app:
        record(FIGURES, "ready")
        await run(Load(app).loops(), stopping)


if __name__ == "__main__":
    asyncio.run(main())
