"""The rig itself, in short runs: it passes what is sound, and it finds what is planted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.faults.kit import until
from tests.faults.processes import ROOT
from tests.patience import PATIENCE
from tests.postgres.cluster import children, lives
from tests.soak.course import Report, SoakPlan, run

SHORT = 24.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that find something keep their folders, which are not wanted here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def soak(store: str, plant: str = "") -> Report:
    said: list[str] = []
    plan = SoakPlan(SHORT, sample_every=0.5, plant=plant)
    report = run(store, plan, threading.Event(), said.append)
    assert report is not None
    return report


@pytest.mark.rig
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_a_sound_run(store: str) -> None:
    """Nothing is lost; what grows is left out, because in so short a time nothing has settled."""
    report = soak(store)
    assert report.broken == []
    assert report.ended > 500
    assert report.faults["workers killed"] > 0


@pytest.mark.rig
@pytest.mark.parametrize(
    ("plant", "figure"),
    [("descriptors", "worker: descriptors"), ("memory", "worker: memory, MiB")],
)
def test_a_leak_is_found(plant: str, figure: str) -> None:
    report = soak("sqlite", plant)
    assert report.broken == []
    assert figure in [finding.name for finding in report.grown]


@pytest.mark.rig
def test_a_job_that_vanishes_is_found() -> None:
    report = soak("sqlite", "loss")
    assert [line.partition(":")[0] for line in report.broken] == ["I1"]


@pytest.mark.rig
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, or a kill that leaves it no time to do anything."""
    program = [sys.executable, "-m", "tests.soak", "--minutes", "60", "sqlite"]
    save = ("--save", str(tmp_path / "soak.json"))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [*program, *save], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        until(lambda: any(tmp_path.glob("*/process-3-load.log")), "the load to be started")
        # The log of a process is opened before the process is started.
        until(lambda: len(children(process.pid)) >= 4, "its fourth process")
        started = children(process.pid)
        process.send_signal(number)
        assert process.wait(PATIENCE) == (-number if number == signal.SIGKILL else 1)
        until(lambda: not any(map(lives, started)), "its processes to end")
        assert number == signal.SIGKILL or not any(tmp_path.glob("windlass-soak-*"))
    finally:
        process.kill()
        process.wait()
