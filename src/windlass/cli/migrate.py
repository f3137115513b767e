"""`windlass migrate`"""

from __future__ import annotations

import click

from windlass.app import App, schema_sql
from windlass.cli.base import Command
from windlass.cli.output import say
from windlass.cli.place import Place, database


@click.command(
    cls=Command,
    examples=(
        "windlass migrate                           # the database of the settings",
        "windlass migrate -c sqlite:///jobs.db",
        "windlass migrate --sql > schema.sql        # print it and connect to nothing",
    ),
)
@click.option("--sql", "print_sql", is_flag=True, help="Print the schema; connect to nothing.")
@database
def migrate(place: Place, print_sql: bool) -> None:
    """Install the schema, or bring it up to date. Safe to run again, and from many machines.

    Workers and clients do this by themselves when they start; run it where they may not.
    """
    if print_sql:
        click.echo(schema_sql(place.make_app().settings))
        return

    async def work(app: App) -> str:
        await app.migrate()
        return app.settings.url

    url = place.use(work, must_exist=False)
    say(f"the schema of {url} is up to date")
