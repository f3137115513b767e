"""Looks after open streams: one ends soon after its token expired or was revoked.

One loop serves all streams, and asks the database once for all of them. It notices a revocation
within `EVERY` seconds and one query, and an expiry when it comes. While the database cannot be
asked, streams stay open: they can do nothing then, and their tokens were good when last seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from windlass.clock import Clock
from windlass.errors import StoreError
from windlass.observe.logs import Scoped
from windlass.server.identity import Identity
from windlass.store.server import ServerStore

EVERY = 5.0
_LONGEST_QUERY = 10.0
_EXPIRED = "the token has expired"
_REVOKED = "the token was revoked"
_NOT_ANONYMOUS = "this server needs a token now"


@dataclass(eq=False, slots=True)
class _Watch:
    identity: Identity
    ended: Callable[[str], None]


class Watches:
    """Calls back for each identity that is watched and is no longer good, once."""

    def __init__(self, store: ServerStore, clock: Clock, logger: Scoped) -> None:
        self._store = store
        self._clock = clock
        self._logger = logger
        self._watches: set[_Watch] = set()
        self._has_new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, identity: Identity, ended: Callable[[str], None]) -> Callable[[], None]:
        """Call `ended(why)` when the token is no longer good; the answer ends the watch."""
        watch = _Watch(identity, ended)
        self._watches.add(watch)
        self._has_new.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="windlass-watches"
            )
        return lambda: self._watches.discard(watch)

    async def close(self) -> None:
        task, self._task = self._task, None
        self._watches.clear()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            if not self._watches:
                self._has_new.clear()
                await self._has_new.wait()
            self._end_expired()
            await self._end_revoked()
            await self._pause()

    async def _pause(self) -> None:
        """Until the next round, or until a token expires that is good for less long."""
        end = self._clock.monotonic() + EVERY
        while (left := min(end - self._clock.monotonic(), self._good_for())) > 0:
            self._has_new.clear()
            try:
                async with asyncio.timeout(left):
                    await self._has_new.wait()
            except TimeoutError:
                pass

    def _good_for(self) -> float:
        ends = [it.identity.expires_at for it in self._watches]
        first = min((end for end in ends if end is not None), default=None)
        return EVERY if first is None else (first - self._clock.now()) / 1e6

    def _end_expired(self) -> None:
        now = self._clock.now()
        for watch in list(self._watches):
            expires_at = watch.identity.expires_at
            if expires_at is not None and expires_at <= now:
                self._end(watch, _EXPIRED)

    async def _end_revoked(self) -> None:
        if not any(it.identity.digest or it.identity.is_anonymous for it in self._watches):
            return
        seen = list(self._watches)
        try:
            async with asyncio.timeout(_LONGEST_QUERY):
                tokens = {token.digest: token for token in await self._store.tokens()}
        except (StoreError, TimeoutError) as error:
            self._logger.debug("tokens of open streams cannot be looked up now: %s", error)
            return
        for watch in seen:
            if watch.identity.is_anonymous and tokens:
                self._end(watch, _NOT_ANONYMOUS)
            if (digest := watch.identity.digest) is not None:
                token = tokens.get(digest)
                if token is None or token.revoked_at is not None:
                    self._end(watch, _REVOKED)

    def _end(self, watch: _Watch, why: str) -> None:
        if watch not in self._watches:
            return  # its stream ended meanwhile
        self._watches.discard(watch)
        try:
            watch.ended(why)
        except Exception:
            self._logger.exception("a stream could not be ended; %s", why)
