"""What people see: a table with bars for the ratios, and a line for each of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_WIDTH = 20
_TITLE = 22


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The whole report."""
    yield (
        f"windlass {found['windlass']}, Python {found['python']}, {found['database']};"
        f" {found['jobs']:,} jobs, batches of {found['batch']}, {_count(found['processes'])},"
        f" medians of {found['rounds']}"
    )
    rates = [each for each in found["scenarios"] if "limit_per_s" in each]
    if rates:
        yield ""
        yield f"{'':<{_TITLE}}{'jobs/s':>10}{'bare SQL':>10}{'ratio':>7}  {'':<{_WIDTH}}  CPU/job"
    for each in rates:
        yield (
            f"{_title(each):<{_TITLE}}{each['per_s']:>10,}{each['limit_per_s']:>10,}"
            f"{each['ratio']:>7.2f}  {bar(each['ratio'])}  {_cost(each)}"
        )
        yield from _more(each)
    others = [each for each in found["scenarios"] if "limit_per_s" not in each]
    if others:
        yield ""
    for each in others:
        for title, text in _OTHERS[each["scenario"]](each):
            yield f"{title:<{_TITLE}}{text}"


def _title(each: dict[str, Any]) -> str:
    """The scenario, and which of its shapes where it has some."""
    if "jobs_per_queue" in each:
        return f"serial {each['queues']}x{each['jobs_per_queue']}"
    if "tenants" in each:
        return f"tenants {each['tenants']}"
    if "form" in each:
        return f"{each['scenario']}, {each['form']}"
    if "shape" in each:
        return _SHAPES[each["shape"]].format(**each)
    kind = each.get("kind", "all")
    scenario: str = each["scenario"]
    return scenario if kind == "all" else f"{scenario} {kind}"


_SHAPES = {
    "steps": "chains of {steps}",
    "fan-in": "fan-in of {parts}",
    "fan-ins": "fan-ins of {parts}",
}


def bar(ratio: float) -> str:
    """Full where Windlass is as fast as bare statements."""
    filled = min(_WIDTH, max(0, round(ratio * _WIDTH)))
    return "#" * filled + "." * (_WIDTH - filled)


def _count(processes: int) -> str:
    return "one worker process" if processes == 1 else f"{processes} worker processes"


def _cost(each: dict[str, Any]) -> str:
    own = f"{each['cpu_us_per_job']:.1f}"
    if "server_cpu_us_per_job" not in each:
        return f"{own} µs"
    both = f"{own} + {each['server_cpu_us_per_job']:.1f} µs"
    limit = each.get("limit_server_cpu_us_per_job")
    return both if limit is None else f"{both} (bare SQL: server {limit:.1f})"


def _more(each: dict[str, Any]) -> Iterator[str]:
    if "form" in each:
        yield f"{'':<{_TITLE}}{each['limit_per_s']:>10,}  {_BESIDE[each['scenario']]}"
    if "callers_per_s" in each:
        yield (
            f"{'':<{_TITLE}}{each['callers_per_s']:>10,}  with {each['callers']} callers at once,"
            f" {each['callers_ratio']:.1f} times one"
        )
    if "clean_per_s" in each:
        yield (
            f"{'':<{_TITLE}}{each['clean_per_s']:>10,}  {_without(each)}:"
            f" {each['clean_ratio']:.2f} of it remain"
        )
    for name, found in each.get("looks", {}).items():
        yield f"{'':<{_TITLE}}{_percentiles(found)}  {name}"


_BESIDE = {
    "stream": "by a bare echo of such messages",
    "remote": "by programs that have the database",
}


def _without(each: dict[str, Any]) -> str:
    if "looks" in each:
        return "without looking"
    if "jobs_per_queue" in each:
        return "without queues"
    if "tenants" in each:
        return "of the default tenant"
    if "clean_cpu_us_per_job" in each:
        return f"without metrics, {each['clean_cpu_us_per_job']:.1f} µs a job"
    if "form" in each:
        return "by a worker that has the database"
    if "shape" in each:
        return "in the cycle of jobs of no chain"
    return f"without the {each['backlog']:,}" + (" of each kind" if each["kind"] == "all" else "")


def _latency(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "latency", f"{_percentiles(each['ms'])}  from enqueue to the handler"
    yield "", f"{_percentiles(each['same_process_ms'])}  with the worker in the same process"
    yield "", f"{_percentiles(each['bare_insert_ms'])}  one bare INSERT"


def _held(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "held-snapshot",
        f"{each['per_s']:,} of {each['asked_per_s']:,} jobs/s, CPU/job {_cost(each)}",
    )
    if "claims" in each:
        yield "", f"{_percentiles(each['claim_ms_start'])}  first {each['claims']:,} claims"
        yield "", f"{_percentiles(each['claim_ms_end'])}  last {each['claims']:,} claims"


def _idle(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "idle",
        f"{each['cpu_percent']:.2f} % of a core, {each['queries_per_s']:.1f} queries/s,"
        f" {each['resident_mb']:.0f} MB resident",
    )


def _startup(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "startup",
        f"{each['program_ms']:.0f} ms for `windlass run --once` with nothing to do;"
        f" {each['process_ms']:.0f} ms for an app's process,"
        f" {each['inside_ms']:.0f} ms of it from open to close;"
        f" Python with asyncio and the driver alone takes {each['limit_ms']:.0f} ms",
    )


def _remote_latency(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "remote, latency", f"{_percentiles(each['ms'])}  through a server"
    yield "", f"{_percentiles(each['direct_ms'])}  with the database"


_OTHERS = {
    "latency": _latency,
    "held-snapshot": _held,
    "idle": _idle,
    "startup": _startup,
    "remote": _remote_latency,
}


def _percentiles(ms: dict[str, float]) -> str:
    return f"p50 {ms['p50']:.2f}, p95 {ms['p95']:.2f}, p99 {ms['p99']:.2f} ms"
