"""Adding jobs and starting chains: those without keys many at a time, those with keys apart, since
they may wait."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from windlass.errors import OutcomeUnknownError
from windlass.model.chain import Chain
from windlass.model.job import Job
from windlass.model.payload import decode
from windlass.store.fresh import fresh_chains, fresh_jobs
from windlass.store.records import NewChain, NewJob, Row
from windlass.store.server import Request, Requested
from windlass.stores.postgres.calls import PATIENT_THREADS, Calls, Closable
from windlass.stores.postgres.gather import Gather
from windlass.stores.postgres.keyed import KeyedAdds
from windlass.stores.postgres.links import (
    decode_chains,
    encode_linked,
    encode_starts,
    needs_telling,
)
from windlass.stores.postgres.refusals import told_plainly
from windlass.stores.postgres.requests import decode_requested, once_values
from windlass.stores.postgres.wire import encode_jobs, encode_plain, list_of_payloads

_rows = msgspec.json.Decoder(list[Row]).decode
_ids = msgspec.json.Decoder(list[int]).decode

_ENQUEUE = (
    "SELECT at_micros::text, pg_catalog.array_to_json(ids)::text"
    " FROM {schema}._enqueue($1::text, false, $2::text::timestamptz)"
)

_ENQUEUE_KEYED = (
    "SELECT added.jobs FROM (SELECT pg_catalog.set_config('lock_timeout', %s, true)) AS s (wait)"
    " CROSS JOIN LATERAL {schema}._enqueue("
    "CASE WHEN s.wait IS NOT NULL THEN %s::text END, true, %s) AS added"
)
"""The limit is set before jobs are added, because what is added depends on its being set."""


_ENQUEUE_LINKED = "SELECT jobs FROM {schema}._enqueue(%s, true, %s)"

_ENQUEUE_ONCE = (
    "SELECT asked.answers, asked.rows"
    " FROM (SELECT pg_catalog.set_config('lock_timeout', %s, true)) AS s (wait)"
    " CROSS JOIN LATERAL {schema}._enqueue_once("
    "CASE WHEN s.wait IS NOT NULL THEN %s::text[] END, %s::text[], %s::text[], %s::integer[],"
    " %s::json, %s, %s::bigint, %s) AS asked"
)

_START = (
    "SELECT at_micros::text, pg_catalog.array_to_json(ids)::text"
    " FROM {schema}._start_chains($1::text, false, $2::text::timestamptz)"
)

_START_TOLD = (
    "SELECT begun.is_new, begun.chains"
    " FROM (SELECT pg_catalog.set_config('lock_timeout', %s, true)) AS s (wait)"
    " CROSS JOIN LATERAL {schema}._start_chains("
    "CASE WHEN s.wait IS NOT NULL THEN %s::text END, true, %s) AS begun"
)


class Adding:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._local = threading.local()
        self._keyed: KeyedAdds | None = None

    def open(self) -> None:
        self._keyed = KeyedAdds(self._calls.new_threads(PATIENT_THREADS), self._calls.new_threads())

    def stop(self) -> list[Closable]:
        """The parts to close."""
        return [] if self._keyed is None else [self._keyed]

    # ── jobs ──

    async def add(self, jobs: Sequence[NewJob]) -> list[Job]:
        keys = {job.key for job in jobs if job.key is not None}
        if keys:
            assert self._keyed is not None
            with told_plainly():
                return await self._keyed.add(
                    keys, lambda connection, wait: self._add_keyed(connection, jobs, wait)
                )
        if any(job.blockers for job in jobs):
            with told_plainly():
                [text] = await self._calls.row(
                    _ENQUEUE_LINKED, encode_linked(jobs), self._calls.now
                )
            return [row.job() for row in _rows(text)]
        return await self._jobs().add(jobs)

    def _jobs(self) -> Gather[NewJob, Job]:
        """The one of the running event loop."""
        found: Gather[NewJob, Job] | None = getattr(self._local, "jobs", None)
        if found is None or found.loop is not asyncio.get_running_loop():
            found = self._local.jobs = Gather(self._add_plain, lambda job: len(job.payload))
        return found

    async def _add_plain(self, jobs: Sequence[NewJob]) -> list[Job]:
        at, ids = await self._calls.texts(_ENQUEUE, [encode_plain(jobs), self._now_text])
        assert ids is not None
        payloads = decode(list_of_payloads(jobs))
        return fresh_jobs(jobs, payloads, int(at or 0), _ids(ids))

    def _add_keyed(
        self, connection: psycopg.Connection[Any], jobs: Sequence[NewJob], wait: float
    ) -> list[Job]:
        """Waits for no lock longer than so many seconds."""
        values = [_milliseconds(wait), encode_jobs(jobs), self._calls.now]
        [text] = self._calls.fetch_row(connection, _ENQUEUE_KEYED, *values)
        return [row.job() for row in _rows(text)]

    # ── requests that may come twice ──

    async def add_once(self, requests: Sequence[Request]) -> list[Requested]:
        """If the answer is lost the call is made again, once, with the same number: it says what
        the first one did."""
        by = secrets.randbits(62)
        keys = {f"request {it.tenant} {it.key}" for it in requests}
        keys |= {job.key for it in requests for job in it.jobs if job.key is not None}
        assert self._keyed is not None
        with told_plainly():
            for is_last in (False, True):
                try:
                    return await self._keyed.add(
                        keys, lambda connection, wait: self._ask(connection, requests, by, wait)
                    )
                except OutcomeUnknownError:
                    if is_last:
                        raise
        raise AssertionError

    def _ask(
        self,
        connection: psycopg.Connection[Any],
        requests: Sequence[Request],
        by: int,
        wait: float,
    ) -> list[Requested]:
        values = [_milliseconds(wait), *once_values(requests), by, self._calls.now]
        answers, rows = self._calls.fetch_row(connection, _ENQUEUE_ONCE, *values)
        return decode_requested(answers, rows or "[]")

    # ── chains ──

    async def start(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        if not needs_telling(chains):
            return await self._chains().add(chains)
        keys = {f"chain {new.key}" for new in chains if new.key is not None}
        assert self._keyed is not None
        with told_plainly():
            return await self._keyed.add(
                keys, lambda connection, wait: self._start_told(connection, chains, wait)
            )

    def _chains(self) -> Gather[NewChain, Chain[Any]]:
        """The one of the running event loop."""
        found: Gather[NewChain, Chain[Any]] | None = getattr(self._local, "chains", None)
        if found is None or found.loop is not asyncio.get_running_loop():
            found = self._local.chains = Gather(
                self._start_plain, lambda chain: len(chain.job.payload)
            )
        return found

    async def _start_plain(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        at, ids = await self._calls.texts(_START, [encode_starts(chains), self._now_text])
        assert ids is not None
        payloads = decode(list_of_payloads([new.job for new in chains]))
        return fresh_chains(chains, payloads, int(at or 0), _ids(ids))

    def _start_told(
        self, connection: psycopg.Connection[Any], chains: Sequence[NewChain], wait: float
    ) -> list[Chain[Any]]:
        values = [_milliseconds(wait), encode_starts(chains), self._calls.now]
        is_new, text = self._calls.fetch_row(connection, _START_TOLD, *values)
        return decode_chains(text, is_new=is_new)

    @property
    def _now_text(self) -> str | None:
        now = self._calls.now
        return None if now is None else now.isoformat()


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"
