"""The program under test: real processes, their output by line, and a view on their database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from click.testing import CliRunner, Result

from tests.patience import PATIENCE
from windlass import App, Job
from windlass.cli import cli

T = TypeVar("T")

WINDLASS = (sys.executable, "-P", "-m", "windlass")

WORK = '''
import asyncio, os, threading, time
from pathlib import Path
from windlass import App

app = App()


def mark(text):
    with open("ran.txt", "a") as file:
        file.write(f"{text}\\n")


@app.task
async def quick(n: int = 0):
    mark(f"quick {n} {os.getpid()}")


@app.task
async def gate(n: int = 0):
    """Runs until the file `open` exists."""
    mark(f"gate {n} begins")
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    mark(f"gate {n} ends")
    return os.getpid()


@app.task
def deaf():
    """A thread that never listens."""
    mark("deaf begins")
    threading.Event().wait()


@app.task
async def stubborn():
    """A coroutine that ignores its cancellation."""
    mark(f"stubborn begins {os.getpid()}")
    while not Path("open").exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            mark("stubborn was cancelled")


@app.task
async def leaves_behind(what: str):
    """Its own part ends when it is told to; what it began does not."""
    if what == "task":
        asyncio.get_running_loop().keep = asyncio.create_task(stubborn.function())
    elif what == "to_thread":
        await asyncio.to_thread(deaf.function)
    else:
        threading.Thread(target=deaf.function).start()
    mark(f"left a {what} behind")
    await asyncio.Event().wait()


@app.task
async def blocks():
    """A coroutine that keeps the event loop for itself."""
    mark("blocks begins")
    while not Path("open").exists():
        time.sleep(0.01)


@app.task(max_attempts=1)
def wrong():
    raise ValueError("it went wrong")
'''


def wait_until(what: str, look: Callable[[], T | None]) -> T:
    """Look until the answer is true; fail, saying what was waited for, after half a minute."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)
    return found


class Process:
    """A started `windlass`, with both outputs gathered line by line."""

    def __init__(self, command: tuple[str, ...], folder: Path, environment: dict[str, str]):
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def count(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def wait_for_line(self, text: str, times: int = 1) -> None:
        def look() -> bool:
            seen = self.count(text) >= times
            assert seen or self._process.poll() is None, f"ended without {text!r}: {self.output}"
            return seen

        try:
            wait_until(f"the line {text!r}", look)
        except AssertionError as error:
            raise AssertionError(f"{error}; there was:\n{self.output}") from None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """As a terminal does for Ctrl-C: to every process of the group."""
        os.killpg(self.pid, number)

    def wait(self) -> int:
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def end(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        # To close the pipe would wait for the reader.
        assert not self._reader.is_alive(), "a process that this one started has outlived it"
        if self._process.stdout is not None:
            self._process.stdout.close()


class Program:
    """One folder with one database, and the programs run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "windlass.db"
        self.url = f"sqlite:///{self.file}"
        self._processes: list[Process] = []
        self._app: App | None = None

    # ── programs ──

    def environment(self, **more: str) -> dict[str, str]:
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WINDLASS_", "PG")) and name not in _NOT_OURS
        }
        return {**ours, **more}

    def start(self, *arguments: str, **environment: str) -> Process:
        return self.start_python(*WINDLASS[1:], *arguments, **environment)

    def start_python(self, *arguments: str, **environment: str) -> Process:
        command = (sys.executable, *arguments)
        process = Process(command, self.folder, self.environment(**environment))
        self._processes.append(process)
        return process

    def start_worker(self, *arguments: str, **environment: str) -> Process:
        """A worker on the tasks of WORK that has begun to look for jobs."""
        process = self.start("run", "work:app", *arguments, **environment)
        process.wait_for_line("is looking for jobs")
        return process

    def run(
        self, *arguments: str, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run to its end, as a process."""
        return subprocess.run(
            [*WINDLASS, *arguments],
            cwd=cwd or self.folder,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def call(self, *arguments: str, input: str | None = None) -> Result:
        """Run to its end in this process: quicker, where no process is part of the question."""
        home = Path.cwd()
        os.chdir(self.folder)
        try:
            return CliRunner().invoke(
                cli, list(arguments), input=input, prog_name="windlass", catch_exceptions=False
            )
        finally:
            os.chdir(home)

    # ── files ──

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def ran(self) -> list[str]:
        """What the tasks of WORK said, in order."""
        path = self.folder / "ran.txt"
        return path.read_text().splitlines() if path.exists() else []

    # ── the database ──

    @property
    def app(self) -> App:
        if self._app is None:
            self._app = App(self.url)
        return self._app

    def jobs(self, **wanted: str) -> list[Job]:
        """The oldest first, unlike a list."""
        return self.app.sync.list_jobs(limit=10_000, **wanted)[::-1]  # type: ignore[arg-type]

    def job(self, id: int) -> Job:
        job = self.app.sync.get_job(id)
        assert job is not None, f"there is no job {id}"
        return job

    def add(self, task: str, payload: object = None, **options: object) -> Job:
        return self.app.sync.add_job(task, payload, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        for process in self._processes:
            process.end()
        if self._app is not None:
            self._app._portal.call(self._app.store.close())
            self._app._portal.close()


_NOT_OURS = ("DATABASE_URL", "PYTHONPATH")
