"""The page about REST has every route, role and problem, and none that there is not."""

from __future__ import annotations

from tests.docs.doc_pages import DOCS, table_rows
from windlass.server.identity import Power
from windlass.server.rest import ROUTES
from windlass.server.rest.openapi import route
from windlass.server.rest.problems import Kind

PAGE = DOCS / "rest.md"
WHO = {Power.READ: "all", Power.ADD: "all", Power.CLAIM: "worker", Power.OPERATE: "operator"}


def test_the_page_has_every_route() -> None:
    shown = {tuple(row[:4]) for row in table_rows(PAGE, "## Routes")}
    assert shown == {
        (
            each.method,
            f"`{each.path}`",
            f"`{each.id}`",
            WHO[each.power] if isinstance(each.power, Power) else "open",
        )
        for each in (*ROUTES, route(ROUTES))
    }


def test_the_page_has_every_problem() -> None:
    shown = {tuple(row[:2]) for row in table_rows(PAGE, "## Problems")}
    assert shown == {(f"`{kind.type}`", str(kind.status)) for kind in Kind}
