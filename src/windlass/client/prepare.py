"""From what callers ask for to what stores take. Every refusal happens here, before any I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from windlass.clock import to_micros
from windlass.errors import InstantError, PayloadError, ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.job import DEFAULT_TENANT, Carried, JobSpec
from windlass.store.records import NewChain, NewJob
from windlass.tasks.registry import Registry
from windlass.tasks.task import Task

_CARRIED = [name for name in Carried.__struct_fields__ if name != "payload"]
"""What a job carries, in the order of NewJob, whose second field is the payload."""
_SAID = {"is_strict": "strict"}
"""What a caller calls otherwise than stores do."""
_NOT_ASKED = {"tenant": DEFAULT_TENANT}
"""What no caller says of a single job: the client knows its tenant."""
assert Carried.__struct_fields__[:2] == ("task", "payload")

_HEAD = ("task", "payload")
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": names.check_queue,
    "max_attempts": names.check_max_attempts,
    "key": names.check_key,
    "priority": lambda priority: 0 if priority is None else names.check_priority(priority),
    "flags": names.check_flags,
    "keep": lambda keep: names.check_seconds(keep, "keep"),
    "meta": payloads.encode_meta,
    "is_strict": names.check_strict,
    "on_blocker_failure": names.check_on_blocker_failure,
}
"""How a value is checked, and what the store is given for it; others go as they are."""


_options = attrgetter(*(name for name in JobSpec.__struct_fields__ if name not in _HEAD))
_NO_OPTIONS = _options(JobSpec(""))
_MOST_KNOWN = 1_000
"""Tasks whose jobs without options are checked once; names may come from anywhere."""


class Preparer:
    """Checks a `JobSpec` and its payload, and makes the `NewJob` that a store takes."""

    def __init__(self, registry: Registry, max_payload: Callable[[], int]) -> None:
        """`max_payload` is asked for each call, because `App.configure` may change it."""
        self._registry = registry
        self._max_payload = max_payload
        self._without_options: dict[str, tuple[Task[Any, Any] | None, Callable[[str], NewJob]]] = {}
        """What makes the jobs of a task that are asked for without options, the most of all."""

    def prepare(self, specs: Iterable[JobSpec]) -> list[NewJob]:
        """Jobs by task name. The task need not be known here; any JSON payload is accepted."""
        limit = self._max_payload()
        return [
            self._checked(spec)(payloads.encode(spec.payload, limit=limit))
            for spec in _listed(specs)
        ]

    def prepare_plain(self, task: str, payload: str) -> NewJob:
        """A job by task name, of a payload that is JSON text and has been checked."""
        return self._checked(JobSpec(task))(payload)

    def prepare_any(self, spec: JobSpec) -> NewJob:
        """A job by task name, whose payload must fit the task where this program knows it."""
        make = self._checked(spec)
        payload = payloads.encode(spec.payload, limit=self._max_payload())
        task = self._registry.find(spec.task)
        if task is not None:
            task.style.check(payload)
        return make(payload)

    def prepare_chains(self, specs: Iterable[JobSpec]) -> list[NewChain]:
        """Chains by their first jobs; a job's key is its chain's."""
        new = []
        for spec in _listed(specs):
            _require_spec(spec)
            new.append(self._chain(spec, self.prepare([_first_job(spec)])[0]))
        return new

    def prepare_chain(self, spec: JobSpec, *, is_typed: bool) -> NewChain:
        """The same for one, of a task handle or (where the task is known) of any task."""
        first = _first_job(_require_spec(spec))
        prepared = self.prepare_typed(first, [spec.payload])[0] if is_typed else None
        return self._chain(spec, prepared or self.prepare_any(first))

    def _chain(self, spec: JobSpec, job: NewJob) -> NewChain:
        if spec.key_mode != "replace":
            raise ValidationError("a chain's key has no mode; leave key_mode out", field="key_mode")
        window = names.check_seconds(spec.key_window, "key_window")
        if window and spec.key is None:
            raise ValidationError("key_window needs a key", field="key_window")
        key = names.check_key(spec.key)
        return NewChain(job=job, key=key, key_window=round((window or 0.0) * 1e6))

    def prepare_next(self, spec: JobSpec) -> tuple[NewJob, tuple[str, ...]]:
        """The next job of a chain, and what it inherits from the one before."""
        _require_spec(spec)
        if spec.key is not None:
            raise ValidationError(
                "a job that a chain goes on with has no key; the chain may have one", field="key"
            )
        new = self.prepare_any(spec)
        task = self._registry.find(spec.task)
        by_task = None if task is None else task.options.priority
        priority = by_task if spec.priority is None else spec.priority
        given = {"priority": priority, "meta": spec.meta, "keep": spec.keep}
        return new, tuple(name for name, value in given.items() if value is None)

    def prepare_typed(self, spec: JobSpec, values: Iterable[Any]) -> list[NewJob]:
        """Jobs of a task handle: one spec for all. Each payload must fit the task's function."""
        make = self._checked(spec)
        check = self._registry.get(spec.task).style.check
        limit = self._max_payload()
        new = []
        encode = payloads.encode
        for value in _payloads(values):
            payload = encode(value, limit=limit)
            check(payload)
            new.append(make(payload))
        return new

    def prepare_each_typed(self, specs: Iterable[JobSpec]) -> list[NewJob]:
        """The same for specs that have come through middleware, which may have made them differ."""
        return [self.prepare_typed(spec, [spec.payload])[0] for spec in specs]

    def _checked(self, spec: JobSpec) -> Callable[[str], NewJob]:
        """Check everything but the payload, once; the answer makes the job of one payload.

        The task's own options apply where the spec leaves a value out.
        """
        task = self._registry.find(names.check_task(_require_spec(spec).task))
        is_plain = _options(spec) == _NO_OPTIONS
        if is_plain:
            known, make = self._without_options.get(spec.task, (None, None))
            if make is not None and known is task:
                return make
        make = self._check_all(spec, task)
        if is_plain and len(self._without_options) < _MOST_KNOWN:
            self._without_options[spec.task] = (task, make)
        return make

    def _check_all(self, spec: JobSpec, task: Task[Any, Any] | None) -> Callable[[str], NewJob]:
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
        blockers = names.check_blockers(spec.blockers)
        if spec.key_window is not None:
            raise ValidationError(
                "key_window is for chains: start one, or leave it out", field="key_window"
            )
        first, *rest = carried.values()  # by position: names would take longer for each job

        def make(payload: str) -> NewJob:
            return NewJob(
                first,
                payload,
                *rest,
                run_at=run_at,
                delay=delay,
                key_mode=key_mode,
                blockers=blockers,
            )

        return make


