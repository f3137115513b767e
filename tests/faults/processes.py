"""Starting and ending worker processes, for every place where workers are ill-treated."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]

Process = subprocess.Popen[bytes]


def spawn(
    module: str, log: IO[bytes], environment: Mapping[str, str], *, tethered: bool = False
) -> Process:
    """Run a module of the tests with these variables beside those of this process.

    A tethered one has a pipe as its standard input that ends with this process, and Ctrl-C in the
    terminal does not reach it.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE if tethered else None,
        stdout=log,
        stderr=log,
        start_new_session=tethered,
    )


def worker_environment(url: str, ledger: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """What an app of the tests reads: its database, its ledger, and settings by their names."""
    chosen = {f"WINDLASS_{name.upper()}": str(value) for name, value in settings.items()}
    return {"WINDLASS_URL": url, "LEDGER": str(ledger), **chosen}


def stop(processes: Iterable[Process]) -> list[int]:
    """SIGTERM each that lives; the exit codes of all."""
    asked = list(processes)
    for process in asked:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    return [process.wait(timeout=PATIENCE) for process in asked]


def kill(processes: Iterable[Process]) -> None:
    """End them whatever they do, stopped ones too."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
