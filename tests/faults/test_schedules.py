"""Schedules under worker processes over one SQLite file: each instant once, whoever dies."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import schedule_kit
from tests.faults import schedule_scenarios as scenarios
from tests.faults.kit import until
from tests.faults.schedule_kit import MINUTE, closing, instants, shown
from tests.faults.schedule_scenarios import MINUTELY, START


class Place(schedule_kit.Place):
    """One file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "jobs.db"
        super().__init__(folder, f"sqlite:///{self.file}")

    def payloads(self) -> list[Any]:
        own = sqlite3.connect(self.file)
        try:
            found = own.execute(
                "SELECT id, payload FROM windlass_jobs UNION ALL"
                " SELECT id, payload FROM windlass_history ORDER BY id"
            ).fetchall()
        finally:
            own.close()
        return [json.loads(payload) for _, payload in found]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with closing(Place(tmp_path)) as made:
        yield made


@pytest.mark.slow
def test_three_workers_fire_each_instant_once(here: Place) -> None:
    scenarios.minute_boundaries(here)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_killed_at_the_commit_of_a_firing(here: Place, when: str) -> None:
    """Before it the instant is fired by another worker, after it by nobody else."""
    here.clock.set(START)
    here.start(MINUTELY, 3)
    here.until_rest()
    now = START
    fatal = []
    for deaths in (1, 2):
        now += MINUTE
        here.go(now)
        now += MINUTE
        here.arm(when)
        here.clock.set(now)
        until(lambda: len(here.living) == 3 - deaths, "a worker to die")  # noqa: B023
        here.until_rest()
        fatal.append(shown(now.replace(second=0)))
        assert here.added("minute") == instants(START, now)
    now += 2 * MINUTE
    here.go(now)
    wanted = instants(START, now)
    assert here.added("minute") == wanted
    told = wanted if when == "before" else [instant for instant in wanted if instant not in fatal]
    assert here.won("minute") == told
    assert len(here.events("dies")) == 2
    assert here.stop() == [-signal.SIGKILL, -signal.SIGKILL, 0]


def test_a_backfill_of_a_year_works_from_the_start(here: Place) -> None:
    scenarios.year_of_minutes(here)


def test_a_backfill_of_a_year_is_cut_by_default(here: Place) -> None:
    scenarios.year_cut_by_default(here)
