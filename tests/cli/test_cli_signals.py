"""Workers that are told to stop, killed, and frozen."""

from __future__ import annotations

import signal

import pytest

from tests.cli.program import Process, Program, wait_until
from tests.freezing import freeze
from windlass import JobSpec

SHORT = {"WINDLASS_LEASE": "1", "WINDLASS_REAP_INTERVAL": "0.3"}


def start_with_prefetch(program: Program, *arguments: str) -> tuple[Process, int]:
    """A worker with 2 slots on closed gates, and more jobs claimed ahead; how many gates.

    Quick jobs come first: a worker claims ahead once it has seen that jobs are quick.
    """
    gates = 8
    program.app.sync.add_jobs(
        [JobSpec(task="quick", payload={"n": n}) for n in range(40)]
        + [JobSpec(task="gate", payload={"n": n}, priority=1) for n in range(gates)]
    )
    worker = program.start_worker("-j", "2", *arguments, **SHORT)

    def is_ahead() -> bool:
        return (
            sum(line.startswith("gate") for line in program.ran()) == 2
            and len(program.jobs(state="running")) > 2
        )

    wait_until("jobs claimed ahead", is_ahead)
    return worker, gates


def test_sigterm_drains(program: Program) -> None:
    worker, gates = start_with_prefetch(program)
    worker.send(signal.SIGTERM)
    wait_until("the hand-back", lambda: len(program.jobs(state="running")) == 2)
    program.write("open", "")
    assert worker.wait() == 0
    left = program.jobs()
    assert len(left) == gates - 2
    assert {(job.state.value, job.attempts, job.locked_by) for job in left} == {("ready", 0, None)}
    assert program.app.sync.workers() == []
    assert sum(line.endswith("ends") for line in program.ran()) == 2


def test_a_second_sigterm_waits_no_longer(program: Program) -> None:
    job = program.add("gate")
    worker = program.start_worker("--grace", "3600")
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGTERM)
    worker.wait_for_line("again to hurry")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    after = program.job(job.id)
    assert (after.state, after.attempts, after.locked_by) == ("ready", 0, None)


def test_ctrl_c_drains_too(program: Program) -> None:
    program.add("gate")
    worker = program.start_worker()
    wait_until("the job to begin", program.ran)
    worker.send_to_group(signal.SIGINT)
    worker.wait_for_line("SIGINT: finishing what runs")
    program.write("open", "")
    assert worker.wait() == 0
    assert program.jobs() == []


def test_sighup_drains_too(program: Program) -> None:
    program.add("gate")
    worker = program.start_worker()
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGHUP)
    worker.wait_for_line("SIGHUP: finishing what runs")
    program.write("open", "")
    assert worker.wait() == 0
    assert program.jobs() == []


def test_sighup_reaches_all_workers_of_a_supervisor(program: Program) -> None:
    program.add("gate")
    worker = program.start("run", "work:app", "--processes", "2")
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGHUP)
    worker.wait_for_line("SIGHUP: workers finish what they run")
    program.write("open", "")
    assert worker.wait() == 0
    assert program.jobs() == []


def test_a_worker_under_nohup_does_not_hear_sighup(program: Program) -> None:
    program.write(
        "nohup.py",
        "import os, signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n",
    )
    worker = program.start_python("nohup.py", "-P", "-m", "windlass", "run", "work:app")
    worker.wait_for_line("is looking for jobs")
    worker.send(signal.SIGHUP)
    program.add("quick")
    wait_until("the job to run", program.ran)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.count("SIGHUP") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("task", ["stubborn", "blocks"])
def test_a_third_signal_ends_the_process(
    program: Program, number: signal.Signals, task: str
) -> None:
    """Also while a handler keeps the event loop for itself."""
    job = program.add(task)
    worker = program.start_worker("--grace", "3600")
    wait_until("the job to begin", program.ran)
    worker.send(number)
    if task == "stubborn":
        worker.wait_for_line("again to hurry")
        worker.send(number)
        wait_until("the cancel", lambda: "stubborn was cancelled" in program.ran())
        worker.send(number)
    else:

        def has_ended() -> bool:
            """Nothing tells how many it has heard, and those of one moment are one."""
            worker.send(number)
            return worker.has_ended

        wait_until("the end", has_ended)
    assert worker.wait() == -number
    assert program.job(job.id).state == "running", "its lease runs out instead"


