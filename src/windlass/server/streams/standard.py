"""What every gRPC server should answer: is it healthy, and which services has it.

Messages and descriptors are those of grpcio's own packages; the sessions are ours, so both
transports serve them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from windlass.server.peers import Peer
from windlass.server.streams.edges import Edge, Method, Status
from windlass.server.streams.handshake import PATIENCE
from windlass.server.streams.worker_session import STOPPING
from windlass.wire import windlass_pb2
from windlass.wire.frames import FIRST_BYTES

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
"""Both are one protocol under two names."""


class _Plain:
    """A session that keeps nothing. One that asks nothing for `PATIENCE` seconds is ended."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._is_over = False
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._too_late)

    def resumed(self) -> None:
        """Answers are small."""

    def drain(self) -> None:
        self._finish(Status.UNAVAILABLE, STOPPING)

    def stop(self) -> None:
        self._finish(Status.UNAVAILABLE, STOPPING)

    def closed(self) -> None:
        self._is_over = True
        self._timer.cancel()

    def _too_late(self) -> None:
        self._finish(Status.DEADLINE_EXCEEDED, f"no request came within {PATIENCE:g} s")

    def _finish(self, status: Status, message: str = "") -> None:
        if not self._is_over:
            self.closed()
            self._edge.finish(status, message)


class Check(_Plain):
    """One question about one service, one answer."""

    def __init__(self, edge: Edge, services: frozenset[str]) -> None:
        super().__init__(edge)
        self._services = services

    def receive(self, events: Sequence[Any]) -> None:
        if self._is_over:
            return
        if events[0].service not in self._services:
            self._finish(Status.NOT_FOUND, "there is no such service")
            return
        self._edge.send([health_pb2.HealthCheckResponse(status=SERVING)])
        self._finish(Status.OK)

    def half_closed(self) -> None:
        self._finish(Status.INVALID_ARGUMENT, "the request is missing")


class Watch(_Plain):
    """Tells how one service is, now and when that changes."""

    def __init__(self, edge: Edge, services: frozenset[str]) -> None:
        super().__init__(edge)
        self._services = services
        self._has_asked = False

    def receive(self, events: Sequence[Any]) -> None:
        self._timer.cancel()
        if self._is_over or self._has_asked:
            return
        self._has_asked = True
        status = SERVING if events[0].service in self._services else _UNKNOWN
        self._edge.send([health_pb2.HealthCheckResponse(status=status)])

    def half_closed(self) -> None:
        if not self._has_asked:
            self._finish(Status.INVALID_ARGUMENT, "the request is missing")

    def drain(self) -> None:
        if self._has_asked and not self._is_over:
            self._edge.send([health_pb2.HealthCheckResponse(status=NOT_SERVING)])
        super().drain()


class Reflection(_Plain):
    """Tells which services there are, and their descriptors."""

    def __init__(self, edge: Edge, services: Sequence[str]) -> None:
        super().__init__(edge)
        self._services = services

    def receive(self, events: Sequence[Any]) -> None:
        self._timer.cancel()
        if not self._is_over:
            self._edge.send([self._answer(event) for event in events])

    def half_closed(self) -> None:
        self._finish(Status.OK)

    def _answer(self, request: Any) -> Any:
        answer: Any = reflection_pb2.ServerReflectionResponse(
            valid_host=request.host, original_request=request
        )
        pool = descriptor_pool.Default()  # type: ignore[no-untyped-call]
        try:
            match request.WhichOneof("message_request"):
                case "list_services":
                    for name in self._services:
                        answer.list_services_response.service.add(name=name)
                case "file_by_filename":
                    _add_file(answer, pool.FindFileByName(request.file_by_filename))
                case "file_containing_symbol":
                    symbol = request.file_containing_symbol
                    _add_file(answer, _ALIASED.get(symbol) or pool.FindFileContainingSymbol(symbol))
                case "file_containing_extension" | "all_extension_numbers_of_type":
                    raise KeyError
                case _:
                    _fail(answer, Status.INVALID_ARGUMENT, "nothing is asked")
        except KeyError:
            _fail(answer, Status.NOT_FOUND, "there is no such descriptor")
        return answer


def _add_file(answer: Any, file: FileDescriptor | bytes) -> None:
    """The file, and those that it needs."""
    descriptors = answer.file_descriptor_response.file_descriptor_proto
    if isinstance(file, bytes):
        descriptors.extend([file, *_ALIAS_NEEDS])
        return
    wanted, seen = [file], set()
    while wanted:
        one = wanted.pop()
        if one.name not in seen:
            seen.add(one.name)
            descriptors.append(one.serialized_pb)
            wanted.extend(one.dependencies)


def _fail(answer: Any, status: Status, message: str) -> None:
    answer.error_response.error_code = int(status)
    answer.error_response.error_message = message


def _alias(package: str, service: str, original: str) -> bytes:
    """A file that declares one of our services under codeq's name, with our messages."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = windlass_pb2.DESCRIPTOR.services_by_name[original].methods_by_name["Stream"]
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.append(windlass_pb2.DESCRIPTOR.name)
    file.service.add(name=service).method.add(
        name="Stream",
        input_type=f".{found.input_type.full_name}",
        output_type=f".{found.output_type.full_name}",
        client_streaming=True,
        server_streaming=True,
    )
    return file.SerializeToString()


_ALIASED = {
    "workerpb.WorkerStream": _alias("workerpb", "WorkerStream", "Worker"),
    "producerpb.ProducerStream": _alias("producerpb", "ProducerStream", "Producer"),
}
_ALIASED.update({f"{name}.Stream": file for name, file in list(_ALIASED.items())})
_ALIAS_NEEDS = [windlass_pb2.DESCRIPTOR.serialized_pb, timestamp_pb2.DESCRIPTOR.serialized_pb]


def standard_methods(services: Sequence[str]) -> dict[str, Method]:
    """Paths, and what answers them, for a server with these services."""
    listed = [*services, HEALTH, *REFLECTIONS]
    known = frozenset({"", *services})
    question = health_pb2.HealthCheckRequest.FromString
    methods = {
        f"/{HEALTH}/Check": Method(question, lambda edge, peer: Check(edge, known), FIRST_BYTES),
        f"/{HEALTH}/Watch": Method(question, lambda edge, peer: Watch(edge, known), FIRST_BYTES),
    }
    decode = reflection_pb2.ServerReflectionRequest.FromString
    opened: Callable[[Edge, Peer], Reflection] = lambda edge, peer: Reflection(edge, listed)  # noqa: E731
    for name in REFLECTIONS:
        methods[f"/{name}/ServerReflectionInfo"] = Method(decode, opened, FIRST_BYTES)
    return methods
