"""Runs a plan: workers, producers, operators and clocks around one store, in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from unittest import mock

from tests.simulation import handlers, virtual_threads
from tests.simulation.actor_store import ActorLifeline, ActorStore, Wires
from tests.simulation.ledger import Ledger, LedgerStore
from tests.simulation.plan import (
    CHAOS,
    LEASE,
    OPERATOR,
    PRODUCER,
    REAP,
    TENANT,
    WORKERS,
    Action,
    SimulationPlan,
)
from tests.simulation.virtual_threads import (
    PROCESS,
    SimulationLoop,
    VirtualExecutor,
    VirtualThread,
)
from windlass.client import Client, Preparer
from windlass.engine import switching, threads
from windlass.engine.engine import Engine, EngineOptions
from windlass.engine.keeper import Keeper, KeeperHost, _step
from windlass.engine.scheduler import Scheduling
from windlass.engine.task_handler import Defaults, TaskHandler
from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    StoreError,
)
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.cron import Schedule
from windlass.model.job import DEFAULT_TENANT, JobSpec, JobState
from windlass.model.retry import Retry
from windlass.observe.events import Events
from windlass.observe.logs import Scoped
from windlass.store.port import Lifeline, Store
from windlass.store.records import Complete, NewChain
from windlass.tasks import awaited, context
from windlass.testing.clock import START
from windlass.testing.virtual import DeadlockError, VirtualTimeoutError

DRAIN = 120.0
"""Seconds within which everything must have ended, once faults are over."""
SLACK = 1.5
MAX_RESETS = 2
POLL = 1.0
_LIMIT = 2_000.0
_PATIENCE = 200
"""How often a task is cancelled, at the end, before that is called a mistake of the simulation."""
_DEEP = "[" * 3_000 + "]" * 3_000
SCHEDULE = Schedule(
    identifier="tick",
    task="plain",
    pattern="*/5 * * * *",
    fill=86_400.0,
    payload={"acts": [["return", 0.0]]},
)
REGISTRY = handlers.make_registry()
_OPTIONS = (
    *("queue", "key", "key_mode", "key_window", "priority", "flags", "delay", "keep"),
    *("max_attempts", "on_blocker_failure"),
)
"""Of a job that an action asks for."""


@dataclass
class Report:
    """What became of a run."""

    plan: SimulationPlan
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The first promise that was broken, or nothing."""
        return self.violations[0].partition(":")[0] if self.violations else ""


def run(plan: SimulationPlan) -> Report:
    """Run a plan to its end; whatever is wrong is in the report."""
    loop = SimulationLoop(_LIMIT)
    state = random.getstate()
    random.seed(plan.seed)
    asyncio.set_event_loop(loop)
    world = World(plan, loop)
    try:
        with _virtual(world):
            try:
                loop.run_until_complete(world.live())
            except (DeadlockError, VirtualTimeoutError) as error:
                world.ledger.violate("P3", f"the run does not end: {error}")
            world.clear()
    finally:
        random.setstate(state)
        asyncio.set_event_loop(None)
        loop.close()
    return Report(plan, world.ledger.violations, world.ledger.trace)


@contextmanager
def _virtual(world: World) -> Iterator[None]:
    """What would run in threads runs in virtual ones."""
    listener = _Records("windlass", world.ledger)
    logger = logging.getLogger("windlass")
    with (
        mock.patch.object(threads, "ThreadPoolExecutor", VirtualExecutor),
        mock.patch.object(awaited, "ThreadPoolExecutor", VirtualExecutor),
        mock.patch.object(
            context.SyncContext,
            "_call",
            lambda self, coroutine: virtual_threads.wait_for(coroutine),
        ),
        mock.patch.object(switching, "quicken", lambda: None),
        mock.patch.object(switching, "relax", lambda: None),
        mock.patch.object(logger, "propagate", False),
    ):
        logger.addHandler(listener)
        try:
            yield
        finally:
            logger.removeHandler(listener)


class _Records(logging.Handler):
    """Brings what is logged to the ledger."""

    def __init__(self, worker: str, ledger: Ledger, process: WorkerProcess | None = None) -> None:
        super().__init__()
        self._worker = worker
        self._ledger = ledger
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        process = self._process or PROCESS.get()
        if process is None or not process.is_dead:
            self._ledger.logged(self._worker, record)


