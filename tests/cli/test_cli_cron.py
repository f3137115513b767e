"""Crontabs before they run, and the schedules that a database knows."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.program import Program, wait_until
from windlass import parse_crontab
from windlass.cli.cron import crontab
from windlass.client import ScheduleInfo
from windlass.clock import to_micros

CRONTAB = """\
# what the shop does by itself
30 4 * * 1 report ?id=weekly&tz=Europe/Berlin&fill=1w2d&max=3&queue=reports {kind: "week"}

*/5 * * * * users/sweep
"""


class Stopped:
    """A clock that shows one time."""

    def now(self) -> int:
        return to_micros(datetime(2026, 10, 17, 12, 0, tzinfo=UTC))


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crontab, "SYSTEM", Stopped())


# ── files ──


@pytest.mark.usefixtures("stopped")
def test_check_shows_words_options_and_runs(program: Program) -> None:
    program.write("crontab", CRONTAB)
    result = program.call("cron", "check", "--count", "2")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout == (
        "line 2: weekly (task report)\n"
        "  at 04:30 on Monday, Europe/Berlin time\n"
        "  fill 1w2d, max attempts 3, queue reports\n"
        '  payload {"kind":"week"}\n'
        "  next:\n"
        "    Mon 2026-10-19 04:30 +02:00  (2026-10-19 02:30 UTC)\n"
        "    Mon 2026-10-26 04:30 +01:00  (2026-10-26 03:30 UTC)\n"
        "\n"
        "line 4: users/sweep\n"
        "  every 5 minutes\n"
        "  next:\n"
        "    Sat 2026-10-17 12:05 +00:00\n"
        "    Sat 2026-10-17 12:10 +00:00\n"
    )
    assert not program.file.exists()


@pytest.mark.usefixtures("stopped")
def test_check_shows_every_option_that_is_set(program: Program) -> None:
    line = "0 0 * * * t ?fill=90s&fillmax=7&priority=0&jobKey=k&jobKeyMode=preserve_run_at"
    shown = program.call("cron", "check", "-", input=line).stdout.splitlines()
    assert shown[2] == "  fill 1m30s, fillmax 7, priority 0, key k, key mode preserve_run_at"
    assert len(shown) == 4 + 5


@pytest.mark.usefixtures("stopped")
def test_check_as_json(program: Program) -> None:
    program.write("crontab", CRONTAB)
    weekly, sweep = json.loads(program.call("cron", "check", "--json").stdout)
    runs = weekly.pop("next")
    assert runs[:2] == ["2026-10-19T02:30:00Z", "2026-10-26T03:30:00Z"]
    assert len(runs) == 5
    assert weekly == {
        "line": 2,
        "id": "weekly",
        "task": "report",
        "pattern": "30 4 * * 1",
        "tz": "Europe/Berlin",
        "words": "at 04:30 on Monday, Europe/Berlin time",
        "fill": 777_600,
        "fillmax": 1000,
        "max_attempts": 3,
        "queue": "reports",
        "priority": None,
        "key": None,
        "key_mode": "replace",
        "flags": None,
        "strict": None,
        "payload": {"kind": "week"},
    }
    assert (sweep["line"], sweep["id"], sweep["tz"]) == (4, "users/sweep", "UTC")


NONE = "no schedules; a schedule is known once a worker has started with it\n"
REMOVED = "schedule weekly removed; a worker that starts with it knows it anew\n"


def test_check_is_a_program_that_reads_the_machines_clock(program: Program) -> None:
    program.write("deploy/crontab", CRONTAB.replace("\n", "\r\n"))
    before = datetime.now(UTC)
    result = program.run("cron", "check", "deploy/crontab", "--json", "--count", "1000")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert [schedule["line"] for schedule in found] == [2, 4]
    runs = [datetime.fromisoformat(run) for run in found[1]["next"]]
    assert len(runs) == 1000
    assert runs == sorted(set(runs))
    assert runs[0] > before


def test_mistakes_are_all_named_and_nothing_is_shown(program: Program) -> None:
    program.write("crontab", "\r\n* * * * * fine\r\n0 25 * * * a\r\n0 0 * * * b ?max=none\r\n* *")
    for words in ((), ("--json",)):
        result = program.run("cron", "check", *words)
        assert (result.returncode, result.stdout) == (2, "")
        first, second, third = result.stderr.splitlines()
        assert first.startswith("crontab: line 3, column 3, hour: hour 25 is out of range; hour")
        assert second.startswith("crontab: line 4, column 14, max: ")
        assert third.startswith("crontab: line 5, column 1, pattern: a pattern has five fields")


def test_mistakes_of_standard_input_name_it(program: Program) -> None:
    result = program.call("cron", "check", "-", input="@hourly\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("standard input: line 1, column 8, task: there is no task")


def test_a_file_that_cannot_be_read_is_one_error(program: Program) -> None:
    missing = program.run("cron", "check")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == (
        "windlass: there is no crontab crontab; name one, or - for standard input\n"
    )
    folder = program.call("cron", "check", ".")
    assert (folder.exit_code, folder.stdout) == (2, "")
    assert folder.stderr.startswith("windlass: . cannot be read: ")
    (program.folder / "latin").write_bytes("# one\n# Übung\n".encode("latin-1"))
    latin = program.call("cron", "check", "latin")
    assert latin.exit_code == 2
    assert latin.stderr == "windlass: latin: line 2 is not UTF-8; save it as that\n"


def test_a_crontab_without_schedules(program: Program) -> None:
    empty = program.call("cron", "check", "-", input="# nothing yet\n\n")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "no schedules\n")
    as_json = program.call("cron", "check", "-", "--json", input="")
    assert (as_json.exit_code, as_json.stdout, as_json.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("count", ["0", "1001", "many"])
def test_check_refuses_a_count_it_cannot_show(program: Program, count: str) -> None:
    result = program.call("cron", "check", "-", "--count", count, input="")
    assert result.exit_code == 2
    assert "--count" in result.stderr


# ── the database ──


def know(program: Program, text: str = CRONTAB) -> None:
    """Make schedules known as a worker does when it starts."""

    async def work() -> None:
        store = program.app.store
        await store.open()
        await store.register(parse_crontab(text))

    program.app._portal.call(work())


def known(program: Program) -> dict[str, ScheduleInfo]:
    return {info.id: info for info in program.app.sync.list_schedules()}


def test_list_is_a_table(program: Program) -> None:
    know(program)
    program.app.sync.pause_schedule("users/sweep")
    result = program.call("cron", "list")
    assert result.exit_code == 0
    header, sweep, weekly = result.stdout.splitlines()
    assert header.split() == ["ID", "TASK", "PATTERN", "LAST", "NEXT", "STATE", "SEEN"]

    def cell(row: str, name: str) -> str:
        return row[header.index(name) :].split("  ")[0]

    assert cell(weekly, "ID") == "weekly"
    assert cell(weekly, "TASK") == "report"
    assert cell(weekly, "PATTERN") == "30 4 * * 1 (Europe/Berlin)"
    assert cell(weekly, "STATE") == "active"
    assert cell(weekly, "LAST") == ""
    info = known(program)["weekly"]
    assert info.next_at is not None
    assert cell(weekly, "NEXT") == info.next_at.isoformat(sep=" ")
    assert cell(weekly, "SEEN") == info.seen_at.isoformat(sep=" ", timespec="seconds")
    assert cell(sweep, "PATTERN") == "*/5 * * * *"
    assert (cell(sweep, "STATE"), cell(sweep, "NEXT")) == ("paused", "")


def test_list_as_json(program: Program) -> None:
    know(program)
    found: list[dict[str, Any]] = json.loads(program.run("cron", "list", "--json").stdout)
    assert [schedule["id"] for schedule in found] == ["users/sweep", "weekly"]
    assert found[1]["schedule"]["payload"] == {"kind": "week"}
    assert found[1]["paused_at"] is None
    assert datetime.fromisoformat(found[1]["next_at"]).tzinfo is not None


def test_check_of_the_schedules_declared_in_an_app(program: Program) -> None:
    source = program.folder / "work.py"
    source.write_text(
        source.read_text().replace(
            "@app.task\nasync def quick",
            '@app.cron("@daily", tz="Asia/Tokyo")\n@app.task\nasync def quick',
        )
    )
    result = program.run("cron", "check", "work:app")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("quick\n  at 00:00 every day, Asia/Tokyo time\n  next:\n")
    [shown] = json.loads(program.run("cron", "check", "work:app", "--json").stdout)
    assert (shown["line"], shown["id"], len(shown["next"])) == (None, "quick", 5)
    assert not program.file.exists()
    wrong = program.run("cron", "check", "work:nothing")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "work has no 'nothing'; it has app" in wrong.stderr


def test_list_of_nothing(program: Program) -> None:
    assert program.call("cron", "list").exit_code == 1  # there is no database
    know(program, "")
    result = program.call("cron", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", NONE)
    assert program.call("cron", "list", "--json").stdout == "[]\n"


def test_pause_and_resume(program: Program) -> None:
    know(program)
    paused = program.run("cron", "pause", "weekly", "users/sweep", "weekly")
    assert paused.returncode == 0
    assert paused.stdout == "schedule weekly is paused\nschedule users/sweep is paused\n"
    assert all(info.paused_at for info in known(program).values())
    resumed = program.run("cron", "resume", "weekly")
    info = known(program)["weekly"]
    assert info.next_at is not None
    assert resumed.stdout == f"schedule weekly is active, next at {info.next_at}\n"
    assert info.paused_at is None
    assert known(program)["users/sweep"].paused_at is not None
    as_json = json.loads(program.call("cron", "pause", "weekly", "--json").stdout)
    assert [schedule["id"] for schedule in as_json] == ["weekly"]
    assert as_json[0]["paused_at"] is not None


def test_trigger_adds_jobs_and_prints_their_ids(program: Program) -> None:
    know(program)
    program.app.sync.pause_schedule("weekly")
    result = program.run("cron", "trigger", "weekly", "users/sweep")
    assert (result.returncode, result.stdout) == (0, "1\n2\n")
    one, two = program.jobs()
    assert (one.task, one.queue, one.max_attempts) == ("report", "reports", 3)
    assert one.payload["kind"] == "week"
    assert one.payload["_cron"]["backfilled"] is False
    assert two.task == "users/sweep"
    as_json = json.loads(program.call("cron", "trigger", "weekly", "--json").stdout)
    assert [(job["id"], job["task"]) for job in as_json] == [(3, "report")]


def test_remove_forgets(program: Program) -> None:
    know(program)
    result = program.run("cron", "remove", "weekly")
    assert (result.returncode, result.stdout) == (0, REMOVED)
    assert list(known(program)) == ["users/sweep"]
    as_json = json.loads(program.call("cron", "remove", "users/sweep", "--json").stdout)
    assert [schedule["id"] for schedule in as_json] == ["users/sweep"]
    assert known(program) == {}


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "remove"])
def test_an_unknown_schedule_changes_nothing(program: Program, verb: str) -> None:
    know(program)
    program.app.sync.pause_schedule("users/sweep")
    before = known(program)
    result = program.call("cron", verb, "weekly", "nope", "users/sweep", "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("windlass: no schedule is called 'nope' or 'none' here")
    assert "windlass cron list" in result.stderr
    after = known(program)
    assert list(after) == list(before)
    assert {id: info.paused_at for id, info in after.items()} == {
        id: info.paused_at for id, info in before.items()
    }
    assert program.jobs() == []


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "remove"])
def test_a_verb_needs_an_id(program: Program, verb: str) -> None:
    know(program)
    result = program.call("cron", verb)
    assert result.exit_code == 2
    assert "ID" in result.stderr


def test_remove_says_what_it_does_not_do(program: Program) -> None:
    text = " ".join(program.call("cron", "remove", "--help").stdout.split())
    assert "fire it no more until they start again" in text
    assert "Pause is what keeps it silent for good" in text


def test_a_worker_makes_its_crontab_known(program: Program) -> None:
    program.write("tasks/report.py", "def task(payload, helpers): ...")
    program.write("crontab", CRONTAB)
    worker = program.start("run")
    wait_until("the schedules", lambda: program.file.exists() and known(program))
    assert list(known(program)) == ["users/sweep", "weekly"]
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert program.call("cron", "list").stdout.count("\n") == 3
