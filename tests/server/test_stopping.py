"""The end of a serving process that has streams open, and what revoking a token ends."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import grpc
import httpx
import pytest

from tests.patience import PATIENCE
from tests.server.conftest import Serve
from tests.server.receiver import Received, receiving
from tests.server.served import Served
from tests.server.streams.serving import Client
from windlass.wire import windlass_pb2 as pb


@asynccontextmanager
async def worker(server: Served, token: str = "") -> AsyncIterator[Client]:
    """A worker's stream that has said Hello."""
    async with grpc.aio.insecure_channel(server.streams) as channel:
        call = channel.stream_stream(
            "/windlass.v1.Worker/Stream",
            request_serializer=pb.WorkerEvent.SerializeToString,
            response_deserializer=pb.WorkerServerEvent.FromString,
        )()
        client = Client(call, pb.WorkerEvent)
        await client.say(hello=pb.WorkerHello(token=token, worker_id="w"))
        await client.hear(pb.WorkerHelloAck)
        yield client


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        async with asyncio.timeout(PATIENCE):
            await check()

    asyncio.run(body())


async def with_job(server: Served) -> int:
    job = await asyncio.to_thread(server.app.sync.add_job, "mail")
    return job.id


def state_of(server: Served, job_id: int) -> tuple[str, int]:
    job = server.app.sync.get_job(job_id)
    assert job is not None
    return job.state.value, job.attempts


def test_a_stop_takes_the_results_of_open_streams(serve: Serve) -> None:
    server = serve("--grace", "100")
    done: list[int] = []

    async def check() -> None:
        async with worker(server) as client:
            done.append(await with_job(server))
            await client.say(ready=pb.Ready())
            task = (await client.hear(pb.TaskAssignment)).task
            server.process.send(signal.SIGTERM)
            told = await client.hear(pb.WorkerServerError)
            assert told.code == "Unavailable"
            with server.caller() as caller:
                assert caller.get("/readyz").status_code == 503
            await client.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await client.hear(pb.ResultAck)).ok
            await client.call.done_writing()

    run(check)
    assert server.process.wait() == 0
    assert state_of(server, done[0]) == ("completed", 1)


@pytest.mark.parametrize("end", ["grace", "second signal"])
def test_what_is_unfinished_at_the_end_is_handed_back(serve: Serve, end: str) -> None:
    server = serve("--grace", "0.1" if end == "grace" else "1000")
    left: list[int] = []

    async def check() -> None:
        async with worker(server) as client:
            left.append(await with_job(server))
            await client.say(ready=pb.Ready())
            await client.hear(pb.TaskAssignment)
            server.process.send(signal.SIGTERM)
            if end == "second signal":
                await client.hear(pb.WorkerServerError)
                server.process.send(signal.SIGTERM)
            assert await asyncio.to_thread(server.process.wait) == 0

    run(check)
    assert state_of(server, left[0]) == ("ready", 0)


def test_revoking_a_token_ends_its_open_streams(served: Served) -> None:
    async def check() -> None:
        text = served.token("worker")
        other = served.token("worker")
        async with worker(served, text) as client, worker(served, other) as stays:
            name = await asyncio.to_thread(_name_of_last_but_one, served)
            await asyncio.to_thread(served.call, lambda store: store.revoke_token(name))
            assert await client.call.code() is grpc.StatusCode.UNAUTHENTICATED
            await asyncio.to_thread(served.app.sync.add_job, "mail")
            await stays.say(ready=pb.Ready())
            await stays.hear(pb.TaskAssignment)

    run(check)


def _name_of_last_but_one(served: Served) -> str:
    tokens = served.call(lambda store: store.tokens())
    name: str = sorted(tokens, key=lambda it: it.created_at)[-2].name
    return name


def test_a_server_posts_webhooks_and_refuses_private_ones(serve: Serve) -> None:
    server = serve("--webhook-allow", "127.0.0.1/32")

    async def check() -> None:
        arrived = asyncio.Event()

        async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            arrived.set()

        async with receiving(answer) as receiver:
            await asyncio.to_thread(_add_and_cancel, server, receiver.url)
            await arrived.wait()
            told = json.loads(receiver.received[0].body)
            assert (told["type"], told["data"]["task"]) == ("job.cancelled", "mail")

    run(check)
    with server.caller() as caller:
        for url in ("http://127.0.0.2/", "http://169.254.169.254/", "ftp://hooks.example/"):
            answer = caller.post("/v1/jobs", json={"task": "mail", "webhook": url})
            assert answer.status_code == 400 and "webhook" in answer.text
    assert server.stop() == 0


def _add_and_cancel(server: Served, url: str) -> None:
    with server.caller() as caller:
        added: Any = caller.post("/v1/jobs", json={"task": "mail", "webhook": url})
        assert added.status_code == 201, added.text
        assert caller.post(f"/v1/jobs/{added.json()['id']}/cancel").status_code == 200


def test_a_stop_does_not_wait_for_a_database_that_takes_no_writes(serve: Serve) -> None:
    server = serve("--grace", "0.1")
    server.app.sync.add_job("mail")
    with server.caller() as caller:
        [claim] = caller.post("/v1/claims", json={"tasks": ["mail"]}).json()["claims"]
    said = {"outcomes": [{"lease": claim["lease"], "outcome": "completed"}]}
    database = sqlite3.connect(server.folder / "jobs.db", isolation_level=None)
    with closing(database), ThreadPoolExecutor(1) as pool, server.caller() as caller:
        database.execute("BEGIN IMMEDIATE")
        settling = pool.submit(caller.post, "/v1/claims/settle", json=said)
        server.process.send(signal.SIGTERM)
        assert server.process.wait() == 0
        database.execute("ROLLBACK")
        with suppress(httpx.TransportError):
            assert settling.result().status_code in (503, 200)
