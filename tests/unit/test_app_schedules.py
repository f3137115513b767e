"""Schedules as an app declares them: what is taken, what is refused and when, and the verbs."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass import (
    App,
    ConfigError,
    Context,
    CronItem,
    Schedule,
    ScheduleInfo,
    ScheduleNotFoundError,
    parse_cron_items,
    parse_crontab,
)
from windlass.errors import CrontabError, DuplicateTaskError, TaskError, ValidationError
from windlass.model.job import DEFAULT_TENANT
from windlass.store.schedules import KnownSchedule, jobs_at
from windlass.stores.memory import MemoryStore

NIGHTLY = "0 4 * * *"


@pytest.fixture
def app() -> App:
    app = App("memory://")

    @app.task
    async def t() -> None:
        pass

    return app


def scheduled(app: App, **options: Any) -> dict[str, Schedule]:
    """What a worker of this app has, by identifier."""
    return asyncio.run(started_with(app, **options))


async def started_with(app: App, **options: Any) -> dict[str, Schedule]:
    begun: asyncio.Future[Sequence[Schedule]] = asyncio.get_running_loop().create_future()

    def on_started(worker: Any, schedules: Sequence[Schedule]) -> None:
        begun.set_result(schedules)

    app.events.on("cron:started", on_started)
    try:
        runner = await app.run(handle_signals=False, **options)
        schedules = runner._scheduling.schedules
        if schedules:
            await begun
        found = {schedule.identifier: schedule for schedule in schedules}
        await runner.stop()
        return found
    finally:
        app.events.off("cron:started", on_started)
        await app.close()


def refused(app: App, **options: Any) -> CrontabError:
    """The refusal, which must come before anything was started or opened."""
    with pytest.raises(CrontabError) as caught:
        asyncio.run(app.run(handle_signals=False, **options))
    assert not app._is_open
    return caught.value


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


# ── @app.cron ──


def test_cron_goes_above_task(app: App) -> None:
    @app.cron(NIGHTLY, tz="Europe/Berlin", fill="2d", fillmax=3)
    @app.task(name="report")
    async def send(lang: str = "en") -> str:
        return lang

    assert send.name == "report"
    assert asyncio.run(send("de")) == "de", "it stays a function"
    [found] = scheduled(app).values()
    assert found.identifier == found.task == "report"
    assert (found.pattern, found.tz) == (NIGHTLY, "Europe/Berlin")
    assert (found.fill, found.fillmax) == (2 * 86_400, 3)


def test_cron_makes_a_task_of_a_plain_function(app: App) -> None:
    @app.cron("@hourly")
    async def sweep() -> None: ...

    assert sweep.name == "sweep"
    assert app.registry.get("sweep") is sweep
    assert scheduled(app)["sweep"].pattern == "@hourly"


def test_all_options_of_cron(app: App) -> None:
    @app.cron(
        NIGHTLY,
        id="other",
        payload={"lang": "de"},
        fill=timedelta(hours=1),
        queue="mail",
        priority=-3,
        max_attempts=7,
        key="k",
        key_mode="preserve_run_at",
    )
    async def send(lang: str) -> None: ...

    found = scheduled(app)["other"]
    assert found == Schedule(
        identifier="other",
        task="send",
        pattern=NIGHTLY,
        fill=3600.0,
        max_attempts=7,
        queue="mail",
        priority=-3,
        key="k",
        key_mode="preserve_run_at",
        payload={"lang": "de"},
    )


def test_one_task_may_have_several(app: App) -> None:
    @app.cron("0 9 * * 1-5", id="morning", payload={"lang": "de"})
    @app.cron("0 17 * * 1-5", id="evening", payload={"lang": "en"})
    @app.task
    async def report(lang: str) -> None: ...

    found = scheduled(app)
    assert {name: each.payload["lang"] for name, each in found.items()} == {
        "morning": "de",
        "evening": "en",
    }
    assert {each.task for each in found.values()} == {"report"}


@pytest.mark.parametrize("options", [{}, {"id": "twice"}])
def test_two_of_one_identifier_are_refused(app: App, options: dict[str, Any]) -> None:
    @app.cron("0 9 * * *", **options)
    @app.task
    async def report() -> None: ...

    with pytest.raises(CrontabError, match=r"two schedules '(report|twice)'"):
        app.cron("0 17 * * *", **options)(report)
    assert len(scheduled(app)) == 1, "the first stays"


def test_declared_and_given_may_not_share_an_identifier(app: App) -> None:
    app.cron(NIGHTLY)(app.registry.get("t"))
    error = refused(app, crontab="0 5 * * * t")
    assert error.problems[0].field == "id"
    assert set(scheduled(app, crontab="0 5 * * * t ?id=later")) == {"t", "later"}


def test_task_above_cron_is_refused_with_advice(app: App) -> None:
    with pytest.raises(TaskError, match=r"@app\.cron goes above @app\.task"):

        @app.task
        @app.cron(NIGHTLY)
        async def send() -> None: ...


@pytest.mark.parametrize(
    ("pattern", "options", "field"),
    [
        ("61 4 * * *", {}, "minute"),
        ("0 24 * * *", {}, "hour"),
        ("0 4 0 * *", {}, "day of month"),
        ("0 4 * 13 *", {}, "month"),
        ("0 4 * * 8", {}, "day of week"),
        ("0 4 * *", {}, "pattern"),
        ("@dayly", {}, "pattern"),
        (NIGHTLY, {"tz": "Europe/Berln"}, "tz"),
        (NIGHTLY, {"fill": "2 days"}, "fill"),
        (NIGHTLY, {"fillmax": 0}, "fillmax"),
        (NIGHTLY, {"max_attempts": 0}, "max"),
        (NIGHTLY, {"id": "no id"}, "id"),
        (NIGHTLY, {"key_mode": "replace"}, "jobKeyMode"),
        (NIGHTLY, {"payload": {"x": object()}}, "payload"),
        (NIGHTLY, {"payload": [1]}, "payload"),
    ],
)
def test_what_cannot_be_understood_is_refused_at_once(
    app: App, pattern: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(CrontabError) as caught:
        app.cron(pattern, **options)(app.registry.get("t"))
    assert caught.value.field == field
    assert caught.value.source == "@app.cron on 't'"
    assert f"'t': {field}: " in str(caught.value)
    assert isinstance(caught.value, ValidationError)
    assert scheduled(app) == {}


def test_cron_refuses_what_is_no_function(app: App) -> None:
    with pytest.raises(TaskError):
        app.cron(NIGHTLY)(5)  # type: ignore[call-overload]
    with pytest.raises(DuplicateTaskError):

        @app.cron(NIGHTLY)
        async def t() -> None: ...


# ── what run() takes ──


def test_run_takes_text(app: App) -> None:
    found = scheduled(app, crontab="# nightly\n\n0 4 * * * t ?id=a\r\n0 5 * * * t ?id=b {}\n")
    assert [each.pattern for each in found.values()] == ["0 4 * * *", "0 5 * * *"]


def test_run_takes_items_parsed_or_not(app: App) -> None:
    item = CronItem(task="t", pattern=NIGHTLY, identifier="raw", options={"backfill_period": 60})
    parsed = parse_cron_items([CronItem(task="t", pattern="@daily")])
    lines = parse_crontab("0 1 * * * t ?id=line")
    found = scheduled(app, cron_items=[*parsed, item, *lines])
    assert list(found) == ["t", "raw", "line"]
    assert found["raw"].fill == 60.0
    assert scheduled(app, cron_items=[]) == {}


@pytest.mark.parametrize("bad", [{"task": "t", "pattern": NIGHTLY}, "0 4 * * * t", None])
def test_items_that_are_none_are_refused(app: App, bad: Any) -> None:
    assert "CronItem" in str(refused(app, cron_items=[bad]))


def test_two_items_of_one_identifier_are_refused(app: App) -> None:
    item = CronItem(task="t", pattern=NIGHTLY)
    assert refused(app, cron_items=[item, item]).field == "id"
    assert refused(app, cron_items=parse_cron_items([item]) * 2).field == "id"


@pytest.mark.parametrize("names", [("crontab", "crontab_file"), ("crontab", "cron_items")])
def test_two_sources_are_refused(app: App, names: tuple[str, str]) -> None:
    given: dict[str, Any] = {"crontab": "", "crontab_file": "crontab", "cron_items": []}
    with pytest.raises(ConfigError, match="one of crontab, crontab_file and cron_items"):
        asyncio.run(app.run(**{name: given[name] for name in names}))


def test_run_reads_a_file(app: App, tmp_path: Path) -> None:
    file = tmp_path / "my.crontab"
    file.write_text("0 4 * * * t {}\n")
    assert list(scheduled(app, crontab_file=str(file))) == ["t"]


def test_the_setting_names_the_file(app: App, tmp_path: Path) -> None:
    file = tmp_path / "from-setting"
    file.write_text("0 4 * * * t\n")
    by_setting = App("memory://", crontab_file=str(file))
    by_setting.task(name="t")(lambda: None)
    assert list(scheduled(by_setting)) == ["t"]
    other = tmp_path / "other"
    other.write_text("0 4 * * * t ?id=other\n")
    assert list(scheduled(by_setting, crontab_file=str(other))) == ["other"], "run()'s own wins"
    assert list(scheduled(by_setting, crontab="0 4 * * * t ?id=text")) == ["text"]
    assert scheduled(by_setting, cron_items=[]) == {}


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "from-environment"
    file.write_text("0 4 * * * t\n")
    monkeypatch.setenv("WINDLASS_CRONTAB_FILE", str(file))
    app = App("memory://")
    app.task(name="t")(lambda: None)
    assert list(scheduled(app)) == ["t"]


def test_a_missing_file_means_no_schedules(
    app: App, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "nowhere"
    assert scheduled(app, crontab_file=str(file)) == {}
    [told] = warnings(caplog)
    assert str(file) in told


def with_folder(folder: Path) -> App:
    tasks = folder / "tasks"
    tasks.mkdir()
    (tasks / "t.py").write_text("def task(payload, helpers):\n    pass\n")
    return App("memory://", task_directory=tasks)


def test_a_crontab_beside_the_tasks_folder_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = with_folder(tmp_path)
    assert scheduled(app) == {}, "there need not be one"
    assert warnings(caplog) == []
    (tmp_path / "crontab").write_text("0 4 * * * t {anything: [1]}\n")
    assert scheduled(app)["t"].payload == {"anything": [1]}
    assert scheduled(app, crontab="") == {}, "text replaces it"
    assert scheduled(app, cron_items=[]) == {}


def test_a_relative_tasks_folder_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crontab").write_text("0 4 * * * t\n")
    with_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    app = App("memory://", task_directory="tasks")
    monkeypatch.chdir("/")
    assert list(scheduled(app)) == ["t"]


def test_a_broken_file_is_refused_by_name_and_line(app: App, tmp_path: Path) -> None:
    file = tmp_path / "broken"
    file.write_text("# one\n0 4 * * * t\n0 99 * * * t ?id=b\n0 5 * * * t ?nonsense=1\n")
    error = refused(app, crontab_file=str(file))
    assert error.source == str(file)
    assert str(error).startswith(f"{file}: line 3, column 3, hour: ")
    assert [problem.line for problem in error.problems] == [3, 4]


def test_a_file_that_cannot_be_read_is_refused(app: App, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"0 4 * * * t {name: '\xe9'}\n")
    for file in (tmp_path / "latin", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            asyncio.run(app.run(crontab_file=str(file)))
    assert not app._is_open


# ── against the tasks ──


def test_an_unknown_task_is_only_warned_about(app: App, caplog: pytest.LogCaptureFixture) -> None:
    found = scheduled(app, crontab="0 4 * * * elsewhere {any: 'thing'}")
    assert list(found) == ["elsewhere"]
    [told] = warnings(caplog)
    assert "no task is called 'elsewhere' here" in told


@pytest.mark.parametrize("payload", ["", "{lang: 5}", "{lang: 'de', more: 1}"])
def test_a_payload_that_does_not_fit_is_refused(app: App, payload: str) -> None:
    @app.task
    async def report(lang: str) -> None: ...

    error = refused(app, crontab=f"0 4 * * * report ?id=weekly {payload}")
    assert error.field == "payload"
    assert "schedule 'weekly'" in str(error)
    assert "does not fit task 'report'" in str(error)


def test_a_payload_that_is_too_large_is_refused(app: App) -> None:
    app.task(name="open")(lambda **anything: None)
    crontab = "0 4 * * * open {text: '" + "x" * 900 + "'}"
    assert len(scheduled(app, crontab=crontab, max_payload=1_000)) == 1
    error = refused(app, crontab=crontab, max_payload=900)
    assert error.field == "payload"
    other = "0 4 * * * elsewhere {text: '" + "x" * 900 + "'}"
    assert refused(app, crontab=other, max_payload=900).field == "payload"


def test_the_tasks_options_count_where_the_schedule_is_silent(app: App) -> None:
    app.task(name="eager", queue="q", priority=5, flags=["f"], max_attempts=3)(lambda: None)
    crontab = "0 4 * * * eager\n0 4 * * * eager ?id=own&queue=mine&priority=0&max=1"
    found = scheduled(app, crontab=crontab)
    plain, own = found["eager"], found["own"]
    assert (plain.queue, plain.priority, plain.flags, plain.max_attempts) == ("q", 5, ("f",), 3)
    assert (own.queue, own.priority, own.flags, own.max_attempts) == ("mine", 0, ("f",), 1)
    [job] = jobs_at(plain, [0], backfilled=False)
    assert (job.queue, job.priority, job.flags, job.max_attempts) == ("q", 5, ("f",), 3)


def test_jobs_of_a_strict_task_are_strict_however_they_are_added(app: App) -> None:
    app.task(name="book", queue="ledger", strict=True)(lambda: None)
    crontab = "0 4 * * * book\n0 4 * * * t"
    found = scheduled(app, crontab=crontab)
    for name, strict in (("book", 1), ("t", 0)):
        [job] = jobs_at(found[name], [0], backfilled=False)
        assert job.is_strict == strict

    async def body() -> None:
        await started_with(app, crontab=crontab)
        async with app:
            assert (await app.client.trigger_schedule("book")).strict is True
            assert (await app.client.trigger_schedule("t")).strict is False

    asyncio.run(body())


def run_one(app: App, crontab: str) -> None:
    """Fire one job of the crontab's one schedule, and run it."""

    async def body() -> None:
        await started_with(app, crontab=crontab)
        async with app:
            job = await app.client.trigger_schedule(parse_crontab(crontab)[0].identifier)
            assert await app.run_once() == 1
            assert (await app.client.counts())["failed"] == 0
            assert await app.client.get_job(job.id) is None, "it completed"

    asyncio.run(body())


