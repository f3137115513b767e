"""--tenant on the commands that have it: whose jobs they add, show, change and run."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.program import Program, wait_until
from windlass import Job, parse_crontab

A, B = "acme", "bond"

SHOW = """
from windlass import App, Context

app = App()


@app.task
async def parent(ctx: Context):
    await ctx.add_job("child")


@app.task
async def show(ctx: Context):
    with open("ran.txt", "a") as file:
        file.write(f"{ctx.job.tenant}\\n")
"""


def answer(program: Program, *arguments: str) -> Any:
    result = program.call(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def listed(program: Program, *arguments: str) -> list[tuple[int, str | None]]:
    return [(job["id"], job["tenant"]) for job in answer(program, "jobs", "list", *arguments)]


def add_three(program: Program, task: str = "t", **options: Any) -> list[Job]:
    """One of the default tenant, one of acme, one of bond."""
    clients = [program.app.sync.for_tenant(tenant) for tenant in ("", A, B)]
    return [client.add_job(task, **options) for client in clients]


# ── adding ──


def test_add_adds_to_the_tenant(program: Program) -> None:
    assert answer(program, "add", "t", "--tenant", A, "--key", "k")["tenant"] == A
    assert answer(program, "add", "t", "--key", "k")["tenant"] is None
    assert answer(program, "add", "t", "--key", "k", "--tenant", "")["id"] == 2
    assert (
        program.call("add", "--jsonl", "-", "--tenant", B, input='{"task": "t"}\n').exit_code == 0
    )
    assert listed(program) == [(3, B), (2, None), (1, A)]


def test_add_strict(program: Program) -> None:
    added = answer(program, "add", "t", "--queue", "ledger", "--strict")
    assert (added["queue"], added["strict"]) == ("ledger", True)
    assert answer(program, "add", "t", "--queue", "ledger")["strict"] is False
    line = '{"task": "t", "queue": "ledger", "strict": true}\n'
    assert program.call("add", "--jsonl", "-", input=line).exit_code == 0
    assert [job["strict"] for job in answer(program, "jobs", "list")] == [True, False, True]
    assert "queue:       ledger (strict)\n" in program.call("jobs", "show", "1").stdout
    assert "queue:       ledger\n" in program.call("jobs", "show", "2").stdout


def test_a_file_and_strict_exclude_each_other(program: Program) -> None:
    refused = program.call("add", "--jsonl", "-", "--strict", input='{"task": "t"}\n')
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


# ── looking ──


def test_list_names_tenants_where_there_are_some(program: Program) -> None:
    program.add("t")
    header, *_ = program.call("jobs", "list").stdout.splitlines()
    assert header.split()[0] == "ID"
    add_three(program)
    header, *rows = program.call("jobs", "list").stdout.splitlines()
    assert header.split()[:2] == ["TENANT", "ID"]
    assert [row.split()[:2] for row in rows] == [
        [B, "4"],
        [A, "3"],
        ["2", "ready"],
        ["1", "ready"],
    ]
    header, *rows = program.call("jobs", "list", "--tenant", "").stdout.splitlines()
    assert header.split()[0] == "ID"
    assert [row.split()[0] for row in rows] == ["2", "1"]


def test_list_pages_within_a_tenant_from_the_newest(program: Program) -> None:
    for _ in range(3):
        add_three(program)
    page = program.call("jobs", "list", "--tenant", A, "--limit", "2")
    assert [row.split()[:2] for row in page.stdout.splitlines()[1:]] == [[A, "8"], [A, "5"]]
    assert "--after 5" in page.stderr
    assert listed(program, "--tenant", A, "--limit", "2", "--after", "5") == [(2, A)]
    assert listed(program, "--limit", "2", "--after", "5") == [(4, None), (3, B)]


def test_another_tenants_job_does_not_exist(program: Program) -> None:
    _, acme, _ = add_three(program)
    assert "tenant:      acme\n" in program.call("jobs", "show", str(acme.id)).stdout
    assert answer(program, "jobs", "show", str(acme.id), "--tenant", A)["tenant"] == A
    for tenant in ("", B):
        refused = program.call("jobs", "show", str(acme.id), "--tenant", tenant)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"windlass: there is no job {acme.id}, or it is finished and was not kept\n"
        )


def test_the_setting_is_the_tenant_of_every_command(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TENANT", A)
    assert answer(program, "add", "t")["tenant"] == A
    assert answer(program, "add", "t", "--tenant", B)["tenant"] == B
    assert listed(program) == [(1, A)]
    assert listed(program, "--tenant", "") == []


# ── changing ──


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (("cancel",), "cancelled"),
        (("complete",), None),
        (("fail",), "failed"),
        (("reschedule", "--run-at", "+1h"), "scheduled"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_verbs_change_the_tenants_jobs_alone(
    program: Program, verb: tuple[str, ...], state: str | None
) -> None:
    default, acme, bond = add_three(program)
    refused = program.call("jobs", *verb, str(acme.id), str(bond.id), "--tenant", A)
    assert refused.exit_code == 1
    assert refused.stderr == f"windlass: job {bond.id} is unknown, or finished and was not kept\n"
    found = program.app.sync.get_job(acme.id)
    assert (None if found is None else found.state) == state
    program.add("t")
    assert program.call("jobs", *verb, "--task", "t", "--tenant", B).stdout.startswith("1 job ")
    assert program.job(default.id).state == "ready"


def test_retry_and_remove_are_for_the_tenants_jobs(program: Program) -> None:
    jobs = add_three(program, key="k")
    program.app.sync.permanently_fail_jobs([job.id for job in jobs])
    retried = program.call("jobs", "retry", "--state", "failed", "--tenant", A)
    assert retried.stdout == "1 job will run\n"
    assert program.job(jobs[1].id).state == "ready"
    assert (
        program.call("jobs", "remove", "k", "--tenant", B).stdout == f"job {jobs[2].id} removed\n"
    )
    assert program.call("jobs", "remove", "k", "--tenant", B).exit_code == 1
    assert program.call("jobs", "remove", "k").stdout == f"job {jobs[0].id} removed\n"
    assert listed(program) == [(jobs[1].id, A)]


def test_pause_and_resume_are_the_tenants(program: Program) -> None:
    program.app.sync.counts()  # makes the database
    paused = program.call("pause", "--task", "show", "--tenant", A)
    assert paused.stdout == "task show is paused\n"
    assert program.call("pause", "--queue", "q").stdout == (
        "queue q is paused\ntask show of tenant acme is paused\n"
    )
    assert answer(program, "pause") == {
        "tasks": [],
        "queues": ["q"],
        "elsewhere": [{"tenant": A, "kind": "task", "name": "show"}],
    }
    assert program.call("pause", "--tenant", B).stderr == "nothing is paused\n"
    program.write("shows.py", SHOW)
    add_three(program, "show")
    assert program.run("run", "shows:app", "--once").returncode == 0
    assert program.ran() == ["None", B]
    assert program.call("resume", "--task", "show", "--tenant", A).stdout == ""
    assert program.run("run", "shows:app", "--once").returncode == 0
    assert program.ran() == ["None", B, A]


def test_cleanup_deletes_failed_jobs_of_the_tenant(program: Program) -> None:
    jobs = add_three(program)
    program.app.sync.permanently_fail_jobs([job.id for job in jobs])
    assert answer(program, "cleanup", "delete-failed", "--tenant", A) == {"delete-failed": 1}
    assert listed(program) == [(3, B), (1, None)]
    assert answer(program, "cleanup", "delete-failed") == {"delete-failed": 2}


# ── schedules ──


@pytest.fixture
def scheduled(program: Program) -> Program:
    """Both acme and the default tenant have the schedule `nightly`."""
    schedules = parse_crontab("0 4 * * * report ?id=nightly")

    async def register() -> None:
        store = program.app.store
        await program.app.open()
        for tenant in ("", A):
            await store.register(schedules, tenant)

    program.app._portal.call(register())
    return program


def test_schedules_are_listed_with_their_tenants(scheduled: Program) -> None:
    header, *rows = scheduled.call("cron", "list").stdout.splitlines()
    assert header.split()[:3] == ["TENANT", "ID", "TASK"]
    assert [row.split()[0] for row in rows] == ["nightly", A]
    header, row = scheduled.call("cron", "list", "--tenant", "").stdout.splitlines()
    assert (header.split()[0], row.split()[0]) == ("ID", "nightly")
    assert [info["tenant"] for info in answer(scheduled, "cron", "list", "--tenant", A)] == [A]


def test_schedule_verbs_are_for_the_tenants(
    scheduled: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def states() -> dict[str | None, bool]:
        return {
            info["tenant"]: info["paused_at"] is not None
            for info in answer(scheduled, "cron", "list", "--tenant", "")
            + answer(scheduled, "cron", "list", "--tenant", A)
        }

    assert scheduled.call("cron", "pause", "nightly", "--tenant", A).exit_code == 0
    assert states() == {None: False, A: True}
    monkeypatch.setenv("WINDLASS_TENANT", A)
    assert scheduled.call("cron", "resume", "nightly").exit_code == 0
    assert states() == {None: False, A: False}
    [job] = answer(scheduled, "cron", "trigger", "nightly")
    assert job["tenant"] == A
    monkeypatch.delenv("WINDLASS_TENANT")
    [job] = answer(scheduled, "cron", "trigger", "nightly")
    assert job["tenant"] is None
    refused = scheduled.call("cron", "remove", "nightly", "--tenant", B)
    assert refused.exit_code == 1
    assert "no schedule is called 'nightly' here" in refused.stderr
    assert scheduled.call("cron", "remove", "nightly", "--tenant", A).exit_code == 0
    assert states() == {None: False}


# ── working ──


def test_run_serves_the_tenants_that_are_named(program: Program) -> None:
    program.write("shows.py", SHOW)
    add_three(program, "show")
    assert program.run("run", "shows:app", "--once", "--tenant", A).returncode == 0
    assert program.ran() == [A]
    worker = program.start("run", "shows:app", "--tenant", "", "--tenant", A)
    worker.wait_for_line("is looking for jobs")
    add_three(program, "show")
    wait_until("three more", lambda: len(program.ran()) == 4)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert program.ran()[1:] == ["None", "None", A]
    assert {job.tenant for job in program.jobs(task="show")} == {B}
    assert program.run("run", "shows:app", "--once").returncode == 0
    assert program.ran()[4:] == [B, B]


def test_children_of_a_supervisor_serve_the_same_tenants(program: Program) -> None:
    program.write("shows.py", SHOW)
    add_three(program, "show")
    worker = program.start("run", "shows:app", "--processes", "2", "--tenant", B)
    wait_until("bond's job", lambda: program.ran() == [B])
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert listed(program) == [(2, A), (1, None)]


@pytest.mark.parametrize("tenants", [("--tenant", A), ("--tenant", A, "--tenant", B), ()])
def test_what_a_handler_adds_is_its_tenants(program: Program, tenants: tuple[str, ...]) -> None:
    program.write("shows.py", SHOW)
    program.app.sync.for_tenant(A).add_job("parent")
    assert program.run("run", "shows:app", "--once", *tenants).returncode == 0
    assert [(job.task, job.tenant) for job in program.jobs()] == [("child", A)]


def test_schedules_of_a_worker_belong_to_its_tenants(program: Program) -> None:
    program.write("shows.py", SHOW)
    program.write("crontab.txt", "0 4 * * * show\n")
    worker = program.start(
        "run", "shows:app", "--crontab", "crontab.txt", "--tenant", A, "--tenant", B
    )
    wait_until("the schedules", lambda: len(program.app.sync.list_schedules()) == 2)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert [info.tenant for info in program.app.sync.list_schedules()] == [A, B]


def test_unlock_is_for_workers_of_all_tenants(program: Program) -> None:
    program.app.sync.for_tenant(A).add_job("gate")
    worker = program.start_worker()
    wait_until("the job to run", lambda: program.ran() == ["gate 0 begins"])
    [info] = program.app.sync.workers()
    freed = program.run("unlock", info.id, WINDLASS_TENANT=B)
    assert (freed.returncode, freed.stdout) == (0, "1 job freed\n"), freed.stderr
    worker.send(signal.SIGKILL)


def test_doctor_tells_of_all_tenants(program: Program) -> None:
    acme = program.app.sync.for_tenant(A)
    acme.pause(task="t")
    acme.permanently_fail_jobs([acme.add_job("t").id])
    [schedule] = parse_crontab("0 4 * * * t ?id=nightly")
    program.app._portal.call(program.app.store.register([schedule], A))
    acme.pause_schedule("nightly")
    told = program.run("doctor", WINDLASS_TENANT=B).stdout
    assert "1 job failed for good" in told
    assert "paused: task t of tenant acme" in told
    assert "paused: schedule nightly of tenant acme" in told
    assert "windlass cron resume --tenant acme nightly" in told


# ── what cannot be ──

COMMANDS = [
    ("add", "t"),
    ("add", "--jsonl", "-"),
    ("jobs", "list"),
    ("jobs", "show", "1"),
    ("jobs", "retry", "1"),
    ("jobs", "cancel", "1"),
    ("jobs", "complete", "1"),
    ("jobs", "fail", "1"),
    ("jobs", "reschedule", "1", "--priority", "1"),
    ("jobs", "remove", "k"),
    ("pause", "--task", "t"),
    ("resume", "--task", "t"),
    ("cleanup", "prune"),
    ("cron", "list"),
    ("cron", "pause", "s"),
    ("cron", "resume", "s"),
    ("cron", "trigger", "s"),
    ("cron", "remove", "s"),
]


WRONG = [("x" * 129, "128"), ("\udcff", "not valid Unicode")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_tenant_that_cannot_be_is_one_error(program: Program, command: tuple[str, ...]) -> None:
    program.add("t")
    for wrong, said in WRONG:
        result = program.call(*command, "--tenant", wrong, input="")
        assert (result.exit_code, result.stdout) == (2, "")
        assert_one_error(result.stderr, said)


@pytest.mark.parametrize("before", [(), ("--tenant", A)], ids=" ".join)
def test_a_worker_of_a_tenant_that_cannot_be(program: Program, before: tuple[str, ...]) -> None:
    for wrong, said in WRONG:
        result = program.run("run", "work:app", "--once", *before, "--tenant", wrong)
        assert (result.returncode, result.stdout) == (2, "")
        assert_one_error(result.stderr, said)


def assert_one_error(text: str, said: str) -> None:
    assert text.startswith("windlass: tenant ")
    assert said in text
    assert text.count("\n") == 1


def test_a_worker_of_more_than_its_apps_tenant_is_refused(program: Program) -> None:
    several = ("run", "work:app", "--once", "--tenant", A, "--tenant", B)
    result = program.run(*several, WINDLASS_TENANT=A)
    assert result.returncode == 2
    assert result.stderr.startswith("windlass: this app is of the tenant 'acme'")
    program.app.sync.for_tenant(B).add_job("quick")
    one = program.run("run", "work:app", "--once", "--tenant", B, WINDLASS_TENANT=A)
    assert one.returncode == 0, "what is given on the command line counts"
    assert len(program.ran()) == 1


def test_commands_about_the_database_have_no_tenant(program: Program) -> None:
    program.add("t")
    for command in ("health", "doctor", "migrate", "unlock"):
        refused = program.call(command, "--tenant", A)
        assert refused.exit_code == 2
        assert "--tenant" in refused.stderr
