"""What `windlass bench` prints for people."""

from __future__ import annotations

from typing import Any

from windlass.cli.bench import report

FOUND = {"windlass": "1", "python": "3.11", "database": "SQLite", "jobs": 1000, "batch": 100}
MS = {"p50": 1.0, "p95": 2.0, "p99": 3.5}
RATE = {"per_s": 5000, "limit_per_s": 10_000, "ratio": 0.5, "cpu_us_per_job": 20.0}


def body(*scenarios: dict[str, Any], processes: int = 1) -> list[str]:
    """The report behind its first line."""
    found = {**FOUND, "processes": processes, "rounds": 3, "scenarios": scenarios}
    return [" ".join(line.split()) for line in report.lines(found)][1:]


def test_the_first_line_says_what_was_measured() -> None:
    found = {**FOUND, "processes": 2, "rounds": 3, "scenarios": []}
    assert list(report.lines(found)) == [
        "windlass 1, Python 3.11, SQLite; 1,000 jobs, batches of 100, 2 worker processes,"
        " medians of 3"
    ]


def test_rates_stand_beside_those_of_bare_sql() -> None:
    bar = "#" * 10 + "." * 10
    server = {"server_cpu_us_per_job": 7.0}
    callers = {"callers": 16, "callers_per_s": 9000, "callers_ratio": 1.8}
    assert body(
        {"scenario": "drain", **RATE},
        {"scenario": "cycle", **RATE, **server},
        {"scenario": "enqueue-one", **RATE, **server, "limit_server_cpu_us_per_job": 5, **callers},
    ) == [
        "",
        "jobs/s bare SQL ratio CPU/job",
        f"drain 5,000 10,000 0.50 {bar} 20.0 µs",
        f"cycle 5,000 10,000 0.50 {bar} 20.0 + 7.0 µs",
        f"enqueue-one 5,000 10,000 0.50 {bar} 20.0 + 7.0 µs (bare SQL: server 5.0)",
        "9,000 with 16 callers at once, 1.8 times one",
    ]


def test_what_slows_it_down_stands_beside_the_rate_without_it() -> None:
    clean = {**RATE, "clean_per_s": 6000, "clean_ratio": 0.83}
    backlog = {**clean, "scenario": "backlog", "backlog": 2000}
    told = body(
        {**clean, "scenario": "serial", "queues": 10, "jobs_per_queue": 100},
        {**clean, "scenario": "chains", "shape": "steps", "chains": 200, "steps": 5},
        {**clean, "scenario": "chains", "shape": "fan-in", "chains": 1, "parts": 998},
        {**clean, "scenario": "chains", "shape": "fan-ins", "chains": 83, "parts": 10},
        {**backlog, "kind": "all"},
        {**backlog, "kind": "future"},
    )
    assert [line.split()[:2] for line in told[2::2]] == [
        ["serial", "10x100"],
        ["chains", "of"],
        ["fan-in", "of"],
        ["fan-ins", "of"],
        ["backlog", "5,000"],
        ["backlog", "future"],
    ]
    assert told[3::2] == [
        "6,000 without queues: 0.83 of it remain",
        *["6,000 in the cycle of jobs of no chain: 0.83 of it remain"] * 3,
        "6,000 without the 2,000 of each kind: 0.83 of it remain",
        "6,000 without the 2,000: 0.83 of it remain",
    ]


def test_a_drain_through_a_server_stands_beside_an_echo_and_the_direct_one() -> None:
    entry = {**RATE, "clean_per_s": 20_000, "clean_ratio": 0.25, "open": 128}
    _, _, *told = body({**entry, "scenario": "stream", "form": "singly"})
    assert told == [
        f"stream, singly 5,000 10,000 0.50 {'#' * 10}{'.' * 10} 20.0 µs",
        "10,000 by a bare echo of such messages",
        "20,000 by a worker that has the database: 0.25 of it remain",
    ]


def test_what_goes_through_a_server_stands_beside_the_same_with_the_database() -> None:
    _, _, rate, beside, _, *latency = body(
        {**RATE, "scenario": "remote", "form": "drain"},
        {"scenario": "remote", "form": "latency", "ms": MS, "direct_ms": MS},
    )
    assert rate.startswith("remote, drain 5,000 10,000 0.50 ")
    assert beside == "10,000 by programs that have the database"
    ms = "p50 1.00, p95 2.00, p99 3.50 ms"
    assert latency == [f"remote, latency {ms} through a server", f"{ms} with the database"]


def test_other_figures_have_lines_of_their_own() -> None:
    ms = "p50 1.00, p95 2.00, p99 3.50 ms"
    held = {"scenario": "held-snapshot", "per_s": 900, "asked_per_s": 1000, "cpu_us_per_job": 20.0}
    claims = {"claims": 50, "claim_ms_start": MS, "claim_ms_end": MS}
    assert body(
        {"scenario": "latency", "ms": MS, "same_process_ms": MS, "bare_insert_ms": MS},
        {**held, **claims},
        held,
        {"scenario": "idle", "cpu_percent": 0.5, "queries_per_s": 1, "resident_mb": 30},
        {
            "scenario": "startup",
            "program_ms": 90,
            "process_ms": 80,
            "inside_ms": 10,
            "limit_ms": 60,
        },
    ) == [
        "",
        f"latency {ms} from enqueue to the handler",
        f"{ms} with the worker in the same process",
        f"{ms} one bare INSERT",
        "held-snapshot 900 of 1,000 jobs/s, CPU/job 20.0 µs",
        f"{ms} first 50 claims",
        f"{ms} last 50 claims",
        "held-snapshot 900 of 1,000 jobs/s, CPU/job 20.0 µs",
        "idle 0.50 % of a core, 1.0 queries/s, 30 MB resident",
        "startup 90 ms for `windlass run --once` with nothing to do; 80 ms for an app's process,"
        " 10 ms of it from open to close; Python with asyncio and the driver alone takes 60 ms",
    ]
