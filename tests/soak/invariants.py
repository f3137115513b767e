"""What the ledger of a drained run must show; the numbers are those of the invariants of PROMISES.

I7 is seen by its effect: each chain that was started ends with one merge, and so with one row. A
job that a handler adds in its transaction must be there if and only if that was committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tests.faults import ledger
from tests.faults.schedule_kit import instants

Event = dict[str, Any]

EFFECTS = ("effect", "plain_effect", "fan_out")
THREADED = "plain_effect"
"""A function in a thread cannot be stopped: after a lost lease it may run beside its successor."""


class Fired(NamedTuple):
    """A schedule that was never paused: every instant in (since, until] must have been fired."""

    name: str
    every: int
    since: datetime
    until: datetime


class Books:
    """The ledger, sorted by what its checks look at."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.acknowledged: dict[int, Event] = {}
        self.unknown: dict[int, Event] = {}
        self.rolled_back: set[int] = set()
        self.effects: list[int] = []
        self.starts: list[Event] = []
        self.ends: list[Event] = []
        self.endings: list[Event] = []
        self.ticks: list[Event] = []
        self.killed: list[Event] = []
        self.wrong: list[Event] = []
        for event in events:
            match event["event"]:
                case "acknowledged":
                    self.acknowledged |= dict.fromkeys(event["ns"], event)
                case "unknown":
                    self.unknown |= dict.fromkeys(event["ns"], event)
                case "rolled back":
                    self.rolled_back |= set(event["ns"])
                case "effects":
                    self.effects += event["ns"]
                case "start":
                    self.starts.append(event)
                case "end":
                    self.ends.append(event)
                case "success" | "failed":
                    self.endings.append(event)
                case "tick":
                    self.ticks.append(event)
                case "killed":
                    self.killed.append(event)
                case "wrong":
                    self.wrong.append(event)

    def acknowledged_of(self, *tasks: str) -> set[int]:
        return {n for n, event in self.acknowledged.items() if event["task"] in tasks}

    @property
    def ended(self) -> int:
        """Jobs that a worker completed or failed for good, as far as it lived to tell."""
        return len(self.endings)


def check(books: Books, fired: Sequence[Fired]) -> list[str]:
    """What is broken, one line for each invariant; none where all hold."""
    broken = []
    checks: list[tuple[str, Callable[[], None]]] = [
        ("I1", lambda: check_nothing_lost(books)),
        ("I1, keys", lambda: check_keys(books)),
        ("I1, rolled back", lambda: check_nothing_invented(books)),
        ("I2, I5", lambda: check_one_ending(books)),
        ("I3", lambda: ledger.check_deliveries(books.starts)),
        ("I4", lambda: check_deliveries_apart(books)),
        ("I6, I7", lambda: check_effects(books)),
        ("I8", lambda: check_queues(books)),
        ("I9", lambda: check_schedules(books, fired)),
        ("I2, outputs", lambda: check_outputs(books)),
    ]
    for name, run in checks:
        try:
            run()
        except AssertionError as error:
            broken.append(f"{name}: {str(error)[:500]}")
    return broken


def check_nothing_lost(books: Books) -> None:
    """What was acknowledged ran to its end, or failed as often as it was to be tried."""
    done = {event["n"] for event in books.ends if event["how"] == "done"}
    failed = {event["n"] for event in books.ends if event["how"] == "error"}
    tried_twice = {event["n"] for event in books.starts if event["attempt"] >= 2}
    by_handler = ("quick", "nap", "later", "in_line", "flaky", "kept")
    lost = books.acknowledged_of(*by_handler) - done
    lost |= books.acknowledged_of("hopeless") - (failed & tried_twice)
    assert not lost, f"acknowledged and lost: {_some(books.acknowledged, lost)}"


def check_keys(books: Books) -> None:
    """The last request under a key, or a later one of unknown fate, was run: none is lost."""
    wanted: dict[str, int] = defaultdict(int)
    for n, event in books.acknowledged.items():
        if event["task"] == "keyed" and event["mode"] != "unsafe_dedupe":
            wanted[event["key"]] = max(wanted[event["key"]], n)
    asked = books.acknowledged | books.unknown
    run: dict[str, int] = defaultdict(int)
    for event in books.ends:
        if event["task"] == "keyed" and event["how"] == "done":
            key = asked[event["n"]]["key"]
            run[key] = max(run[key], event["n"])
    lost = {key: n for key, n in wanted.items() if run[key] < n}
    assert not lost, f"the last request was lost: {lost}"


