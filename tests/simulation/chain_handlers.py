"""What handlers of chains do: go on, fan out and in, start chains, alone or in a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation import virtual_threads
from tests.simulation.ledger import Run
from windlass import Context


def next_payload(run: Run, ctx: Any, acts: list[Any]) -> dict[str, Any]:
    """What the next job is given: it says from which delivery it comes."""
    payload = {"acts": acts, "went_on_from": [run.grant.job_id, run.grant.number]}
    child = ctx.job.payload.get("child")
    return payload if child is None else {**payload, "child": child}


def _options(run: Run, ctx: Any, what: dict[str, Any]) -> dict[str, Any]:
    """The options of a job that is asked for; its blockers are picked from what there is."""
    names = ("delay", "queue", "on_blocker_failure")
    options: dict[str, Any] = {name: what[name] for name in names if name in what}
    if "blockers" in what:
        options["blockers"] = ctx.state.ledger.chains.pick_all(what["blockers"])
    return options


def go_on(run: Run, ctx: Any, what: dict[str, Any]) -> Any:
    """It may be refused: the chains may be deleted by now, or wait for this one."""
    return ctx.continue_with(
        what["task"], next_payload(run, ctx, what["acts"]), **_options(run, ctx, what)
    )


def loop(run: Run, ctx: Any, left: int) -> Any:
    if left == 0:
        return {"delivery": run.grant.number}
    return ctx.continue_with("plain", next_payload(run, ctx, [["loop", 0.0, 0.0, left - 1]]))


def spawn(run: Run, ctx: Any, what: dict[str, Any]) -> list[Any]:
    """Start one chain for each list of acts."""
    started = []
    for place, acts in enumerate(what["children"]):
        by = [run.grant.job_id, run.grant.number, place]
        payload = {"acts": acts, "started_by": by, "child": place}
        started.append(ctx.start("plain", payload, key=what.get("key")))
    run.starts = 0 if "key" in what else len(started)
    return started


def fan(run: Run, ctx: Any, what: dict[str, Any]) -> Any:
    """Start chains, and go on with a job that waits for them, and perhaps for others."""
    options = _options(run, ctx, what)
    children = spawn(run, ctx, what)
    options["blockers"] = [*children, *options.get("blockers", ())]
    payload = next_payload(run, ctx, what["acts"]) | {"merges": len(children)}
    return ctx.continue_with(what["task"], payload, **options)


PLAIN: dict[str, Callable[..., Any]] = {"go_on": go_on, "loop": loop, "fan": fan}
"""What needs no waiting, and is the same on the event loop and in threads."""


async def act(run: Run, ctx: Context, seconds: float, after: float, what: Any) -> Any:
    """One of these, on the event loop."""
    word = run.act[0]
    if seconds:
        await asyncio.sleep(seconds)
    match word:
        case "spawn":
            spawn(run, ctx, what)
            return {"delivery": run.grant.number}
        case "commit_on":
            try:
                async with ctx.transaction() as tx:
                    await ctx.add_job("plain", _written_by(run))
                    await tx.complete(go_on(run, ctx, what))
                    run.commit = "begun"
            except Exception:
                run.commit = "unknown"
                raise
            run.commit = "answered"
        case "begin_inside":
            try:
                async with ctx.transaction() as tx:
                    await ctx._around.producer.start_chain(  # type: ignore[attr-defined]
                        "plain", {**_written_by(run), "acts": what["acts"]}
                    )
                    await tx.complete()
                    run.commit = "begun"
            except Exception:
                run.commit = "unknown"
                raise
            run.commit = "answered"
        case _:
            return PLAIN[word](run, ctx, what)
    return None


def act_in_thread(run: Run, ctx: Any, seconds: float, what: Any) -> Any:
    """The same in a thread; transactions as `commit_on` alone."""
    word = run.act[0]
    virtual_threads.sleep(seconds)
    match word:
        case "spawn":
            spawn(run, ctx, what)
            return {"delivery": run.grant.number}
        case "commit_on" | "begin_inside":
            try:
                with ctx.transaction() as tx:
                    ctx.add_job("plain", _written_by(run))
                    tx.complete(go_on(run, ctx, what) if word == "commit_on" else None)
                    run.commit = "begun"
            except Exception:
                run.commit = "unknown"
                raise
            run.commit = "answered"
            return None
    return PLAIN[word](run, ctx, what)


WORDS = ("go_on", "loop", "fan", "spawn", "commit_on", "begin_inside")


def _written_by(run: Run) -> dict[str, Any]:
    """A job or chain that exists if and only if the job of this run completed with it."""
    job_id = run.grant.job_id
    return {"acts": [["return", 0.0]], "added_by": job_id, "written_by": job_id}


def look_at_blockers(run: Run, ctx: Any) -> None:
    """A job that merges is shown the chains that were started for it, ended, in their order."""
    payload = ctx.job.payload
    if not isinstance(payload, dict) or "merges" not in payload:
        return
    ledger = ctx.state.ledger
    may_be_open = ctx._delivery.lease.on_blocker_failure == "run"  # retried after it had failed
    found = ctx.blockers[: payload["merges"]]
    if len(found) != payload["merges"]:
        ledger.violate("I7", f"{run} is shown {len(found)} of {payload['merges']} chains")
    for place, chain in enumerate(found):
        output = chain.output
        if chain.state == "open" and not may_be_open:
            ledger.violate("I7", f"{run} is shown chain {chain.id}, which is open")
        elif isinstance(output, dict) and output.get("child", place) != place:
            ledger.violate("I7", f"{run} is shown chain {chain.id} in the place of another")
