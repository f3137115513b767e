"""`windlass dashboard`: the jobs of a database in a browser on this machine."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.place import Place, database
from windlass.errors import MissingExtraError
from windlass.observe import logs
from windlass.server.settings import Address
from windlass.server.sockets import address_of, open_port

DEFAULT_PORT = 8090
_HERE = "127.0.0.1"
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command(
    cls=Command,
    examples=(
        "windlass dashboard                           # sqlite:///windlass.db, in your browser",
        "windlass dashboard -c postgresql:///shop --read-only",
        "windlass demo --dashboard                    # see it with jobs that run",
    ),
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port, on this machine alone; 0 is one that is free.",
)
@click.option("--read-only", is_flag=True, help="Show everything, and let nothing be changed.")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@database
def dashboard(place: Place, port: int, read_only: bool, no_open: bool) -> None:
    """See and change the jobs of a database in a browser, on this machine.

    It answers this machine alone, and asks for a token as soon as the database has one. Nothing
    else runs: workers work, and windlass serve shows the same pages to other machines.
    """
    require_extra()
    from windlass.server.dashboard.alone import show

    logs.configure("warning", "text")

    async def work(app: App) -> None:
        with open_port(Address(_HERE, port), "--port") as opened:
            address = f"http://{address_of(opened)}/"

            def begun() -> None:
                click.echo(f"the dashboard is at {address} (Ctrl-C ends it)")
                sys.stdout.flush()
                if not no_open:
                    open_browser(address)

            await show(app, opened, is_read_only=read_only, begun=begun)

    place.use(work)


def require_extra() -> None:
    """MissingExtraError where a package is missing that only pages need."""
    try:
        import windlass.server.dashboard.alone  # noqa: F401
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "windlass":
            raise
        feature = f"the dashboard (which imports {error.name})"
        raise MissingExtraError(feature, "server") from error


def open_browser(address: str) -> None:
    """Show a page in the user's browser, where there is a screen for one: without, what is found is
    a browser for terminals, which would take ours."""
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, _SCREENS))
    if has_screen and sys.stdout.isatty():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
