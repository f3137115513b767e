"""A served app in memory, and a client that calls it without a socket."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from windlass import App
from windlass.server.rest import make_app
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.tokens import digest_of, make_token
from windlass.store.records import RELEASE, ClaimRequest, Lease, Outcome, Settled
from windlass.store.server import Token


class FakeSettlements:
    def __init__(self, store: Any) -> None:
        self._store = store

    async def settle(self, lease: Lease, outcome: Outcome) -> Settled:
        return (await self.settle_all([(lease, outcome)]))[0]

    async def settle_all(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        return list(await self._store.settle(settlements))


class FakeDispatcher:
    def __init__(self, store: Any, settlements: Any) -> None:
        self._store, self._settlements = store, settlements
        self.wants: dict[Any, None] = {}
        self._hinted = asyncio.Event()
        self.task = asyncio.create_task(self._run())
        loop = asyncio.get_running_loop()
        self._stop = store.subscribe(lambda: loop.call_soon_threadsafe(self._hinted.set))

    def add(self, want: Any) -> None:
        self.wants[want] = None
        self._hinted.set()

    def remove(self, want: Any) -> None:
        self.wants.pop(want, None)

    async def _run(self) -> None:
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            for want in list(self.wants):
                request = ClaimRequest(
                    want.worker,
                    want.scope.tasks,
                    want.count,
                    want.scope.tenants,
                    lease=want.lease,
                    suspects=1,
                )
                leases = await self._store.claim(request)
                if leases and want in self.wants and want.can_take():
                    del self.wants[want]
                    want.give(leases)
                else:
                    await self._settlements.settle_all([(lease, RELEASE) for lease in leases])

    async def close(self) -> None:
        self._stop()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class FakeDeliveries:
    def seal(self, lease: Lease) -> bytes:
        raw = msgspec.msgpack.encode(lease)
        return hmac.digest(b"key", raw, "sha256") + raw

    def open(self, delivery: bytes, tenant: str | None) -> Lease | None:
        code, raw = delivery[:32], delivery[32:]
        if not hmac.compare_digest(code, hmac.digest(b"key", raw, "sha256")):
            return None
        lease = msgspec.msgpack.decode(raw, type=Lease)
        return lease if tenant is None or lease.tenant == tenant else None
