"""The simulation finds mistakes that are put into the code, and makes them short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.simulation.__main__ import explain, shrunk
from tests.simulation.maker import make_plan
from tests.simulation.plan import decode, encode
from tests.simulation.planted import PLANTED
from tests.simulation.world import Report, run

SEEDS = 500


def find(said: str) -> Report | None:
    """The first seed whose run is told to be wrong in these words."""
    for seed in range(SEEDS):
        report = run(make_plan(seed))
        if report.code and re.search(said, report.violations[0]):
            return report
    return None


@pytest.mark.rig
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str) -> None:
    plant, said = PLANTED[name]
    with plant():
        report = find(said)
        assert report is not None, f"{SEEDS} seeds did not show it"
    clean = run(report.plan)
    assert not clean.code, f"seed {report.plan.seed} fails without the mistake: {clean.violations}"


@pytest.mark.slow
def test_a_failure_is_made_short_and_can_be_run_again(tmp_path: Path) -> None:
    plant, said = PLANTED["answers by job"]
    file = tmp_path / "failure.json"
    with plant():
        report = find(said)
        assert report is not None
        short = shrunk(report)
        file.write_text(encode(short.plan))
        again = run(decode(file.read_bytes()))
    assert len(report.plan.events) > 10
    assert len(short.plan.events) <= 3, explain(short)
    assert again.violations == short.violations
    assert again.trace == short.trace
    assert re.search(said, explain(short))
