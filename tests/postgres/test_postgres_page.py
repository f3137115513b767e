"""The examples of docs/postgres.md, from top to bottom, on a server; roles are in `test_roles`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.docs import test_examples
from tests.docs.doc_pages import DOCS, Block, Setup, parts
from tests.postgres.cluster import Cluster

PAGE = DOCS / "postgres.md"
MARK = "skip because tests/postgres/test_postgres_page.py runs it on a server"


@pytest.fixture
def shop(pg: Cluster) -> Iterator[str]:
    url = pg.create_database("shop")
    yield url
    pg.drop_database("shop")


def is_about_roles(block: Block) -> bool:
    """Whether the block is in the section that `test_roles` tries out."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines[: block.line] if line.startswith("## ")]
    return headings[-1] == "## Roles"


def test_the_examples_run(
    pg: Cluster, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = test_examples.environment()
    here = {"PGHOST": str(pg.socket_dir), "PGPORT": str(pg.port), "PGUSER": "postgres"}
    monkeypatch.setattr(test_examples, "environment", lambda: {**stranger, **here})
    story = test_examples.Story(tmp_path)
    with psycopg.connect(shop, autocommit=True) as connection:
        for part in parts(PAGE):
            match part:
                case Block(language="sql"):
                    if not is_about_roles(part):
                        connection.execute(part.text.encode())
                case Block(mark=mark) if mark == MARK:
                    story.tell(dataclasses.replace(part, mark=""))
                case Block() | Setup():
                    story.tell(part)
        added = connection.execute(
            "SELECT task, payload ->> 'user_id' FROM windlass._jobs ORDER BY id"
        ).fetchall()
        [orders] = connection.execute("SELECT array_agg(total ORDER BY id) FROM orders").fetchall()
    assert orders == ([12, 20, 21, 22, 23, 24],)
    placed = [row for row in added if row[0] == "order_placed"]
    welcomes = [user for task, user in added if task == "welcome"]
    assert len(placed) == len(orders[0])
    assert welcomes == ["7", "8", "20", "21", "22", "23", "24"]
