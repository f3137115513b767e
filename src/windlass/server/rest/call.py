"""One request whose caller is known: what it says, and what of the queue it may see and change."""

from __future__ import annotations

import re
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from litestar import Request

from windlass.client import Client
from windlass.client.showing import ShownJob, shown, with_blockers
from windlass.model.job import Job
from windlass.server.identity import Identity
from windlass.server.rest.gone import Caller
from windlass.server.rest.problems import Kind, Refused
from windlass.server.rest.shared import Shared
from windlass.server.visible import may_read, seen_chains

Q = TypeVar("Q")
B = TypeVar("B")

_ID = re.compile(r"[0-9]{1,19}")


class Call(Generic[Q, B]):
    """`query` and `body` are what the route declares them to be."""

    def __init__(
        self,
        shared: Shared,
        request: Request[Any, Any, Any],
        identity: Identity,
        tenant: str | None,
        names: dict[str, str],
        query: Q,
        body: B,
    ) -> None:
        """`tenant` is the one an admin has named, `names` what stands in the path."""
        self.service = shared.service
        self.results = shared.results
        self.renewals = shared.renewals
        self.rulings = shared.rulings
        self.request = request
        self.identity = identity
        self.tenant = tenant
        self.names = names
        self.query = query
        self.body = body

    @property
    def sees(self) -> str | None:
        """The tenant whose jobs are seen; None is all of them."""
        return self.identity.sees if self.tenant is None else self.tenant

    @property
    def owns(self) -> str:
        """The tenant to which what is added belongs, and whose keys and names are meant."""
        return self.identity.tenant if self.tenant is None else self.tenant

    @cached_property
    def seen(self) -> Client:
        """For ids and lists."""
        return self.service.client(self.identity, self.tenant)

    @cached_property
    def own(self) -> Client:
        """For what is added, and what is meant by a name: keys, queues, tasks, schedules."""
        return self.service.own_client(self.identity, self.tenant)

    @property
    def id(self) -> int:
        """The id in the path. What cannot be one is the id of nothing."""
        text = self.names["id"]
        if not _ID.fullmatch(text) or int(text) >= 2**63:
            raise Refused(Kind.NOT_FOUND, f"{text[:40]!r} is the id of nothing", field="id")
        return int(text)

    def may_read(self, task: str) -> bool:
        """Whether the caller sees jobs of this task: a worker's token may be for some alone."""
        return may_read(self.identity, task)

    @property
    def caller(self) -> Caller:
        """Whether it still listens, and its token is still good."""
        return Caller(self.request, partial(self.service.watch, self.identity))

    async def shown(self, job: Job) -> ShownJob:
        """A job that the caller sees, with what it sees of the chains that it waited for."""
        if not job.blockers_total:
            return shown(job, ())
        found = await with_blockers(self.seen, job)
        return shown(job, seen_chains(self.identity, found.blockers))

    def require_all_tasks(self, of: str) -> None:
        """Refuse a token that is for some tasks alone what cannot be told of these alone."""
        if self.identity.reads is not None:
            raise Refused(
                Kind.FORBIDDEN,
                f"this token sees the jobs of its tasks alone, and {of} are not kept by task",
            )
