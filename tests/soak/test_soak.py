"""The rig itself, in short runs: it passes what is sound, and it finds what is planted."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.soak.course import Plan, Report, run

SHORT = 24.0


def soak(store: str, plant: str = "") -> Report:
    said: list[str] = []
    plan = Plan(SHORT, sample_every=0.5, plant=plant)
    report = run(store, plan, threading.Event(), said.append)
    assert report is not None
    return report


def grown(report: Report, names: Sequence[str]) -> list[str]:
    return [finding.name for finding in report.grown if finding.name in names]


@pytest.mark.rig
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_a_sound_run(store: str) -> None:
    """Memory, tables and costs are left out: in so short a time they have not settled."""
    report = soak(store)
    assert report.broken == []
    assert grown(report, ["worker: descriptors", "load: descriptors", "connections"]) == []
    assert report.settled > 500
    assert report.faults["workers killed"] > 0


@pytest.mark.rig
@pytest.mark.parametrize(
    ("plant", "figure"),
    [("descriptors", "worker: descriptors"), ("memory", "worker: memory, MiB")],
)
def test_a_leak_is_found(plant: str, figure: str) -> None:
    report = soak("sqlite", plant)
    assert report.broken == []
    assert grown(report, [figure]) == [figure]


@pytest.mark.rig
def test_a_job_that_vanishes_is_found() -> None:
    report = soak("sqlite", "loss")
    assert [line.partition(":")[0] for line in report.broken] == ["I1"]


@pytest.mark.rig
def test_an_interrupted_run_ends_soon_and_says_nothing() -> None:
    interrupted = threading.Event()
    interrupted.set()
    assert run("sqlite", Plan(600.0), interrupted) is None
