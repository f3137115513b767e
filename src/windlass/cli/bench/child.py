"""A process of the bench: `python -m windlass.cli.bench.child MODE`, told more by its environment.

It answers in JSON, one object a line. The modes `work`, `bare` and `stream` say that they are
ready, begin at the first line of standard input, and tell again and again how many jobs they have
settled until when with how much CPU; they end with their input, and so with the bench, however that
ends. All clocks are the machine's monotonic one.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from windlass import App, Context
from windlass.cli.bench.limit import open_limit
from windlass.cli.bench.limit_chains import open_chain_limit
from windlass.cli.bench.site import Address
from windlass.observe.instruments import Instruments

ENVIRONMENT = "WINDLASS_BENCH"
_TELL_EVERY = 0.005
_UNTIL_IDLE = 3.0
"""Seconds after its last job until a worker has come to rest."""
_CLAIMS_KEPT = 1_000


Form = Literal["singly", "together"]
"""How a worker on a stream speaks: message by message, or a chunk at a time."""


class StreamTarget(msgspec.Struct, frozen=True):
    """A server whose worker stream a child is to use: Windlass's, or an echo."""

    port: int
    form: Form
    open_requests: int
    is_echo: bool = False


class Orders(msgspec.Struct, frozen=True):
    """What a child is to do."""

    address: Address
    batch: int = 500
    jobs: int = 0
    """Of a stream: how many there are, so that the last one is told."""
    seconds: float = 1.0
    times_claims: bool = False
    counts_metrics: bool = False
    chains: bool = False
    stream: StreamTarget | None = None


def make_app(address: Address, *, chains: bool = False) -> App:
    """The app of every scenario, in all processes; of that of chains with tasks that go on, since
    each task that a worker has costs its claims something."""
    app = App(
        address.url,
        schema=address.schema,
        synchronous=address.synchronous,
        token=address.token,
        log_level="warning",
    )

    @app.task
    async def noop(id: int) -> None: ...

    @app.task
    async def mark(id: int) -> None:
        _say(started=time.monotonic_ns())

    if chains:
        _add_chain_tasks(app)
    return app


def _add_chain_tasks(app: App) -> None:
    @app.task
    async def link(ctx: Context, left: int) -> object:
        return ctx.continue_with(link, left=left - 1) if left else 1

    @app.task
    async def split(ctx: Context, parts: int) -> object:
        started = [ctx.start(part, id=number) for number in range(parts)]
        return ctx.continue_with(merge.using(blockers=started))

    @app.task
    async def part(id: int) -> int:
        return 1

    @app.task
    async def merge(ctx: Context) -> int:
        return sum(chain.output for chain in ctx.blockers)


async def work(orders: Orders) -> None:
    """Run no-op jobs, or `mark` jobs that tell when they started."""
    app = make_app(orders.address, chains=orders.chains)
    if orders.counts_metrics:
        app.instruments = Instruments()
    claims: list[float] = []
    if orders.times_claims:
        _time_claims(app, claims)
    async with app:
        _say(ready=True)
        await asyncio.to_thread(sys.stdin.readline)
        before = _cpu()
        runner = await app.run()
        _say(working=True)
        ending = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
        told = 0
        while not ending.done():
            if (settled := runner.worker.completed) != told:
                told = settled
                _say(settled=told, at=time.monotonic_ns(), cpu=_cpu() - before)
            await asyncio.sleep(_TELL_EVERY)
        await runner.stop()
    kept = min(_CLAIMS_KEPT, len(claims) // 2)
    _say(first_claims=claims[:kept], last_claims=claims[len(claims) - kept :])


def bare(orders: Orders) -> None:
    """The same by bare statements."""
    limit = (open_chain_limit if orders.chains else open_limit)(orders.address)
    _say(ready=True)
    _begin()
    before, settled = _cpu(), 0
    while True:
        done = limit.work(orders.batch)
        if done:
            settled += done
            _say(settled=settled, at=time.monotonic_ns(), cpu=_cpu() - before)
        else:
            time.sleep(0.0005)


def stream(orders: Orders) -> None:
    """Run no-op jobs through a server's stream."""
    from windlass.cli.bench.stream_client import connect, talk_of

    assert orders.stream is not None
    connection, talk = connect(orders.stream), talk_of(orders.stream)
    _say(ready=True)
    _begin()
    before, told = _cpu(), 0

    def tell() -> None:
        nonlocal told
        if talk.settled >= told + orders.batch or talk.settled == orders.jobs:
            told = talk.settled
            _say(settled=told, at=time.monotonic_ns(), cpu=_cpu() - before)

    connection.converse(talk, tell)


def _begin() -> None:
    """Wait for the word to begin. At the end of the input the process ends, whatever it does."""
    sys.stdin.readline()

    def end() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


async def idle(orders: Orders) -> None:
    """Do nothing for a while and tell what it cost."""
    queries = _count_queries(orders.address)
    app = make_app(orders.address)
    async with app:
        runner = await app.run()
        await app.client.add_job("noop", {"id": 1})
        await asyncio.sleep(min(_UNTIL_IDLE, orders.seconds))
        before, asked, since = _cpu(), queries[0], time.perf_counter()
        await asyncio.sleep(orders.seconds)
        passed = time.perf_counter() - since
        share, rate = (_cpu() - before) / passed, (queries[0] - asked) / passed
        _say(cpu=share, queries=rate, resident=_resident())
        await runner.stop()


async def startup(orders: Orders) -> None:
    """Open, start, stop and close, with nothing to do."""
    began = time.perf_counter()
    async with make_app(orders.address) as app:
        runner = await app.run()
        await runner.stop()
    _say(seconds=time.perf_counter() - began)


def _time_claims(app: App, taken: list[float]) -> None:
    """Note the seconds of every claim that brought jobs."""
    claim = app.store.claim

    async def timed(request: Any) -> Any:
        began = time.perf_counter()
        leases = await claim(request)
        if leases:
            taken.append(time.perf_counter() - began)
        return leases

    app.store.claim = timed  # type: ignore[method-assign]


def _count_queries(address: Address) -> list[int]:
    """A count in a list of one: statements on SQLite, waits for an answer on PostgreSQL."""
    count = [0]

    def bump(*_: object) -> None:
        count[0] += 1

    if address.url.startswith("sqlite:"):
        connect = sqlite3.connect

        def traced(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_trace_callback(bump)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]
    else:
        import psycopg

        wait = psycopg.Connection.wait

        def counted(self: Any, *args: Any, **options: Any) -> Any:
            bump()
            return wait(self, *args, **options)

        psycopg.Connection.wait = counted  # type: ignore[method-assign]
    return count


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident() -> int:
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main(mode: str) -> None:
    orders = msgspec.json.decode(os.environ.pop(ENVIRONMENT), type=Orders)
    if mode in ("bare", "stream"):
        {"bare": bare, "stream": stream}[mode](orders)
    else:
        asyncio.run({"work": work, "idle": idle, "startup": startup}[mode](orders))


if __name__ == "__main__":
    main(sys.argv[1])
