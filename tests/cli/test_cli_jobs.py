"""Looking at jobs and changing them."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime

import click
import pytest

from tests.cli.program import Program, wait_until
from windlass import JobSpec
from windlass.cli import output

LATER = datetime(2099, 1, 1, tzinfo=UTC)


def test_list_shows_a_table_and_pages(program: Program) -> None:
    program.app.sync.add_jobs([JobSpec(task=f"t{n}", queue="q") for n in range(3)])
    page = program.call("jobs", "list", "--limit", "2")
    header, *rows = page.stdout.splitlines()
    assert header.split()[:3] == ["ID", "STATE", "TASK"]
    assert [row.split()[:4] for row in rows] == [
        ["3", "ready", "t2", "q"],
        ["2", "ready", "t1", "q"],
    ]
    assert "--after 2" in page.stderr
    rest = program.call("jobs", "list", "--after", "2", "--json")
    assert [job["task"] for job in json.loads(rest.stdout)] == ["t0"]


def test_list_selects(program: Program) -> None:
    program.add("a")
    program.add("b", queue="q", run_at=LATER)

    def ids(*words: str) -> list[int]:
        return [
            job["id"] for job in json.loads(program.call("jobs", "list", "--json", *words).stdout)
        ]

    assert ids() == [2, 1]
    assert ids("--state", "scheduled") == [2]
    assert ids("--state", "scheduled", "--state", "ready") == [2, 1]
    assert ids("--task", "a") == [1]
    assert ids("--queue", "q") == [2]
    assert ids("--key", "none") == []
    assert program.call("jobs", "list", "--state", "sleepy").exit_code == 2


def test_show_tells_everything_even_the_traceback(program: Program) -> None:
    job = program.add("wrong", key="k")
    assert program.run("run", "work:app", "--once").returncode == 0
    shown = program.call("jobs", "show", str(job.id)).stdout
    assert "state:       failed" in shown
    assert "attempts:    1 of" in shown
    assert "ValueError: it went wrong" in shown
    assert "work.py" in shown
    as_json = json.loads(program.call("jobs", "show", str(job.id), "--json").stdout)
    assert as_json["key"] == "k"
    assert datetime.fromisoformat(as_json["finished_at"]).tzinfo is not None


def test_show_tells_every_failed_attempt(program: Program) -> None:
    job = program.add("wrong", max_attempts=3)
    for attempt in (1, 2):
        assert program.run("run", "work:app", "--once").returncode == 0
        now = datetime.now(UTC)
        program.app.sync.reschedule_jobs([job.id], run_at=now, attempts=attempt)
    shown = program.call("jobs", "show", str(job.id)).stdout.splitlines()
    at = shown.index("failed attempts:")
    for number, line in enumerate(shown[at + 1 : at + 3], 1):
        assert line.startswith(f"  {number} at 2"), shown
        assert line.endswith(": ValueError: it went wrong"), shown


def test_a_table_has_colors_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("1", "failed"), ("2", "ready")]
    output.print_table(("ID", "STATE"), rows)
    assert capsys.readouterr().out == "ID  STATE\n1   failed\n2   ready\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.print_table(("ID", "STATE"), rows)
    shown = capsys.readouterr().out
    assert click.unstyle(shown).split() == ["ID", "STATE", "1", "failed", "2", "ready"]
    header, failed, ready = shown.splitlines()
    assert click.style("STATE ", bold=True) in header
    assert failed.endswith(click.style("failed", fg="red"))
    assert "\x1b" not in ready


def test_show_tells_what_a_running_job_says(program: Program) -> None:
    program.write(
        "tasks/talk.py",
        "from pathlib import Path\nimport time\n"
        "def task(payload, helpers):\n"
        "    helpers.log('began')\n"
        "    helpers.log({'step': 2})\n"
        "    helpers.progress(0.5, 'half')\n"
        "    while not Path('open').exists():\n"
        "        time.sleep(0.01)\n"
        "    return [1, 2]\n",
    )
    job = program.add("talk", {"a": "ü"}, keep=600, flags=["f"], queue="q")

    def shows(*lines: str) -> bool:
        shown = program.call("jobs", "show", str(job.id)).stdout
        return all(f"{line}\n" in shown for line in lines)

    worker = program.start("run")
    wait_until(
        "its notes",
        lambda: shows("state:       running", "progress:    50% half", "  began", '  {"step":2}'),
    )
    assert shows('payload:     {"a":"ü"}', "queue:       q", "flags:       f")
    program.write("open", "")
    wait_until("its output", lambda: shows("state:       completed", "output:      [1,2]"))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_show_of_an_unknown_job_fails(program: Program) -> None:
    program.add("a")
    result = program.call("jobs", "show", "99")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no job 99" in result.stderr


def test_verbs_by_id(program: Program) -> None:
    one, two, three = (program.add("t", run_at=LATER).id for _ in range(3))
    assert program.call("jobs", "cancel", str(one)).stdout.startswith("1 job cancelled")
    assert program.job(one).state == "cancelled"
    assert program.call("jobs", "fail", str(two), "--reason", "no more").exit_code == 0
    assert (program.job(two).state, program.job(two).last_error) == ("failed", "no more")
    assert program.call("jobs", "retry", str(one), str(two)).stdout == "2 jobs will run\n"
    assert program.job(two).state == "ready"
    done = program.call("jobs", "complete", str(three), "--json")
    assert [job["id"] for job in json.loads(done.stdout)] == [three]
    assert {job.id for job in program.jobs(state="ready")} == {one, two}


def test_verbs_by_selection_reach_every_page(program: Program) -> None:
    program.app.sync.add_jobs([JobSpec(task="many", run_at=LATER) for _ in range(2_345)])
    program.add("other", run_at=LATER)
    result = program.call("jobs", "fail", "--task", "many")
    assert (result.exit_code, result.stdout) == (0, "2345 jobs failed\n")
    assert program.app.sync.counts()["failed"] == 2_345
    assert [job.task for job in program.jobs(state="scheduled")] == ["other"]
    assert program.call("jobs", "retry", "--state", "failed").stdout == "2345 jobs will run\n"


def test_reschedule_changes_what_is_given_and_zero_is_a_value(program: Program) -> None:
    job = program.add("t", run_at=LATER, priority=7)
    program.call("jobs", "reschedule", str(job.id), "--priority", "0", "--max-attempts", "4")
    now = program.job(job.id)
    assert (now.priority, now.max_attempts, now.run_at) == (0, 4, LATER)
    program.call("jobs", "fail", str(job.id))
    program.call("jobs", "reschedule", str(job.id), "--attempts", "0", "--run-at", "+1h")
    assert program.job(job.id).state == "scheduled"
    assert program.call("jobs", "reschedule", str(job.id)).exit_code == 2


def test_ids_that_did_not_change_are_named_with_the_reason(program: Program) -> None:
    job = program.add("gate")
    worker = program.start_worker()
    worker_id = worker.output.split("worker ")[1].split()[0]
    wait_until("the job to run", lambda: program.ran() == ["gate 0 begins"])
    result = program.call("jobs", "complete", str(job.id), "77")
    assert result.exit_code == 1
    assert result.stdout == "0 jobs completed\n"
    assert f"job {job.id} is running ({worker_id})" in result.stderr
    assert "job 77 is unknown" in result.stderr
    cancelled = program.call("jobs", "cancel", str(job.id))
    assert cancelled.exit_code == 0
    wait_until("the running job to stop", lambda: program.job(job.id).state == "cancelled")


@pytest.mark.parametrize("verb", ["retry", "cancel", "complete", "fail"])
def test_a_verb_needs_ids_or_a_selection_but_not_both(program: Program, verb: str) -> None:
    program.add("t")
    assert program.call("jobs", verb).exit_code == 2
    assert program.call("jobs", verb, "1", "--task", "t").exit_code == 2
    assert program.call("jobs", verb, "one").exit_code == 2
    assert program.job(1).state == "ready"


def test_remove_by_key(program: Program) -> None:
    program.add("t", key="k")
    assert program.call("jobs", "remove", "k").stdout == "job 1 removed\n"
    assert program.jobs() == []
    gone = program.call("jobs", "remove", "k")
    assert (gone.exit_code, "no job has the key 'k'" in gone.stderr) == (1, True)


def test_pause_and_resume_are_remembered_and_shown(program: Program) -> None:
    program.add("quick")
    assert program.call("pause", "--task", "quick").stdout == "task quick is paused\n"
    assert program.call("pause", "--queue", "q").exit_code == 0
    shown = json.loads(program.call("pause", "--json").stdout)
    assert shown == {"tasks": ["quick"], "queues": ["q"], "elsewhere": []}
    assert program.run("run", "work:app", "--once").returncode == 0
    assert program.ran() == []
    assert program.call("resume", "--task", "quick").stdout == "queue q is paused\n"
    assert program.run("run", "work:app", "--once").returncode == 0
    assert len(program.ran()) == 1
    assert program.call("pause", "--task", "a", "--queue", "b").exit_code == 2


def test_cleanup_removes_and_counts(program: Program) -> None:
    job = program.add("t")
    program.app.sync.permanently_fail_jobs([job.id])
    result = program.call("cleanup", "delete-failed", "prune", "gc-tasks", "gc-queues", "--json")
    assert json.loads(result.stdout) == {
        "delete-failed": 1, "prune": 0, "gc-tasks": 0, "gc-queues": 0,
    }  # fmt: skip
    assert program.jobs() == []
    assert program.call("cleanup", "everything").exit_code == 2
    assert program.call("cleanup").exit_code == 2
