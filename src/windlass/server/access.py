"""Who calls: from what a caller shows to an Identity.

Tokens are looked up in the database, by digest. What was found is believed for `BELIEVED` seconds,
so that a busy client costs one query now and then; `Watches` look after open streams. JWTs are
judged by their issuer's keys alone.

A call without a token is an administrator's, if it is made by a program on this machine (see
`peers`), and as long as the database knows no token (a revoked one is one) and no issuer is named.
That is asked anew for each such call: once there is a token, nothing without one passes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from windlass.clock import Clock
from windlass.model.job import DEFAULT_TENANT
from windlass.server.identity import Identity, Role, roles_of
from windlass.server.peers import Peer
from windlass.server.refusals import Forbidden, Unauthenticated
from windlass.server.tokens import digest_of, is_same, is_token
from windlass.store.server import ServerStore, Token

__all__ = ["Access", "Forbidden", "JwtVerifier", "Unauthenticated"]

BELIEVED = 2.0
"""Seconds for which a token that was found good is not looked up again."""
_MOST_REMEMBERED = 1_000

ANONYMOUS = Identity(
    name="anonymous",
    roles=frozenset({Role.ADMIN}),
    tenant=DEFAULT_TENANT,
    is_anonymous=True,
)


class JwtVerifier(Protocol):
    async def identify(self, text: str) -> Identity:
        """Raises Unauthenticated, or Unavailable where the keys cannot be had."""


class Access:
    """Tells callers apart. `allow_anonymous` lets calls from other machines come without a token,
    too, as long as there is none."""

    def __init__(
        self,
        store: ServerStore,
        clock: Clock,
        *,
        jwt: JwtVerifier | None = None,
        allow_anonymous: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._jwt = jwt
        self._allow_anonymous = allow_anonymous
        self._remembered: OrderedDict[str, tuple[Token, float]] = OrderedDict()
        """By digest, with the instant at which it was found."""
        self._looking: dict[str, asyncio.Task[Token | None]] = {}
        self._has_tokens = False

    async def identify(self, token_text: str | None, *, peer: Peer) -> Identity:
        """Who this is. Raises Unauthenticated, and StoreError where the database cannot be asked;
        '' is no token."""
        if not token_text:
            return await self._anonymous(peer)
        if is_token(token_text):
            return await self._known(token_text)
        if self._jwt is not None:
            return await self._jwt.identify(token_text)
        raise Unauthenticated("this is no token of Windlass; windlass token create makes one")

    async def has_tokens(self) -> bool:
        """Whether any token was ever made, so that nothing passes without one."""
        if not self._has_tokens:
            self._has_tokens = bool(await self._store.tokens())
        return self._has_tokens

    async def _anonymous(self, peer: Peer) -> Identity:
        if self._jwt is not None:
            raise Unauthenticated("this server needs a token: a JWT of its issuer")
        doubt = self._doubt(peer)
        if doubt is None and not await self.has_tokens():
            return ANONYMOUS
        why = "" if doubt is None or self._has_tokens else f"; without one {doubt}"
        raise Unauthenticated(f"this server needs a token, which windlass token create makes{why}")

    def _doubt(self, peer: Peer) -> str | None:
        if not self._allow_anonymous:
            return peer.doubt
        return "its body is not declared as JSON" if peer.may_be_a_page else None

    async def _known(self, text: str) -> Identity:
        digest = digest_of(text)
        token = self._recalled(digest)
        if token is None:
            token = await self._look_up(digest)
        if token is None or not is_same(token.digest, digest):
            raise Unauthenticated("this token is unknown here; windlass token list shows them")
        if token.revoked_at is not None:
            raise Unauthenticated("this token was revoked")
        if not token.is_good(self._clock.now()):
            raise Unauthenticated("this token has expired")
        return identity_of(token)

    def _recalled(self, digest: str) -> Token | None:
        token, found_at = self._remembered.get(digest, (None, 0.0))
        return token if self._clock.monotonic() - found_at <= BELIEVED else None

    async def _look_up(self, digest: str) -> Token | None:
        """One query for all that ask for one token at a time; it outlives a caller that goes."""
        task = self._looking.get(digest)
        if task is None:
            task = asyncio.create_task(self._find(digest), name="windlass-token")
            self._looking[digest] = task
            task.add_done_callback(lambda task: self._looked_up(digest, task))
        return await asyncio.shield(task)

    def _looked_up(self, digest: str, task: asyncio.Task[Token | None]) -> None:
        self._looking.pop(digest)
        if not task.cancelled():
            task.exception()  # told to those that still wait, if any

    async def _find(self, digest: str) -> Token | None:
        asked_at = self._clock.monotonic()
        token = await self._store.find_token(digest)
        if token is None:
            self._remembered.pop(digest, None)
            return None
        self._has_tokens = True
        self._remembered[digest] = (token, asked_at)
        self._remembered.move_to_end(digest)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return token


def identity_of(token: Token) -> Identity:
    return Identity(
        name=token.name,
        # One that this version does not know gives no power.
        roles=roles_of(set(token.roles) & set(Role)),
        tenant=token.tenant,
        tasks=token.tasks,
        expires_at=token.expires_at,
        digest=token.digest,
    )
