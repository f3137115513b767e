"""From what a handler returned or raised to what the store is asked to write."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import Context
from typing import Any

from windlass.clock import Clock, to_micros
from windlass.engine.delivery import Delivery
from windlass.engine.handler import TaskPlan
from windlass.errors import PayloadError, Poison, RetryAfter, RetryAt, ValidationError
from windlass.model import payload as payloads
from windlass.model.names import LONGEST
from windlass.model.outcome import Abandon, Completed, Failed, Nack, clip, describe
from windlass.model.retry import DEFAULT_RETRY
from windlass.store.records import CANCEL, RELEASE, Fail, Outcome
from windlass.tasks.abort import AbortReason
from windlass.tasks.continuing import UNUSED, Continuation, completion, not_json

Complain = Callable[..., None]
"""Takes the delivery it is about, a message and its values."""


class HandlerFailed(Exception):
    """Stands for `Failed(message)` and failed items wherever an exception is expected."""


def is_batch(result: Any, delivery: Delivery) -> bool:
    """Whether a handler returned one result per item of its payload."""
    return isinstance(result, list) and delivery.lease.payload.startswith("[")


def from_result(result: Any, delivery: Delivery, plan: TaskPlan, complain: Complain) -> Outcome:
    """The outcome of a handler that returned."""
    match result:
        case Completed():
            return _completed(result.value, delivery, plan, complain)
        case Failed():
            delivery.error = HandlerFailed(result.message)
            return _failed(delivery.error, delivery, plan, complain, text=str(result.message))
        case Nack():
            reason = str(result.reason) or f"not now; again after {result.seconds:g} s"
            delivery.error = HandlerFailed(reason)
            return Fail(clip(reason), delay=result.seconds, max_attempts=plan.max_attempts)
        case Abandon():
            return RELEASE
        case _:
            return _completed(result, delivery, plan, complain)


def from_error(
    error: BaseException, delivery: Delivery, plan: TaskPlan, clock: Clock, complain: Complain
) -> Outcome:
    """The outcome of a handler that raised, or was stopped; whatever the exception is made of."""
    try:
        return _from_error(error, delivery, plan, clock, complain)
    except BaseException as broken:  # the user's class: asking it anything may raise anything
        complain(delivery, "the exception cannot be looked at (%s)", type(broken).__name__)
        delivery.error = HandlerFailed(f"{type(error).__name__}, which cannot be looked at")
        return _failed(delivery.error, delivery, plan, complain)


def _from_error(
    error: BaseException, delivery: Delivery, plan: TaskPlan, clock: Clock, complain: Complain
) -> Outcome:
    if delivery.settled_inside:  # nothing is left to decide; what it raised is only told
        delivery.error = error if delivery.stopped is None else None
        return plan.complete
    match delivery.stopped:
        case AbortReason.CANCELLED:
            return CANCEL
        case AbortReason.TIMEOUT:
            delivery.error = TimeoutError(f"ran longer than its timeout of {plan.timeout:g} s")
            return _failed(delivery.error, delivery, plan, complain)
        case None:
            pass
        case _:
            return RELEASE
    delivery.error = error
    match error:
        case Poison() | PayloadError():
            return Fail(describe(error), final=True)
        case RetryAfter():
            delay = _bounded(error.seconds)
            return Fail(describe(error), delay=delay, max_attempts=plan.max_attempts)
        case RetryAt():
            run_at = min(to_micros(error.instant), clock.now() + round(LONGEST * 1e6))
            return Fail(describe(error), run_at=run_at, max_attempts=plan.max_attempts)
        case _:
            return _failed(error, delivery, plan, complain)


def _bounded(seconds: float) -> float:
    """What a handler asked for, as far as a store can count: NaN and the past mean now."""
    return min(seconds, LONGEST) if seconds > 0 else 0.0


def from_nothing(delivery: Delivery, plan: TaskPlan, complain: Complain) -> Outcome:
    """The outcome of a handler that returned None, as most do."""
    starts = delivery.starts
    if starts is None:
        return plan.complete
    _tell_unused(delivery, complain)
    return completion(None, None, plan.keep, starts)


def _tell_unused(delivery: Delivery, complain: Complain) -> None:
    """Say so where a chain ends although its handler made something to go on with."""
    if delivery.may_go_on and delivery.completion is None:
        complain(delivery, UNUSED)


def refused(reason: str, delivery: Delivery, plan: TaskPlan, complain: Complain) -> Outcome:
    """The outcome of a handler that asked for what the store cannot do: the attempt has failed."""
    delivery.error = HandlerFailed(reason)
    return _failed(delivery.error, delivery, plan, complain, text=reason)


def _completed(value: Any, delivery: Delivery, plan: TaskPlan, complain: Complain) -> Outcome:
    """An output is encoded only where it is kept: with the job, or with its chain. One that is not
    JSON costs the output alone, or in a chain the attempt, because others may wait for it."""
    if value is None:
        return from_nothing(delivery, plan, complain)
    if isinstance(value, Continuation):
        try:
            next_job = value.job_in(delivery)
        except ValidationError as error:
            return refused(str(error), delivery, plan, complain)
        if delivery.settled_inside:
            complain(
                delivery,
                "the job had completed in its transaction, so its chain does not go on with what"
                " it returned; give that to tx.complete(…)",
            )
        return completion(next_job, None, plan.keep, delivery.starts)
    keep = plan.keep if delivery.lease.keep is None else delivery.lease.keep
    is_in_chain = delivery.lease.chain is not None
    if not keep and not is_in_chain:
        return from_nothing(delivery, plan, complain)
    try:
        text = payloads.encode_value(value, field="output")
    except PayloadError as error:
        if is_in_chain:
            return refused(not_json(error), delivery, plan, complain)
        complain(delivery, "the job is done, but its output cannot be kept: %s", error)
        return from_nothing(delivery, plan, complain)
    _tell_unused(delivery, complain)
    return completion(None, text, plan.keep, delivery.starts)


def _failed(
    error: BaseException,
    delivery: Delivery,
    plan: TaskPlan,
    complain: Complain,
    *,
    text: str | None = None,
    payload: str | None = None,
) -> Outcome:
    try:
        delay = plan.retry.delay(delivery.lease.attempts, error)
    except Exception as broken:  # the user's policy: a broken one must not lose the job
        complain(delivery, "the retry policy failed, using the default: %r", broken)
        delay = DEFAULT_RETRY.delay(delivery.lease.attempts, error)
    return Fail(
        describe(error) if text is None else clip(text),
        delay=delay or 0.0,
        max_attempts=plan.max_attempts,
        final=delay is None,
        payload=payload,
    )


async def from_batch(
    results: list[Any],
    delivery: Delivery,
    plan: TaskPlan,
    complain: Complain,
    variables: Context,
) -> Outcome:
    """An array payload and a list: only the failed items stay for the retry.

    Results that are awaitables run here, in the context of their handler.
    """
    items = payloads.decode(delivery.lease.payload)
    create_task = asyncio.get_running_loop().create_task
    answered = asyncio.gather(*(create_task(_item(r), context=variables.copy()) for r in results))
    if len(results) != len(items):
        text = "returned %d results for %d items, so all count as done"
        complain(delivery, text, len(results), len(items))
        answers = await answered
        return _completed([value for value, _ in answers], delivery, plan, complain)
    answers = await answered
    failed = [(item, error) for item, (_, error) in zip(items, answers, strict=True) if error]
    if not failed:
        return _completed([value for value, _ in answers], delivery, plan, complain)
    text = "\n".join(
        [f"{len(failed)} of {len(items)} items failed", *(describe(e) for _, e in failed[:5])]
    )
    delivery.error = HandlerFailed(text)
    rest = payloads.encode_value([item for item, _ in failed])
    return _failed(delivery.error, delivery, plan, complain, text=text, payload=rest)


async def _item(result: Any) -> tuple[Any, BaseException | None]:
    try:
        value = await result if inspect.isawaitable(result) else result
    except Exception as error:  # one item's failure is that item's outcome
        return None, error
    if isinstance(value, Failed):
        return None, HandlerFailed(value.message)
    if isinstance(value, BaseException):
        return None, value
    return value, None
