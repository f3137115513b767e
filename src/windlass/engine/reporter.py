"""Tells of jobs that ended, after their outcome is stored: log, events, `post_handle`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.clock import to_datetime
from windlass.engine.delivery import Delivery
from windlass.engine.handler import EngineHandler, maybe_await
from windlass.engine.tools import Tools
from windlass.errors import PayloadError, RetryAfter, RetryAt
from windlass.model.job import Job, JobState
from windlass.model.outcome import message_of, of_the_handler
from windlass.store.records import Complete, Fail, Outcome, Settled
from windlass.tasks.context import Context, Surroundings

_ENDINGS = (
    *("job:success", "job:error", "job:failed", "job:complete"),
    *("chain:start", "chain:complete", "chain:failed"),
)


class Reporter:
    """Logs outcomes and emits job events. `is_heard` spares reports that nothing would receive."""

    def __init__(self, handler: EngineHandler, around: Surroundings, tools: Tools) -> None:
        self._post_handle = getattr(handler, "post_handle", None)
        self.has_hook = self._post_handle is not None
        self._around = around
        self._events = tools.events
        self._logger = tools.logger
        self._worker = tools.worker

    def is_heard(self) -> bool:
        return self._logger.isEnabledFor(logging.INFO) or any(map(self._events.wants, _ENDINGS))

    def tell(self, delivery: Delivery, settled: Settled) -> None:
        job = delivery.lease.job
        error, outcome = delivery.error, delivery.outcome
        self._log(delivery, job, settled)
        if isinstance(outcome, Complete) or delivery.settled_inside:
            self._events.emit("job:success", worker=self._worker, job=job)
        elif error is not None:
            self._events.emit("job:error", worker=self._worker, job=job, error=error)
            if settled.state is JobState.FAILED:
                self._events.emit("job:failed", worker=self._worker, job=job, error=error)
        self._events.emit("job:complete", worker=self._worker, job=job, error=error)
        self._tell_chain(delivery, job, settled)

    def _tell_chain(self, delivery: Delivery, job: Job, settled: Settled) -> None:
        """What this end means for the job's chain."""
        chain, outcome = delivery.lease.chain, delivery.outcome
        goes_on = isinstance(outcome, Complete) and outcome.next is not None
        state = settled.state
        if delivery.settled_inside:
            inside = delivery.completion
            goes_on, state = inside is not None and inside.next is not None, JobState.COMPLETED
        if goes_on:
            if chain is None:  # it becomes the first job of a chain
                self._events.emit("chain:start", worker=self._worker, chain=job.id, job=job)
        elif chain is None:
            return
        elif state is JobState.COMPLETED:
            self._events.emit("chain:complete", worker=self._worker, chain=chain, job=job)
        elif state is not None and state.is_final:
            error = delivery.error
            self._events.emit(
                "chain:failed", worker=self._worker, chain=chain, job=job, error=error
            )

    async def call_hook(self, delivery: Delivery) -> None:
        """`post_handle`, for every job that was begun, whatever became of it."""
        assert self._post_handle is not None
        context = Context(self._around, delivery)
        try:
            await maybe_await(self._post_handle(context, delivery.record))
        except Exception:  # the user's hook: the job is settled, so only the hook failed
            self._logger.exception(
                "post_handle raised after job %d",
                delivery.lease.job_id,
                extra=delivery.log_fields,
            )

    def _log(self, delivery: Delivery, job: Job, settled: Settled) -> None:
        error, outcome = delivery.error, delivery.outcome
        fields = delivery.log_fields
        if delivery.settled_inside and error is not None:
            self._logger.warning(
                "raised after it had completed in its transaction: %r",
                error,
                extra=fields,
                exc_info=_trace(error),
            )
        match settled.state, outcome:
            case JobState.FAILED, _:
                self._logger.error(
                    "failed for good: %s",
                    _first_line(outcome),
                    extra=fields,
                    exc_info=_trace(error),
                )
            case ((JobState.SCHEDULED | JobState.READY), Fail()):
                self._logger.warning(
                    "attempt %d of %d failed, again %s: %s",
                    job.attempts,
                    job.max_attempts,
                    _when(outcome),
                    _first_line(outcome),
                    extra=fields,
                    exc_info=None if isinstance(error, RetryAfter | RetryAt) else _trace(error),
                )
            case JobState.READY, _:
                self._logger.info("handed back", extra=fields)
            case JobState.CANCELLED, _:
                self._logger.info("cancelled", extra=fields)
            case _:
                took = (asyncio.get_running_loop().time() - delivery.started_at) * 1000
                self._logger.info("completed in %.1f ms", took, extra=fields)


def _trace(error: BaseException | None) -> Any:
    """What a record carries as `exc_info`: the handler's part of the traceback, or None where the
    message says all there is, as for `Failed(…)`, a timeout, or a payload that does not fit."""
    if error is None or isinstance(error, PayloadError):
        return None
    trace = of_the_handler(error.__traceback__)
    if trace is None and error.__cause__ is None and "\n" not in message_of(error):
        return None
    return type(error), error, trace


def _when(outcome: Fail) -> str:
    if outcome.run_at is None:
        return f"in {outcome.delay:.1f} s"
    return f"at {to_datetime(outcome.run_at).isoformat()}"


def _first_line(outcome: Outcome) -> str:
    return outcome.error.split("\n", 1)[0] if isinstance(outcome, Fail) else ""
