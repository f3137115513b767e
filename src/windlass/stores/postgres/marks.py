"""Where claims start: past the index entries of jobs that were claimed before.

Index entries of claimed jobs stay until vacuum may remove them, and while a transaction holds an
old snapshot it may not: they pile up at the head of the index, and every claim would read them.
So a claim that read many more entries than it returned is followed by claims that start after the
last job it took. What comes before that mark (a more urgent job, one that was handed back) is found
by a look from the very start. One is taken when a claim comes short, when something was written or
heard of, and now and then; but looks that take long take no more than their share of the time.

The same goes for the timer and the entries of jobs that it has made ready.
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

IndexPlace = tuple[int, int, int]


class Start(NamedTuple):
    """After which job of each task, and after which bell. `began` is when the look began of which
    this claim is a part, if that one is from the very start, and `entries` what it read so far."""

    tasks: Mapping[str, IndexPlace]
    bell: int
    began: float | None = None
    entries: int = 0

    def after(self, bell: int, entries: int) -> Start:
        """The same look, further on."""
        return self._replace(bell=bell, entries=self.entries + entries)


class _Looks:
    """Looks from the very start: whether these meet many entries, and when to take the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_crowded = False
        self._looked_at = 0.0
        self._cost = 0.0

    def pause(self, least: float) -> float:
        """Seconds until the next one, which is so many seconds after the last one or later."""
        if not self._is_crowded:
            return 0.0
        share = min(self._cost * SHARE, MOST_PAUSE)
        return max(0.0, self._looked_at + max(least, share) - self._clock.monotonic())

    def learn(self, began: float, is_crowded: bool) -> None:
        """After one that began then."""
        self._looked_at = self._clock.monotonic()
        self._cost = self._looked_at - began
        self._is_crowded = is_crowded


class ClaimMarks:
    """The marks of one worker, by task, and when to look from the very start again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks = _Looks(clock)
        self._marks: dict[str, IndexPlace] = {}
        self._bell = 0
        self._expects_new = False

    def expect_new(self) -> None:
        """Something new may lie before the marks."""
        self._expects_new = True

    def start(self) -> Start:
        """Where to claim from: after the marks, or a look from the very start."""
        if self._looks.pause(0.0 if self._expects_new else LEAST_PAUSE) == 0.0:
            return Start({}, 0, self._clock.monotonic())
        return Start(dict(self._marks), self._bell)

    @property
    def pause(self) -> float:
        """Seconds until a look from the very start is allowed."""
        return self._looks.pause(0.0)

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
            self._expects_new = self._expects_new or len(leases) < request.limit
            return
        self._expects_new = False
        self._looks.learn(start.began, start.entries + entries > len(leases) + SPARE)


class TimerStart(NamedTuple):
    """After which scheduled job; `began` is when this look from the very start began, if it is."""

    run_at: int
    job_id: int
    began: float | None = None


class TimerMark:
    """The mark of the timer: what is due before it was made ready, or was locked at that time, or
    was committed since. The next look from the very start finds the latter two."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks = _Looks(clock)
        self._mark = _FIRST

    def start(self) -> TimerStart:
        if self.pause == 0.0:
            return _FIRST._replace(began=self._clock.monotonic())
        return self._mark

    @property
    def pause(self) -> float:
        """Seconds until the next look from the very start."""
        return self._looks.pause(LEAST_PAUSE)

    def promoted(self, start: TimerStart, count: int, reached: Sequence[int], entries: int) -> None:
        """After so many jobs were made ready, and none is left that is due before `reached`."""
        self._mark = max(self._mark, TimerStart(*reached))
        self._learn(start, count, entries)

    def found(self, start: TimerStart, job: Sequence[int] | None, entries: int) -> None:
        """After the first scheduled job was found."""
        if job is not None:
            run_at, job_id = job
            self._mark = min(self._mark, TimerStart(run_at, job_id - 1))
        self._learn(start, 1, entries)

    def _learn(self, start: TimerStart, count: int, entries: int) -> None:
        if start.began is not None:
            self._looks.learn(start.began, entries > count + SPARE)


_FIRST = TimerStart(0, 0)