def check_nothing_invented(books: Books) -> None:
    """Only what was asked for runs, each job for the request that made it."""
    begun = {event["n"]: event for event in books.starts}
    undone = books.rolled_back & begun.keys()
    assert not undone, f"rolled back, and run: {sorted(undone)[:20]}"
    asked = books.acknowledged.keys() | books.unknown.keys()
    strange = {n for n in begun if n > 0} - asked
    assert not strange, f"never asked for: {sorted(strange)[:20]}"
    idle = [event for event in books.starts if event["task"] == "idle"]
    assert not idle, f"ended by an operator, and run: {idle[:5]}"
    made: dict[int, int] = {}
    for event in {id(event): event for event in books.acknowledged.values()}.values():
        if event["task"] != "keyed":
            for n, job in zip(event["ns"], event["jobs"], strict=True):
                assert made.setdefault(job, n) == n, f"job {job} was given to two requests"
    for event in books.starts:
        wanted = made.get(event["job"])
        assert wanted in (None, event["n"]), f"{event} is not the job of {wanted}"


def check_one_ending(books: Books) -> None:
    """One settlement that ends a job is applied, and nothing of that job starts after it."""
    ended: dict[int, Event] = {}
    for event in books.endings:
        before = ended.setdefault(event["job"], event)
        assert before is event, f"ended twice: {before}, {event}"
    for event in books.starts:
        ending = ended.get(event["job"])
        if ending is not None:
            assert event["delivery"] <= ending["delivery"], f"{event} started after {ending}"
            assert event["at"] <= ending["at"], f"{event} started after {ending}"


def check_deliveries_apart(books: Books) -> None:
    """Two deliveries of a job never run at once."""
    several = {event["job"] for event in books.starts if event["delivery"] > 1}
    by_job = _sorted_by(books, "job", lambda event: event["job"] in several)
    for events in by_job.values():
        if events[0]["task"] != THREADED:
            ledger.check_one_at_a_time(events + books.killed)


def check_queues(books: Books) -> None:
    for events in _sorted_by(books, "queue", lambda event: "queue" in event).values():
        ledger.check_one_at_a_time(events + books.killed)


def check_effects(books: Books) -> None:
    """Each took effect once, and so did what it added in the same transaction."""
    own = [n for n in books.effects if n > 0]
    unknown = [n for n, event in books.unknown.items() if event["task"] in EFFECTS]
    ledger.check_produced(own, books.acknowledged_of(*EFFECTS), unknown)
    asked = books.acknowledged | books.unknown
    parents = [n for n in own if n % 10 == 0 and asked[n]["task"] == "effect"]
    ledger.check_produced([-n for n in books.effects if n < 0], parents, [])


def check_schedules(books: Books, fired: Sequence[Fired]) -> None:
    """Every instant has exactly one job, and each schedule has all its instants."""
    jobs: dict[tuple[str, str], set[int]] = defaultdict(set)
    for event in books.ticks:
        jobs[event["name"], event["ts"]].add(event["job"])
    doubled = {which: ids for which, ids in jobs.items() if len(ids) > 1}
    assert not doubled, f"fired twice: {doubled}"
    for schedule in fired:
        found = sorted(ts for name, ts in jobs if name == schedule.name)
        wanted = instants(schedule.since, schedule.until, schedule.every)
        assert found == wanted, f"{schedule.name}: fired {found}, not {wanted}"


def check_outputs(books: Books) -> None:
    """What is kept of a job is what its one delivery returned."""
    assert not books.wrong, f"kept with another output: {books.wrong[:5]}"


def _sorted_by(books: Books, field: str, wanted: Callable[[Event], bool]) -> dict[Any, list[Event]]:
    found: dict[Any, list[Event]] = defaultdict(list)
    for event in (*books.starts, *books.ends):
        if wanted(event):
            found[event[field]].append(event)
    return found


def _some(requests: dict[int, Event], ns: Iterable[int]) -> str:
    chosen = sorted(ns)
    return f"{len(chosen)}, such as {[(n, requests[n]['task']) for n in chosen[:10]]}"
