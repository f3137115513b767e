"""Several processes, restarts and --watch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from tests.cli.program import WORK, Program, wait_until
from tests.patience import PATIENCE
from windlass import JobSpec
from windlass.cli import supervised

TASK = "def task(payload, helpers):\n    open('ran.txt', 'a').write('{}\\n')\n"


def worker_pids(program: Program) -> set[int]:
    """The processes of the living workers: their ids are host-pid-random."""
    return {int(worker.id.split("-")[-2]) for worker in program.app.sync.workers()}


def test_two_processes_share_the_work_and_stop_together(program: Program) -> None:
    supervisor = program.start("run", "work:app", "--processes", "2", "-j", "1")
    supervisor.wait_for_line("is looking for jobs", times=2)
    assert supervisor.pid not in worker_pids(program)
    program.app.sync.add_jobs([JobSpec(task="gate", payload={"n": n}) for n in range(2)])
    wait_until("both gates to begin", lambda: len(program.ran()) == 2)
    program.write("open", "")
    wait_until("every job to finish", lambda: not program.jobs())
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert program.app.sync.workers() == []


def test_ctrl_c_counts_once(program: Program) -> None:
    supervisor = program.start("run", "work:app", "--processes", "2")
    supervisor.wait_for_line("is looking for jobs", times=2)
    program.add("gate")
    wait_until("the gate to begin", program.ran)
    supervisor.send_to_group(signal.SIGINT)
    supervisor.wait_for_line("finishing what runs; again to hurry", times=2)
    program.write("open", "")
    assert supervisor.wait() == 0
    assert program.jobs() == []
    assert program.ran() == ["gate 0 begins", "gate 0 ends"]


def test_a_second_signal_is_passed_on(program: Program) -> None:
    job = program.add("gate")
    supervisor = program.start("run", "work:app", "--processes", "2", "--grace", "3600")
    wait_until("the gate to begin", program.ran)
    supervisor.send(signal.SIGTERM)
    supervisor.wait_for_line("finishing what runs; again to hurry")
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert (program.job(job.id).state, program.job(job.id).attempts) == ("ready", 0)


def test_a_worker_that_dies_is_replaced(program: Program) -> None:
    supervisor = program.start("run", "work:app", "--processes", "2")
    supervisor.wait_for_line("is looking for jobs", times=2)
    victim = min(worker_pids(program))
    os.kill(victim, signal.SIGKILL)
    supervisor.wait_for_line(f"worker {victim} died (SIGKILL); another starts")
    supervisor.wait_for_line("is looking for jobs", times=3)
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


def test_workers_end_when_their_supervisor_is_killed(program: Program) -> None:
    supervisor = program.start("run", "work:app", "--processes", "2")
    supervisor.wait_for_line("is looking for jobs", times=2)
    supervisor.send(signal.SIGKILL)
    wait_until("the workers to sign off", lambda: program.app.sync.workers() == [])
    supervisor.wait()


def test_a_worker_whose_supervisor_dies_before_it_heard_of_it_ends_too() -> None:
    """A socket that is closed with unread bytes in it is reset, which is no orderly end."""
    ours, theirs = socket.socketpair()
    with theirs:
        worker = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import signal; from windlass.cli import supervised;"
                " supervised.connect().say_ready(); signal.pause()",
            ],
            env={**os.environ, supervised.MARKER: str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
        )
    with ours:
        assert ours.recv(1, socket.MSG_PEEK) == supervised.READY
    assert worker.wait(PATIENCE) == -signal.SIGTERM


def test_max_jobs_starts_the_process_anew(program: Program) -> None:
    program.app.sync.add_jobs([JobSpec(task="quick", payload={"n": n}) for n in range(7)])
    supervisor = program.start("run", "work:app", "--max-jobs", "3")
    wait_until("every job to finish", lambda: not program.jobs())
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    by_process: dict[str, int] = {}
    for line in program.ran():
        _, _, pid = line.split()
        by_process[pid] = by_process.get(pid, 0) + 1
    assert list(by_process.values()) == [3, 3, 1]
    assert supervisor.count("had its --max-jobs") == 2


def test_once_with_processes_ends_by_itself(program: Program) -> None:
    program.app.sync.add_jobs([JobSpec(task="quick", payload={"n": n}) for n in range(5)])
    result = program.run("run", "work:app", "--once", "--processes", "2", "--max-jobs", "2")
    assert result.returncode == 0, result.stderr
    assert sorted(line.split()[1] for line in program.ran()) == ["0", "1", "2", "3", "4"]


def test_watch_starts_anew_when_a_task_file_changes(program: Program) -> None:
    program.write("tasks/hello.py", TASK.format("one"))
    supervisor = program.start("run", "--watch", "--processes", "2")
    supervisor.wait_for_line("is looking for jobs", times=2)
    supervisor.wait_for_line("watching")
    program.add("hello")
    wait_until("the first version", lambda: program.ran() == ["one"])
    program.write("tasks/hello.py", TASK.format("two"))
    supervisor.wait_for_line("hello.py changed: workers start anew")
    supervisor.wait_for_line("is looking for jobs", times=4)
    program.add("hello")
    wait_until("the second version", lambda: program.ran() == ["one", "two"])
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


def test_watch_of_a_module_heeds_source_and_not_data(program: Program) -> None:
    supervisor = program.start("run", "work:app", "--watch")
    supervisor.wait_for_line("is looking for jobs")
    supervisor.wait_for_line("watching")
    program.add("quick")
    wait_until("the job to finish", lambda: not program.jobs())
    program.write("work.py", WORK.replace("quick {n}", "changed {n}"))
    supervisor.wait_for_line("is looking for jobs", times=2)
    program.add("quick")
    wait_until("the new version", lambda: program.ran()[-1].startswith("changed 0"))
    assert supervisor.count("workers start anew") == 1
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


def test_watch_waits_for_a_file_to_be_mended(program: Program) -> None:
    program.write("tasks/hello.py", "def hello(:\n")
    supervisor = program.start("run", "--watch")
    supervisor.wait_for_line("SyntaxError")
    supervisor.wait_for_line("waiting for a change of the source")
    program.write("tasks/hello.py", TASK.format("mended"))
    supervisor.wait_for_line("is looking for jobs")
    program.add("hello")
    wait_until("the task to run", lambda: program.ran() == ["mended"])
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


def test_watch_says_which_extra_is_missing(program: Program) -> None:
    program.write("watchfiles.py", "raise ImportError\n")
    result = program.run("run", "work:app", "--watch", PYTHONPATH=str(program.folder))
    assert result.returncode == 1
    assert "windlass[watch]" in result.stderr
