"""What crosses to the SQL functions: batches as arrays and JSON texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import msgspec

from windlass.store.fresh import alike
from windlass.store.records import ClaimRequest, Lease, NewJob
from windlass.stores.postgres.marks import IndexPlace, Start


def wire_struct(name: str, *more: Any, **others: tuple[str, Any]) -> type[msgspec.Struct]:
    """NewJob as SQL reads it: an object without what is not said, and JSON inside JSON."""
    hints = get_type_hints(NewJob)
    fields: list[Any] = [*more]
    for info in msgspec.structs.fields(NewJob):
        field, kind = others.get(info.name, (info.name, hints[info.name]))
        fields.append((field, kind) if info.required else (field, kind, info.default))
    return msgspec.defstruct(name, fields, omit_defaults=True, kw_only=True)


META = ("meta", msgspec.Raw | None)
_Spec = wire_struct("_Spec", payload=("payload", msgspec.Raw), meta=META)
"""A NewJob as `_add_jobs` reads it."""
_Alike = wire_struct("_Alike", payload=("payloads", msgspec.Raw), meta=META)
"""NewJobs that differ in nothing but their payloads, as `_add_alike` reads them."""


def raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def encode_jobs(jobs: Sequence[NewJob]) -> str:
    return msgspec.json.encode(
        [_Spec(**said(job), payload=msgspec.Raw(job.payload.encode())) for job in jobs]
    ).decode()


def said(job: NewJob) -> dict[str, Any]:
    """All that a request says but its payload."""
    found = dict(zip(_SAID, alike(job), strict=True))
    found["meta"] = raw(job.meta)
    return found


_SAID = [name for name in NewJob.__struct_fields__ if name != "payload"]


def array(numbers: Iterable[float | None]) -> str:
    """The text of an array; a list as such takes the driver ten times as long."""
    return f"{{{','.join(['NULL' if number is None else str(number) for number in numbers])}}}"


def text_array(texts: Iterable[str | None]) -> str:
    return f"{{{','.join(['NULL' if text is None else _quoted(text) for text in texts])}}}"


@lru_cache(maxsize=64)
def _name_array(names: tuple[str, ...]) -> str:
    """The same for names that every claim of a worker sends."""
    return text_array(names)


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
    """Jobs without keys for `_enqueue`: an object where they are alike, so that what they have in
    common is said once (`_add_alike` adds them), else an array of jobs (`_add_jobs`)."""
    first = jobs[0]
    common = alike(first)
    if len(jobs) > 1 and any(alike(job) != common for job in jobs):
        return encode_jobs(jobs)
    payloads = msgspec.Raw(list_of_payloads(jobs).encode())
    return msgspec.json.encode(_Alike(**said(first), payloads=payloads)).decode()


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
        text_array(request.forbidden_flags),
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
