"""One log line when the database goes away, one when it is back, and how long to wait between."""

from __future__ import annotations

import random

from windlass.errors import StoreBusyError, StoreError, StoreUnavailableError
from windlass.observe.logs import Scoped

_FIRST = 0.1
_LONGEST = 2.0


class Outage:
    """One loop's view of the database. Siblings tell of one outage once between them."""

    def __init__(self, logger: Scoped, away: set[int] | None = None) -> None:
        self._logger = logger
        self._failures = 0
        self._refusal = ""
        self._away: set[int] = set() if away is None else away
        """Which of all siblings wait for the database at the moment."""

    def sibling(self) -> Outage:
        return Outage(self._logger, self._away)

    def failed(self, error: BaseException) -> float:
        """Note a failure; the seconds to wait before the next try, bounded and jittered."""
        if isinstance(error, StoreError) and not isinstance(
            error, StoreUnavailableError | StoreBusyError
        ):
            if str(error) != self._refusal:
                self._refusal = str(error)
                self._logger.error("the database refuses a call, which is tried again: %s", error)
        elif not self._away:
            self._logger.warning("the database does not answer, waiting for it: %s", error)
        self._away.add(id(self))
        self._failures = min(self._failures + 1, 16)
        pause = min(_LONGEST, _FIRST * 2.0 ** (self._failures - 1))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311

    def worked(self) -> None:
        if self._failures:
            self._failures = 0
            self._refusal = ""
            self._away.discard(id(self))
            if not self._away:
                self._logger.info("the database answers again")