def _listed(specs: object) -> Iterable[JobSpec]:
    if isinstance(specs, str | bytes) or not isinstance(specs, Iterable):
        raise ValidationError(
            f"specs must be a list of JobSpec, not {names.brief(specs)}", field="specs"
        )
    return specs


def checked_specs(specs: object) -> list[JobSpec]:
    """What middleware is called for: specs, and nothing else."""
    return [_require_spec(spec) for spec in _listed(specs)]


def specs_of(spec: JobSpec, values: object) -> list[JobSpec]:
    """The same of a task handle, one for each payload."""
    return [replace(spec, payload=value) for value in _payloads(values)]


def _payloads(values: object) -> Iterable[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise PayloadError(
            f"payloads must be a list of payloads, not {names.brief(values)}", field="payloads"
        )
    return values


def _require_spec(spec: object) -> JobSpec:
    if not isinstance(spec, JobSpec):
        raise ValidationError(
            f"specs must be a list of JobSpec, and {names.brief(spec)} is none", field="specs"
        )
    return spec


def _first_job(spec: JobSpec) -> JobSpec:
    """The first job of a chain, whose key is the chain's and not its own."""
    if spec.key is None and spec.key_mode == "replace" and spec.key_window is None:
        return spec
    return replace(spec, key=None, key_mode="replace", key_window=None)
