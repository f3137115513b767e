"""The examination behind `windlass doctor --table`: whether a table of the user's own fits."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.place import Place
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.store.findings import Finding, Level
from windlass.store_kinds import POSTGRES, kind_of


def examine_table(
    place: Place, table: str, view: str | None, columns: Sequence[str]
) -> list[Finding]:
    """Findings whose advice, where there is any, is the statement that mends it."""
    from windlass.table import TableOptions, examine

    url = place.make_app().settings.url
    if not kind_of(url).is_postgres:
        raise ConfigError(
            "a table of your own is served in PostgreSQL only; name its database: -c postgresql://…"
        )
    options: TableOptions[object] = TableOptions(
        name="doctor",
        table_name=table,
        view_name=view,
        alternate_column_names=dict(map(_pair, columns)),
    )
    try:
        examined = examine(POSTGRES.address(url), options)
    except StoreUnavailableError as error:
        advice = "correct -c/--connection, or mend what the line says"
        return [Finding(Level.PROBLEM, "database_unusable", str(error), advice)]
    findings = [
        Finding(level, found.code, found.text, found.mend)
        for level, several in (
            (Level.PROBLEM, examined.problems),
            (Level.WARNING, examined.advice),
            (Level.NOTE, examined.notes),
        )
        for found in several
    ]
    if not examined.problems:
        findings.insert(0, Finding(Level.OK, "table", f"{table} can be worked on"))
    return findings


def _pair(text: str) -> tuple[str, str]:
    logical, equals, real = text.partition("=")
    if not (logical and equals and real):
        raise click.UsageError(f"--column {text!r} is not of the form state=status")
    return logical, real
