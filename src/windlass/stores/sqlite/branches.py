"""What a claim reads: one branch per task and owner, each in order, merged by the statement.

An owner is the default tenant (''), all other tenants together (None), or one of these. Each kind
has an index of its own, so that a claim for one tenant reads nothing of another's, and jobs of the
default tenant cost the same whether there are others or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from windlass.model.job import DEFAULT_TENANT
from windlass.model.names import RESERVED
from windlass.store.records import ClaimRequest
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text
from windlass.stores.sqlite.statements import Branches

Owner = str | None
Order = tuple[int, int, int]
"""Priority, run_at and id."""

MOST_BRANCHES = 64
"""Branches of one statement; more are read in several and merged by the caller."""

_tasks = msgspec.json.Decoder(tuple[str, ...]).decode


class Branch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task of an owner, and the place of the best job in it, where that is known."""

    owner: Owner
    task: str
    priority: int = 0
    run_at: int = 0
    id: int = 0

    @property
    def best(self) -> Order:
        return (self.priority, self.run_at, self.id)


_branches = msgspec.json.Decoder(list[Branch]).decode


def owners_of(request: ClaimRequest, *, has_others: bool = True) -> tuple[Owner, ...]:
    """Whose jobs a claim may take; without `has_others` only the default tenant has any."""
    if request.tenants is not None:
        return tuple(dict.fromkeys(request.tenants))
    return (DEFAULT_TENANT, None) if has_others else (DEFAULT_TENANT,)


def with_tasks(db: Session, request: ClaimRequest) -> ClaimRequest:
    """The request with its tasks by name; where it is for every task, those that have jobs which it
    could take, without those of Windlass's own."""
    if request.tasks is not None:
        return request
    values = {
        "owners": json_text(owners_of(request)),
        "waiting": request.past_heads,
        "reserved": RESERVED,
    }
    return msgspec.structs.replace(request, tasks=_tasks(db.value("list_tasks", values)))


def every_branch(owners: Sequence[Owner], tasks: Sequence[str]) -> list[Branch]:
    return [Branch(owner, task) for owner in owners for task in tasks]


def in_order(db: Session, owners: Sequence[Owner], tasks: Sequence[str]) -> Iterator[list[Branch]]:
    """The branches for one statement after the other. Where there are too many for one, those that
    have no job are left out, and those with the best jobs come first."""
    if len(owners) * len(tasks) <= MOST_BRANCHES:
        found = every_branch(owners, tasks)
    else:
        values = {"owners": json_text(owners), "tasks": json_text(tasks)}
        found = _branches(db.value("find_branches", values))
    for start in range(0, len(found), MOST_BRANCHES):
        yield found[start : start + MOST_BRANCHES]


def numbered(branches: Sequence[Branch]) -> tuple[Branches, dict[str, object]]:
    """How many of each kind there are, and the values of their tasks and tenants."""
    of_default = [branch for branch in branches if branch.owner == DEFAULT_TENANT]
    of_others = [branch for branch in branches if branch.owner is None]
    of_one = [branch for branch in branches if branch.owner]
    values: dict[str, object] = {}
    for number, branch in enumerate([*of_default, *of_others, *of_one]):
        values[f"task{number}"] = branch.task
        if branch.owner:
            values[f"tenant{number}"] = branch.owner
    return Branches(len(of_default), len(of_others), len(of_one)), values
