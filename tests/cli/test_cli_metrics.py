"""`windlass run --metrics-port`: what Prometheus reads of one worker process, and of several."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.program import WORK, Process, Program, wait_until
from tests.programs import need
from windlass.cli import metrics as cli_metrics
from windlass.errors import MissingExtraError
from windlass.observe.metrics import METRICS

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
_SHOWN = re.compile(r"metrics on (http://\S+)")


def add(program: Program, task: str, count: int) -> None:
    for _ in range(count):
        program.add(task)


def address(process: Process) -> str:
    process.wait_for_line("metrics on")
    found = _SHOWN.search(process.output)
    assert found is not None
    return found.group(1)


def read(url: str, accept: str = "text/plain") -> tuple[str, str]:
    """The page, and its media type."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def samples(url: str) -> dict[tuple[str, ...], float]:
    """Values by the sample's name and the values of its labels, by the labels' names."""
    found = {}
    for family in text_string_to_metric_families(read(url)[0]):
        for sample in family.samples:
            labels = sample.labels
            found[(sample.name, *(labels[name] for name in sorted(labels)))] = sample.value
    return found


def processed(url: str, task: str = "quick", outcome: str = "ok") -> float:
    return samples(url).get(("windlass_jobs_processed_total", outcome, task), 0.0)


def test_a_worker_shows_what_it_did_and_what_there_is(program: Program) -> None:
    program.write("work.py", WORK)
    add(program, "quick", 3)
    add(program, "wrong", 1)
    add(program, "gate", 1)
    worker = program.start("run", "work:app", "--metrics-port", "0", "-j", "4")
    url = address(worker)
    wait_until(
        "all but the gate to end", lambda: processed(url) == 3 and processed(url, "wrong", "failed")
    )
    wait_until("the gate", lambda: samples(url).get(("windlass_in_flight", "gate")) == 1)
    found = samples(url)
    assert found["windlass_store_up",] == 1
    assert found["windlass_queue_jobs", "failed"] == 1
    assert found["windlass_queue_jobs", "running"] == 1
    assert found["windlass_oldest_ready_seconds",] == 0
    assert (found["windlass_slots", "busy"], found["windlass_slots", "idle"]) == (1, 3)
    assert found["windlass_job_duration_seconds_count", "quick"] == 3
    assert found["windlass_job_wait_seconds_bucket", "+Inf", "quick"] == 3
    assert found["windlass_claimed_jobs_total",] == 5
    assert found["windlass_jobs_processed_total", "ok", "deaf"] == 0, "a task that never ran"
    text, media_type = read(url, OPEN_METRICS)
    assert media_type.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(url.replace("/metrics", "/"))
    program.write("open", "")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_handler_that_blocks_the_event_loop_hides_the_depths_alone(program: Program) -> None:
    program.write("work.py", WORK)
    add(program, "quick", 2)
    worker = program.start("run", "work:app", "--metrics-port", "0")
    url = address(worker)
    wait_until("both to end", lambda: processed(url) == 2)
    add(program, "blocks", 1)
    wait_until("the loop to block", lambda: "blocks begins" in program.ran())
    found = samples(url)
    assert found["windlass_store_up",] == 0
    assert found["windlass_in_flight", "blocks"] == 1
    assert found["windlass_jobs_processed_total", "ok", "quick"] == 2
    assert ("windlass_queue_jobs", "running") not in found
    program.write("open", "")


def test_any_of_several_processes_answers_for_all_and_no_counter_goes_back(
    program: Program,
) -> None:
    program.write("work.py", WORK)
    add(program, "gate", 2)
    options = ("--processes", "2", "-j", "1", "--metrics-port", "127.0.0.1:0")
    workers = program.start("run", "work:app", *options)
    url = address(workers)
    wait_until("both to run", lambda: samples(url).get(("windlass_in_flight", "gate")) == 2)
    wait_until("both slots", lambda: samples(url)["windlass_slots", "busy"] == 2)
    program.write("open", "")
    wait_until("both to end", lambda: processed(url, "gate") == 2)
    add(program, "quick", 20)
    wait_until("all to end", lambda: processed(url) == 20)
    mine = subprocess.run(["pgrep", "-P", str(workers.pid)], capture_output=True, text=True)
    os.kill(int(mine.stdout.split()[0]), signal.SIGKILL)

    def all_again() -> bool:
        assert processed(url) == 20, "also of the one that was killed"
        return workers.count("metrics on") == 3 and samples(url)["windlass_slots", "idle"] == 2

    wait_until("two again", all_again)
    assert processed(url, "gate") == 2
    workers.send(signal.SIGTERM)
    assert workers.wait() == 0


def test_a_port_that_cannot_be_opened_is_told_at_once(program: Program) -> None:
    program.write("work.py", WORK)
    for given, told in (
        ("70000", "must be a port from 0 to 65535"),
        ("here", "must be HOST:PORT"),
        ("192.0.2.1:9464", "this machine has no address 192.0.2.1"),
    ):
        answer = program.call("run", "work:app", "--once", "--metrics-port", given)
        assert answer.exit_code == 2, answer.output
        assert "--metrics-port" in answer.output and told in answer.output


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"windlass\[metrics\]"):
        cli_metrics.metrics_port("0")
    assert cli_metrics.metrics_port(None) is None


# ── the real thing ──


@pytest.mark.slow
def test_the_text_passes_promtool(program: Program) -> None:
    promtool = need("promtool", package="prometheus")
    program.write("work.py", WORK)
    add(program, "quick", 3)
    add(program, "wrong", 1)
    add(program, "gate", 1)
    worker = program.start("run", "work:app", "--metrics-port", "0")
    url = address(worker)
    wait_until("the others to end", lambda: processed(url) == 3)
    wait_until("the gate", lambda: ("windlass_in_flight", "gate") in samples(url))
    text, _ = read(url)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    named = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert {one.name for one in METRICS if not one.name.startswith("windlass_server_")} <= named


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A real one that scrapes `host:port` each second; the address of its API."""
    program = need("prometheus", package="prometheus")
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: windlass, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    log = (folder / "prometheus.log").open("w+")
    command = [
        *(program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"),
        "--web.listen-address=127.0.0.1:0",
    ]
    running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:

        def listening() -> str | None:
            log.seek(0)
            said = log.read()
            found = re.search(r"Listening on.*address=(127\.0\.0\.1:[1-9]\d*)", said)
            is_ready = "ready to receive web requests" in said
            return found.group(1) if found is not None and is_ready else None

        yield f"http://{wait_until('prometheus', listening)}/api/v1"
    finally:
        running.terminate()
        running.wait()
        log.close()


@pytest.mark.slow
def test_a_real_prometheus_scrapes_a_worker(program: Program, tmp_path: Path) -> None:
    program.write("work.py", WORK)
    add(program, "quick", 5)
    worker = program.start("run", "work:app", "--metrics-port", "0")
    url = address(worker)
    with prometheus(tmp_path, url.split("/")[2]) as api:

        def ask(query: str) -> Any:
            with urllib.request.urlopen(f"{api}/query?query={query}") as answer:
                return json.load(answer)["data"]["result"]

        def done() -> bool:
            found = ask("windlass_jobs_processed_total%7Btask=%22quick%22,outcome=%22ok%22%7D")
            return bool(found) and found[0]["value"][1] == "5"

        wait_until("prometheus to know of five jobs", done)
        [up] = ask("up")
        assert up["value"][1] == "1"
        assert len(ask("windlass_queue_jobs")) == 7
