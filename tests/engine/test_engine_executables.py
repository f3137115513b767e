"""Executable tasks that are stopped take their children with them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.patience import PATIENCE
from windlass import App

SCRIPT = """#!/bin/sh
sleep 600 &
echo $! > child.pid
wait
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    program = tmp_path / "tasks" / "slow"
    program.parent.mkdir()
    program.write_text(SCRIPT)
    program.chmod(0o755)

    async def body() -> int:
        async with App("memory://", task_directory=tmp_path / "tasks") as app:
            runner = await app.run(handle_signals=False)
            job = await app.client.add_job("slow")
            note = tmp_path / "child.pid"
            while not (note.exists() and note.read_text().strip()):
                await asyncio.sleep(0.01)
            await app.client.cancel_jobs([job.id])
            while (found := await app.client.get_job(job.id)) and not found.state.is_final:
                await asyncio.sleep(0.01)
            await runner.stop()
            return int(note.read_text())

    home = Path.cwd()
    os.chdir(tmp_path)
    try:
        child = asyncio.run(asyncio.wait_for(body(), PATIENCE))
    finally:
        os.chdir(home)
    assert not is_running(child)
