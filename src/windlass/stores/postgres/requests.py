"""Requests that may come twice, and scopes of claims, as the functions for servers take them; and
what these answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.store.records import Row
from windlass.store.server import ClaimScope, Request, Requested
from windlass.stores.postgres.wire import array, encode_jobs, text_array


def once_values(requests: Sequence[Request]) -> list[Any]:
    """The arguments of `_enqueue_once` that are about requests."""
    jobs = [job for request in requests for job in request.jobs]
    return [
        text_array([request.tenant for request in requests]),
        text_array([request.key for request in requests]),
        text_array([request.digest for request in requests]),
        array([len(request.jobs) for request in requests]),
        encode_jobs(jobs),
        any(job.key is not None or job.blockers for job in jobs),
    ]


class _Answer(msgspec.Struct):
    """A `Requested` without its jobs."""

    ids: tuple[int, ...] = ()
    is_new: bool = False
    is_conflict: bool = False


_answers = msgspec.json.Decoder(list[_Answer]).decode
_rows = msgspec.json.Decoder(list[Row]).decode


def decode_requested(answers: str, rows: str) -> list[Requested]:
    jobs = {row.id: row.job() for row in _rows(rows)}
    return [
        Requested(
            answer.ids,
            tuple([jobs.get(job_id) for job_id in answer.ids]),
            is_new=answer.is_new,
            is_conflict=answer.is_conflict,
        )
        for answer in _answers(answers)
    ]


def encode_scopes(scopes: Sequence[ClaimScope]) -> str:
    return msgspec.json.encode(scopes).decode()
