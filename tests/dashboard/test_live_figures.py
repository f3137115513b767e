"""Server-sent events: one look for all who watch, and an end for those who may watch no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.dashboard.kit import Dashboard, shown
from tests.server.rest.kit import counted
from windlass.errors import StoreUnavailableError
from windlass.server.access import ANONYMOUS
from windlass.server.dashboard.figures import Looks
from windlass.server.dashboard.live import LONGEST_SILENCE, Watchers
from windlass.server.identity import Identity, Role


def watchers(kit: Dashboard) -> Watchers:
    return Watchers(kit.service, Looks(kit.service))


def read(event: bytes) -> tuple[str, Any]:
    name, data = event.decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def told(events: AsyncIterator[bytes]) -> tuple[str, Any]:
    return read(await anext(events))


def test_numbers_are_told_when_they_change_and_now_and_then() -> None:
    async def check(kit: Dashboard) -> None:
        events = watchers(kit).events(ANONYMOUS)
        assert (await anext(events)).startswith(b"retry:")
        name, figures = await told(events)
        assert (name, figures["ready"]) == ("figures", {"count": 0, "estimate": False})
        await kit.app.client.add_job("mail")
        began = kit.clock.monotonic()
        name, figures = await told(events)
        assert figures["ready"]["count"] == 1
        assert kit.clock.monotonic() - began < 2
        began = kit.clock.monotonic()
        assert await told(events) == (name, figures)
        assert kit.clock.monotonic() - began >= LONGEST_SILENCE
        await events.aclose()  # type: ignore[attr-defined]

    shown(check)


def test_many_pages_cost_one_look_a_second() -> None:
    async def check(kit: Dashboard) -> None:
        shared = watchers(kit)
        looks = counted(kit.store, "depths")
        pages = [shared.events(ANONYMOUS) for _ in range(20)]
        for page in pages:
            await anext(page)
        await asyncio.gather(*(told(page) for page in pages))
        assert len(looks) == 1
        await kit.app.client.add_job("mail")
        await asyncio.gather(*(told(page) for page in pages))
        assert len(looks) == 2
        for page in pages:
            await page.aclose()  # type: ignore[attr-defined]

    shown(check)


def test_a_tenant_is_told_its_own_numbers() -> None:
    async def check(kit: Dashboard) -> None:
        await kit.app.client.for_tenant("zeus").add_job("mail")
        identity = Identity(name="t", roles=frozenset({Role.OPERATOR}), tenant="acme")
        events = watchers(kit).events(identity)
        await anext(events)
        _, figures = await told(events)
        assert figures["ready"]["count"] == 0
        await events.aclose()  # type: ignore[attr-defined]

    shown(check)


def test_a_database_that_is_away_is_told_and_come_back_to() -> None:
    async def check(kit: Dashboard) -> None:
        events = watchers(kit).events(ANONYMOUS)
        await anext(events)
        whole = kit.store.depths

        async def away(**words: Any) -> Any:
            raise StoreUnavailableError("away")

        kit.store.depths = away
        assert (await told(events))[0] == "trouble"
        kit.store.depths = whole
        assert (await told(events))[0] == "figures"
        await events.aclose()  # type: ignore[attr-defined]

    shown(check)


def test_events_end_with_the_server_and_with_the_token() -> None:
    async def check(kit: Dashboard) -> None:
        shared = watchers(kit)
        text = await kit.token("operator")
        identity = await kit.service.access.identify(text, peer=None)  # type: ignore[arg-type]
        signed_in, other = shared.events(identity), shared.events(ANONYMOUS)
        for page in (signed_in, other):
            await anext(page)
            await told(page)
        [known] = await kit.store.tokens()
        await kit.store.revoke_token(known.name)
        while (await told(signed_in))[0] != "ended":
            pass
        assert [event async for event in signed_in] == []
        kit.service.draining.set()
        while (await told(other))[0] != "ended":
            pass
        assert [event async for event in other] == []

    shown(check)
