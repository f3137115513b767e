"""Schedules under worker processes over PostgreSQL: each instant once, whoever dies."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults import schedule_kit
from tests.faults import schedule_scenarios as scenarios
from tests.faults.kit import until
from tests.faults.schedule_kit import MINUTE, closing, instants, shown
from tests.faults.schedule_scenarios import MINUTELY, START
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.faults.kit import check_server_log

pytestmark = pytest.mark.rig

GATE = 4711
HOLD_COMMITS = f"""
CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared({GATE});
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pass_gate AFTER UPDATE ON windlass._schedules
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (OLD.floor_at <> NEW.floor_at) EXECUTE FUNCTION pass_gate();
"""


class Place(schedule_kit.Place):
    """Its workers' connections tell the worker by their application_name."""

    def worker_url(self, number: int) -> str:
        return f"{self.url}&application_name=worker-{number}"

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, application_name="test")

    def payloads(self) -> list[Any]:
        with self.connect() as own:
            found = own.execute(
                "SELECT id, payload FROM windlass._jobs UNION ALL"
                " SELECT id, payload FROM windlass._history ORDER BY id"
            ).fetchall()
        return [payload for _, payload in found]

    @contextmanager
    def gate_closed(self) -> Iterator[psycopg.Connection[Any]]:
        """No firing can commit: its transaction waits at the very end."""
        with self.connect() as own:
            own.execute("SELECT pg_advisory_lock(%s)", (GATE,))
            yield own

    def until_at_gate(self, own: psycopg.Connection[Any]) -> tuple[int, int]:
        """Wait until a worker's firing is about to commit; that worker's number, and its
        backend."""
        query = (
            "SELECT application_name, pid FROM pg_stat_activity AS a WHERE EXISTS (SELECT"
            " FROM pg_locks AS l WHERE l.pid = a.pid AND l.locktype = 'advisory'"
            f" AND l.objid = {GATE} AND NOT l.granted)"
        )
        (found,) = until(lambda: own.execute(query).fetchall(), "a firing to reach its commit")
        return int(found[0].removeprefix("worker-")), found[1]


@pytest.fixture
def here(tmp_path: Path, pg18: Cluster) -> Iterator[Place]:
    mark = len(pg18.log())
    with fresh_database(pg18) as url, closing(Place(tmp_path, url)) as made:
        yield made
        check_server_log(pg18.log()[mark:], during_faults=True)


def test_three_workers_fire_each_instant_once(here: Place, pg18: Cluster) -> None:
    mark = len(pg18.log())
    scenarios.minute_boundaries(here)
    check_server_log(pg18.log()[mark:])


@pytest.mark.parametrize("is_committed", [False, True], ids=["rolled back", "committed"])
def test_a_worker_killed_at_the_commit_of_a_firing(here: Place, is_committed: bool) -> None:
    """Its transaction is rolled back and another worker fires the instant; or it is committed
    behind the dead worker's back, and nobody fires it again."""
    here.clock.set(START)
    workers = here.start(MINUTELY, 3)
    here.until_rest()
    with here.connect() as own:
        own.execute(HOLD_COMMITS)
    now = START
    fatal = []
    for _ in range(2):
        now += MINUTE
        here.go(now)
        now += MINUTE
        with here.gate_closed() as own:
            here.clock.set(now)
            number, backend = here.until_at_gate(own)
            workers[number].kill()
            workers[number].wait()
            assert here.added("minute") == instants(START, now - MINUTE)
            if not is_committed:
                own.execute("SELECT pg_terminate_backend(%s, 5000)", (backend,))
        until(lambda: here.added("minute") == instants(START, now), "the firing")  # noqa: B023
        fatal.append(shown(now.replace(second=0)))
    now += 2 * MINUTE
    here.clock.set(now)
    wanted = instants(START, now)
    told = [instant for instant in wanted if instant not in fatal] if is_committed else wanted
    until(lambda: len(here.won("minute")) >= len(told), "the last instants to be fired")
    assert here.won("minute") == told
    assert here.added("minute") == wanted
    assert here.stop() == [-signal.SIGKILL, -signal.SIGKILL, 0]


def test_a_backfill_of_a_year_works_from_the_start(here: Place) -> None:
    scenarios.year_of_minutes(here)


def test_a_backfill_of_a_year_is_cut_by_default(here: Place) -> None:
    scenarios.year_cut_by_default(here)
