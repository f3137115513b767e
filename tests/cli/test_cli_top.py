"""`windlass top` for scripts, and its session without a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from rich.text import Text

from tests.cli.program import Program
from tests.patience import PATIENCE
from windlass.app import look_only
from windlass.cli.place import Place
from windlass.cli.top.frame import Size
from windlass.cli.top.glyphs import Glyphs
from windlass.cli.top.keys import Pause, Retry
from windlass.cli.top.picture import look
from windlass.cli.top.session import Session, change
from windlass.errors import StoreUnavailableError, WindlassError


def fail(program: Program, *tasks: str) -> None:
    for task in tasks:
        job = program.add(task, max_attempts=1)
        program.app.sync.permanently_fail_jobs([job.id], f"{task} went wrong")


# ── for scripts ──


def test_once_prints_a_picture(program: Program) -> None:
    fail(program, "report", "report")
    program.add("mail", queue="letters")
    program.app.sync.pause(task="mail")
    result = program.call("top", "--once")
    assert result.exit_code == 0
    first, *rest = result.stdout.splitlines()
    assert "1 ready  0 running  2 failed" in first
    assert "=  mail" in rest
    assert "2    report       2" in " | ".join(rest)
    assert result.stdout.isascii()


def test_once_as_json(program: Program) -> None:
    fail(program, "report")
    picture = json.loads(program.call("top", "--once", "--json").stdout)
    assert picture["depths"]["states"]["failed"] == {"count": 1, "is_estimate": False}
    assert picture["failures"][0]["error"] == "report went wrong"
    assert picture["speed"] == {
        "per_second": 0.0,
        "failing_per_second": 0.0,
        "wait": None,
        "run": None,
    }


def test_without_a_terminal_there_is_a_line_for_each_look(program: Program) -> None:
    program.add("mail")
    process = program.start("top", "--every", "0")
    process.wait_for_line("1 ready", times=2)
    program.add("mail")
    process.wait_for_line("2 ready")
    process.send(signal.SIGINT)
    assert process.wait() == 0
    assert "Traceback" not in process.output


def test_a_database_that_goes_away_is_told_once_and_looked_for(program: Program) -> None:
    program.add("mail")
    process = program.start("top", "--lines", "--every", "0.2", "--json")
    process.wait_for_line('"states":')
    away = program.folder / "away.db"
    program.file.rename(away)
    process.wait_for_line("; trying again")
    seen = process.count('"states":')
    away.rename(program.file)
    process.wait_for_line('"states":', times=seen + 2)
    assert process.count("; trying again") == 1
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_a_reader_that_leaves_ends_it(program: Program) -> None:
    program.add("mail")
    shell = f"{sys.executable} -P -m windlass top --every 0.2 | head -n 1; echo ${{PIPESTATUS[0]}}"
    process = program.start_python("-c", f"import os; os.execvp('bash', ['bash', '-c', {shell!r}])")
    assert process.wait() == 0
    assert "1 ready" in process.lines[0]
    assert "Traceback" not in process.output


@pytest.mark.parametrize("options", [("--once",), ("--lines",), ("--json",)])
def test_looking_makes_and_changes_nothing(program: Program, options: tuple[str, ...]) -> None:
    result = program.call("top", *options)
    assert result.exit_code == 1
    assert "there is no database at" in result.output
    assert not program.file.exists()
    with sqlite3.connect(program.file) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    before = program.file.read_bytes()
    result = program.call("top", *options)
    assert result.exit_code == 1
    assert result.output.startswith("windlass: ")
    assert program.file.read_bytes() == before
    assert sorted(path.name for path in program.folder.iterdir()) == ["windlass.db", "work.py"]


def test_memory_is_refused(program: Program) -> None:
    assert program.call("top", "-c", "memory://").exit_code == 2


def test_on_a_terminal_a_missing_library_names_the_extra(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.add("mail")
    monkeypatch.setattr(sys.modules["windlass.cli.top"], "is_terminal", lambda: True)
    for name in list(sys.modules):
        if name.startswith(("windlass.cli.top.", "rich")) and name not in (
            "windlass.cli.top.lines",
            "windlass.cli.top.picture",
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    result = program.call("top")
    assert result.exit_code == 1
    assert "pip install 'windlass[top]'" in result.output
    assert "--lines" in result.output
    assert program.call("top", "--once").exit_code == 0


def test_a_fault_of_ours_is_not_taken_for_a_missing_library(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.add("mail")
    monkeypatch.setattr(sys.modules["windlass.cli.top"], "is_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "windlass.cli.top.session", None)
    with pytest.raises(ImportError):
        program.call("top")


@pytest.mark.parametrize(
    ("term", "inputs", "outputs", "expected"),
    [
        ("xterm", True, True, True),
        ("dumb", True, True, False),
        ("", True, True, False),
        ("xterm", False, True, False),
        ("xterm", True, False, False),
    ],
)
def test_what_counts_as_a_terminal(
    monkeypatch: pytest.MonkeyPatch, term: str, inputs: bool, outputs: bool, expected: bool
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: inputs)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: outputs)
    if term:
        monkeypatch.setenv("TERM", term)
    else:
        monkeypatch.delenv("TERM", raising=False)
    assert sys.modules["windlass.cli.top"].is_terminal() is expected


# ── a session ──


class Drawn:
    """A screen that keeps what was drawn last."""

    glyphs = Glyphs()
    size = Size(100, 30)

    def __init__(self) -> None:
        self.text = ""
        self._new = asyncio.Event()

    def draw(self, lines: Sequence[Text]) -> None:
        self.text = "\n".join(line.plain for line in lines)
        self._new.set()

    async def wait_for(self, *texts: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not all(text in self.text for text in texts):
                self._new.clear()
                await self._new.wait()


Body = Callable[[Session, Drawn], Awaitable[None]]


def watch(place: Place, body: Body, *, every: float = 0.05) -> None:
    """Run a session, and see that it ends."""

    async def work() -> None:
        app = place.open_app()
        look_only(app)
        session, screen = Session(app, place, every), Drawn()
        try:
            await session.begin()
            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
                group.create_task(session.run(cast(Any, screen)))
                await body(session, screen)
                session.pressed("q")
        finally:
            await app.close()

    asyncio.run(work())


def test_pictures_follow_what_happens(program: Program) -> None:
    program.add("mail")

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("1 ready", "mail", "0.0 jobs/s", "task mail:  1 ready")
        await asyncio.to_thread(program.add, "report")
        await screen.wait_for("2 ready", "report")

    watch(Place(program.url, None), body)


def test_space_looks_at_once(program: Program) -> None:
    program.add("mail")

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("1 ready")
        await asyncio.to_thread(program.add, "report")
        session.pressed(" ")
        await screen.wait_for("2 ready")

    watch(Place(program.url, None), body, every=3_600.0)


def test_pausing_resuming_and_retrying(program: Program) -> None:
    fail(program, "report")

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("1 failed", "❯  report")
        session.pressed("p")
        await screen.wait_for("task report is paused; p resumes it", "❯‖ report")
        assert (await asyncio.to_thread(program.app.sync.paused)).tasks == ("report",)
        session.pressed("p")
        await screen.wait_for("task report is resumed", "❯  report")
        for _ in range(3):
            session.pressed("tab")
        session.pressed("r")
        await screen.wait_for("job 1 will run", "1 ready", "0 failed")
        session.pressed("r")
        await screen.wait_for("choose a failed job")

    watch(Place(program.url, None), body, every=3_600.0)


def test_one_change_at_a_time(program: Program) -> None:
    program.add("mail")

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("1 ready")
        session.pressed("p")
        session.pressed("p")
        assert "still under way" in screen.text
        await screen.wait_for("task mail is paused")

    watch(Place(program.url, None), body, every=3_600.0)


def test_trouble_is_shown_and_passes(program: Program) -> None:
    fail(program, "report")
    away = program.folder / "away.db"

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("❯  report")
        program.file.rename(away)
        await screen.wait_for("trying again: ", "❯  report")
        session.pressed("p")
        while not session._view.is_trouble:
            await asyncio.sleep(0.01)
        away.rename(program.file)
        await screen.wait_for("there is no database at", "❯  report")
        session.pressed("?")
        await screen.wait_for("any key goes back")
        session.pressed("x")
        await screen.wait_for("❯  report")

    watch(Place(program.url, None), body)


def test_a_database_that_does_not_answer_is_told(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.add("mail")

    async def body(session: Session, screen: Drawn) -> None:
        await screen.wait_for("1 ready")
        answers = asyncio.Event()

        async def late(*args: Any) -> Any:
            await answers.wait()
            return await look(*args)

        monkeypatch.setattr("windlass.cli.top.session.look", late)
        monkeypatch.setattr("windlass.cli.top.session.PATIENCE", 0.01)
        await screen.wait_for("the database has not answered yet", "1 ready")
        answers.set()
        while "not answered" in screen.text:
            await asyncio.sleep(0)
        monkeypatch.undo()

    watch(Place(program.url, None), body)


def test_a_database_that_is_away_at_the_beginning_is_waited_for(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.add("mail")
    looks: list[int] = []

    async def second(*args: Any) -> Any:
        looks.append(1)
        if len(looks) < 3:
            raise StoreUnavailableError("it does not answer", is_temporary=True)
        return await look(*args)

    monkeypatch.setattr("windlass.cli.top.session.look", second)

    async def body(session: Session, screen: Drawn) -> None:
        session.pressed("p")
        session.pressed("s")
        await screen.wait_for("1 ready")

    watch(Place(program.url, None), body)


def test_what_waiting_does_not_mend_ends_it(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.add("mail")

    async def refused(*args: Any) -> Any:
        raise StoreUnavailableError("this user may not")

    async def fault(*args: Any) -> Any:
        raise RuntimeError("a fault of ours")

    async def body(session: Session, screen: Drawn) -> None:
        monkeypatch.setattr("windlass.cli.top.session.look", fault)
        await session.over.wait()

    with pytest.raises(ExceptionGroup, match="TaskGroup") as found:
        watch(Place(program.url, None), body)
    assert found.group_contains(RuntimeError)
    monkeypatch.setattr("windlass.cli.top.session.look", refused)
    with pytest.raises(StoreUnavailableError):
        watch(Place(program.url, None), body)


def test_changes_say_what_became_of_them(program: Program) -> None:
    fail(program, "report")
    place = Place(program.url, None, "acme")
    paused = asyncio.run(change(place, Pause("queue", "letters", True)))
    assert paused == "queue letters of tenant 'acme' is paused; p resumes it"
    assert asyncio.run(change(place, Retry(1))) == "job 1 is no longer failed"
    resumed = asyncio.run(change(place, Pause("queue", "letters", False)))
    assert resumed == "queue letters of tenant 'acme' is resumed"


def test_a_file_of_another_program_is_not_changed_by_a_key(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(WindlassError):
        asyncio.run(change(Place(f"sqlite:///{file}", None), Pause("task", "x", True)))
    assert file.read_bytes() == before
