"""A folder of tasks, executables among them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from windlass import App, JobState
from windlass.errors import DuplicateTaskError, TaskError, TaskLoadError, UnknownTaskError
from windlass.tasks.folder import load_folder


def write(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(0o755)


def load(folder: Path) -> dict[str, Any]:
    return {task.name: task for task in load_folder(folder, App("memory://")._enqueuer)}


def test_names_come_from_the_path(tmp_path: Path) -> None:
    write(tmp_path / "hello.py", "def task(payload, helpers): return payload")
    write(tmp_path / "users/verify.py", "async def verify(payload): return 'v'")
    write(tmp_path / "a-b.py", "def a_b(): return 1")
    write(tmp_path / "_helper.py", "raise RuntimeError")
    write(tmp_path / ".hidden/x.py", "raise RuntimeError")
    write(tmp_path / "__pycache__/y.py", "raise RuntimeError")
    write(tmp_path / "readme.txt", "not a task")
    write(tmp_path / "tool.sh", "#!/bin/sh\n", executable=True)
    write(tmp_path / "hello.sh", "#!/bin/sh\n", executable=True)
    tasks = load(tmp_path)
    assert sorted(tasks) == ["a-b", "hello", "tool", "users/verify"]
    assert tasks["hello"]({"n": 1}, None) == {"n": 1}, "Python wins over an executable"
    assert tasks["users/verify"].executor == "async"
    assert tasks["hello"].executor == "thread"


def test_bad_names_are_left_alone_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "has space.py", "raise RuntimeError")
    write(tmp_path / "ok.py", "def ok(): ...")
    assert list(load(tmp_path)) == ["ok"]
    assert "is no task: names are letters" in caplog.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def task(:", "SyntaxError"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit(1)", "SystemExit"),
        ("x = 1", r"defines neither task\(payload, helpers\) nor broken\(\)"),
        ("task = 5", "defines neither"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path / "broken.py", text)
    with pytest.raises(TaskLoadError, match=says) as caught:
        load(tmp_path)
    assert "broken.py" in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskLoadError, match="there is no tasks folder"):
        load(tmp_path / "missing")


def test_a_file_may_hold_a_decorated_task(tmp_path: Path) -> None:
    write(
        tmp_path / "mine.py",
        "from windlass import App\n@App('memory://').task\ndef mine(payload): return 3\n",
    )
    assert load(tmp_path)["mine"]({}) == 3


def run_one(tmp_path: Path, script: str, payload: Any = None, **options: Any) -> Any:
    write(tmp_path / "tool.sh", script, executable=True)

    async def body() -> Any:
        app = App("memory://", task_directory=tmp_path, max_attempts=1, keep=60, **options)
        job = await app.client.add_job("tool", payload)
        runner = await app.run(handle_signals=False)
        done = await app.client.wait_for(job.id, timeout=PATIENCE)
        await runner.stop()
        await app.close()
        return done

    return asyncio.run(body())


def test_an_executable_gets_the_payload_and_its_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="windlass")
    out = tmp_path / "out.txt"
    script = f'#!/bin/sh\ncat > {out}\necho "$WINDLASS_TASK $WINDLASS_JOB_ATTEMPTS"\n'
    done = run_one(tmp_path, script, {"n": 1})
    assert done.state is JobState.COMPLETED
    assert out.read_text() == '{"n":1}'
    assert "tool 1" in caplog.text


def test_an_executable_that_fails_tells_why(tmp_path: Path) -> None:
    done = run_one(tmp_path, "#!/bin/sh\necho wrong >&2\nexit 3\n", "x" * 200_000)
    assert done.state is JobState.FAILED
    assert "tool.sh exited with 3\nwrong" in done.last_error


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_executable_is_ended_at_its_timeout(
    tmp_path: Path, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.tasks import executable

    monkeypatch.setattr(executable, "_PATIENCE", 0.1)
    trap = "trap '' TERM\n" if stubborn else ""
    script = f"#!/bin/sh\n{trap}while true; do sleep 0.05; done\n"
    done = run_one(tmp_path, script, timeout=0.2)
    assert done.last_error.startswith("TimeoutError")


def test_the_registry() -> None:
    app = App("memory://")

    @app.task
    def welcome() -> None: ...

    def other() -> None: ...

    with pytest.raises(DuplicateTaskError, match="two functions are called task 'welcome'"):
        app.task(name="welcome")(other)
    app.registry.add(welcome)
    assert [task.name for task in app.registry] == ["welcome"]
    with pytest.raises(UnknownTaskError, match="did you mean 'welcome'"):
        app.registry.get("welcom")
    with pytest.raises(UnknownTaskError, match=r"no task is called 'zzz'$"):
        app.registry.get("zzz")
    assert repr(welcome) == "<task 'welcome'>"


def test_a_definition_read_twice_is_one_task() -> None:
    app = App("memory://")
    for _ in range(2):

        @app.task
        def again() -> None: ...

    assert len(app.registry) == 1


def test_generators_are_refused() -> None:
    app = App("memory://")

    def generator() -> Any:
        yield 1

    async def stream() -> Any:
        yield 1

    for function in (generator, stream):
        with pytest.raises(TaskError, match="is a generator"):
            app.task(function)


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nraise asyncio.CancelledError",
        "class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
        "import sys\ndel sys.modules[__name__]\n1 / 0",
        "def __getattr__(name): raise ZeroDivisionError",
        "raise ValueError('\\ud800')",
    ],
    ids=["a cancellation", "no message", "no module", "an attribute", "half a character"],
)
def test_a_file_that_raises_in_its_own_way(tmp_path: Path, text: str) -> None:
    write(tmp_path / "odd.py", text)
    with pytest.raises(TaskLoadError, match=r"odd\.py cannot be loaded") as refusal:
        load(tmp_path)
    str(refusal.value).encode()


def test_a_file_name_cannot_forge_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a\nINFO all is well.py", "")
    with caplog.at_level(logging.WARNING, "windlass"):
        load(tmp_path)
    [record] = caplog.records
    assert "\n" not in record.getMessage()
