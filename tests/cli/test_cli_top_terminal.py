"""`windlass top` in a real terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program, wait_until
from tests.cli.terminal import Terminal
from tests.programs import need

pytestmark = pytest.mark.slow

SHOP = '''
import asyncio
from pathlib import Path
from windlass import App, Context

app = App()


@app.task
async def video(ctx: Context):
    """As far as the file `progress` says."""
    while (part := float(Path("progress").read_text() or 0)) < 1:
        ctx.progress(part, f"frame {part * 100:.0f}")
        await asyncio.sleep(0.02)


@app.task(max_attempts=1)
async def report():
    if not Path("open").exists():
        raise LookupError("there is nothing for May")


@app.task(queue="letters")
async def letter():
    pass
'''
TOP = f"{sys.executable} -P -m windlass top --every 0.3"


@pytest.fixture
def terminal(program: Program) -> Iterator[Terminal]:
    program.write("shop.py", SHOP)
    program.write("progress", "0.2")
    made = Terminal(
        need("tmux", package="tmux"), program.folder, program.environment(), width=60, height=24
    )
    yield made
    made.close()


def test_it_shows_what_happens_and_does_what_keys_say(program: Program, terminal: Terminal) -> None:
    report = program.add("report", max_attempts=1)
    program.add("video")
    worker = program.start("run", "shop:app", "--poll-interval", "100")
    worker.wait_for_line("is looking for jobs")
    terminal.type(TOP)
    terminal.press("Enter")
    text = terminal.wait_for("LookupError")
    assert terminal.is_in_full_screen
    assert not terminal.has_cursor
    assert "0 ready  ▶ 1 running  ✖ 1 failed" in text
    assert "q quit" in text.splitlines()[23]

    # The bar moves.
    terminal.wait_for("█░░░░░░░  20% ")
    program.write("progress", "0.75")
    terminal.wait_for("██████░░  75% ")

    # A larger terminal shows more, and nothing of the old lines is left.
    terminal.resize(120, 40)
    text = terminal.wait_for("NOTE", lambda text: "NOTE" in text and len(text.splitlines()) == 40)
    assert text.count("windlass top") == 1
    assert text.count("q quit") == 1
    assert "frame 75" in text
    terminal.resize(60, 24)
    terminal.wait_for("24 lines", lambda text: "q quit" in text.splitlines()[23])

    # A task is paused and resumed: the rows are sorted by name, report before video.
    terminal.press("s", "s", "s", "s", "s")
    terminal.wait_for("❯  report")
    terminal.press("p")
    terminal.wait_for("task report is paused")
    terminal.wait_for("❯‖ report")
    assert program.app.sync.paused().tasks == ("report",)
    terminal.press("p")
    terminal.wait_for("❯  report")
    assert program.app.sync.paused().tasks == ()

    # A failed job is retried, and completes.
    program.write("open", "")
    terminal.press("Tab", "Tab", "Tab")
    terminal.wait_for("❯", lambda text: re.search(rf"❯ +{report.id} report .* Look", text))
    terminal.press("r")
    terminal.wait_for(f"job {report.id} will run")
    terminal.wait_for("✖ 0 failed")
    wait_until("its end", lambda: program.app.sync.get_job(report.id) is None)

    # Other keys.
    terminal.press("?")
    terminal.wait_for("any key goes back")
    terminal.press("Up")
    terminal.wait_for("no job has failed")

    # It can be stopped and gone on with, and gives back the terminal.
    terminal.press("C-z")
    text = terminal.wait_for("Stopped")
    assert not terminal.is_in_full_screen
    assert terminal.has_cursor
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait_for("no job has failed")
    assert terminal.is_in_full_screen

    terminal.press("q")
    terminal.wait_for("the prompt", lambda text: text.rstrip().endswith("$"))
    assert not terminal.is_in_full_screen
    terminal.type("echo left with $?")
    terminal.press("Enter")
    terminal.wait_for("left with 0")
    assert "Traceback" not in terminal.text
    program.write("progress", "1")


def test_a_database_that_goes_away_is_told_until_it_is_back(
    program: Program, terminal: Terminal
) -> None:
    program.add("letter")
    terminal.type(TOP)
    terminal.press("Enter")
    terminal.wait_for("1 ready")
    away = program.folder / "away.db"
    program.file.rename(away)
    text = terminal.wait_for("trying again")
    assert "1 ready" in text
    away.rename(program.file)
    program.add("letter")
    text = terminal.wait_for("2 ready")
    assert "trying again" not in text
    terminal.press("C-c")
    terminal.wait_for("the prompt", lambda text: text.rstrip().endswith("$"))
    assert not terminal.is_in_full_screen
    assert terminal.has_cursor
    assert "Traceback" not in terminal.text


def test_a_terminal_without_unicode_or_colours(program: Program, terminal: Terminal) -> None:
    program.add("letter")
    terminal.type(f"PYTHONIOENCODING=ascii NO_COLOR=1 {TOP}")
    terminal.press("Enter")
    text = terminal.wait_for("1 ready")
    assert "o 1 ready" in text
    assert text.isascii()
    terminal.press("q")
    terminal.wait_for("the prompt", lambda text: text.rstrip().endswith("$"))
    terminal.type(f"TERM=dumb {TOP}")
    terminal.press("Enter")
    terminal.wait_for("Z  1 ready  0 running")
    terminal.press("C-c")
    terminal.wait_for("the prompt", lambda text: text.rstrip().endswith("$"))


def test_a_terminal_that_is_closed_ends_it(program: Program, terminal: Terminal) -> None:
    program.add("letter")
    terminal.type(f"bash -c 'echo $$ > pid; exec {TOP}'")
    terminal.press("Enter")
    terminal.wait_for("1 ready")
    pid = (program.folder / "pid").read_text().strip()
    terminal.close()
    wait_until("the end", lambda: not Path(f"/proc/{pid}").exists())
