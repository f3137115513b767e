"""Executable files as tasks: the payload on standard input, exit code 0 means done.

Standard output goes to the log as information, standard error as errors; the end of the latter is
part of the failure's message. A job that is told to stop has its program terminated, then killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from windlass.tasks.context import Context

_TAIL = 2_000
_PATIENCE = 2.0
_LONGEST_LINE = 1024 * 1024


class ProgramFailed(Exception):
    """The program ended with another code than 0."""


def executable_task(path: Path) -> Callable[[Any, Context], Coroutine[Any, Any, None]]:
    program = str(path.resolve())

    async def run(payload: Any, helpers: Context) -> None:
        process = await asyncio.create_subprocess_exec(
            program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **_environment(helpers)},
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        try:
            _, _, complaints = await asyncio.gather(
                _feed(process.stdin, msgspec.json.encode(payload)),
                _follow(process.stdout, helpers.logger.info),
                _follow(process.stderr, helpers.logger.error),
            )
            code = await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(_end(process))
        if code != 0:
            raise ProgramFailed(f"{path.name} exited with {code}\n{complaints[-_TAIL:]}".rstrip())

    run.__module__ = __name__
    return run


def _environment(helpers: Context) -> dict[str, str]:
    job = helpers.job
    return {
        "WINDLASS_PAYLOAD_FORMAT": "json",
        "WINDLASS_TASK": job.task,
        "WINDLASS_JOB_ID": str(job.id),
        "WINDLASS_JOB_KEY": job.key or "",
        "WINDLASS_JOB_ATTEMPTS": str(job.attempts),
        "WINDLASS_JOB_MAX_ATTEMPTS": str(job.max_attempts),
        "WINDLASS_JOB_PRIORITY": str(job.priority),
        "WINDLASS_JOB_RUN_AT": job.run_at.isoformat(),
    }


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    if stdin is None:
        return
    try:
        stdin.write(data)
        await stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the program does not read its input, which is its right
    finally:
        stdin.close()


async def _follow(stream: asyncio.StreamReader | None, log: Callable[..., None]) -> str:
    """Log each line as it comes; the end of what was said."""
    said = ""
    while stream is not None and (line := await stream.readline()):
        text = line.decode("utf-8", "replace").rstrip("\n")
        log("%s", text)
        said = f"{said}{text}\n"[-2 * _TAIL :]
    return said


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the program and whatever it started, then kill what is left."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        await asyncio.wait_for(process.wait(), _PATIENCE)
    except TimeoutError:
        pass
    except ProcessLookupError:
        await process.wait()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the program may be gone and its children not
    except ProcessLookupError:
        pass
    await process.wait()
