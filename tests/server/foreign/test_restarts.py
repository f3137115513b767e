"""Servers that stop, are killed, and come back; and what their clients notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.foreign.conftest import STORES, fresh_url
from tests.server.foreign.program import Server, identity, serving, until
from tests.server.foreign.reliable import ReliableWorker
from tests.server.foreign.streams import Ended


def test_a_server_that_stops_tells_its_streams_and_takes_their_results(own: Server) -> None:
    tenant = own.tenant("acme")
    producer, worker, idle = tenant.producer(), tenant.worker(), tenant.worker()
    done, handed_back, not_started = (producer.add("mail", max_attempts=1) for _ in range(3))
    first, second = worker.get("mail"), worker.get("mail")
    worker.ready("letter")
    idle.ready("letter")
    own.terminate()
    for stream in (worker, idle, producer):
        assert stream.take("error").code == "Unavailable"
    assert own.call("GET", "/readyz").status == 503
    assert own.process.poll() is None
    # Nothing is assigned any more, and results are taken.
    worker.ready("mail")
    assert worker.complete(first, b"1").ok
    assert worker.heartbeat(second, 60).ok
    worker.half_close()
    assert own.wait() == 0
    assert "task" not in worker.kinds() + idle.kinds()
    own.close_streams()

    own.start()
    assert own.job(done)["output"] == 1
    worker = own.tenant("acme").worker()
    tasks = worker.get_all(2, "mail")
    assert {task.id for task in tasks} == {handed_back, not_started}
    assert {task.attempts for task in tasks} == {1}


def test_unfinished_tasks_are_handed_back_when_the_grace_is_over(
    file_url: str, tmp_path: Path
) -> None:
    with serving(file_url, tmp_path, "--grace", "1") as server:
        id = server.tenant("acme").producer().add("mail", max_attempts=1)
        worker = server.tenant("acme").worker()
        task = worker.get("mail", lease=3600)
        server.terminate()
        assert worker.take("error").code == "Unavailable"
        worker.end()
        assert server.wait() == 0
        server.start()
        # It went back: the lease of an hour does not keep it from the next worker.
        again = server.tenant("acme").worker().get("mail")
        assert (again.id, again.attempts) == (id, 1)
        late = (
            server.tenant("acme")
            .worker()
            .present("result", task.delivery, task_id=task.id, status="COMPLETED")
        )
        assert (late.ok, late.error_message) == (False, "not-owner")


def test_a_server_with_nothing_open_ends_at_once(file_url: str, tmp_path: Path) -> None:
    with serving(file_url, tmp_path, "--grace", "86400") as server:
        server.terminate()
        assert server.wait() == 0


def test_a_server_does_not_wait_for_streams_that_have_nothing(
    file_url: str, tmp_path: Path
) -> None:
    with serving(file_url, tmp_path, "--grace", "86400") as server:
        worker, producer = server.tenant("acme").worker(), server.tenant("acme").producer()
        worker.ready("mail")
        producer.add("letter")
        server.terminate()
        assert worker.take("error").code == "Unavailable"
        assert server.wait() == 0
        for stream in (worker, producer):
            stream.end()


@pytest.fixture(params=STORES)
def two_servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Over one database; the first gives its streams a second."""
    with (
        fresh_url(request.param, tmp_path) as url,
        serving(url, tmp_path, "--grace", "1") as first,
        serving(url, tmp_path) as second,
    ):
        yield first, second


def test_a_server_that_stops_leaves_alone_what_its_client_has_carried_to_another(
    two_servers: tuple[Server, Server],
) -> None:
    first, second = two_servers
    ids = first.tenant("acme").producer().add_many("mail", 20, max_attempts=1)
    old, new = first.tenant("acme").worker(), second.tenant("acme").worker()
    tasks = {task.id: task for task in old.get_all(20, "mail", lease=600)}
    carried = ids[::4]
    for id in carried:
        assert new.present("heartbeat", tasks[id].delivery, task_id=id, extend_seconds=600).ok
    # The old stream stays open, so the server takes these for its own.
    first.terminate()
    assert old.take("error").code == "Unavailable"
    assert first.wait() == 0
    left = second.tenant("acme").worker().get_all(len(ids) - len(carried), "mail")
    assert {task.id for task in left} == set(ids) - set(carried)
    assert {task.attempts for task in left} == {1}
    for id in carried:
        assert second.job(id)["state"] == "running"
        assert new.present("result", tasks[id].delivery, task_id=id, status="COMPLETED").ok


