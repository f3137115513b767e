"""The protocol file, the code that is made from it, and the numbers that codeq's clients send."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from windlass.cli import cli
from windlass.wire import windlass_pb2

HERE = Path(windlass_pb2.__file__).parent


@pytest.mark.parametrize("made", ["windlass_pb2.py", "windlass_pb2.pyi"])
def test_the_code_that_is_checked_in_is_made_from_the_file(made: str, tmp_path: Path) -> None:
    arguments = [f"-I{HERE}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments, f"{HERE}/windlass.proto"]
    subprocess.run(command, check=True, timeout=120)
    assert (tmp_path / made).read_text("utf-8") == (HERE / made).read_text("utf-8")


def test_windlass_proto_prints_the_file() -> None:
    printed = CliRunner().invoke(cli, ["proto"])
    assert printed.exit_code == 0
    assert printed.output == files("windlass.wire").joinpath("windlass.proto").read_text("utf-8")


_CODEQ = {
    "WorkerEvent": "hello ready result nack heartbeat abandon result_batch",
    "WorkerHello": "token worker_id",
    "Ready": "commands lease_seconds count",
    "Result": "task_id status result_json error",
    "Nack": "task_id delay_seconds reason",
    "Heartbeat": "task_id extend_seconds",
    "Abandon": "task_id",
    "ResultBatch": "results",
    "WorkerServerEvent": "hello_ack task result_ack heartbeat_ack nack_ack abandon_ack error"
    " task_batch result_ack_batch",
    "WorkerHelloAck": "worker_id tenant_id",
    "TaskAssignment": "task",
    "Task": "id command payload priority webhook max_attempts status worker_id lease_until"
    " attempts tenant_id created_at updated_at",
    "ResultAck": "task_id ok error_message",
    "HeartbeatAck": "task_id ok error_message",
    "NackAck": "task_id ok error_message applied_delay_seconds dlq",
    "AbandonAck": "task_id ok error_message",
    "WorkerServerError": "message code",
    "TaskBatch": "tasks",
    "ResultAckBatch": "acks",
    "ProducerEvent": "hello create_task create_task_batch",
    "ProducerHello": "token",
    "CreateTask": "seq command payload priority webhook max_attempts idempotency_key run_at"
    " delay_seconds trace_parent trace_state",
    "CreateTaskBatch": "tasks",
    "ProducerServerEvent": "hello_ack create_ack error create_ack_batch",
    "ProducerHelloAck": "tenant_id subject",
    "CreateAck": "seq ok task_id error_message",
    "ProducerServerError": "code message",
    "CreateAckBatch": "acks",
}
"""The fields of codeq's messages, numbered from 1."""


@pytest.mark.parametrize("message", _CODEQ)
def test_numbers_below_twenty_are_those_of_codeq(message: str) -> None:
    fields = windlass_pb2.DESCRIPTOR.message_types_by_name[message].fields
    below = {field.number: field.name for field in fields if field.number < 20}
    assert below == dict(enumerate(_CODEQ[message].split(), 1))


def test_what_is_ours_begins_at_twenty() -> None:
    for name, message in windlass_pb2.DESCRIPTOR.message_types_by_name.items():
        if name not in _CODEQ and name != "Stop":  # which is shaped like the acks
            assert all(field.number >= 20 for field in message.fields), name
