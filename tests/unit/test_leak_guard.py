"""The guard over the whole suite (`tests/leaks.py`) notices what a test leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tests.leaks
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]

IMPATIENT = """
import tests.leaks

tests.leaks.TIME_TO_END = 0.2
"""

PLANTED = """
import asyncio, gc, os, socket, subprocess, threading, time
import pytest

kept = []
held = threading.Event()

def tell(pid):
    with open("pids", "a") as file:
        file.write(f"{pid}\\n")

@pytest.fixture(scope="module")
def tidy():
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="of-the-tidy-fixture")
    thread.start()
    yield
    end.set()
    thread.join()

@pytest.fixture(scope="module")
def untidy():
    threading.Thread(target=held.wait, name="of-the-untidy-fixture", daemon=True).start()

def test_nothing():
    pass

def test_a_fixture_of_the_module(tidy, untidy):
    pass

def test_a_fixture_that_is_there_already(tidy, untidy):
    pass

def test_what_is_closed():
    with socket.socket(), open(__file__):
        asyncio.run(asyncio.sleep(0))
    subprocess.run(["true"], check=True)

def test_a_thread_that_is_just_ending():
    threading.Thread(target=time.sleep, args=(0.05,)).start()

def test_a_thread():
    threading.Thread(target=held.wait, name="planted", daemon=True).start()

def test_a_task():
    loop = asyncio.new_event_loop()
    kept.extend([loop, loop.create_task(asyncio.sleep(1000), name="planted")])

def test_a_task_that_is_thrown_away():
    loop = asyncio.new_event_loop()
    loop.create_task(asyncio.sleep(1000), name="planted")
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del loop
    gc.collect()

def test_a_process():
    kept.append(subprocess.Popen(["sleep", "1000"]))
    tell(kept[-1].pid)

def test_a_process_that_nothing_waited_for():
    kept.append(subprocess.Popen(["true"]))
    os.waitid(os.P_PID, kept[-1].pid, os.WEXITED | os.WNOWAIT)

def test_a_file():
    kept.append(open(__file__))

def test_a_socket():
    kept.append(socket.socket())

def test_a_pipe():
    kept.append(os.pipe())

def test_a_failure_is_told_alone():
    kept.append(open(__file__))
    raise ValueError("why")

def test_the_last_of_its_module():
    pass
"""

ORPHANED = """
import subprocess

def test_an_orphan():
    starts = "sleep 1000 > /dev/null 2>&1 & echo $!"
    told = subprocess.run(["sh", "-c", starts], check=True, capture_output=True, text=True)
    with open("pids", "a") as file:
        file.write(told.stdout)

def test_the_last_of_its_module():
    pass
"""

SERVING = """
import socket
import pytest
import tests.leaks

kept = []

@pytest.fixture(scope="module")
@tests.leaks.grows
def service():
    yield
    kept.pop().close()

def test_a_service_opens_more(service):
    kept.extend([socket.socket(), socket.socket()])

def test_the_end_of_a_service(service):
    pass
"""

KEEPING = """
import socket
import tests.leaks

kept = []

def test_something_is_kept():
    with tests.leaks.kept(__name__):
        kept.extend([socket.socket(), socket.socket()])

def test_something_is_given_back():
    kept.pop().close()
    tests.leaks.given_back(__name__)
"""

THREAD = r"thread planted"
TASK = r"task planted: <coroutine object sleep .*>"
DESTROYED = r"Task was destroyed but it is pending!.*"
SOCKET = r"descriptor \d+: socket:\[\d+\]"
LEAKS = {
    "test_a_thread": [THREAD],
    "test_a_task": [TASK, "eventpoll", "socket", "socket"],
    "test_a_task_that_is_thrown_away": [DESTROYED],
    "test_a_process": [r"process \d+: sleep 1000"],
    "test_a_process_that_nothing_waited_for": [r"process \d+: it has ended, .*"],
    "test_a_file": [r"descriptor \d+: .*test_planted.py"],
    "test_a_socket": [SOCKET],
    "test_the_end_of_a_service": [SOCKET],
    "test_something_is_given_back": [SOCKET],
    "test_a_pipe": [r"descriptor \d+: pipe:\[\d+\]"] * 2,
}
"""What the guard must say of each test that leaks, in any order."""


PLANTS = {
    "test_serving.py": SERVING,
    "test_keeping.py": KEEPING,
    "test_planted.py": PLANTED,
    "test_orphaned.py": ORPHANED,
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What pytest says of tests with planted leaks."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "conftest.py").write_text(IMPATIENT)
    for name, text in PLANTS.items():
        (folder / name).write_text(text)
    options = ("-p", "tests.leaks", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-v", *PLANTS],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    for pid in (folder / "pids").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    yield done.stdout + done.stderr


def told(report: str, test: str) -> list[str]:
    """What the guard said after that test."""
    found = re.search(rf" ERROR at teardown of {test} _+\nleft behind:\n((?:  .*\n)*)", report)
    return [line.strip() for line in found[1].splitlines()] if found else []


@pytest.mark.parametrize("test", LEAKS)
def test_a_leak_fails_its_test(report: str, test: str) -> None:
    said = told(report, test)
    assert len(said) == len(LEAKS[test]), report
    for words in LEAKS[test]:
        assert any(re.search(words, line) for line in said), report


def test_what_a_test_takes_back_is_no_leak(report: str) -> None:
    accused = set(re.findall(r"ERROR at teardown of (\w+)", report))
    assert accused == {*LEAKS, "test_the_last_of_its_module"}, report


def test_what_a_fixture_made_is_its_own_until_its_end(report: str) -> None:
    assert told(report, "test_the_last_of_its_module") == ["thread of-the-untidy-fixture"]


def test_a_process_whose_parent_is_dead_is_found_at_the_end_of_its_module(report: str) -> None:
    _, _, last = report.rpartition(" ERROR at teardown of test_the_last_of_its_module ")
    assert re.search(r"process \d+, whose parent is dead: sleep 1000\n", last), report


def test_a_test_that_failed_is_not_blamed_for_what_it_left(report: str) -> None:
    assert re.search(r"FAILED test_planted.py::test_a_failure_is_told_alone - ValueError", report)


def test_the_suite_is_guarded(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("tests.leaks")
    assert os.environ[tests.leaks.MARK] == str(os.getpid())
