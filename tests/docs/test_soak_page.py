"""docs/promises.md shows the figures of the soak that docs/soak.json has, and of no other."""

from __future__ import annotations

import json

from tests.soak import page


def test_the_page_has_the_figures() -> None:
    if not page.FIGURES.exists():  # no run yet: then the page shows none
        assert f"{page.BEGIN}{page.END}" in page.PAGE.read_text(encoding="utf-8")
        return
    found = json.loads(page.FIGURES.read_text(encoding="utf-8"))
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.written(text, found), "run `python -m tests.soak.page`"


def test_the_figures_are_those_of_a_good_run() -> None:
    if not page.FIGURES.exists():
        return
    found = json.loads(page.FIGURES.read_text(encoding="utf-8"))
    assert page.fit_to_print(found) == found
