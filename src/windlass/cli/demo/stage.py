"""Where the demo speaks: one line that changes on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys

import click

_WIDTH = 78


class Stage:
    """Titles and sentences on standard output; `live` is for numbers that change."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._is_live = False
        self._last = ""

    def title(self, text: str) -> None:
        self._end_live()
        click.echo()
        click.echo(click.style(text, bold=True) if self._is_terminal else text)

    def say(self, text: str) -> None:
        self._end_live()
        click.echo(f"  {text}")
        sys.stdout.flush()

    def good(self, text: str) -> None:
        mark = click.style("✓", fg="green") if self._is_terminal else "✓"
        self.say(f"{mark} {text}")

    def live(self, text: str, *, is_worth_a_line: bool) -> None:
        """Show the latest; without a terminal only what is worth a line, and never twice."""
        if self._is_terminal:
            click.echo(f"\r  {text:<{_WIDTH}}", nl=False)
            self._is_live = True
        elif is_worth_a_line and text != self._last:
            self.say(text)
        self._last = text

    def _end_live(self) -> None:
        if self._is_live:
            click.echo()
            self._is_live = False
