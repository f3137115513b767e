"""Writes what running jobs say of themselves (progress, log entries), soon and together."""

from __future__ import annotations

import asyncio
from asyncio import gather
from collections.abc import Iterable

from windlass.engine.delivery import Delivery
from windlass.errors import StoreError
from windlass.observe.logs import Scoped
from windlass.store.port import WorkStore
from windlass.store.records import Note, Verdict

INTERVAL = 0.25


class NoteWriter:
    """Notes are decoration: one that cannot be written is logged and dropped."""

    def __init__(self, store: WorkStore, logger: Scoped) -> None:
        self._store = store
        self._logger = logger
        self._pending: dict[int, Delivery] = {}
        self._writing = asyncio.Lock()

    def add(self, delivery: Delivery) -> None:
        self._pending[id(delivery)] = delivery

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to write, or being written."""
        return bool(self._pending) or self._writing.locked()

    async def step(self) -> float | None:
        await self.flush(list(self._pending.values()))
        return INTERVAL if self._pending else None

    async def flush(self, deliveries: Iterable[Delivery]) -> None:
        """Write what these deliveries said, in order, after what is being written already."""
        async with self._writing:
            writes = []
            for delivery in deliveries:
                self._pending.pop(id(delivery), None)
                notes, delivery.notes = delivery.notes, None
                writes += [self._write(delivery, note) for note in notes or ()]
            # Begun in order, and stored in one go where it can be.
            for delivery, note in reversed([one for one in await gather(*writes) if one]):
                delivery.notes = [note, *(delivery.notes or ())]
                self._pending[id(delivery)] = delivery

    async def _write(self, delivery: Delivery, note: Note) -> tuple[Delivery, Note] | None:
        """Store a note; returns it to be tried again if a transaction has locked the job."""
        try:
            if await self._store.note(delivery.lease, note) is Verdict.BUSY:
                return delivery, note
        except StoreError as error:
            self._logger.warning(
                "a note of job %d was not stored: %s",
                delivery.lease.job_id,
                error,
                extra=delivery.log_fields,
            )
        return None
