"""The child's side of a process, run here over a real pipe."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_tasks
from windlass.engine import child, wire
from windlass.model import payload as payloads
from windlass.store import rules
from windlass.store.records import Lease, NewJob, lease_of


def lease(payload: Any, task: str = "work") -> Lease:
    row = rules.new_row(NewJob(task, payloads.encode(payload)), 0, 1)
    row.worker, row.token = "w", 2
    row.attempts = row.deliveries = 1
    return lease_of(row)


def reference(name: str) -> wire.FunctionRef:
    return wire.FunctionRef("tests.engine.process_tasks", name, None, True)


class Parent:
    """The worker's end: sends one job, answers AddJobs, collects the rest."""

    def __init__(self, *calls: wire.RunJob, answer: wire.Answer | None = None) -> None:
        self.pipe, self.theirs = Pipe()
        self.calls = calls
        self.answer = answer or wire.Answer(error="queue must not be empty")
        self.heard: list[Any] = []
        self.thread = threading.Thread(target=self.serve)

    def serve(self) -> None:
        for call in self.calls:
            self.pipe.send_bytes(wire.encode(call))
            while True:
                message = wire.decode_for_worker(self.pipe.recv_bytes())
                self.heard.append(message)
                if isinstance(message, wire.AddJobs):
                    self.pipe.send_bytes(wire.encode(self.answer))
                elif not isinstance(message, wire.Said):
                    break
        self.pipe.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    handled: list[int] = []
    monkeypatch.setattr(signal, "signal", lambda number, action: handled.append(number))

    def run(*calls: wire.RunJob, **options: Any) -> list[Any]:
        parent = Parent(*calls, **options)
        parent.thread.start()
        child.child_main(parent.theirs)
        parent.thread.join()
        parent.theirs.close()
        assert handled[:2] == [signal.SIGINT, signal.SIGTERM], "they are the parent's business"
        return parent.heard

    return run


def call(kind: str) -> wire.RunJob:
    return wire.RunJob(reference("work"), lease({"kind": kind}), "w")


def test_each_end_is_told(serve: Any) -> None:
    kinds = ("completed", "failed", "nack", "abandon", "not json", "poison", "retry after")
    heard = serve(*map(call, kinds), call("retry at"), call("system exit"))
    assert [message.kind for message in heard[:5]] == ["Completed", "Failed", "Nack", "Abandon", ""]
    assert [message.value for message in heard[:5]] == [
        [1, 2],
        "as told",
        [3600, "later"],
        None,
        None,
    ]
    raised = heard[5:]
    assert [message.qualname for message in raised] == [
        "Poison",
        "RetryAfter",
        "RetryAt",
        "SystemExit",
    ]
    assert raised[1].number == 3600.0
    assert raised[2].number == 4070908800.0


def test_what_a_job_says_is_passed_on(serve: Any) -> None:
    heard = serve(call("says"))
    assert [type(message).__name__ for message in heard] == ["Said"] * 3 + ["AddJobs", "Raised"]
    assert heard[0].progress == '[0.5,"half"]'
    assert heard[2].extend == 60.0
    assert "queue must not be empty" in heard[-1].message


def test_a_worker_that_does_not_answer(serve: Any) -> None:
    heard = serve(call("says"), answer=wire.Answer(jobs=[]))
    assert heard[-1].qualname == "IndexError"


def test_there_is_no_database_in_a_child(serve: Any) -> None:
    [message] = serve(call("no database"))
    assert len(message.value) == 3


def test_coroutines_and_items(serve: Any) -> None:
    heard = serve(
        wire.RunJob(reference("coroutine"), lease({"number": 4}), "w"),
        wire.RunJob(reference("items"), lease([0, 1, 2, 3, 6]), "w"),
    )
    assert heard[0].value == 8
    assert [type(item).__name__ for item in heard[1].items] == [
        "Raised", "Returned", "Returned", "Returned", "Raised",
    ]  # fmt: skip
    assert [item.kind for item in heard[1].items[1:4]] == ["Failed", "", ""]


def test_where_functions_are_found(serve: Any, tmp_path: Path) -> None:
    file = tmp_path / "hello.py"
    file.write_text("def task(payload, helpers): return [payload, helpers.job.id]")
    nowhere = wire.FunctionRef("tests.engine.process_tasks", "nothing", None, True)
    heard = serve(
        wire.RunJob(wire.FunctionRef("x", "task", str(file), False), lease({"a": 1}), "w"),
        wire.RunJob(nowhere, lease({}), "w"),
        wire.RunJob(reference("work"), lease({"kind": 5}), "w"),
    )
    assert heard[0].value == [{"a": 1}, 1]
    assert heard[1].qualname == "AttributeError"
    assert heard[2].qualname == "PayloadError"


def test_a_decorated_name_leads_to_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from windlass import App

    task = App("memory://").task(process_tasks.coroutine)
    monkeypatch.setattr(process_tasks, "decorated", task, raising=False)
    found = child._find(reference("decorated"))
    assert found is process_tasks.coroutine


def test_a_child_without_a_parent_follows_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    child._follow_parent()

    class Gone:
        sentinel = 7

    ended: list[int] = []
    monkeypatch.setattr(child, "parent_process", Gone)
    monkeypatch.setattr(child, "wait", lambda sentinels: sentinels)
    monkeypatch.setattr(os, "_exit", ended.append)
    child._follow_parent()
    assert ended == [1]
