"""Makes what streams share, from the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.observe.metrics import SERVER_STREAMS_OPENED
from windlass.server.service import Service
from windlass.server.streams.additions import Additions
from windlass.server.streams.deliveries import Deliveries, open_deliveries
from windlass.server.streams.dispatcher import Dispatcher
from windlass.server.streams.keeping import Keeping
from windlass.server.streams.lease_thread import LeaseHost, LeaseThread
from windlass.server.streams.rulings import Rulings
from windlass.server.streams.settlements import Settlements
from windlass.server.streams.shared import Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """What hands out jobs and settles them, for every surface of a server."""

    settlements: Settlements
    dispatcher: Dispatcher
    deliveries: Deliveries

    async def close(self) -> None:
        """Claim nothing more, and write what was said. The store is still needed for this."""
        await self.dispatcher.close()
        await self.settlements.close()

    def give_up(self) -> None:
        """Those who wait for outcomes are told that the database does not answer."""
        self.settlements.give_up()


async def open_works(service: Service) -> Works:
    """The store must be open."""
    instruments = service.instruments
    settlements = Settlements(service.store, instruments)
    poll_interval = service.app.settings.poll_interval
    dispatcher = Dispatcher(service.store, settlements, poll_interval, instruments)
    deliveries = await open_deliveries(service.store)
    dispatcher.start()
    return Works(settlements=settlements, dispatcher=dispatcher, deliveries=deliveries)


def make_shared(
    service: Service, works: Works, host: Callable[..., LeaseHost] = LeaseThread
) -> Shared:
    """`host` is what has the lifeline."""
    settings = service.app.settings

    def keep(task: str) -> float | None:
        known = service.app.registry.find(task)
        by_task = None if known is None else known.options.keep
        return service.keep if by_task is None else by_task

    keeping = Keeping(
        service.store,
        service.clock,
        lease=settings.lease,
        max_resets=settings.max_resets,
        host=host,
    )
    return Shared(
        identify=lambda token, peer: service.access.identify(token, peer=peer),
        admit=service.limits.admit,
        watch=service.watch,
        store=service.store,
        settlements=works.settlements,
        dispatcher=works.dispatcher,
        deliveries=works.deliveries,
        keeping=keeping,
        additions=Additions(service.store),
        rulings=Rulings(
            service.app.registry,
            retry=service.app.retry,
            max_attempts=settings.max_attempts,
            keep=settings.keep,
            max_output=settings.max_payload,
        ),
        prepare=service.app.client.prepare_plain,
        check_webhook=service.check_webhook,
        clock=service.clock,
        lease=settings.lease,
        max_payload=settings.max_payload,
        keep=keep,
        calls=service.calls,
        count_stream=lambda kind: service.instruments.count(SERVER_STREAMS_OPENED, kind),
    )
