"""What a server keeps beside jobs, and asks a store for: the port of `windlass serve`.

A store whose capability `server` is True has these verbs. A server holds no state of its own: what
several of them must agree on (tokens, secrets, requests that may come twice) is in the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.model.job import DEFAULT_TENANT, Instant, Job
from windlass.store.records import Lease, NewJob, Verdict

REQUESTS_KEPT = 24 * 3600.0
"""Seconds for which a request is remembered under its idempotency key."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A key to the server, known by its digest alone. `tasks` are those it may claim and see as a
    worker, None for all."""

    name: str
    digest: str
    tenant: str = DEFAULT_TENANT
    roles: tuple[str, ...]
    tasks: tuple[str, ...] | None = None
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def is_good(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Request(msgspec.Struct, frozen=True):
    """Jobs of one tenant that are asked for under an idempotency key of that tenant.

    `digest` tells requests apart: the same key with another digest is a conflict.
    """

    key: str
    digest: str
    jobs: tuple[NewJob, ...]

    @property
    def tenant(self) -> str:
        return self.jobs[0].tenant


class Requested(msgspec.Struct, frozen=True):
    """What became of one request.

    `ids` are the jobs that its key stands for, none if it is a conflict; `jobs` are those as they
    are now, None for each that is gone.
    """

    ids: tuple[int, ...] = ()
    jobs: tuple[Job | None, ...] = ()
    is_new: bool = False
    is_conflict: bool = False


class ClaimScope(msgspec.Struct, frozen=True):
    """Which jobs would be claimed: as `ClaimRequest.tasks` and `ClaimRequest.tenants` say."""

    tasks: tuple[str, ...] | None = None
    tenants: tuple[str, ...] | None = None


class ServerStore(Protocol):
    """A store that a server can work with."""

    # ── tokens ──
    async def add_token(self, token: Token) -> bool:
        """Keep a token; False, and nothing is kept, if its name is taken. Names are taken for good,
        whatever becomes of the token."""

    async def find_token(self, digest: str) -> Token | None: ...

    async def tokens(self) -> list[Token]:
        """All of them, revoked ones too, by name."""

    async def revoke_token(self, name: str) -> Token | None:
        """The token as it is then; None if there is none of that name. Revoking one again changes
        nothing."""

    # ── secrets ──
    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        """The secret of this name; `fresh` is kept and is the answer where there was none. However
        many ask at once, all get the same."""

    async def replace_secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> None: ...

    # ── requests that may come twice ──
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        """Add the jobs of each request if and only if none was added under its key in the last
        `REQUESTS_KEPT` seconds, all requests in one step and however many servers are asked.

        One that is a conflict adds nothing, and hinders no other. Of two with one key in one call
        the first counts. Raises what `enqueue` raises for the jobs that are to be added; nothing is
        stored then. `prune` forgets old requests, and counts them among what it removed.
        """

    # ── deliveries that change hands ──
    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        """Make a delivery that of another worker, if and only if its token still owns the job. That
        worker's lease ends `seconds` from now, as `renew` says; from now on the job goes back with
        this worker and not with the one before. The lease that was given out stays as it is: its
        token settles, renews and notes as before."""

    # ── a look before claims ──
    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        """For each scope, whether a claim may find a job. False is sure, but for changes that are
        just being made (a hint follows them); True is not."""
