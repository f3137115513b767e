"""JWTs: signed statements of an issuer about who calls. No token of the database is needed.

The claims: `exp`, `iss` and `aud` as everywhere, and `role` (one of the four roles, or a list of
them), `tenant` (none is the default one) and `tasks` (a list of names; none are all of them). Only
algorithms with a public key are accepted. The texts of errors quote nothing of a token.
"""

from __future__ import annotations

from typing import Any

import jwt

from windlass.clock import Clock
from windlass.errors import ValidationError
from windlass.model.job import DEFAULT_TENANT
from windlass.model.names import check_task, check_tenant
from windlass.server.identity import Identity, Role, roles_of
from windlass.server.jwks import ALGORITHMS, KeyCache
from windlass.server.refusals import Unauthenticated

_LONGEST = 16_384
_CLOCKS_DIFFER = 60
"""Seconds that the issuer's clock may be ahead where it says from when a token is good."""
_LAST = 253_370_764_800
"""The year 9999: an instant of the database."""


class Verifier:
    """Judges JWTs of one issuer, made for one audience."""

    def __init__(self, keys: KeyCache, issuer: str, audience: str, clock: Clock) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock

    async def identify(self, text: str) -> Identity:
        """Raises Unauthenticated, or Unavailable where the issuer's keys cannot be read."""
        if len(text) > _LONGEST or text.count(".") != 2:
            raise Unauthenticated("this is neither a token of Windlass nor a JWT")
        kid, algorithm = self._header(text)
        key = await self._keys.get(kid, algorithm)
        if key is None:
            raise Unauthenticated("no key of this server's issuer has signed this JWT")
        return self._identity(self._claims(text, key))

    def _header(self, text: str) -> tuple[str | None, str]:
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise Unauthenticated("this JWT cannot be read") from None
        kid, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise Unauthenticated(f"this JWT must be signed by one of {', '.join(ALGORITHMS)}")
        return kid if isinstance(kid, str) else None, algorithm

    def _claims(self, text: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=ALGORITHMS,
                issuer=self._issuer,
                audience=self._audience,
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_nbf": False,
                    "verify_iat": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("this JWT has expired") from None
        except jwt.MissingRequiredClaimError as error:
            raise Unauthenticated(f"this JWT has no claim {error.claim!r}") from None
        except jwt.InvalidIssuerError:
            raise Unauthenticated("this JWT is of another issuer") from None
        except jwt.InvalidAudienceError:
            raise Unauthenticated("this JWT is for another audience") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise Unauthenticated("this JWT is not good") from None
        return claims

    def _identity(self, claims: dict[str, Any]) -> Identity:
        nbf = claims.get("nbf", 0)
        if not isinstance(nbf, int | float) or nbf > self._clock.now() / 1e6 + _CLOCKS_DIFFER:
            raise Unauthenticated("this JWT is not good yet")
        subject = claims.get("sub")
        return Identity(
            name=subject if isinstance(subject, str) and subject else "jwt",
            roles=_roles(claims.get("role")),
            tenant=_tenant(claims.get("tenant")),
            tasks=_tasks(claims.get("tasks")),
            expires_at=min(int(claims["exp"]), _LAST) * 1_000_000,
        )


def _roles(claim: object) -> frozenset[Role]:
    names = [claim] if isinstance(claim, str) else claim
    try:
        if isinstance(names, list) and names:
            return roles_of(names)
    except (ValueError, TypeError):
        pass
    raise Unauthenticated(f"the claim role of this JWT must be of {', '.join(Role)}")


def _tenant(claim: object) -> str:
    try:
        return check_tenant(claim) or DEFAULT_TENANT
    except ValidationError:
        raise Unauthenticated("the claim tenant of this JWT names no tenant") from None


def _tasks(claim: object) -> tuple[str, ...] | None:
    if claim is None:
        return None
    try:
        if isinstance(claim, list) and claim:
            return tuple(map(check_task, claim))
    except ValidationError:
        pass
    raise Unauthenticated(
        "the claim tasks of this JWT must be a list of names of tasks; leave it out for all"
    )
