"""Schedules in a running worker: on time, once, whatever clocks and databases do."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from tests.engine.schedule_kit import (
    Firings,
    Heard,
    ScheduleBench,
    instant,
    minutes,
    over_days,
    shown,
)
from windlass import ScheduleNotFoundError
from windlass.engine import scheduler
from windlass.errors import StoreBusyError, StoreClosedError
from windlass.store.schedules import FireVerdict
from windlass.testing import FaultyStore

DAILY = "0 4 * * * t"
HOURLY = "0 * * * * t"


def messages(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    return [message for message in found if words in message]


# ── on time ──


@over_days
async def test_a_day_has_one_firing(bench: ScheduleBench) -> None:
    await bench.work(DAILY + " ?id=nightly {}")
    await bench.until("2026-01-02T00:00")
    [firing] = bench.ledger.fired
    assert firing.payload == {"_cron": {"ts": "2026-01-01T04:00:00Z", "backfilled": False}}
    due = round(instant("2026-01-01T04:00").timestamp() * 1e6)
    assert firing.job.run_at == due
    [run] = bench.runs
    assert run.run_at == due
    assert due <= run.began < due + 1_000_000, "it ran within that second"
    known = bench.ledger.known("nightly")
    assert known.last_at == known.floor_at == due


@over_days
async def test_an_instant_at_which_a_worker_starts_is_on_time(bench: ScheduleBench) -> None:
    runner = await bench.work(DAILY)
    await bench.downtime(runner, "2026-01-01T01:00", "2026-01-01T04:00")
    await bench.work(DAILY)
    await asyncio.sleep(1)
    assert bench.instants(backfilled=False) == ["2026-01-01T04:00"]


@over_days
async def test_a_time_the_clock_leaves_out_comes_after_the_gap(bench: ScheduleBench) -> None:
    """On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, which is 01:00 UTC."""
    bench.jump_to("2026-03-28T12:00")
    await bench.work("30 2 * * * t ?tz=Europe/Berlin")
    await bench.until("2026-03-30T12:00")
    assert bench.instants() == ["2026-03-29T01:00", "2026-03-30T00:30"]


@over_days
async def test_a_time_the_clock_shows_twice_comes_once(bench: ScheduleBench) -> None:
    """On 25 October 2026 the clocks of Berlin go from 03:00 to 02:00, which is 01:00 UTC."""
    bench.jump_to("2026-10-24T12:00")
    await bench.work("30 2 * * * t ?tz=Europe/Berlin\n30 * * * * u ?tz=Europe/Berlin")
    await bench.until("2026-10-25T03:00")
    assert bench.instants("t") == ["2026-10-25T00:30"]
    assert bench.instants("u")[-3:] == ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]


@over_days
async def test_far_away_schedules_cost_little(bench: ScheduleBench) -> None:
    await bench.start(crontab="0 0 29 2 * t\n0 0 1 6 * u", poll_interval=2.0)
    await asyncio.sleep(1)
    before = bench.store.calls["now"]
    await asyncio.sleep(3_600)
    looks = bench.store.calls["now"] - before
    assert 359 <= looks <= 361, "the clock is looked at every five polls"
    assert bench.store.calls["fire"] == 0
    assert bench.store.calls["register"] == 1


@over_days
async def test_an_idle_schedule_is_worked_out_once(bench: ScheduleBench) -> None:
    with mock.patch.object(
        scheduler.ScheduleState,
        "rest_until_next",
        autospec=True,
        side_effect=scheduler.ScheduleState.rest_until_next,
    ) as worked_out:
        await bench.work("0 4 * * * t\n0 0 29 2 * u")
        await bench.until("2026-01-01T03:59")
        assert worked_out.call_count == 2
        await bench.until("2026-01-02T03:59")
        assert worked_out.call_count == 3


@over_days
async def test_a_schedule_that_never_comes_again_rests(bench: ScheduleBench) -> None:
    bench.jump_to("9999-12-29T23:00")
    await bench.work("0 0 1 1 * t\n")
    await asyncio.sleep(3_600)
    assert bench.ledger.fired == []
    assert bench.store.calls["now"] < 20


# ── the wall clock is set ──


@over_days
async def test_jumps_around_an_instant_fire_it_once(bench: ScheduleBench) -> None:
    await bench.work(DAILY)
    for _ in range(20):
        bench.jump_to("2026-01-01T03:59:30")
        await asyncio.sleep(20)
        bench.jump_to("2026-01-01T04:00:30")
        await asyncio.sleep(400)
    assert bench.instants() == ["2026-01-01T04:00"]
    assert len(bench.runs) == 1
    bench.jump_to("2026-01-01T03:59:30")
    await asyncio.sleep(3_600)  # and it passes 04:00 once more by itself
    assert bench.instants() == ["2026-01-01T04:00"]


@over_days
async def test_jumps_before_an_instant_fire_nothing(bench: ScheduleBench) -> None:
    await bench.work(DAILY)
    for _ in range(10):
        bench.jump_to("2026-01-01T03:58:30")
        await asyncio.sleep(20)
        bench.jump_to("2026-01-01T03:59:10")
        await asyncio.sleep(49)
    assert bench.ledger.fired == []
    await bench.until("2026-01-01T04:00:01")
    assert bench.instants() == ["2026-01-01T04:00"]


@over_days
async def test_a_jump_over_instants_is_caught_up_with(bench: ScheduleBench) -> None:
    await bench.work(HOURLY)
    await bench.until("2026-01-01T00:30")
    bench.jump_to("2026-01-01T05:30")
    await bench.until("2026-01-01T07:30")
    assert bench.instants() == [f"2026-01-01T0{hour}:00" for hour in range(1, 8)]
    assert bench.instants(backfilled=True) == []
    assert len(bench.runs) == 7
    assert bench.ledger.batches_fired[0] == ("t", 5), "at once"


@over_days
async def test_a_jump_over_years_fires_the_latest(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    await bench.work("0 * * * * t ?fillmax=3\n0 0 * * * u")
    await bench.until("2026-01-01T00:30")
    bench.jump_to("2036-01-01T00:30")
    await bench.until("2036-01-01T02:30")
    assert bench.instants("t") == [
        "2035-12-31T22:00",
        "2035-12-31T23:00",
        "2036-01-01T00:00",
        "2036-01-01T01:00",
        "2036-01-01T02:00",
    ]
    days = bench.instants("u")
    assert len(days) == 1_000
    assert days[-1] == "2036-01-01T00:00"
    assert days == [
        shown(instant("2036-01-01T00:00") - timedelta(days=n)) for n in reversed(range(1_000))
    ]
    assert bench.instants("u", backfilled=True) == []
    told = messages(caplog, "passed over")
    assert len(told) == 2, "once each"
    assert told[0].endswith(
        "from 2035-12-31 22:00 UTC; what came before is passed over (fillmax=3)"
    )


@over_days
async def test_a_jump_back_is_waited_out(bench: ScheduleBench) -> None:
    await bench.work("*/10 * * * * t\n* * * * * u")
    await bench.until("2026-01-01T02:35:30")
    fired = bench.instants()
    assert fired[-1] == "2026-01-01T02:30"
    bench.jump_to("2026-01-01T01:35:30")
    before = bench.store.calls.copy()
    await bench.until("2026-01-01T02:35:30")
    assert bench.instants() == fired, "silent until new instants come"
    calls = bench.store.calls - before
    assert calls["fire"] == 0
    assert calls["now"] <= 15, "and at rest: one look in 300 s"
    await bench.until("2026-01-01T02:55")
    assert bench.instants() == [*fired, "2026-01-01T02:40", "2026-01-01T02:50"]


@over_days
async def test_a_clock_set_back_in_the_middle_of_catch_up(
    bench: ScheduleBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been due, and is no more, waits until it is due again."""
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", 1)
    await bench.work(HOURLY)
    await bench.until("2026-01-01T00:30")
    bench.ledger.slowness = 10.0
    bench.jump_to("2026-01-01T06:30")
    while not bench.ledger.fired:
        await asyncio.sleep(1)
    bench.jump_to("2026-01-01T02:30")
    await asyncio.sleep(600)
    assert bench.instants() == ["2026-01-01T01:00", "2026-01-01T02:00"]
    assert ("t", FireVerdict.EARLY) not in {(name, v) for name, _, v in bench.ledger.tries[3:]}
    await bench.until("2026-01-01T07:30")
    assert bench.instants() == [f"2026-01-01T0{hour}:00" for hour in range(1, 8)]
    assert bench.instants(backfilled=True) == []


