"""Streams that wait: they cost nothing, and get their job when it comes."""

from __future__ import annotations

import re
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.cluster import Cluster
from tests.server.foreign import http2
from tests.server.foreign.program import Server, Tenant, identity, serving, until
from tests.server.foreign.streams import Worker
from tests.server.foreign.wire import WORKER, Message, workerpb

STREAMS = 50


@pytest.mark.rig
def test_a_worker_that_was_idle_for_90_s_gets_its_next_job(tenant: Tenant) -> None:
    worker, producer = tenant.worker(), tenant.producer()
    producer.add("mail")
    assert worker.complete(worker.get("mail")).ok
    worker.ready("mail")
    worker.ready("mail", count=10)
    with pytest.raises(TimeoutError):
        worker.take("task", patience=90)
    ids = producer.add_many("mail", 2)
    assert {worker.task().id, worker.batch()[0].id} == set(ids)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Server]]:
    """A server over a database that writes down every statement it is sent."""
    folder = tmp_path_factory.mktemp("counting")
    with Cluster.create(18, log_statement="all") as cluster:
        url = cluster.create_database("counted")
        with serving(url, folder) as server:
            yield cluster, server


@pytest.mark.parametrize("alike", [True, False], ids=["one-command", "a-command-each"])
def test_one_job_for_fifty_idle_streams_costs_three_claims_at_most(
    counting: tuple[Cluster, Server], alike: bool
) -> None:
    cluster, server = counting
    tenant = server.tenant("alike" if alike else "each")
    commands = ["mail" if alike else f"mail-{n}" for n in range(STREAMS)]
    workers = [tenant.worker(f"worker-{n}") for n in range(STREAMS)]
    producer = tenant.producer()
    try:
        for worker, command in zip(workers, commands, strict=True):
            worker.ready(command)
            # A Ready that has been heard: the next event is answered after it.
            assert worker.settle([]) == []
        rest(cluster)
        before = len(cluster.log())
        id = producer.add(commands[7])
        _, task = first_task(workers)
        assert task.id == id
        claims = claims_in(cluster.log()[before:])
        assert 1 <= len(claims) <= 3, claims
    finally:
        server.close_streams()


def claims_in(log: str) -> list[str]:
    """The calls of SQL functions that claim jobs, those of the server's own upkeep among them."""
    return re.findall(r"\b_?claim\w*\"?\s*\((?<!able\()", log)


def rest(cluster: Cluster) -> None:
    """Wait until the claims of new Readys are over: for half a second there was none."""
    length, since = -1, 0.0

    def is_quiet() -> bool:
        nonlocal length, since
        now = len(claims_in(cluster.log()))
        if now != length:
            length, since = now, time.monotonic()
        return time.monotonic() - since > 0.5

    until("claims to rest", is_quiet)


def first_task(workers: list[Worker]) -> tuple[Worker, Message]:
    """Of whichever stream gets one."""

    def look() -> tuple[Worker, Message] | None:
        for worker in workers:
            if "task" in worker.kinds():
                return worker, worker.task()
        return None

    return until("a task for one of the streams", look)


@pytest.mark.rig
def test_idle_streams_cost_next_to_nothing(file_url: str, tmp_path: Path) -> None:
    """200 streams with 20 open Readys each, for 20 s: 2 % of a core, 200 MB."""
    with serving(file_url, tmp_path) as server:
        workers = [server.tenant("acme").worker() for _ in range(200)]
        for number, worker in enumerate(workers):
            for each in range(20):
                worker.ready("mail", f"mail-{number % 10}-{each % 4}")
            assert worker.settle([]) == []
        stat = Path(f"/proc/{server.process.pid}/stat")
        before = cpu(stat)
        with pytest.raises(TimeoutError):
            workers[0].take("task", patience=20)
        assert (cpu(stat) - before) / 20 <= 0.02
        assert resident(server.process.pid) <= 200e6
        server.tenant("acme").producer().add("mail")
        first_task(workers)


def cpu(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident(pid: int) -> float:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_a_client_that_does_not_read_is_not_buffered_for(server: Server, tenant: Tenant) -> None:
    """It is sent what fits between the two programs; the rest goes to a worker that reads, though
    the other one asked first."""
    producer, good = tenant.producer(), tenant.worker()
    hello = workerpb.Hello(token=identity("worker", tenant.name), worker_id="deaf")
    ready = workerpb.Ready(commands=["mail"], lease_seconds=3600)
    said = [workerpb.WorkerEvent(hello=hello), *[workerpb.WorkerEvent(ready=ready)] * 60]
    body = b"".join(http2.message(event.SerializeToString()) for event in said)
    with socket.create_connection((server.host, server.grpc_port)) as deaf:
        opened = http2.PREFACE + http2.SETTINGS + http2.request(WORKER.encode())
        deaf.sendall(opened + http2.frame(0, 0, 1, body))
        large = b'"' + b"x" * 900_000 + b'"'
        server.until_job(producer.add("mail", large), "running")
        ids = producer.add_many("mail", 30)
        tasks = good.get_all(30, "mail")
    assert {task.id for task in tasks} == set(ids)
