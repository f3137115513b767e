"""Every picture that a page of the documentation shows is there, has words, and is shown."""

from __future__ import annotations

import re

from tests.docs.doc_pages import DOCS

SHOWN = re.compile(r"!\[([^\]]*)\]\((pictures/[^)]+)\)")


def test_pictures_and_pages_agree() -> None:
    found = [
        (words, name)
        for page in DOCS.glob("*.md")
        for words, name in SHOWN.findall(page.read_text(encoding="utf-8"))
    ]
    assert all(words for words, _ in found)
    there = {f"pictures/{path.name}" for path in (DOCS / "pictures").iterdir()}
    assert {name for _, name in found} == there