@over_days
async def test_what_was_passed_over_stays_so_when_the_clock_comes_to_it_again(
    bench: ScheduleBench,
) -> None:
    runner = await bench.work("0 * * * * t")
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T20:30")
    await bench.work("0 * * * * t")
    await asyncio.sleep(60)
    bench.jump_to("2026-01-01T10:30")
    await asyncio.sleep(600)
    bench.jump_to("2026-01-01T20:40")
    await asyncio.sleep(600)
    assert bench.instants() == []
    await bench.until("2026-01-01T21:10")
    assert bench.instants() == ["2026-01-01T21:00"]


@over_days
async def test_a_firing_that_comes_too_early_by_the_databases_clock_waits(
    bench: ScheduleBench,
) -> None:
    """The clock is set back after it was read and before the firing."""
    await bench.work(HOURLY)
    await bench.until("2026-01-01T00:59:59")
    bench.ledger.slowness = 1.0
    await asyncio.sleep(1.5)
    bench.jump_to("2026-01-01T00:59:00")
    await asyncio.sleep(1)
    assert [verdict for _, _, verdict in bench.ledger.tries] == [FireVerdict.EARLY]
    await bench.until("2026-01-01T01:05")
    assert bench.instants() == ["2026-01-01T01:00"]


@over_days
async def test_a_start_after_the_clock_was_set_back_is_told(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    runner = await bench.work(HOURLY + " ?fill=1d")
    await bench.downtime(runner, "2026-01-01T06:30", "2026-01-01T06:40")
    bench.jump_to("2026-01-01T03:30")
    before = bench.store.calls.copy()
    await bench.work(HOURLY + " ?fill=1d")
    await asyncio.sleep(1)
    [told] = messages(caplog, "set back")
    assert "schedule t is dealt with until 2026-01-01 06:00 UTC" in told
    await bench.until("2026-01-01T07:10")
    assert bench.instants() == [f"2026-01-01T0{hour}:00" for hour in range(1, 8)]
    assert (bench.store.calls - before)["now"] < 60


# ── faults of the database ──


@pytest.mark.parametrize("verb", ["register", "now", "fire"])
@pytest.mark.parametrize("kind", ["before", "after", "busy"])
@over_days
async def test_one_failure_costs_nothing(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture, verb: str, kind: Any
) -> None:
    bench.store.fail_next(verb, kind, times=3)
    await bench.work("*/10 * * * * t\n0 * * * * u")
    await bench.until("2026-01-01T00:55")
    for each in ("now", "fire"):
        bench.store.fail_next(each, kind, times=2)
    await bench.until("2026-01-01T02:05")
    every = [shown(at) for at in minutes("2026-01-01T00:00", "2026-01-01T02:05")]
    assert bench.instants("t") == [at for at in every if at.endswith("0")]
    assert bench.instants("u") == ["2026-01-01T01:00", "2026-01-01T02:00"]
    assert bench.instants(backfilled=True) == []
    assert messages(caplog, "could not be fired") == [], "no schedule is to blame"


@pytest.mark.parametrize("seed", range(4))
@over_days
async def test_chance_failures_neither_skip_nor_double(bench: ScheduleBench, seed: int) -> None:
    verbs = ("register", "now", "fire")
    bench.use(
        FaultyStore(Firings(bench.clock), seed, rate=0.3, verbs=verbs, unknown=("register", "fire"))
    )
    bench.store.fail_next("register", "after")
    crontab = "*/7 * * * * t ?fill=1d\n*/10 * * * * u\n0 * * * * v"
    runners = [await bench.work(crontab, bench.new_app()) for _ in range(2)]
    await bench.until("2026-01-01T06:01")
    for runner in runners:
        assert runner.worker.error is None
        assert not runner.worker.done.is_set()
    every = list(minutes("2026-01-01T00:00", "2026-01-01T06:00"))
    assert bench.instants("t") == [shown(at) for at in every if at.minute % 7 == 0]
    assert bench.instants("u") == [shown(at) for at in every if at.minute % 10 == 0]
    assert bench.instants("v") == [shown(at) for at in every if at.minute == 0]
    assert {fault.split("#")[0] for fault in bench.store.faults} == set(verbs)
    assert {fault.split()[-1] for fault in bench.store.faults} == {"before", "after"}
    assert len(bench.runs) == len(bench.ledger.fired)


@over_days
async def test_an_outage_is_caught_up_with_and_told_once(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    await bench.work("* * * * * t")
    await bench.until("2026-01-01T00:05:30")
    bench.store.is_down = True
    await asyncio.sleep(600)
    before = bench.instants()
    bench.store.is_down = False
    await bench.until("2026-01-01T00:17:30")
    assert bench.instants() == [f"2026-01-01T00:{n:02}" for n in range(1, 18)]
    assert before == bench.instants()[:5]
    assert bench.instants(backfilled=True) == []
    assert len(messages(caplog, "the database does not answer")) == 1
    assert len(messages(caplog, "the database answers again")) == 1
    assert messages(caplog, "could not be fired") == []


@pytest.mark.parametrize("kind", ["before", "after"])
@over_days
async def test_an_outage_at_the_start_is_not_downtime(bench: ScheduleBench, kind: Any) -> None:
    """The worker runs from 03:59:59 on; that the database answers later makes 04:00 late."""
    runner = await bench.work(DAILY)
    await bench.downtime(runner, "2026-01-01T01:00", "2026-01-01T03:59:59.950")
    bench.store.fail_next("register", kind)
    await bench.work(DAILY)
    await asyncio.sleep(60)
    assert bench.instants(backfilled=False) == ["2026-01-01T04:00"]


@over_days
async def test_a_new_identifier_whose_answer_was_lost_is_known_from_then(
    bench: ScheduleBench,
) -> None:
    await bench.until("2026-01-01T03:59:59.950")
    bench.store.fail_next("register", "after")
    await bench.work(DAILY + " ?fill=1d")
    await asyncio.sleep(60)
    assert bench.instants(backfilled=False) == ["2026-01-01T04:00"]


@over_days
async def test_a_closed_store_ends_the_worker(bench: ScheduleBench) -> None:
    runner = await bench.work(HOURLY)
    bench.ledger.broken["t"] = StoreClosedError("the store is closed")
    with pytest.raises(StoreClosedError):
        await runner.wait()
    assert len(bench.ledger.tries) == 1
    bench._runners.clear()


@over_days
async def test_a_worker_that_ends_fires_what_is_due(bench: ScheduleBench) -> None:
    """Recycling comes with the first jobs of a burst, and the next worker would pass it over."""
    crontab = "".join(f"0 4 * * * t ?id=s{number}\n" for number in range(30))
    runner = await bench.work(crontab, max_jobs=1)
    bench.ledger.slowness = 0.01
    await runner.wait()
    assert sorted(firing.identifier for firing in bench.ledger.fired) == sorted(
        f"s{number}" for number in range(30)
    )
    assert {firing.at for firing in bench.ledger.fired} == {"2026-01-01T04:00"}


# ── faults of one schedule ──


@over_days
async def test_a_broken_schedule_hurts_nobody_else(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard(bench.app.events)
    bench.ledger.broken["t"] = ValueError("broken on purpose")
    runner = await bench.work("* * * * * t\n* * * * * u", poll_interval=2.0)
    await bench.until("2026-01-01T00:10:30")
    assert not runner.worker.done.is_set()
    assert bench.instants("u") == [f"2026-01-01T00:{n:02}" for n in range(1, 11)]
    assert bench.instants("t") == []

    times = [when for name, when, _ in bench.ledger.tries if name == "t"]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert [round(pause) for pause in pauses[:6]] == [1, 2, 4, 8, 16, 32]
    assert {round(pause) for pause in pauses[6:]} == {60}
    errors = heard.of("cron:error", "t")
    assert len(errors) == len(times) > 10
    assert all(told["error"] is bench.ledger.broken["t"] for told in errors)
    assert errors[0]["worker"] is runner.worker
    assert heard.of("cron:error", "u") == []
    told = messages(caplog, "schedule t could not be fired")
    assert len(told) == len(times)
    assert told[0].endswith("again in 1 s: broken on purpose")

    bench.ledger.broken.clear()
    await bench.until("2026-01-01T00:12:30")
    assert bench.instants("t") == [f"2026-01-01T00:{n:02}" for n in range(1, 13)]
    assert bench.instants("t", backfilled=True) == []


@over_days
async def test_a_schedule_that_has_to_wait_holds_up_no_other(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard(bench.app.events)
    for blocked in ("a", "b", "c"):
        bench.ledger.broken[blocked] = StoreBusyError("an open transaction holds the job")
    crontab = "".join(f"* * * * * u ?id={name}&jobKey={name}\n" for name in "abc")
    await bench.work(crontab + "* * * * * t")
    await bench.until("2026-01-01T00:30:30")
    assert bench.instants() == [f"2026-01-01T00:{minute:02}" for minute in range(1, 31)]
    late = [run.began - run.run_at for run in bench.runs]
    assert max(late) == 0, "not even the first had to wait for those that are blocked"
    assert heard.of("cron:error") == [], "nothing is wrong with them"
    told = [record.getMessage() for record in caplog.records if "has to wait" in record.message]
    assert len(told) == 3
    bench.ledger.broken.clear()
    await bench.until("2026-01-01T00:31:30")
    assert bench.instants("b") == [f"2026-01-01T00:{minute:02}" for minute in range(1, 32)]


@over_days
async def test_pauses_begin_small_again_after_a_success(bench: ScheduleBench) -> None:
    await bench.work("* * * * * t", poll_interval=2.0)
    for minute in (1, 3):
        bench.ledger.broken["t"] = ValueError("broken on purpose")
        await bench.until(f"2026-01-01T00:0{minute}:05")
        bench.ledger.broken.clear()
        await bench.until(f"2026-01-01T00:0{minute + 1}:30")
    times = [when for _, when, verdict in bench.ledger.tries if verdict is None]
    assert [round(when % 60) for when in times] == [0, 1, 3, 0, 1, 3]
    assert bench.instants() == [f"2026-01-01T00:0{n}" for n in range(1, 5)]


# ── at run time ──


@over_days
async def test_a_removed_schedule_is_dropped(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.work("0 * * * * t\n0 * * * * u")
    await bench.until("2026-01-01T01:30")
    removed = await bench.app.client.remove_schedule("t")
    assert removed.id == "t"
    await bench.until("2026-01-01T04:30")
    assert bench.instants("t") == ["2026-01-01T01:00"]
    assert bench.instants("u") == [f"2026-01-01T0{hour}:00" for hour in range(1, 5)]
    assert len(messages(caplog, "schedule t was removed")) == 1
    with pytest.raises(ScheduleNotFoundError):
        await bench.app.client.remove_schedule("t")

    await bench.work("0 * * * * t", bench.new_app())
    await bench.until("2026-01-01T06:30")
    assert bench.instants("t")[1:] == ["2026-01-01T05:00", "2026-01-01T06:00"], "known anew"


@over_days
async def test_when_all_are_removed_the_worker_rests(bench: ScheduleBench) -> None:
    runner = await bench.work("0 * * * * t\n0 * * * * u")
    await bench.until("2026-01-01T00:30")
    for name in ("t", "u"):
        await bench.app.client.remove_schedule(name)
    await bench.until("2026-01-01T01:30")
    before = bench.store.calls["now"]
    await bench.until("2026-01-01T04:30")
    assert bench.store.calls["now"] == before
    assert bench.ledger.fired == []
    assert not runner.worker.done.is_set(), "it still runs jobs"


@over_days
async def test_what_comes_while_paused_is_passed_over(bench: ScheduleBench) -> None:
    client = bench.app.client
    await bench.work("0 * * * * t ?fill=1d\n0 * * * * u")
    await bench.work("0 * * * * t ?fill=1d\n0 * * * * u", bench.new_app())
    await bench.until("2026-01-01T01:30")
    paused = await client.pause_schedule("t")
    assert paused.paused_at == instant("2026-01-01T01:30")
    assert paused.next_at is None
    await bench.until("2026-01-01T04:30")
    resumed = await client.resume_schedule("t")
    assert resumed.paused_at is None
    assert resumed.next_at == instant("2026-01-01T05:00")
    await bench.until("2026-01-01T06:30")
    assert bench.instants("t") == ["2026-01-01T01:00", "2026-01-01T05:00", "2026-01-01T06:00"]
    assert bench.instants("u") == [f"2026-01-01T0{hour}:00" for hour in range(1, 7)]


@over_days
async def test_a_pause_between_two_instants_changes_nothing(bench: ScheduleBench) -> None:
    await bench.work(HOURLY)
    for at in ("2026-01-01T01:10", "2026-01-01T02:10"):
        await bench.until(at)
        await bench.app.client.pause_schedule("t")
        await asyncio.sleep(600)
        await bench.app.client.resume_schedule("t")
    await bench.until("2026-01-01T03:10")
    assert bench.instants() == [f"2026-01-01T0{hour}:00" for hour in range(1, 4)]


@over_days
async def test_a_pause_is_remembered_by_workers_to_come(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    crontab = "0 * * * * t ?fill=1d"
    runner = await bench.work(crontab)
    await bench.until("2026-01-01T01:30")
    await bench.app.client.pause_schedule("t")
    await bench.downtime(runner, "2026-01-01T01:40", "2026-01-01T03:30")
    heard = Heard(bench.app.events)
    await bench.work(crontab)
    await bench.until("2026-01-01T05:30")
    assert bench.instants() == ["2026-01-01T01:00"]
    assert heard.of("cron:backfill") == [], "nothing is made up for, so nothing is told"
    assert messages(caplog, "makes up") == []
    assert len(messages(caplog, "schedule t is paused")) == 1
    await bench.app.client.resume_schedule("t")
    await bench.until("2026-01-01T06:30")
    assert bench.instants() == ["2026-01-01T01:00", "2026-01-01T06:00"], "nothing is made up for"


@over_days
async def test_a_pause_in_the_middle_of_a_backfill_ends_it(
    bench: ScheduleBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", 1)
    crontab = "0 * * * * t ?fill=1d"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T05:30")
    bench.ledger.slowness = 10.0
    await bench.work(crontab)
    await asyncio.sleep(15)
    await bench.app.client.pause_schedule("t")
    await asyncio.sleep(100)
    await bench.app.client.resume_schedule("t")
    await bench.until("2026-01-01T06:30")
    assert bench.instants() == ["2026-01-01T01:00", "2026-01-01T06:00"]


@over_days
async def test_trigger_adds_a_job_now_paused_or_not(bench: ScheduleBench) -> None:
    client = bench.app.client
    await bench.work("0 * * * * t ?priority=7")
    await bench.until("2026-01-01T00:30")
    job = await client.trigger_schedule("t")
    assert job.task == "t"
    assert job.priority == 7
    await client.pause_schedule("t")
    await client.trigger_schedule("t")
    await bench.until("2026-01-01T00:40")
    assert [run.ts for run in bench.runs] == ["2026-01-01T00:30:00Z"] * 2
    assert not any(run.backfilled for run in bench.runs)
    await client.resume_schedule("t")
    await bench.until("2026-01-01T01:30")
    assert bench.instants() == ["2026-01-01T01:00"], "its own instants stay as they are"


# ── what people are told ──


@over_days
async def test_events_of_a_start_and_a_backfill(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", 2)
    caplog.set_level("INFO", logger="windlass")
    crontab = "*/10 * * * * t ?fill=1d\n0 0 * * * u"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:05", "2026-01-01T01:15")
    caplog.clear()
    bench.ledger.slowness = 3.0
    heard = Heard(bench.app.events)
    runner = await bench.work(crontab)
    await bench.until("2026-01-01T01:25")

    [started] = heard.of("cron:started")
    assert started["worker"] is runner.worker
    assert [schedule.identifier for schedule in started["schedules"]] == ["t", "u"]
    assert heard.all[0][0] == "cron:backfill", "what will be made up for is told first"

    # Four batches of 3 s each; at most one word in 5 s, and one at the end.
    progress = heard.of("cron:backfill", "t")
    assert [(told["done"], told["total"]) for told in progress] == [(0, 7), (4, 7), (7, 7)]
    lines = messages(caplog, "schedule t makes up for missed instants")
    assert len(lines) == 3
    assert "0 of 7" in lines[0]
    assert lines[-1].endswith("7 of 7 done")

    fired = heard.of("cron:scheduled", "t")
    assert [len(told["instants"]) for told in fired] == [2, 2, 2, 1, 1]
    assert [told["backfilled"] for told in fired] == [True] * 4 + [False]
    assert [shown(at) for told in fired for at in told["instants"]] == bench.instants()
    assert heard.of("cron:error") == []


@over_days
async def test_a_normal_day_is_a_line_for_each_instant(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    heard = Heard(bench.app.events)
    await bench.work(HOURLY)
    await bench.until("2026-01-01T05:30")
    told = messages(caplog, "schedule ")
    assert told == [f"schedule t fired for 2026-01-01 0{hour}:00 UTC" for hour in range(1, 6)]
    assert heard.of("cron:backfill") == []
    assert [len(told["instants"]) for told in heard.of("cron:scheduled")] == [1] * 5


@over_days
async def test_a_long_catch_up_shows_progress(bench: ScheduleBench) -> None:
    heard = Heard(bench.app.events)
    await bench.work("* * * * * t")
    await bench.until("2026-01-01T00:00:30")
    bench.jump_to("2026-01-01T13:20:30")  # 800 minutes later: two batches
    await asyncio.sleep(40)
    assert len(bench.instants()) == 801
    assert bench.instants(backfilled=True) == []
    progress = heard.of("cron:backfill")
    assert [(told["done"], told["total"]) for told in progress] == [(500, 801), (801, 801)]


@over_days
async def test_large_payloads_make_small_batches(bench: ScheduleBench) -> None:
    app = bench.new_app()

    @app.task
    async def large(text: str) -> None:
        pass

    item = "* * * * * large {text: '" + "x" * 100_000 + "'}"
    await bench.work(item, app)
    await bench.until("2026-01-01T00:00:30")
    bench.jump_to("2026-01-01T01:40:30")
    await asyncio.sleep(301)
    sizes = [size for _, size in bench.ledger.batches_fired]
    assert max(sizes) <= scheduler.MOST_TEXT // 100_000
    assert sum(sizes) >= 100
    assert bench.instants("large") == sorted(set(bench.instants("large")))


@over_days
async def test_a_listener_that_raises_hurts_nobody(bench: ScheduleBench) -> None:
    def listener(**details: Any) -> None:
        raise RuntimeError("a listener's own error")

    for name in ("cron:started", "cron:scheduled"):
        bench.app.events.on(name, listener)
    await bench.work(HOURLY)
    await bench.until("2026-01-01T03:30")
    assert bench.instants() == [f"2026-01-01T0{hour}:00" for hour in range(1, 4)]


@over_days
async def test_once_fires_nothing(bench: ScheduleBench) -> None:
    runner = await bench.work(HOURLY)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T02:00")
    await bench.app.run_once(crontab=HOURLY + " ?fill=1d")
    assert bench.ledger.fired == []
    assert bench.store.calls["register"] == 1
