"""Handlers that stop the whole process, or make a second one of it."""

from __future__ import annotations

import signal

import pytest

from tests.cli.program import Program, wait_until

STALLS = """
import asyncio, ctypes, os
from windlass import App
from work import mark

app = App(lease=1.5, reap_interval=0.2, max_resets=3, grace=0.1)
interpreter = ctypes.PyDLL(None)  # calls through it keep the interpreter to themselves


@app.task
async def holds():
    mark(f"holds begins {os.getpid()}")
    interpreter.usleep(3_500_000)


@app.task
async def neighbour(n: int):
    for _ in range(20):
        await asyncio.sleep(0.1)
    mark(f"neighbour {n} ends")
"""


FORKS = """
import asyncio, os, sys
from windlass import App
from work import mark

app = App()


@app.task
async def quick(n: int):
    mark(f"quick {n} {os.getpid()}")


def fork():
    sys.stdout.flush()
    return os.fork()


async def parent(pid):
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    mark(f"child ended with {os.waitstatus_to_exitcode(status)}")


@app.task
async def returns():
    if pid := fork():
        await parent(pid)


@app.task
async def awaits():
    if pid := fork():
        await parent(pid)
    else:
        await asyncio.sleep(0)
        mark("the child goes on")


@app.task
async def awaits_first():
    await asyncio.sleep(0)
    if pid := fork():
        await parent(pid)
    else:
        await asyncio.sleep(0)
        mark("the child goes on")


@app.task
async def raises():
    if pid := fork():
        await parent(pid)
    else:
        raise ValueError("in the child")


@app.task
async def exits():
    if pid := fork():
        await parent(pid)
    else:
        sys.exit(7)


@app.task
async def in_a_task():
    pid = await asyncio.create_task(in_task())
    await parent(pid)


async def in_task():
    return fork()


@app.task
async def in_a_callback():
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: done.set_result(fork()))
    await parent(await done)


@app.task
def in_a_thread():
    if pid := fork():
        asyncio.run(parent(pid))


@app.task(executor="process")
def in_a_process():
    if pid := fork():
        asyncio.run(parent(pid))
"""


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ("returns", 0),
        ("awaits", 0),
        ("awaits_first", 0),
        ("raises", 1),
        ("exits", 7),
        ("in_a_task", 0),
        ("in_a_callback", 0),
        ("in_a_thread", 0),
        ("in_a_process", 0),
    ],
)
def test_a_forked_child_is_no_worker(program: Program, task: str, code: int) -> None:
    program.write("forks.py", FORKS)
    program.add(task)
    worker = program.start("run", "forks:app")
    wait_until("the child to end", lambda: f"child ended with {code}" in program.ran())
    for n in range(3):
        program.add("quick", {"n": n})
    wait_until("all jobs to run", lambda: not program.jobs())
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    ran = sorted(line for line in program.ran() if line.startswith("quick"))
    assert ran == [f"quick {n} {worker.pid}" for n in range(3)], "each once, in the worker"
    assert "the child goes on" not in program.ran()
    assert worker.count("forked this process") == (0 if task == "exits" else 1)


@pytest.mark.slow
def test_a_job_that_stops_its_worker_for_longer_than_a_lease_is_parked_alone(
    program: Program,
) -> None:
    """The two workers take over from one another what the other lost; only the job is to blame."""
    program.write("stalls.py", STALLS)
    neighbours = [program.add("neighbour", {"n": n}) for n in range(2)]
    job = program.add("holds")
    workers = [program.start("run", "stalls:app", "-j", "4") for _ in range(2)]
    wait_until("the job to be parked", lambda: program.job(job.id).state == "failed")
    found = program.job(job.id)
    assert found.resets == 3
    assert "its worker died 3 times while this job ran" in (found.last_error or "")
    wait_until("its neighbours to complete", lambda: len(program.jobs()) == 1)
    ended = {line for line in program.ran() if line.startswith("neighbour")}
    assert ended == {f"neighbour {n} ends" for n in range(len(neighbours))}
    for worker in workers:
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
