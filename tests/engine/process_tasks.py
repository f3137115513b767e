"""Tasks for the process tests, at the top of a module where a child process finds them."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from typing import Any

from windlass import Abandon, App, Completed, Context, Failed, Nack, Poison, RetryAfter, RetryAt


class Own(Exception):
    pass


def work(ctx: Context, kind: str) -> Any:
    match kind:
        case "value":
            return {"pid": os.getpid(), "attempts": ctx.job.attempts}
        case "completed":
            return Completed([1, 2])
        case "failed":
            return Failed("as told")
        case "nack":
            return Nack(3600, "later")
        case "abandon":
            return Abandon() if ctx.job.deliveries == 1 else "second time"
        case "own":
            raise Own("mine")
        case "poison":
            raise Poison("bad")
        case "retry after":
            raise RetryAfter(3600, "after")
        case "retry at":
            raise RetryAt(datetime(2099, 1, 1, tzinfo=UTC), "at")
        case "not json":
            return object()
        case "exit":
            os._exit(7)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "system exit":
            raise SystemExit(3)
        case "says":
            ctx.progress(0.5, "half")
            ctx.log("from the child")
            ctx.extend(60)
            ctx.logger.info("seen by the child's own logger")
            jobs: Any = ctx.add_job("other", {"n": 1}, priority=4)
            try:
                jobs = [jobs, ctx.add_job("other", queue="")]
            except Exception as error:
                return [jobs.task, jobs.priority, type(error).__name__, str(error)]
        case "tenants":
            of_context: Any = ctx.add_job("other")
            of_own_client = App("memory://").sync.add_job("other")
            return [ctx.job.tenant, of_context.tenant, of_own_client.tenant, os.getpid()]
        case "no database":
            said = []
            for verb in (ctx.connection, ctx.transaction):
                try:
                    verb()
                except Exception as error:
                    said.append(str(error))
            try:
                ctx.query("select 1")  # type: ignore[unused-coroutine]
            except Exception as error:
                said.append(str(error))
            return said
        case "hangs":
            while True:
                time.sleep(0.01)
    return None


async def coroutine(number: int) -> int:
    return number * 2


def items(numbers: list[int]) -> list[Any]:
    return [_one(number) for number in numbers]


def _one(number: int) -> Any:
    match number % 4:
        case 0:
            return ValueError(f"{number}")
        case 1:
            return Failed(f"{number}")
        case 2:
            return _awaited(number)
        case _:
            return number


async def _awaited(number: int) -> int:
    if number > 5:
        raise KeyError(number)
    return number


def link(ctx: Context, kind: str) -> Any:
    """A job of a chain."""
    match kind:
        case "continue":
            return ctx.continue_with("after", {"said": "by a process"}, priority=3)
        case "completed":
            return Completed(ctx.continue_with("after", {"said": "by a process"}))
        case "fan out":
            parts = [ctx.start("part", {"number": number}) for number in (1, 2)]
            last = ctx.start("part", {"number": 3}, blockers=[parts[0]])
            return ctx.continue_with("collect", blockers=[*parts, last])
        case "unused":
            ctx.continue_with("after", {"said": "never"})
            return [ctx.chain.id, ctx.chain.index, [chain.output for chain in ctx.blockers]]
        case "wrong payload":
            return ctx.continue_with("after", {"sung": 1})
        case "not json":
            return object()
        case "foreign handle":
            kept.append(ctx.start("part", {"number": 1}))
            return ctx.continue_with("after", {"said": "x"}, blockers=[kept[0]])
        case "foreign continuation":
            kept.append(ctx.continue_with("after", {"said": "x"}))
            return kept[0]
        case "in a list":
            return [ctx.continue_with("after", {"said": "x"})]
    return None


kept: list[Any] = []


def tell_trace(ctx: Context) -> str:
    """The id of the span that is current here."""
    from opentelemetry import trace

    _ = ctx.add_job("added", {"kind": "value"})
    return f"{trace.get_current_span().get_span_context().span_id:016x}"