class SimulatedClock:
    """A clock that jumps when it is told to; `monotonic` is the true time."""

    def __init__(self, loop: SimulationLoop, begins_at: float) -> None:
        self._loop = loop
        self._offset = START + round((240 + begins_at - loop.time()) * 1e6)

    def now(self) -> int:
        return round(self._loop.time() * 1e6) + self._offset

    def monotonic(self) -> float:
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        self._offset += round(seconds * 1e6)


class KeeperInThread:
    """Hosts a keeper as `KeeperThread` does, in a virtual thread."""

    def __init__(self, keeper: Keeper, lifeline: Lifeline, logger: Scoped) -> None:
        self._keeper = keeper
        self._lifeline = lifeline
        self._logger = logger
        self._is_stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._thread: VirtualThread

    def start(self) -> None:
        self._thread = VirtualThread(self._run, lambda answer, error: self._ended.set())

    def wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._thread.loop.call_soon(self._thread.resume)

    async def stop(self) -> None:
        self._is_stopping = True
        self.wake()
        await self._ended.wait()

    def _run(self) -> None:
        while not self._is_stopping:
            pause = _step(self._keeper, self._logger)
            if self._is_stopping:
                break
            self._timer = self._thread.loop.call_later(pause, self.wake)
            self._thread.pause()
        self._lifeline.close()


class SimulatedEngine(Engine):
    """An engine whose keeper has a virtual thread."""

    lifeline: ActorLifeline

    def _host(self, lifeline: Lifeline) -> KeeperHost:
        assert isinstance(lifeline, ActorLifeline)
        self.lifeline = lifeline
        super()._host(lifeline)
        return KeeperInThread(self._keeper, lifeline, self._logger)


class WorkerProcess:
    """One life of one worker: it ends by being killed, or after it was stopped."""

    def __init__(self, world: World, name: str, life: int) -> None:
        self.world = world
        self.ledger = world.ledger
        self.name = name
        self.id = f"{name}.{life}"
        self.is_dead = False
        self.is_stopping = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.threads: list[VirtualThread] = []
        self.clock = world.clocks[name]
        self.store = ActorStore(world.store, world.wires, name, self)
        self.store.is_deaf = world.plan.settings.is_deaf
        self.engine: SimulatedEngine | None = None
        self._started = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def renewed_at(self) -> float:
        assert self.engine is not None
        return self.engine.lifeline.renewed_at

    def start(self) -> None:
        variables = contextvars.copy_context()
        variables.run(PROCESS.set, self)
        loop = self.world.loop
        loop.create_task(self._main(), name=f"{self.id} main", context=variables)

    async def _main(self) -> None:
        settings = self.world.plan.settings
        logger = logging.Logger(self.id, logging.INFO if settings.logs_info else logging.WARNING)
        logger.addHandler(_Records(self.id, self.ledger, self))
        client = _client(cast(Store, self.store))
        around = _Around(self, client, logger)
        slots = settings.slots
        handler = TaskHandler(
            REGISTRY,
            REGISTRY.names,
            Defaults(retry=Retry.fixed(0.3), max_attempts=4),
            slots=slots,
        )
        is_forbidding = settings.forbids and self.name == "w1"
        options = EngineOptions(
            slots=slots,
            lease=LEASE,
            poll_interval=POLL,
            reap_interval=REAP,
            grace=2.0,
            max_resets=MAX_RESETS,
            prefetch=settings.prefetch,
            forbidden_flags=["red"] if is_forbidding else None,
            tenants=self.world.ledger.served.get(self.name),
        )
        schedules = [SCHEDULE] if settings.has_schedule else []
        self.engine = SimulatedEngine(
            handler,
            around,
            options,
            events=self._events(),
            clock=self.clock,
            scheduling=Scheduling(cast(Store, self.store), schedules),
        )
        await self.engine.start()
        self._started.set()
        await self.engine.done.wait()
        if not self.is_stopping:
            self.ledger.violate("I12", f"{self.id} ended by itself: {self.engine.error}")

    def _events(self) -> Events:
        events = Events()
        if self.world.plan.settings.listens:
            events.on("job:start", _raise_sometimes)
            events.on("job:success", _raise_sometimes)
            events.on("job:complete", lambda worker, job, error: None)
        return events

    async def stop(self) -> None:
        """Drain it, then end its process, whatever still runs."""
        if self.is_stopping or self.is_dead:
            await self.ended.wait()
            return
        self.is_stopping = True
        self.ledger.note(self.id, "stops")
        variables = contextvars.copy_context()
        variables.run(PROCESS.set, self)
        loop = self.world.loop
        await self._started.wait()
        assert self.engine is not None
        await asyncio.wait({loop.create_task(self.engine.stop(), context=variables)})
        if not self.is_dead:  # it may have been killed meanwhile
            self.ledger.note(self.id, "has stopped")
            self.end()

    def crash(self) -> None:
        """A handler kills its process; a supervisor starts it again."""
        self.end()
        self.world.loop.call_later(0.5, self.world.start, self.name)

    def end(self) -> None:
        """Drop everything at once: nothing of it is ever heard of again."""
        if self.is_dead:
            return
        self.look_for_unheard()
        self.ledger.note(self.id, "is dead")
        self.is_dead = True
        self.ledger.die(self)
        self.ended.set()
        for task in self.tasks:
            task.cancel()

    def look_for_unheard(self) -> None:
        """A task that failed and that nothing waits for: a slot, say, that is no more."""
        for task in self.tasks:
            if task.done() and not task.cancelled() and task._log_traceback:
                name, error = task.get_name(), task.exception()
                self.ledger.violate("I12", f"{name} of {self.id} failed unheard: {error!r}")


