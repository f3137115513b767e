"""Handlers that stop the whole process, or make a second one of it."""

from __future__ import annotations

import signal

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
