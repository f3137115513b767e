"""Webhooks: what is posted, where it is not posted, and what happens when it does not arrive."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.patience import PATIENCE
from tests.server.certificates import make_certificates
from tests.server.receiver import Answer, Received, Receiver, receiving, status
from windlass import App, Job
from windlass.clock import SYSTEM
from windlass.errors import Poison
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.upkeep import Upkeep
from windlass.server.webhooks.delivery import MAX_ATTEMPTS, WebhookError, open_poster
from windlass.server.webhooks.signing import rotate_secret, secret_of
from windlass.server.webhooks.transport import CheckedTransport, ForbiddenAddress, Resolver
from windlass.store.webhooks import WEBHOOK_TASK, EndedJob

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


# ── a server's worker, and what it posts ──


@asynccontextmanager
async def working(*allow: str) -> AsyncIterator[App]:
    """An app, the tasks `good` and `bad`, and the worker of a server on its database."""
    app = App("memory://", keep=60.0, poll_interval=0.05)

    @app.task(name="good")
    async def good() -> dict[str, int]:
        return {"answer": 42}

    @app.task(name="bad", max_attempts=1)
    async def bad() -> None:
        raise ValueError("it went wrong")

    async with app:
        service = Service(app, make_settings(webhook_allow=allow or ("127.0.0.0/8",)))
        await service.start()
        upkeep = Upkeep(app, service.store, service.settings, SYSTEM)
        await upkeep.start()
        try:
            yield app
        finally:
            await upkeep.stop()
            await service.close()


async def call_of(app: App, job: Job, until: Callable[[Job], bool]) -> Job:
    """The job that posts the end of `job`, once it is as wanted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for call in await app.client.list_jobs(task=WEBHOOK_TASK):
                assert isinstance(call.payload, dict)
                if call.payload["job"]["id"] == job.id and until(call):
                    return call
            await asyncio.sleep(0.01)


async def verified(app: App, request: Received, tenant: str = "") -> Any:
    secret = await secret_of(app.store, tenant)  # type: ignore[arg-type]
    return Webhook(secret).verify(request.body, request.headers)


def is_done(call: Job) -> bool:
    return call.state.is_final


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_each_end_is_posted_and_signed(end: str) -> None:
    async def body() -> None:
        async with receiving() as receiver, working() as app:
            client = app.client.for_tenant("acme")
            job = await client.add_job(
                "bad" if end == "failed" else "good", key="k", meta={"webhook": receiver.url}
            )
            if end == "cancelled":
                await app.client.cancel_jobs([job.id])
            else:
                await app.run_once()
            call = await call_of(app, job, is_done)
            assert (call.state, call.output, call.tenant) == ("completed", 204, "acme")
            (request,) = receiver.received
            assert request.line == "POST /hook?shop=7 HTTP/1.1"
            assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
            assert request.headers["content-type"] == "application/json"
            told = await verified(app, request, "acme")
            assert told["type"] == f"job.{end}"
            shown = await app.client.get_job(job.id)
            assert shown is not None and shown.finished_at is not None
            data = told["data"]
            assert told["timestamp"] == data["finished_at"]
            assert data["output"] == ({"answer": 42} if end == "completed" else None)
            assert ("it went wrong" in (data["last_error"] or "")) == (end == "failed")
            expected = {"id": job.id, "key": "k", "tenant": "acme", "state": end, "chain": None}
            assert data == data | expected
            with pytest.raises(WebhookVerificationError):
                await verified(app, request, "other")

    asyncio.run(body())


