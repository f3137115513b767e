"""The Service: what every surface of the server is given.

service = Service(app, settings)
await service.start()        # the app's database is open from here on
…
service.draining.set()       # told to stop: surfaces take results, and nothing new
await service.close()        # the app stays open; it is the caller's
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from windlass.app import App
from windlass.client import Client
from windlass.clock import SYSTEM, Clock
from windlass.errors import ConfigError
from windlass.observe.instruments import Instruments
from windlass.observe.logs import scoped
from windlass.observe.snapshot import Snapshot
from windlass.server.access import Access, JwtVerifier
from windlass.server.identity import Identity
from windlass.server.limits import Limits
from windlass.server.peers import Peer
from windlass.server.refusals import Forbidden
from windlass.server.settings import DEFAULT_KEEP, ServeSettings
from windlass.server.watches import Watches
from windlass.server.webhooks.addresses import check_address
from windlass.store.figures import FigureStore
from windlass.store.port import Store
from windlass.store.server import ServerStore

if TYPE_CHECKING:
    from windlass.observe.sharing import SharedFigures
    from windlass.server.streams import Works
    from windlass.server.streams.deliveries import Deliveries
    from windlass.server.streams.dispatcher import Dispatcher
    from windlass.server.streams.settlements import Settlements
    from windlass.server.streams.shared import CallHandler


class ServedStore(Store, ServerStore, FigureStore, Protocol):
    """A queue that a server can work with."""


class Service:
    """One app, served. Surfaces authenticate, validate, and call the client or the store."""

    access: Access
    settlements: Settlements
    dispatcher: Dispatcher
    deliveries: Deliveries
    calls: CallHandler | None = None
    """Verbs of the store for Windlass's own programs elsewhere (`server/calls/`)."""

    def __init__(self, app: App, settings: ServeSettings, *, clock: Clock = SYSTEM) -> None:
        self.app = app
        self.settings = settings
        self.clock = clock
        self.draining = asyncio.Event()
        """Set when the server has been told to stop."""
        self.limits = Limits(settings.rate, clock)
        self.logger = scoped(app.logger, "server")
        self.instruments = app.instruments or Instruments(clock)
        self.shared_figures: SharedFigures | None = None
        """Of this process and those that serve together with it."""

    @property
    def store(self) -> ServedStore:
        return cast(ServedStore, self.app.store)

    @property
    def keep(self) -> float:
        """How long a job is kept, in seconds, that was added through the server and does not say,
        where its task does not say either."""
        keep = self.app.settings.keep
        return DEFAULT_KEEP if keep is None else keep

    async def start(self, jwt: JwtVerifier | None = None) -> None:
        """Open the database. ConfigError where its store cannot be served."""
        await self.app.open()
        if not self.app.store.capabilities.server:
            raise ConfigError(f"the jobs in {self.app.place} cannot be served")
        if self.app.settings.tenant is not None:
            raise ConfigError(
                "a server serves all tenants; make the app without tenant=, and unset"
                " WINDLASS_TENANT"
            )
        self.access = Access(
            self.store, self.clock, jwt=jwt, allow_anonymous=self.settings.insecure
        )
        self._watches = Watches(self.store, self.clock, self.logger)

    def use(self, works: Works) -> None:
        """What hands out jobs and settles them, for every surface; the caller closes it."""
        self.settlements = works.settlements
        self.dispatcher = works.dispatcher
        self.deliveries = works.deliveries

    async def close(self) -> None:
        await self._watches.close()

    async def figures(self) -> Snapshot:
        """What its metrics show: of this process, or of all that serve together."""
        shared = self.shared_figures
        return self.instruments.look() if shared is None else await asyncio.to_thread(shared.look)

    # ── callers ──

    def client(self, identity: Identity, tenant: str | None = None) -> Client:
        """The verbs, bound to what a caller sees: its tenant; all of them, or the one that is
        named, for an admin. Forbidden for anyone else who names another than its own."""
        if identity.is_admin:
            return self.app.client.for_tenant(tenant)
        if tenant is not None and tenant != identity.tenant:
            raise Forbidden("this token is of another tenant")
        return self.app.client.for_tenant(identity.tenant)

    def own_client(self, identity: Identity, tenant: str | None = None) -> Client:
        """The verbs, bound to the tenant in which a caller adds jobs, and whose keys, queues and
        schedules it means: its own or, for an admin, the one that is named."""
        return self.client(identity, identity.tenant if tenant is None else tenant)

    def watch(self, identity: Identity, ended: Callable[[str], None]) -> Callable[[], None]:
        """Calls `ended(why)` within 30 s of the revocation or expiry of the identity's token;
        the answer ends the watch."""
        return self._watches.add(identity, ended)

    def check_webhook(self, url: object) -> str:
        """The address, if a job may be given it; ValidationError if not."""
        return check_address(url, self.settings.webhook_allow)

    def may_probe(self, peer: Peer) -> bool:
        """Whether health and metrics are shown to a caller without a token."""
        return self.settings.open_probes or peer.is_local
