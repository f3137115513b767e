"""How data is printed: JSON for programs, tables for people. Data goes to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from windlass.model.chain import Chain
from windlass.model.job import Job

_WIDEST = 60
_MOST_BLOCKERS = 50
_STATE_COLORS = {"failed": "red", "running": "cyan", "completed": "green", "cancelled": "yellow"}


def print_json(value: Any) -> None:
    """One JSON value, indented; structs by their field names, instants in ISO 8601."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def say(text: str) -> None:
    """A line for people beside the data, on standard error."""
    click.echo(text, err=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    cells = [[_short(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [header, *cells]) for column in range(len(header))]
    for number, row in enumerate([header, *cells]):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(_colored(cell, number) for cell in padded).rstrip()
        click.echo(line)


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"


def _colored(cell: str, number: int) -> str:
    if not sys.stdout.isatty():
        return cell
    if number == 0:
        return click.style(cell, bold=True)
    color = _STATE_COLORS.get(cell.strip())
    return cell if color is None else click.style(cell, fg=color)


def styled_state(state: str) -> str:
    """The name of a state, in its color on a terminal."""
    return _colored(str(state), 1)


_JOB_HEADER = ("ID", "STATE", "TASK", "QUEUE", "KEY", "PRIO", "RUN AT", "ATTEMPTS", "ERROR")


def print_jobs(jobs: Sequence[Job]) -> None:
    """A table of jobs; whose they are, where one has a tenant."""
    if any(job.tenant is not None for job in jobs):
        rows = [(job.tenant or "", *_job_row(job)) for job in jobs]
        print_table(("TENANT", *_JOB_HEADER), rows)
    else:
        print_table(_JOB_HEADER, [_job_row(job) for job in jobs])


def _job_row(job: Job) -> tuple[str, ...]:
    return (
        str(job.id),
        job.state.value,
        job.task,
        job.queue or "",
        job.key or "",
        str(job.priority),
        instant(job.run_at),
        f"{job.attempts}/{job.max_attempts}",
        job.last_error or "",
    )


def print_job(job: Job, blockers: Sequence[Chain[Any]] = ()) -> None:
    """Every field of a job, for people, and the chains it named."""
    fields = [
        ("id", str(job.id)),
        ("tenant", job.tenant or ""),
        ("task", job.task),
        ("state", job.state.value),
        ("payload", compact(job.payload)),
        ("queue", (job.queue or "") + (" (strict)" if job.queue and job.strict else "")),
        ("key", job.key or ""),
        ("priority", str(job.priority)),
        ("flags", ", ".join(job.flags or ())),
        ("chain", "" if job.chain is None else f"{job.chain}, step {job.step}"),
        ("waits for", _waits_for(job)),
        ("run at", instant(job.run_at)),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("deliveries", str(job.deliveries)),
        ("resets", str(job.resets)),
        ("locked by", job.locked_by or ""),
        ("revision", str(job.revision)),
        ("created at", instant(job.created_at)),
        ("updated at", instant(job.updated_at)),
        ("finished at", instant(job.finished_at)),
        ("keep", "" if job.keep is None else f"{job.keep:g} s"),
        ("output", "" if job.output is None else compact(job.output)),
        ("meta", "" if job.meta is None else compact(job.meta)),
    ]
    if job.progress is not None:
        fields.append(("progress", f"{job.progress.fraction:.0%} {job.progress.note}".rstrip()))
    for name, value in fields:
        if value:
            click.echo(f"{name + ':':<13}{value}")
    if blockers:
        click.echo("blockers:")
        for chain in blockers[:_MOST_BLOCKERS]:
            is_known = bool(chain.task)  # of a deleted one there is only the id
            what = f"{chain.task} {chain.state}" if is_known else "deleted"
            click.echo(f"  chain {chain.id} {what}")
        if len(blockers) > _MOST_BLOCKERS:
            click.echo(f"  … and {len(blockers) - _MOST_BLOCKERS} more")
    if job.log:
        click.echo("log:")
        for entry in job.log:
            click.echo(f"  {entry if isinstance(entry, str) else compact(entry)}")
    if len(job.errors) > 1:
        click.echo("failed attempts:")
        for failed in job.errors:
            first, *_ = failed.error.splitlines() or [""]
            click.echo(f"  {failed.attempt} at {instant(failed.at)}: {first}")
    if job.last_error:
        click.echo("last error:")
        for line in job.last_error.splitlines():
            click.echo(f"  {line}".rstrip())


def _waits_for(job: Job) -> str:
    if not job.blockers_total:
        return ""
    return f"{job.blockers_open} of {plural(job.blockers_total, 'chain')}"


def compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def instant(value: datetime | None) -> str:
    return "" if value is None else value.isoformat(sep=" ", timespec="seconds")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
