"""A pytest plugin: each test must take back what it started or opened.

After the teardown of a test these are compared with what there was before the first test: threads,
pending asyncio tasks, child processes, and file descriptors (files, sockets, pipes). What is left
over fails the test. A thread or a process that is just ending is given time to end.

Three kinds of things may outlive a test:

* What a fixture of a wider scope made while it was set up belongs to it until it is torn down. A
  fixture that is a running service makes more while tests use it, and says so (`grows`): what it
  and they leave is compared when it has been torn down.
* What a module makes when it is first needed and keeps for its other tests (`kept`, `given_back`).
* What is made once for the whole process, which `_lasting` knows by name.

A process whose parent was killed is a child of ours no longer. Every program that a test starts
inherits a variable of the environment, and the last test of each module fails if there is a process
with that variable which does not descend from this one.

Processes and descriptors are read from /proc; without it, threads and tasks are still compared.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, TypeVar

import pytest

Thing = tuple[str, object, str]
"""A kind, what tells it from others of its kind, and what to say of it."""

MARK = "TEST_PROCESS"
"""In the environment of every program that a test starts: the id of the process of its test."""

TIME_TO_END = 10.0
"""Seconds that a thread or a process which is just ending gets to end."""

_PROC = Path("/proc")
_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


# ── what there is ──


def things() -> dict[tuple[str, object], str]:
    """Everything that a test might leave behind, with words for it."""
    return {(kind, key): words for kind, key, words in _all()}


def _all() -> Iterator[Thing]:
    for thread in threading.enumerate():
        yield "thread", thread, f"thread {thread.name}"
    # A task whose loop is closed can do nothing; asyncio tells when it is thrown away.
    for loop in [loop for loop in list(_loops) if not loop.is_closed()]:
        for task in asyncio.all_tasks(loop):
            yield "task", task, f"task {task.get_name()}: {task.get_coro()!r}"
    for pid in children():
        yield "process", pid, f"process {pid}: {_command(pid)}"
    for number, target in _descriptors():
        yield "descriptor", (number, target), f"descriptor {number}: {target}"


def children() -> Iterator[int]:
    """The processes that this process started and has not waited for."""
    for path in _PROC.glob("self/task/*/children"):
        with suppress(FileNotFoundError):
            yield from map(int, path.read_text().split())


def orphans() -> list[str]:
    """Processes that were started by programs of tests, and whose parents are dead."""
    ours = f"{MARK}={os.getpid()}".encode()
    found = []
    for path in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            pid = int(path.parent.name)
            if ours in path.read_bytes().split(b"\0") and not _descends(pid):
                found.append(f"process {pid}, whose parent is dead: {_command(pid)}")
    return found


def _descends(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


def _descriptors() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd") if _PROC.exists() else ():
        with suppress(FileNotFoundError):
            # A file that is deleted later is still the same.
            yield int(name), os.readlink(f"/proc/self/fd/{name}").removesuffix(" (deleted)")


def _command(pid: int) -> str:
    with suppress(OSError):
        words = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace").strip() or "it has ended, and nothing waited for it"
    return "it has ended"


def _lasting() -> set[tuple[str, object]]:
    """What is made once for this process, when a test first needs it."""
    pids, numbers = set(), set()
    tracker: Any = resource_tracker._resource_tracker
    pids.add(tracker._pid)
    numbers.add(tracker._fd)
    threads: set[threading.Thread] = set()
    if "asgiref.sync" in sys.modules:
        # Django runs its calls from async code in one thread.
        threads |= sys.modules["asgiref.sync"].SyncToAsync.single_thread_executor._threads
    if "tests.postgres.cluster" in sys.modules:
        for cluster in sys.modules["tests.postgres.cluster"].shared_clusters():
            pids.update(cluster.pids)
            numbers.update(cluster.descriptors)
    return {
        *(("thread", thread) for thread in threads),
        *(("process", pid) for pid in pids),
        *(("descriptor", found) for found in _descriptors() if found[0] in numbers),
    }


# ── who answers for it ──


class Guard:
    """Knows what was there before, and what fixtures hold."""

    def __init__(self) -> None:
        self._before = set(things())
        self._held: dict[object, set[tuple[str, object]]] = {}
        self._growing: set[object] = set()
        self._complaints: list[str] = []

    @contextmanager
    def holding(self, owner: object, *, grows: bool = False) -> Iterator[None]:
        """What is made in the block belongs to the owner; one that grows makes more later."""
        before = things().keys()
        try:
            yield
        finally:
            self._held.setdefault(owner, set()).update(things().keys() - before)
            if grows:
                self._growing.add(owner)

    def release(self, owner: object) -> None:
        self._held.pop(owner, None)
        self._growing.discard(owner)

    def complain(self, text: str) -> None:
        self._complaints.append(text)

    def leaks(self, *, module_ends: bool) -> list[str]:
        """What is there and belongs to nothing; it is told once."""
        if self._growing:
            return []
        deadline = time.monotonic() + TIME_TO_END
        while (left := self._left()) or (module_ends and orphans()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self._before.update(left)
        told = [*left.values(), *self._complaints, *(orphans() if module_ends else [])]
        self._complaints.clear()
        return sorted(told)

    def _left(self) -> dict[tuple[str, object], str]:
        there = things()
        known = self._before.union(_lasting(), *self._held.values())
        return {thing: words for thing, words in there.items() if thing not in known}


Fixture = TypeVar("Fixture", bound=Callable[..., Any])


def grows(fixture: Fixture) -> Fixture:
    """Goes below `@pytest.fixture`, for a service that starts and opens more while tests use it."""
    fixture.__grows__ = True  # type: ignore[attr-defined]
    return fixture


@contextmanager
def kept(owner: str) -> Iterator[None]:
    """What is made in the block stays until `given_back(owner)`."""
    with _guards[-1].holding(owner):
        yield


def given_back(owner: str) -> None:
    """What `kept` for that owner has been ended; what is left of it is a leak from now on."""
    _guards[-1].release(owner)


class _Complaints(logging.Handler):
    """asyncio only logs that a task was thrown away before it ended."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(logging.ERROR)
        self._guard = guard

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("Task was destroyed but it is pending"):
            self._guard.complain(text)


# ── hooks ──

_guards: list[Guard] = []
"""The one of this process, once its session has started."""

_failed = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    os.environ[MARK] = str(os.getpid())
    init = asyncio.BaseEventLoop.__init__

    def known(self: asyncio.BaseEventLoop, *args: Any, **more: Any) -> None:
        init(self, *args, **more)
        _loops.add(self)

    asyncio.BaseEventLoop.__init__ = known  # type: ignore[assignment, method-assign]


def pytest_sessionstart() -> None:
    _guards.append(Guard())
    logging.getLogger("asyncio").addHandler(_Complaints(_guards[-1]))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    with _guards[-1].holding(fixturedef, grows=getattr(fixturedef.func, "__grows__", False)):
        return (yield)


def pytest_fixture_post_finalizer(fixturedef: Any) -> None:
    _guards[-1].release(fixturedef)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    yield
    module_ends = nextitem is None or nextitem.path != item.path
    leaks = _guards[-1].leaks(module_ends=module_ends)
    # A test that failed half-way could not tidy up, and its failure says why.
    if leaks and not item.stash.get(_failed, False):
        pytest.fail("left behind:\n  " + "\n  ".join(leaks), pytrace=False)
