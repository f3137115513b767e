"""What crosses to the SQL functions: batches as arrays and JSON texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import msgspec

from windlass.model.job import JobState
from windlass.store.fresh import alike
from windlass.store.records import (
    Cancel,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Release,
    Settled,
    Verdict,
)
from windlass.stores.postgres.marks import IndexPlace, Start


def _wire(name: str, **others: tuple[str, Any]) -> type[msgspec.Struct]:
    """NewJob as SQL reads it: an object without what is not said, and JSON inside JSON."""
    hints = get_type_hints(NewJob)
    fields: list[Any] = []
    for info in msgspec.structs.fields(NewJob):
        field, kind = others.get(info.name, (info.name, hints[info.name]))
        fields.append((field, kind) if info.required else (field, kind, info.default))
    return msgspec.defstruct(name, fields, omit_defaults=True, kw_only=True)


_META = ("meta", msgspec.Raw | None)
_Spec = _wire("_Spec", payload=("payload", msgspec.Raw), meta=_META)
"""A NewJob as `_add_jobs` reads it."""
_Alike = _wire("_Alike", payload=("payloads", msgspec.Raw), meta=_META)
"""NewJobs that differ in nothing but their payloads, as `_add_alike` reads them."""


class _Outcome(msgspec.Struct, omit_defaults=True):
    """An `_outcome`."""

    kind: str
    output: msgspec.Raw | None = None
    keep: float | None = None
    error: str | None = None
    delay: float | None = None
    run_at: int | None = None
    max_attempts: int | None = None
    final: bool | None = None
    payload: msgspec.Raw | None = None


class _Other(msgspec.Struct):
    id: int
    token: int
    outcome: _Outcome


def encode_jobs(jobs: Sequence[NewJob]) -> str:
    return msgspec.json.encode(
        [_Spec(**_said(job), payload=msgspec.Raw(job.payload.encode())) for job in jobs]
    ).decode()


def _said(job: NewJob) -> dict[str, Any]:
    """All that a request says but its payload."""
    said = dict(zip(_SAID, alike(job), strict=True))
    said["meta"] = _raw(job.meta)
    return said


_SAID = [name for name in NewJob.__struct_fields__ if name != "payload"]


def array(numbers: Iterable[float | None]) -> str:
    """The text of an array; a list as such takes the driver ten times as long."""
    return f"{{{','.join(['NULL' if number is None else str(number) for number in numbers])}}}"


def _text_array(texts: Iterable[str | None]) -> str:
    return f"{{{','.join(['NULL' if text is None else _quoted(text) for text in texts])}}}"


@lru_cache(maxsize=64)
def _name_array(names: tuple[str, ...]) -> str:
    """The same for names that every claim of a worker sends."""
    return _text_array(names)


def mark_array(tasks: Sequence[str], marks: Mapping[str, IndexPlace]) -> str:
    """One mark for each task, in their order."""
    found = [marks.get(task, _NO_MARK) for task in tasks]
    return f"{{{','.join([f'{{{priority},{at},{job}}}' for priority, at, job in found])}}}"


_NO_MARK = ("NULL", "NULL", "NULL")
_ALL_TENANTS = '{"",NULL}'
"""The default tenant, and all others."""
NOWHERE = "{}"
"""Before every tenant and queue."""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encode_plain(jobs: Sequence[NewJob]) -> str:
    """Jobs without keys for `_enqueue`; what they have in common is said once."""
    first = jobs[0]
    common = alike(first)
    if len(jobs) > 1 and any(alike(job) != common for job in jobs):
        return encode_jobs(jobs)
    payloads = msgspec.Raw(list_of_payloads(jobs).encode())
    return msgspec.json.encode(_Alike(**_said(first), payloads=payloads)).decode()


def list_of_payloads(jobs: Sequence[NewJob]) -> str:
    """One JSON array."""
    return f"[{','.join([job.payload for job in jobs])}]"


CLAIM = """
SELECT leases, is_batch::text, is_more::text, next_after::text, next_bell::text, entries::text
FROM {schema}._claim(
  _worker => $1::text,
  _tasks => $2::text::text[],
  _tenants => $3::text::text[],
  _limit => $4::text::integer,
  _suspects => $5::text::integer,
  _lease => $6::text::float8,
  _base => $7::text::bigint,
  _longer => $8::text::jsonb,
  _forbidden => $9::text::text[],
  _past_heads => $10::text::boolean,
  _after => $11::text::text[],
  _marks => $12::text::bigint[],
  _bell => $13::text::bigint,
  _least => $14::text::integer,
  _emptied => $15::text::bigint[],
  _now => $16::text::timestamptz
)"""


def claim_values(
    request: ClaimRequest,
    base: int,
    *,
    after: str,
    start: Start,
    least_batch: int,
    ended: Sequence[int],
    now: datetime | None,
) -> list[str | None]:
    """The arguments of `CLAIM`, in the order of its places."""
    return [
        request.worker,
        None if request.tasks is None else _name_array(request.tasks),
        _ALL_TENANTS if request.tenants is None else _name_array(request.tenants),
        str(request.limit),
        str(request.suspects),
        str(request.lease),
        str(base),
        msgspec.json.encode(request.longer_leases).decode(),
        _text_array(request.forbidden_flags),
        str(request.past_heads),
        after,
        mark_array(request.tasks, start.tasks) if request.tasks and start.tasks else "{}",
        str(start.bell),
        str(least_batch),
        array(ended),
        None if now is None else now.isoformat(),
    ]


class Claimed(NamedTuple):
    """What `_claim` answers."""

    leases: list[Lease]
    is_batch: bool
    is_more: bool
    next_after: str
    next_bell: int
    entries: int

    @classmethod
    def decode(cls, row: Sequence[str | None]) -> Claimed:
        leases, is_batch, is_more, next_after, next_bell, entries = row
        return cls(
            decode_leases(leases or "[]"),
            is_batch == "true",
            is_more == "true",
            next_after or NOWHERE,
            int(next_bell or 0),
            int(entries or 0),
        )


def decode_leases(text: str) -> list[Lease]:
    """In the order in which jobs are claimed; the server gives them in any."""
    return sorted(_leases(text), key=_in_claim_order)


_leases = msgspec.json.Decoder(list[Lease]).decode
_in_claim_order = attrgetter("priority", "run_at", "job_id")


class Settlements:
    """One call to settle, as the arguments of `_settle`, and the way back from its answer.

    Completions go as arrays; everything else one by one, and so does everything where two
    deliveries of one job are settled together, since the answers then depend on their order.
    """

    CALL = "_settle(%s::bigint[], %s::bigint[], %s::text[]::json[], %s::float8[], %s, %s, %s)"

    def __init__(self, settlements: Sequence[tuple[Lease, Outcome]]) -> None:
        self._count = len(settlements)
        self._places: list[int] = []
        is_twice = len({lease.job_id for lease, _ in settlements}) < self._count
        completed: list[tuple[Lease, Complete]] = []
        others: list[_Other] = []
        later: list[int] = []
        for place, (lease, outcome) in enumerate(settlements):
            if is_twice or not isinstance(outcome, Complete):
                others.append(_Other(lease.job_id, lease.token, _encode(outcome)))
                later.append(place)
            else:
                completed.append((lease, outcome))
                self._places.append(place)
        self._places += later
        self._ids = array([lease.job_id for lease, _ in completed])
        self._tokens = array([lease.token for lease, _ in completed])
        self._outputs: str | None = None
        self._keeps: str | None = None
        if any(outcome.keep or lease.keep for lease, outcome in completed):
            self._outputs = _text_array([outcome.output for _, outcome in completed])
            self._keeps = array([outcome.keep for _, outcome in completed])
        self._others = msgspec.json.encode(others).decode() if others else None

    def values(self, careful: bool, now: datetime | None) -> list[Any]:
        return [
            self._ids,
            self._tokens,
            self._outputs,
            self._keeps,
            self._others,
            careful,
            now,
        ]

    def answers(self, text: str | None) -> list[Settled]:
        """In the order the settlements were given."""
        if text is None:
            return [_COMPLETED] * self._count
        answers = [_COMPLETED] * self._count
        for place, word in zip(self._places, _words(text), strict=True):
            answers[place] = _ANSWERS[word]
        return answers


def _encode(outcome: Outcome) -> _Outcome:
    match outcome:
        case Complete():
            return _Outcome("complete", output=_raw(outcome.output), keep=outcome.keep)
        case Fail():
            return _Outcome(
                "fail",
                error=outcome.error,
                delay=outcome.delay,
                run_at=outcome.run_at,
                max_attempts=outcome.max_attempts,
                final=outcome.final,
                payload=_raw(outcome.payload),
            )
        case Release():
            return _Outcome("release")
        case Cancel():
            return _Outcome("cancel")


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def decode_answers(text: str) -> list[Settled]:
    """One for each delivery: the state its job is in, or the refusal."""
    return [_ANSWERS[word] for word in _words(text)]


_words = msgspec.json.Decoder(list[str]).decode
_COMPLETED = Settled(Verdict.APPLIED, JobState.COMPLETED)
_ANSWERS = {
    **{state.value: Settled(Verdict.APPLIED, state) for state in JobState},
    "waiting": Settled(Verdict.APPLIED, JobState.READY),
    "lost": Settled(Verdict.LOST),
    "missing": Settled(Verdict.MISSING),
    "busy": Settled(Verdict.BUSY),
}
