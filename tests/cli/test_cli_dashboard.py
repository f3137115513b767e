"""`windlass dashboard`: pages on this machine, and nothing else."""

from __future__ import annotations

import re
import signal
import sys
import webbrowser

import httpx
import pytest

from tests.cli.program import Program, wait_until
from windlass.cli import dashboard


def test_it_shows_the_jobs_until_it_is_told_to_stop(program: Program) -> None:
    program.call("migrate")
    program.call("add", "mail")
    process = program.start("dashboard", "--port", "0")
    process.wait_for_line("the dashboard is at")
    found = re.search(r"http://127\.0\.0\.1:\d+/", process.output)
    assert found is not None
    with httpx.Client(base_url=found[0], trust_env=False) as browser:
        assert "mail" in browser.get("/jobs").text
        assert browser.get("/assets/0/dashboard.js").status_code == 200
        assert browser.get("/v1/jobs").status_code == 404
        with browser.stream("GET", "/events") as events:
            text = events.iter_text()
            wait_until("figures", lambda: "figures" in next(text))
            process.send(signal.SIGTERM)
            for _ in text:
                pass
    assert process.wait() == 0
    assert "Traceback" not in process.output


def test_a_database_that_is_not_there_is_not_made(program: Program) -> None:
    result = program.call("dashboard", "--port", "0")
    assert result.exit_code == 1
    assert "there is no database at" in result.output
    assert not (program.folder / "windlass.db").exists()


def test_a_port_in_use_is_told(program: Program) -> None:
    program.call("migrate")
    process = program.start("dashboard", "--port", "0", "--no-open", "--read-only")
    process.wait_for_line("the dashboard is at")
    port = process.output.partition("127.0.0.1:")[2].partition("/")[0]
    result = program.call("dashboard", "--port", port)
    assert result.exit_code == 2
    assert f"port {port} is in use" in result.output
    process.send(signal.SIGINT)
    assert process.wait() == 0


def test_a_missing_package_names_the_extra(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "windlass.server.dashboard.alone", None)
    with pytest.raises(ImportError):
        dashboard.require_extra()
    monkeypatch.delitem(sys.modules, "windlass.server.dashboard.alone")
    for name in list(sys.modules):
        if name.startswith("windlass.server.dashboard"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = program.call("dashboard")
    assert result.exit_code == 1
    assert "pip install 'windlass[server]'" in result.output


@pytest.mark.parametrize(
    ("is_terminal", "screen", "opens"),
    [(True, ":0", True), (False, ":0", False), (True, "", False)],
)
def test_a_browser_is_opened_where_there_is_a_screen(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, screen: str, opens: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    dashboard.open_browser("http://127.0.0.1:1/")
    if opens:
        wait_until("the browser", lambda: opened)
    assert opened == (["http://127.0.0.1:1/"] if opens else [])


@pytest.mark.slow
def test_the_demo_shows_a_busy_shop_and_leaves_nothing(program: Program) -> None:
    process = program.start("demo", "--dashboard", "--port", "0", "--no-open")
    process.wait_for_line("its dashboard is at")
    found = re.search(r"http://127\.0\.0\.1:\d+/", process.output)
    assert found is not None
    with httpx.Client(base_url=found[0], trust_env=False, timeout=30) as browser:
        for path, words in (
            ("/jobs?state=completed", "send_mail"),
            ("/jobs?state=failed&task=resize", "is no picture"),
            ("/chains?state=completed", "shipped"),
            ("/schedules", "Europe/Berlin"),
            ("/workers", "grace-"),
            ("/jobs?state=running", "page 3 of 90"),
        ):
            wait_until(words, lambda path=path, words=words: words in browser.get(path).text)  # type: ignore[misc]
    process.send(signal.SIGINT)
    assert process.wait() == 0
    assert [path.name for path in program.folder.iterdir()] == ["work.py"]


def test_the_demo_with_pages_plays_on_a_file(program: Program) -> None:
    result = program.call("demo", "--dashboard", "-c", "postgresql:///shop")
    assert result.exit_code == 2
    assert "leave out -c" in result.output
