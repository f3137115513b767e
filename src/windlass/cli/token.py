"""`windlass token`: keys to a server, and the secrets that sign webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import click

from windlass.app import App
from windlass.cli.base import Command, CommandFailed, ExitCodes
from windlass.cli.output import instant, print_json, print_table, say
from windlass.cli.place import Place, database, json_option
from windlass.cli.values import seconds_option
from windlass.clock import SYSTEM, to_datetime
from windlass.errors import ConfigError
from windlass.model.names import check_task
from windlass.server.identity import Role
from windlass.server.tokens import digest_of, make_token
from windlass.server.webhooks.signing import rotate_secret, secret_of
from windlass.store.server import ServerStore, Token

_MOST_NAME = 128
_HEADER = ("NAME", "TENANT", "ROLES", "TASKS", "CREATED", "EXPIRES", "STATE")


class Group(ExitCodes, click.Group):
    """A group with examples in its help."""


@click.group(
    cls=Group,
    examples=(
        "windlass token create ci --role producer --expires 30d",
        "windlass token list",
        "windlass token revoke ci",
        "windlass token webhook-secret",
    ),
)
def token() -> None:
    """Make, list and revoke the tokens of a server.

    A token is a key to windlass serve. Tokens are in the jobs' database, as digests; the servers
    over that database share them.
    """


tenant_option = click.option(
    "--tenant", metavar="NAME", help="Whose it is; '' is the default tenant.  [default: '']"
)


@token.command(
    cls=Command,
    examples=(
        "windlass token create shop --role producer",
        "windlass token create mailer --role worker --task send_mail --task send_sms",
        "windlass token create acme-ops --tenant acme --role operator --expires 30d",
        "export WINDLASS_TOKEN=$(windlass token create laptop --role admin)",
    ),
)
@click.argument("name")
@tenant_option
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    required=True,
    help="producer adds and reads jobs, worker claims and settles them, operator cancels, retries"
    " and pauses, admin does everything in all tenants; may be repeated.",
)
@click.option(
    "--task",
    "tasks",
    metavar="TASK",
    multiple=True,
    help="A worker's token: claim jobs of this task only; may be repeated.  [default: all]",
)
@click.option(
    "--expires",
    metavar="TIME",
    callback=seconds_option,
    help="Seconds, or 90m, 12h, 30d from now.  [default: never]",
)
@json_option
@database
def create(
    place: Place,
    name: str,
    roles: Sequence[str],
    tasks: Sequence[str],
    expires: float | None,
    as_json: bool,
) -> None:
    """Make a token and print it, once: the database keeps a digest of it.

    A name is taken for good, so that a log that names it means one token.
    """
    _check(name, roles, tasks, expires)
    text = make_token()
    now = SYSTEM.now()

    async def work(app: App) -> Token:
        made = Token(
            name=name,
            digest=digest_of(text),
            tenant=app.settings.tenant or "",
            roles=tuple(dict.fromkeys(roles)),
            tasks=tuple(dict.fromkeys(tasks)) or None,
            created_at=now,
            expires_at=None if expires is None else now + round(expires * 1e6),
        )
        if not await (await _server_store(app)).add_token(made):
            raise CommandFailed(
                f"there is or was a token called {name!r}; choose another name"
                " (windlass token list shows them)"
            )
        return made

    made = place.use(work, must_exist=False, says_if_new=True)
    if as_json:
        print_json({**_shown(made), "token": text})
    else:
        click.echo(text)
        say("windlass: keep it safe; it cannot be shown again")


@token.command(
    "list",
    cls=Command,
    examples=("windlass token list", "windlass token list --json | jq -r '.[].name'"),
)
@json_option
@database
def list_tokens(place: Place, as_json: bool) -> None:
    """List all tokens, by name; never the tokens themselves."""

    async def work(app: App) -> list[Token]:
        return await (await _server_store(app)).tokens()

    found = place.use(work, looks=True)
    if as_json:
        print_json([_shown(it) for it in found])
    elif found:
        print_table(_HEADER, [_row(it) for it in found])
    else:
        say("no tokens; a server answers on loopback only, and takes everyone there for an admin")


@token.command(cls=Command, examples=("windlass token revoke ci",))
@click.argument("name")
@json_option
@database
def revoke(place: Place, name: str, as_json: bool) -> None:
    """Make a token useless from now on. Its open streams end within 30 seconds."""

    async def work(app: App) -> Token | None:
        return await (await _server_store(app)).revoke_token(name)

    found = place.use(work)
    if found is None:
        raise CommandFailed(f"there is no token called {name!r}; windlass token list shows them")
    if as_json:
        print_json(_shown(found))
    else:
        click.echo(f"revoked {name}")


@token.command(
    "webhook-secret",
    cls=Command,
    examples=(
        "windlass token webhook-secret",
        "windlass token webhook-secret --tenant acme --rotate",
    ),
)
@tenant_option
@click.option("--rotate", is_flag=True, help="Make a new one; the old one signs nothing any more.")
@json_option
@database
def webhook_secret(place: Place, rotate: bool, as_json: bool) -> None:
    """Print the secret with which a tenant's webhooks are signed."""

    async def work(app: App) -> str:
        store = await _server_store(app)
        tenant = app.settings.tenant or ""
        return await (rotate_secret(store, tenant) if rotate else secret_of(store, tenant))

    secret = place.use(work)
    if as_json:
        print_json({"secret": secret, "tenant": place.tenant or None})
    else:
        click.echo(secret)


def _check(name: str, roles: Sequence[str], tasks: Sequence[str], expires: float | None) -> None:
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise ConfigError(f"a token's name is 1 to {_MOST_NAME} printable characters")
    if tasks and Role.WORKER not in roles:
        raise ConfigError("--task is for tokens of the role worker")
    for task in tasks:
        check_task(task)
    if expires is not None and expires <= 0:
        raise ConfigError("--expires must be more than 0 seconds")


async def _server_store(app: App) -> ServerStore:
    await app.open()
    if not app.store.capabilities.server:
        raise ConfigError(f"the jobs in {app.place} cannot be served, so no token is of use there")
    return cast(ServerStore, app.store)


def _shown(it: Token) -> dict[str, Any]:
    """A token for programs, without its digest."""
    return {
        "name": it.name,
        "tenant": it.tenant or None,
        "roles": it.roles,
        "tasks": it.tasks,
        "created_at": to_datetime(it.created_at),
        "expires_at": None if it.expires_at is None else to_datetime(it.expires_at),
        "revoked_at": None if it.revoked_at is None else to_datetime(it.revoked_at),
        "is_good": it.is_good(SYSTEM.now()),
    }


def _row(it: Token) -> tuple[str, ...]:
    if it.revoked_at is not None:
        state = "revoked"
    else:
        state = "good" if it.is_good(SYSTEM.now()) else "expired"
    return (
        it.name,
        it.tenant,
        ", ".join(it.roles),
        "all" if it.tasks is None else ", ".join(it.tasks),
        instant(to_datetime(it.created_at)),
        "never" if it.expires_at is None else instant(to_datetime(it.expires_at)),
        state,
    )
