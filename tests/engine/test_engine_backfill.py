"""What comes while no worker runs, and after: backfill, catch-up, and who gets which instant."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.engine.engine_kit import wait_until
from tests.engine.schedule_kit import (
    Heard,
    ScheduleBench,
    instant,
    minutes,
    over_days,
    shown,
)
from windlass.engine import scheduler
from windlass.store.schedules import FireVerdict

FOUR_HOURLY = "0 */4 * * * t ?fill=1d"


def four_hourly(down: str, up: str) -> list[str]:
    """What `fill=1d` makes up for, minute by minute: later than where the schedule was when the
    worker went down, before the new one started, and not older than a day by then."""
    return [
        shown(at)
        for at in minutes(down, up)
        if at.minute == 0
        and at.hour % 4 == 0
        and instant(up) - timedelta(days=1) <= at < instant(up)
    ]


@pytest.mark.parametrize(
    ("down", "up", "count"),
    [
        # 5 hours: one or two instants, by the phase
        ("2026-01-01T00:30", "2026-01-01T05:30", 1),
        ("2026-01-01T03:59", "2026-01-01T08:59", 2),
        ("2026-01-01T04:01", "2026-01-01T09:01", 1),
        ("2026-01-01T03:30", "2026-01-01T08:30", 2),
        ("2026-01-01T03:00", "2026-01-01T08:00", 1),  # 08:00 itself is on time
        # 25 hours: six, whatever the phase; what is older than a day is passed over
        ("2026-01-01T00:30", "2026-01-02T01:30", 6),
        ("2026-01-01T03:30", "2026-01-02T04:30", 6),
        ("2026-01-01T03:59", "2026-01-02T04:59", 6),
        ("2026-01-01T04:01", "2026-01-02T05:01", 6),
        ("2026-01-01T03:00", "2026-01-02T04:00", 6),  # exactly a day old still counts
        # nothing was missed
        ("2026-01-01T00:30", "2026-01-01T03:30", 0),
    ],
)
@over_days
async def test_backfill_gives_what_was_missed(
    bench: ScheduleBench, down: str, up: str, count: int
) -> None:
    runner = await bench.work(FOUR_HOURLY)
    await bench.downtime(runner, down, up)
    before = bench.instants()
    assert before == [at for at in ["2026-01-01T04:00"] if at <= down], "it fired while it ran"
    await bench.work(FOUR_HOURLY)
    await bench.until(shown(instant(up) + timedelta(minutes=1)))
    made_up = bench.instants(backfilled=True)
    assert made_up == four_hourly(down, up), "in order"
    assert len(made_up) == count
    on_time = bench.instants(backfilled=False)[len(before) :]
    assert on_time == ([up] if up.endswith(("T04:00", "T08:00")) else [])
    assert bench.instants() == before + made_up + on_time
    assert sorted(run.ts[:16] for run in bench.runs) == bench.instants(), "and each has run once"
    assert [run.backfilled for run in bench.runs].count(True) == count


@over_days
async def test_a_new_identifier_is_not_backfilled(bench: ScheduleBench) -> None:
    await bench.until("2026-01-05T12:30")
    await bench.work("0 */4 * * * t ?fill=4w")
    await bench.until("2026-01-05T16:30")
    assert bench.instants() == ["2026-01-05T16:00"]
    assert bench.instants(backfilled=True) == []


@over_days
async def test_an_instant_at_which_it_becomes_known_is_not_its_own(bench: ScheduleBench) -> None:
    await bench.until("2026-01-05T12:00")
    await bench.work(FOUR_HOURLY)
    await bench.until("2026-01-05T16:01")
    assert bench.instants() == ["2026-01-05T16:00"]


@over_days
async def test_without_fill_nothing_is_made_up_for(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    crontab = "0 */4 * * * t"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-02T01:30")
    await bench.work(crontab)
    await bench.until("2026-01-02T04:30")
    assert bench.instants() == ["2026-01-02T04:00"]
    assert bench.instants(backfilled=True) == []
    told = [record.getMessage() for record in caplog.records if "passed over" in record.message]
    assert len(told) == 1
    assert "schedule t was due from 2026-01-01 04:00 UTC to 2026-01-02 00:00 UTC" in told[0]
    assert "fill=" in told[0]


@over_days
async def test_nothing_is_made_up_for_from_before_it_was_known(bench: ScheduleBench) -> None:
    await bench.until("2026-01-03T03:30")
    runner = await bench.work(FOUR_HOURLY)  # known for an hour when the next one starts
    await bench.downtime(runner, "2026-01-03T03:40", "2026-01-03T04:30")
    await bench.work(FOUR_HOURLY)
    await bench.until("2026-01-03T04:40")
    assert bench.instants() == bench.instants(backfilled=True) == ["2026-01-03T04:00"]


@over_days
async def test_fillmax_keeps_the_latest(
    bench: ScheduleBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    crontab = FOUR_HOURLY + "&fillmax=2"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T22:30")
    await bench.work(crontab)
    await bench.until("2026-01-02T00:30")
    assert bench.instants(backfilled=True) == ["2026-01-01T16:00", "2026-01-01T20:00"]
    assert bench.instants() == ["2026-01-01T16:00", "2026-01-01T20:00", "2026-01-02T00:00"]
    told = [record.getMessage() for record in caplog.records if "passed over" in record.message]
    assert len(told) == 1
    assert "from 2026-01-01 04:00 UTC to 2026-01-01 12:00 UTC" in told[0]
    assert "fillmax=2" in told[0]


@pytest.mark.parametrize("size", [1, 2, 3])
@over_days
async def test_a_restart_in_the_middle_neither_skips_nor_doubles(
    bench: ScheduleBench, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", size)
    crontab = "*/10 * * * * t ?fill=1d"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:05", "2026-01-01T02:05")
    bench.ledger.slowness = 1.0
    for restart in range(1, 4):
        runner = await bench.work(crontab)
        await wait_until(lambda: len(bench.ledger.batches_fired) == restart)  # noqa: B023
        await runner.stop()
        assert len(bench.ledger.fired) == restart * size, "stopped after one batch"
    bench.ledger.slowness = 0.0
    await bench.work(crontab)
    await bench.until("2026-01-01T02:15")
    expected = [shown(at) for at in minutes("2026-01-01T00:05", "2026-01-01T02:10")]
    assert bench.instants() == [at for at in expected if at.endswith("0")]
    assert bench.instants(backfilled=False) == ["2026-01-01T02:10"]
    assert {count for _, count in bench.ledger.batches_fired} <= set(range(1, size + 1))


@over_days
async def test_a_stop_during_a_firing_is_settled_by_the_next_worker(bench: ScheduleBench) -> None:
    """The firing under way is cancelled before it did anything."""
    runner = await bench.work(FOUR_HOURLY)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T05:30")
    bench.ledger.slowness = 1e6
    runner = await bench.work(FOUR_HOURLY)
    await asyncio.sleep(10)
    await runner.stop()
    assert bench.ledger.fired == []
    bench.ledger.slowness = 0.0
    await bench.work(FOUR_HOURLY)
    await asyncio.sleep(1)
    assert bench.instants(backfilled=True) == ["2026-01-01T04:00"]


@over_days
async def test_late_after_the_start_is_catch_up(bench: ScheduleBench) -> None:
    runner = await bench.work(FOUR_HOURLY)
    await bench.downtime(runner, "2026-01-01T00:30", "2026-01-01T03:30")
    await bench.work(FOUR_HOURLY)
    await asyncio.sleep(1)
    bench.jump_to("2026-01-01T12:30")
    await asyncio.sleep(400)
    assert bench.instants(backfilled=False) == [
        "2026-01-01T04:00",
        "2026-01-01T08:00",
        "2026-01-01T12:00",
    ]
    assert bench.instants(backfilled=True) == []


@over_days
async def test_an_instant_during_the_backfill_is_on_time(
    bench: ScheduleBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", 1)
    crontab = "*/10 * * * * t ?fill=1d"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:05", "2026-01-01T00:55")
    bench.ledger.slowness = 200.0  # five batches take longer than until 01:00 and 01:10
    await bench.work(crontab)
    await bench.until("2026-01-01T01:45")
    assert bench.instants(backfilled=True) == [f"2026-01-01T00:{n}0" for n in range(1, 6)]
    assert bench.instants(backfilled=False)[:2] == ["2026-01-01T01:00", "2026-01-01T01:10"]
    assert bench.instants() == sorted(set(bench.instants()))


@pytest.mark.parametrize("workers", [2, 3])
@over_days
async def test_workers_with_one_crontab_fire_each_instant_once(
    bench: ScheduleBench, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(scheduler, "MOST_AT_ONCE", 2)
    crontab = "*/10 * * * * t ?fill=1d\n0 * * * * u"
    runner = await bench.work(crontab)
    await bench.downtime(runner, "2026-01-01T00:05", "2026-01-01T04:05")
    bench.ledger.slowness = 0.001  # so that they are in it at the same time
    for _ in range(workers):
        await bench.work(crontab, bench.new_app())
    await bench.until("2026-01-01T08:05")
    every = [shown(at) for at in minutes("2026-01-01T00:05", "2026-01-01T08:05")]
    assert bench.instants("t") == [at for at in every if at.endswith("0")]
    assert bench.instants("u") == [f"2026-01-01T0{hour}:00" for hour in range(5, 9)]
    assert all(at < "2026-01-01T04:05" for at in bench.instants(backfilled=True))
    lost = [verdict for _, _, verdict in bench.ledger.tries if verdict is FireVerdict.LOST]
    assert lost, "they did meet"
    assert len(bench.runs) == len(bench.ledger.fired), "and every job ran once"


@over_days
async def test_a_shared_identifier_gives_each_instant_at_most_once(bench: ScheduleBench) -> None:
    await bench.work("0 * * * * t ?id=shared")
    await bench.work("0,30 * * * * u ?id=shared", bench.new_app())
    await bench.work("*/20 * * * * v ?id=shared", bench.new_app())
    await bench.until("2026-01-01T06:10")
    fired = bench.instants("shared")
    assert fired == sorted(set(fired)), "in order, none twice"
    every = [shown(at) for at in minutes("2026-01-01T00:00", "2026-01-01T06:10")]
    assert fired == [at for at in every if at.endswith(("00", "20", "30", "40"))]


@over_days
async def test_a_long_backfill_shares_the_worker(bench: ScheduleBench) -> None:
    """A year of minutes, of which 5,000 are wanted, while another schedule goes on."""
    crontab = "* * * * * t ?fill=60w&fillmax=5000\n*/5 * * * * u"
    runner = await bench.work(crontab)
    await runner.stop()
    bench.ledger.set_floor("t", "2025-01-01T00:00")
    before = bench.clock.elapsed
    bench.ledger.slowness = 60.0
    heard = Heard(bench.app.events)
    await bench.work(crontab, concurrency=100)
    await wait_until(lambda: len(bench.ledger.batches_fired) == 1, pause=1)
    assert bench.clock.elapsed - before <= 61, "its first batch is the first thing that is done"
    await bench.until("2026-01-01T00:31")
    assert {size for name, size in bench.ledger.batches_fired if name == "t"} - set(
        range(1, 60)
    ) == {scheduler.MOST_AT_ONCE}
    made_up = bench.instants(backfilled=True)
    assert len(made_up) == 5_000
    last = instant("2025-12-31T23:59")
    assert made_up == [shown(last - timedelta(minutes=n)) for n in reversed(range(5_000))]
    order = [name for name, _ in bench.ledger.batches_fired]
    done = [n for n, (name, _) in enumerate(bench.ledger.batches_fired) if name == "t"][9]
    assert "u" in order[:done], "others get their turn between the batches"
    progress = heard.of("cron:backfill", "t")
    assert [told["total"] for told in progress] == [5_000] * len(progress)
    assert [told["done"] for told in progress] == [500 * n for n in range(11)]
