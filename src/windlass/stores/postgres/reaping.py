"""Taking back the jobs of dead workers, with an eye on the database's clock.

Leases end by that clock, so a reaper must notice when it was set (`clock_watch`): `_follow_clock`
then moves the leases along.
"""

from __future__ import annotations

from typing import Any

import psycopg

from windlass.clock import Clock, to_datetime
from windlass.store.records import Reaped
from windlass.store.rules import micros
from windlass.stores.postgres import schema
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.clock_watch import ClockWatch

_ORPHANS_EVERY = 12
_VERSION_EVERY = 2
"""Reaps between looks for jobs whose worker has no row, and at the schema's version."""


class Reaping:
    def __init__(self, calls: Calls, schema_name: str, clock: Clock) -> None:
        self._calls = calls
        self._schema = schema_name
        self._clock = clock
        self._watch = ClockWatch(clock)
        self._count = 0

    def look_at_version_next(self) -> None:
        """After a migration: the next reap looks at the schema's version."""
        self._count = -1

    async def begin_watch(self) -> None:
        """Before the first claim: a jump of the clock after it is noticed."""
        if not self._watch.has_begun:
            await self._calls.threads.run(self._begin_watch)

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        self._count += 1
        if self._count % _VERSION_EVERY == 0:
            await self._calls.threads.run(
                lambda connection: schema.installed(connection, self._schema)
            )
        orphans = self._count % _ORPHANS_EVERY == 0
        return await self._calls.threads.run(
            lambda connection: self._reap(connection, limit, max_resets, orphans)
        )

    def _reap(
        self, connection: psycopg.Connection[Any], limit: int, max_resets: int, orphans: bool
    ) -> Reaped:
        watch = self._watch
        if not watch.has_begun:
            self._begin_watch(connection)
        sent = self._clock.monotonic()
        requeued, ended, at = self._calls.fetch_row(
            connection,
            "SELECT requeued, ended, at_micros"
            " FROM {schema}._reap(%s::integer, %s::integer, %s, %s, %s, %s)",
            limit,
            max_resets,
            orphans,
            watch.reckoned,
            watch.watched_since,
            self._calls.now,
        )
        by = watch.jump(at, sent, self._clock.monotonic())
        if by is not None:
            self._calls.fetch_row(
                connection,
                "SELECT {schema}._follow_clock(%s, %s, %s::float8,"
                " %s::bigint * interval '1 microsecond', %s)",
                watch.machine,
                to_datetime(at - micros(sent)),
                watch.since,
                by,
                self._calls.now,
            )
            watch.follow(at, sent)
        return Reaped(requeued=tuple(requeued), ended=tuple(ended))

    def _begin_watch(self, connection: psycopg.Connection[Any]) -> None:
        sent = self._clock.monotonic()
        noted = self._calls.fetch_row(
            connection,
            "SELECT zero_micros, watched_since FROM {schema}._watch_clock(%s, %s::float8, %s)",
            self._watch.machine,
            sent,
            self._calls.now,
        )
        self._watch.begin(*noted)
