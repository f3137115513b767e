"""`windlass bench` on a file: every scenario runs, counts its jobs, and prints its ratio."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.program import Program, wait_until
from windlass.cli.bench import KINDS, NAMES, heaps, stream
from windlass.cli.bench.limit_chains import Shape, SqliteChainLimit
from windlass.cli.bench.report import bar
from windlass.cli.bench.site import Address

SMALL = (
    *("--jobs", "300", "--batch", "100", "--rounds", "1", "--samples", "3"),
    *("--backlog", "50", "--idle", "0.2", "--rate", "1000"),
)
THROUGHPUT = {
    *("enqueue-one", "enqueue-bulk", "drain", "cycle", "serial", "tenants", "metrics", "chains"),
    *("looks", "stream", "backlog"),
}
ROUND = {"per_s", "limit_per_s", "ratio"}
_BESIDE_OTHERS = ("serial", "tenants", "metrics", "looks", "chains", "stream", "backlog")
BESIDE = {"clean_per_s", "clean_ratio"}


def check_scenario(found: dict[str, Any]) -> None:
    """The names that programs rely on, and numbers that something was measured for."""
    times = ("ms", "same_process_ms", "bare_insert_ms", "direct_ms", "claim_ms_start")
    for name in (*times, "claim_ms_end"):
        if name in found:
            assert set(found[name]) == {"p50", "p95", "p99"}
            assert 0 < found[name]["p50"] <= found[name]["p95"] <= found[name]["p99"]
    match found["scenario"]:
        case name if name in THROUGHPUT:
            assert found["per_s"] > 0 and found["limit_per_s"] > 0 and found["ratio"] > 0
            assert found["cpu_us_per_job"] > 0
            more = BESIDE if name in _BESIDE_OTHERS else set()
            assert [set(each) for each in found["rounds"]] == [ROUND | more]
            assert all(found[name] > 0 for name in more)
            if name == "enqueue-one":
                assert found["callers"] == 16
                assert found["callers_per_s"] > 0 and found["callers_ratio"] > 0
            elif name == "chains":
                of_one_chain = found["parts"] + 2 if "parts" in found else found["steps"]
                assert found["jobs"] == found["chains"] * of_one_chain == 300
            else:
                assert found["jobs"] == 300
            if name in ("backlog", "looks"):
                assert found["backlog"] == 50
            if name == "looks":
                assert {"depths", "groups of errors"} <= set(found["looks"])
            if name == "stream":
                assert found["form"] in ("singly", "together") and found["open"] > 1
            if name == "tenants":
                assert found["tenants"] == 3
            if name == "serial":
                assert found["queues"] * found["jobs_per_queue"] == 300
        case "held-snapshot":
            assert found["jobs"] == 300 and found["asked_per_s"] == 1000 and found["per_s"] > 0
            assert found["claims"] > 0 and {"claim_ms_start", "claim_ms_end"} <= set(found)
        case "remote" if found["form"] == "latency":
            assert found["samples"] == 3 and {"ms", "direct_ms"} <= set(found)
        case "remote":
            assert found["form"] in ("drain", "enqueue-bulk", "create") and found["jobs"] == 300
            assert found["per_s"] > 0 and found["limit_per_s"] > 0 and found["ratio"] > 0
            assert [set(each) for each in found["rounds"]] == [ROUND]
        case "latency":
            assert found["samples"] == 3
            assert {"ms", "same_process_ms", "bare_insert_ms"} <= set(found)
        case "idle":
            assert found["cpu_percent"] >= 0 and found["queries_per_s"] >= 0
            assert found["resident_mb"] > 1
        case "startup":
            assert found["process_ms"] > found["inside_ms"] > 0
            assert found["program_ms"] > 0 and found["limit_ms"] > 0


@pytest.mark.slow
def test_every_scenario_has_its_names_and_numbers(program: Program, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    answer = program.call("bench", *SMALL, "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    on_a_file = [name for name in NAMES if name != "held-snapshot"]
    assert list(dict.fromkeys(each["scenario"] for each in found["scenarios"])) == on_a_file
    for each in found["scenarios"]:
        check_scenario(each)
    shapes = [each for each in found["scenarios"] if each["scenario"] == "serial"]
    assert [each["jobs_per_queue"] for each in shapes] == [50, 1]
    chains = [each for each in found["scenarios"] if each["scenario"] == "chains"]
    assert [each["shape"] for each in chains] == ["steps", "fan-in", "fan-ins"]
    assert found["database"].startswith("SQLite ") and found["processes"] == 1
    assert sorted(tmp_path.iterdir()) == before, "the bench leaves nothing behind"


def test_people_get_a_table_with_bars(program: Program) -> None:
    options = (*SMALL, "--processes", "2", "--synchronous", "normal")
    shown = program.call("bench", "startup", "drain", *options).output
    head, _, columns, drain, _, startup = shown.splitlines()
    assert "synchronous=normal" in head and "2 worker processes" in head
    assert "bare SQL" in columns and "ratio" in columns
    assert drain.startswith("drain ") and drain.split()[4].strip("#.") == ""
    assert startup.startswith("startup ")


@pytest.mark.slow
def test_each_kind_of_backlog_can_lie_about_by_itself(program: Program) -> None:
    kinds = [word for kind in KINDS for word in ("--kind", kind)]
    found = json.loads(program.call("bench", "backlog", *kinds, *SMALL, "--json").stdout)
    assert [each["kind"] for each in found["scenarios"]] == list(KINDS)
    for each in found["scenarios"]:
        check_scenario(each)


def test_every_kind_that_can_be_asked_for_can_be_made() -> None:
    assert sorted(heaps.KINDS) == sorted(KINDS)


def test_a_bar_is_full_at_the_limit() -> None:
    assert (bar(0.0), bar(0.5), bar(1.0)) == ("." * 20, "#" * 10 + "." * 10, "#" * 20)
    assert bar(3.0) == "#" * 20


def test_the_file_a_url_names_is_not_touched(program: Program) -> None:
    precious = program.write("precious.db", "not a database")
    answer = program.call("bench", "enqueue-bulk", "-c", f"sqlite:///{precious}", *SMALL)
    assert answer.exit_code == 0, answer.output
    assert precious.read_text() == "not a database"


def test_settings_are_the_defaults(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept job would be counted as left over, so the drain itself notices."""
    program.write("windlass.toml", "keep = 3600\n")
    monkeypatch.setenv("WINDLASS_KEEP", "3600")
    answer = program.call("bench", "drain", *SMALL)
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--batch", "0"), "--batch"),
        (("quickly",), "quickly"),
        (("backlog", "--kind", "heavy"), "--kind"),
        (("held-snapshot",), "held-snapshot needs PostgreSQL"),
        (("-c", "memory://"), "memory://"),
        (("-c", "mysql://db/shop"), "postgresql://"),
        (("-c", "sqlite:////no/such/folder/x.db"), "no folder"),
        (("-c", "postgresql:///shop", "--folder", "."), "--folder"),
        (("-c", "postgresql:///shop", "--synchronous", "full"), "--synchronous"),
    ],
)
def test_wrong_usage_is_one_line(
    program: Program, arguments: tuple[str, ...], complaint: str
) -> None:
    refused = program.call("bench", *arguments)
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith("windlass: ") and complaint in line


