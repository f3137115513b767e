"""Renewals through a server on PostgreSQL: lifelines there give up after a third of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.postgres.cluster import destroy_shared_clusters, fresh_database, shared_cluster
from tests.remote.serving import serving as serving_streams
from tests.remote.serving import token
from tests.server.rest.kit import serving
from windlass.server.calls.working import LEAST_LEASE
from windlass.server.identity import Role
from windlass.store.records import ClaimRequest, NewJob, Renewal
from windlass.stores.postgres_connections.lifeline import BoundedLifeline
from windlass.wire import calls

_USUAL = 30.0 / 3


def pytest_unconfigure() -> None:
    destroy_shared_clusters()


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database(shared_cluster(18)) as url:
        yield url


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that each renewal leaves for the next."""
    found: list[float] = []
    ask: Callable[..., Renewal] = BoundedLifeline._ask_to_renew

    def asking(line: BoundedLifeline, lease: float, *more: object) -> Renewal:
        answer = ask(line, lease, *more)
        found.append(line._limit())
        return answer

    monkeypatch.setattr(BoundedLifeline, "_ask_to_renew", asking)
    return found


def test_rest_renews_with_the_time_of_a_whole_lease(database: str, limits: list[float]) -> None:
    async def run() -> None:
        async with serving(database) as kit:
            caller = kit.caller()
            await kit.app.client.add_job("mail")
            [claim] = (await caller.post("/v1/claims", json={"lease": 60})).json()["claims"]
            for _ in range(2):
                answer = await caller.post("/v1/claims/renew", json={"leases": [claim["lease"]]})
                assert answer.json() == {"results": ["applied"], "cancel": []}
            renewer = [it.id for it in await kit.store.workers() if "renewals" in it.id]
            assert len(renewer) == 1
        assert limits and min(limits) > _USUAL - 5
        async with serving(database) as kit:
            assert not any("renewals" in it.id for it in await kit.store.workers())

    asyncio.run(run())


def test_a_worker_that_gives_up_its_lease_leaves_time_to_others(
    database: str, limits: list[float]
) -> None:
    text, known = token("w", Role.WORKER)
    with serving_streams(database, tokens={text: known}) as served:

        async def run() -> None:
            store = served.remote(text)
            await store.open()
            try:
                await store.enqueue([NewJob("t")])
                [lease] = await store.claim(ClaimRequest("w", ("t",), 1))
                line = store.lifeline()
                gone = calls.Renew(worker="gone", lease=0.0)
                await asyncio.wrap_future(store.link.call("renew", gone))
                told = await asyncio.to_thread(line.renew, "w", 30.0, [lease])
                assert told.lost == {}
                line.close()
            finally:
                await store.close()

        asyncio.run(run())
    assert min(limits) > LEAST_LEASE / 4
