"""`windlass bench`: measure this machine, beside what bare SQL reaches in the same run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from windlass.cli.base import Command, CommandFailed

NAMES = (
    *("enqueue-one", "enqueue-bulk", "drain", "cycle", "serial", "tenants", "metrics"),
    *(
        "looks",
        "chains",
        "stream",
        "remote",
        "backlog",
        "latency",
        "held-snapshot",
        "idle",
        "startup",
    ),
)
KINDS = ("future", "foreign", "stuck", "dead", "queues")
_SERVER_ONLY = "held-snapshot"
_NEED_EXTRA = ("stream", "remote")
_COUNT = click.IntRange(1)
_DEFAULTS = {"jobs": 100_000, "rounds": 3, "samples": 300, "backlog": 100_000, "idle": 5.0}
_QUICK = {"jobs": 10_000, "rounds": 1, "samples": 30, "backlog": 5_000, "idle": 2.0}


@click.command(
    "bench",
    cls=Command,
    examples=(
        "windlass bench                                       # all scenarios, on a file",
        "windlass bench -c postgresql:///shop drain cycle",
        "windlass bench -c shop drain --jobs 1000000 --rounds 5 --processes 2 --json",
        "windlass bench -c shop backlog --kind future --kind dead --backlog 1000000",
        "windlass bench --quick",
        "windlass bench --synchronous normal --folder /mnt/disk",
    ),
)
@click.argument("scenarios", metavar="[SCENARIO]...", nargs=-1, type=click.Choice(NAMES))
@click.option(
    "-c",
    "--connection",
    metavar="URL",
    help="Measure on this PostgreSQL database, in schemas of its own that are dropped afterwards;"
    " else on a SQLite file.",
)
@click.option("-n", "--jobs", type=_COUNT, help="Jobs in a round.  [default: 100000]")
@click.option("--rounds", type=_COUNT, help="Rounds; medians are shown.  [default: 3]")
@click.option("--processes", type=_COUNT, default=1, show_default=True, help="Worker processes.")
@click.option("--batch", type=_COUNT, default=500, show_default=True, help="Jobs per bulk call.")
@click.option("--backlog", type=_COUNT, help="Jobs of each kind that lie about.  [default: 100000]")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help='A backlog of this kind by itself; may be repeated. "queues" are names of queues that are'
    " empty again.  [default: all kinds at once]",
)
@click.option("--rate", type=_COUNT, default=2_000, show_default=True, help="Of held-snapshot.")
@click.option("--samples", type=_COUNT, help="Jobs timed for latency.  [default: 300]")
@click.option(
    "--idle",
    type=click.FloatRange(0.1, 600),
    help="Seconds to watch an idle worker.  [default: 5]",
)
@click.option("--quick", is_flag=True, help="Small numbers: less than a minute in all.")
@click.option(
    "--synchronous",
    type=click.Choice(["full", "normal"]),
    help="SQLite's durability, for Windlass and the bare calls alike.  [default: full]",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Where to put the SQLite file; the disk matters.  [default: here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(
    scenarios: tuple[str, ...],
    connection: str | None,
    processes: int,
    batch: int,
    rate: int,
    kinds: tuple[str, ...],
    quick: bool,
    synchronous: str | None,
    folder: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure this machine: all scenarios, or some.

    The limit is the same work written as bare SQL in the same batches, through the same driver
    and with the same durability, in the same run; the ratios are what to compare between machines.
    Work is done by worker processes, and the database counts what they did. Without -c everything
    is in a SQLite file that is removed afterwards.
    """
    from windlass.cli.bench.crew import BenchFailed
    from windlass.cli.bench.report import lines
    from windlass.cli.bench.run import Run
    from windlass.cli.bench.scenarios import play
    from windlass.cli.bench.site import choose_site
    from windlass.cli.bench.stream import is_possible
    from windlass.errors import MissingExtraError

    numbers: dict[str, Any] = {
        name: preset if given[name] is None else given[name]
        for name, preset in (_QUICK if quick else _DEFAULTS).items()
    }
    with _defaults_only(keep_address=connection is not None), _ended_by_signals():
        site = choose_site(connection, folder, synchronous)
        try:
            if _SERVER_ONLY in scenarios and not site.can_hold:
                raise click.UsageError(f"{_SERVER_ONLY} needs PostgreSQL: -c postgresql://….")
            chosen = [name for name in NAMES if name in (scenarios or NAMES)]
            if not site.can_hold and _SERVER_ONLY in chosen:
                chosen.remove(_SERVER_ONLY)
            if not is_possible():
                if any(name in scenarios for name in _NEED_EXTRA):
                    raise MissingExtraError("windlass serve", "server")
                chosen = [name for name in chosen if name not in _NEED_EXTRA]
            run = Run(
                site,
                processes=processes,
                batch=batch,
                rate=rate,
                tell=_tell,
                kinds=kinds,
                **numbers,
            )
            with _elsewhere():
                found = asyncio.run(play(run, chosen))
        except BenchFailed as error:
            raise CommandFailed(f"the bench went wrong: {error}") from error
        finally:
            _tell("")
            site.close()
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in lines(found):
            click.echo(line)


@contextmanager
def _defaults_only(*, keep_address: bool) -> Iterator[None]:
    """The bench is about the defaults, and must never touch a real database unless told to; then
    libpq's own variables are a part of its address."""
    kept = dict(os.environ)
    for name in kept:
        is_ours = name.startswith("WINDLASS_") or name == "DATABASE_URL"
        if is_ours or (name.startswith("PG") and not keep_address):
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


@contextmanager
def _elsewhere() -> Iterator[None]:
    """In an empty folder, so that no windlass.toml of the caller's is read."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(home)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Both ways to stop it clean up too, also where Ctrl-C is ignored (a shell's `&`)."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def _tell(text: str) -> None:
    """What is being measured, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)