def test_a_coroutine_that_ignores_its_cancellation_does_not_outlive_its_job(
    program: Program,
) -> None:
    """Its job is handed back and the process ends, and nothing else is done in between."""
    job = program.add("stubborn")
    program.write(
        "closing.py",
        "from contextlib import asynccontextmanager\n"
        "from windlass import App\n"
        "from work import mark, stubborn\n"
        "@asynccontextmanager\n"
        "async def lifespan():\n"
        "    yield\n"
        f"    mark('closing ' + (await app.client.get_job({job.id})).state)\n"
        "app = App(tasks={'stubborn': stubborn.function}, lifespan=lifespan)\n",
    )
    worker = program.start("run", "closing:app", "--grace", "0.1")
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    after = program.job(job.id)
    assert (after.state, after.attempts, after.locked_by) == ("ready", 0, None)
    assert "stubborn was cancelled" in program.ran()
    assert "closing running" in program.ran(), "it is handed back after all else was done"
    assert program.app.sync.workers() == []


@pytest.mark.parametrize("what", ["task", "to_thread", "thread"])
def test_what_a_handler_leaves_behind_does_not_keep_the_process(
    program: Program, what: str
) -> None:
    job = program.add("leaves_behind", {"what": what})
    worker = program.start_worker("--grace", "0.1")
    began = "deaf begins" if what != "task" else "stubborn begins"
    wait_until("it to begin", lambda: any(line.startswith(began) for line in program.ran()))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert program.job(job.id).state == "ready"


def test_a_signal_before_the_worker_runs_ends_it(program: Program) -> None:
    program.write("slow_import.py", "print('importing', flush=True)\nimport time\ntime.sleep(60)\n")
    worker = program.start("run", "slow_import:app")
    worker.wait_for_line("importing")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_kill_9_loses_nothing(program: Program) -> None:
    worker, gates = start_with_prefetch(program)
    worker.send(signal.SIGKILL)
    worker.wait()
    program.write("open", "")
    second = program.start_worker(**SHORT)
    wait_until("every job to finish", lambda: not program.jobs())
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    ended = [line.split()[1] for line in program.ran() if line.endswith("ends")]
    assert sorted(ended) == [str(n) for n in range(gates)]


def test_a_frozen_worker_cannot_settle_what_another_took_over(program: Program) -> None:
    job = program.add("gate", keep=600)
    frozen = program.start_worker("--worker-name", "frozen", **SHORT)
    wait_until("the job to begin", program.ran)
    freeze(frozen.send, program.file)
    other = program.start_worker("--worker-name", "other", **SHORT)
    wait_until("the take-over", lambda: (program.job(job.id).locked_by or "").startswith("other-"))
    program.write("open", "")
    wait_until("the job to complete", lambda: program.job(job.id).state == "completed")
    before = program.job(job.id)
    frozen.send(signal.SIGCONT)
    wait_until(
        "the refusal",
        lambda: frozen.count("the outcome was not written") or frozen.count("lost the lease"),
    )
    for worker in (frozen, other):
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    assert frozen.count("completed in") == 0
    assert other.count("completed in") == 1
    assert program.job(job.id) == before
    assert (before.output, before.deliveries) == (other.pid, 2)


def test_unlock_frees_what_a_dead_worker_held(program: Program) -> None:
    job = program.add("gate")
    worker = program.start_worker()
    wait_until("the job to begin", program.ran)
    worker.send(signal.SIGKILL)
    worker.wait()
    locked_by = program.job(job.id).locked_by
    assert locked_by is not None
    assert program.call("unlock", "nobody").exit_code == 1
    assert program.call("unlock", locked_by).stdout == "1 job freed\n"
    assert program.job(job.id).state == "ready"
