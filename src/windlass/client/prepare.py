"""From what callers ask for to what stores take. Every refusal happens here, before any I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from windlass.clock import to_micros
from windlass.errors import InstantError, PayloadError, ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.job import DEFAULT_TENANT, Carried, JobSpec
from windlass.store.records import NewJob
from windlass.tasks.registry import Registry

_CARRIED = [name for name in Carried.__struct_fields__ if name != "payload"]
"""What a job carries, in the order of NewJob, whose second field is the payload."""
_SAID = {"is_strict": "strict"}
"""What a caller calls otherwise than stores do."""
_NOT_ASKED = {"tenant": DEFAULT_TENANT}
"""What no caller says of a single job: the client knows its tenant."""
assert Carried.__struct_fields__[:2] == ("task", "payload")

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": names.check_queue,
    "max_attempts": names.check_max_attempts,
    "key": names.check_key,
    "priority": lambda priority: 0 if priority is None else names.check_priority(priority),
    "flags": names.check_flags,
    "keep": lambda keep: names.check_seconds(keep, "keep"),
    "meta": payloads.encode_meta,
    "is_strict": names.check_strict,
}
"""How a value is checked, and what the store is given for it; others go as they are."""


class Preparer:
    """Checks a `JobSpec` and its payload, and makes the `NewJob` that a store takes."""

    def __init__(self, registry: Registry, max_payload: Callable[[], int]) -> None:
        """`max_payload` is asked for each call, because `App.configure` may change it."""
        self._registry = registry
        self._max_payload = max_payload

    def prepare(self, specs: Iterable[JobSpec]) -> list[NewJob]:
        """Jobs by task name. The task need not be known here; any JSON payload is accepted."""
        limit = self._max_payload()
        if isinstance(specs, str | bytes) or not isinstance(specs, Iterable):
            raise ValidationError(
                f"specs must be a list of JobSpec, not {names.brief(specs)}", field="specs"
            )
        return [self._checked(spec)(payloads.encode(spec.payload, limit=limit)) for spec in specs]

    def prepare_typed(self, spec: JobSpec, values: Iterable[Any]) -> list[NewJob]:
        """Jobs of a task handle: one spec for all. Each payload must fit the task's function."""
        make = self._checked(spec)
        check = self._registry.get(spec.task).style.check
        limit = self._max_payload()
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise PayloadError(
                f"payloads must be a list of payloads, not {names.brief(values)}", field="payloads"
            )
        new = []
        encode = payloads.encode
        for value in values:
            payload = encode(value, limit=limit)
            check(payload)
            new.append(make(payload))
        return new

    def _checked(self, spec: JobSpec) -> Callable[[str], NewJob]:
        """Check everything but the payload, once; the answer makes the job of one payload.

        The task's own options apply where the spec leaves a value out.
        """
        if not isinstance(spec, JobSpec):
            raise ValidationError(
                f"specs must be a list of JobSpec, and {names.brief(spec)} is none", field="specs"
            )
        task = self._registry.find(names.check_task(spec.task))
        carried: dict[str, Any] = {
            name: _NOT_ASKED[name] if name in _NOT_ASKED else getattr(spec, _SAID.get(name, name))
            for name in _CARRIED
        }
        if task is not None:
            carried["task"] = task.name
            for name in ("queue", "priority", "flags", "max_attempts", "is_strict"):
                if carried[name] is None:
                    carried[name] = getattr(task.options, _SAID.get(name, name))
        if spec.run_at is not None and spec.delay is not None:
            raise InstantError("give run_at or delay, not both", field="run_at")
        for name, check in _CHECKS.items():
            carried[name] = check(carried[name])
        instant = names.check_instant(spec.run_at)
        run_at = None if instant is None else to_micros(instant)
        seconds = names.check_seconds(spec.delay, "delay")
        delay = 0 if seconds is None else round(seconds * 1e6)
        key_mode = names.check_key_mode(spec.key_mode)
        first, *rest = carried.values()  # by position: names would take longer for each job

        def make(payload: str) -> NewJob:
            return NewJob(first, payload, *rest, run_at=run_at, delay=delay, key_mode=key_mode)

        return make
