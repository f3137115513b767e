"""One request whose caller is known: what it says, and what of the queue it may see and change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from litestar import Request

from windlass.client import Client
from windlass.clock import to_datetime
from windlass.model.names import check_tenant
from windlass.server.dashboard.cookies import Cookies
from windlass.server.dashboard.figures import Looks
from windlass.server.dashboard.forms import Form
from windlass.server.dashboard.live import Watchers
from windlass.server.identity import Identity, Power
from windlass.server.refusals import Refusal
from windlass.server.service import Service
from windlass.server.visible import readable


class NotThere(Refusal):
    """Raised when a page is about something that does not exist (for this caller)."""

    status = 404
    code = "NOT_FOUND"


class Shared:
    """What all requests of one process share."""

    def __init__(self, service: Service, *, is_read_only: bool) -> None:
        self.service = service
        self.is_read_only = is_read_only
        self.figures = Looks(service)
        self.watchers = Watchers(service, self.figures)


class Visit:
    """What a page is given. Its caller may do what the page's route needs."""

    def __init__(
        self,
        shared: Shared,
        request: Request[Any, Any, Any],
        identity: Identity | None,
        cookies: Cookies,
        visit: str,
        query: Form,
        form: Form,
    ) -> None:
        """`identity` is None on the few pages that need none; `visit` ties forms to the browser."""
        self.shared = shared
        self.service = shared.service
        self.figures = shared.figures
        self.request = request
        self._identity = identity
        self.cookies = cookies
        self.visit = visit
        self.query = query
        self.form = form

    @property
    def identity(self) -> Identity:
        assert self._identity is not None
        return self._identity

    @property
    def is_known(self) -> bool:
        return self._identity is not None

    @property
    def may_change(self) -> bool:
        """Whether buttons are shown; what they send is judged again when it comes."""
        return (
            self._identity is not None
            and self._identity.may(Power.OPERATE)
            and not self.shared.is_read_only
        )

    @property
    def now(self) -> datetime:
        return to_datetime(self.service.clock.now())

    # ── whose jobs ──

    def seen(self, tenant: str | None = None) -> Client:
        """For ids and lists: all that the caller sees, or the one tenant that is named."""
        return self.service.client(self.identity, check_tenant(tenant))

    def scope(self, tenant: str | None) -> str | None:
        """The tenant whose figures are meant: the one that is named, or all that the caller sees;
        `seen` has judged the name."""
        return self.identity.sees if tenant is None else tenant

    def own(self, tenant: str | None = None) -> Client:
        """For what is meant by its name: queues, tasks, schedules, keys."""
        return self.service.own_client(self.identity, check_tenant(tenant))

    @property
    def sees_tenants(self) -> bool:
        """Whether the jobs of several tenants may stand on one page."""
        return self.identity.sees is None

    def worker(self, name: str | None) -> str:
        """The name of a worker, as the caller may know it."""
        name = name or ""
        return name if self.identity.is_admin else readable(name)

    # ── what is in the address ──

    @property
    def path(self) -> str:
        return str(self.request.scope["path"])

    @property
    def here(self) -> str:
        """The address of this page, where it can be asked for again."""
        if self.request.scope["method"] != "GET":
            return "/"
        query = self.request.scope["query_string"].decode("latin-1")
        return f"{self.path}?{query}" if query else self.path

    @property
    def id(self) -> int:
        """The id in the path."""
        text = str(self.request.path_params["id"])
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) < 2**63):
            raise NotThere("there is nothing at this address: an id is a whole number")
        return int(text)
