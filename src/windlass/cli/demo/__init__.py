"""`windlass demo`: a few short scenes with real worker processes, on a file or a server."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import click

from windlass.cli.base import Command, CommandFailed
from windlass.store_kinds import kind_of


@click.command(cls=Command, examples=("windlass demo", "windlass demo -c postgresql:///shop"))
@click.option(
    "-c",
    "--connection",
    metavar="URL",
    help="Play on this PostgreSQL database, in a schema of its own that is removed afterwards.",
)
@click.pass_context
def demo(ctx: click.Context, /, connection: str | None) -> None:
    """See jobs flow, a failing task retried, a serial queue, a crash survived, and a schedule.

    Takes about a quarter of a minute, works in a temporary folder and leaves nothing behind.
    Everything it claims it has checked: it exits 1 if something did not happen.
    """
    from windlass.cli.demo.scenes import SceneFailed, play

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
            asyncio.run(play(Path(folder), connection))
        except SceneFailed as error:
            raise CommandFailed(f"the demo went wrong: {error}") from error
        finally:
            os.chdir(home)


def _forget_settings(*, keep_address: bool) -> None:
    """The demo is about the defaults, and must never touch a real database unless told to; then
    libpq's own variables are a part of its address."""
    for name in list(os.environ):
        is_ours = name.startswith("WINDLASS_") or name == "DATABASE_URL"
        if is_ours or (name.startswith("PG") and not keep_address):
            del os.environ[name]
