"""`windlass doctor`"""

from __future__ import annotations

import sys

import click

from windlass.cli.base import FAILED, SCHEMA_TOO_NEW, Command
from windlass.cli.output import print_json
from windlass.cli.place import Place, database, json_option
from windlass.store.findings import Finding, Level

_COLORS = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "red"}


@click.command(
    cls=Command,
    examples=("windlass doctor", "windlass doctor -c postgresql:///shop --json"),
)
@json_option
@database
@click.pass_context
def doctor(ctx: click.Context, place: Place, /, as_json: bool) -> None:
    """Say what is wrong here, and what to do. Exits 1 if there is a problem, 0 otherwise."""
    from windlass.cli.examine import examine

    findings = examine(place)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            _print(finding)
    if any(finding.code == "schema_too_new" for finding in findings):
        ctx.exit(SCHEMA_TOO_NEW)
    if any(finding.level is Level.PROBLEM for finding in findings):
        ctx.exit(FAILED)


def _print(finding: Finding) -> None:
    word = f"{finding.level.value:<8}"
    if sys.stdout.isatty():
        word = click.style(word, fg=_COLORS[finding.level])
    click.echo(f"{word} {finding.message}")
    if finding.advice:
        click.echo(f"{'':8} → {finding.advice}")
