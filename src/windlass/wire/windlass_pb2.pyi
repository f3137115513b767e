import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerEvent(_message.Message):
    __slots__ = ("hello", "ready", "result", "nack", "heartbeat", "abandon", "result_batch", "calls")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    RESULT_BATCH_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    hello: WorkerHello
    ready: Ready
    result: Result
    nack: Nack
    heartbeat: Heartbeat
    abandon: Abandon
    result_batch: ResultBatch
    calls: Calls
    def __init__(self, hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., abandon: _Optional[_Union[Abandon, _Mapping]] = ..., result_batch: _Optional[_Union[ResultBatch, _Mapping]] = ..., calls: _Optional[_Union[Calls, _Mapping]] = ...) -> None: ...

class WorkerHello(_message.Message):
    __slots__ = ("token", "worker_id", "wants_stop", "wants_calls")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    WANTS_STOP_FIELD_NUMBER: _ClassVar[int]
    WANTS_CALLS_FIELD_NUMBER: _ClassVar[int]
    token: str
    worker_id: str
    wants_stop: bool
    wants_calls: bool
    def __init__(self, token: _Optional[str] = ..., worker_id: _Optional[str] = ..., wants_stop: bool = ..., wants_calls: bool = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("commands", "lease_seconds", "count")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedScalarFieldContainer[str]
    lease_seconds: int
    count: int
    def __init__(self, commands: _Optional[_Iterable[str]] = ..., lease_seconds: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("task_id", "status", "result_json", "error", "delivery", "delay_seconds")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: str
    result_json: bytes
    error: str
    delivery: bytes
    delay_seconds: int
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[str] = ..., result_json: _Optional[bytes] = ..., error: _Optional[str] = ..., delivery: _Optional[bytes] = ..., delay_seconds: _Optional[int] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("task_id", "delay_seconds", "reason", "delivery")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    delay_seconds: int
    reason: str
    delivery: bytes
    def __init__(self, task_id: _Optional[str] = ..., delay_seconds: _Optional[int] = ..., reason: _Optional[str] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("task_id", "extend_seconds", "delivery")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXTEND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    extend_seconds: int
    delivery: bytes
    def __init__(self, task_id: _Optional[str] = ..., extend_seconds: _Optional[int] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class Abandon(_message.Message):
    __slots__ = ("task_id", "delivery")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    delivery: bytes
    def __init__(self, task_id: _Optional[str] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class ResultBatch(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class WorkerServerEvent(_message.Message):
    __slots__ = ("hello_ack", "task", "result_ack", "heartbeat_ack", "nack_ack", "abandon_ack", "error", "task_batch", "result_ack_batch", "answers", "hint", "stop")
    HELLO_ACK_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_ACK_FIELD_NUMBER: _ClassVar[int]
    ABANDON_ACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TASK_BATCH_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_BATCH_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    hello_ack: WorkerHelloAck
    task: TaskAssignment
    result_ack: ResultAck
    heartbeat_ack: HeartbeatAck
    nack_ack: NackAck
    abandon_ack: AbandonAck
    error: WorkerServerError
    task_batch: TaskBatch
    result_ack_batch: ResultAckBatch
    answers: Answers
    hint: Hint
    stop: Stop
    def __init__(self, hello_ack: _Optional[_Union[WorkerHelloAck, _Mapping]] = ..., task: _Optional[_Union[TaskAssignment, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., nack_ack: _Optional[_Union[NackAck, _Mapping]] = ..., abandon_ack: _Optional[_Union[AbandonAck, _Mapping]] = ..., error: _Optional[_Union[WorkerServerError, _Mapping]] = ..., task_batch: _Optional[_Union[TaskBatch, _Mapping]] = ..., result_ack_batch: _Optional[_Union[ResultAckBatch, _Mapping]] = ..., answers: _Optional[_Union[Answers, _Mapping]] = ..., hint: _Optional[_Union[Hint, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ...) -> None: ...

class WorkerHelloAck(_message.Message):
    __slots__ = ("worker_id", "tenant_id")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    tenant_id: str
    def __init__(self, worker_id: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "command", "payload", "priority", "webhook", "max_attempts", "status", "worker_id", "lease_until", "attempts", "tenant_id", "created_at", "updated_at", "delivery")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    id: str
    command: str
    payload: bytes
    priority: int
    webhook: str
    max_attempts: int
    status: str
    worker_id: str
    lease_until: str
    attempts: int
    tenant_id: str
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    delivery: bytes
    def __init__(self, id: _Optional[str] = ..., command: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., webhook: _Optional[str] = ..., max_attempts: _Optional[int] = ..., status: _Optional[str] = ..., worker_id: _Optional[str] = ..., lease_until: _Optional[str] = ..., attempts: _Optional[int] = ..., tenant_id: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class TaskAssignment(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class TaskBatch(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ...) -> None: ...

class NackAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message", "applied_delay_seconds", "dlq")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    APPLIED_DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DLQ_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    applied_delay_seconds: int
    dlq: bool
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ..., applied_delay_seconds: _Optional[int] = ..., dlq: bool = ...) -> None: ...

class AbandonAck(_message.Message):
    __slots__ = ("task_id", "ok", "error_message")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    ok: bool
    error_message: str
    def __init__(self, task_id: _Optional[str] = ..., ok: bool = ..., error_message: _Optional[str] = ...) -> None: ...

class ResultAckBatch(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[ResultAck]
    def __init__(self, acks: _Optional[_Iterable[_Union[ResultAck, _Mapping]]] = ...) -> None: ...

class WorkerServerError(_message.Message):
    __slots__ = ("message", "code")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    message: str
    code: str
    def __init__(self, message: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("task_id", "delivery", "reason")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    delivery: bytes
    reason: str
    def __init__(self, task_id: _Optional[str] = ..., delivery: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class Calls(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    def __init__(self, calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("number", "verb", "arguments")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    verb: str
    arguments: bytes
    def __init__(self, number: _Optional[int] = ..., verb: _Optional[str] = ..., arguments: _Optional[bytes] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("number", "value", "error", "message", "fields", "more")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    number: int
    value: bytes
    error: str
    message: str
    fields: bytes
    more: bool
    def __init__(self, number: _Optional[int] = ..., value: _Optional[bytes] = ..., error: _Optional[str] = ..., message: _Optional[str] = ..., fields: _Optional[bytes] = ..., more: bool = ...) -> None: ...

class Hint(_message.Message):
    __slots__ = ("ready", "due_seconds")
    READY_FIELD_NUMBER: _ClassVar[int]
    DUE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    due_seconds: float
    def __init__(self, ready: bool = ..., due_seconds: _Optional[float] = ...) -> None: ...

class ProducerEvent(_message.Message):
    __slots__ = ("hello", "create_task", "create_task_batch")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_TASK_FIELD_NUMBER: _ClassVar[int]
    CREATE_TASK_BATCH_FIELD_NUMBER: _ClassVar[int]
    hello: ProducerHello
    create_task: CreateTask
    create_task_batch: CreateTaskBatch
    def __init__(self, hello: _Optional[_Union[ProducerHello, _Mapping]] = ..., create_task: _Optional[_Union[CreateTask, _Mapping]] = ..., create_task_batch: _Optional[_Union[CreateTaskBatch, _Mapping]] = ...) -> None: ...

class ProducerHello(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class CreateTask(_message.Message):
    __slots__ = ("seq", "command", "payload", "priority", "webhook", "max_attempts", "idempotency_key", "run_at", "delay_seconds", "trace_parent", "trace_state")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    command: str
    payload: bytes
    priority: int
    webhook: str
    max_attempts: int
    idempotency_key: str
    run_at: _timestamp_pb2.Timestamp
    delay_seconds: int
    trace_parent: str
    trace_state: str
    def __init__(self, seq: _Optional[int] = ..., command: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., webhook: _Optional[str] = ..., max_attempts: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay_seconds: _Optional[int] = ..., trace_parent: _Optional[str] = ..., trace_state: _Optional[str] = ...) -> None: ...

class CreateTaskBatch(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[CreateTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[CreateTask, _Mapping]]] = ...) -> None: ...

class ProducerServerEvent(_message.Message):
    __slots__ = ("hello_ack", "create_ack", "error", "create_ack_batch")
    HELLO_ACK_FIELD_NUMBER: _ClassVar[int]
    CREATE_ACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATE_ACK_BATCH_FIELD_NUMBER: _ClassVar[int]
    hello_ack: ProducerHelloAck
    create_ack: CreateAck
    error: ProducerServerError
    create_ack_batch: CreateAckBatch
    def __init__(self, hello_ack: _Optional[_Union[ProducerHelloAck, _Mapping]] = ..., create_ack: _Optional[_Union[CreateAck, _Mapping]] = ..., error: _Optional[_Union[ProducerServerError, _Mapping]] = ..., create_ack_batch: _Optional[_Union[CreateAckBatch, _Mapping]] = ...) -> None: ...

class ProducerHelloAck(_message.Message):
    __slots__ = ("tenant_id", "subject")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    subject: str
    def __init__(self, tenant_id: _Optional[str] = ..., subject: _Optional[str] = ...) -> None: ...

class CreateAck(_message.Message):
    __slots__ = ("seq", "ok", "task_id", "error_message")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    ok: bool
    task_id: str
    error_message: str
    def __init__(self, seq: _Optional[int] = ..., ok: bool = ..., task_id: _Optional[str] = ..., error_message: _Optional[str] = ...) -> None: ...

class CreateAckBatch(_message.Message):
    __slots__ = ("acks",)
    ACKS_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[CreateAck]
    def __init__(self, acks: _Optional[_Iterable[_Union[CreateAck, _Mapping]]] = ...) -> None: ...

class ProducerServerError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
