"""Who is let in, as what, and what is said to the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.patience import PATIENCE
from tests.server.foreign.program import Server, Tenant, environment, identity, serving
from tests.server.foreign.streams import OPTIONS, Ended
from tests.server.foreign.wire import producerpb, workerpb

SERVICES = (
    *("windlass.v1.Worker", "windlass.v1.Producer"),
    *("workerpb.WorkerStream", "producerpb.ProducerStream"),
)


def test_a_worker_is_told_its_name_and_tenant(tenant: Tenant) -> None:
    worker = tenant.worker("ada")
    assert (worker.id, worker.tenant) == ("ada", tenant.name)


def test_a_worker_without_a_name_is_given_one(server: Server) -> None:
    assert server.worker().hello(identity("worker", "acme"), "").worker_id.strip()


def test_the_default_tenant_is_told_as_nothing(server: Server) -> None:
    assert server.worker().hello(identity("worker")).tenant_id == ""
    assert server.producer().hello(identity("producer")).tenant_id == ""


def test_a_producer_is_told_its_tenant_and_subject(tenant: Tenant) -> None:
    ack = tenant.server.producer().hello(identity("producer", tenant.name, sub="shop"))
    assert (ack.tenant_id, ack.subject) == (tenant.name, "shop")


def test_a_worker_may_produce(tenant: Tenant) -> None:
    producer = tenant.server.producer()
    producer.hello(identity("worker", tenant.name))
    assert producer.add("mail")


@pytest.mark.parametrize("first", ["ready", "result_batch", "nothing"])
def test_the_first_event_of_a_worker_is_hello(server: Server, first: str) -> None:
    worker = server.worker()
    match first:
        case "ready":
            worker.ready("mail")
        case "result_batch":
            worker.send(result_batch=workerpb.ResultBatch())
        case _:
            worker.send()
    assert worker.end().code == "FAILED_PRECONDITION"


def test_the_first_event_of_a_producer_is_hello(server: Server) -> None:
    producer = server.producer()
    producer.send(create_task=producerpb.CreateTask(seq=1, command="mail"))
    assert producer.end().code == "FAILED_PRECONDITION"


@pytest.mark.parametrize("token", ["", "   ", "wl_guessed", "eyJhbGciOiJub25lIn0.e30.", "\u20ac"])
def test_a_token_that_is_not_good_is_unauthenticated(server: Server, token: str) -> None:
    for stream in (server.worker(), server.producer()):
        with pytest.raises(Ended) as caught:
            stream.hello(token)
        assert caught.value.code == "UNAUTHENTICATED"
        assert token.strip() == "" or token not in caught.value.details


def test_a_token_whose_time_is_over_is_unauthenticated(server: Server) -> None:
    for stream in (server.worker(), server.producer()):
        with pytest.raises(Ended) as caught:
            stream.hello(identity("admin", seconds=-120))
        assert caught.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("role", ["producer", "operator"])
def test_a_token_of_another_role_is_no_worker(server: Server, role: str) -> None:
    with pytest.raises(Ended) as caught:
        server.worker().hello(identity(role, "acme"))
    assert caught.value.code == "PERMISSION_DENIED"


def test_a_second_hello_is_an_error_that_ends_nothing(tenant: Tenant) -> None:
    worker, producer = tenant.worker(), tenant.producer()
    worker.send(hello=workerpb.Hello(token=identity("admin")))
    producer.send(hello=producerpb.Hello(token=identity("admin")))
    assert worker.take("error").code == "FailedPrecondition"
    assert producer.take("error").code == "FailedPrecondition"
    producer.add("mail")
    assert worker.get("mail").tenant_id == tenant.name


def test_tokens_of_windlass_itself_are_good(server: Server) -> None:
    made = server.make_token(
        "of-the-foreign-test", "--tenant", "acme", "--role", "worker", "--role", "producer"
    )
    assert server.worker().hello(made).tenant_id == "acme"
    assert server.producer().hello(made).tenant_id == "acme"


def test_health_and_reflection_are_on(server: Server) -> None:
    with grpc.insecure_channel(server.address, OPTIONS) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", *SERVICES):
            asked = health_pb2.HealthCheckRequest(service=service)
            answer = health.Check(asked, timeout=PATIENCE, wait_for_ready=True)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, service
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            *(
                reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
                for name in SERVICES
            ),
        ]
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        listed, *files = reflection.ServerReflectionInfo(iter(asked), timeout=PATIENCE)
    assert {each.name for each in listed.list_services_response.service} >= set(SERVICES)
    for name, answer in zip(SERVICES, files, strict=True):
        described = {
            f"{file.package}.{service.name}"
            for data in answer.file_descriptor_response.file_descriptor_proto
            for file in [descriptor_pb2.FileDescriptorProto.FromString(data)]
            for service in file.service
        }
        assert name in described


def test_an_unknown_service_is_unimplemented(server: Server) -> None:
    with grpc.insecure_channel(server.address, OPTIONS) as channel:
        for path in ("/workerpb.WorkerStream/Other", "/other.Service/Stream"):
            with pytest.raises(grpc.RpcError) as caught:
                list(
                    channel.stream_stream(path, None, None)(
                        iter([b""]), wait_for_ready=True, timeout=PATIENCE
                    )
                )
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_without_any_token_the_server_is_open_on_loopback(file_url: str, tmp_path: Path) -> None:
    with serving(file_url, tmp_path, has_keys=False) as server:
        assert server.worker().hello("").tenant_id == ""
        assert "admin" in server.log
        producer = server.producer()
        producer.hello("")
        producer.add("mail")
        # From the first token on nobody is anonymous.
        made = server.make_token("first", "--role", "worker")
        for token, code in (("", "UNAUTHENTICATED"), ("wl_wrong", "UNAUTHENTICATED"), (made, "")):
            worker = server.worker()
            try:
                worker.hello(token)
            except Ended as ended:
                assert ended.code == code
            else:
                assert code == ""


def test_without_any_token_no_other_address_is_served(file_url: str, tmp_path: Path) -> None:
    server = Server(file_url, tmp_path, has_keys=False, host="0.0.0.0")
    ended = subprocess.run(
        server.command,
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode not in (0, -9)
    assert "--insecure" in ended.stderr


@pytest.mark.rig
def test_a_stream_without_hello_is_ended_after_ten_seconds(server: Server) -> None:
    worker, producer = server.worker(), server.producer()
    assert worker.end().code == "DEADLINE_EXCEEDED"
    assert producer.end().code == "DEADLINE_EXCEEDED"


@pytest.mark.rig
def test_streams_of_a_token_that_ends_are_ended(server: Server, tenant: Tenant) -> None:
    """Both in the same half minute: a token that is revoked, and one whose time is over."""
    made = server.make_token("to-be-revoked", "--tenant", tenant.name, "--role", "worker")
    worker, producer, expiring = server.worker(), server.producer(), server.worker()
    worker.hello(made)
    producer.hello(made)
    expiring.hello(identity("worker", tenant.name, seconds=3))
    server.revoke_token("to-be-revoked")
    for stream in (worker, producer, expiring):
        assert stream.end().code in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    with pytest.raises(Ended):
        server.worker().hello(made)
    # Those of others go on.
    tenant.producer().add("mail")
    assert tenant.worker().get("mail")
