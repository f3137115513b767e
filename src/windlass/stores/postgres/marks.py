"""Where claims start: past the index entries of jobs that were claimed before.

Index entries of claimed jobs stay until vacuum may remove them, and while somebody holds an old
snapshot it may not: they pile up at the head of the index, and every claim would read them again.
So a claim that read many more entries than it returned is followed by claims that start after the
last job it took. What comes before that mark (a more urgent job, one that was handed back) is found
by a look from the very start, which is taken often while it is cheap and seldom while it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.clock import Clock
from windlass.store.records import ClaimRequest, Lease

SPARE = 16
"""Entries a claim may read beyond those it returns and one per task."""

SHARE = 10
"""A look from the start may take one part in this many of the time."""

LEAST_PAUSE = 0.02
MOST_PAUSE = 1.0

Mark = tuple[int, int, int]


class Marks:
    """The marks of one worker, by task, and when to look from the very start again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[str, Mark] = {}
        self._is_crowded = False
        self._look_at = 0.0

    def start(self) -> dict[str, Mark]:
        """The places to claim after; none of them for a look from the very start."""
        if self._is_crowded and self._clock.monotonic() < self._look_at:
            return dict(self._marks)
        return {}

    @property
    def pause(self) -> float:
        """Seconds until the next look from the very start."""
        return max(0.0, self._look_at - self._clock.monotonic())

    def learn(
        self,
        request: ClaimRequest,
        leases: Sequence[Lease],
        *,
        entries: int,
        began: float | None,
    ) -> None:
        """After a claim that read that many entries; `began` is when it did, from the start."""
        for lease in leases:
            if not lease.suspect:
                self._marks[lease.task] = (lease.priority, lease.run_at, lease.job_id)
        if began is None:
            return
        now = self._clock.monotonic()
        self._is_crowded = entries > len(leases) + len(request.tasks) + SPARE
        self._look_at = now + min(max((now - began) * SHARE, LEAST_PAUSE), MOST_PAUSE)
