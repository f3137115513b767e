"""The examples in `examples/curl` work against a real server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.program import wait_until
from tests.patience import PATIENCE
from tests.server.served import Served

EXAMPLES = Path(__file__).parents[3] / "examples" / "curl"


def environment(served: Served, *roles: str) -> dict[str, str]:
    token = served.token(*roles)
    return {**os.environ, "WINDLASS_REST": served.rest, "WINDLASS_TOKEN": token}


@contextmanager
def worker(served: Served, *words: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The worker of the examples; it is told to stop at the end."""
    process = subprocess.Popen(
        [str(EXAMPLES / "worker.sh"), *words],
        env={**environment(served, "worker"), **more},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def command(folder: Path, text: str) -> str:
    file = folder / "command.sh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def add(served: Served, task: str, payload: Any) -> tuple[int, Any]:
    """The exit code of `add.sh`, and the job that it printed."""
    done = subprocess.run(
        [str(EXAMPLES / "add.sh"), task, json.dumps(payload)],
        env=environment(served, "producer"),
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def readme_command() -> str:
    text = (EXAMPLES / "README.md").read_text()
    return text.split("```sh\n#!/bin/sh\n", 1)[1].split("```", 1)[0]


def test_a_job_goes_from_one_script_to_the_other(served: Served, tmp_path: Path) -> None:
    with worker(served, "resize", command(tmp_path, readme_command())):
        code, job = add(served, "resize", {"width": 100})
        assert (code, job["state"], job["output"]) == (0, "completed", {"resized_to": 100})


def test_a_command_that_fails_fails_the_attempt(served: Served, tmp_path: Path) -> None:
    text = "echo 'no \"such\" file: C:\\x' >&2; exit 3"
    with served.caller(served.token("producer")) as caller:
        job = caller.post("/v1/jobs", json={"task": "fails", "max_attempts": 1}).json()
        with worker(served, "fails", command(tmp_path, text)):
            told = caller.get(f"/v1/jobs/{job['id']}/result", params={"wait": 60}).json()
    assert told["state"] == "failed"
    assert told["last_error"].strip() == 'exit code 3: no "such" file: C:\\x'


def test_an_output_that_is_no_json_fails_the_attempt(served: Served, tmp_path: Path) -> None:
    with served.caller(served.token("producer")) as caller:
        job = caller.post("/v1/jobs", json={"task": "prints", "max_attempts": 1}).json()
        with worker(served, "prints", command(tmp_path, "echo done and dusted")):
            told = caller.get(f"/v1/jobs/{job['id']}/result", params={"wait": 60}).json()
    assert (told["state"], told["last_error"]) == ("failed", "the command printed what is no JSON")


def test_a_worker_that_stops_hands_its_job_back(served: Served, tmp_path: Path) -> None:
    with served.caller(served.token("producer")) as caller:
        job = caller.post("/v1/jobs", json={"task": "long"}).json()
        begun = tmp_path / "begun"
        with worker(served, "long", command(tmp_path, f"touch {begun}; exec sleep 600")):
            wait_until("the command runs", begun.exists)
        told = caller.get(f"/v1/jobs/{job['id']}").json()
        assert (told["state"], told["attempts"], told["deliveries"]) == ("ready", 0, 1)
