"""`windlass migrate`"""

from __future__ import annotations

import click

from windlass.app import App
from windlass.cli.base import Command
from windlass.cli.output import say
from windlass.cli.place import Place, database
from windlass.observe.urls import without_password
from windlass.store_kinds import kind_of


@click.command(
    cls=Command,
    examples=(
        "windlass migrate                           # the database of the settings",
        "windlass migrate -c postgresql://owner@db.example/shop -s jobs",
        "windlass migrate --sql -c postgresql:///shop | psql shop   # connects to nothing itself",
    ),
)
@click.option("--sql", "print_sql", is_flag=True, help="Print the schema; connect to nothing.")
@database
def migrate(place: Place, print_sql: bool) -> None:
    """Install the schema, or bring it up to date. Safe to run again, and from many machines.

    Workers and clients do this by themselves when they start; run it where they may not.
    """
    if print_sql:
        settings = place.make_app().settings
        click.echo(kind_of(settings.url).schema_sql(settings))
        return

    async def work(app: App) -> str:
        await app.migrate()
        return without_password(app.settings.url)

    # The command was given on purpose, so the setting `migrate` of the workers does not count.
    url = place.use(work, must_exist=False, migrate="auto")
    say(f"the schema of {url} is up to date")
