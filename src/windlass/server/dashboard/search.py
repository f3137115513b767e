"""Which jobs a page shows or changes: the words of its address, as the client's words.

Ids rise with time, so a stretch of time is a stretch of ids, found by a few looks at single jobs.
That is exact but for jobs that were added by several programs at once within the same moments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.client import Client
from windlass.model.job import Job, JobState
from windlass.server.dashboard.answers import address
from windlass.server.dashboard.forms import BadForm, Form

BATCH = 1_000
UNKNOWN = "unknown"


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is None or empty does not matter; instants are UTC."""

    states: tuple[str, ...] = ()
    task: str | None = None
    queue: str | None = None
    key: str | None = None
    tenant: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[int, ...] = ()
    error: str | None = None
    """The fingerprint of the error of failed jobs; UNKNOWN for those that have none."""

    @property
    def is_empty(self) -> bool:
        return self == Search()

    @property
    def has_details(self) -> bool:
        """Whether more than a state is asked for."""
        return self != Search(states=self.states)

    def words(self) -> dict[str, Any]:
        """As an address says it; `read` understands it."""
        return {
            "state": self.states,
            "task": self.task,
            "queue": self.queue,
            "key": self.key,
            "tenant": self.tenant,
            "since": _text(self.since),
            "until": _text(self.until),
            "id": self.ids,
            "error": self.error,
        }

    def at(self, path: str, **more: Any) -> str:
        """An address of a page with this search."""
        return address(path, **{**self.words(), **more})

    def with_states(self, *states: str) -> Search:
        return msgspec.structs.replace(self, states=states)

    def filter(self) -> dict[str, Any]:
        """As the client takes it, but for the time and the tenant."""
        return {
            "state": self.states or None,
            "task": self.task,
            "queue": self.queue,
            "key": self.key,
            "ids": self.ids or None,
            "fingerprint": "" if self.error == UNKNOWN else self.error,
        }


def read(form: Form) -> Search:
    """The search that an address or a form names; BadForm if there can be no such."""
    states = tuple(dict.fromkeys(form.all("state")))
    for state in states:
        if state not in set(JobState):
            raise BadForm(f"there is no state {state[:40]!r}; they are: {', '.join(JobState)}")
    return Search(
        states=states,
        task=form.one("task"),
        queue=form.one("queue"),
        key=form.one("key"),
        tenant=form.one("tenant"),
        since=_instant(form, "since"),
        until=_instant(form, "until"),
        ids=tuple(form.numbers("id")),
        error=form.one("error"),
    )


def _instant(form: Form, name: str) -> datetime | None:
    text = form.one(name)
    if text is None:
        return None
    try:
        value = datetime.fromisoformat(text.strip())
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadForm(
            f"{name} must be an instant such as 2026-01-31T12:00 (UTC), not {text[:40]!r}"
        ) from None


def _text(value: datetime | None) -> str | None:
    if value is None:
        return None
    return value.replace(tzinfo=None).isoformat(timespec="seconds" if value.second else "minutes")


class Bounds(msgspec.Struct, frozen=True):
    """The ids of a stretch of time: from `first` on, and below `end` where that is given."""

    first: int = 0
    end: int | None = None


async def bounds(client: Client, search: Search) -> Bounds:
    first = 0 if search.since is None else await _first_since(client, search.since)
    end = None if search.until is None else await _first_since(client, search.until)
    return Bounds(first, end)


async def _first_since(client: Client, instant: datetime) -> int:
    """The id from which on jobs were added then or later; the largest there can be if none was."""

    async def newest_below(id: int | None) -> Job | None:
        found = await client.list_jobs(after=id, limit=1)
        return found[0] if found else None

    newest = await newest_below(None)
    if newest is None or newest.created_at < instant:
        return 2**63 - 1
    low, high = 0, newest.id
    while low < high:  # all below `low` are older, and `high` is not
        middle = (low + high + 1) // 2
        found = await newest_below(middle)
        if found is None or found.created_at < instant:
            low = middle
        else:
            high = found.id
    return high


async def page(
    client: Client, search: Search, within: Bounds, after: int | None, limit: int
) -> list[Job]:
    """The next jobs, the newest first."""
    if within.end is not None:
        after = within.end if after is None else min(after, within.end)
    found = await client.list_jobs(**search.filter(), after=after, limit=limit)
    return [job for job in found if job.id >= within.first]


async def batches(client: Client, search: Search) -> AsyncIterator[list[Job]]:
    """All that a search selects, the newest first; those that are added meanwhile are left out."""
    within = await bounds(client, search)
    after: int | None = None
    while found := await page(client, search, within, after, BATCH):
        yield found
        after = found[-1].id
