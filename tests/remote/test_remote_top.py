"""`windlass top` through a server: what it tells, and what it says of the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.remote.serving import ADMIN, serving, token
from windlass import App
from windlass.cli import cli
from windlass.cli.top.picture import look
from windlass.model.job import JobState
from windlass.server.identity import Role
from windlass.store.figures import Depth


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_shows_all_but_rates(tmp_path: Path) -> None:
    async def ask(url: str) -> None:
        async with App(url, token=ADMIN) as app:
            await app.client.add_job("mail", queue="letters")
            failed = await app.client.add_job("report")
            await app.client.permanently_fail_jobs([failed.id], "it went wrong")
            picture = await look(app, ("task", "mail"))
        assert picture.speed is None
        assert picture.detail is None
        assert picture.depths.states[JobState.READY] == Depth(1)
        assert [(one.job, one.error) for one in picture.failures] == [(failed.id, "it went wrong")]
        assert [task.name for task in picture.tasks] == ["mail", "report"]

    with serving(f"sqlite:///{tmp_path}/jobs.db") as served:
        asyncio.run(ask(served.url))


def test_a_token_that_may_not_count_jobs_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, known = token("mailer", Role.WORKER, tasks=("mail",))
    with serving(f"sqlite:///{tmp_path}/jobs.db", tokens={text: known}) as served:
        monkeypatch.setenv("WINDLASS_TOKEN", text)
        result = CliRunner().invoke(cli, ["top", "--once", "-c", served.url])
    assert result.exit_code == 1
    assert result.output.startswith("windlass: ")
    assert len(result.output.splitlines()) == 1
    assert "mailer" in result.output