def test_a_server_that_is_not_there_is_one_line(program: Program) -> None:
    failed = program.call("bench", "drain", "-c", "postgresql://127.0.0.1:1/shop")
    assert failed.exit_code == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("windlass: cannot connect")


def test_the_scenario_of_streams_needs_what_a_server_needs(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_NEEDED", ("not_installed.here",))
    refused = program.call("bench", "stream")
    assert refused.exit_code == 1
    (line,) = refused.stderr.splitlines()
    assert "pip install 'windlass[server]'" in line


def test_a_stopped_bench_cleans_up(program: Program, tmp_path: Path) -> None:
    def made() -> list[Path]:
        return list(tmp_path.glob("windlass-bench-*/own.db"))

    source = str(Path(windlass.__file__).parents[1])
    bench = program.start("bench", "idle", "--idle", "600", PYTHONPATH=source)
    wait_until("the database of the worker", made)
    bench.send(signal.SIGTERM)
    assert bench.wait() != 0
    assert not list(tmp_path.glob("windlass-bench-*"))


def test_people_see_what_many_tenants_leave_of_one_tenants_rate(program: Program) -> None:
    shown = program.call("bench", "tenants", *SMALL)
    assert shown.exit_code == 0, shown.output
    assert "tenants 3" in shown.output
    assert "of the default tenant:" in shown.output


@pytest.mark.slow
def test_people_see_each_shape_of_chains(program: Program) -> None:
    shown = program.call("bench", "chains", *SMALL, "--processes", "2")
    assert shown.exit_code == 0, shown.output
    for title in ("chains of 5 ", "fan-in of 298 ", "fan-ins of 10 "):
        assert f"\n{title}" in shown.output
    assert shown.output.count("in the cycle of jobs of no chain:") == 3


def test_the_limit_of_chains_does_all_of_their_work(tmp_path: Path) -> None:
    """Every chain ends, once, and what waited for others runs after them."""
    limit = SqliteChainLimit(Address(f"sqlite:///{tmp_path}/own.db", "windlass", "normal"))
    limit.create()
    shapes = [Shape("steps", 3, steps=5), Shape("fan-ins", 2, parts=10)]
    for shape in shapes:
        limit.start(shape, shape.chains)
    done = 0
    while count := limit.work(7):
        done += count
    assert done == sum(shape.jobs for shape in shapes) == 39
    limit.close()
    with sqlite3.connect(tmp_path / "own.bare.db") as database:
        states = database.execute("SELECT state, count(*) FROM bare_chains GROUP BY 1").fetchall()
        left = [
            database.execute(f"SELECT count(*) FROM bare_{name}").fetchone()[0]
            for name in ("jobs", "blockers")
        ]
    database.close()
    assert (states, left) == ([("completed", 25)], [0, 0])
