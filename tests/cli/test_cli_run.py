"""`windlass run`: where tasks come from, and what the flags do."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

from tests.cli.program import Program, wait_until


@pytest.mark.parametrize("target", ["work:app", "work", "work.py:app", "./work.py"])
def test_an_app_is_found_from_the_current_folder(program: Program, target: str) -> None:
    program.add("quick", {"n": 5})
    result = program.run("run", target, "--once")
    assert result.returncode == 0, result.stderr
    assert program.ran()[0].startswith("quick 5 ")
    assert program.jobs() == []


def test_an_app_in_a_file_elsewhere_with_its_neighbours(program: Program, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program.write("shop/neighbour.py", "NAME = 'quick'\n")
    program.write(
        "shop/queue.py",
        "from neighbour import NAME\nfrom windlass import App\napp = App(tasks={NAME: print})\n",
    )
    program.add("quick")
    target = f"{program.folder}/shop/queue.py:app"
    result = program.run("run", target, "--once", "-c", program.url, cwd=elsewhere)
    assert result.returncode == 0, result.stderr
    assert "completed" in result.stderr


def test_an_app_in_a_package(program: Program) -> None:
    program.write("shop/__init__.py", "")
    program.write("shop/jobs.py", "from work import app as the_app\n")
    program.add("quick")
    assert program.run("run", "shop.jobs", "--once").returncode == 0
    assert len(program.ran()) == 1


def test_the_connection_overrides_the_apps_own(program: Program) -> None:
    program.write(
        "own.py", "from work import *\napp = App('sqlite:///own.db', tasks={'quick': quick})\n"
    )
    program.add("quick", {"n": 1})
    assert program.run("run", "own:app", "--once", "-c", program.url).returncode == 0
    assert len(program.ran()) == 1
    assert not (program.folder / "own.db").exists()


def test_an_app_may_add_jobs_while_it_is_imported(program: Program) -> None:
    program.write("eager.py", "from work import *\nquick.enqueue(n=9)\n")
    result = program.run("run", "eager:app", "--once", "--log-level", "info")
    assert result.returncode == 0, result.stderr
    assert program.ran()[0].startswith("quick 9 ")
    refused = program.run("run", "eager:app", "--once", "-c", "sqlite:///other.db")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_a_tasks_folder_with_nested_names_and_programs(program: Program) -> None:
    program.write("helper.py", "WORD = 'nested'\n")
    program.write(
        "tasks/users/verify.py",
        "from helper import WORD\n\nasync def verify(payload, helpers):\n"
        "    open('ran.txt', 'a').write(f'{WORD} {payload}\\n')\n",
    )
    program.write(
        "tasks/shout", '#!/bin/sh\nread line\necho "shout $line" >> ran.txt\n', mode=0o755
    )
    program.add("users/verify", {"a": 1})
    program.add("shout", {"b": 2}, priority=1)
    result = program.run("run", "--once", "-j", "1")
    assert result.returncode == 0, result.stderr
    assert program.ran() == ["nested {'a': 1}", 'shout {"b":2}']
    assert program.jobs() == []


def test_once_also_runs_what_jobs_add_and_then_ends(program: Program) -> None:
    program.write(
        "tasks/down.py",
        "async def task(payload, helpers):\n"
        "    if payload['n']:\n"
        "        await helpers.add_job('down', {'n': payload['n'] - 1})\n",
    )
    program.add("down", {"n": 3})
    result = program.run("run", "--once")
    assert result.returncode == 0
    assert result.stderr.count("completed") == 4
    assert program.jobs() == []


def test_only_exclude_and_forbidden_flags(program: Program) -> None:
    program.add("quick", {"n": 1}, flags=["slow"])
    program.add("quick", {"n": 2})
    program.add("wrong")
    assert program.run("run", "work:app", "--once", "--exclude", "quick").returncode == 0
    assert [job.state for job in program.jobs()] == ["ready", "ready", "failed"]
    program.run("run", "work:app", "--once", "--only", "quick", "--forbidden-flag", "slow")
    assert [line.split()[1] for line in program.ran()] == ["2"]


def test_schema_only_installs_and_ends(program: Program) -> None:
    result = program.run("run", "--schema-only")
    assert result.returncode == 0, result.stderr
    assert program.jobs() == []
    assert program.run("run", "work:app", "--schema-only", "--processes", "2").returncode == 0


def test_migrate_and_its_sql(program: Program) -> None:
    printed = program.call("migrate", "--sql")
    assert "CREATE TABLE windlass_jobs" in printed.stdout
    assert not program.file.exists()
    assert program.call("migrate").exit_code == 0
    assert program.file.exists()
    assert program.call("migrate").exit_code == 0


def test_settings_come_from_flags_environment_and_file(program: Program) -> None:
    program.write("windlass.toml", 'log_format = "json"\nworker_name = "from-file"\n')
    shown = program.run("run", "work:app", "--once", WINDLASS_LOG_LEVEL="info")
    assert '"message": "worker from-file-' in shown.stderr
    shown = program.run("run", "work:app", "--once", "--log-format", "text", "--worker-name", "me")
    assert "worker me-" in shown.stderr
    assert not shown.stderr.startswith("{")
    quiet = program.run("run", "work:app", "--once", "--log-level", "error")
    assert quiet.stderr == ""


def test_a_thread_that_never_ends_does_not_keep_the_process(program: Program) -> None:
    job = program.add("deaf")
    worker = program.start_worker("--grace", "0")
    wait_until("the task to begin", lambda: program.ran() == ["deaf begins"])
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    after = program.job(job.id)
    assert (after.state, after.attempts, after.locked_by) == ("ready", 0, None)


def test_garbage_is_collected_while_jobs_run(program: Program) -> None:
    """It was not while modules were imported, which then stay."""
    program.write(
        "looking.py",
        "import gc\n"
        "from work import App, mark\n"
        "app = App()\n"
        "@app.task\n"
        "async def look():\n"
        "    mark([gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 0])\n",
    )
    program.add("look")
    assert program.run("run", "looking:app", "--once").returncode == 0
    program.write("choosing.py", "from looking import *\ngc.set_threshold(1234)\n")
    program.add("look")
    assert program.run("run", "choosing:app", "--once").returncode == 0
    usual = gc.get_threshold()[0]
    assert program.ran() == [f"[True, {usual}, True]", "[True, 1234, True]"]


def test_uvloop_runs_the_worker_where_it_is_installed(program: Program) -> None:
    """A stand-in, so that the choice is seen wherever the tests run."""
    program.write(
        "uvloop.py",
        "import asyncio\n"
        "class Loop(asyncio.SelectorEventLoop): ...\n"
        "def new_event_loop(): return Loop()\n",
    )
    program.write(
        "looking.py",
        "import asyncio\n"
        "from work import App, mark\n"
        "app = App()\n"
        "@app.task\n"
        "async def look(): mark(type(asyncio.get_running_loop()).__module__)\n",
    )
    program.add("look")
    path = f"{program.folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    result = program.run("run", "looking:app", "--once", PYTHONPATH=path)
    assert result.returncode == 0, result.stderr
    assert program.ran() == ["uvloop"]
