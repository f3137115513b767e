"""`windlass doctor`"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec

from windlass.cli.base import FAILED, SCHEMA_TOO_NEW, Command
from windlass.cli.output import print_json
from windlass.cli.place import Place, database, json_option
from windlass.store.findings import Finding, Level

_COLORS = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "red"}


@click.command(
    cls=Command,
    examples=(
        "windlass doctor",
        "windlass doctor -c postgresql:///shop --json",
        "windlass doctor -c postgresql:///shop --table example_jobs",
        "windlass doctor -c postgresql:///shop --table shop.jobs --column state=status",
    ),
)
@click.option(
    "--table",
    metavar="NAME",
    help="Say instead whether this table of your own can hold jobs, and print the DDL it lacks.",
)
@click.option("--view", metavar="NAME", help="The view that records of --table are read from.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=REAL",
    help="What --table calls one of our columns, as state=status; may be repeated.",
)
@json_option
@database
@click.pass_context
def doctor(
    ctx: click.Context,
    place: Place,
    /,
    table: str | None,
    view: str | None,
    columns: Sequence[str],
    as_json: bool,
) -> None:
    """Say what is wrong here, and what to do. Exits 1 if there is a problem, 0 otherwise."""
    if table is not None:
        from windlass.cli.examine_table import examine_table

        findings = examine_table(place, table, view, columns)
    elif view is not None or columns:
        raise click.UsageError("--view and --column belong to --table")
    else:
        from windlass.cli.examine import examine

        findings = examine(place)
    if as_json:
        print_json(findings)
    elif table is not None:
        _print_with_ddl(findings)
    else:
        for finding in findings:
            _print(finding)
    if any(finding.code == "schema_too_new" for finding in findings):
        ctx.exit(SCHEMA_TOO_NEW)
    if any(finding.level is Level.PROBLEM for finding in findings):
        ctx.exit(FAILED)


def _print_with_ddl(findings: Sequence[Finding]) -> None:
    """Statements come last and by themselves, so that they can be copied and run."""
    statements = [found.advice for found in findings if found.advice.endswith(";")]
    for found in findings:
        _print(msgspec.structs.replace(found, advice="") if found.advice in statements else found)
    for number, statement in enumerate(statements):
        click.echo(statement if number else f"\n{statement}")


def _print(finding: Finding) -> None:
    word = f"{finding.level.value:<8}"
    if sys.stdout.isatty():
        word = click.style(word, fg=_COLORS[finding.level])
    click.echo(f"{word} {finding.message}")
    if finding.advice:
        click.echo(f"{'':8} → {finding.advice}")
