"""The example in Node.js: installed by npm, and run beside a real server that goes and comes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.doc_pages import README, blocks
from tests.docs.test_examples import Story, commands
from tests.docs.test_examples import environment as shell_environment
from tests.patience import PATIENCE
from tests.server.foreign.program import Server, environment, serving, until, windlass

EXAMPLE = Path(__file__).parents[3] / "examples" / "node"

pytestmark = pytest.mark.rig


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a folder of its own, as its README says."""
    assert shutil.which("npm"), "npm is needed: install Node.js 18 or newer"
    folder = tmp_path_factory.mktemp("node") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "*.proto"))
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--silent")
    subprocess.run(["npm", "install", *quiet], cwd=folder, check=True, timeout=PATIENCE * 2)
    (folder / "windlass.proto").write_text(windlass("proto"))
    return folder


@contextmanager
def node(folder: Path, log: Path, server: Server, token: str, *words: str) -> Iterator[Node]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["node", *words],
            cwd=folder,
            env=environment(WINDLASS_SERVER=server.address, WINDLASS_TOKEN=token),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield Node(process, log)
    finally:
        process.kill()
        process.wait()


class Node:
    """A program and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def printed(self) -> str:
        return self._log.read_text("utf-8")

    def wait_for(self, text: str, times: int = 1) -> None:
        def is_there() -> bool:
            alive = self.process.poll() is None
            return self.printed.count(text) >= times or not alive

        until(f"{text!r} to be printed", is_there)
        assert self.printed.count(text) >= times, self.printed


def produce(folder: Path, server: Server, token: str, *words: str) -> tuple[int, list[str]]:
    """Run the producer to its end; its exit code and the ids of the jobs."""
    ended = subprocess.run(
        ["node", "producer.mjs", *words],
        cwd=folder,
        env=environment(WINDLASS_SERVER=server.address, WINDLASS_TOKEN=token),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return ended.returncode, ended.stdout.split()


def test_the_example_works_and_survives_its_server(
    installed: Path, file_url: str, tmp_path: Path
) -> None:
    with serving(file_url, tmp_path, has_keys=False) as server:
        token = server.make_token("node", "--role", "worker")
        admin = server.make_token("looking", "--role", "admin")
        log = tmp_path / "worker.log"
        with node(installed, log, server, token, "worker.mjs") as worker:
            worker.wait_for("connected as")
            payloads = ('{"name": "Ada"}', '{"name": "Grace"}', "{}")
            code, ids = produce(installed, server, token, "greet", *payloads)
            assert code == 0 and len(ids) == 3
            worker.wait_for("Hello, Ada! (attempt 1)")
            worker.wait_for("Hello, Grace! (attempt 1)")
            worker.wait_for(f"greet {ids[2]}: FAILED")
            until("both to be completed", lambda: states(server, admin, ids[:2]) == {"completed"})
            failed = job(server, admin, ids[2])
            assert (failed["attempts"], failed["state"]) == (1, "scheduled")
            assert "no name" in str(failed["last_error"])
            # The server goes away while a task runs, in the hard way and in the good way.
            for end, name in ((server.kill, "hard"), (server.terminate, "good")):
                _, (slow,) = produce(installed, server, token, "slow", '{"seconds": 3}')
                until(
                    f"the {name} end's task to run",
                    lambda: states(server, admin, [slow]) == {"running"},  # noqa: B023
                )
                end()
                server.wait()
                server.start()
                until(
                    f"the task of the {name} end to be completed",
                    lambda: states(server, admin, [slow]) == {"completed"},  # noqa: B023
                )
                done = job(server, admin, slow)
                assert (done["attempts"], done["output"]) == (1, {"waited": 3})
            until(
                "the worker to be connected again",
                lambda: worker.printed.count("connected as") == 3,
            )
            worker.process.send_signal(signal.SIGTERM)
            assert worker.process.wait(PATIENCE) == 0
        assert produce(installed, server, "wl_wrong", "greet", "{}") == (1, [])


def test_the_readme_shows_how_to_run_it(tmp_path: Path) -> None:
    """Its very commands, in what a clone has: the server, a token, a job, and the worker."""
    shutil.copytree(
        EXAMPLE,
        tmp_path / "examples" / "node",
        ignore=shutil.ignore_patterns("node_modules", "*.proto"),
    )
    [serve, work] = [it for it in blocks(README) if "token" in it.text]
    story = Story(tmp_path)
    try:
        story.tell(serve)
        pasted = [command for command, _ in commands(work)]
        [wanted] = [line for _, shown in commands(work) for line in shown]
        with (tmp_path / "log").open("wb") as log:
            shell = subprocess.Popen(
                ["bash", "-ec", "\n".join(pasted)],
                cwd=tmp_path,
                env={**shell_environment(), "WINDLASS_SERVER": story.reached("127.0.0.1:9091")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                Node(shell, tmp_path / "log").wait_for(wanted)
            finally:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
    finally:
        story.end()


def job(server: Server, token: str, id: str) -> dict[str, object]:
    answer = server.call("GET", f"/v1/jobs/{id}", token=token)
    assert answer.status == 200, answer
    found: dict[str, object] = answer.body
    return found


def states(server: Server, token: str, ids: list[str]) -> set[object]:
    return {job(server, token, id)["state"] for id in ids}


def test_no_file_of_the_example_names_a_host() -> None:
    for file in EXAMPLE.iterdir():
        if file.is_file():
            text = file.read_text("utf-8")
            assert "resolved" not in text and "https://" not in text, file
    assert not (EXAMPLE / "package-lock.json").exists() or os.environ.get("CI") is None
