"""Tenants from the client's side: whose names are meant, and whose jobs are seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass import App, Context, JobSpec
from windlass.errors import ConfigError, ScheduleNotFoundError, ValidationError
from windlass.testing import assert_enqueued, drain_sync

A, B = "acme", "bond"


@pytest.fixture
def new_app() -> Iterator[Callable[..., App]]:
    """Makes apps in memory, which are closed after the test."""
    made: list[App] = []

    def make(**options: Any) -> App:
        made.append(App("memory://", **options))
        return made[-1]

    yield make
    for app in made:
        asyncio.run(app.close())


@pytest.fixture
def app(new_app: Callable[..., App]) -> App:
    app = new_app()

    @app.task
    async def note(n: int) -> None: ...

    return app


def test_what_a_client_adds_belongs_to_its_tenant(app: App) -> None:
    for tenant in (None, "", A):
        [added] = app.sync.for_tenant(tenant).add_jobs([JobSpec("note", {"n": 1})])
        assert added.tenant == (tenant or None)


def test_a_client_of_one_tenant_sees_and_changes_its_own(app: App) -> None:
    everyone, mine, default = app.sync, app.sync.for_tenant(A), app.sync.for_tenant("")
    own = mine.add_job("note", {"n": 1}, key="k")
    other = default.add_job("note", {"n": 2}, key="k")
    assert own.id != other.id
    assert [job.id for job in everyone.list_jobs()] == [other.id, own.id]
    assert [job.id for job in mine.list_jobs()] == [own.id]
    assert [job.id for job in default.list_jobs()] == [other.id]
    assert (mine.counts()["ready"], everyone.counts()["ready"]) == (1, 2)
    assert mine.get_job(other.id) is None
    assert mine.get_job(key="k") == own
    assert everyone.get_job(key="k") == other
    assert mine.cancel_jobs([own.id, other.id]) == [mine.get_job(own.id)]
    assert mine.retry_jobs([other.id]) == mine.complete_jobs([other.id]) == []
    assert mine.delete_jobs([other.id]) == []
    assert mine.permanently_fail_jobs([other.id]) == mine.reschedule_jobs([other.id]) == []
    assert everyone.remove_job("k") == other


def test_pauses_are_the_tenants_own(app: App) -> None:
    mine = app.sync.for_tenant(A)
    mine.pause(task="note")
    assert mine.paused().tasks == ("note",)
    assert app.sync.paused().tasks == ()
    [elsewhere] = app.sync.paused().elsewhere
    assert (elsewhere.tenant, elsewhere.kind, elsewhere.name) == (A, "task", "note")
    mine.resume(task="note")
    assert mine.paused().tasks == ()


def test_failed_jobs_of_one_tenant_are_deleted(app: App) -> None:
    jobs = [app.sync.for_tenant(tenant).add_job("note", {"n": 1}) for tenant in (A, B)]
    app.sync.permanently_fail_jobs([job.id for job in jobs])
    assert app.sync.for_tenant(A).cleanup("delete-failed") == {"delete-failed": 1}
    assert [job.tenant for job in app.sync.list_jobs()] == [B]


def test_the_client_of_one_tenant_unlocks_no_worker(app: App) -> None:
    with pytest.raises(ConfigError, match="several tenants"):
        app.sync.for_tenant(A).force_unlock_workers(["w"])


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_tenant_that_an_app_cannot_have(name: str) -> None:
    with pytest.raises(ConfigError, match="tenant"):
        App("memory://", tenant=name)


@pytest.mark.parametrize("name", ["x" * 129, "a\0b", 7, "\ud800"])
def test_a_tenant_that_cannot_be(app: App, name: Any) -> None:
    with pytest.raises(ValidationError, match="tenant"):
        app.client.for_tenant(name)


def test_an_app_of_one_tenant(new_app: Callable[..., App]) -> None:
    app = new_app(tenant=A)
    assert app.sync.add_job("t").tenant == A
    assert app.sync.for_tenant(B).add_job("t").tenant == B
    assert [job.tenant for job in app.sync.list_jobs()] == [A]
    assert [job.tenant for job in app.sync.for_tenant(None).list_jobs()] == [B, A]


def test_the_tenant_of_an_app_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="tenant must be at most 128"):
        App("memory://", tenant="x" * 129)


def test_what_a_handler_adds_belongs_to_its_jobs_tenant(new_app: Callable[..., App]) -> None:
    app, elsewhere = new_app(), new_app()

    @app.task
    async def parent(ctx: Context) -> None:
        await ctx.add_job("child", {"how": "ctx"})
        await child.aenqueue(how="task")
        await app.client.add_job("child", {"how": "client"})
        await app.client.for_tenant(B).add_job("child", {"how": "named"})
        await elsewhere.client.add_job("child", {"how": "elsewhere"})

    @app.task
    def blocking_parent(ctx: Context) -> None:
        child.enqueue(how="blocking")

    @app.task
    async def child(how: str) -> None: ...

    app.sync.for_tenant(A).add_jobs([JobSpec("parent"), JobSpec("blocking_parent")])
    app.sync.pause(task="child")
    for tenant in (A, B):
        app.sync.for_tenant(tenant).pause(task="child")
    drain_sync(app)
    found = {job.payload["how"]: job.tenant for job in app.sync.list_jobs(task="child")}
    assert found == {"ctx": A, "task": A, "client": A, "named": B, "blocking": A}
    assert [job.tenant for job in elsewhere.sync.list_jobs()] == [None]


def test_a_handler_of_no_tenant_adds_to_the_default_one(app: App) -> None:
    @app.task
    async def parent() -> None:
        await app.client.add_job("other")

    parent.enqueue()
    drain_sync(app)
    assert [job.tenant for job in app.sync.list_jobs(task="other")] == [None]


def test_a_drain_of_some_tenants_leaves_the_others_as_they_are(app: App) -> None:
    jobs = [app.sync.for_tenant(t).add_job("note", {"n": 1}, delay=60) for t in (A, "", B)]
    drained = drain_sync(app, include_scheduled=True, tenants=[A, ""])
    assert [job.tenant for job in drained.completed] == [A, None]
    assert app.sync.list_jobs() == [jobs[2]]
    assert len(drain_sync(app, include_scheduled=True)) == 1


def test_what_is_enqueued_is_told_with_its_tenant(app: App) -> None:
    app.sync.for_tenant(A).add_job("note", {"n": 1})
    with pytest.raises(AssertionError, match=r"1 note .* ready tenant=acme"):
        assert_enqueued(app, task="other")


def test_a_worker_of_some_tenants_runs_their_jobs_alone(app: App) -> None:
    for tenant in (None, A, B):
        app.sync.for_tenant(tenant).add_job("note", {"n": 1})
    assert asyncio.run(app.run_once(tenants=[A])) == 1
    assert sorted(job.tenant or "" for job in app.sync.list_jobs()) == ["", B]
    assert asyncio.run(app.run_once(tenants=["", B])) == 2


def test_a_worker_of_an_app_of_one_tenant(app: App) -> None:
    app.configure(tenant=A)
    for tenant in (A, B):
        app.sync.for_tenant(tenant).add_job("note", {"n": 1})
    assert asyncio.run(app.run_once()) == 1
    assert [job.tenant for job in app.sync.for_tenant(None).list_jobs()] == [B]


def test_the_worker_of_an_app_of_one_tenant_serves_no_other(app: App) -> None:
    app.configure(tenant=A)
    app.sync.add_job("note", {"n": 1})
    for others in ([B], [A, B], [""]):
        with pytest.raises(ConfigError, match="of the tenant 'acme', so its workers serve no"):
            asyncio.run(app.run_once(tenants=others))
    assert asyncio.run(app.run_once(tenants=[A])) == 1


@pytest.mark.parametrize("tenants", ["acme", [], [None]])
def test_tenants_of_a_worker_that_cannot_be(app: App, tenants: Any) -> None:
    with pytest.raises(ConfigError, match="tenants must be a list"):
        asyncio.run(app.run_once(tenants=tenants))


def test_a_schedule_is_its_tenants(app: App) -> None:
    with pytest.raises(ScheduleNotFoundError):
        app.sync.for_tenant(A).pause_schedule("s")


@pytest.mark.parametrize("strict", [1, "yes", "no"])
def test_strict_is_true_or_false(app: App, strict: Any) -> None:
    with pytest.raises(ValidationError, match="strict"):
        app.sync.add_job("note", {"n": 1}, queue="q", strict=strict)


def test_a_task_of_a_strict_queue(app: App) -> None:
    @app.task(queue="ledger", strict=True)
    async def book() -> None: ...

    assert (book.enqueue().strict, book.using(strict=False).enqueue().strict) == (True, False)
    assert app.sync.add_job("book").strict is True