def test_a_call_is_made_again_with_the_same_id_until_it_is_taken() -> None:
    async def body() -> None:
        answers = (status(500), status(404), status(302, "location: /elsewhere"), status(200))
        async with receiving(*answers) as receiver, working() as app:
            job = await app.client.add_job("good", meta={"webhook": receiver.url})
            await app.run_once()
            for attempt, code in enumerate((500, 404, 302), 1):
                call = await call_of(app, job, lambda it, n=attempt: it.attempts == n)  # type: ignore[misc]
                call = await call_of(app, job, lambda it: it.state == "scheduled")
                assert call.last_error is not None and f"answered {code}" in call.last_error
                assert "shop=7" not in call.last_error
                assert call.run_at > call.updated_at
                await app.client.reschedule_jobs([call.id], run_at=call.created_at)
            call = await call_of(app, job, is_done)
            assert (call.state, call.output, call.attempts) == ("completed", 200, 4)
            assert len({it.headers["webhook-id"] for it in receiver.received}) == 1
            assert len({it.body for it in receiver.received}) == 1
            assert len(receiver.received) == 4
            for request in receiver.received:
                await verified(app, request)
            other = await app.client.add_job("good", meta={"webhook": receiver.url})
            await app.run_once()
            await call_of(app, other, is_done)
            ids = [it.headers["webhook-id"] for it in receiver.received]
            assert len(set(ids)) == 2

    asyncio.run(body())


def test_a_call_that_never_arrives_fails_at_last() -> None:
    async def body() -> None:
        async with receiving(status(503)) as receiver, working() as app:
            job = await app.client.add_job("good", meta={"webhook": receiver.url})
            await app.run_once()
            for attempt in range(1, MAX_ATTEMPTS):
                call = await call_of(
                    app,
                    job,
                    lambda it, n=attempt: it.attempts == n and it.state == "scheduled",  # type: ignore[misc]
                )
                await app.client.reschedule_jobs([call.id], run_at=call.created_at)
            call = await call_of(app, job, is_done)
            assert (call.state, call.attempts) == ("failed", MAX_ATTEMPTS)

    asyncio.run(body())


def test_an_address_that_is_not_allowed_is_not_called() -> None:
    async def body() -> None:
        async with receiving() as receiver, working("10.0.0.0/8") as app:
            job = await app.client.add_job("good", meta={"webhook": receiver.url})
            await app.run_once()
            call = await call_of(app, job, is_done)
            assert call.state == "failed"
            assert call.last_error is not None and "127.0.0.1" in call.last_error
            assert receiver.connections == 0

    asyncio.run(body())


# ── one call ──

ENDED = EndedJob(7, "mail", "completed", msgspec.Raw(b"1"), None, 1, None, None, None, None, 1, 2)


