"""docs/guides/own-table.md, from top to bottom as printed, on PostgreSQL 16 and 18.

The SQL blocks run in a fresh database; a `text` block below one is its answer. The Python blocks of
the six steps are one program, `example_jobs.py`, which is started where the page starts it and
stopped when its rows have ended. What follows runs as on any other page.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import windlass
from tests.docs import test_examples
from tests.docs.doc_pages import DOCS, Block, Setup, parts, table_rows
from tests.patience import PATIENCE
from tests.postgres.cluster import fresh_database, shared_cluster
from tests.postgres.versions import VERSIONS
from windlass.stores.table.columns import COLUMNS

pytestmark = pytest.mark.slow

PAGE = DOCS / "guides" / "own-table.md"
MARK = "skip because tests/docs/test_own_table_guide.py runs it on a server"
PROGRAM = "example_jobs.py"
START = f"$ python {PROGRAM}"


@pytest.fixture(params=VERSIONS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with fresh_database(shared_cluster(request.param)) as url:
        yield url


class Guide:
    """Tells the page's blocks, on one database and in one folder."""

    def __init__(self, db: psycopg.Connection[Any], folder: Path) -> None:
        self.db = db
        self.folder = folder
        self.story = test_examples.Story(folder)
        self.steps: list[str] = []
        self.has_run = False
        self.answer: list[list[str]] = []

    def tell(self, part: Block | Setup) -> None:
        match part:
            case Setup():
                self.story.tell(part)
            case Block(language="sql"):
                self.answer = self.run_sql(part.text)
            case Block(language="text"):
                assert cells(part.text) == self.answer, str(part)
            case Block() if START in part.text:
                self.run_program(part)
            case Block(language="python") if not self.has_run:
                assert part.mark == MARK
                self.steps.append(part.text)
            case Block(mark=mark) if mark == MARK:
                self.story.tell(dataclasses.replace(part, mark=""))
            case Block():
                self.story.tell(part)

    def run_sql(self, text: str) -> list[list[str]]:
        """What the last statement answers, as text."""
        cursor = self.db.execute(text.encode())
        while cursor.nextset():
            pass
        if cursor.description is None:
            return []
        rows = cursor.fetchall()
        return [["" if value is None else str(value) for value in row] for row in rows]

    def run_program(self, block: Block) -> None:
        """Start it, wait until no row is left to work on, and stop it as Ctrl-C would."""
        (self.folder / PROGRAM).write_text("\n\n\n".join(self.steps) + "\n", encoding="utf-8")
        self.has_run = True
        process = subprocess.Popen(
            [sys.executable, "-W", "error", PROGRAM],
            cwd=self.folder,
            env=test_examples.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self.wait_for_the_end(process)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, output
        shown = block.text.split(f"{START}\n", 1)[1].splitlines()
        test_examples.assert_shown(shown, output, block)

    def wait_for_the_end(self, process: subprocess.Popen[str]) -> None:
        open_rows = "SELECT FROM example_jobs WHERE state IN ('queued', 'processing', 'errored')"
        deadline = time.monotonic() + PATIENCE
        while self.db.execute(open_rows).rowcount:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "the rows did not end"
            time.sleep(0.05)


def cells(text: str) -> list[list[str]]:
    """The rows of a table as psql prints it, without its head."""
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines()[2:]]


def section(block: Block) -> str:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines[: block.line] if line.startswith("## ")]
    return headings[-1].removeprefix("## ") if headings else ""


async def reset_until_ended(db: psycopg.Connection[Any], url: str, row: int) -> str:
    """The state in which a resetter alone ends a row that waits."""
    options: windlass.TableOptions[Any]
    options = windlass.TableOptions(name="example_jobs", table_name="example_jobs")
    async with windlass.TableStore(url, options) as store:
        resetter = windlass.Resetter(store, interval=0.05)
        await resetter.start()
        async with asyncio.timeout(PATIENCE):
            while True:
                [state] = db.execute("SELECT state FROM example_jobs WHERE id = %s", [row])
                if state != ("queued",):
                    break
                await asyncio.sleep(0.05)
        await resetter.stop()
    return str(state[0])


def test_the_guide_runs_as_printed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = test_examples.environment()
    here = {"DATABASE_URL": url, "PYTHONPATH": str(Path(windlass.__file__).parents[1])}
    monkeypatch.setattr(test_examples, "environment", lambda: {**stranger, **here})
    with psycopg.connect(url, autocommit=True) as db:
        guide = Guide(db, tmp_path)
        where = ""
        for part in parts(PAGE):
            if isinstance(part, Block) and section(part) != where:
                check_what_is_said(where, guide, url)
                where = section(part)
            guide.tell(part)
    assert where == "Testing"


def check_what_is_said(where: str, guide: Guide, url: str) -> None:
    """What the text below a heading claims beyond what its blocks show."""
    db = guide.db
    match where:
        case "Hooks and a budget":
            # The headroom was never overdrawn, and what did not fit was left to the next worker.
            room = [int(left) for left in re.findall(r": (-?\d+) MB left", guide.story.output)]
            assert len(room) == 6
            assert min(room) >= 0
            assert "acme/huge has" in guide.story.output
        case "Transactions":
            # What handlers wrote is there as often as an attempt completed.
            assert dict(db.execute("SELECT name, visits FROM repo").fetchall()) == {
                "acme/site": 1,
                "acme/flaky": 1,
                "acme/gone": 0,
                "acme/huge": 0,
                "acme/docs": 1,
            }
        case "Cancelling":
            assert asyncio.run(reset_until_ended(db, url, 101)) == "canceled"
            [ended] = db.execute("SELECT state, started_at FROM example_jobs WHERE id = 100")
            assert ended == ("canceled", None)
        case "Other names":
            assert db.execute("SELECT status, error FROM shop.mails").fetchall() == [
                ("completed", None)
            ]


def test_the_table_of_columns_is_the_columns() -> None:
    rows = table_rows(PAGE, "## The columns")
    assert [row[0].strip("`") for row in rows] == [column.name for column in COLUMNS]
    optional = [row[0].strip("`") for row in rows if row[2].startswith("*optional*")]
    assert optional == [column.name for column in COLUMNS if not column.is_needed]


def test_the_table_of_options_is_the_options() -> None:
    rows = table_rows(PAGE, "## Options")
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    fields = [field.name for field in dataclasses.fields(windlass.TableOptions)]
    assert sorted(named) == sorted(fields)
