"""Pictures for tests of `windlass top`: one of a shop, one of nothing, one with what is hostile."""

from __future__ import annotations

from windlass.cli.top.picture import (
    Detail,
    FailureLine,
    Picture,
    QueueLine,
    RunningLine,
    Speed,
    TaskLine,
    WorkerLine,
)
from windlass.model.job import JobState
from windlass.store.figures import Depth, Depths

NOW = 1_767_268_536_000_000
"""2026-01-01 11:55:36 UTC"""


def depths(oldest: float | None = None, **counts: int) -> Depths:
    states = {state: Depth(counts.get(state.value, 0)) for state in JobState}
    at = None if oldest is None else NOW - int(oldest * 1e6)
    return Depths(states, NOW, at)


EMPTY = Picture(depths=depths(), speed=Speed())

SHOP = Picture(
    depths=depths(11.0, ready=1204, running=3, failed=7),
    speed=Speed(101.6, 0.4, 11.2, 0.038),
    history=tuple(float(n) for n in (0, 40, 60, 90, 98, 100, 101, 99, 97, 96, 100, 101.6)),
    tasks=(
        TaskLine("mail", Speed(101.2, 0.0, 11.2, 0.02), 0),
        TaskLine("report", Speed(0.4, 0.4, 2.1, 0.012), 0, paused=("",)),
        TaskLine("video", Speed(0.05, 0.0, 0.085, 30.0), 3),
    ),
    queues=(
        QueueLine("encoding", 1, "video", 0.226),
        QueueLine("letters", paused=("acme",)),
    ),
    running=(
        RunningLine(1, "video", "encoding", "host-7-e47dceb9", 1, 25, 0.226, 0.3, "frame 30"),
        RunningLine(2, "video", None, "host-7-e47dceb9", 2, 25, 71.0),
        RunningLine(3, "video", None, "host-7-e47dceb9", 1, 3, 3.0, 0.999, "frame 99"),
    ),
    failures=(
        FailureLine(7, "report", Depth(6), 1.0, "LookupError: there is nothing for May\n  trace"),
        FailureLine(
            4, "report", Depth(1), 3_700.0, "TimeoutError: the archive has not answered for 30 s"
        ),
    ),
    workers=(
        WorkerLine("host-7-e47dceb9", 3, 21.0),
        WorkerLine("host-8-0badcafe", 0, -40.0),
    ),
    detail=Detail("task", "mail", depths(11.0, ready=1204)),
)

HOSTILE_TEXT = "\x1b]0;pwned\x07\x1b[2J\u202eevil\u200b\r\n\t\x9b31m漢字漢字漢字漢字漢字漢字👩‍👩‍👧"

HOSTILE = Picture(
    depths=Depths(
        {state: Depth(10**12 + n, is_estimate=True) for n, state in enumerate(JobState)},
        NOW,
        NOW - 10**15,
    ),
    speed=Speed(123_456_789.0, 123_456.7, 1e9, 1e9),
    history=(1e9,) * 60,
    tasks=tuple(
        TaskLine(f"{HOSTILE_TEXT}{n}", Speed(1e9, 5e8, 1e9, 1e9), 100_000, paused=("",))
        for n in range(60)
    ),
    queues=(QueueLine(HOSTILE_TEXT, 2**62, HOSTILE_TEXT, 1e9, paused=("",)),),
    running=tuple(
        RunningLine(
            2**62 + n, HOSTILE_TEXT, None, HOSTILE_TEXT, 10**6, 10**6, -1e9, number, HOSTILE_TEXT
        )
        for n, number in enumerate((float("nan"), float("inf"), -1.0, 1e300, 0.5))
    ),
    is_cut=True,
    failures=(FailureLine(2**62, HOSTILE_TEXT, Depth(1000, True), 1e9, HOSTILE_TEXT * 1000),),
    workers=(WorkerLine(HOSTILE_TEXT, 10**9, 1e9), WorkerLine("w", 1, -1e9)),
)
