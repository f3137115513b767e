"""`windlass demo`: four short scenes with real worker processes on an embedded file."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import click

from windlass.cli.base import Command, CommandFailed


@click.command(cls=Command, examples=("windlass demo",))
def demo() -> None:
    """See jobs flow, a failing task retried, a serial queue, and a crash survived.

    Takes about a quarter of a minute, works in a temporary folder and leaves nothing behind.
    Everything it claims it has checked: it exits 1 if something did not happen.
    """
    from windlass.cli.demo.scenes import SceneFailed, play

    _forget_settings()
    # Both ways to stop it end its workers too, also where Ctrl-C is ignored (a shell's `&`).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        os.chdir(folder)  # so that nobody's windlass.toml is read
        try:
            asyncio.run(play(Path(folder)))
        except SceneFailed as error:
            raise CommandFailed(f"the demo went wrong: {error}") from error
        finally:
            os.chdir(home)


def _forget_settings() -> None:
    """The demo is about the defaults, and must never touch a real database."""
    for name in list(os.environ):
        if name.startswith(("WINDLASS_", "PG")) or name == "DATABASE_URL":
            del os.environ[name]