def post(
    url: Callable[[Receiver], str],
    *answers: Answer,
    check: Callable[[Callable[[], Awaitable[int]], Receiver], Awaitable[None]],
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> None:
    """Post to a receiver, as `check` likes."""

    async def body() -> None:
        async with App("memory://") as app, receiving(*answers, tls=tls) as receiver:
            call = await app.client.add_job("x")
            options.setdefault("allow", LOOPBACK)
            async with open_poster(app.store, **options) as poster:  # type: ignore[arg-type]
                await check(lambda: poster.post(call, url(receiver), ENDED), receiver)

    asyncio.run(body())


def resolving(*answers: str) -> Resolver:
    """A resolver that answers one after the other, the last for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return [left.pop(0) if len(left) > 1 else left[0]]

    return resolve


def named(receiver: Receiver) -> str:
    return f"http://hooks.example:{receiver.port}/x"


def test_a_name_that_leads_to_a_private_address_is_not_called() -> None:
    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match=r"127\.0\.0\.1.*--webhook-allow"):
            await call()
        assert receiver.connections == 0

    post(named, check=check, allow=(), resolver=resolving("127.0.0.1"))


def test_a_name_that_changes_its_answer_is_resolved_once_for_check_and_connection() -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        """A good address the first time, and a bad one as soon as that has been checked."""
        asked.append(host)
        return ["127.0.0.1" if len(asked) == 1 else "127.0.0.2"]

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 204
        assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"
        assert asked == ["hooks.example"]

    allow = (ipaddress.ip_network("127.0.0.1/32"),)
    post(named, check=check, allow=allow, resolver=resolve)


def test_a_new_connection_is_checked_anew() -> None:
    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 204
        with pytest.raises(WebhookError, match=r"127\.0\.0\.2"):
            await call()
        assert receiver.connections == 1

    allow = (ipaddress.ip_network("127.0.0.1/32"),)
    closing = status(204, "connection: close")
    resolver = resolving("127.0.0.1", "127.0.0.2")
    post(named, closing, check=check, allow=allow, resolver=resolver)


def test_of_several_addresses_those_that_are_not_allowed_are_left_out() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.1", "127.0.0.1"]

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 204

    post(named, check=check, resolver=resolve)


def test_a_host_that_does_not_exist_is_told() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match="cannot be resolved"):
            await call()

    post(named, check=check, resolver=resolve)


def test_the_certificate_must_be_of_the_name_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async def good(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 204

    async def bad(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match="could not be called"):
            await call()
        assert receiver.received == []

    for host, check in (("hooks.example", good), ("other.example", bad)):
        post(
            lambda receiver, host=host: f"https://{host}:{receiver.port}/x",  # type: ignore[misc]
            check=check,
            tls=context,
            resolver=resolving("127.0.0.1"),
        )


def test_no_redirect_is_followed() -> None:
    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match="answered 307"):
            await call()
        assert len(receiver.received) == 1

    post(lambda it: it.url, status(307, "location: /elsewhere"), check=check)


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 204

    post(lambda it: it.url, check=check)


def test_a_receiver_that_does_not_answer_is_given_up() -> None:
    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError):
            await call()

    post(lambda it: it.url, never, check=check, read_timeout=0.05)


def test_a_receiver_that_answers_drop_by_drop_is_given_up() -> None:
    async def drops(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match=r"did not answer within 0\.2 s"):
            await call()

    post(lambda it: it.url, drops, check=check, total_timeout=0.2)


def test_of_a_huge_answer_little_is_read() -> None:
    sent = 0

    async def huge(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while sent < 1_000_000_000:
            writer.write(b"." * 65_536)
            await writer.drain()
            sent += 65_536

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        assert await call() == 200
        assert sent < 100_000_000

    post(lambda it: it.url, huge, check=check)


def test_what_speaks_no_http_fails_the_attempt() -> None:
    async def garbage(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00" * 100 + b"\r\n\r\n")
        await writer.drain()

    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(WebhookError, match="could not be called"):
            await call()

    post(lambda it: it.url, garbage, check=check)


def test_what_is_no_address_fails_for_good() -> None:
    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        with pytest.raises(Poison):
            await call()

    post(lambda it: "nonsense", check=check)


def test_connections_are_used_again() -> None:
    async def check(call: Callable[[], Awaitable[int]], receiver: Receiver) -> None:
        for _ in range(3):
            assert await call() == 204
        assert receiver.connections == 1

    post(lambda it: it.url, check=check)


def test_sockets_of_this_machine_are_not_called() -> None:
    async def body() -> None:
        async with CheckedTransport() as transport:
            backend = transport._pool._network_backend
            with pytest.raises(Exception, match="not posted to sockets"):
                await backend.connect_unix_socket("/run/x")

    asyncio.run(body())
    assert issubclass(ForbiddenAddress, httpx.HTTPError)


# ── secrets ──


def test_a_secret_is_made_once_and_rotated_when_asked() -> None:
    async def body() -> None:
        async with App("memory://") as app:
            store: Any = app.store
            first = await secret_of(store, "acme")
            assert first.startswith("whsec_")
            assert await secret_of(store, "acme") == first
            assert await secret_of(store, "") != first
            second = await rotate_secret(store, "acme")
            assert second != first and await secret_of(store, "acme") == second
            with pytest.raises(WebhookVerificationError):
                Webhook(second).verify(json.dumps({}), {})

    asyncio.run(body())
