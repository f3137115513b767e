"""The table of docs/promises.md, made of the list: `python -m tests.mutation.page` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutation.mutation import CONTRACT, CONTRACT_POSTGRES
from tests.mutation.mutations import MUTATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "promises.md"
HEADING = "## Each protection is needed"
HEAD = "| name | what is off | what fails |\n|---|---|---|\n"


def told(test: str) -> str:
    """A test as the page names it: a case of the contract by its name, others without variants."""
    for binding in (CONTRACT, CONTRACT_POSTGRES):
        if test.startswith(f"{binding}["):
            case = test.removeprefix(f"{binding}[").removesuffix("]").partition("-")[2]
            return case.partition("[")[0]
    return test.partition("[")[0]


def table() -> str:
    rows = []
    for mutation in MUTATIONS:
        tests = ", ".join(dict.fromkeys(f"`{told(test)}`" for test in mutation.tests))
        rows.append(f"| `{mutation.name}` | {mutation.protection} | {tests} |\n")
    return HEAD + "".join(rows)


def written(page: str) -> str:
    """The page with the table as it must be."""
    before, heading, after = page.partition(f"{HEADING}\n")
    if not heading:
        raise ValueError(f"{PAGE.name} has no section {HEADING!r}")
    # Without a table there it goes to the end of the section's first paragraph.
    found = re.search(r"(?m)^\| name \|.*\n(?:\|.*\n)*", after)
    if found is None:
        end = after.index("\n\n", 1) + 2
        return f"{before}{heading}{after[:end]}{table()}\n{after[end:]}"
    return f"{before}{heading}{after[: found.start()]}{table()}{after[found.end() :]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
