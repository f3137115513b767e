"""Streams on real sockets: clients of grpcio's core, both transports, memory and SQLite."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.server.streams.desk import run
from tests.server.streams.serving import TRANSPORTS, Client, Serving, serving
from windlass import JobSpec
from windlass.model.job import JobState
from windlass.observe.metrics import SERVER_STREAMS, SERVER_STREAMS_OPENED
from windlass.wire import windlass_pb2 as pb


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def claimed(client: Client, **ready: Any) -> Any:
    await client.say(ready=pb.Ready(**ready))
    return (await client.hear(pb.TaskAssignment)).task


@pytest.mark.parametrize("names", [0, 1], ids=["ours", "codeq"])
def test_a_job_from_a_producer_to_a_worker_and_back(url: str, transport: str, names: int) -> None:
    async def body() -> None:
        async with serving(url, transport) as it:
            worker = it.worker(("windlass.v1.Worker", "workerpb.WorkerStream")[names])
            producer = it.producer(("windlass.v1.Producer", "producerpb.ProducerStream")[names])
            await worker.say(hello=pb.WorkerHello(worker_id="w1"), ready=pb.Ready())
            assert (await worker.hear(pb.WorkerHelloAck)).worker_id == "w1"
            await producer.say(hello=pb.ProducerHello())
            assert (await producer.hear(pb.ProducerHelloAck)).subject == "anonymous"
            create = pb.CreateTask(seq=3, command="mail", payload=b'{"to":"me"}', priority=4)
            await producer.say(create_task=create)
            made = await producer.hear(pb.CreateAck)
            assert (made.seq, made.ok) == (3, True)
            task = (await worker.hear(pb.TaskAssignment)).task
            assert (task.id, json.loads(task.payload)) == (made.task_id, {"to": "me"})
            assert task.priority == 4
            await worker.say(heartbeat=pb.Heartbeat(task_id=task.id, extend_seconds=60))
            assert (await worker.hear(pb.HeartbeatAck)).ok
            result = pb.Result(task_id=task.id, status="COMPLETED", result_json=b'{"sent": 1}')
            await worker.say(result=result)
            assert (await worker.hear(pb.ResultAck)).ok
            job = await it.app.client.get_job(int(task.id))
            assert job is not None
            assert (job.state, job.output) == (JobState.COMPLETED, {"sent": 1})
            await producer.call.done_writing()
            assert (await producer.ended())[0] is grpc.StatusCode.OK

    run(body)


def test_open_streams_are_shown_by_kind(transport: str) -> None:
    async def body() -> None:
        async with serving("memory://", transport) as it:

            def shown() -> tuple[float, float]:
                gauge = it.service.instruments.look().gauges[SERVER_STREAMS.name]
                return gauge["worker",], gauge["producer",]

            assert shown() == (0, 0)
            workers = [await it.greeted("one"), await it.greeted("two")]
            producer = await it.producing()
            assert shown() == (2, 1)
            await producer.call.done_writing()
            await producer.ended()
            for worker in workers:
                worker.call.cancel()
            while shown() != (0, 0):
                await asyncio.sleep(0.01)
            opened = it.service.instruments.look().counters[SERVER_STREAMS_OPENED.name]
            assert opened == {("worker",): 2, ("producer",): 1}

    run(body)


def test_every_disposition_and_what_becomes_of_it(url: str, transport: str) -> None:
    async def body() -> None:
        async with serving(url, transport, app_settings={"keep": 60.0}) as it:
            await it.app.client.add_jobs([JobSpec("mail", n) for n in range(6)])
            worker = await it.greeted()
            await worker.say(ready=pb.Ready(count=6))
            tasks = (await worker.hear(pb.TaskBatch)).tasks
            ids = [task.id for task in tasks]
            assert len(ids) == 6
            await worker.say(nack=pb.Nack(task_id=ids[0], delay_seconds=60, reason="later"))
            ack = await worker.hear(pb.NackAck)
            assert (ack.ok, ack.applied_delay_seconds, ack.dlq) == (True, 60, False)
            await worker.say(abandon=pb.Abandon(task_id=ids[1]))
            assert (await worker.hear(pb.AbandonAck)).ok
            await worker.say(result=pb.Result(task_id=ids[2], status="FAILED", error="no"))
            assert (await worker.hear(pb.ResultAck)).ok
            batch = [
                pb.Result(task_id=ids[3], status="COMPLETED"),
                pb.Result(task_id=ids[4], status="FAILED", error="no"),
                pb.Result(task_id=ids[5], status="NACK", delay_seconds=5),
                pb.Result(task_id=ids[0], status="COMPLETED"),
            ]
            await worker.say(result_batch=pb.ResultBatch(results=batch))
            acks = (await worker.hear(pb.ResultAckBatch)).acks
            assert [ack.ok for ack in acks] == [True, True, True, False]
            assert acks[3].error_message == "not-owner"
            jobs = [await it.app.client.get_job(int(job_id)) for job_id in ids]
            seen = [(job.state, job.attempts) for job in jobs if job is not None]
            assert seen == [
                ("scheduled", 1),
                ("ready", 0),
                ("scheduled", 1),
                ("completed", 1),
                ("scheduled", 1),
                ("scheduled", 1),
            ]

    run(body)


@pytest.mark.parametrize(
    "place",
    [
        ("sqlite", "zttp"),
        pytest.param(("memory", "zttp"), marks=pytest.mark.rig),
        pytest.param(("memory", "grpcio"), marks=pytest.mark.rig),
        pytest.param(("sqlite", "grpcio"), marks=pytest.mark.rig),
    ],
    ids="-".join,
)
def test_five_thousand_messages_in_one_go(tmp_path: Path, place: tuple[str, str]) -> None:
    count = 5_000
    kind, transport = place
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"

    async def body() -> None:
        async with serving(url, transport) as it:
            producer = await it.producing()

            async def send() -> None:
                for seq in range(count):
                    await producer.say(create_task=pb.CreateTask(seq=seq, command="mail"))

            sending = asyncio.create_task(send())
            seqs = [(await producer.hear(pb.CreateAck)).seq for _ in range(count)]
            await sending
            assert seqs == [*range(count)]
            worker = await it.greeted()
            tasks: list[Any] = []
            while len(tasks) < count:
                await worker.say(ready=pb.Ready(count=1_000))
                tasks += (await worker.hear(pb.TaskBatch)).tasks

            async def settle() -> None:
                for task in tasks:
                    await worker.say(result=pb.Result(task_id=task.id, status="COMPLETED"))

            settling = asyncio.create_task(settle())
            acks = [await worker.hear(pb.ResultAck) for _ in range(count)]
            await settling
            assert all(ack.ok for ack in acks)
            assert {ack.task_id for ack in acks} == {task.id for task in tasks}
            assert (await it.app.client.counts())["running"] == 0

    run(body)


def test_a_client_that_returns_goes_on_with_its_delivery(url: str, transport: str) -> None:
    async def body() -> None:
        async with serving(url, transport) as it:
            await it.app.client.add_job("mail", {})
            worker = await it.greeted()
            task = await claimed(worker)
            worker.call.cancel()
            returned = await it.greeted()
            await returned.say(heartbeat=pb.Heartbeat(task_id=task.id, delivery=task.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            for ok in (True, False):
                await returned.say(
                    result=pb.Result(task_id=task.id, delivery=task.delivery, status="COMPLETED")
                )
                assert (await returned.hear(pb.ResultAck)).ok is ok

    run(body)


def test_a_stream_cut_between_claim_and_send_charges_nothing(url: str, transport: str) -> None:
    async def body() -> None:
        async with serving(url, transport) as it:
            cut = await it.greeted()
            store: Any = it.app.store
            claim = store.claim
            is_cut = asyncio.Event()

            async def cut_off(request: Any) -> Any:
                leases = await claim(request)
                if leases:
                    store.claim = claim
                    cut.call.cancel()
                    while it.wants:
                        await asyncio.sleep(0)
                    is_cut.set()
                return leases

            store.claim = cut_off
            job = await it.app.client.add_job("mail", {})
            await cut.say(ready=pb.Ready())
            await is_cut.wait()  # another stream's Ready would be one more want
            task = await claimed(await it.greeted())
            assert (task.id, task.attempts) == (str(job.id), 1)
            found = await it.app.client.get_job(job.id)
            assert found is not None
            assert (found.attempts, found.deliveries, found.resets) == (1, 2, 0)

    run(body)


def test_a_server_that_drains_tells_its_streams(url: str, transport: str) -> None:
    async def body() -> None:
        async with serving(url, transport) as it:
            for _ in range(2):
                await it.app.client.add_job("mail", {})
            busy, idle, producer = await it.greeted(), await it.greeted(), await it.producing()
            task = await claimed(busy)
            await idle.say(ready=pb.Ready(commands=["other"]))
            draining = asyncio.create_task(it.server.drain())
            for client, kind in (
                (busy, pb.WorkerServerError),
                (idle, pb.WorkerServerError),
                (producer, pb.ProducerServerError),
            ):
                assert (await client.hear(kind)).code == "Unavailable"
            assert (await idle.ended())[0] is grpc.StatusCode.UNAVAILABLE
            assert (await producer.ended())[0] is grpc.StatusCode.UNAVAILABLE
            await busy.say(result=pb.Result(task_id=task.id, status="COMPLETED"))
            assert (await busy.hear(pb.ResultAck)).ok
            assert (await busy.ended())[0] is grpc.StatusCode.UNAVAILABLE
            await draining
            assert (await it.app.client.counts())["ready"] == 1

    run(body)


def test_what_is_unfinished_after_the_grace_is_handed_back(url: str, transport: str) -> None:
    async def body() -> None:
        async with serving(url, transport, grace=0.0) as it:
            job = await it.app.client.add_job("mail", {})
            worker = await it.greeted()
            await claimed(worker)
            await it.server.drain()
            found = await it.app.client.get_job(job.id)
            assert found is not None
            assert (found.state, found.attempts) == (JobState.READY, 0)

    run(body)


_ENDINGS = [
    ("/windlass.v1.Worker/Nothing", None, grpc.StatusCode.UNIMPLEMENTED),
    ("/windlass.v1.Worker/Stream", b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
    ("/windlass.v1.Worker/Stream", b"\x12\x00", grpc.StatusCode.FAILED_PRECONDITION),
    ("/producerpb.ProducerStream/Stream", b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
]


@pytest.mark.parametrize(("path", "message", "status"), _ENDINGS, ids=str)
def test_a_guilty_stream_ends_alone(
    transport: str, path: str, message: bytes | None, status: Any
) -> None:
    async def body() -> None:
        async with serving(transport=transport) as it:
            worker = await it.greeted()
            guilty = it.channel.stream_stream(path)()
            if message is not None:  # grpcio calls it INTERNAL where a stream ends before a write
                await guilty.write(message)
            assert await guilty.code() is status
            await it.app.client.add_job("mail", {})
            await claimed(worker)

    run(body)


def test_a_message_that_is_too_large_ends_its_stream(transport: str) -> None:
    async def body() -> None:
        async with serving(transport=transport) as it:
            worker, other = await it.greeted(), await it.greeted()
            await worker.say(result=pb.Result(task_id="1", result_json=b"x" * (17 << 20)))
            assert (await worker.ended())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            await other.say(result=pb.Result(task_id="1", result_json=b"x" * (15 << 20)))
            assert (await other.hear(pb.ResultAck)).error_message == "not-found"

    run(body)


def test_nothing_is_claimed_for_a_client_that_does_not_read(transport: str) -> None:
    async def body() -> None:
        options = [("grpc.http2.lookahead_bytes", 65_535), ("grpc.http2.bdp_probe", 0)]

        def channel(port: int) -> Any:
            return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)

        count = 200
        async with serving(transport=transport, channel=channel) as it:
            await it.app.client.add_jobs([JobSpec("mail", "x" * 200_000)] * count)
            slow = await it.greeted()
            for _ in range(count):
                await slow.say(ready=pb.Ready())
            quick = await it.greeted()
            taken = []
            while (await it.app.client.counts())["ready"] == count:
                await asyncio.sleep(0)
            # The slow client's share is bounded, and the quick one gets the rest.
            first = await claimed(quick)
            taken.append(first.id)
            counts = await it.app.client.counts()
            assert counts["running"] < count / 2
            slow_tasks = []
            for _ in range(50):
                slow_tasks.append((await slow.hear(pb.TaskAssignment)).task.id)
            assert not set(slow_tasks) & set(taken)

    run(body)


def test_health_and_reflection(transport: str) -> None:
    async def body() -> None:
        async with serving(transport=transport) as it:
            check = it.channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            for name in ("", "windlass.v1.Worker", "producerpb.ProducerStream"):
                answer = await check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.RpcError) as unknown:
                await check(health_pb2.HealthCheckRequest(service="nothing"))
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            watch = it.channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            for version in ("v1", "v1alpha"):
                await _reflect(it, version)
            await it.server.drain()
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING

    run(body)


async def _reflect(it: Serving, version: str) -> None:
    call = it.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )()

    async def ask(**what: str) -> Any:
        await call.write(reflection_pb2.ServerReflectionRequest(**what))
        return await call.read()

    services = (await ask(list_services="")).list_services_response.service
    assert {"windlass.v1.Worker", "workerpb.WorkerStream"} <= {one.name for one in services}
    for symbol in ("windlass.v1.Producer", "windlass.v1.Task", "producerpb.ProducerStream"):
        files = (await ask(file_containing_symbol=symbol)).file_descriptor_response
        names = {FileDescriptorProto.FromString(data).name for data in files.file_descriptor_proto}
        assert {"windlass.proto", "google/protobuf/timestamp.proto"} <= names
    assert (await ask(file_containing_symbol="no.Such")).error_response.error_code == 5
    assert (await ask(file_by_filename="windlass.proto")).HasField("file_descriptor_response")
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


def test_two_servers_over_one_file_adopt_each_others_deliveries(
    tmp_path: Path, transport: str
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def body() -> None:
        async with serving(url, transport) as one, serving(url, transport) as two:
            await one.app.client.add_job("mail", {})
            worker = await one.greeted()
            task = await claimed(worker)
            worker.call.cancel()
            returned = await two.greeted()
            await returned.say(heartbeat=pb.Heartbeat(delivery=task.delivery))
            assert (await returned.hear(pb.HeartbeatAck)).ok
            await returned.say(result=pb.Result(delivery=task.delivery, status="COMPLETED"))
            ack = await returned.hear(pb.ResultAck)
            assert (ack.ok, ack.task_id) == (True, task.id)

    run(body)


def test_streams_over_tls(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    def channel(port: int) -> Any:
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        return grpc.aio.secure_channel(f"localhost:{port}", trusted)

    async def body() -> None:
        async with serving(tls=context, channel=channel) as it:
            worker = await it.greeted()
            await it.app.client.add_job("mail", "x" * 200_000)
            assert len((await claimed(worker)).payload) == 200_002

    run(body)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """One for localhost, signed by itself."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"
