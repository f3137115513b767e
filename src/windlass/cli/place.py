"""Where a command's jobs are: the options every database command has, and the app behind them."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from windlass.app import App, look_only
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.store_kinds import database_file

T = TypeVar("T")

LOG_LEVELS = click.Choice(["debug", "info", "warning", "error"])


@dataclass(frozen=True, slots=True)
class Place:
    """A database, as named on the command line; what is None comes from the settings."""

    connection: str | None
    schema: str | None
    tenant: str | None = None
    """Whose jobs; '' is the default tenant alone."""

    def make_app(self, **settings: Any) -> App:
        return App(self.connection, schema=self.schema, tenant=self.tenant, **settings)

    def use(
        self,
        work: Callable[[App], Coroutine[Any, Any, T]],
        *,
        must_exist: bool = True,
        says_if_new: bool = False,
        looks: bool = False,
        migrate: Literal["auto", "check", "never"] | None = None,
    ) -> T:
        """Run `work` with an app on this database, and close it again.

        With `must_exist` a file or schema that is not there is an error rather than made: a
        mistyped name must not look like an empty queue. With `says_if_new` it is made, and said
        so. With `looks` nothing at all is made or changed. `migrate` goes before the setting of
        that name.
        """
        app, new_file = self._prepared(
            must_exist=must_exist and not says_if_new, looks=looks, migrate=migrate
        )

        async def run() -> T:
            try:
                return await work(app)
            finally:
                await app.close()

        result = asyncio.run(run())
        if new_file is not None and says_if_new:
            click.echo(f"windlass: {new_file} is new", err=True)
        return result

    def open_app(self) -> App:
        """An app on this database, which must be there: it is not made by opening it."""
        return self._prepared(must_exist=True)[0]

    def _prepared(
        self,
        *,
        must_exist: bool,
        looks: bool = False,
        migrate: Literal["auto", "check", "never"] | None = None,
    ) -> tuple[App, Path | None]:
        """An app that is not open yet, and the file that it will make, if there is none."""
        app = self.make_app(migrate=migrate)
        if not app.store.capabilities.shared:
            raise ConfigError("jobs in memory:// live in one process; name a file: -c sqlite:///…")
        file = database_file(app.settings.url)
        if must_exist and app.settings.migrate == "auto":
            app.configure(migrate="check")
        if looks:
            look_only(app)
        is_new = file is not None and is_missing(file)
        if is_new and must_exist:
            raise StoreUnavailableError(
                f"there is no database at {file}; correct -c/--connection, or make it with"
                " windlass migrate"
            )
        return app, file if is_new else None


def is_missing(file: Path) -> bool:
    """Whether there is no such file; StoreUnavailableError if this user may not look."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise StoreUnavailableError(
            f"this user may not look at {file} ({error.strerror}); give it the right to the"
            " directory, or correct -c/--connection"
        ) from error
    return False


def _set_log_level(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        logging.getLogger("windlass").setLevel(value.upper())
    return value


connection_option = click.option(
    "-c",
    "--connection",
    metavar="URL",
    help="Where the jobs are: sqlite:///jobs.db, postgresql://…, or the name of a local PostgreSQL"
    " database; else WINDLASS_URL and so on.",
)
schema_option = click.option(
    "-s", "--schema", metavar="NAME", help="The PostgreSQL schema.  [default: windlass]"
)


def log_level_option(*, expose_value: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--log-level",
        type=LOG_LEVELS,
        callback=_set_log_level,
        expose_value=expose_value,
        help="What to log; debug also shows tracebacks.  [default: info]",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def database(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command -c, -s and --log-level; its function takes a Place first."""

    @connection_option
    @schema_option
    @log_level_option(expose_value=False)
    @functools.wraps(function)
    def with_place(
        *args: Any,
        connection: str | None,
        schema: str | None,
        tenant: str | None = None,
        **options: Any,
    ) -> Any:
        return function(Place(connection, schema, tenant), *args, **options)

    return with_place


def jobs_database(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `database`, with --tenant: for commands about jobs, which belong to a tenant."""
    return click.option(
        "--tenant",
        metavar="NAME",
        help="Only what belongs to this tenant; '' is the default one.  [default: add to the"
        " default one, see all]",
    )(database(function))
