"""A third store, a list of dicts, on the same engine: nothing there knows which store it has."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import grimp

from tests.engine.engine_kit import wait_until
from windlass import Poison, Resetter, Retry, Worker, WorkerOptions
from windlass.clock import Clock
from windlass.errors import ConfigError
from windlass.model.job import Job
from windlass.store.hints import Due, ignore_due
from windlass.store.port import Lifeline, Listening, Transaction, WorkStore
from windlass.store.records import (
    Cancel,
    Capabilities,
    ClaimRequest,
    Complete,
    Fail,
    Lease,
    LostReason,
    Note,
    Outcome,
    Reaped,
    Release,
    Renewal,
    Settled,
    Verdict,
)
from windlass.testing import VirtualClock, run_virtual

Row = dict[str, Any]


class ToyLease(Lease):
    row: Any = None

    @property
    def record(self) -> Any:
        return self.row


class ToyStore:
    """Rows are dicts in a list; whoever has a row's `token` owns it."""

    capabilities = Capabilities(shared=False, durable=False, transactions=False, sql=False)

    def __init__(self, clock: Clock, *rows: Row) -> None:
        self.clock = clock
        self.rows = [{**_BLANK, "id": n, **row} for n, row in enumerate(rows)]
        self.tokens = 0
        self.notes: list[Note] = []
        self.retired: list[str] = []

    # ── life ──
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def now(self) -> int:
        return self.clock.now()

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        return lambda: None

    # ── workers ──
    async def claim(self, request: ClaimRequest) -> list[Lease]:
        now = self.clock.now()
        free = [
            row
            for row in self.rows
            if row["state"] == "waiting"
            and row["at"] <= now
            and row["task"] in (request.tasks or ())
        ]
        return [self._take(row, request) for row in free[: request.limit]]

    def _take(self, row: Row, request: ClaimRequest) -> Lease:
        self.tokens += 1
        until = self.clock.now() + round(request.lease * 1e6)
        row.update(state="running", token=self.tokens, worker=request.worker, until=until)
        values = {"job_id": row["id"], "attempts": row["tries"] + 1, "deliveries": self.tokens}
        fields = dict.fromkeys(Lease.__struct_fields__)
        fields |= {"payload": "{}", "priority": 0, "run_at": 0, "revision": 0, "resets": 0}
        fields |= {"suspect": False, "created_at": 0, "updated_at": 0}
        own = {name: row[name] for name in ("token", "worker", "task")}
        return ToyLease(**{**fields, **values, **own}, row=row)

    def why_lost(self, lease: Lease) -> LostReason | None:
        row = self.rows[lease.job_id]
        if row["state"] == "running" and row["token"] == lease.token:
            return None
        return LostReason.TAKEN_BY_ANOTHER_WORKER

    async def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> list[Settled]:
        return [self._settle(self.rows[held.job_id], held, how) for held, how in settlements]

    def _settle(self, row: Row, lease: Lease, outcome: Outcome) -> Settled:
        if self.why_lost(lease):
            return Settled(Verdict.LOST)
        match outcome:
            case Complete():
                row["state"] = "done"
            case Cancel():
                row["state"] = "cancelled"
            case Release():
                row["state"] = "waiting"
            case Fail():
                row["tries"] += 1
                row["error"] = outcome.error.split("\n")[0]
                is_last = outcome.final or row["tries"] >= outcome.max_attempts
                row["state"] = "failed" if is_last else "waiting"
                row["at"] = self.clock.now() + round(outcome.delay * 1e6)
        return Settled(Verdict.APPLIED)

    async def note(self, lease: Lease, note: Note) -> Verdict:
        self.notes.append(note)
        return Verdict.APPLIED

    def lifeline(self) -> Lifeline:
        return ToyLifeline(self)

    def connection(self) -> AbstractContextManager[Any]:
        raise ConfigError("a list has no connections")

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        raise ConfigError("a list has no transactions")

    async def retire(self, worker: str) -> None:
        self.retired.append(worker)

    # ── upkeep ──
    async def reap(self, limit: int, max_resets: int) -> Reaped:
        now = self.clock.now()
        dead = [r for r in self.rows if r["state"] == "running" and r["until"] <= now][:limit]
        for row in dead:
            row["state"] = "waiting"
        return Reaped(requeued=tuple(row["id"] for row in dead))

    async def promote(self, limit: int) -> int:
        return 0

    async def next_due(self) -> float | None:
        return None

    async def prune(
        self, limit: int, keep_chains: float = 0.0, keep_failed_chains: float = 0.0
    ) -> int:
        return 0

    async def get(self, job_id: int, tenant: str | None = None) -> Job | None:
        return None


class ToyLifeline:
    def __init__(self, store: ToyStore) -> None:
        self.store = store

    def renew(
        self, worker: str, lease: float, leases: Sequence[Lease], extend: Sequence[Any] = ()
    ) -> Renewal:
        for held in leases:
            if self.store.why_lost(held) is None:
                until = self.store.clock.now() + round(lease * 1e6)
                self.store.rows[held.job_id]["until"] = until
        return self.check(worker, leases)

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        lost = {held.job_id: why for held in leases if (why := self.store.why_lost(held))}
        asked = [held.job_id for held in leases if self.store.rows[held.job_id]["stop"]]
        return Renewal(lost=lost, cancel=frozenset(asked))

    def close(self) -> None: ...


_BLANK: Row = {"task": "t", "state": "waiting", "at": 0, "tries": 0, "stop": False, "error": None}


# ── the engine over it ──


Body = Callable[["Toy"], Any]


