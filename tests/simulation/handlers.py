"""The tasks of a simulated program. What a job does is in its payload: one act per delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation import chain_handlers, virtual_threads
from tests.simulation.ledger import RecordingAbort, Run
from tests.simulation.plan import Act
from windlass import Abandon, Context, Failed, Nack, Poison, RetryAfter
from windlass.tasks.options import make_options
from windlass.tasks.registry import Registry
from windlass.tasks.task import make_task

TIMEOUT = 1.2
LONGER = 9.0


def act_of(acts: list[Act], deliveries: int) -> Act:
    return acts[min(deliveries, len(acts)) - 1]


def _begin(payload: Any, ctx: Any, *, is_thread: bool = False) -> Run | None:
    process, delivery = ctx.state, ctx._delivery
    acts = payload["acts"] if isinstance(payload, dict) else payload[0]["acts"]
    act = act_of(acts, delivery.lease.deliveries)
    timeout = TIMEOUT if delivery.lease.task == "timed" else None
    run: Run | None = process.ledger.begin(
        delivery.lease, process, act, is_thread=is_thread, timeout=timeout
    )
    if run is not None:
        before = delivery._abort
        delivery._abort = RecordingAbort(process.ledger, run)
        if before is not None and before.reason is not None:
            delivery._abort.set(before.reason)
    return run


def _answer(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return "poison" if isinstance(error, Poison) else "raise"


def _written_by(run: Run) -> dict[str, Any]:
    """The payload of a job that exists if and only if the job of this run completed with it."""
    return {**_added_by(run), "written_by": run.grant.job_id}


def _added_by(run: Run) -> dict[str, Any]:
    """The payload of a job that is added by the handler of another."""
    return {"acts": [["return", 0.0]], "added_by": run.grant.job_id}


def _said(answer: Any) -> str:
    if isinstance(answer, Abandon):
        return "abandon"
    return "raise" if isinstance(answer, Nack | Failed) else "return"


# ── on the event loop ──


async def plain(payload: Any, ctx: Context) -> Any:
    run = _begin(payload, ctx)
    if run is None:  # its worker is dead, or the ledger has found a mistake already
        return None
    ledger = ctx.state.ledger
    word, *numbers = run.act
    try:
        chain_handlers.look_at_blockers(run, ctx)
        answer = await _ACTS[word](run, ctx, *numbers)
    except BaseException as error:
        is_own = word == "cancel_itself" and run.told is None
        ledger.end(run, "raise" if is_own else _answer(error))
        raise
    ledger.end(run, _said(answer))
    return answer


async def _pause(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)


async def _return(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await _pause(seconds)
    return _output(run, ctx)


def _output(run: Run, ctx: Any) -> dict[str, Any]:
    """Of a chain that another has started it says which of them it is."""
    child = ctx.job.payload.get("child")
    output = {"delivery": run.grant.number}
    return output if child is None else {**output, "child": child}


async def _raise(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await _pause(seconds)
    raise RuntimeError("as planned")


async def _poison(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await _pause(seconds)
    raise Poison("as planned")


async def _retry_after(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    raise RetryAfter(seconds)


async def _nack(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    return Nack(min(seconds, 0.3))


async def _abandon(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await _pause(seconds)
    return Abandon()


async def _stubborn(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds + 1.5
    while (left := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            if ctx.state.is_dead:
                raise
    return "would not stop"


async def _progress(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    ctx.progress(0.5, "half")
    ctx.log({"delivery": run.grant.number})
    await _pause(seconds)
    ctx.log("done")


async def _extend(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    ctx.extend(LONGER)
    await _pause(seconds)


async def _add(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await _pause(seconds)
    await ctx.add_job("plain", _added_by(run))


async def _transaction(run: Run, ctx: Context, seconds: float, after: float) -> Any:
    try:
        async with ctx.transaction() as tx:
            await ctx.add_job("plain", _written_by(run))
            await _pause(seconds)
            await tx.complete("in its transaction")
            run.commit = "begun"
    except Exception:
        run.commit = "unknown"
        raise
    run.commit = "answered"
    await _pause(after)


async def _open_transaction(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    async with ctx.transaction():
        await ctx.add_job("plain", _added_by(run))
        await _pause(seconds)


async def _rollback(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    async with ctx.transaction() as tx:
        await ctx.add_job("plain", _written_by(run))
        await tx.complete()
        await _pause(seconds)
        raise RuntimeError("as planned, after completing")


async def _cancel_itself(run: Run, ctx: Context, *rest: float) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _kill(run: Run, ctx: Context, seconds: float, *rest: float) -> Any:
    await asyncio.sleep(seconds)
    ctx.state.crash()
    await asyncio.sleep(1e6)


_ACTS: dict[str, Callable[..., Any]] = {
    "return": _return,
    "raise": _raise,
    "poison": _poison,
    "retry_after": _retry_after,
    "nack": _nack,
    "abandon": _abandon,
    "stubborn": _stubborn,
    "progress": _progress,
    "extend": _extend,
    "add": _add,
    "transaction": _transaction,
    "open_transaction": _open_transaction,
    "rollback": _rollback,
    "cancel_itself": _cancel_itself,
    "kill": _kill,
    **dict.fromkeys(chain_handlers.WORDS, chain_handlers.act),
}


async def bare(payload: Any) -> Any:
    """No Context, so that the engine makes none; its answer is all there is to see of it."""
    word, *numbers = payload["acts"][0]
    await _pause(numbers[0])
    if word == "raise":
        raise RuntimeError("as planned")
    if word == "poison":
        raise Poison("as planned")


async def batch(items: Any, ctx: Context) -> Any:
    """One result for each item that is left; the first of them carries the acts."""
    run = _begin(items, ctx)
    if run is None:
        return None
    _, verdicts, seconds = run.act
    try:
        await _pause(seconds)
    except BaseException as error:
        ctx.state.ledger.end(run, _answer(error))
        raise
    results = [Failed("as planned") if verdicts[n % 3] else n for n, _ in enumerate(items)]
    has_failed = any(isinstance(result, Failed) for result in results)
    ctx.state.ledger.end(run, "raise" if has_failed else "return")
    return results


# ── in threads ──


def thread(payload: Any, ctx: Any) -> Any:
    """A plain function: it cannot be stopped, only told."""
    run = _begin(payload, ctx, is_thread=True)
    if run is None:
        return None
    ledger = ctx.state.ledger
    word, seconds, *rest = run.act
    try:
        chain_handlers.look_at_blockers(run, ctx)
        if word in chain_handlers.WORDS:
            answer = chain_handlers.act_in_thread(run, ctx, seconds, rest[-1])
        else:
            answer = _in_thread(word, seconds, run, ctx)
    except Exception as error:
        ledger.end(run, _answer(error))
        raise
    ledger.end(run, _said(answer))
    return answer


def _in_thread(word: str, seconds: float, run: Run, ctx: Any) -> Any:
    match word:
        case "polite":
            for _ in range(20):
                virtual_threads.sleep(0.1)
                if ctx.abort.is_set():
                    raise RuntimeError("told to stop")
            return None
        case "transaction":
            return _transaction_in_thread(run, ctx, seconds)
        case "rollback":
            with ctx.transaction() as tx:
                ctx.add_job("plain", _written_by(run))
                tx.complete()
                raise RuntimeError("as planned, after completing")
        case "progress":
            ctx.progress(0.5, "half")
        case "extend":
            ctx.extend(LONGER)
        case "add":
            ctx.add_job("plain", _added_by(run))
    virtual_threads.sleep(seconds)
    match word:
        case "raise" | "cancel_itself":
            raise RuntimeError("as planned")
        case "poison":
            raise Poison("as planned")
        case "retry_after":
            raise RetryAfter(0.3)
        case "nack":
            return Nack(0.1)
        case "abandon":
            return Abandon()
    return _output(run, ctx)


def _transaction_in_thread(run: Run, ctx: Any, seconds: float) -> None:
    try:
        with ctx.transaction() as tx:
            ctx.add_job("plain", _written_by(run))
            virtual_threads.sleep(seconds)
            tx.complete("in its transaction")
            run.commit = "begun"
    except Exception:
        run.commit = "unknown"
        raise
    run.commit = "answered"
    virtual_threads.sleep(0.2)


def make_registry() -> Registry:
    registry = Registry()
    for name, function, options in (
        ("plain", plain, make_options()),
        ("timed", plain, make_options(timeout=TIMEOUT)),
        ("longer", plain, make_options(lease=LONGER)),
        ("bare", bare, make_options()),
        ("batch", batch, make_options()),
        ("thread", thread, make_options()),
    ):
        registry.add(make_task(name, function, options, None, typed=False))
    return registry
