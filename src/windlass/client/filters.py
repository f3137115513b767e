"""The words by which operators choose jobs and chains, checked before any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

from windlass.errors import ValidationError
from windlass.model import names
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.records import ChainFilter, JobFilter

S = TypeVar("S", bound=StrEnum)


def make_filter(
    *,
    state: str | Sequence[str] | None = None,
    task: str | None = None,
    queue: str | None = None,
    key: str | None = None,
    ids: Sequence[int] | None = None,
    after: int | None = None,
    limit: int = 100,
    fingerprint: str | None = None,
) -> JobFilter:
    """The filter for these words, each checked."""
    names.check_count(limit, "limit", 1, 10_000)
    if after is not None:
        names.check_count(after, "after", 0, 2**63 - 1)
    if task is not None:
        names.check_any_task(task)
    names.check_queue(queue)
    names.check_key(key)
    return JobFilter(
        states=_states(state, JobState),
        task=task,
        queue=queue,
        key=key,
        ids=None if ids is None else names.check_jobs(ids),
        after=after,
        limit=limit,
        fingerprint=fingerprint,
    )


def make_chain_filter(
    *,
    state: str | Sequence[str] | None = None,
    task: str | None = None,
    limit: int = 50,
    after: int | None = None,
    tenant: str | None = None,
) -> ChainFilter:
    """The same for chains; `task` is that of their first jobs."""
    return ChainFilter(
        states=_states(state, ChainState),
        task=None if task is None else names.check_any_task(task),
        limit=names.check_count(limit, "limit", 1, 10_000),
        after=None if after is None else names.check_count(after, "after", 0, 2**63 - 1),
        tenant=tenant,
    )


def _states(state: object, kind: type[S]) -> tuple[S, ...] | None:
    if state is None:
        return None
    states = [state] if isinstance(state, str) else state
    if isinstance(states, bytes) or not isinstance(states, Iterable):
        raise ValidationError(
            f"state must be a name or a list, not {names.brief(state)}", field="state"
        )
    chosen = []
    for name in states:
        if not isinstance(name, str) or name not in set(kind):
            raise ValidationError(
                f"{names.brief(name)} is not a state; the states are {', '.join(kind)}",
                field="state",
            )
        chosen.append(kind(name))
    return tuple(chosen)
