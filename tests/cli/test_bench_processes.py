"""The processes of the bench: they end with their input, and one that goes wrong is told of."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.remote.serving import serving
from windlass.cli.bench import crew
from windlass.cli.bench.child import Form, Orders, StreamTarget, make_app
from windlass.cli.bench.crew import BenchFailed, Child
from windlass.cli.bench.limit import open_limit, payloads
from windlass.cli.bench.run import check, load
from windlass.cli.bench.served import Served, bare_echo, free_port
from windlass.cli.bench.site import Address
from windlass.cli.bench.stream_client import WorkerTalk
from windlass.wire import windlass_pb2 as wire

WAITS = "import sys; sys.stdin.read()"
FAILS = "raise SystemExit(3)"


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE))


@asynccontextmanager
async def started(text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", text),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        await Child(process).kill()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(f"sqlite:///{tmp_path}/own.db", "windlass", "normal")


# ── the end of the input ──


def test_a_process_of_bare_statements_ends_with_its_input(address: Address) -> None:
    limit = open_limit(address)
    limit.create()
    limit.add(payloads(0, 10))
    limit.close()

    async def main() -> None:
        async with crew.hired("bare", Orders(address)) as [child]:
            await crew.all_ready([child])
            crew.begin([child])
            assert await crew.all_settled([child], 10) > 0
            child.finish()
            await child.wait()

    run(main())


def test_a_worker_ends_with_its_input_and_tells_of_its_claims(address: Address) -> None:
    async def main() -> None:
        async with make_app(address) as app:
            await load(app, 10)
            orders = Orders(address, times_claims=True)
            async with crew.hired("work", orders) as [child]:
                await crew.all_ready([child])
                crew.begin([child])
                await crew.all_settled([child], 10)
                child.finish()
                assert set(await child.hear_of("first_claims")) == {"first_claims", "last_claims"}
                await child.wait()
            await check(app, 0)
            with pytest.raises(BenchFailed, match="10 jobs should be in the database, 0 are"):
                await check(app, 10)

    run(main())


@pytest.mark.parametrize("form", ["singly", "together"])
def test_a_stream_and_its_echo_end_with_their_input(form: Form) -> None:
    async def main() -> None:
        async with bare_echo() as served:
            target = StreamTarget(served.port, form, open_requests=4, is_echo=True)
            orders = Orders(Address("", "", "full"), batch=10, jobs=50, stream=target)
            async with crew.hired("stream", orders) as [child]:
                await crew.all_ready([child])
                crew.begin([child])
                await crew.all_settled([child], 50)
                child.finish()
                await child.wait()

    run(main())


# ── what goes wrong ──


def test_a_process_that_ends_early_is_told_of() -> None:
    async def main() -> None:
        async with started(FAILS) as process:
            with pytest.raises(BenchFailed, match=r"ended early \(exit code 3\)"):
                await Child(process).hear()
            with pytest.raises(BenchFailed, match="ended with exit code 3"):
                await Child(process).wait()

    run(main())


def test_a_process_that_says_nothing_or_does_not_end_is_given_up() -> None:
    async def main() -> None:
        async with started(WAITS) as process:
            with pytest.raises(BenchFailed, match=r"said nothing for 0\.01 s"):
                await Child(process).hear(0.01)
            with pytest.raises(BenchFailed, match=r"did not end in 0\.01 s"):
                await Child(process).wait(0.01)

    run(main())


def test_if_one_process_ends_early_the_others_are_not_waited_for() -> None:
    async def main() -> None:
        async with started(WAITS) as one, started(FAILS) as other:
            with pytest.raises(BenchFailed, match="ended early"):
                await crew.all_settled([Child(one), Child(other)], 10)

    run(main())


def test_a_server_that_ends_early_or_does_not_listen_is_given_up() -> None:
    async def main() -> None:
        async with started(FAILS) as process:
            await process.wait()
            served = Served(process, free_port())
            with pytest.raises(BenchFailed, match=r"a server ended early \(exit code 3\)"):
                await served.until_it_listens()
            assert served.cpu is None
        async with started(WAITS) as process:
            with pytest.raises(BenchFailed, match="did not listen after 0 s"):
                await Served(process, free_port()).until_it_listens(0.0)
        async with started("import time; time.sleep(600)") as process:
            with pytest.raises(BenchFailed, match=r"a server did not end in 0\.01 s"):
                await Served(process, free_port()).finish(0.01)

    run(main())


# ── the foreign worker ──


def test_a_worker_on_a_stream_answers_tasks_and_nothing_else() -> None:
    talk = WorkerTalk(2)
    ready, again = [wire.WorkerEvent.FromString(each) for each in talk.opening()]
    assert ready == again and ready.ready.commands == ["noop"]
    task = wire.WorkerServerEvent(task=wire.TaskAssignment(task=wire.Task(id="7")))
    result, ready = [
        wire.WorkerEvent.FromString(each) for each in talk.answers(task.SerializeToString())
    ]
    assert (result.result.task_id, result.result.status) == ("7", "COMPLETED")
    assert ready == again
    acks = [wire.ResultAck(task_id="7", ok=ok) for ok in (True, False)]
    good, bad = [wire.WorkerServerEvent(result_ack=ack).SerializeToString() for ack in acks]
    assert talk.answers(good) == [] and talk.settled == 1
    with pytest.raises(RuntimeError, match="not expected"):
        talk.answers(bad)
    assert talk.settled == 1


@contextmanager
def deaf() -> Iterator[int]:
    """A port whose connections are closed at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            connection, _ = server.accept()
            while connection.recv(1 << 16):
                connection.shutdown(socket.SHUT_WR)
            connection.close()

        closing = threading.Thread(target=close)
        closing.start()
        yield server.getsockname()[1]
        closing.join(PATIENCE)


def test_a_stream_that_the_server_does_not_take_is_told_of() -> None:
    async def main(port: int) -> None:
        target = StreamTarget(port, "together", open_requests=1)
        orders = Orders(Address("", "", "full"), jobs=1, stream=target)
        async with crew.hired("stream", orders) as [child]:
            with pytest.raises(BenchFailed, match=r"ended early \(exit code 1\)"):
                await crew.all_ready([child])

    with deaf() as port:
        run(main(port))
    with serving("memory://") as server:  # it takes no stream without a token
        run(main(server.port))
