"""What schedules must do under any number of worker processes, on every store."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tests.faults.kit import until
from tests.faults.schedule_kit import MINUTE, Place, instants, peak_memory, shown

START = datetime(2026, 3, 2, 10, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

SEVERAL = """
*   * * * * tick ?id=minute {name: "minute"}
*/2 * * * * tick ?id=even&queue=line {name: "even"}
*/5 * * * * tick ?id=fifth&queue=line&priority=-1&max=3 {name: "fifth"}
*   * * * * tick ?id=keyed&jobKey=only {name: "keyed"}
"""
EVERY = {"minute": 1, "even": 2, "fifth": 5}

MINUTELY = '* * * * * tick ?id=minute {name: "minute"}'

YEAR = '* * * * * bare ?id=year&fill=53w&fillmax=1000000 {name: "year"}'
YEAR_CUT = '* * * * * bare ?id=year&fill=53w {name: "year"}'
A_YEAR = timedelta(days=365)
MOST_MEMORY = 200 * 1024 * 1024


def minute_boundaries(here: Place) -> None:
    """Three workers, four schedules and a clock that goes on, runs, leaps, and goes back."""
    here.clock.set(START)
    here.start(SEVERAL, 3)
    here.until_rest()
    now = START
    for _ in range(12):
        now += MINUTE
        here.go(now)
        _check_fired(here, now)
    for _ in range(3):
        # The boundary comes while the clock runs.
        here.clock.set(now.replace(second=59, microsecond=700_000))
        now += MINUTE
        _until_fired(here, now)
    now += 7 * MINUTE
    here.go(now)
    _check_fired(here, now)
    for back in (HOUR, HOUR - MINUTE, HOUR - 3 * MINUTE, 2 * MINUTE, MINUTE, 0 * MINUTE) * 2:
        here.go(now - back)
        _check_fired(here, now)
    for _ in range(10):
        now += MINUTE
        here.go(now)
        here.go(now - MINUTE)
        _check_fired(here, now)
    here.until_done()
    assert len(here.added("minute")) == 32
    for name in (*EVERY, "keyed"):
        assert here.ticked(name) == sorted(here.added(name))
    assert not any(payload["_cron"]["backfilled"] for payload in here.payloads())
    assert here.stop() == [0, 0, 0]


def _check_fired(here: Place, now: datetime) -> None:
    """Every instant until now was fired, by one worker, and gave one job."""
    for name, every in EVERY.items():
        wanted = instants(START, now, every)
        assert here.added(name) == wanted
        assert here.won(name) == wanted
    # A job of the key that nobody took yet is replaced by the next one.
    keyed, wanted = here.added("keyed"), instants(START, now)
    assert here.won("keyed") == wanted
    assert len(set(keyed)) == len(keyed) and set(keyed) <= set(wanted) and wanted[-1] in keyed


def _until_fired(here: Place, now: datetime) -> None:
    until(
        lambda: all(
            here.won(name) == instants(START, now, EVERY.get(name, 1)) for name in (*EVERY, "keyed")
        ),
        f"the firing of {shown(now)}",
    )


def year_of_minutes(here: Place) -> None:
    """A backfill of 525,600 instants works from the start, says so, and can be interrupted."""
    begin = START - A_YEAR
    here.clock.set(begin)
    here.register(YEAR)
    here.clock.set(START)
    (worker,) = here.start(YEAR)
    until(lambda: here.app.sync.list_jobs(state="completed", limit=1), "the first completed job")
    first = here.last_fired("year")
    assert first is not None and first < START - timedelta(days=90)
    until(
        lambda: re.search("missed instants: [1-9][0-9]* of 525600 done", _log(here)),
        "a line that tells the progress",
    )
    assert peak_memory(worker.pid) < MOST_MEMORY
    assert here.stop() == [0]
    halted = _check_backfill(here, begin)
    assert first < halted < START
    here.start(YEAR)
    until(
        lambda: (here.last_fired("year") or begin) > halted + timedelta(days=1),
        "the next worker to go on",
    )
    assert here.stop() == [0]
    assert _check_backfill(here, begin) > halted


def _check_backfill(here: Place, begin: datetime) -> datetime:
    """Nothing is missing, double or out of order up to where it came; where that is."""
    last = here.last_fired("year")
    assert last is not None
    assert here.added("year") == instants(begin, last)
    assert all(payload["_cron"]["backfilled"] for payload in here.payloads())
    return last


def year_cut_by_default(here: Place) -> None:
    """Without `fillmax` the latest 1,000 instants of the year are made up for."""
    here.clock.set(START - A_YEAR)
    here.register(YEAR_CUT)
    here.clock.set(START)
    here.start(YEAR_CUT)
    here.until_rest()
    assert here.added("year") == instants(START - 1000 * MINUTE, START)
    assert "which is passed over (fillmax=1000)" in _log(here)
    assert "missed instants: 1000 of 1000 done" in _log(here)
    here.until_done()
    assert here.stop() == [0]


def _log(here: Place) -> str:
    return here.log.read_text()
