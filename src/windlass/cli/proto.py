"""`windlass proto`"""

from __future__ import annotations

from importlib.resources import files

import click

from windlass.cli.base import Command


@click.command(cls=Command, examples=("windlass proto > windlass.proto",))
def proto() -> None:
    """Print the protocol file of the server's streams.

    Any gRPC toolchain makes a client of it. What the messages mean is in docs/streams.md.
    """
    click.echo(files("windlass.wire").joinpath("windlass.proto").read_text("utf-8"), nl=False)