def test_a_server_does_not_take_back_what_its_client_keeps_at_another(
    two_servers: tuple[Server, Server],
) -> None:
    first, second = two_servers
    carried, left = first.tenant("acme").producer().add_many("mail", 2, max_attempts=1)
    old, new = first.tenant("acme").worker(), second.tenant("acme").worker()
    task = old.get_all(2, "mail", lease=1)
    delivery = {each.id: each.delivery for each in task}[carried]
    assert new.present("heartbeat", delivery, task_id=carried, extend_seconds=600).ok
    # When the other comes back, the deadlines of both have passed on the first server.
    assert second.tenant("acme").worker().get("mail").id == left
    assert new.present("heartbeat", delivery, task_id=carried, extend_seconds=600).ok
    assert new.present("result", delivery, task_id=carried, status="COMPLETED").ok
    assert second.job(carried)["resets"] == 0


def test_a_delivery_is_good_at_a_server_that_was_killed_and_came_back(own: Server) -> None:
    tenant = own.tenant("acme")
    ids = tenant.producer().add_many("mail", 4, max_attempts=1)
    worker = tenant.worker()
    one, two, three, four = worker.get_all(4, "mail", lease=600)
    own.kill()
    with pytest.raises(Ended):
        worker.complete(one)
    own.close_streams()
    own.start()
    worker = own.tenant("acme").worker()
    worker.ready("mail", count=10)
    assert worker.present("heartbeat", one.delivery, task_id=one.id, extend_seconds=60).ok
    assert worker.present("result", one.delivery, task_id=one.id, status="COMPLETED").ok
    assert worker.present("nack", two.delivery, task_id=two.id, delay_seconds=60).ok
    assert worker.present("abandon", three.delivery, task_id=three.id).ok
    # Without its delivery a task is not this stream's.
    ack = worker.complete(four)
    assert (ack.ok, ack.error_message) == (False, "not-owner")
    assert worker.present("result", four.delivery, task_id=four.id, status="COMPLETED").ok
    (again,) = worker.batch()
    assert (again.id, again.attempts) == (ids[2], 1)
    jobs = [own.job(id) for id in ids]
    assert [job["state"] for job in jobs] == ["completed", "failed", "running", "completed"]


def test_another_server_takes_a_delivery_over(own: Server, tmp_path: Path) -> None:
    """A server is killed; the worker goes on at another one over the same database."""
    folder = tmp_path / "second"
    folder.mkdir()
    with serving(own.url, folder) as second:
        first = own.tenant("acme").worker()
        id = own.tenant("acme").producer().add("mail", max_attempts=1)
        task = first.get("mail", lease=600)
        own.kill()
        worker = second.tenant("acme").worker()
        assert worker.present("heartbeat", task.delivery, task_id=id, extend_seconds=600).ok
        assert worker.present("result", task.delivery, task_id=id, status="COMPLETED").ok
        assert second.job(id)["attempts"] == 1


SHORT = {"WINDLASS_LEASE": "3", "WINDLASS_REAP_INTERVAL": "0.5"}


@pytest.mark.parametrize(
    ("jobs", "kills"), [(200, 1), pytest.param(10_000, 5, marks=pytest.mark.rig)]
)
def test_nothing_is_lost_when_servers_are_killed(
    url: str, tmp_path: Path, jobs: int, kills: int
) -> None:
    """Two workers that reconnect; the server is killed in the middle again and again.

    Leases are short: what was claimed and not sent comes back soon, and a worker that is late
    presents deliveries that are old.
    """
    with serving(url, tmp_path, variables=SHORT) as own:
        _kill_again_and_again(own, jobs, kills)


def _kill_again_and_again(own: Server, jobs: int, kills: int) -> None:
    ids = own.tenant("acme").producer().add_many("mail", jobs, max_attempts=1)
    workers = [ReliableWorker(own, "acme", "mail") for _ in range(2)]
    try:
        for worker in workers:
            worker.start()
        for number in range(1, kills + 1):
            part = jobs * number // (kills + 1)
            until("work to be done", lambda: sum(len(w.accepted) for w in workers) >= part)  # noqa: B023
            own.kill()
            own.start()
        until("all jobs to be done", lambda: count(own, "completed") == jobs)
    finally:
        for worker in workers:
            worker.stop()
    accepted = dict(pair for worker in workers for pair in worker.accepted)
    assert sum(len(worker.accepted) for worker in workers) == len(accepted), "one was taken twice"
    for id in ids[:: max(1, jobs // 400)]:
        job = own.job(id)
        assert (job["state"], job["attempts"]) == ("completed", 1)
        # An ack may have been cut off; one that arrived was the truth.
        assert job["output"] == accepted.get(id, bytes.fromhex(job["output"])).hex()
    assert {attempt for worker in workers for attempt in worker.attempts} == {1}
    assert all(worker.connections > 1 for worker in workers)


def count(server: Server, state: str) -> int:
    counts = server.call("GET", "/v1/counts", token=identity("admin"))
    assert counts.status == 200, counts
    return int(counts.body["counts"][state])
