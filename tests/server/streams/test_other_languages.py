"""A client in Node, on grpc-js, against both transports."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from tests.server.streams.desk import run
from tests.server.streams.serving import TRANSPORTS, serving

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node"),
]

PACKAGES = ["@grpc/grpc-js", "@grpc/proto-loader"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    subprocess.run(command, check=True, cwd=folder, timeout=280, capture_output=True)
    return folder / "node_modules"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_grpc_js(modules: Path, transport: str) -> None:
    protocol = files("windlass.wire").joinpath("windlass.proto")

    async def body() -> None:
        async with serving(transport=transport) as it:
            process = await asyncio.create_subprocess_exec(
                "node",
                str(Path(__file__).with_name("conformance.js")),
                str(protocol),
                f"127.0.0.1:{it.server.port}",
                env={**os.environ, "NODE_PATH": str(modules)},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert (process.returncode, output.decode().strip()) == (0, "conforms")
            counts = await it.app.client.counts()
            assert (counts["completed"], sum(counts.values())) == (2_000, 2_000)

    run(body)
