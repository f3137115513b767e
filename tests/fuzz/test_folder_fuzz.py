"""Tasks folders with odd files: tasks, or one TaskLoadError that names the file."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kit import fuzz, quiet_asyncio
from windlass import App, JobState
from windlass.errors import TaskError, WindlassError

pytestmark = pytest.mark.slow

NAMES = [
    *("hello.py", "a.b.py", "..py", " .py", "x y.py", "\u202eabc.py", "\udcff.py", "é.py", "-.py"),
    *("task", "hello", "hello.sh", "sub/hello.py", "_private.py", ".hidden.py", "class.py", "1.py"),
    *("x" * 130 + ".py", "line\nbreak.py", "__init__.py", "sub/__init__.py", "%s.py", "a.PY"),
]
MODULES = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"def task(payload, helpers): pass",
    b"async def task(payload): pass",
    b"def task(): pass",
    b"def task(a, b, c): pass",
    b"def task(*, a): pass",
    b"def task(payload): yield",
    b"class task: pass",
    b"task = 7",
    b"task = print",
    b"task = type",
    b"task = lambda *a: None",
    b"1 / 0",
    b"raise SystemExit(3)",
    b"import asyncio\nraise asyncio.CancelledError",
    b"raise GeneratorExit",
    b"import nowhere",
    b"import sys\ndel sys.modules[__name__]\n1 / 0",
    b"class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
    b"def __getattr__(name): raise ZeroDivisionError",
    b"class T:\n    def __bool__(self): 1 / 0\n    def __call__(self, p): pass\ntask = T()",
    b"class T:\n    def __call__(self, p): 0\n    __signature__ = 7\ntask = T()",
    b"def f(): f()\nf()",
    b"(" * 5_000,
    b"x = " + b"-" * 9_000 + b"1",
    b"raise ValueError('\\ud800')",
    b"def task(p): pass\n\tbad",
    b"# coding: nonsense\n",
]


def test_what_lies_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    files = st.dictionaries(
        st.sampled_from(NAMES), st.tuples(st.sampled_from(MODULES), st.booleans()), max_size=3
    )

    @fuzz(300)
    @given(files)
    def check(found: dict[str, tuple[bytes, bool]]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, (text, is_executable) in found.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text)
            path.chmod(0o755 if is_executable else 0o644)
        try:
            App("memory://", task_directory=folder)
        except (TaskError, WindlassError) as error:
            assert str(folder) in str(error) or any(name in str(error) for name in NAMES), error
            str(error).encode()

    check()


SCRIPTS = {
    "garbage": "printf '\\377\\376\\000'",
    "a flood": "head -c 3000000 /dev/zero",
    "errors that are no text": "printf '\\377' >&2; exit 3",
    "a flood of errors": "head -c 3000000 /dev/urandom >&2; exit 1",
    "deep JSON": "head -c 100000 /dev/zero | tr '\\0' '['",
    "half a character": "printf '\"\\\\ud800\"'",
    "a closed input": "exec 0<&-; exit 0",
    "its own end": "kill -9 $$",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_executable_that_prints(tmp_path: Path, name: str) -> None:
    """It costs its own job and no other."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    odd, control = folder / "odd", folder / "control"
    odd.write_text(f"#!/bin/sh\n{SCRIPTS[name]}\n")
    control.write_text("#!/bin/sh\nexit 0\n")
    for path in (odd, control):
        path.chmod(0o755)

    async def scenario() -> None:
        app = App("memory://", task_directory=folder, keep=60)
        async with app:
            client = app.client
            first = await client.add_job("odd", {"x": "y" * 100_000}, max_attempts=1)
            second = await client.add_job("control", max_attempts=1)
            await app.run_once(concurrency=1)
            ended = await client.get_job(first.id)
            assert ended is not None and ended.state in (JobState.COMPLETED, JobState.FAILED)
            (ended.last_error or "").encode()
            assert len(ended.last_error or "") <= 16 * 1024
            other = await client.get_job(second.id)
            assert other is not None and other.state is JobState.COMPLETED

    assert os.access(odd, os.X_OK)
    with quiet_asyncio():
        asyncio.run(scenario())
