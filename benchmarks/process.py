"""The runner's end of a system's process."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from benchmarks.systems.base import System

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds for a process to start, to answer or to end."""
DONE = None


class ChildError(RuntimeError):
    """A process ended, was silent for too long, or failed; the text has the end of its errors."""


class Child:
    """A process that adds or works. Leaving the `with` block ends it."""

    def __init__(
        self, system: System, role: Literal["add", "work"], url: str, **options: Any
    ) -> None:
        self.system = system
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [*system.command(), role, url, json.dumps(system.options | options)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(DONE)

    def wait_until_ready(self) -> None:
        if self.receive() != {"ready": True}:
            raise ChildError(f"{self.system.name} did not begin with its readiness")

    def receive(self, patience: float = PATIENCE) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            raise ChildError(f"{self.system.name} is silent\n{self.errors()}") from None
        if line is DONE:
            raise ChildError(f"{self.system.name} ended by itself\n{self.errors()}")
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, patience: float = PATIENCE, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.receive(patience)

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-4000:]

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(15)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


def install(system: System, url: str) -> None:
    ended = subprocess.run(
        [*system.command(), "install", url, json.dumps(system.options)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if ended.returncode != 0:
        raise ChildError(f"{system.name} cannot be installed:\n{ended.stderr[-4000:]}")


def environment() -> dict[str, str]:
    """Without settings of the caller's that would be read by a system or by Node.js."""
    foreign = ("WINDLASS", "PG", "PROCRASTINATE", "GRAPHILE", "DATABASE_URL", "NODE_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return kept | {"NODE_ENV": "production", "PYTHONUNBUFFERED": "1"}