def test_typed_tasks_get_cron_only_where_they_ask(app: App) -> None:
    seen: dict[str, Any] = {}

    @app.task
    async def silent(lang: str = "en") -> None:
        seen["silent"] = lang

    @app.task
    async def asking(_cron: dict[str, Any], lang: str = "en") -> None:
        seen["asking"] = _cron, lang

    @app.task
    async def open_(ctx: Context, **rest: Any) -> None:
        seen["open_"] = rest

    @app.task
    async def positional(lang: str, /) -> None:
        seen["positional"] = lang

    for name in ("silent", "asking", "open_", "positional"):
        run_one(app, f"0 4 * * * {name} {{lang: 'de'}}")
    assert seen["silent"] == "de"
    cron, lang = seen["asking"]
    assert lang == "de"
    assert cron.keys() == {"ts", "backfilled"}
    assert cron["backfilled"] is False
    assert cron["ts"].endswith("Z")
    assert seen["open_"].keys() == {"lang", "_cron"}
    assert seen["positional"] == "de"


def test_payload_tasks_get_cron_as_it_is() -> None:
    seen: list[Any] = []
    app = App("memory://", tasks={"plain": lambda payload, helpers: seen.append(payload)})
    run_one(app, "0 4 * * * plain {a: 1, _cron: 'mine'}")
    [payload] = seen
    assert payload.keys() == {"a", "_cron"}
    assert payload["_cron"].keys() == {"ts", "backfilled"}, "ours to say"


