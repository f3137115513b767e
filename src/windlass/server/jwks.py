"""The public keys of an issuer of JWTs, from a file or a URL.

Keys are read when they are first needed and again after `FRESH` seconds; if that fails, those that
are known are good for `STALE` seconds. A token that names an unknown key may be signed with a new
one, so the keys are read again then; but not within `PAUSE` seconds of the last time, whatever
names callers invent. However many wait for keys, they are read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import jwt
import msgspec

from windlass.clock import Clock
from windlass.errors import ConfigError
from windlass.observe.logs import Scoped
from windlass.server.refusals import Unavailable

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA")
FRESH = 300.0
STALE = 3_600.0
PAUSE = 10.0
_MOST_BYTES = 1 << 20
_TIMEOUT = 5.0

Keys = Mapping[tuple[str | None, str], jwt.PyJWK]
"""By id and algorithm; an RSA key that does not say is of three algorithms."""
Source = Callable[[], Awaitable[bytes]]
"""Reads the keys as the issuer states them; OSError or httpx.HTTPError where it cannot."""


def source_of(place: str) -> Source:
    """Of `--jwks`: a file or a URL."""
    if "://" in place:
        return lambda: _from_url(place)
    return lambda: asyncio.to_thread(Path(place).read_bytes)


async def _from_url(url: str) -> bytes:
    async with httpx.AsyncClient(timeout=_TIMEOUT) as client, asyncio.timeout(2 * _TIMEOUT):
        async with client.stream("GET", url) as response:
            if response.status_code != 200:
                raise OSError(f"it answered {response.status_code}")
            found = b""
            async for piece in response.aiter_bytes():
                found += piece
                if len(found) > _MOST_BYTES:
                    raise OSError("the answer is longer than 1 MiB")
            return found


def parse(text: bytes) -> Keys:
    """The keys that can verify a token here. ConfigError where the text has none."""
    try:
        stated = msgspec.json.decode(text)["keys"]
        found = {name: key for each in stated for name, key in _of_one(each)}
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError('these are no keys; a key set is JSON: {"keys": [{…}]}') from None
    if not found:
        raise ConfigError(f"it has no public key of an algorithm among {', '.join(ALGORITHMS)}")
    return found


def _of_one(stated: dict[str, Any]) -> list[tuple[tuple[str | None, str], jwt.PyJWK]]:
    if stated.get("use", "sig") != "sig":
        return []
    names = [stated["alg"]] if "alg" in stated else [None]
    if stated.get("kty") == "RSA" and "alg" not in stated:
        names = list(ALGORITHMS[:3])
    found = []
    for name in names:
        try:
            key = jwt.PyJWK(stated, name)
        except jwt.PyJWTError:
            continue  # of a kind that this program does not know
        if key.algorithm_name in ALGORITHMS:
            found.append(((key.key_id, key.algorithm_name), key))
    return found


class KeyCache:
    """The keys of one issuer."""

    def __init__(self, place: str, source: Source, clock: Clock, logger: Scoped) -> None:
        """`place` is where the keys are, for messages."""
        self._place = place
        self._source = source
        self._clock = clock
        self._logger = logger
        self._keys: Keys = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def get(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of that id; the only one of its algorithm where a token names none. Unavailable
        where the keys cannot be read."""
        if self._age(self._read_at) > FRESH:
            await self._read_again()
        if self._age(self._read_at) > STALE:
            raise Unavailable("the keys of this server's token issuer cannot be read now")
        found = self._find(kid, algorithm)
        if found is None and await self._read_again():
            found = self._find(kid, algorithm)
        return found

    def _find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if kid is not None:
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, of), key in self._keys.items() if of == algorithm]
        return fitting[0] if len(fitting) == 1 else None

    def _age(self, since: float | None) -> float:
        return float("inf") if since is None else self._clock.monotonic() - since

    async def _read_again(self) -> bool:
        """Read the keys, or wait while they are being read; False if that was done just now."""
        if self._reading is None:
            if self._age(self._tried_at) < PAUSE:
                return False
            self._reading = asyncio.create_task(self._read(), name="windlass-jwks")
        await asyncio.shield(self._reading)
        return True

    async def _read(self) -> None:
        try:
            self._keys = parse(await self._source())
            self._read_at = self._clock.monotonic()
        except (OSError, httpx.HTTPError, TimeoutError, ConfigError) as error:
            self._logger.warning("the keys in %s cannot be read: %s", self._place, error)
        finally:
            self._tried_at = self._clock.monotonic()
            self._reading = None

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
