"""Adding jobs: those without keys many at a time, those with keys apart, since they may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from windlass.model.job import Job
from windlass.model.payload import decode
from windlass.store.fresh import fresh_jobs
from windlass.store.records import NewJob, Row
from windlass.stores.postgres.calls import PATIENT_THREADS, Calls, Closable
from windlass.stores.postgres.gather import Gather
from windlass.stores.postgres.keyed import KeyedAdds
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


class Adding:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._local = threading.local()
        self._keyed: KeyedAdds | None = None

    def open(self) -> None:
        self._keyed = KeyedAdds(
            self._calls.new_threads(PATIENT_THREADS), self._calls.new_threads(), self._add_keyed
        )

    def stop(self) -> list[Closable]:
        """The parts to close."""
        return [] if self._keyed is None else [self._keyed]

    async def add(self, jobs: Sequence[NewJob]) -> list[Job]:
        if any(job.key is not None for job in jobs):
            assert self._keyed is not None
            return await self._keyed.add(jobs)
        return await self._gather().add(jobs)

    def _gather(self) -> Gather:
        """The one of the running event loop."""
        found: Gather | None = getattr(self._local, "gather", None)
        if found is None or found.loop is not asyncio.get_running_loop():
            found = self._local.gather = Gather(self._add_plain)
        return found

    async def _add_plain(self, jobs: Sequence[NewJob]) -> list[Job]:
        now = self._calls.now
        values = encode_plain(jobs), None if now is None else now.isoformat()
        at, ids = await self._calls.texts(_ENQUEUE, values)
        assert ids is not None
        payloads = decode(list_of_payloads(jobs))
        return fresh_jobs(jobs, payloads, int(at or 0), _ids(ids))

    def _add_keyed(
        self, connection: psycopg.Connection[Any], jobs: Sequence[NewJob], wait: float
    ) -> list[Job]:
        """Waits for no lock longer than so many seconds."""
        values = [f"{wait * 1000:.0f}ms", encode_jobs(jobs), self._calls.now]
        [text] = self._calls.fetch_row(connection, _ENQUEUE_KEYED, *values)
        return [row.job() for row in _rows(text)]
