"""How many jobs to claim: a computation over the slots' load, with no effect of its own.

How far ahead is worked out from how long jobs take: a quarter of a second of work, at most
`MOST_AHEAD` jobs or `MOST_TEXT` characters of payload, and nothing where a job takes longer than
that or none has shown its length. So a worker with slow jobs holds no more than its slots run, and
one with quick jobs never runs dry.
"""

from __future__ import annotations

import msgspec

AHEAD_SECONDS = 0.25
MOST_AHEAD = 2_000
MOST_TEXT = 16_000_000
REFILL = 1_000
"""Jobs that the buffer may lack before it is filled up again."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the slots of a worker are doing at one moment."""

    slots: int
    running: int = 0
    buffered: int = 0
    preparing: int = 0
    """Running jobs whose `pre_handle` has not ended yet."""
    pace: float | None = None
    """Seconds a job takes, averaged over the recent ones; None before the first."""

    @property
    def free(self) -> int:
        """Slots that neither run a job nor have one waiting for them."""
        return max(0, self.slots - self.running - self.buffered)


class Demand(msgspec.Struct, frozen=True):
    """What to claim."""

    count: int
    """Jobs to claim now."""
    low_water: int
    """Work it out again when the buffer holds fewer than this."""


def demand(
    load: Load,
    *,
    asking: int = 0,
    left: int | None = None,
    most_ahead: int = MOST_AHEAD,
    size: float = 1.0,
) -> Demand:
    """What to claim so that the slots run, and never wait for a claim where jobs are quick.

    `asking` slots wait for a claim before they go on with the buffer. `left` is how many jobs the
    worker may still take, None where there is no limit. `size` is that of a payload in characters.
    Nothing is claimed while no slot is free or asks and the buffer lacks less than half of what it
    is to hold, and less than `REFILL`.
    """
    ahead = look_ahead(load, most_ahead, size)
    low_water = max((ahead + 1) // 2, ahead - REFILL + 1)
    if load.free == 0 and asking == 0 and load.buffered >= low_water:
        return Demand(0, low_water)
    # Beyond what free slots need, claims of one size: one is under way while the last one's jobs
    # run, and none is so large that the slots run dry meanwhile.
    missing = load.slots - load.running + ahead - load.buffered
    count = max(asking, min(missing, max(load.free, REFILL)))
    return Demand(count if left is None else min(count, left), low_water)


def demand_one_by_one(load: Load) -> Demand:
    """What to claim where `pre_dequeue` is asked before each job: one at most, and only after the
    last one's `pre_handle`, which may change the answer."""
    is_settled = load.buffered == 0 and load.preparing == 0
    return Demand(min(1, load.free) if is_settled else 0, low_water=0)


def look_ahead(load: Load, most: int, size: float) -> int:
    """How many jobs to hold beyond what the slots run."""
    if load.pace is None or load.pace > AHEAD_SECONDS:
        return 0
    by_pace = int(AHEAD_SECONDS * load.slots / max(load.pace, 1e-6))
    return min(most, by_pace, int(MOST_TEXT / size))
