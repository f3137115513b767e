"""For tests of applications: run what was enqueued, and look at what was.

def test_signup(windlass_testing):
    windlass_testing(app)                               # on a fresh memory:// store
    signup("ada@example.org")
    assert_enqueued(app, task=welcome, payload={"user_id": 1})
    drained = drain_sync(app)
    assert len(drained.completed) == 1

def test_order(windlass_testing):
    windlass_testing(app)
    chain = charge.start(order=7)
    drained = drain_sync(app)                           # chains run to their end
    assert_continued_with(app, chain=chain, task=ship, payload={"order": 7}, drained=drained)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windlass.app import App
from windlass.clock import to_datetime
from windlass.model import payload as payloads
from windlass.model.chain import Chain
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.tasks.task import Task

OPEN = (JobState.BLOCKED, JobState.SCHEDULED, JobState.READY, JobState.RUNNING)
_PAGE = 1_000
_SHOWN = 20


@dataclass
class Drained:
    """What a drain ran, in the order it ended. Jobs are as they were when they started."""

    completed: list[Job] = field(default_factory=list)
    errors: list[tuple[Job, BaseException]] = field(default_factory=list)
    """Every attempt that failed, with what it raised; a job that was retried is here each time."""
    failed: list[Job] = field(default_factory=list)
    """Jobs that failed for good."""
    deliveries: int = 0
    """How often a job was run, whatever came of it."""

    def __len__(self) -> int:
        return self.deliveries

    def __bool__(self) -> bool:
        return True


async def drain(
    app: App,
    *,
    include_scheduled: bool = False,
    raise_errors: bool = False,
    limit: int = 10_000,
    **options: Any,
) -> Drained:
    """Run every job that is ready, and every job that becomes ready through it, then return: chains
    go on to their end, and jobs that wait for them run after it.

    One job runs at a time, in the queue's order, unless `concurrency=` says otherwise; other
    `options` are those of `app.run`. With `include_scheduled` jobs due later run too, retries
    among them, as if their time had come. With `raise_errors` the first exception a handler
    raised is raised here, at the end. AssertionError when `limit` jobs have run and still more
    wait, as when a job enqueues itself.
    """
    drained = Drained()
    while True:
        left = limit - drained.deliveries
        await _drain_once(app, drained, {"concurrency": 1, **options, "max_jobs": left})
        if drained.deliveries >= limit:
            raise AssertionError(f"{limit} jobs have run and there are still more; see limit=")
        if not include_scheduled or not await _make_due(app, options.get("tenants")):
            break
    if raise_errors and drained.errors:
        raise drained.errors[0][1]
    return drained


async def _drain_once(app: App, drained: Drained, options: dict[str, Any]) -> None:
    heard: list[tuple[str, Any, Job, BaseException | None]] = []

    def listener(name: str) -> Any:
        def hear(worker: Any, job: Job, error: BaseException | None = None) -> None:
            heard.append((name, worker, job, error))

        return app.events.on(f"job:{name}", hear)

    listeners = {name: listener(name) for name in ("success", "error", "failed", "complete")}
    try:
        runner = await app.run(once=True, **{"handle_signals": False, **options})
        await runner.wait()
    finally:
        for name, hear in listeners.items():
            app.events.off(f"job:{name}", hear)
    for name, worker, job, error in heard:
        if worker is not runner.worker:
            continue
        if name == "success":
            drained.completed.append(job)
        elif name == "error" and error is not None:
            drained.errors.append((job, error))
        elif name == "failed":
            drained.failed.append(job)
        elif name == "complete":
            drained.deliveries += 1


async def _make_due(app: App, tenants: Sequence[str] | None) -> bool:
    """Make every scheduled job due that this drain can run; whether there was one."""
    runnable = [
        job.id
        for job in await _jobs(app, [JobState.SCHEDULED])
        if app.registry.find(job.task) is not None
        and (tenants is None or (job.tenant or DEFAULT_TENANT) in tenants)
    ]
    now = to_datetime(await app.store.now())
    for start in range(0, len(runnable), _PAGE):
        await app.client.reschedule_jobs(runnable[start : start + _PAGE], run_at=now)
    return bool(runnable)


def drain_sync(app: App, **options: Any) -> Drained:
    """`drain` for code without an event loop; the same arguments."""
    return app._portal.call(drain(app, **options))


def enqueued(app: App) -> list[Job]:
    """Every job that has not ended yet, by id."""
    return app._portal.call(_jobs(app, OPEN))


async def _jobs(app: App, states: Sequence[JobState]) -> list[Job]:
    """All jobs in these states, by id."""
    jobs: list[Job] = []
    while True:
        after = jobs[-1].id if jobs else None
        page = await app.client.list_jobs(state=[*states], after=after, limit=_PAGE)
        jobs += page
        if len(page) < _PAGE:
            return jobs[::-1]


def assert_enqueued(
    app: App,
    *,
    task: str | Task[Any, Any] | None = None,
    payload: Any = None,
    queue: str | None = None,
    key: str | None = None,
    priority: int | None = None,
    state: str | None = None,
    count: int | None = None,
) -> list[Job]:
    """Fail unless such a job waits or runs; the jobs that match, by id.

    What is left None does not matter. A dict as `payload` may name some of the keys only. `count`
    asks for exactly that many; without it one is enough. Works in plain and in async tests.
    """
    wanted = _wanted(task, payload, queue, key, priority, state)
    return _expect(enqueued(app), wanted, count, _ENQUEUED)


def assert_not_enqueued(
    app: App,
    *,
    task: str | Task[Any, Any] | None = None,
    payload: Any = None,
    queue: str | None = None,
    key: str | None = None,
    priority: int | None = None,
    state: str | None = None,
) -> None:
    """Fail if such a job waits or runs; without any argument, if there is any job at all."""
    wanted = _wanted(task, payload, queue, key, priority, state)
    jobs = enqueued(app)
    if found := [job for job in jobs if _matches(job, wanted)]:
        raise AssertionError(
            f"expected no job with {_show(wanted)}, found {len(found)}; {_list(jobs)}"
        )


def assert_continued_with(
    app: App,
    *,
    chain: Chain[Any] | int | None = None,
    task: str | Task[Any, Any] | None = None,
    payload: Any = None,
    queue: str | None = None,
    priority: int | None = None,
    state: str | None = None,
    count: int | None = None,
    drained: Drained | None = None,
) -> list[Job]:
    """Fail unless a chain went on with such a job; the jobs that match, by id.

    It looks at every stored job that is not the first of its chain, whatever its state: jobs that
    wait or run, failed and cancelled ones, and completed ones if they were kept. Completed jobs
    that were not kept are gone; give what `drain` returned as `drained` to look at them, too.
    `chain` asks about one chain alone. The other arguments are those of `assert_enqueued`.
    """
    wanted = _wanted(task, payload, queue, None, priority, state)
    wanted["chain"] = chain.id if isinstance(chain, Chain) else chain
    return _expect(_continuations(app, drained), wanted, count, _CONTINUATIONS)


def _continuations(app: App, drained: Drained | None) -> list[Job]:
    """By id; what is stored is newer than what was drained."""
    found = {job.id: job for job in (drained.completed if drained is not None else ())}
    found |= {job.id: job for job in app._portal.call(_jobs(app, [*JobState]))}
    return [found[job_id] for job_id in sorted(found) if found[job_id].step > 0]


class _Kind(NamedTuple):
    """What is said of the jobs that an assertion looks at."""

    noun: str
    title: str
    none: str


_ENQUEUED = _Kind("job", "enqueued", "nothing is enqueued")
_CONTINUATIONS = _Kind("continuation", "continuations", "no chain has gone on")


def _expect(
    jobs: Sequence[Job], wanted: Mapping[str, Any], count: int | None, kind: _Kind
) -> list[Job]:
    """The jobs that match, or AssertionError where there are not as many as expected."""
    found = [job for job in jobs if _matches(job, wanted)]
    if (count is None and not found) or (count is not None and len(found) != count):
        noun = kind.noun
        how_many = f"at least one {noun}" if count is None else f"exactly {count} {noun}s"
        raise AssertionError(
            f"expected {how_many} with {_show(wanted)}, found {len(found)}; {_list(jobs, kind)}"
        )
    return found


def _wanted(task: str | Task[Any, Any] | None, payload: Any, *rest: Any) -> dict[str, Any]:
    queue, key, priority, state = rest
    return {
        "task": task.name if isinstance(task, Task) else task,
        "payload": None if payload is None else payloads.decode(payloads.encode(payload)),
        "queue": queue,
        "key": key,
        "priority": priority,
        "state": None if state is None else JobState(state),
    }


def _matches(job: Job, wanted: Mapping[str, Any]) -> bool:
    return all(
        _fits(getattr(job, name), value) if name == "payload" else getattr(job, name) == value
        for name, value in wanted.items()
        if value is not None
    )


def _fits(actual: Any, wanted: Any) -> bool:
    """Dicts fit if what is wanted is there, at every level; everything else must be equal."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and _fits(actual[name], wanted[name]) for name in wanted)
    return bool(actual == wanted)


def _show(wanted: Mapping[str, Any]) -> str:
    shown = [f"{name}={value!s}" for name, value in wanted.items() if value is not None]
    return ", ".join(shown) or "any values"


def _list(jobs: Sequence[Job], kind: _Kind = _ENQUEUED) -> str:
    if not jobs:
        return kind.none
    lines = [f"  {_line(job)}" for job in jobs[:_SHOWN]]
    if len(jobs) > _SHOWN:
        lines.append(f"  … and {len(jobs) - _SHOWN} more")
    return "\n".join([f"{len(jobs)} {kind.title}:", *lines])


def _line(job: Job) -> str:
    parts = [f"{job.id} {job.task} {payloads.encode_value(job.payload)} {job.state}"]
    parts += [f"chain={job.chain} step={job.step}"] if job.chain is not None else []
    parts += [f"tenant={job.tenant}"] if job.tenant else []
    parts += [f"queue={job.queue}"] if job.queue else []
    parts += [f"key={job.key}"] if job.key else []
    parts += [f"priority={job.priority}"] if job.priority else []
    return " ".join(parts)
