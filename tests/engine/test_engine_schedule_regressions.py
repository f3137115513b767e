"""Schedules that are in each other's way, a stop in the wrong moment, a clock that comes back."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from tests.engine.schedule_kit import Heard, ScheduleBench, over_days
from windlass.engine.scheduler import ScheduleState
from windlass.errors import StoreBusyError


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


@over_days
async def test_an_idle_schedule_is_worked_out_once(bench: ScheduleBench) -> None:
    with mock.patch.object(
        ScheduleState, "rest_until_next", autospec=True, side_effect=ScheduleState.rest_until_next
    ) as worked_out:
        await bench.work("0 4 * * * t\n0 0 29 2 * u")
        await bench.until("2026-01-01T03:59")
        assert worked_out.call_count == 2
        await bench.until("2026-01-02T03:59")
        assert worked_out.call_count == 3
