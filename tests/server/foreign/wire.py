"""The messages of the foreign client, made from its own protocol files when tests start.

They have a descriptor pool of their own: nothing of Windlass's generated code is used or seen.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

Message = Any
"""A message of either stream."""

WORKER = "/workerpb.WorkerStream/Stream"
PRODUCER = "/producerpb.ProducerStream/Stream"

_PROTOS = Path(__file__).parent / "protos"
_GOOGLE = Path(protoc.__file__).parent / "_proto"


class Messages:
    """The message classes of one package, as attributes by their names.

    All are made at once, in one thread, and kept: protobuf itself keeps a class for only as long as
    it is used.
    """

    def __init__(self, package: str) -> None:
        made = message_factory.GetMessageClassesForFiles(_files()[package], _pool())
        for name, message in made.items():
            setattr(self, name.rpartition(".")[2], message)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the protocol files of the tests have no message {name}")


def timestamp(seconds: float) -> Message:
    """A `google.protobuf.Timestamp` of the pool that the streams' messages are in."""
    made = googlepb.Timestamp()
    made.FromMicroseconds(round(seconds * 1e6))
    return made


@functools.cache
def _pool() -> Any:
    """Its methods have no types."""
    pool: Any = descriptor_pool.DescriptorPool()
    for file in _compiled().file:
        pool.Add(file)
    return pool


def _files() -> dict[str, list[str]]:
    """The names of the files of each package."""
    found: dict[str, list[str]] = {}
    for file in _compiled().file:
        found.setdefault(file.package, []).append(file.name)
    return found


@functools.cache
def _compiled() -> descriptor_pb2.FileDescriptorSet:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "all.binpb"
        code = protoc.main(
            (
                "protoc",
                f"-I{_PROTOS}",
                f"-I{_GOOGLE}",
                "--include_imports",
                f"--descriptor_set_out={out}",
                *(str(file) for file in sorted(_PROTOS.glob("*.proto"))),
            )
        )
        assert code == 0, "protoc refused the protocol files of the tests"
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


workerpb = Messages("workerpb")
producerpb = Messages("producerpb")
googlepb = Messages("google.protobuf")
