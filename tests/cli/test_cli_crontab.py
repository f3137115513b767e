"""`windlass run` with a crontab: where it is found, what is wrong with it, and when it changes."""

from __future__ import annotations

import signal

from tests.cli.program import Program, wait_until

TASK = "def task(payload, helpers):\n    open('ran.txt', 'a').write(payload['word'] + '\\n')\n"


def known(program: Program) -> dict[str, str]:
    return {info.id: info.pattern for info in program.app.sync.list_schedules()}


def test_the_file_beside_the_tasks_folder_is_the_crontab(program: Program) -> None:
    program.write("jobs/tasks/hello.py", TASK)
    program.write("jobs/crontab", "0 4 * * 1 hello ?max=3 {word: 'weekly'}\n")
    worker = program.start("run", "--tasks", "jobs/tasks")
    wait_until("the schedule to be known", lambda: known(program) == {"hello": "0 4 * * 1"})
    job = program.app.sync.trigger_schedule("hello")
    assert job.max_attempts == 3
    wait_until("the job to run", lambda: program.ran() == ["weekly"])
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_crontab_can_be_named_for_an_app(program: Program) -> None:
    program.write("crontab", "@daily nobody_reads_this\n")
    program.write("nightly.txt", "@daily quick {n: 7}\r\n")
    worker = program.start("run", "work:app", "--crontab", "nightly.txt")
    wait_until("the schedule to be known", lambda: known(program) == {"quick": "@daily"})
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_missing_crontab_means_no_schedules(program: Program) -> None:
    worker = program.start("run", "work:app", "--crontab", "nowhere.txt")
    worker.wait_for_line("there is no crontab nowhere.txt")
    worker.wait_for_line("is looking for jobs")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert known(program) == {}


def test_a_broken_crontab_is_refused_in_one_line(program: Program) -> None:
    program.write("nightly.txt", "# every night\n0 25 * * * quick\n61 * * * * quick\n")
    result = program.run("run", "work:app", "--crontab", "nightly.txt")
    assert result.returncode == 2
    assert result.stderr == (
        "windlass: nightly.txt: line 2, column 3, hour: hour 25 is out of range; hour takes 0-23,"
        " *, */n, a-b, a-b/n, and lists of these with commas (and 1 more; windlass cron check"
        " shows all)\n"
    )


def test_once_fires_no_schedules(program: Program) -> None:
    program.write("nightly.txt", "* * * * * quick\n")
    result = program.run("run", "work:app", "--once", "--crontab", "nightly.txt")
    assert result.returncode == 0, result.stderr
    assert known(program) == {}


def test_watch_heeds_the_crontab(program: Program) -> None:
    program.write("tasks/hello.py", TASK)
    supervisor = program.start("run", "--watch")
    supervisor.wait_for_line("is looking for jobs")
    supervisor.wait_for_line("watching")
    program.write("crontab", "0 4 * * 1 hello\n")
    supervisor.wait_for_line("crontab changed: workers start anew")
    wait_until("the schedule to be known", lambda: known(program) == {"hello": "0 4 * * 1"})
    program.write("crontab", "0 4 * * 8 hello\n")
    supervisor.wait_for_line("day of week 8 is out of range")
    supervisor.wait_for_line("waiting for a change of the source")
    program.write("crontab", "0 4 * * 7 hello\n")
    wait_until("the new schedule", lambda: known(program) == {"hello": "0 4 * * 7"})
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
