"""What this store does by itself about tenants and strict jobs: parking, and a claim's branches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.sqlite_kit import opened, plain, run, take
from windlass.store.records import COMPLETE, NewJob
from windlass.stores.sqlite import SqliteStore

A = "acme"


def check(path: Path, scenario: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def work() -> None:
        async with opened(path / "jobs.db") as store:
            await scenario(store)

    run(work())


async def add(store: SqliteStore, task: str = "t", **options: Any) -> int:
    [job] = await store.enqueue([NewJob(task, **options)])
    return job.id


async def taken(store: SqliteStore, **options: Any) -> list[int]:
    return [lease.job_id for lease in await take(store, **options)]


def states(path: Path) -> dict[int, str]:
    with closing(plain(path / "jobs.db")) as connection:
        return dict(connection.execute("SELECT id, state FROM windlass_jobs"))


# ── parking ──


@pytest.mark.parametrize(
    "options", [{}, {"forbidden_flags": ("f",)}, {"past_heads": True}, {"tasks": None}], ids=str
)
def test_a_claim_for_all_tenants_parks_what_it_meets(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async def scenario(store: SqliteStore) -> None:
        parked = await add(store, tenant=A, priority=-1)
        free = await add(store, tenant="bond")
        unmet = await add(store, "x", tenant=A)
        await store.pause(task="t", tenant=A)
        await store.pause(task="x", tenant=A)
        assert await taken(store, limit=10, **options) == [free]
        assert states(tmp_path)[parked] == "waiting"
        assert (states(tmp_path)[unmet] == "waiting") == ("tasks" in options)
        assert await taken(store, limit=10, **options) == []
        await store.resume(task="t", tenant=A)
        assert await taken(store, limit=10, **options) == [parked]

    check(tmp_path, scenario)


def test_a_claim_that_names_the_tenant_parks_nothing(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        job = await add(store, tenant=A)
        await store.pause(task="t", tenant=A)
        assert await taken(store, tenants=(A,)) == []
        assert states(tmp_path) == {job: "ready"}

    check(tmp_path, scenario)


def test_the_default_tenants_jobs_are_not_parked(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        job = await add(store)
        await add(store, tenant=A)
        await store.pause(task="t")
        await store.pause(task="t", tenant=A)
        assert await taken(store) == []
        assert states(tmp_path)[job] == "ready"

    check(tmp_path, scenario)


def test_behind_a_parked_head_others_run(tmp_path: Path) -> None:
    """They are found by a look behind heads, and the head comes first again after its pause."""

    async def scenario(store: SqliteStore) -> None:
        head = await add(store, tenant=A, queue="q")
        behind = [await add(store, "u", tenant=A, queue="q") for _ in range(2)]
        await store.pause(task="t", tenant=A)
        [lease] = await take(store, past_heads=True)
        assert lease.job_id == behind[0]
        assert await taken(store, past_heads=True) == [], "one of a queue at a time"
        await store.settle([(lease, COMPLETE)])
        assert await taken(store) == [], "the next head is paused too"
        await store.resume(task="t", tenant=A)
        assert await taken(store) == [head]

    check(tmp_path, scenario)


def test_a_paused_queue_stays_so_when_its_head_is_parked(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        head = await add(store, tenant=A, queue="q")
        await add(store, "u", tenant=A, queue="q")
        await store.pause(task="t", tenant=A)
        assert await taken(store) == []
        await store.pause(queue="q", tenant=A)
        assert await taken(store, past_heads=True) == []
        await store.resume(task="t", tenant=A)
        assert await taken(store, past_heads=True) == []
        await store.resume(queue="q", tenant=A)
        assert await taken(store) == [head]

    check(tmp_path, scenario)


def test_an_idle_worker_writes_nothing_beside_parked_jobs(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        for queue in (None, "q", "q", "r"):
            await add(store, tenant=A, queue=queue)
        await add(store, "other", tenant=A, queue="s")
        await add(store, tenant=A, queue="s")
        await store.pause(task="t", tenant=A)
        assert await taken(store, past_heads=True) == []
        commits = store.commits
        for _ in range(3):
            assert await taken(store, past_heads=True) == []
        assert store.commits == commits

    check(tmp_path, scenario)


# ── branches ──


def test_the_best_of_more_tasks_than_one_statement_reads(tmp_path: Path) -> None:
    tasks = tuple(f"t{n:02}" for n in range(70))

    async def scenario(store: SqliteStore) -> None:
        jobs = await store.enqueue(
            [NewJob(task, priority=n) for n, task in enumerate(tasks)]
            + [NewJob(task, priority=1_000) for task in tasks]
        )
        assert await taken(store, tasks=tasks, limit=66) == [job.id for job in jobs[:66]]

    check(tmp_path, scenario)


def test_the_best_of_many_tenants(tmp_path: Path) -> None:
    tenants = ("", *(f"tenant-{n:03}" for n in range(99)))

    async def scenario(store: SqliteStore) -> None:
        jobs = await store.enqueue(
            [NewJob("t", priority=n, tenant=tenant) for n, tenant in enumerate(tenants)]
            + [NewJob("u", priority=1_000, tenant=tenant) for tenant in tenants]
        )
        wanted = [job.id for job in jobs[:80]]
        assert await taken(store, tenants=tenants[::-1], limit=80) == wanted

    check(tmp_path, scenario)


# ── strict jobs ──


def test_of_two_jobs_that_hold_a_queue_the_better_one_goes_first(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        better = await add(store, queue="q", is_strict=1, priority=1)
        worse = await add(store, queue="q", is_strict=1, priority=2)
        await add(store, queue="q")
        await store.fail([better, worse], "no")
        await store.retry([worse])
        await store.retry([better])
        [lease] = await take(store)
        assert lease.job_id == better
        await store.settle([(lease, COMPLETE)])
        assert await taken(store) == [worse]

    check(tmp_path, scenario)


def test_past_a_head_that_holds_only_what_holds_too(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        head = await add(store, "other", queue="q", is_strict=1)
        holder = await add(store, queue="q", is_strict=1, priority=9)
        await add(store, queue="q")
        await store.fail([head, holder], "no")
        await store.retry([head])
        assert await taken(store, past_heads=True) == []
        await store.retry([holder])
        assert await taken(store, past_heads=True) == [holder]

    check(tmp_path, scenario)
