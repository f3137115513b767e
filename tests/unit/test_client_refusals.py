"""What the client refuses, before it opens the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import App, JobSpec, Next
from windlass.errors import ValidationError
from windlass.model.names import brief

HUGE = 10**5_000
REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a task that is a list": ("task", lambda client: client.add_job([])),
    "a huge priority": ("priority", lambda client: client.add_job("t", priority=HUGE)),
    "a huge count of attempts": ("max_attempts", lambda c: c.add_job("t", max_attempts=-HUGE)),
    "a huge delay": ("delay", lambda client: client.add_job("t", delay=HUGE)),
    "a key mode that is a list": ("key_mode", lambda client: client.add_job("t", key_mode=[])),
    "a dict for a spec": ("specs", lambda client: client.add_jobs([{"task": "t"}])),
    "one spec for many": ("specs", lambda client: client.add_jobs(JobSpec(task="t"))),
    "a key that is a number": ("key", lambda client: client.get_job(key=7)),
    "half a character": ("key", lambda client: client.get_job(key="\ud800")),
    "no key to remove": ("key", lambda client: client.remove_job(None)),
    "an id that is text": ("id", lambda client: client.wait_for("7")),
    "a huge id": ("ids", lambda client: client.cancel_jobs([HUGE])),
    "no ids to delete": ("ids", lambda client: client.delete_jobs(None)),
    "no ids": ("ids", lambda client: client.complete_jobs(None)),
    "a reason that is a number": ("reason", lambda c: c.permanently_fail_jobs([1], 7)),
    "a worker for a list of them": ("ids", lambda client: client.force_unlock_workers("worker-1")),
    "a worker that is a number": ("ids", lambda client: client.force_unlock_workers([7])),
    "a limit that is text": ("limit", lambda client: client.list_jobs(limit="7")),
    "a page after text": ("after", lambda client: client.list_jobs(after="7")),
    "a task with NUL": ("task", lambda client: client.list_jobs(task="a\x00")),
    "a state that is a number": ("state", lambda client: client.list_jobs(state=7)),
    "states that are lists": ("state", lambda client: client.list_jobs(state=[[]])),
    "a state of chains that is a number": ("state", lambda client: client.list_chains(state=7)),
    "a job's state for a chain's": ("state", lambda client: client.list_chains(state="ready")),
    "a page of chains after text": ("after", lambda client: client.list_chains(after="7")),
    "a chain id that is text": ("id", lambda client: client.get_chain("7")),
    "one chain for many": ("ids", lambda client: client.cancel_chains(7)),
    "a blocker for a list of them": ("blockers", lambda client: client.add_job("t", blockers=7)),
    "a blocker that is text": ("blockers", lambda client: client.start_chain("t", blockers=["7"])),
    "a blocker of no chain": ("blockers", lambda client: client.add_job("t", blockers=[0])),
    "a blocker below zero": ("blockers", lambda client: client.add_job("t", blockers=[-1])),
    "a choice that is none": (
        "on_blocker_failure",
        lambda client: client.add_job("t", on_blocker_failure="ignore"),
    ),
    "a key window of a job": ("key_window", lambda c: c.add_job("t", key="k", key_window=60)),
    "a key window without a key": ("key_window", lambda c: c.start_chain("t", key_window=60)),
    "a key mode of a chain": (
        "key_mode",
        lambda client: client.start_chain("t", key="k", key_mode="unsafe_dedupe"),
    ),
    "an output and a continuation": (
        "then",
        lambda client: client.complete_chain(1, "output", then=Next("t")),
    ),
    "a task for a continuation": ("then", lambda client: client.complete_chain(1, then="t")),
    "an output that is not JSON": ("output", lambda client: client.complete_chain(1, object())),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_the_database_is_opened(tmp_path: Path, name: str) -> None:
    field, call = REFUSED[name]
    file = tmp_path / "jobs.db"
    app = App(f"sqlite:///{file}")
    with pytest.raises(ValidationError) as refusal:
        asyncio.run(call(app.client))
    assert refusal.value.field == field
    assert len(str(refusal.value)) < 300
    assert not file.exists()


def test_ids_may_come_from_a_generator() -> None:
    async def scenario() -> None:
        async with App("memory://") as app:
            jobs = await app.client.add_jobs([JobSpec(task="t"), JobSpec(task="t")])
            cancelled = await app.client.cancel_jobs(job.id for job in jobs)  # type: ignore[arg-type]
            assert [job.id for job in cancelled] == [job.id for job in jobs]

    asyncio.run(scenario())


def test_a_value_is_shown_in_short() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    assert brief("a" * 1_000) == "'" + "a" * 79 + "…"
    assert brief(HUGE) == "a value of type int"
    assert brief(Broken()) == "a value of type Broken"
