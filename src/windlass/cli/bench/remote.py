"""What remains, through a server, of the drain, the bulk enqueue and the latency of programs that
have the database.

Only what is timed goes through the server: the database itself is filled, and asked what was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from windlass import App
from windlass.cli.bench import busy, quiet
from windlass.cli.bench.child import Orders, make_app
from windlass.cli.bench.limit import payloads
from windlass.cli.bench.run import (
    Measured,
    Meter,
    Run,
    check,
    drain,
    load,
    percentiles,
    result,
    rounds,
    timed,
)
from windlass.cli.bench.served import Served, windlass_serve
from windlass.cli.bench.site import Address
from windlass.cli.bench.stream_client import Producer
from windlass.clock import SYSTEM
from windlass.server.tokens import digest_of, make_token
from windlass.store.server import ServerStore, Token

Pair = tuple[Measured, Measured]
"""With the database, and without."""


async def remote(run: Run) -> list[dict[str, Any]]:
    """A drain by a worker elsewhere; jobs added in bulk by a client elsewhere, and by a foreign
    producer on its stream; and a job for an idle worker elsewhere."""
    drains: list[Pair] = []
    adds: list[Pair] = []
    creates: list[Pair] = []
    for _ in rounds(run, "remote"):
        drains.append((await drain(run, run.site.fresh("own")), await _drain(run)))
        direct = await _bulk(run)
        adds.append((direct, await _bulk_elsewhere(run)))
        creates.append((direct, await _create(run)))
    return [
        result("remote", drains, form="drain"),
        result("remote", adds, form="enqueue-bulk"),
        result("remote", creates, form="create"),
        await _latency(run),
    ]


async def _drain(run: Run) -> Measured:
    """The CPU is the worker's and the server's."""
    address = run.site.fresh("own")
    async with make_app(address) as app:
        await load(app, run.jobs)
        run.site.tidy(address)
        async with _served(app, address) as (served, elsewhere):
            before = served.cpu
            measured, _ = await timed(run, "work", Orders(elsewhere))
            measured = _with_server(measured, before, served.cpu)
        await check(app, 0)
    return measured


async def _bulk(run: Run) -> Measured:
    async with make_app(run.site.fresh("own")) as app:
        meter = Meter(run.site)
        await busy.add_in_batches(run, app)
        measured = meter.stop(run.jobs)
        await check(app, run.jobs)
    return measured


async def _bulk_elsewhere(run: Run) -> Measured:
    address = run.site.fresh("own")
    async with make_app(address) as app, _served(app, address) as (served, elsewhere):
        async with make_app(elsewhere) as client:
            meter, before = Meter(run.site), served.cpu
            await busy.add_in_batches(run, client)
            measured = _with_server(meter.stop(run.jobs), before, served.cpu)
        await check(app, run.jobs)
    return measured


async def _create(run: Run) -> Measured:
    address = run.site.fresh("own")
    async with make_app(address) as app, _served(app, address) as (served, elsewhere):
        with Producer(served.port, elsewhere.token or "") as producer:
            meter, before = Meter(run.site), served.cpu
            batches = [payloads(first, count) for first, count in busy.batches(run)]
            await asyncio.to_thread(producer.create, batches)
            measured = _with_server(meter.stop(run.jobs), before, served.cpu)
        await check(app, run.jobs)
    return measured


async def _latency(run: Run) -> dict[str, Any]:
    run.tell(f"remote: {run.samples} jobs for an idle worker")
    direct = await quiet.pickup(run, run.site.fresh("own"))
    address = run.site.fresh("own")
    async with make_app(address) as app, _served(app, address) as (_, elsewhere):
        found = await quiet.pickup(run, elsewhere)
    return {
        "scenario": "remote",
        "form": "latency",
        "samples": len(found),
        "ms": percentiles(found),
        "direct_ms": percentiles(direct),
    }


@asynccontextmanager
async def _served(app: App, address: Address) -> AsyncIterator[tuple[Served, Address]]:
    """A server of that place, and the place as a program with a worker's token reaches it."""
    token = make_token()
    store = cast(ServerStore, app.store)
    await store.add_token(
        Token(name="bench", digest=digest_of(token), roles=("worker",), created_at=SYSTEM.now())
    )
    async with windlass_serve(address) as served:
        url = f"grpc://127.0.0.1:{served.port}"
        yield served, Address(url, address.schema, address.synchronous, token)


def _with_server(measured: Measured, before: float | None, after: float | None) -> Measured:
    """The server's CPU, too."""
    if measured.cpu is None or before is None or after is None:
        return measured
    return replace(measured, cpu=measured.cpu + after - before)
