"""One log line when the database goes away, one when it is back, and how long to wait between."""

from __future__ import annotations

import random

from windlass.observe.logs import Scoped

_FIRST = 0.1
_LONGEST = 2.0


class Outage:
    """Shared by all loops of a worker, so that one outage is told once."""

    def __init__(self, logger: Scoped) -> None:
        self._logger = logger
        self._failures = 0

    def failed(self, error: BaseException) -> float:
        """Note a failure; the seconds to wait before the next try, bounded and jittered."""
        if self._failures == 0:
            self._logger.warning("the database does not answer, waiting for it: %s", error)
        self._failures = min(self._failures + 1, 16)
        pause = min(_LONGEST, _FIRST * 2.0 ** (self._failures - 1))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311

    def worked(self) -> None:
        if self._failures:
            self._failures = 0
            self._logger.info("the database answers again")
