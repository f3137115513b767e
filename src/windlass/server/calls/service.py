"""The calls of all streams of one process: what they share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from windlass.errors import StoreError
from windlass.model.names import MAX_INT32
from windlass.server.calls.caller import Caller
from windlass.server.calls.checks import JobChecks
from windlass.server.calls.desk import Desk, Writers
from windlass.server.calls.gathering import Gathered
from windlass.server.calls.session import CallSession, Send
from windlass.server.calls.table import rules
from windlass.server.calls.working import Renewals
from windlass.server.identity import Identity
from windlass.store.port import Store
from windlass.store.records import RELEASE, Lease

_log = logging.getLogger("windlass.server")


class CallService:
    """Verbs of one store for callers elsewhere.

    `secret` seals leases; all servers of a database share it.
    """

    def __init__(
        self,
        store: Store,
        secret: str,
        *,
        max_payload: int = MAX_INT32,
        check_webhook: Callable[[str], object] = lambda url: None,
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._secret = secret.encode()[:64]
        self._checks = JobChecks(max_payload, check_webhook)
        self._is_draining = is_draining
        self._renewals = Renewals(store)
        self._rules = rules(self._renewals)
        self.writers = Writers(
            settlements=Gathered(lambda pairs: self._store.settle(pairs)),
            jobs=Gathered(lambda jobs: self._store.enqueue(jobs)),
        )
        self._sessions: set[CallSession] = set()
        self._hinted: set[CallSession] = set()
        self._unsubscribe: Callable[[], None] | None = None

    def open(self, identity: Identity, send: Send) -> CallSession:
        """The calls of one stream; its owner closes it when the stream ends."""

        async def hint() -> None:
            self._hinted.add(session)
            self._subscribe()

        desk = Desk(
            store=self._store,
            caller=Caller(identity, self._secret),
            checks=self._checks,
            writers=self.writers,
            is_draining=self._is_draining,
            hint=hint,
        )
        session = CallSession(desk, self._rules, send, self._release)
        self._sessions.add(session)
        return session

    async def end(self, session: object) -> None:
        """Close a session; what it claimed and could not deliver has gone back then."""
        assert isinstance(session, CallSession)
        self._hinted.discard(session)
        try:
            await session.close()
        finally:
            self._sessions.discard(session)

    async def close(self) -> None:
        """Close what is open. The store is still needed for this."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for session in tuple(self._sessions):
            await self.end(session)
        await asyncio.to_thread(self._renewals.close)

    # ── hints: one subscription for all streams ──

    def _subscribe(self) -> None:
        if self._unsubscribe is not None:
            return
        loop = asyncio.get_running_loop()

        def tell(function: Callable[..., None], *values: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(function, *values)

        self._unsubscribe = self._store.subscribe(
            lambda: tell(self._tell_ready), due=lambda seconds: tell(self._tell_due, seconds)
        )

    def _tell_ready(self) -> None:
        for session in self._hinted:
            session.hint()

    def _tell_due(self, seconds: float | None) -> None:
        for session in self._hinted:
            # Which tenant's job it is, is not known: when it is due, is for those who see all.
            session.due(seconds if session.sees_all else None)

    # ── what could not be delivered ──

    async def _release(self, leases: Sequence[Lease]) -> None:
        try:
            await self._store.settle([(lease, RELEASE) for lease in leases])
        except StoreError as error:
            _log.warning(
                "%d jobs that could not be delivered go back when their leases end: %s",
                len(leases),
                error,
            )
