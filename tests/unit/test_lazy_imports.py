"""A program imports no database that it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import sys
from windlass import App
app = App({url!r})
stores = ["windlass.stores." + name for name in ("memory", "sqlite", "postgres")]
print(*[name for name in (*stores, "psycopg", "psycopg_pool") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("url", "imported"),
    [
        ("memory://", "windlass.stores.memory"),
        ("sqlite:///jobs.db", "windlass.stores.sqlite"),
        ("postgresql://nowhere/jobs", "windlass.stores.postgres psycopg"),
    ],
)
def test_only_the_named_database_is_imported(url: str, imported: str) -> None:
    code = LOOK.format(url=url)
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == imported
