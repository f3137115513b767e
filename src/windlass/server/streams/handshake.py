"""The beginning of a stream: a Hello with a token, and what becomes of it.

What comes with the Hello, or right behind it, waits until the token is known to be good. A stream
that says nothing for `PATIENCE` seconds is ended, and so is one whose token is revoked later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from windlass.errors import StoreError
from windlass.server.identity import Identity, Power
from windlass.server.peers import Peer
from windlass.server.refusals import Refusal
from windlass.server.streams.edges import Status
from windlass.server.streams.shared import Shared

PATIENCE = 10.0

_log = logging.getLogger("windlass.server")

Refuse = Callable[[Status, str], None]


class Handshake:
    """`refuse` ends the stream; `opened` is called once, when the token is good."""

    def __init__(
        self, shared: Shared, peer: Peer, refuse: Refuse, opened: Callable[[Identity], None]
    ) -> None:
        self._shared = shared
        self._peer = peer
        self._refuse = refuse
        self._opened = opened
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            PATIENCE, self._too_late
        )
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self.is_over = False
        """Whether the stream is open, or refused."""

    @property
    def has_begun(self) -> bool:
        """Whether the client has said Hello."""
        return self._task is not None

    def hello(self, token: str, power: Power | None) -> None:
        """Find out whose token this is; it must have `power`."""
        self._task = asyncio.get_running_loop().create_task(
            self._identify(token.strip(), power), name="windlass-hello"
        )

    def close(self) -> None:
        """The stream is over."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None and not self._task.done():
            self._task.cancel()
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _too_late(self) -> None:
        self._refuse(Status.DEADLINE_EXCEEDED, f"no Hello came within {PATIENCE:g} s")

    async def _identify(self, token: str, power: Power | None) -> None:
        try:
            identity = await self._shared.identify(token, self._peer)
        except Refusal as refusal:
            return self._refuse(Status[refusal.code], str(refusal))
        except StoreError as error:
            _log.warning("a token could not be looked up: %s", error)
            return self._refuse(Status.UNAVAILABLE, "the token cannot be looked up now")
        except Exception:
            _log.exception("a token could not be judged")
            return self._refuse(Status.INTERNAL, "the token could not be judged")
        if self.is_over:
            return None
        if power is not None and not identity.may(power):
            roles = ", ".join(sorted(identity.roles))
            return self._refuse(
                Status.PERMISSION_DENIED, f"a token with the role {roles} is not for this stream"
            )
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unwatch = self._shared.watch(
            identity, lambda why: self._refuse(Status.UNAUTHENTICATED, why)
        )
        return self._opened(identity)
