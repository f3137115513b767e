"""The page of `benchmarks/`: which way its ratios go, and what it says of what is missing."""

from __future__ import annotations

import dataclasses

from benchmarks.report import FULL_JOBS, FULL_ROUNDS, Result, page
from benchmarks.run import installed
from benchmarks.scenarios import Plan, percentile
from benchmarks.systems import SYSTEMS

OWN, PEER, ABSENT = SYSTEMS[:3]


def result(jobs: int = FULL_JOBS, rounds: int = FULL_ROUNDS) -> Result:
    made = Result(
        plan=Plan(jobs=jobs, singles=100, samples=10, seconds=10),
        rounds=rounds,
        postgres="18.4",
        command="python -m benchmarks.run",
        versions={OWN.name: "1", PEER.name: "2"},
        missing={ABSENT.name: "not installed (FileNotFoundError: no Node.js)"},
    )
    for drain, cpu in ((4_000.0, 10.0), (6_000.0, 30.0), (5_000.0, 20.0)):
        made.add(OWN.name, {"drain1": drain, "worker_cpu1": cpu, "others1": 0.5})
    made.add(PEER.name, {"drain1": 2_000.0, "worker_cpu1": 50.0, "others1": 1.5})
    return made


def row(text: str, heading: str, name: str) -> list[str]:
    below = text.split(f"## {heading}\n", 1)[1]
    line = next(line for line in below.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_figure_is_the_median_and_a_ratio_above_one_is_in_favour_of_the_first() -> None:
    text = page(result(), SYSTEMS, "picture.png")
    assert row(text, "Throughput", OWN.name)[1] == "5,000"
    assert row(text, "Throughput", PEER.name)[1] == "2,000 (2.5 ×)"
    assert row(text, "Cost of a job", PEER.name)[1] == "50.0 (2.5 ×)"


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    made = result()
    made.samples = {OWN.name: {"cycle": [1.0, 20.0, 9.0]}, PEER.name: {"cycle": [1.0, 10.0, 3.0]}}
    assert made.ratio("cycle", OWN.name, PEER.name) == 2.0
    made.add(PEER.name, {"cycle": 5.0})
    assert made.ratio("cycle", OWN.name, PEER.name) == 9.0 / 4.0


def test_what_was_not_measured_is_a_dash_and_who_did_not_run_is_told_with_the_reason() -> None:
    text = page(result(), SYSTEMS, "picture.png")
    assert row(text, "Throughput", PEER.name)[2] == "–"
    assert f"- {ABSENT.name}: not installed (FileNotFoundError: no Node.js)" in text
    assert f"| {ABSENT.name} |" not in text


def test_a_system_that_is_not_installed_is_left_out_with_its_reason() -> None:
    def nowhere() -> str:
        raise FileNotFoundError("no Node.js")

    made = result()
    broken = dataclasses.replace(PEER, versions=nowhere)
    there = dataclasses.replace(OWN, versions=lambda: "1.2")
    assert installed([broken, there], made) == [there]
    assert made.missing[PEER.name] == "not installed (FileNotFoundError: no Node.js)"
    assert made.versions[OWN.name] == "1.2"


def test_a_short_run_says_so_and_tells_the_load() -> None:
    assert "A short run" not in page(result(), SYSTEMS, "picture.png")
    for short in (result(jobs=FULL_JOBS - 1), result(rounds=FULL_ROUNDS - 1)):
        text = page(short, SYSTEMS, "picture.png")
        assert "A short run" in text
        assert "took up to 1.5 of the" in text


def test_percentiles_are_samples() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (50, 95, 99)] == [51.0, 96.0, 100.0]
