"""Every example of README.md and docs/ is run as a reader would run it.

A page is one story: its blocks run from top to bottom in one empty folder. Readers see none of
the marks, which are HTML comments right before a block.

Python
    A block whose first line names a file (`# hello.py`) is that file, and is loaded once to see
    that it can be (without its `__main__` part). Any other block is run at once; `await` may
    stand at its top level. `<!-- test: setup` … `-->` holds Python that runs before each of the
    unnamed blocks after it. Text after `# → ` must be printed, in that order.

Console
    Lines that begin with `$ ` are commands; the lines below a command must be in its output, in
    that order, where `…` stands for anything and spaces do not count. A command must end with 0,
    or with N under `<!-- test: exit N -->`. `windlass run` that does not end by itself gets a
    SIGTERM when what is shown was seen (or, under `<!-- test: until TEXT -->`, that text; or, if
    neither is there, when a job has completed), and must then end with 0. `windlass serve` is
    left running until the end of the page, on free ports: where the page says 8080 and 9091, its
    ports are meant. Commands that set up a machine (make, pip, sudo, systemctl) are not run.

`<!-- test: file NAME -->` makes any block that file, executable if it begins with `#!`.
`<!-- test: skip because REASON -->` skips a block; the reason is needed.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.doc_pages import README, RUNNABLE, Block, Setup, blocks, pages, parts
from tests.patience import PATIENCE

CHILD = Path(__file__).with_name("block_child.py")
LOAD = "import runpy, sys; sys.path.insert(0, ''); runpy.run_path(sys.argv[1], run_name='loaded')"
MACHINE = ("make", "pip", "sudo", "systemctl")

FIRST = ("README.md", "quickstart.md")
"""What a newcomer reads is run by `make test`; the other pages are left to `make test-all`."""

PAGES = [
    pytest.param(page, id=page.name, marks=[] if page.name in FIRST else [pytest.mark.slow])
    for page in pages()
    if any(b.language in RUNNABLE for b in blocks(page))
]


def environment() -> dict[str, str]:
    """A stranger's shell: this Python's programs on the path, nothing said to Windlass."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WINDLASS", "_WINDLASS", "PG", "PYTHON", "PYTEST", "COV"))
    }
    kept.pop("DATABASE_URL", None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"}


def assert_shown(expected: list[str], output: str, where: object) -> None:
    missing = first_missing(expected, output)
    assert missing is None, f"{where}: {missing!r} was not printed; the output was:\n{output}"


def first_missing(expected: list[str], output: str) -> str | None:
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for wanted in expected:
        pieces = re.split(" ?… ?", " ".join(wanted.split()))
        pattern = ".*".join(map(re.escape, pieces))
        if not any(re.search(pattern, line) for line in lines):
            return wanted
    return None


class Story:
    """The blocks of one page, run one after another in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.setup = ""
        self.output = ""
        self.server: Server | None = None

    def tell(self, part: Block | Setup) -> None:
        match part:
            case Setup():
                self.setup = part.text
            case Block(is_skipped=True):
                assert re.fullmatch(r"skip because .{10,}", part.mark), (
                    f"{part}: why is it skipped?"
                )
            case Block() if part.file_name is not None:
                self.write(part, part.file_name)
            case Block(language="python"):
                self.run_python(part)
            case Block(language="console"):
                for command, shown in commands(part):
                    self.run_command(part, command, shown)

    def write(self, block: Block, name: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self.reached(block.text)}\n", encoding="utf-8")
        if block.text.startswith("#!"):
            file.chmod(0o755)
        if name.endswith(".py"):
            self.finish(block, [sys.executable, "-W", "error", "-c", LOAD, name], "")

    def run_python(self, block: Block) -> None:
        said = json.dumps([self.setup, self.reached(block.text)])
        output = self.finish(block, [sys.executable, "-W", "error", str(CHILD), str(block)], said)
        assert_shown(re.findall(r"# → (.*)$", block.text, re.MULTILINE), output, block)

    def run_command(self, block: Block, command: str, shown: list[str]) -> None:
        words = command.split()
        if words[0] in MACHINE:
            return
        if words[:2] == ["windlass", "run"] and not {"--once", "--schema-only"} & set(words):
            self.run_until(block, command, shown)
            return
        if words[:2] == ["windlass", "serve"] and "--help" not in words:
            self.end()
            self.server = Server(command, self.folder)
            self.server.wait_for(shown or ["streams on"], f"{block}: {command}")
            return
        command = self.reached(command)
        wanted = int(block.mark.split()[1]) if block.mark.startswith("exit ") else 0
        output = self.finish(block, ["bash", "-c", command], "", wanted)
        assert_shown(shown, output, f"{block}: {command}")

    def reached(self, text: str) -> str:
        """The text, with the ports of the page's server for those that it names."""
        return text if self.server is None else self.server.with_ports(text)

    def end(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            self.output += server.end()

    def finish(self, block: Block, command: list[str], said: str, wanted: int = 0) -> str:
        done = subprocess.run(
            command,
            input=said,
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == wanted, f"{block} ended with {done.returncode}:\n{done.stdout}"
        self.output += done.stdout
        return done.stdout

    def run_until(self, block: Block, command: str, shown: list[str]) -> None:
        """Start a worker, stop it when it has shown what it should, and see that it ends well."""
        until = [block.mark.removeprefix("until ")] if block.mark.startswith("until ") else shown
        wanted = until or ["completed in"]
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        with process:
            assert process.stdout is not None
            output = ""
            try:
                for line in process.stdout:
                    output += line
                    if first_missing(wanted, output) is None:
                        break
                process.send_signal(signal.SIGTERM)
                output += process.stdout.read()
                code = process.wait()
            finally:
                watchdog.cancel()
                process.kill()
        assert_shown(wanted, output, f"{block}: {command}")
        assert_shown(shown, output, f"{block}: {command}")
        assert code == 0, f"{block} ended with {code}:\n{output}"
        self.output += output


class Server:
    """A `windlass serve` that runs beside the rest of its page."""

    def __init__(self, command: str, folder: Path) -> None:
        with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
            self._ports = {"8080": one.getsockname()[1], "9091": other.getsockname()[1]}
        for flag, port in (("--bind", "8080"), ("--grpc-bind", "9091")):
            command += "" if f"{flag} " in command else f" {flag} 127.0.0.1:{port}"
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {self.with_ports(command)}"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._output = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def with_ports(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{shown}\b", str(port), text)
        return text

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, shown: list[str], where: str) -> None:
        wanted = [self.with_ports(line) for line in shown]
        while first_missing(wanted, self._output) is not None:
            line = self._lines.get(timeout=PATIENCE)
            if line is None:
                self._process.wait()
                assert_shown(wanted, self._output, where)
                return
            self._output += line

    def end(self) -> str:
        """What it said; it must end with 0."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()
        while (line := self._lines.get()) is not None:
            self._output += line
        assert code == 0, f"windlass serve ended with {code}:\n{self._output}"
        return self._output


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the output shown below it."""
    command: str | None = None
    shown: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        elif line.strip():
            assert command is not None, f"{block}: output without a command"
            shown.append(line)
    if command is not None:
        yield command, shown


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    story = Story(tmp_path)
    try:
        for part in parts(page):
            story.tell(part)
    finally:
        story.end()
    if page == README:
        assert "hello 7" in story.output


def test_the_readme_begins_with_at_most_fifteen_lines_of_code() -> None:
    first = blocks(README)[0]
    code = [line for line in first.text.splitlines() if line.strip() and not line.startswith("#")]
    assert first.file_name == "hello.py"
    assert len(code) <= 15


def test_a_missing_line_of_output_is_noticed() -> None:
    output = "12:00 INFO    [job 1 welcome] completed in 1.8 ms\nbye\n"
    assert first_missing(["… INFO [job 1 welcome] completed in … ms", "bye"], output) is None
    assert first_missing(["bye", "completed"], output) == "completed"
    assert first_missing(["hello"], output) == "hello"


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    bad = Block(README, 1, "python", "assert 1 == 2", "")
    with pytest.raises(AssertionError, match="AssertionError"):
        Story(tmp_path).tell(bad)


def test_a_skip_needs_a_reason(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="why"):
        Story(tmp_path).tell(Block(README, 1, "python", "", "skip"))


def test_unknown_marks_do_not_hide() -> None:
    known = re.compile(r"|until .+|exit \d+|file [\w./-]+|skip because .+")
    for page in pages():
        for block in blocks(page):
            assert known.fullmatch(block.mark), f"{block}: {block.mark!r} is no mark"
