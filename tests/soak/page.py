"""The soak's figures in docs/promises.md: `python -m tests.soak.page soak.json` writes them.

The file is what `make soak` saved. It goes to docs/soak.json without its samples, and the table is
made of that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.soak.verdict import Finding, shown

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "promises.md"
FIGURES = DOCS / "soak.json"
BEGIN = "<!-- soak: begin -->\n"
END = "<!-- soak: end -->\n"
HEAD = "| figure | first | last | growth | limit |\n|---|---:|---:|---:|---:|\n"
LEAST_MINUTES = 10.0


def table(found: dict[str, Any]) -> str:
    """One table for each store, below a line that says what was run and where."""
    text = f"{found['minutes']:g} minutes on {found['when']}, on {found['machine']}.\n"
    for run in found["runs"]:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(run["faults"].items()))
        text += f"\n{run['title']}: {run['ended']:,} jobs ended; {faults}.\n\n{HEAD}"
        for finding in (Finding(*values) for values in run["findings"]):
            limit = "" if finding.limit is None else shown(finding.limit)
            cells = (
                finding.name,
                shown(finding.first),
                shown(finding.last),
                finding.growth,
                limit,
            )
            text += f"| {' | '.join(cells)} |\n"
    return text


def written(page: str, found: dict[str, Any]) -> str:
    """The page with these figures between its two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN.strip()} … {END.strip()}")
    return f"{before}{begin}\n{table(found)}\n{end}{after}"


def fit_to_print(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run without its samples; ValueError for one that proves too little."""
    if found["minutes"] < LEAST_MINUTES:
        raise ValueError(f"{found['minutes']:g} minutes are too short for the page")
    findings = [Finding(*values) for run in found["runs"] for values in run["findings"]]
    broken = [line for run in found["runs"] for line in run["broken"]]
    broken += [finding.name for finding in findings if not finding.is_flat]
    if broken:
        raise ValueError(f"this run failed: {broken}")
    runs = [{k: v for k, v in run.items() if k != "samples"} for run in found["runs"]]
    return {**found, "runs": runs}


def main() -> None:
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "soak.json")
    found = fit_to_print(json.loads(file.read_text(encoding="utf-8")))
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