class Toy:
    """A toy store with a worker around whatever the test calls a handler."""

    def __init__(self, clock: VirtualClock, *rows: Row) -> None:
        self.clock = clock
        self.store = ToyStore(clock, *rows)
        self.seen: list[Any] = []

    def worker(self, handler: Any, **options: Any) -> Worker[Row]:
        store: WorkStore = self.store
        given = WorkerOptions(**{"name": "toy", "tasks": ["t"], "num_handlers": 2, **options})
        return Worker(store, handler, given, clock=self.clock)

    @property
    def states(self) -> list[str]:
        return [row["state"] for row in self.store.rows]

    async def until(self, *states: str) -> None:
        await wait_until(lambda: self.states == list(states))


def on_rows(*rows: Row) -> Callable[[Body], Callable[[], None]]:
    def decorate(body: Body) -> Callable[[], None]:
        def run() -> None:
            run_virtual(lambda clock: body(Toy(clock, *rows)), timeout=4_000, patience=10)

        run.__name__ = getattr(body, "__name__", "run")
        return run

    return decorate


@on_rows({"n": 1}, {"n": 2}, {"n": 3, "task": "other"})
async def test_rows_complete(toy: Toy) -> None:
    async def handle(record: Row) -> None:
        toy.seen.append(record["n"])

    async with toy.worker(handle) as worker:
        await toy.until("done", "done", "waiting")
    assert sorted(toy.seen) == [1, 2]
    assert worker.completed == 2
    assert toy.store.retired == [worker.id]


@on_rows({"n": 1}, {"n": 2}, {"n": 3})
async def test_a_failure_is_tried_again_until_the_limit(toy: Toy) -> None:
    async def handle(ctx: Any, record: Row) -> None:
        toy.seen.append((record["n"], toy.clock.elapsed))
        if record["n"] == 3:
            raise Poison("never")
        if record["n"] == 2 or ctx.job.attempts < 3:
            raise ValueError("not yet")

    async with toy.worker(handle, num_handlers=3, retry=Retry.fixed(5), max_attempts=3):
        await toy.until("done", "failed", "failed")
    tries = [[at for n, at in toy.seen if n == number] for number in (1, 2, 3)]
    assert [len(each) for each in tries] == [3, 3, 1]
    assert all(later - earlier >= 5 for each in tries for earlier, later in pairwise(each))
    assert [row["error"] for row in toy.store.rows] == [
        "ValueError: not yet",
        "ValueError: not yet",
        "Poison: never",
    ]


@on_rows({})
async def test_a_lease_is_renewed_for_as_long_as_a_handler_runs(toy: Toy) -> None:
    async def handle(record: Row) -> None:
        toy.seen.append(toy.clock.elapsed)
        await asyncio.sleep(300)

    async with toy.worker(handle, lease=30.0):
        await toy.until("done")
    assert len(toy.seen) == 1
    assert toy.store.tokens == 1


@on_rows({})
async def test_a_handler_that_lost_its_row_is_stopped_and_writes_nothing(toy: Toy) -> None:
    async def handle(ctx: Any, record: Row) -> None:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            toy.seen.append(ctx.abort.reason.value)
            raise

    async with toy.worker(handle):
        await toy.until("running")
        toy.store.rows[0].update(token=-1, worker="somebody else")
        await wait_until(lambda: bool(toy.seen))
    assert toy.seen == ["taken_by_another_worker"]
    assert toy.states == ["running"]


@on_rows({})
async def test_a_row_is_cancelled_while_it_runs(toy: Toy) -> None:
    async def handle(record: Row) -> None:
        await asyncio.sleep(300)

    async with toy.worker(handle):
        await toy.until("running")
        toy.store.rows[0]["stop"] = True
        await toy.until("cancelled")


@on_rows({}, {}, {})
async def test_a_stop_hands_back_what_it_cannot_finish(toy: Toy) -> None:
    async def handle(record: Row) -> None:
        toy.seen.append(record["id"])
        await asyncio.sleep(5 if record["id"] == 0 else 300)

    worker = toy.worker(handle, grace=20.0)
    await worker.start()
    await wait_until(lambda: len(toy.seen) == 2)
    await worker.stop()
    assert toy.states == ["done", "waiting", "waiting"]
    assert [row["tries"] for row in toy.store.rows] == [0, 0, 0]


@on_rows({"state": "running", "token": 7, "until": 0})
async def test_a_dead_workers_row_is_taken_back(toy: Toy) -> None:
    async def handle(record: Row) -> None:
        toy.seen.append(record["id"])

    resetter = Resetter(toy.store, 5.0)
    await resetter.start()
    async with toy.worker(handle, reset_interval=None):
        await toy.until("done")
    await resetter.stop()
    assert toy.seen == [0]


@on_rows({})
async def test_what_a_handler_says_reaches_the_store(toy: Toy) -> None:
    async def handle(ctx: Any, record: Row) -> None:
        ctx.log("half way")

    async with toy.worker(handle):
        await toy.until("done")
    assert toy.store.notes == [Note(entry='"half way"')]


# ── what the engine may know ──


def test_the_import_rule_names_the_engine_and_the_worker() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    rules = [
        set(rule["source_modules"])
        for rule in project["tool"]["importlinter"]["contracts"]
        if rule["type"] == "forbidden" and "windlass.stores" in rule["forbidden_modules"]
    ]
    assert any({"windlass.engine", "windlass.worker"} <= sources for sources in rules)


def test_no_module_of_the_engine_knows_a_store() -> None:
    graph = grimp.build_graph("windlass", cache_dir=None)
    for module in ("windlass.engine", "windlass.worker"):
        assert graph.find_shortest_chains(module, "windlass.stores") == set()
    assert graph.find_shortest_chains("windlass.app", "windlass.stores")  # that it would be seen
