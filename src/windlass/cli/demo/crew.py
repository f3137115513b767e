"""Real worker processes for the demo."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

LEASE = 2.0


class Crew:
    """Starts `windlass run` processes by name and makes sure that all of them end."""

    def __init__(
        self, url: str, schema: str, folder: Path, program: str = "windlass.cli.demo.tasks:app"
    ) -> None:
        self._url = url
        self._schema = schema
        self._folder = folder
        self._program = program
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def hire(self, name: str, crontab: Path | None = None) -> int:
        """Start a worker; its process id."""
        schedules = () if crontab is None else ("--crontab", str(crontab))
        log = self._folder / f"{name}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "windlass", "run", self._program),
                *("--worker-name", name, "--poll-interval", "500", "-j", "4", *schedules),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self._environment(),
                start_new_session=True,
            )
        self._processes[name] = process
        return process.pid

    def _environment(self) -> dict[str, str]:
        """The URL is not an argument, since all users of the machine can read those."""
        return {
            **os.environ,
            "WINDLASS_URL": self._url,
            "WINDLASS_SCHEMA": self._schema,
            "WINDLASS_LEASE": str(LEASE),
            "WINDLASS_REAP_INTERVAL": "0.5",
            "WINDLASS_SYNCHRONOUS": "normal",
        }

    def last_words(self) -> list[str]:
        """The last lines of each worker's log."""
        return [
            f"{log.stem}: {line}"
            for log in sorted(self._folder.glob("*.log"))
            for line in log.read_text("utf-8", "replace").splitlines()[-3:]
        ]

    def exit_code(self, name: str) -> int | None:
        return self._processes[name].returncode

    async def kill(self, name: str) -> None:
        """SIGKILL: no goodbye, no clean-up."""
        process = self._processes.pop(name)
        process.kill()
        await process.wait()

    async def dismiss(self, *, patience: float = 10.0) -> dict[str, int]:
        """SIGTERM to all that are left; their exit codes."""
        codes = {}
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            try:
                codes[name] = await asyncio.wait_for(process.wait(), patience)
            except TimeoutError:
                process.kill()
                codes[name] = await process.wait()
        self._processes.clear()
        return codes
