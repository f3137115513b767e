"""The measurements that `windlass bench` has, on the server and files of this run."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.results import Figures
from tests.postgres.cluster import Cluster
from windlass.cli.bench import KINDS
from windlass.cli.bench.run import Run
from windlass.cli.bench.scenarios import play
from windlass.cli.bench.site import FileSite, Site

Tell = Callable[[str], None]
Entry = dict[str, Any]

BATCH = 500


def bench(site: Site, tell: Tell, scenario: str, **numbers: Any) -> list[Entry]:
    """The entries that `windlass bench SCENARIO --json` would print."""
    preset: dict[str, Any] = {
        "jobs": 1_000,
        "rounds": 1,
        "batch": BATCH,
        "processes": 1,
        "samples": 100,
        "backlog": 1,
        "idle": 1.0,
        "rate": 1,
    }
    run = Run(site=site, tell=tell, **(preset | numbers))
    found: list[Entry] = asyncio.run(play(run, [scenario]))["scenarios"]
    return found


@contextlib.contextmanager
def server(cluster: Cluster) -> Iterator[Site]:
    from windlass.cli.bench.server import ServerSite

    url = cluster.create_database("bench_own")
    try:
        site = ServerSite(url)
        try:
            yield site
        finally:
            site.close()
    finally:
        cluster.drop_database("bench_own")


def beside(cluster: Cluster, tell: Tell, jobs: int, rounds: int, backlog: int) -> list[Figures]:
    """Drains beside each kind of backlog by itself, and clean ones; the figures of each round."""
    with server(cluster) as site:
        entries = bench(
            *(site, tell, "backlog"), jobs=jobs, rounds=rounds, backlog=backlog, kinds=KINDS
        )
    return [
        {"clean": entries[0]["rounds"][number]["clean_per_s"]}
        | {entry["kind"]: entry["rounds"][number]["per_s"] for entry in entries}
        for number in range(rounds)
    ]


def serial(cluster: Cluster, tell: Tell, jobs: int, rounds: int) -> list[Figures]:
    """Drains through many queues, and clean ones; `each50` has 50 jobs in each queue."""
    with server(cluster) as site:
        entries = bench(site, tell, "serial", jobs=jobs, rounds=rounds)
    return [
        {"clean": entries[0]["rounds"][number]["clean_per_s"]}
        | {f"each{entry['jobs_per_queue']}": entry["rounds"][number]["per_s"] for entry in entries}
        | {f"queues{entry['jobs_per_queue']}": entry["queues"] for entry in entries}
        for number in range(rounds)
    ]


def chains(cluster: Cluster, tell: Tell, jobs: int, rounds: int) -> list[Figures]:
    """Cycles of chains in each shape, of the bare statements they need, and of plain jobs."""
    with server(cluster) as site:
        return _chains(bench(site, tell, "chains", jobs=jobs, rounds=rounds))


def file_chains(folder: Path | None, tell: Tell, jobs: int, rounds: int) -> list[Figures]:
    """The same on a file."""
    site = FileSite(Path(folder or tempfile.gettempdir()), "full")
    try:
        return _chains(bench(site, tell, "chains", jobs=jobs, rounds=rounds))
    finally:
        site.close()


def _chains(entries: list[Entry]) -> list[Figures]:
    """By round; `parts` is the size of the one fan-in."""
    by_shape = {entry["shape"]: entry for entry in entries}
    parts = by_shape["fan-in"]["parts"]
    return [
        {"clean": entries[0]["rounds"][number]["clean_per_s"], "parts": parts}
        | {entry["shape"]: entry["rounds"][number]["per_s"] for entry in entries}
        | {f"{entry['shape']}-bare": entry["rounds"][number]["limit_per_s"] for entry in entries}
        for number in range(len(entries[0]["rounds"]))
    ]


def stream(cluster: Cluster, tell: Tell, jobs: int, rounds: int) -> list[Figures]:
    """Drains through `windlass serve`, bare echoes of such messages, and direct drains."""
    with server(cluster) as site:
        return _streams(bench(site, tell, "stream", jobs=jobs, rounds=rounds))


def file_stream(folder: Path | None, tell: Tell, jobs: int, rounds: int) -> list[Figures]:
    """The same on a file."""
    site = FileSite(Path(folder or tempfile.gettempdir()), "full")
    try:
        return _streams(bench(site, tell, "stream", jobs=jobs, rounds=rounds))
    finally:
        site.close()


def _streams(entries: list[Entry]) -> list[Figures]:
    return [
        {"direct": entries[0]["rounds"][number]["clean_per_s"]}
        | {entry["form"]: entry["rounds"][number]["per_s"] for entry in entries}
        | {f"{entry['form']}-echo": entry["rounds"][number]["limit_per_s"] for entry in entries}
        for number in range(len(entries[0]["rounds"]))
    ]


def remote(cluster: Cluster, tell: Tell, jobs: int, rounds: int, samples: int) -> list[Figures]:
    """Windlass's own programs through `windlass serve`, and with the database."""
    with server(cluster) as site:
        return _remotes(bench(site, tell, "remote", jobs=jobs, rounds=rounds, samples=samples))


def file_remote(
    folder: Path | None, tell: Tell, jobs: int, rounds: int, samples: int
) -> list[Figures]:
    """The same on a file."""
    site = FileSite(Path(folder or tempfile.gettempdir()), "full")
    try:
        return _remotes(bench(site, tell, "remote", jobs=jobs, rounds=rounds, samples=samples))
    finally:
        site.close()


def _remotes(entries: list[Entry]) -> list[Figures]:
    """By round; latencies were taken once."""
    *rates, latency = entries
    found: list[Figures] = [
        {entry["form"]: entry["rounds"][number]["per_s"] for entry in rates}
        | {f"{entry['form']}-direct": entry["rounds"][number]["limit_per_s"] for entry in rates}
        for number in range(len(rates[0]["rounds"]))
    ]
    direct = latency["direct_ms"]["p50"]
    found[0] |= {"latency": latency["ms"]["p50"], "latency-more": latency["ms"]["p50"] - direct}
    return found


def held(cluster: Cluster, tell: Tell, seconds: float, rate: int) -> Figures:
    with server(cluster) as site:
        (entry,) = bench(site, tell, "held-snapshot", jobs=int(seconds * rate), rate=rate)
    return {
        "rate": entry["per_s"],
        "asked": entry["asked_per_s"],
        "claims": entry["claims"],
        "start95": entry["claim_ms_start"]["p95"],
        "end95": entry["claim_ms_end"]["p95"],
    }


def startup(cluster: Cluster, tell: Tell, times: int) -> Figures:
    with server(cluster) as site:
        (entry,) = bench(site, tell, "startup", samples=times * 10)
    return {name: entry[f"{name}_ms"] for name in ("program", "process", "inside", "limit")}


def file_cycle(folder: Path | None, tell: Tell, jobs: int) -> tuple[float, float]:
    """Windlass and bare `sqlite3`, in one round with the same durability."""
    site = FileSite(Path(folder or tempfile.gettempdir()), "full")
    try:
        (entry,) = bench(site, tell, "cycle", jobs=jobs)
    finally:
        site.close()
    return entry["per_s"], entry["limit_per_s"]
