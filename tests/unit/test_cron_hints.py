"""Common slips, and what is said about them; what looks like a schedule and is none."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from windlass import App, ConfigError, CronItem, CrontabError, ValidationError, parse_crontab
from windlass.errors import TaskError


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("* * * * report", "is a field missing? A line has five, and then the task"),
        ("* * * * * * report", "five fields, none of them for seconds"),
        ("0 30 4 * * 1 report", "hour 30 is out of range"),
        ("30 0 4 * * 1 report", "five fields, none of them for seconds"),
        ("TZ=Europe/Berlin", "a zone is written ?tz=Europe/Berlin, behind its task"),
        ("@daily report # every night", "comments need a line of their own"),
        ("@daily report {a: 1} ?fill=1d", "options go before the payload"),
        ("@daily report ?fil=1d", "did you mean fill?"),
        ("@daily report ?timezone=UTC", "the options are id, tz"),
        ("@daily report ?queue_nam=x", "did you mean queue?"),
    ],
)
def test_a_slip_gets_a_hint(line: str, told: str) -> None:
    with pytest.raises(CrontabError) as refused:
        parse_crontab(line)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("tz", "told"),
    [
        ("utc", "did you mean UTC?"),
        ("europe/berln", "did you mean Europe/Berlin?"),
        ("America/NewYork", "did you mean America/New_York?"),
        ("CEST", "write Area/City; tz takes"),
        ("GMT+2", "write Area/City; tz takes"),
        ("local", "write Area/City; tz takes"),
        ("localtime", "write Area/City; tz takes"),
        ("posixrules", "write Area/City; tz takes"),
        ("Factory", "write Area/City; tz takes"),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
    ],
)
def test_a_wrong_zone_is_never_taken_for_another(tz: str, told: str) -> None:
    with pytest.raises(CrontabError) as refused:
        parse_crontab(f"@daily report ?tz={tz.replace('+', '%2B')}")
    assert told in str(refused.value)


def test_several_mistakes_say_where_all_are_shown() -> None:
    with pytest.raises(CrontabError, match=r"\(and 2 more; windlass cron check shows all\)"):
        parse_crontab("a\nb\nc")


def test_a_zone_may_be_a_zone() -> None:
    app = App("memory://")

    @app.cron("@daily", tz=ZoneInfo("Asia/Tokyo"), fill=timedelta(hours=2))
    async def nightly() -> None: ...

    [schedule] = app.schedules
    assert (schedule.tz, schedule.fill) == ("Asia/Tokyo", 7200.0)


def test_cron_without_parentheses_is_refused_at_once() -> None:
    app = App("memory://")

    def nightly() -> None: ...

    with pytest.raises(TaskError, match="needs a pattern"):
        app.cron(nightly)  # type: ignore[arg-type]


def test_a_refused_pattern_leaves_no_task_behind() -> None:
    app = App("memory://")

    async def nightly() -> None: ...

    with pytest.raises(CrontabError):
        app.cron("0 25 * * *")(nightly)
    assert app.registry.names == ()
    app.cron("0 5 * * *")(nightly)
    assert [schedule.identifier for schedule in app.schedules] == ["nightly"]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("crontab", ["@daily t"], "takes the text of a crontab"),
        ("cron_items", CronItem(task="t", pattern="@daily"), "takes a list of CronItem"),
    ],
)
def test_a_wrong_kind_of_crontab_is_refused(option: str, value: Any, told: str) -> None:
    app = App("memory://")

    @app.task
    async def t() -> None: ...

    async def run() -> None:
        await app.run(**{option: value})

    with pytest.raises(ConfigError, match=told):
        asyncio.run(run())


@pytest.mark.parametrize(
    "verb", ["pause_schedule", "resume_schedule", "remove_schedule", "trigger_schedule"]
)
@pytest.mark.parametrize("bad", [None, ["nightly"], 7, ""])
def test_an_id_is_text(verb: str, bad: Any) -> None:
    app = App("memory://")
    with pytest.raises(ValidationError, match="id must"):
        getattr(app.sync, verb)(bad)
    asyncio.run(app.close())
