"""Who a caller of the server is, and what each role may do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from windlass.model.job import DEFAULT_TENANT
from windlass.model.names import RESERVED


class Role(StrEnum):
    """What a token is for; one may have several."""

    PRODUCER = "producer"
    WORKER = "worker"
    OPERATOR = "operator"
    ADMIN = "admin"


class Power(StrEnum):
    """What a route or a verb needs. Every one of them names exactly one."""

    READ = "read"
    """See jobs, chains, schedules, tasks, queues and workers."""
    ADD = "add"
    """Add jobs, and start chains."""
    CLAIM = "claim"
    """Take jobs, settle them, renew leases, note progress, fire schedules."""
    OPERATE = "operate"
    """Cancel, retry, pause and the like."""
    ADMINISTER = "administer"
    """What concerns all tenants."""


_POWERS: dict[Role, frozenset[Power]] = {
    Role.PRODUCER: frozenset({Power.READ, Power.ADD}),
    Role.WORKER: frozenset({Power.READ, Power.ADD, Power.CLAIM}),
    Role.OPERATOR: frozenset({Power.READ, Power.ADD, Power.OPERATE}),
    Role.ADMIN: frozenset(Power),
}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A caller whose token is good. Instants are microseconds.

    `tasks` are those that its token is for, None for all: a worker claims these, and one that is
    nothing but a worker reads the jobs of these alone.
    """

    name: str
    roles: frozenset[Role]
    tenant: str = DEFAULT_TENANT
    tasks: tuple[str, ...] | None = None
    expires_at: int | None = None
    digest: str | None = None
    """Of the token, where it is one of the database's: it can be revoked."""
    is_anonymous: bool = False

    def may(self, power: Power) -> bool:
        return any(power in _POWERS[role] for role in self.roles)

    @property
    def is_admin(self) -> bool:
        return Role.ADMIN in self.roles

    @property
    def sees(self) -> str | None:
        """The tenant whose jobs it sees, as the port takes it: None is all of them."""
        return None if self.is_admin else self.tenant

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The tasks whose jobs it reads, None for all."""
        return self.tasks if self.roles == {Role.WORKER} else None


def claimable(identity: Identity, asked: Iterable[str] | None) -> tuple[str, ...] | None:
    """The tasks among these whose jobs a caller may claim, each once; None, asked or answered, is
    every task. The jobs that Windlass adds for itself are the server's own to run: no token claims
    them, whatever it names."""
    allowed = identity.tasks
    if asked is None:
        asked = allowed
    if asked is None:
        return None
    return tuple(
        task
        for task in dict.fromkeys(asked)
        if (allowed is None or task in allowed) and not task.startswith(RESERVED)
    )


def roles_of(names: Iterable[str]) -> frozenset[Role]:
    """Raises ValueError for a name that is no role."""
    return frozenset(Role(name) for name in names)
