"""What a handler asks its chain to go on with, and the chains it starts.

`ctx.continue_with` and `ctx.start` only prepare: everything is checked at once, and stored if and
only if the delivery completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from windlass.errors import PayloadError, ValidationError
from windlass.model import names
from windlass.model.job import JobSpec
from windlass.store.records import Complete, Lease, NewChain, NewJob

if TYPE_CHECKING:
    from windlass.tasks.task import BoundTask, Task


_ALONE = "return it by itself, not inside a list, a tuple or a dict"


class Continuation:
    """The job with which a chain goes on. It counts when the handler of the same delivery returns
    it, by itself, or gives it to `tx.complete(…)`."""

    __slots__ = ("_delivery", "_job")

    not_json_because = f"what ctx.continue_with made is no output; {_ALONE}"

    def __init__(self, delivery: object, job: NewJob) -> None:
        self._delivery = delivery
        self._job = job

    def job_in(self, delivery: object) -> NewJob:
        """The next job; its places for chains that start with it mean those of its delivery."""
        require_own(self._delivery, delivery)
        return self._job


def require_own(made_in: object, delivery: object) -> None:
    """Raises ValidationError for what `ctx.continue_with` made in another delivery."""
    if made_in is not delivery:
        raise ValidationError(
            "what ctx.continue_with made is good only in the delivery that made it; call"
            " ctx.continue_with again for each",
            field="continuation",
        )


UNUSED = (
    "ctx.continue_with was called, but its chain does not go on, because what it made was not"
    f" returned; {_ALONE}"
)


class StartedChain:
    """A chain that starts when this delivery completes. It is good as a blocker of what the same
    delivery goes on with or starts, and for nothing else."""

    __slots__ = ("_delivery", "_place")

    not_json_because = "a chain from ctx.start is no output; it is good as a blocker"

    def __init__(self, delivery: object, place: int) -> None:
        self._delivery = delivery
        self._place = place

    def __repr__(self) -> str:
        return f"<a chain that starts with this delivery, number {-self._place}>"

    def place_in(self, delivery: object) -> int:
        """-1 is the first chain of its delivery, -2 the second."""
        if self._delivery is not delivery:
            raise ValidationError(
                "a chain from ctx.start is a blocker only in the delivery that starts it, for"
                " ctx.start and ctx.continue_with; elsewhere give the id of a chain that is there",
                field="blockers",
            )
        return self._place


def asked(
    task: str | Task[Any, Any] | BoundTask[Any, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    delivery: object,
) -> JobSpec:
    """What a call of `continue_with` or `start` names, with places for chains that it starts."""
    if isinstance(task, str):
        if len(args) > 1:
            raise ValidationError(
                "a task by its name takes one payload; options go by keyword", field="payload"
            )
        if unknown := kwargs.keys() - JobSpec.__struct_fields__:
            name = min(unknown)
            raise ValidationError(
                f"{name} is no option of a job; by its name a task takes its payload as one value:"
                f' {{"{name}": …}}',
                field=name,
            )
        payload = args[0] if args else None
        spec = JobSpec(task=task, payload=payload, **kwargs)
    else:
        # By its method: a module that knows tasks cannot be imported from here.
        spec_of = getattr(task, "spec_of", None)
        if spec_of is None:
            raise ValidationError(
                f"give a task, task.using(…) or a task's name, not {names.brief(task)}",
                field="task",
            )
        spec = spec_of(args, kwargs)
    blockers = spec.blockers
    if blockers is None:
        return spec
    if isinstance(blockers, str | bytes) or not isinstance(blockers, Iterable):
        names.check_blockers(blockers)  # raises, and says why
    return replace(spec, blockers=[_reference(it, delivery) for it in blockers])


def _reference(blocker: Any, delivery: object) -> int:
    if isinstance(blocker, StartedChain):
        return blocker.place_in(delivery)
    return names.check_blocker(blocker)


class _PayloadsOfOthers:
    """A payload that does not fit the next task, or an output that is not JSON, fails the attempt.
    That a job's own payload does not fit is another matter, a PayloadError: no attempt can help
    then."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PayloadError):
            raise ValidationError(str(error), field=error.field) from None


payloads_of_others = _PayloadsOfOthers()


def not_json(error: Exception) -> str:
    """Why the attempt of a chain's job fails whose output cannot be stored."""
    return f"the output of a chain's job must be JSON: {error}"


def completion(
    next_job: NewJob | None,
    output: str | None,
    keep: float | None,
    starts: Sequence[NewChain] | None,
) -> Complete:
    """How a delivery completes that goes on, or starts chains, or both."""
    return Complete(output=output, keep=keep, next=next_job, starts=tuple(starts or ()))


def inherit(new: NewJob, inherits: Sequence[str], lease: Lease) -> NewJob:
    """The next job of a chain has from the one before what it was not given itself."""
    new.tenant = lease.tenant
    for name in inherits:
        setattr(new, name, getattr(lease, name))
    return new
