"""`windlass demo`: a few short scenes with real worker processes, on a file or a server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import click

from windlass.cli.base import Command, CommandFailed
from windlass.store_kinds import kind_of


@click.command(
    cls=Command,
    examples=("windlass demo", "windlass demo -c postgresql:///shop", "windlass demo --dashboard"),
)
@click.option(
    "-c",
    "--connection",
    metavar="URL",
    help="Play on this PostgreSQL database, in a schema of its own that is removed afterwards.",
)
@click.option(
    "--dashboard",
    is_flag=True,
    help="Instead, a shop that is busy until you stop it, and its dashboard in your browser.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8090,
    show_default=True,
    help="The port of the dashboard.",
)
@click.option("--no-open", is_flag=True, help="Print the dashboard's address, and open no browser.")
@click.pass_context
def demo(
    ctx: click.Context, /, connection: str | None, dashboard: bool, port: int, no_open: bool
) -> None:
    """See jobs flow, a failing task retried, a serial queue, a crash survived, and a schedule.

    Takes about a quarter of a minute, works in a temporary folder and leaves nothing behind.
    Everything it claims it has checked: it exits 1 if something did not happen.
    """
    if dashboard and connection is not None:
        raise click.UsageError("--dashboard plays on a file; leave out -c.", ctx)
    if connection is not None and not kind_of(connection).is_postgres:
        raise click.UsageError("-c takes a PostgreSQL URL; without it there is a file.", ctx)
    _forget_settings(keep_address=connection is not None)
    # Both ways to stop it end its workers too, also where Ctrl-C is ignored (a shell's `&`).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        os.chdir(folder)  # so that no windlass.toml of the user is read
        try:
            if dashboard:
                _show(Path(folder), port, is_opened=not no_open)
            else:
                _play(Path(folder), connection)
        finally:
            os.chdir(home)


def _play(folder: Path, connection: str | None) -> None:
    from windlass.cli.demo.scenes import SceneFailed, play

    try:
        asyncio.run(play(folder, connection))
    except SceneFailed as error:
        raise CommandFailed(f"the demo went wrong: {error}") from error


def _show(folder: Path, port: int, *, is_opened: bool) -> None:
    from windlass.cli.dashboard import open_browser, require_extra

    def begun(address: str) -> None:
        click.echo(f"a shop with two workers is busy; its dashboard is at {address}")
        click.echo("Ctrl-C ends both, and leaves nothing behind")
        sys.stdout.flush()
        if is_opened:
            open_browser(address)

    require_extra()
    from windlass.cli.demo.showing import run

    asyncio.run(run(folder, port, begun))


def _forget_settings(*, keep_address: bool) -> None:
    """The demo is about the defaults, and must never touch a real database unless told to; then
    libpq's own variables are a part of its address."""
    for name in list(os.environ):
        is_ours = name.startswith("WINDLASS_") or name == "DATABASE_URL"
        if is_ours or (name.startswith("PG") and not keep_address):
            del os.environ[name]
