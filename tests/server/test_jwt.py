"""JWTs: which are good, who they are, and how keys are read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.server.receiver import Received, receiving
from windlass.clock import SYSTEM
from windlass.errors import ConfigError
from windlass.observe.logs import scoped
from windlass.server.identity import Identity, Role
from windlass.server.jwks import FRESH, PAUSE, STALE, KeyCache, parse, source_of
from windlass.server.jwt import Verifier
from windlass.server.refusals import Unauthenticated, Unavailable
from windlass.testing import VirtualClock, run_virtual

ISSUER, AUDIENCE = "https://id.example", "jobs"
EC = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()


def stated(key: Any, algorithm: str, **more: Any) -> dict[str, Any]:
    """A public key as an issuer states it."""
    kind = jwt.get_algorithm_by_name(algorithm)
    found: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {**found, **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


KEYS = key_set(
    stated(EC, "ES256", kid="ec"), stated(RSA, "RS256", kid="rsa"), stated(ED, "EdDSA", kid="ed")
)


def claims(**more: Any) -> dict[str, Any]:
    """Good ones, but for what is given; None leaves a claim out."""
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "shop",
        "exp": int(time.time()) + 3_600,
        "role": "producer",
        **more,
    }
    return {name: value for name, value in whole.items() if value is not None}


def token(key: Any = EC, algorithm: str = "ES256", kid: str | None = "ec", **more: Any) -> str:
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(claims(**more), key, algorithm, headers=headers)


def verifier(keys: bytes = KEYS) -> Verifier:
    async def source() -> bytes:
        return keys

    cache = KeyCache("here", source, SYSTEM, scoped(None, "server"))
    return Verifier(cache, ISSUER, AUDIENCE, SYSTEM)


def identify(text: str, keys: bytes = KEYS) -> Identity:
    return asyncio.run(verifier(keys).identify(text))


def test_a_good_jwt_says_who_calls() -> None:
    text = token(tenant="acme", role=["worker", "producer"], tasks=["mail"], exp=4_000_000_000)
    assert identify(text) == Identity(
        name="shop",
        roles=frozenset({Role.WORKER, Role.PRODUCER}),
        tenant="acme",
        tasks=("mail",),
        expires_at=4_000_000_000_000_000,
    )
    plain = identify(token(sub=None))
    assert (plain.name, plain.tenant, plain.tasks) == ("jwt", "", None)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(EC, "ES256", "ec"), (ED, "EdDSA", "ed"), *((RSA, f"RS{n}", "rsa") for n in (256, 384, 512))],
)
def test_algorithms_with_public_keys_are_good(key: Any, algorithm: str, kid: str) -> None:
    assert identify(token(key, algorithm, kid)).name == "shop"


def test_a_key_without_a_name_is_good_where_it_is_the_only_one() -> None:
    alone = key_set(stated(EC, "ES256"))
    assert identify(token(kid=None), alone).name == "shop"
    two = key_set(stated(EC, "ES256", kid="a"), stated(OTHER, "ES256", kid="b"))
    with pytest.raises(Unauthenticated):
        identify(token(kid=None), two)


def _unsigned() -> str:
    return jwt.encode(claims(), "", "none", headers={"kid": "ec"})


def _by_a_secret() -> str:
    return jwt.encode(claims(), "s" * 64, "HS256", headers={"kid": "ec"})


def _changed() -> str:
    head, _, signature = token().split(".")
    _, body, _ = token(role="admin").split(".")
    return f"{head}.{body}.{signature}"


def _from_now(seconds: int) -> int:
    return int(time.time()) + seconds


BAD: dict[str, Callable[[], str]] = {
    "nothing": lambda: "",
    "two parts": lambda: "a.b",
    "three parts": lambda: "a.b.c",
    "four parts": lambda: "a.b.c.d",
    "no dots, and long": lambda: "x" * 20_000,
    "long": lambda: token() + "x" * 20_000,
    "no text": lambda: "\ud800.a.b",
    "unsigned": _unsigned,
    "signed by a secret": _by_a_secret,
    "changed": _changed,
    "of another key": lambda: token(OTHER),
    "of an unknown key": lambda: token(kid="unknown"),
    "of a key of another kind": lambda: token(RSA, "RS256", "ec"),
    "of another algorithm": lambda: token(RSA, "PS256", "rsa"),
    "no exp": lambda: token(exp=None),
    "expired": lambda: token(exp=_from_now(-1)),
    "exp no number": lambda: token(exp="soon"),
    "exp NaN": lambda: token(exp=float("nan")),
    "exp infinite": lambda: token(exp=float("inf")),
    "no iss": lambda: token(iss=None),
    "other iss": lambda: token(iss="https://other.example"),
    "no aud": lambda: token(aud=None),
    "other aud": lambda: token(aud="other"),
    "not yet": lambda: token(nbf=_from_now(3_000)),
    "nbf no number": lambda: token(nbf="now"),
    "no role": lambda: token(role=None),
    "unknown role": lambda: token(role="root"),
    "no roles": lambda: token(role=[]),
    "a role no text": lambda: token(role=["producer", 7]),
    "roles no list": lambda: token(role={"producer": 1}),
    "tenant no text": lambda: token(tenant=7),
    "tenant too long": lambda: token(tenant="x" * 200),
    "tasks no list": lambda: token(tasks="mail"),
    "no tasks": lambda: token(tasks=[]),
    "an empty task": lambda: token(tasks=[""]),
    "a task no text": lambda: token(tasks=[7]),
    "a task of Windlass": lambda: token(tasks=["windlass.webhook"]),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_good_is_refused_and_not_quoted(name: str) -> None:
    text = BAD[name]()
    with pytest.raises(Unauthenticated) as refused:
        identify(text)
    assert not text or text not in str(refused.value)


def test_one_of_several_audiences_is_enough() -> None:
    assert identify(token(aud=["other", AUDIENCE])).name == "shop"
    assert identify(token(nbf=int(time.time()) + 30)).name == "shop"


# ── keys ──


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": 7}',
        b'{"keys": [7]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "x"}]}',
        b'{"keys": [{"kty": "EC"}]}',
    ],
)
def test_what_holds_no_key_is_told(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_keys_for_secrets_verify_nothing() -> None:
    with pytest.raises(ConfigError):
        parse(key_set(stated(EC, "ES256", use="enc")))


def test_keys_of_unknown_kinds_are_left_out() -> None:
    text = key_set({"kty": "new", "kid": "x"}, stated(EC, "ES256", kid="ec"))
    assert set(parse(text)) == {("ec", "ES256")}


class Issuer:
    """Counts how often its keys are read."""

    def __init__(self, keys: bytes = KEYS) -> None:
        self.keys: bytes | None = keys
        self.reads = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def read(self) -> bytes:
        self.reads += 1
        await self.may_answer.wait()
        if self.keys is None:
            raise OSError("it is away")
        return self.keys


def with_issuer(check: Callable[[Issuer, KeyCache], Awaitable[None]]) -> None:
    async def body(clock: VirtualClock) -> None:
        issuer = Issuer()
        cache = KeyCache("there", issuer.read, clock, scoped(None, "server"))
        await check(issuer, cache)
        await cache.close()

    run_virtual(body)


def test_keys_are_read_once_however_many_wait() -> None:
    async def check(issuer: Issuer, cache: KeyCache) -> None:
        issuer.may_answer.clear()
        asking = [asyncio.create_task(cache.get("ec", "ES256")) for _ in range(20)]
        await asyncio.sleep(1)
        asking[0].cancel()  # the others still get theirs
        issuer.may_answer.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(key, jwt.PyJWK) for key in found[1:])
        assert issuer.reads == 1

    with_issuer(check)


def test_unknown_names_do_not_make_it_read_again_and_again() -> None:
    async def check(issuer: Issuer, cache: KeyCache) -> None:
        for number in range(100):
            assert await cache.get(f"invented {number}", "ES256") is None
        assert issuer.reads == 1
        issuer.keys = key_set(stated(OTHER, "ES256", kid="new"))
        await asyncio.sleep(PAUSE + 1)
        assert await cache.get("new", "ES256") is not None
        assert issuer.reads == 2
        assert await cache.get("ec", "ES256") is None  # taken back by the issuer

    with_issuer(check)


def test_keys_are_read_anew_and_outlive_an_issuer_that_is_away() -> None:
    async def check(issuer: Issuer, cache: KeyCache) -> None:
        assert await cache.get("ec", "ES256") is not None
        await asyncio.sleep(FRESH + 1)
        assert await cache.get("ec", "ES256") is not None
        assert issuer.reads == 2
        issuer.keys = None
        await asyncio.sleep(FRESH + 1)
        assert await cache.get("ec", "ES256") is not None
        assert issuer.reads == 3
        await asyncio.sleep(STALE)
        with pytest.raises(Unavailable):
            await cache.get("ec", "ES256")
        issuer.keys = KEYS
        await asyncio.sleep(PAUSE + 1)
        assert await cache.get("ec", "ES256") is not None

    with_issuer(check)


def test_keys_come_from_a_file_or_a_url(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(KEYS)

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(KEYS)}\r\n\r\n"
        writer.write(head.encode() + KEYS)
        await writer.drain()

    async def body() -> None:
        assert await source_of(str(tmp_path / "keys.json"))() == KEYS
        async with receiving(answer) as receiver:
            assert await source_of(receiver.url)() == KEYS

    asyncio.run(body())


@pytest.mark.parametrize("head", [b"404 X\r\ncontent-length: 0", b"302 X\r\nlocation: /x"])
def test_an_answer_without_keys_is_none(head: bytes) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 " + head + b"\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def body() -> None:
        async with receiving(answer) as receiver:
            with pytest.raises((OSError, httpx.HTTPError)):
                await source_of(receiver.url)()

    asyncio.run(body())


def test_an_endless_answer_is_not_read() -> None:
    async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()

    async def body() -> None:
        async with receiving(endless) as receiver:
            with pytest.raises(OSError, match="1 MiB"):
                await source_of(receiver.url)()

    asyncio.run(body())


def test_keys_that_were_never_read_are_awaited_by_the_caller() -> None:
    cache = KeyCache("here", source_of("/nowhere"), SYSTEM, scoped(None, "server"))
    with pytest.raises(Unavailable):
        asyncio.run(cache.get("x", "ES256"))
