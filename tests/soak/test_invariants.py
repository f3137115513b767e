"""Each check of the ledger fails for a ledger that is wrong in just this."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

from tests.soak import invariants
from tests.soak.invariants import Books, Event, Fired

_clock = itertools.count(1)


def event(kind: str, /, **details: Any) -> Event:
    return {"event": kind, "at": float(next(_clock)), "pid": 1, **details}


def added(task: str, n: int, **details: Any) -> Event:
    return event("acknowledged", task=task, ns=[n], jobs=[n], **details)


def start(task: str, n: int, delivery: int = 1, **details: Any) -> Event:
    who = {"job": n, "n": n, "task": task, "delivery": delivery, "attempt": delivery, "key": None}
    return event("start", **{**who, **details})


def end(task: str, n: int, delivery: int = 1, how: str = "done", **details: Any) -> Event:
    return event(
        "end", **{"job": n, "n": n, "task": task, "delivery": delivery, "how": how, **details}
    )


def run(task: str, n: int, delivery: int = 1, how: str = "done", **details: Any) -> list[Event]:
    return [start(task, n, delivery, **details), end(task, n, delivery, how, **details)]


def broken(*events: Event | list[Event], fired: list[Fired] | None = None) -> list[str]:
    flat = [each for item in events for each in (item if isinstance(item, list) else [item])]
    return [line.partition(":")[0] for line in invariants.check(Books(flat), fired or [])]


def test_a_ledger_without_fault() -> None:
    assert not broken(
        [added("quick", 1), *run("quick", 1), event("success", job=1, delivery=1)],
        [added("flaky", 2), *run("flaky", 2, 1, "error"), *run("flaky", 2, 2)],
        [added("hopeless", 3), *run("hopeless", 3, 1, "error"), *run("hopeless", 3, 2, "error")],
        [added("effect", 10), *run("effect", 10), event("effects", ns=[10, -10])],
        [event("unknown", task="effect", ns=[20]), event("effects", ns=[])],
        [added("idle", 4), event("refused", task="quick", ns=[5])],
        [event("rolled back", task="later", ns=[6])],
    )


def test_a_job_that_was_lost() -> None:
    assert broken(added("quick", 1)) == ["I1"]
    assert broken(added("quick", 1), run("quick", 1, how="stopped")) == ["I1"]
    assert broken(added("hopeless", 1), run("hopeless", 1, how="error")) == ["I1"]


def test_a_request_by_key_that_was_lost() -> None:
    first = added("keyed", 1, key="a", mode="replace")
    again = added("keyed", 2, key="a", mode="replace")
    dropped = added("keyed", 3, key="a", mode="unsafe_dedupe")
    assert broken(first, again, run("keyed", 1)) == ["I1, keys"]
    assert not broken(first, again, dropped, run("keyed", 2))


def test_a_job_that_must_not_run() -> None:
    assert broken(event("rolled back", task="later", ns=[1]), run("later", 1)) == [
        "I1, rolled back"
    ]
    assert broken(run("later", 1)) == ["I1, rolled back"]
    assert broken(added("idle", 1), run("idle", 1)) == ["I1, rolled back"]
    assert broken(
        added("later", 1), added("later", 2), run("later", 1), run("later", 2, job=1)
    ) == [
        "I1, rolled back",
        "I3",
    ]


def test_a_job_that_ended_twice_or_went_on() -> None:
    once = [added("quick", 1), *run("quick", 1), event("success", job=1, delivery=1)]
    assert broken(once, event("failed", job=1, delivery=1)) == ["I2, I5"]
    assert broken(once, run("quick", 1, 2)) == ["I2, I5"]


def test_a_delivery_that_started_twice() -> None:
    assert broken(added("quick", 1), run("quick", 1), run("quick", 1)) == ["I3"]


def test_two_deliveries_at_once() -> None:
    two = [added("nap", 1), start("nap", 1), start("nap", 1, 2)]
    assert broken(two, end("nap", 1, 2)) == ["I4"]
    died = [added("nap", 1), start("nap", 1), event("killed", victim=1), *run("nap", 1, 2, pid=2)]
    assert not broken(died)


def test_two_jobs_of_a_queue_at_once() -> None:
    both = [added("in_line", 1), added("in_line", 2), start("in_line", 1, queue="line")]
    inner = run("in_line", 2, queue="line")
    assert broken(both, inner, end("in_line", 1, queue="line")) == ["I8"]


def test_effects() -> None:
    asked = [added("effect", 1), *run("effect", 1)]
    assert broken(asked) == ["I6, I7"]
    assert broken(asked, event("effects", ns=[1, 1])) == ["I6, I7"]
    parent = [added("effect", 10), *run("effect", 10)]
    assert broken(parent, event("effects", ns=[10])) == ["I6, I7"]


def test_instants() -> None:
    since, until = (datetime(2030, 1, 1, 12, minute, 30, tzinfo=UTC) for minute in (0, 2))
    minute = Fired("minute", 1, since, until)
    one, two = (f"2030-01-01T12:0{n}:00Z" for n in (1, 2))

    def tick(ts: str, job: int) -> Event:
        return event("tick", name="minute", ts=ts, job=job, delivery=1)

    assert not broken(tick(one, 1), tick(two, 2), tick(two, 2), fired=[minute])
    assert broken(tick(one, 1), fired=[minute]) == ["I9"]
    assert broken(tick(one, 1), tick(two, 2), tick(two, 3), fired=[minute]) == ["I9"]


def test_a_wrong_output() -> None:
    assert broken(event("wrong", job=1, output=None)) == ["I2, outputs"]
