"""Says which tasks have jobs that no worker runs: they would lie there without a word."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from windlass.observe.logs import Scoped
from windlass.store.port import Roster

SOON = 1.0
SETTLE = 5.0
"""Seconds that workers which start together have to introduce themselves."""
EVERY = 60.0


class Lookout:
    """Introduces this worker, then looks now and then. Each task is told of once, to `logger`;
    without one nothing is looked for."""

    def __init__(
        self,
        store: Roster,
        worker: str,
        tasks: Sequence[str],
        tenants: Sequence[str] | None,
        logger: Scoped | None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._tasks = tuple(tasks)
        self._tenants = tenants
        self._logger = logger
        self._has_settled = False
        self._told: set[str] = set()

    async def step(self) -> float:
        if not await self._store.introduce(self._worker, self._tasks, self._tenants):
            return SOON  # its first sign of life is on the way
        if not self._has_settled:
            self._has_settled = True
            return SETTLE
        if self._logger is None:
            return EVERY
        for task in await self._store.stranded():
            if task not in self._told:
                self._told.add(task)
                self._logger.warning(
                    "jobs of task %r are ready, and no live worker runs it: start one that has"
                    " it, or remove them with windlass jobs cancel --task %s",
                    task,
                    shlex.quote(task) if task.isprintable() else "NAME",
                )
        return EVERY