@pytest.mark.parametrize("payload", ['{"_cron":5,"other":1}', '{"text":"_cron"}', "[1]"])
def test_what_does_not_fit_does_not_fit_without_cron_either(app: App, payload: str) -> None:
    with pytest.raises(ValidationError, match="does not fit task 't'"):
        app.registry.get("t").style.check(payload)


# ── starting ──


def test_once_has_no_schedules(app: App) -> None:
    async def body() -> None:
        async with app:
            await app.run_once(crontab="* * * * * t")
            assert await app.client.list_schedules() == []

    asyncio.run(body())


def test_a_first_start_is_quiet(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """On a clock that moves between one call and the next."""
    scheduled(app, crontab="0 4 * * * t")
    assert warnings(caplog) == []


# ── the verbs ──


async def known_schedules(app: App) -> None:
    await app.open()
    await app.store.register(parse_crontab("0 4 * * * t\n@hourly t ?id=other&tz=Europe/Berlin"))


def asynchronous(app: App) -> Callable[..., Awaitable[Any]]:
    async def call(verb: str, *args: Any) -> Any:
        return await getattr(app.client, verb)(*args)

    return call


def blocking(app: App) -> Callable[..., Awaitable[Any]]:
    async def call(verb: str, *args: Any) -> Any:
        return await asyncio.to_thread(functools.partial(getattr(app.sync, verb), *args))

    return call


@pytest.mark.parametrize("client", [asynchronous, blocking])
def test_the_five_verbs(app: App, client: Callable[[App], Callable[..., Awaitable[Any]]]) -> None:
    async def body() -> None:
        await known_schedules(app)
        call = client(app)
        listed: list[ScheduleInfo] = await call("list_schedules")
        assert [info.id for info in listed] == ["other", "t"]
        other, mine = listed
        assert (other.task, other.pattern, other.tz) == ("t", "@hourly", "Europe/Berlin")
        assert mine.schedule.identifier == "t"
        assert mine.known_since == mine.seen_at
        assert (mine.last_at, mine.paused_at) == (None, None)
        assert mine.next_at is not None
        assert mine.next_at > mine.known_since
        assert (mine.next_at.hour, mine.next_at.minute) == (4, 0)

        paused = await call("pause_schedule", "t")
        assert paused.paused_at is not None
        assert paused.next_at is None
        assert await call("pause_schedule", "t") == paused, "again changes nothing"

        job = await call("trigger_schedule", "t")
        assert (job.task, job.payload["_cron"]["backfilled"]) == ("t", False)

        resumed = await call("resume_schedule", "t")
        assert resumed.paused_at is None
        assert resumed.next_at == mine.next_at
        assert (await call("resume_schedule", "t")).next_at == mine.next_at

        removed = await call("remove_schedule", "t")
        assert removed.id == "t"
        assert [info.id for info in await call("list_schedules")] == ["other"]

        for verb in ("pause", "resume", "remove", "trigger"):
            with pytest.raises(ScheduleNotFoundError, match="no schedule is called 't'") as caught:
                await call(f"{verb}_schedule", "t")
            assert isinstance(caught.value, LookupError)
        await app.close()

    asyncio.run(body())


def test_a_schedule_that_was_fired_shows_when(app: App) -> None:
    async def body() -> None:
        await known_schedules(app)
        store = app.store
        assert isinstance(store, MemoryStore)
        known: KnownSchedule = store._schedules[DEFAULT_TENANT, "t"]
        store._schedules[DEFAULT_TENANT, "t"] = msgspec.structs.replace(
            known, last_at=86_400_000_000
        )
        [info] = [info for info in await app.client.list_schedules() if info.id == "t"]
        assert info.last_at is not None
        assert info.last_at.isoformat() == "1970-01-02T00:00:00+00:00"
        await app.close()

    asyncio.run(body())
