"""A process of a system: `python -m benchmarks.child SYSTEM ROLE URL OPTIONS`.

It and the runner exchange lines of JSON over standard input and output; the end of the input ends
it. Times are nanoseconds of the monotonic clock, which all processes of a machine share.

    install   makes the schema and ends
    add       says {"ready": true}, then answers
              {"do": "bulk", "first": 0, "count": n, "size": m}  with {"seconds": s}
              {"do": "one", "first": 0, "seconds": s}            with {"seconds": s, "count": n}
              {"do": "stamp", "id": n}                           with {"called": t}, before the call
    work      says {"ready": true} and runs jobs; with {"stamp": true} in the options each of them
              says {"started": t, "id": n}
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from benchmarks.systems.base import Side


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def lines() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield json.loads(line)


async def add(side: Side, callers: int) -> None:
    await side.open(callers)
    say({"ready": True})
    async for command in lines():
        match command:
            case {"do": "bulk", "first": first, "count": count, "size": size}:
                since = time.perf_counter()
                await side.add_bulk(first, count, size)
                say({"seconds": time.perf_counter() - since})
            case {"do": "one", "first": first, "seconds": seconds}:
                since = time.perf_counter()
                count = await add_singly(side, first, since + seconds, callers)
                say({"seconds": time.perf_counter() - since, "count": count})
            case {"do": "stamp", "id": number}:
                called = time.monotonic_ns()
                await side.add_one(number)
                say({"called": called})
    await side.close()


async def add_singly(side: Side, first: int, until: float, callers: int) -> int:
    """How many it became."""
    numbers = itertools.count(first)

    async def caller() -> None:
        while time.perf_counter() < until:
            await side.add_one(next(numbers))

    await asyncio.gather(*(caller() for _ in range(callers)))
    return next(numbers) - first


async def work(side: Side, stamp: bool) -> None:
    def seen(number: int) -> None:
        say({"started": time.monotonic_ns(), "id": number})

    async def until_told() -> None:
        async for _ in lines():
            pass
        await side.stop()

    ending = asyncio.ensure_future(until_told())
    await side.work(seen if stamp else None, lambda: say({"ready": True}))
    ending.cancel()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """On uvloop where it is installed, for all Python systems alike."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(coroutine)


def main(module: str, role: str, url: str, text: str) -> None:
    options = json.loads(text)
    kind: type[Side] = importlib.import_module(f"benchmarks.systems.{module}").Side

    async def played() -> None:
        side = kind(url, options)
        match role:
            case "install":
                await side.install()
            case "add":
                await add(side, options.get("callers", 1))
            case "work":
                await work(side, options.get("stamp", False))

    run(played())


if __name__ == "__main__":
    main(*sys.argv[1:])
