"""The app and its clients: what they take, what they refuse, and who may call them."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import windlass
import windlass.testing
from windlass import (
    App,
    ConfigError,
    JobSpec,
    JobState,
    Retry,
    ValidationError,
    quick_add_job,
)
from windlass.config import Settings
from windlass.errors import (
    InstantError,
    PayloadError,
    StoreClosedError,
    TaskError,
)
from windlass.store.records import ClaimRequest
from windlass.store_kinds import database_file, make_store
from windlass.tasks.options import make_options
from windlass.tasks.task import make_task


def new() -> Any:
    return App("memory://")


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    asyncio.run(app.close())


@pytest.mark.parametrize("module", [windlass, windlass.testing], ids=lambda m: m.__name__)
def test_exports_are_sorted_and_real(module: Any) -> None:
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name)
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, type(windlass))
    }
    loaded_when_asked_for = {"TableOptions", "TableStore"}
    assert own | {"__version__"} | loaded_when_asked_for >= set(module.__all__)
    assert own <= set(module.__all__)


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("jobs.db", ConfigError, "is not a URL"),
        ("mysql://h/d", ConfigError, "mysql://"),
        ("sqlite://jobs.db", ConfigError, "where a host would be"),
        ("sqlite:///", ConfigError, "names no file"),
        ("grpc://h:1/jobs", ConfigError, "more than a host and a port"),
    ],
)
def test_urls_that_cannot_be_used(url: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_store(Settings(url=url))


def test_sqlite_paths() -> None:
    assert database_file("sqlite:///jobs.db") == Path("jobs.db")
    assert database_file("sqlite:////var/jobs.db") == Path("/var/jobs.db")
    assert database_file("sqlite:///with%20space.db") == Path("with space.db")
    assert database_file("memory://") is None
    assert database_file("postgresql:///shop") is None


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: App("memory://", tasks={}, task_directory="x"), ConfigError, "not both"),
        (lambda: App("memory://", leese=1), ConfigError, "unknown setting 'leese'"),
        (lambda: new().task("name"), TaskError, "goes on a function, not on str"),
        (lambda: new().task(functools.partial(print)), TaskError, "give name="),
        (lambda: new().task(executor="fiber")(print), ConfigError, "executor 'fiber'"),
        (lambda: new().task(retry=3)(print), ConfigError, "retry must be a Retry"),
        (lambda: new().task(timeout=0)(print), ValidationError, "more than 0 seconds"),
        (lambda: new().task(max_attempts=0)(print), ValidationError, "at least 1"),
        (lambda: new().task(name="")(lambda: None), ValidationError, "not be empty"),
    ],
)
def test_misuse_is_refused(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_a_task_is_still_a_function(app: App) -> None:
    @app.task(retry=Retry(lambda attempt, error: 3))
    def double(n: int) -> int:
        """Twice."""
        return n * 2

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert double.options.retry is not None
    assert double.options.retry.delay(1, ValueError()) == 3


def test_a_task_without_an_app_has_no_queue() -> None:
    task = make_task("t", lambda: None, make_options(), typed=True)
    with pytest.raises(RuntimeError, match="belongs to no app"):
        task.enqueue()


def test_tasks_given_by_name(app: App) -> None:
    @app.task(priority=4)
    def typed(n: int) -> None: ...

    other = App("memory://", tasks={"renamed": typed, "plain": lambda payload: payload})
    assert other.registry.names == ("renamed", "plain")
    assert other.registry.get("renamed").options.priority == 4
    job = other.registry.get("plain").enqueue({"free": "form"})
    assert job.payload == {"free": "form"}
    assert other.registry.get("plain").enqueue(a=1).payload == {"a": 1}
    asyncio.run(other.close())


def test_typed_handles_validate_and_names_do_not(app: App) -> None:
    @app.task
    def t(n: int) -> None: ...

    with pytest.raises(PayloadError):
        t.enqueue(n="x")  # type: ignore[arg-type]
    with pytest.raises(PayloadError):
        t.enqueue_many([{"n": 1}, {"n": "x"}])
    assert app.sync.counts()["ready"] == 0, "all or none"
    assert app.sync.add_job("t", {"n": "x"}).state is JobState.READY
    assert app.sync.add_job("unknown").task == "unknown"
    assert len(t.enqueue_many([{"n": 1}, {"n": 2}])) == 2


def test_a_task_s_options_apply_where_the_job_says_nothing(app: App) -> None:
    @app.task(queue="q", priority=3, flags=["f"])
    def t() -> None: ...

    job = t.enqueue()
    assert (job.queue, job.priority, job.flags) == ("q", 3, ("f",))
    job = t.using(queue="r", priority=0, flags=["g"]).enqueue()
    assert (job.queue, job.priority, job.flags) == ("r", 0, ("g",))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.add_job("t", run_at=datetime(2026, 1, 1)), InstantError),
        (lambda c: c.add_job("t", run_at=datetime.now(UTC), delay=1), InstantError),
        (lambda c: c.add_job("t" * 129), ValidationError),
        (lambda c: c.add_job("t", key=""), ValidationError),
        (lambda c: c.add_job("t", key_mode="x"), ValidationError),
        (lambda c: c.add_job("t", float("nan")), PayloadError),
        (lambda c: c.add_jobs([JobSpec("ok"), JobSpec("")]), ValidationError),
        (lambda c: c.get_job(), ValidationError),
        (lambda c: c.get_job(1, key="k"), ValidationError),
        (lambda c: c.list_jobs(state="odd"), ValidationError),
        (lambda c: c.list_jobs(limit=0), ValidationError),
        (lambda c: c.cancel_jobs(["1"]), ValidationError),
        (lambda c: c.cancel_jobs([True]), ValidationError),
        (lambda c: c.retry_jobs([2**63]), ValidationError),
        (lambda c: c.pause(), ValidationError),
        (lambda c: c.pause(task="t", queue="q"), ValidationError),
        (lambda c: c.resume(queue=""), ValidationError),
        (lambda c: c.cleanup("everything"), ConfigError),
        (lambda c: c.reschedule_jobs([1], attempts=-1), ValidationError),
        (lambda c: c.reschedule_jobs([1], priority=1.5), ValidationError),
        (lambda c: c.remove_job(""), ValidationError),
    ],
)
def test_bad_calls_are_refused_before_anything_is_stored(
    app: App, call: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(app.sync)
    assert sum(app.sync.counts().values()) == 0


def test_every_verb_of_the_sync_client(app: App) -> None:
    sync = app.sync
    job = sync.add_job("t", key="k", keep=60)
    assert sync.get_job(job.id) == sync.get_job(key="k")
    assert [j.id for j in sync.list_jobs(state=["ready"], ids=[job.id])] == [job.id]
    assert sync.reschedule_jobs([job.id], priority=7)[0].priority == 7
    assert sync.permanently_fail_jobs([job.id])[0].last_error == "Manually marked as failed"
    assert sync.retry_jobs([job.id])[0].state is JobState.READY
    assert sync.cancel_jobs([job.id])[0].state is JobState.CANCELLED
    assert [gone.id for gone in sync.delete_jobs([job.id])] == [job.id]
    assert sync.get_job(job.id) is None
    assert sync.add_jobs([]) == []
    other = sync.add_job("t", key="k2", keep=60)
    assert sync.complete_jobs([other.id])[0].state is JobState.COMPLETED
    assert sync.wait_for(other.id).id == other.id
    assert sync.remove_job("none") is None
    assert sync.force_unlock_workers(["nobody"]) == []
    sync.pause(queue="q")
    assert sync.paused().queues == ("q",)
    sync.resume(queue="q")
    assert sync.workers() == []
    failed = sync.add_job("t")
    sync.permanently_fail_jobs([failed.id])
    assert sync.cleanup("delete-failed", "prune", "gc-tasks") == {
        "delete-failed": 1,
        "prune": 0,
        "gc-tasks": 0,
    }


def test_many_threads_share_the_sync_client(app: App) -> None:
    def add() -> None:
        for _ in range(20):
            app.sync.add_job("t")

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.sync.counts()["ready"] == 160


def test_the_portal_ends_with_the_app_and_comes_back(app: App) -> None:
    app.sync.add_job("t")
    asyncio.run(app.close())
    assert app._portal._thread is None
    with pytest.raises(StoreClosedError):
        asyncio.run(app.store.enqueue([]))
    app.sync.add_job("t")
    asyncio.run(app.close())


def test_memory_has_no_transaction_to_join(app: App) -> None:
    @app.task
    def t() -> None: ...

    with pytest.raises(ConfigError, match="no transactions to join"):
        app.sync.using(object()).add_job("t")
    with pytest.raises(ConfigError, match="no transactions to join"):
        t.using(connection=object()).enqueue()
    with pytest.raises(ConfigError, match="no transactions to join"):
        asyncio.run(app.client.using(object()).add_job("t"))
    assert app.sync.using(object()).add_jobs([]) == []


def test_run_refuses_what_belongs_to_the_app(app: App) -> None:
    @app.task
    def t() -> None: ...

    async def body() -> None:
        with pytest.raises(ConfigError, match="belongs to App"):
            await app.run(url="memory://")
        with pytest.raises(ConfigError, match="unknown setting"):
            await app.run(leese=1)

    asyncio.run(body())


def test_configure_reaches_clients_that_were_taken_before(app: App) -> None:
    @app.task
    def t(text: str) -> None: ...

    client, sync, joined = app.client, app.sync, app.sync.using(object())
    app.configure(max_payload=100)
    long = "x" * 200
    for refused in (
        lambda: asyncio.run(client.add_job("t", {"text": long})),
        lambda: sync.add_job("t", {"text": long}),
        lambda: joined.add_job("t", {"text": long}),
        lambda: t.enqueue(long),
        lambda: t.enqueue_many([{"text": long}]),
    ):
        with pytest.raises(PayloadError, match="100"):
            refused()
    app.configure(max_payload=1000)
    assert t.enqueue(long).payload == {"text": long}


def test_configure_says_how_often_unlocked_jobs_may_be_reset(app: App) -> None:
    client = app.client
    app.configure(max_resets=1)

    async def body() -> JobState:
        job = await client.add_job("t")
        for worker in ("a", "b"):
            request = ClaimRequest(worker, ("t",), limit=1, suspects=1)
            assert await app.store.claim(request)
            await client.force_unlock_workers([worker])
        found = await client.get_job(job.id)
        assert found is not None
        return found.state

    assert asyncio.run(body()) is JobState.FAILED


def test_an_app_is_a_context_manager_and_runners_add_jobs() -> None:
    async def body() -> None:
        async with App("memory://") as app:
            await app.migrate()

            @app.task
            async def t() -> None: ...

            runner = await app.run(handle_signals=False)
            job = await runner.add_job("other")
            assert job.state is JobState.READY
            await runner.stop()
        job = await quick_add_job("memory://", "t", {"n": 1}, priority=2)
        assert (job.payload, job.priority) == ({"n": 1}, 2)

    asyncio.run(body())