def _raise_sometimes(worker: Any, job: Any) -> None:
    if job.id % 3 == 0:
        raise RuntimeError("a listener of the simulation")


class _Around:
    """What the jobs of one worker share."""

    def __init__(self, process: WorkerProcess, client: Client, logger: logging.Logger) -> None:
        self.store = cast(Store, process.store)
        self.producer = client
        self.state = process
        self.loop = process.world.loop
        self.worker_id = process.id
        self.logger = logger


def _client(store: Store) -> Client:
    async def opened() -> Store:
        return store

    return Client(
        opened,
        _preparer(),
        keep=lambda task: None,
        max_resets=lambda: MAX_RESETS,
        chain_keeps=lambda: (KEEP_CHAINS, KEEP_FAILED_CHAINS),
        tenant=lambda: None,
    )


def _preparer() -> Preparer:
    return Preparer(REGISTRY, lambda: 2**18)


class World:
    """One run."""

    def __init__(self, plan: SimulationPlan, loop: SimulationLoop) -> None:
        self.plan = plan
        self.loop = loop
        self.ledger = Ledger(loop.time)
        if plan.settings.divides:
            self.ledger.served["w1"] = (TENANT,)
        settings = plan.settings
        self.clocks = {
            name: SimulatedClock(loop, settings.begins_at) for name in ("database", *WORKERS)
        }
        self.store = LedgerStore(self.clocks["database"], self.ledger)
        self.wires = Wires(plan.seed, plan.faults, settings.delay, loop.time)
        self.wires.told = self.ledger.note
        self.producer = ActorStore(self.store, self.wires, PRODUCER, None)
        self.operator = ActorStore(self.store, self.wires, OPERATOR, None)
        self.lives: list[WorkerProcess] = []
        self.is_schedule_paused = False
        self._is_over = False
        self._doing: list[asyncio.Task[None]] = []
        self._stopped_last: list[str] = []
        """Those that stopped when there were no faults any more."""

    async def live(self) -> None:
        for name in WORKERS[: self.plan.settings.workers]:
            self.start(name)
        begin = self.loop.time()
        for action in self.plan.actions:
            await asyncio.sleep(max(0.0, begin + action.at - self.loop.time()))
            if self.ledger.violations:
                return
            self._doing.append(self.loop.create_task(self._do(action)))
        await asyncio.sleep(max(0.0, begin + CHAOS - self.loop.time()))
        if not self.ledger.violations:
            await self._drain()
        if not self.ledger.violations:
            await self._stop_all()
            self._check()

    # ── actions ──

    async def _do(self, action: Action) -> None:
        what = action.what
        self.ledger.note("·", f"{action.do} {what}")
        match action.do:
            case "add" | "start_chain":
                await self._add(what, is_chain=action.do == "start_chain")
            case "kill":
                for process in self._alive(what["worker"]):
                    process.end()
            case "stop":
                for process in self._alive(what["worker"]):
                    await process.stop()
            case "hurry":
                for process in self._alive(what["worker"]):
                    if process.engine is not None:
                        process.engine.hurry()
                    await process.stop()
            case "start":
                self.start(what["worker"])
            case "jump":
                self.clocks[what["clock"]].jump(what["seconds"])
            case "cut":
                self.wires.cut_until[what["worker"]] = self.loop.time() + what["seconds"]
            case _:
                await self._operate(action.do, what)

    def start(self, name: str) -> None:
        if self._is_over or self._alive(name):
            return
        life = sum(process.name == name for process in self.lives) + 1
        process = WorkerProcess(self, name, life)
        self.lives.append(process)
        self.ledger.note(process.id, "starts")
        process.start()

    def _alive(self, name: str = "") -> list[WorkerProcess]:
        return [p for p in self.lives if not p.is_dead and p.name.startswith(name)]

    async def _add(self, what: dict[str, Any], *, is_chain: bool) -> None:
        ledger, n = self.ledger, what["n"]
        task = what["task"]
        payload: Any = {"n": n, "acts": what["acts"]}
        if task == "batch":
            payload = [{**payload, "item": item} for item in range(3)]
        options = {name: what[name] for name in _OPTIONS if name in what}
        if "blockers" in what:
            options["blockers"] = ledger.chains.pick_all(what["blockers"])
        spec = _spec(task, payload, options)
        [new] = _preparer().prepare_chains([spec]) if is_chain else _preparer().prepare([spec])
        first = new.job if isinstance(new, NewChain) else new
        first.tenant = what.get("tenant", DEFAULT_TENANT)
        for _ in range(3):
            try:
                verb = "start_chains" if is_chain else "enqueue"
                [added] = await self.producer._do(verb, [new])
            except ChainNotFoundError:
                if n not in ledger.unknown:
                    ledger.refused.add(n)
                return
            except StoreError as error:
                # Only under a key it is safe to ask again.
                is_unknown = "lost" in str(error)
                if n not in ledger.unknown:
                    (ledger.unknown if is_unknown else ledger.refused).add(n)
                if not is_unknown or new.key is None:
                    return
                ledger.note(PRODUCER, f"asks again for request {n}")
            except Exception as error:
                ledger.violate("I12", f"{verb} raised {error!r}")
                return
            else:
                if not getattr(added, "deduplicated", False):
                    ledger.acknowledged[n] = added.id
                break
        row = self.store._rows.get(ledger.acknowledged.get(n, 0))
        if what.get("is_hostile") and row is not None and row.state is not JobState.RUNNING:
            row.payload = _DEEP
            ledger.hostile.add(row.id)
            ledger.note(PRODUCER, f"job {row.id} cannot be decoded")

    async def _operate(self, do: str, what: dict[str, Any]) -> None:
        call = self.operator._do
        ids = self.ledger.created
        chosen = ids[int(what["pick"] * len(ids)) % len(ids)] if ids else 0
        try:
            match do:
                case "cancel" | "retry" | "complete":
                    await call(do, [chosen])
                case "fail":
                    await call(do, [chosen], "by an operator")
                case "reschedule":
                    run_at = self.clocks["database"].now() + round(what["delay"] * 1e6)
                    await call(do, [chosen], run_at, None, what["attempts"], None)
                case "unlock":
                    workers = [process.id for process in self._alive(what["worker"])]
                    await call(do, workers, MAX_RESETS)
                case "pause" | "resume":
                    await call(do, task=what.get("task"), queue=what.get("queue"))
                case "remove":
                    await call(do, what["key"])
                case "delete_failed":
                    await call(do, 100)
                case "pause_schedule" | "resume_schedule":
                    self.is_schedule_paused = True
                    await call(do, SCHEDULE.identifier)
                case _:
                    await self._operate_on_chains(do, what)
        except (StoreError, ChainNotFoundError, ChainClosedError, BlockerReferenceError):
            pass  # an operator may be refused, too
        except Exception as error:
            self.ledger.violate("I12", f"{do} raised {error!r}")

    async def _operate_on_chains(self, do: str, what: dict[str, Any]) -> None:
        call, pick = self.operator._do, self.ledger.chains.pick
        chosen = [pick(what[name]) for name in ("pick", "also") if name in what]
        match do:
            case "complete_chain" if "then" in what:
                then = what["then"]
                options = {name: then[name] for name in _OPTIONS if name in then}
                spec = _spec(then["task"], {"acts": then["acts"]}, options)
                new, inherits = _preparer().prepare_next(spec)
                await call(do, chosen[0], Complete(next=new), inherits)
            case "complete_chain":
                await call(do, chosen[0], Complete('"by hand"'))
            case "cancel_chains" | "retry_chains":
                await call(do, chosen)
            case "delete_chains":
                await call(do, chosen, what.get("cascade", False))

    # ── the end ──

    async def _drain(self) -> None:
        """Without faults everything must end, and soon."""
        self.ledger.note("·", "drain")
        self.wires.calm()
        await asyncio.gather(*self._doing)
        for name in ("plain",):
            await self.store.resume(task=name)
        for queue in (await self.store.paused()).queues:
            await self.store.resume(queue=queue)
        await self.store.resume_schedule(SCHEDULE.identifier)
        begin = self.loop.time()
        orphans = self._orphans()
        back_by = begin + REAP + SLACK
        for grant in orphans:
            ends_at = max(self.ledger.beats.get(grant.worker, 0.0), grant.own_until)
            back_by = max(back_by, ends_at + REAP + SLACK)
        while not self.ledger.violations:
            for process in self._alive():
                process.look_for_unheard()
            self.start("w0")
            late = [grant for grant in orphans if grant.ended_at is None]
            if late and self.loop.time() > back_by:
                self.ledger.violate(
                    "P7",
                    f"job {late[0].job_id} of the dead worker {late[0].worker} did not come back",
                )
            if self.loop.time() > begin + DRAIN:
                left = [
                    f"{r.id} {r.state}" for r in self.store._rows.values() if not r.state.is_final
                ]
                self.ledger.violate("P3", f"jobs do not end: {left}")
            await self._complete_what_is_waited_for()
            if await self._is_drained():
                return
            await asyncio.sleep(0.25)

    async def _complete_what_is_waited_for(self) -> None:
        """Jobs may go on waiting for chains that ended badly until an operator does something."""
        book = self.store._book
        for row in list(self.store._rows.values()):
            if row.state is JobState.BLOCKED and row.on_blocker_failure == "wait":
                for it in list(book.blockers(row.id)):
                    chain = book.chain(it.chain)
                    if chain is not None and chain.state in ("failed", "cancelled"):
                        await self.store.complete_chain(chain.id, Complete('"by hand"'))

    def _orphans(self) -> list[Any]:
        alive = {process.id for process in self._alive()}
        grants = self.ledger.grants.values()
        return [g for g in grants if g.ended_at is None and g.worker not in alive]

    async def _is_drained(self) -> bool:
        now = self.clocks["database"].now()
        rows = [row for row in self.store._rows.values() if not row.state.is_final]
        for row in rows:
            # A clock that was set back leaves jobs due in an hour, which is right.
            if row.state is JobState.SCHEDULED and row.run_at > now + 6_000_000:
                row.run_at = now
        return not rows and not self.ledger.active and self._is_schedule_done(now)

    def _is_schedule_done(self, now: int) -> bool:
        known = self.store._schedules.get((DEFAULT_TENANT, SCHEDULE.identifier))
        if known is None:
            return True
        return next(SCHEDULE.timetable.between(known.floor_at, now), None) is None

    async def _stop_all(self) -> None:
        self._is_over = True
        self.ledger.note("·", "stop")
        for process in self.lives:
            if not process.is_dead:
                if not process.is_stopping:
                    self._stopped_last.append(process.id)
                await process.stop()

    def _check(self) -> None:
        ledger = self.ledger
        ledger.check_requests()
        ledger.check_jobs(self.store)
        ledger.check_chains(self.store)
        ledger.check_schedule(
            self.store._schedules.get((DEFAULT_TENANT, SCHEDULE.identifier)),
            self.clocks["database"].now(),
            is_paused=self.is_schedule_paused,
        )
        self._check_counters()
        known = [name for name in self.store._workers if name in self._stopped_last]
        if known:
            ledger.violate("I10", f"{known} stopped, and the store still knows them")

    def _check_counters(self) -> None:
        """Where no answer was lost, a worker has counted what it settled."""
        doings = {action.do for action in self.plan.actions}
        if self.plan.faults or doings & {"cut", "unlock", "complete_chain", "delete_chains"}:
            return
        for process in self.lives:
            if process.id in self._stopped_last and process.engine is not None:
                self.ledger.check_counter(process.id, process.engine.completed)
        if not doings & {"retry", "reschedule"}:
            self.ledger.check_killers(MAX_RESETS)

    def clear(self) -> None:
        """Let nothing outlive the run."""
        for process in self.lives:
            process.end()
        for _ in range(_PATIENCE):
            for thread in self.loop.all_threads:
                thread.end()
            left = [task for task in self.loop.all_tasks if not task.done()]
            for task in left:
                task.cancel()
            if not left:
                break
            self.loop.run_until_complete(asyncio.sleep(0))
        else:
            raise AssertionError(f"these tasks cannot be ended: {left}")
        for task in self.loop.all_tasks:
            if not task.cancelled():
                task.exception()  # of what was ended here nothing more is expected


def _spec(task: str, payload: Any, options: dict[str, Any]) -> Any:
    return JobSpec(task=task, payload=payload, **options)
