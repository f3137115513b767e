"""Sessions keep their plans. One that was made while the tables were vacuumed and held next to
nothing, as on an idle evening, must not cost more when a flood of jobs has come."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.postgres.cluster import Schema
from tests.postgres.test_chain_cost import (
    TABLES,
    cost_of,
    cost_of_settling,
    made,
    opened,
)
from windlass.store.records import (
    CANCEL,
    RELEASE,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.wire import array

__all__ = ["made"]  # a fixture

OTHERS = 10_000
BATCH = 50
MOST = 100
"""Entries that a job's end may read."""
OUTCOMES: dict[str, Outcome] = {
    "completed": Complete("1"),
    "kept": Complete("1", keep=60.0),
    "retried": Fail("no"),
    "failed": Fail("no", final=True),
    "released": RELEASE,
    "cancelled": CANCEL,
    "goes on": Complete(next=NewJob("after")),
}
ROLES = ("plain", "in a chain", "waited for", "waited for by one that runs all the same")
CHECK = "SELECT count(*) FROM {schema}._check(%s::bigint[], %s::bigint[], %s::bigint[])"
FILL = """
INSERT INTO {0}._jobs (task, payload, run_at, created_at, updated_at, state, chain, step)
SELECT 'other', '{{}}', now(), now(), now(),
  (CASE n % 4 WHEN 0 THEN 'ready' WHEN 1 THEN 'running' WHEN 2 THEN 'failed' ELSE 'blocked' END)
    ::{0}._job_state, 1000000000 + n, 0
FROM generate_series(1, {1}) AS n;
INSERT INTO {0}._chains (id, tenant, task, payload, created_at)
SELECT 1000000000 + n, '', 'other', '{{}}', now() FROM generate_series(1, {1}) AS n;
INSERT INTO {0}._blockers (job, place, chain)
SELECT 1000000000 + n % 2, n, 1000000000 + n FROM generate_series(1, {1}) AS n;
"""


async def _claimed(store: PostgresStore, role: str, number: int) -> list[Lease]:
    task = role.replace(" ", "-")
    if role == "plain":
        await store.enqueue([NewJob(task)] * number)
    else:
        chains = await store.start_chains([NewChain(job=NewJob(task))] * number)
        ids = tuple(chain.id for chain in chains)
        if role == "waited for":
            await store.enqueue([NewJob("waits", blockers=ids)])
        elif role != "in a chain":
            await store.enqueue([NewJob("waits", blockers=ids, on_blocker_failure="run")])
    await store.claim(ClaimRequest("w", ("nothing",), 1, lease=600.0))  # answers bells
    leases = await store.claim(ClaimRequest("w", (task,), number, lease=600.0))
    assert len(leases) == number
    return leases


@pytest.mark.parametrize("left", [0, 3], ids=["empty", "nearly empty"])
def test_a_plan_of_an_idle_evening_is_good_for_a_flood(made: Schema, left: int) -> None:
    asked = CHECK.replace("{schema}", made.name)

    async def measure() -> dict[tuple[str, str], int]:
        read = {}
        async with opened(made) as store:
            with psycopg.connect(made.url, autocommit=True) as session:
                await store.enqueue([NewJob("left")] * left)
                for table in TABLES:
                    session.execute(f"VACUUM (ANALYZE) {made.name}.{table}".encode())
                for number in (1, BATCH):
                    for role in ROLES:
                        for name, outcome in OUTCOMES.items():
                            leases = await _claimed(store, role, number)
                            values = [
                                array([lease.job_id for lease in leases]),
                                array([lease.token for lease in leases]),
                                array([lease.chain for lease in leases]),
                            ]
                            pairs = [(lease, outcome) for lease in leases]
                            with session.transaction():
                                check = cost_of(session, made, asked, values)
                                cost = cost_of_settling(session, made, pairs)
                            assert cost.scanned == check.scanned == 0
                            read[role, name] = cost.entries
                            read[role, f"{name}, checked"] = check.entries
                    if number == 1:
                        session.execute(FILL.format(made.name, OTHERS).encode(), prepare=False)
        return read

    read = asyncio.run(measure())
    most = MOST * BATCH
    assert {what: count for what, count in read.items() if count > most} == {}
