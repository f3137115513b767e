"""Who a caller is: tokens, and calls without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass import App
from windlass.server.access import ANONYMOUS, BELIEVED
from windlass.server.identity import Identity, Power, Role
from windlass.server.peers import Peer, http_peer, stream_peer
from windlass.server.refusals import Forbidden, Unauthenticated
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.tokens import digest_of, is_token, make_token
from windlass.store.server import Token
from windlass.testing import VirtualClock, run_virtual

HERE = Peer(address="127.0.0.1", host="127.0.0.1:8080")
AWAY = Peer(address="192.0.2.7", host="jobs.example")


def token_of(text: str, **more: Any) -> Token:
    given = {"name": "ci", "roles": ("producer",), "created_at": 1, **more}
    return Token(digest=digest_of(text), **given)


def with_service(check: Callable[[Service, VirtualClock], Awaitable[None]], **given: Any) -> None:
    async def body(clock: VirtualClock) -> None:
        async with App("memory://", clock=clock) as app:
            service = Service(app, make_settings(**given), clock=clock)
            await service.start()
            try:
                await check(service, clock)
            finally:
                await service.close()

    run_virtual(body)


def test_a_token_is_found_by_its_digest_alone() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        text = make_token()
        await service.store.add_token(token_of(text, tenant="acme", tasks=("mail",)))
        found = await service.access.identify(text, peer=AWAY)
        assert found == Identity(
            name="ci",
            roles=frozenset({Role.PRODUCER}),
            tenant="acme",
            tasks=("mail",),
            digest=digest_of(text),
        )
        assert found.may(Power.ADD) and not found.may(Power.CLAIM)

    with_service(check)


@pytest.mark.parametrize("text", ["wl_", "wl_" + "x" * 43, "secret", "wl_ä" + "x" * 50, "a.b.c"])
def test_what_is_no_token_is_refused_and_not_quoted(text: str) -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        with pytest.raises(Unauthenticated) as refused:
            await service.access.identify(text, peer=HERE)
        assert text not in str(refused.value)

    with_service(check)


def test_tokens_are_random_and_long() -> None:
    made = {make_token() for _ in range(100)}
    assert len(made) == 100 and all(is_token(text) and len(text) >= 46 for text in made)


def test_a_revoked_token_is_refused_within_seconds() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        text = make_token()
        await service.store.add_token(token_of(text))
        await service.access.identify(text, peer=AWAY)
        await service.store.revoke_token("ci")
        await asyncio.sleep(BELIEVED + 0.1)
        with pytest.raises(Unauthenticated, match="revoked"):
            await service.access.identify(text, peer=AWAY)

    with_service(check)


def test_an_expired_token_is_refused_at_once() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        text = make_token()
        await service.store.add_token(token_of(text, expires_at=clock.now() + 1_000_000))
        await service.access.identify(text, peer=AWAY)
        await asyncio.sleep(1)
        with pytest.raises(Unauthenticated, match="expired"):
            await service.access.identify(text, peer=AWAY)

    with_service(check)


@pytest.mark.parametrize("end", ["revoked", "expired", "no longer anonymous"])
def test_an_open_stream_is_told_that_its_token_ended(end: str) -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        identity = ANONYMOUS
        if end != "no longer anonymous":
            text = make_token()
            expires_at = clock.now() + 7_000_000 if end == "expired" else None
            await service.store.add_token(token_of(text, expires_at=expires_at))
            identity = await service.access.identify(text, peer=AWAY)
        told: list[str] = []
        dropped: list[str] = []
        service.watch(identity, told.append)
        service.watch(identity, dropped.append)()
        await asyncio.sleep(6)
        assert told == []
        match end:
            case "revoked":
                await service.store.revoke_token("ci")
            case "no longer anonymous":
                await service.store.add_token(token_of(make_token()))
        await asyncio.sleep(30)
        assert len(told) == 1 and dropped == []

    with_service(check)


# ── calls without a token ──


def test_a_program_of_this_machine_is_an_administrator_until_there_is_a_token() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        for nothing in (None, ""):
            assert await service.access.identify(nothing, peer=HERE) == ANONYMOUS
        assert ANONYMOUS.is_admin and ANONYMOUS.tenant == "" and ANONYMOUS.sees is None
        await service.store.add_token(token_of(make_token()))
        for _ in range(2):
            with pytest.raises(Unauthenticated):
                await service.access.identify(None, peer=HERE)
            await service.store.revoke_token("ci")  # it opens nothing again

    with_service(check)


def scope(
    method: str = "POST",
    address: str = "127.0.0.1",
    host: str | None = "localhost:8080",
    body: str | None = "application/json",
    **headers: str,
) -> dict[str, Any]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if host is not None:
        names["host"] = host
    if body is not None:
        names |= {"content-type": body, "content-length": "2"}
    pairs = [(name.encode(), value.encode()) for name, value in names.items()]
    return {"method": method, "client": (address, 4711), "headers": pairs}


@pytest.mark.parametrize(
    "request_",
    [
        scope(),
        scope() | {"http_version": "1.1"},
        scope(host="[::1]:8080", address="::1"),
        scope(address="::ffff:127.0.0.1"),
        scope(body="application/problem+json; charset=utf-8"),
        scope("POST", body=None),
        scope("GET", body=None, origin="http://page.example"),
    ],
)
def test_a_program_of_this_machine_is_known(request_: dict[str, Any]) -> None:
    assert http_peer(request_).doubt is None


@pytest.mark.parametrize(
    "request_",
    [
        scope(address="192.0.2.7"),
        scope(address="::ffff:192.0.2.7"),
        scope(host="jobs.example"),
        scope(host="jobs.example:8080"),
        scope(host="127.0.0.1.jobs.example"),
        scope(host=None),
        scope(host=""),
        scope(forwarded="for=192.0.2.7"),
        scope(x_forwarded_for="192.0.2.7"),
        scope(x_forwarded_proto="https"),
        scope(via="1.1 proxy"),
        scope(x_real_ip="192.0.2.7"),
        scope() | {"http_version": "1.0"},
        scope(body="text/plain"),
        scope(body="application/x-www-form-urlencoded"),
        scope(body=""),
        scope("POST", body=None, origin="http://page.example"),
        scope("POST", body=None, transfer_encoding="chunked"),
    ],
)
def test_a_proxy_or_a_page_or_another_machine_is_no_administrator(request_: dict[str, Any]) -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        with pytest.raises(Unauthenticated):
            await service.access.identify(None, peer=http_peer(request_))

    with_service(check)


def test_streams_without_a_token_come_from_this_machine_and_no_proxy() -> None:
    assert stream_peer("::1", ["user-agent"]).is_local
    assert not stream_peer("192.0.2.7", []).is_local
    assert not stream_peer(None, []).is_local
    assert not stream_peer("127.0.0.1", ["x-forwarded-for"]).is_local


def test_insecure_servers_need_no_token_from_anywhere_but_web_pages() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        assert await service.access.identify(None, peer=AWAY) == ANONYMOUS
        page = http_peer(scope(body="text/plain"))
        with pytest.raises(Unauthenticated):
            await service.access.identify(None, peer=page)
        await service.store.add_token(token_of(make_token()))
        with pytest.raises(Unauthenticated):
            await service.access.identify(None, peer=AWAY)

    with_service(check, insecure=True)


# ── what a caller sees ──


def test_a_client_is_bound_to_its_tenant() -> None:
    async def check(service: Service, clock: VirtualClock) -> None:
        acme = Identity(name="a", roles=frozenset({Role.OPERATOR}), tenant="acme")
        admin = Identity(name="b", roles=frozenset({Role.ADMIN}), tenant="own")
        mine = await service.own_client(acme).add_job("mail")
        other = await service.own_client(admin).add_job("mail")
        assert (mine.tenant, other.tenant) == ("acme", "own")
        assert (await service.own_client(admin, "acme").add_job("mail")).tenant == "acme"
        assert await service.client(acme).get_job(other.id) is None
        assert len(await service.client(admin).list_jobs()) == 3
        assert len(await service.client(admin, "acme").list_jobs()) == 2
        assert len(await service.client(acme, "acme").list_jobs()) == 2
        with pytest.raises(Forbidden):
            service.client(acme, "own")

    with_service(check)
