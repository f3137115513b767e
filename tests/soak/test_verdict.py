"""The rule that says whether a figure is flat, and how it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.soak import page, verdict
from tests.soak.samples import per_unit
from tests.soak.verdict import Finding

MEMORY = "worker: memory, MiB"


def course(*values: float, name: str = MEMORY) -> list[dict[str, float]]:
    """Samples of a figure, one a second."""
    return [{"at": float(at), name: value} for at, value in enumerate(values)]


def test_what_stays_is_flat() -> None:
    [found] = verdict.judge(course(*[50.0] * 600), 600)
    assert found[:3] == (MEMORY, 50.0, 50.0) and found.limit == pytest.approx(55.5)
    assert found.is_flat


def test_what_grows_slowly_but_steadily_is_not_flat() -> None:
    """20 bytes in each of a hundred thousand jobs are not seen; a KiB in every tenth is."""
    growing = [50.0 + at * 10.0 / 600 for at in range(600)]
    [found] = verdict.judge(course(*growing), 600)
    assert not found.is_flat


def test_what_falls_is_flat() -> None:
    [found] = verdict.judge(course(*[90.0] * 300, *[50.0] * 300), 600)
    assert found.is_flat


def test_the_warm_up_does_not_count() -> None:
    warming = [1.0] * 99 + [50.0] * 501
    [found] = verdict.judge(course(*warming), 600)
    assert found.first == 50.0 and found.is_flat


def test_one_high_sample_at_the_end_does_not_count() -> None:
    [found] = verdict.judge(course(*[50.0] * 599, 500.0), 600)
    assert found.is_flat


def test_a_figure_without_a_rule_is_information() -> None:
    [found] = verdict.judge(course(*[1.0] * 300, *[99.0] * 300, name="weather"), 600)
    assert found.limit is None and found.is_flat


def test_samples_without_a_figure_are_left_out() -> None:
    """As while the server is away; a part without any cannot be judged."""
    samples = course(*[50.0] * 600)
    for at in range(560, 600):
        del samples[at][MEMORY]
    assert [found.last for found in verdict.judge(samples, 600)] == [50.0]
    for at in range(550, 560):
        del samples[at][MEMORY]
    assert verdict.judge(samples, 600) == []
    assert verdict.missing(samples, 600, [MEMORY]) == [MEMORY]


def test_delays_of_probes() -> None:
    probes = [(float(at), 10.0 if at < 300 else 20.0) for at in range(600)]
    p50, p99 = verdict.delays(probes, 600)
    assert (p50.first, p50.last, p50.limit) == (10.0, 20.0, None)
    assert p99.name == "pickup p99, ms"
    assert verdict.delays([], 600) == []


def test_the_table() -> None:
    lines = verdict.table(
        [Finding("a", 1, 2, 3), Finding("bb", 1, 4.5, 3), Finding("c", 1, 9, None)]
    )
    assert [line.split() for line in lines] == [
        ["first", "last", "growth", "limit"],
        ["a", "1", "2", "×2.00", "3", "flat"],
        ["bb", "1", "4.50", "×4.50", "3", "GREW"],
        ["c", "1", "9", "×9.00"],
    ]


def test_a_counter_per_unit() -> None:
    assert per_unit({"jobs": 0, "reads": 5}, {"jobs": 20, "reads": 45}, "jobs") == {"reads": 2.0}
    # Too few to say, or a server that was started anew.
    assert per_unit({"jobs": 0, "reads": 5}, {"jobs": 9, "reads": 45}, "jobs") == {}
    assert per_unit({"jobs": 0, "reads": 5}, {"jobs": 20, "reads": 4}, "jobs") == {}


def _run(minutes: float = 30.0, **changed: Any) -> dict[str, Any]:
    run: dict[str, Any] = {
        "title": "SQLite",
        "ended": 1234,
        "faults": {"workers killed": 7},
        "broken": [],
        "findings": [["rows", 1.0, 2.0, 3.0]],
        "samples": [{"at": 1.0}],
    }
    found = {"when": "today", "minutes": minutes, "machine": "a machine", "runs": [run | changed]}
    decoded: dict[str, Any] = json.loads(json.dumps(found))
    return decoded


def test_the_page_gets_the_figures_between_its_marks() -> None:
    before = f"above\n{page.BEGIN}old\n{page.END}below\n"
    found = page.fit_to_print(_run())
    after = page.written(before, found)
    assert after.startswith("above\n") and after.endswith("below\n") and "old" not in after
    assert "30 minutes on today, on a machine." in after
    assert "SQLite: 1,234 jobs ended; 7 workers killed." in after
    assert "| rows | 1 | 2 | ×2.00 | 3 |\n" in after
    assert page.written(after, found) == after
    assert "samples" not in found["runs"][0]


def test_a_run_that_proves_too_little_is_not_for_the_page() -> None:
    with pytest.raises(ValueError, match="too short"):
        page.fit_to_print(_run(3.0))
    with pytest.raises(ValueError, match="I3"):
        page.fit_to_print(_run(broken=["I3: twice"]))
    with pytest.raises(ValueError, match="rows"):
        page.fit_to_print(_run(findings=[["rows", 1.0, 4.0, 3.0]]))
    with pytest.raises(ValueError, match="has no"):
        page.written("a page without marks", _run())
