"""The page of `benchmarks/`: targets that are met or missed, ratios, and what is missing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.plan import FULL, QUICK
from benchmarks.report import page
from benchmarks.results import About, Record, Result, ratio
from benchmarks.rows import ROWS, Stage, Step, steps
from benchmarks.scenarios import percentile, shares
from benchmarks.systems import BARE, GRAPHILE, GRAPHILE_DEFAULT, SYSTEMS, WINDLASS
from benchmarks.targets import Line, lines

OWN, PEER = WINDLASS.name, GRAPHILE.name


def result() -> Result:
    made = Result(
        FULL,
        command="python -m benchmarks.run",
        systems={OWN: About("1", "all defaults"), PEER: About("2", "fast")},
        missing={GRAPHILE_DEFAULT.name: "not installed (FileNotFoundError: no Node.js)"},
    )
    for number, (drain, cpu) in enumerate(((4_000, 10), (6_000, 30), (5_000, 20)), 1):
        own = {"drain1": drain, "worker_cpu1": cpu, "server_cpu1": cpu, "others1": 1.5}
        peer = {"drain1": drain / 2.5, "worker_cpu1": cpu, "server_cpu1": cpu * 1.5}
        made.records += [Record("drain", OWN, number, own), Record("drain", PEER, number, peer)]
    return made


def row(text: str, heading: str, name: str) -> list[str]:
    below = text.split(f"## {heading}\n", 1)[1]
    line = next(line for line in below.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def line(found: list[Line], what: str, target: str) -> Line:
    return next(each for each in found if each.what == what and target in each.target)


def test_a_target_is_met_or_missed_by_the_median_of_the_rounds_ratios() -> None:
    found = lines(result())
    met = line(found, "drain, one worker process", PEER)
    assert (met.target, met.measured, met.ratio, met.met) == (
        f"≥ 2 × {PEER}",
        "5,000/s against 2,000/s",
        "2.50 ×",
        True,
    )
    missed = line(found, "CPU per job, worker + server", PEER)
    assert (missed.target, missed.ratio, missed.met) == (f"≤ 0.7 × {PEER}", "0.80 ×", False)
    text = page(result(), "picture.png")
    assert f"| ≥ 2 × {PEER} | 5,000/s against 2,000/s | 2.50 × | yes |" in text
    assert "| 0.80 × | **no** |" in text
    assert "1 are met, 1 are missed" in text


def test_a_target_that_nobody_measured_is_neither_met_nor_missed() -> None:
    found = lines(result())
    no_limit = line(found, "drain, one worker process", BARE.name)
    assert (no_limit.measured, no_limit.ratio, no_limit.met) == ("5,000/s", "–", None)
    no_start = line(found, "start and stop with an empty queue: open to close inside a process", "")
    assert (no_start.measured, no_start.met) == ("not measured", None)


@pytest.mark.parametrize(("memory", "met"), [(60.0, True), (60.1, False)])
def test_a_bound_itself_is_good_enough(memory: float, met: bool) -> None:
    made = result()
    made.records.append(Record("drain", OWN, 1, {"memory1": memory}))
    assert line(lines(made), "resident memory of the worker, at most", "60 MB").met is met


def test_every_row_of_a_run_has_a_target_that_reads_it() -> None:
    """A row without its line would be measured for nothing, and a line without a row never."""
    made = result()
    made.records = [
        Record(row, system.name, 1, dict.fromkeys(FIGURES[row], 1.0))
        for row in ROWS
        for system in SYSTEMS
    ]
    assert all(each.measured != "not measured" and each.ratio != "–" for each in lines(made))
    for absent in ROWS:
        rest = dataclasses.replace(made, records=[it for it in made.records if it.row != absent])
        assert any(each.ratio == "–" for each in lines(rest)), absent


CHAINS = (
    *("clean", "parts", "steps", "steps-bare", "fan-in", "fan-in-bare", "fan-ins", "fan-ins-bare"),
)
BESIDE = ("clean", "future", "foreign", "stuck", "dead", "queues")
STREAMS = ("singly", "singly-echo", "together", "direct")
REMOTES = (
    *("drain", "drain-direct", "create", "create-direct", "enqueue-bulk", "enqueue-bulk-direct"),
    *("latency", "latency-more"),
)
FIGURES = {
    "drain": ("drain1", "worker_cpu1", "server_cpu1", "memory1", "bulk", "bulk500"),
    "two": ("drain2", "worker_cpu2", "server_cpu2"),
    "cycle": ("cycle",),
    "single": ("one", "one16"),
    "sql": tuple(
        f"sql.{call}" for call in ("add", "new_keys", "old_keys", "reschedule", "fail", "complete")
    ),
    "sqlite": ("sqlite",),
    "wal": ("wal_bytes",),
    "pickup": ("pickup50", "pickup95"),
    "startup": ("startup.program", "startup.process", "startup.inside", "startup.limit"),
    "serial": ("serial.clean", "serial.each50", "serial.each1"),
    "chains": tuple(f"chains.{figure}" for figure in CHAINS),
    "chains-sqlite": tuple(f"chains-sqlite.{figure}" for figure in CHAINS),
    "stream": tuple(f"stream.{figure}" for figure in STREAMS),
    "stream-sqlite": tuple(f"stream-sqlite.{figure}" for figure in STREAMS),
    "remote": tuple(f"remote.{figure}" for figure in REMOTES),
    "remote-sqlite": tuple(f"remote-sqlite.{figure}" for figure in REMOTES),
    "backlog": tuple(f"backlog.{kind}" for kind in BESIDE),
    "backlog-large": tuple(f"backlog-large.{kind}" for kind in BESIDE),
    "held": ("held.rate", "held.asked", "held.start95", "held.end95"),
}


def test_a_ratio_above_one_is_in_favour_of_the_first_system() -> None:
    text = page(result(), "picture.png")
    assert row(text, "Throughput", OWN)[1] == "5,000"
    assert row(text, "Throughput", PEER)[1] == "2,000 (2.5 ×)"
    assert row(text, "Cost of a job", PEER)[2] == "30.0 (1.50 ×)"


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    assert ratio({1: 1.0, 2: 20.0, 3: 9.0}, {1: 1.0, 2: 10.0, 3: 3.0}) == 2.0
    assert ratio({1: 1.0, 2: 20.0, 3: 9.0}, {1: 3.0}) == 3.0
    assert ratio({}, {1: 3.0}) is None


def test_what_was_not_measured_is_a_dash_and_who_did_not_run_is_told_with_the_reason() -> None:
    text = page(result(), "picture.png")
    assert row(text, "Throughput", PEER)[2] == "–"
    assert "## Pickup latency" not in text
    assert f"- {GRAPHILE_DEFAULT.name}: not installed (FileNotFoundError: no Node.js)" in text
    assert f"| {GRAPHILE_DEFAULT.name} |" not in text


def test_a_short_run_says_so_and_every_run_tells_the_noise() -> None:
    full = page(result(), "picture.png")
    assert "A short run" not in full
    assert "other programs took 1.50 cores" in full
    for plan in (QUICK, FULL.scaled(0.5), dataclasses.replace(FULL, rounds=4)):
        assert "A short run" in page(dataclasses.replace(result(), plan=plan), "picture.png")


def test_the_page_is_made_from_the_file_alone(tmp_path: Path) -> None:
    made, file = result(), tmp_path / "benchmarks.json"
    made.save(file)
    assert Result.load(file) == made
    assert page(Result.load(file), "picture.png") == page(made, "picture.png")
    assert list(tmp_path.iterdir()) == [file]


def test_a_system_that_is_not_installed_is_left_out_with_its_reason() -> None:
    def nowhere() -> str:
        raise FileNotFoundError("no Node.js")

    made = result()
    broken = dataclasses.replace(GRAPHILE, versions=nowhere)
    there = dataclasses.replace(WINDLASS, versions=lambda: "1.2")
    assert run.installed([broken, there], made) == [there]
    assert made.missing[PEER] == "not installed (FileNotFoundError: no Node.js)"
    assert made.systems[OWN].versions == "1.2"


# ── the order of a run ──


def test_systems_take_turns_and_begin_with_another_one_each_round() -> None:
    order = [step for step in steps(FULL, SYSTEMS, ["drain"]) if step.row == "drain"]
    rounds = [[step.system for step in order if step.round == number] for number in range(1, 6)]
    assert len({tuple(each) for each in rounds}) == 5
    assert all(sorted(each) == sorted(rounds[0]) for each in rounds)
    assert [step.round for step in order] == sorted(step.round for step in order)


def test_every_row_has_steps_and_only_those_of_installed_systems() -> None:
    assert {step.row for step in steps(QUICK, SYSTEMS, list(ROWS))} == set(ROWS)
    alone = steps(QUICK, [WINDLASS], list(ROWS))
    assert {step.system for step in alone if step.row != "pickup"} == {OWN}


def test_minutes_shorten_the_runs_until_they_fit() -> None:
    plan = run.plan_of(run.parser().parse_args(["--minutes", "40"]), SYSTEMS, list(ROWS))
    assert plan.rounds == FULL.rounds and plan.seconds < FULL.seconds
    assert sum(step.seconds for step in steps(plan, SYSTEMS, list(ROWS))) <= 40 * 60


@pytest.mark.parametrize(
    ("given", "home"),
    [
        ([], "docs"),
        (["--minutes", "20"], "docs"),
        (["--quick"], "build"),
        (["--only", "drain,wal"], "build"),
        (["--systems", "bare"], "build"),
        (["--only", "drain", "--resume"], "docs"),
        (["--redo", "held"], "docs"),
    ],
)
def test_a_part_does_not_replace_the_page_of_a_whole_run(given: list[str], home: str) -> None:
    page = run.page_of(run.parser().parse_args(given))
    assert (page.parent.name, page.name) == (home, "benchmarks.md")


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out, played = tmp_path / "benchmarks.md", []
    stage: Stage = None  # type: ignore[assignment]

    def step(name: str, fails: type[BaseException] | None = None) -> Step:
        def play(_: Stage) -> list[tuple[str, int, dict[str, float]]]:
            played.append(name)
            if fails:
                raise fails(f"{name} is broken")
            return [(OWN, 1, {name: 1.0})]

        return Step(name, OWN, 1, 1.0, lambda stage: iter(play(stage)))

    made = result()
    with pytest.raises(KeyboardInterrupt):
        run.measure(stage, [step("drain"), step("wal", KeyboardInterrupt)], made, out)
    again = Result.load(out.with_suffix(".json"))
    run.measure(stage, [step("drain"), step("wal", RuntimeError), step("held")], again, out)
    assert played == ["drain", "wal", "wal", "held"]
    assert again.missing["wal, windlass, round 1"] == "wal is broken"
    again.forget(["drain"])
    run.measure(stage, [step("drain"), step("wal"), step("held")], again, out)
    assert played[4:] == ["drain", "wal"]
    assert "wal, windlass, round 1" not in again.missing
    assert out.read_text("utf-8") == page(again, "benchmarks.png")


def test_a_load_has_a_share_for_each_size_of_call() -> None:
    two = dataclasses.replace(WINDLASS, bulk=(500, 2_000))
    assert list(shares(two, 1_001)) == [(500, 0, 500), (2_000, 500, 501)]


def test_percentiles_are_samples() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (50, 95, 99)] == [51.0, 96.0, 100.0]
