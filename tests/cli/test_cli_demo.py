"""The demo checks its own claims; here it is run as in CI, without a terminal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.program import Program
from windlass import App
from windlass.cli.demo import scenes
from windlass.cli.demo.crew import Crew
from windlass.cli.demo.stage import Stage


@pytest.mark.slow
def test_the_demo_happens(program: Program) -> None:
    program.write("windlass.toml", "this is not TOML")
    process = program.start("demo", WINDLASS_URL="sqlite:///must-not-be-touched.db")
    assert process.wait() == 0, process.output
    assert process.count("✓") == 6
    assert "\r" not in process.output
    assert not (program.folder / "must-not-be-touched.db").exists()


def test_a_demo_that_is_stopped_leaves_no_worker(program: Program) -> None:
    process = program.start("demo")
    process.wait_for_line("added 300 jobs")
    workers = [int(pid) for pid in re.findall(r"\(process (\d+)\)", process.output)]
    assert len(workers) == 2
    process.send(signal.SIGTERM)
    assert process.wait() == 1
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def as_worker(program: Program, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the demo start this script where it would start a worker."""
    path = program.write("worker", f"#!/bin/sh\n{script}\n", 0o755)
    monkeypatch.setattr("windlass.cli.demo.crew.sys", SimpleNamespace(executable=str(path)))


def test_a_demo_whose_worker_ends_says_what_the_worker_said(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_worker(program, monkeypatch, "echo there is no room; exit 3")
    result = program.call("demo")
    assert result.exit_code == 1
    assert "ada: there is no room" in result.output
    assert "worker ada ended by itself" in result.output
    assert "Traceback" not in result.output


def test_a_worker_that_will_not_stop_is_killed(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_worker(program, monkeypatch, "trap '' TERM; echo deaf; while :; do sleep 0.1; done")

    async def main() -> dict[str, int]:
        crew = Crew("sqlite:///unused.db", "unused", tmp_path)
        await crew.hire("ada")
        while crew.last_words() != ["ada: deaf"]:
            await asyncio.sleep(0.01)
        return await crew.dismiss(patience=0.2)

    assert asyncio.run(main()) == {"ada": -signal.SIGKILL}


def test_on_a_terminal_one_line_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    stage = Stage()
    for number in (1, 2):
        stage.live(f"{number} completed", is_worth_a_line=False)
    stage.good("all ran")
    lines = capsys.readouterr().out.split("\n")
    assert [part.strip() for part in lines[0].split("\r")] == ["", "1 completed", "2 completed"]
    assert lines[1:] == ["  \x1b[32m✓\x1b[0m all ran", ""]


class Dismissed:
    """A crew that ended, each worker with its exit code."""

    def __init__(self, **codes: int) -> None:
        self._codes = codes

    async def dismiss(self) -> dict[str, int]:
        return self._codes


async def ending(app: App, show: scenes.Show) -> None:
    await app.client.add_job("greet")
    await show.ending()


async def flow(app: App, show: scenes.Show) -> None:
    """No worker runs the jobs."""
    await show.flow()


@pytest.mark.parametrize(
    ("scene", "crew", "told"),
    [
        (ending, Dismissed(ada=0, grace=1), "a worker did not stop cleanly: .*'grace': 1"),
        (ending, Dismissed(ada=0, grace=0), "jobs are left over: .*'ready': 1"),
        (flow, Dismissed(), "waited 0.2 s for 300 completed jobs"),
    ],
)
def test_a_claim_that_does_not_hold_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, scene: Any, crew: Any, told: str
) -> None:
    monkeypatch.setattr(scenes, "_PATIENCE", 0.2)

    async def main() -> None:
        async with App("memory://") as app:
            await scene(app, scenes.Show(app, crew, Stage()))

    with pytest.raises(scenes.SceneFailed, match=told):
        asyncio.run(main())
