"""`windlass health` and `windlass doctor`."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from datetime import UTC, datetime, timedelta

from tests.cli.program import Program, wait_until
from windlass import App, parse_crontab


def findings(program: Program) -> tuple[int, dict[str, str]]:
    result = program.call("doctor", "--json")
    return result.exit_code, {one["code"]: one["level"] for one in json.loads(result.stdout)}


def test_health_of_a_database_and_of_workers(program: Program) -> None:
    missing = program.call("health")
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)
    assert not program.file.exists()
    program.call("migrate")
    assert program.call("health").exit_code == 0
    lonely = program.call("health", "--worker")
    assert lonely.exit_code == 1
    assert "no worker is alive" in lonely.stderr
    worker = program.start_worker()
    wait_until("a sign of life", lambda: program.call("health", "--worker").exit_code == 0)
    assert program.call("health", "--worker").stdout.startswith("ok: ")
    shown = json.loads(program.call("health", "--worker", "--json").stdout)
    assert shown["healthy"] is True
    assert len(shown["workers"]) == 1
    worker.send(signal.SIGKILL)
    worker.wait()
    program.call("unlock", *shown["workers"])
    dead = program.call("health", "--worker", "--json")
    assert (dead.exit_code, json.loads(dead.stdout)["healthy"]) == (1, False)


def test_doctor_is_content_with_a_sound_place(program: Program) -> None:
    program.add("t")
    code, found = findings(program)
    assert code == 0
    assert set(found.values()) == {"ok"}
    assert "SQLite" in program.call("doctor").stdout


def test_doctor_finds_what_is_wrong_with_jobs(program: Program) -> None:
    failed = program.add("t")
    program.app.sync.permanently_fail_jobs([failed.id])
    program.app.sync.pause(task="t")
    old = program.add("u")
    long_ago = int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1e6)
    with sqlite3.connect(program.file) as connection:
        connection.execute(
            "UPDATE windlass_jobs SET run_at = ?1, created_at = ?1 WHERE id = ?2",
            (long_ago, old.id),
        )
    connection.close()
    code, found = findings(program)
    assert code == 1
    assert found["failed_jobs"] == "warning"
    assert found["paused"] == "note"
    assert found["nobody_works"] == "problem"
    assert "windlass jobs retry --state failed" in program.call("doctor").stdout


def test_doctor_finds_jobs_of_tasks_that_no_worker_runs(program: Program) -> None:
    program.add("quikc")
    program.add("wrnog")
    assert "unknown_tasks" not in findings(program)[1], "nobody works at all, which is told"
    program.start_worker()
    wait_until("the worker's tasks", lambda: "unknown_tasks" in findings(program)[1])
    code, found = findings(program)
    assert (code, found["unknown_tasks"]) == (0, "warning")
    assert "2 tasks: quikc, wrnog" in program.call("doctor").stdout


def test_doctor_finds_jobs_that_wait_for_failed_chains(program: Program) -> None:
    sync = program.app.sync
    failed, open_one = (sync.start_chain("t") for _ in range(2))
    for _ in range(2):
        sync.add_job("t", blockers=[failed, open_one], on_blocker_failure="wait")
    sync.permanently_fail_jobs([failed.id])
    code, found = findings(program)
    assert (code, found["failed_blockers"]) == (0, "warning")
    text = program.call("doctor").stdout
    assert f"2 jobs wait for chains that failed or were cancelled: {failed.id}\n" in text
    assert f"windlass chains retry {failed.id}, or complete" in text
    sync.retry_chains([failed.id])
    assert "failed_blockers" not in findings(program)[1]


def test_doctor_finds_jobs_that_would_wait_for_ever(program: Program) -> None:
    sync = program.app.sync
    chain = sync.start_chain("t")
    first = sync.add_job("t", blockers=[chain])
    sync.add_job("t", blockers=[chain])
    assert "stuck_dependents" not in findings(program)[1]
    with sqlite3.connect(program.file) as connection:
        connection.execute("UPDATE windlass_chains SET state = 'completed', finished_at = 1")
    connection.close()
    code, found = findings(program)
    assert (code, found["stuck_dependents"]) == (1, "problem")
    assert (
        f"job {first.id} and 1 more wait for chains that have all" in program.call("doctor").stdout
    )
    for verb in ("cancel", "retry"):
        assert program.call("jobs", verb, str(first.id), str(first.id + 1)).exit_code == 0
    assert "stuck_dependents" not in findings(program)[1]
    assert program.job(first.id).state == "ready"


def test_doctor_finds_schedules_that_nobody_fires(program: Program) -> None:
    crontab = "* * * * * silent\n* * * * * ahead\n* * * * * asleep\n"
    crontab += "0 0 29 2 * well\n* * * * * new\n"  # a worker with the last one has just started

    async def prepare() -> None:
        async with App(program.url) as app:
            await app.store.register(parse_crontab(crontab))
            await app.client.pause_schedule("asleep")

    asyncio.run(prepare())
    with sqlite3.connect(program.file) as connection:
        for name, seconds in (("silent", -600), ("asleep", -600), ("ahead", 600), ("new", -600)):
            connection.execute(
                "UPDATE windlass_schedules SET floor_at = floor_at + ?1,"
                " seen_at = seen_at + ?1 * (?2 <> 'new') WHERE identifier = ?2",
                (seconds * 1_000_000, name),
            )
    connection.close()
    code, found = findings(program)
    assert code == 0
    assert found["paused_schedules"] == "note"
    assert found["schedule_silent"] == found["schedule_ahead"] == "warning"
    text = program.call("doctor").stdout
    assert "paused: schedule asleep" in text
    assert text.count("no worker fired it") == text.count("the clock was set back") == 1


def test_doctor_finds_leases_nobody_renews(program: Program) -> None:
    program.add("gate")
    worker = program.start_worker(WINDLASS_LEASE="1")
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGKILL)
    worker.wait()
    wait_until("the lease to end", lambda: "expired_leases" in findings(program)[1])
    assert findings(program)[0] == 1


def test_doctor_tells_rather_than_fails(program: Program) -> None:
    assert findings(program)[1] == {"no_database": "problem"}
    program.file.write_bytes(b"nonsense " * 1000)
    code, found = findings(program)
    assert (code, found["database_unusable"]) == (1, "problem")


def test_doctor_says_57_for_a_newer_file(program: Program) -> None:
    program.add("t")
    with sqlite3.connect(program.file) as connection:
        connection.execute("UPDATE windlass_meta SET value = 9999 WHERE key = 'breaking_version'")
    connection.close()
    code, found = findings(program)
    assert (code, found["schema_too_new"]) == (57, "problem")
