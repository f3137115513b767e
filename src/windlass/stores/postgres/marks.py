"""Where claims start: past the index entries of jobs that were claimed before.

Index entries of claimed jobs stay until vacuum may remove them, and while somebody holds an old
snapshot it may not: they pile up at the head of the index, and every claim would read them again.
So a claim that read many more entries than it returned is followed by claims that start after the
last job it took. What comes before that mark (a more urgent job, one that was handed back) is found
by a look from the very start. One is taken when a claim comes short, when something was written or
heard of, and now and then; but looks that take long take no more than their share of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from windlass.clock import Clock
from windlass.store.records import ClaimRequest, Lease

SPARE = 16
"""Entries a claim may read beyond those of jobs that it could have returned."""

SHARE = 10
"""A look from the start may take one part in this many of the time."""

LEAST_PAUSE = 0.02
MOST_PAUSE = 1.0

Mark = tuple[int, int, int]


class Start(NamedTuple):
    """After which job of each task, and after which bell. `began` is when the look began of which
    this claim is a part, if that one is from the very start, and `entries` what it read so far."""

    tasks: Mapping[str, Mark]
    bell: int
    began: float | None = None
    entries: int = 0

    def after(self, bell: int, entries: int) -> Start:
        """The same look, further on."""
        return self._replace(bell=bell, entries=self.entries + entries)


class Marks:
    """The marks of one worker, by task, and when to look from the very start again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[str, Mark] = {}
        self._bell = 0
        self._is_crowded = False
        self._is_stirred = False
        self._looked_at = 0.0
        self._cost = 0.0

    def stir(self) -> None:
        """Something new may lie before the marks."""
        self._is_stirred = True

    def start(self) -> Start:
        """Where to claim from: after the marks, or a look from the very start."""
        now = self._clock.monotonic()
        rest = 0.0 if self._is_stirred else LEAST_PAUSE
        if not self._is_crowded or now - self._looked_at >= max(rest, self._share):
            return Start({}, 0, now)
        return Start(dict(self._marks), self._bell)

    @property
    def _share(self) -> float:
        return min(self._cost * SHARE, MOST_PAUSE)

    @property
    def pause(self) -> float:
        """Seconds until a look from the very start is allowed."""
        return max(0.0, self._looked_at + self._share - self._clock.monotonic())

    def learn(
        self,
        request: ClaimRequest,
        leases: Sequence[Lease],
        start: Start,
        *,
        bell: int,
        entries: int,
    ) -> None:
        """After a claim from `start` that read that many entries and bells up to `bell`."""
        self._bell = max(self._bell, bell)
        for lease in leases:
            if not lease.suspect:
                self._marks[lease.task] = (lease.priority, lease.run_at, lease.job_id)
        if start.began is None:
            self._is_stirred = self._is_stirred or len(leases) < request.limit
            return
        self._looked_at = self._clock.monotonic()
        self._cost = self._looked_at - start.began
        self._is_stirred = False
        self._is_crowded = start.entries + entries > len(leases) + SPARE
