"""From what a client says of a delivery to the outcome that a store writes.

Where this server's program knows the task, the task's own options apply, as they would to a worker
of that program.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.engine.outcomes import HandlerFailed
from windlass.model.outcome import clip
from windlass.model.retry import DEFAULT_RETRY, Retry
from windlass.server.streams.texts import json_text
from windlass.store.records import COMPLETE, Complete, Fail, Lease
from windlass.tasks.registry import Registry


class Rulings:
    """`keep` and `max_attempts` are those of jobs and tasks that say nothing, `max_output` is the
    most bytes of an output."""

    def __init__(
        self,
        registry: Registry,
        *,
        retry: Retry = DEFAULT_RETRY,
        max_attempts: int,
        keep: float | None,
        max_output: int,
    ) -> None:
        self._registry = registry
        self._retry = retry
        self._max_attempts = max_attempts
        self._keep = keep
        self._max_output = max_output

    def completed(self, lease: Lease, output: bytes) -> Complete:
        """Raises PayloadError for what is no JSON. Nothing at all is null."""
        text = json_text(output, self._max_output, "result_json") if output else None
        keep = self._keep_of(lease.task)
        return Complete(text, keep) if text is not None or keep else COMPLETE

    def failed(self, lease: Lease, error: str) -> Fail:
        """Tried again by the task's policy, while attempts are left."""
        task = self._registry.find(lease.task)
        retry = (task.options.retry if task is not None else None) or self._retry
        text = clip(error or "failed")
        delay = _delay(retry.delay, lease.attempts, HandlerFailed(text))
        return Fail(text, delay=delay or 0.0, max_attempts=self.most(lease), final=delay is None)

    def nacked(self, lease: Lease, delay: float, reason: str) -> Fail:
        text = clip(reason or f"not now; again after {delay:g} s")
        return Fail(text, delay=delay, max_attempts=self.most(lease))

    def most(self, lease: Lease) -> int:
        """Attempts of a job."""
        if lease.max_attempts is not None:
            return lease.max_attempts
        task = self._registry.find(lease.task)
        own = None if task is None else task.options.max_attempts
        return own or self._max_attempts

    def _keep_of(self, name: str) -> float | None:
        task = self._registry.find(name)
        own = None if task is None else task.options.keep
        return self._keep if own is None else own


def _delay(
    policy: Callable[[int, BaseException], float | None], attempt: int, error: BaseException
) -> float | None:
    try:
        return policy(attempt, error)
    except Exception:  # the user's policy: a broken one must not lose the job
        return DEFAULT_RETRY.delay(attempt, error)
