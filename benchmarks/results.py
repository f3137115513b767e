"""What was measured, as it is kept in a JSON file: everything the page needs, and every round."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.plan import BenchmarkPlan

Figures = dict[str, float]
Series = Mapping[int, float]
"""One figure of one system, by round."""
Pick = Callable[["Result"], Series]
"""How to find a series."""


@dataclass(frozen=True)
class Record:
    """One measurement."""

    row: str
    system: str
    round: int
    figures: Figures
    seconds: float = 0.0
    """How long the measurement took, with all its preparations."""
    load: float = 0.0
    """The machine's load average of a minute, before."""
    steal: float = 0.0
    """Cores that the host took away meanwhile."""


@dataclass(frozen=True)
class About:
    """A system that ran."""

    versions: str
    settings: str


@dataclass
class Result:
    plan: BenchmarkPlan
    command: str = ""
    machine: str = ""
    postgres: str = ""
    load_before: float = 0.0
    started_at: str = ""
    seconds: float = 0.0
    systems: dict[str, About] = field(default_factory=dict)
    """In the order of the page; the first is the one the others are compared with."""
    missing: dict[str, str] = field(default_factory=dict)
    """What could not be measured, and why."""
    done: list[str] = field(default_factory=list)
    """The steps that need not be repeated."""
    records: list[Record] = field(default_factory=list)

    def series(self, system: str, figure: str) -> Series:
        return {
            record.round: record.figures[figure]
            for record in self.records
            if record.system == system and figure in record.figures
        }

    def median(self, system: str, figure: str) -> float | None:
        return median(self.series(system, figure))

    def ratio(self, figure: str, above: str, below: str) -> float | None:
        return ratio(self.series(above, figure), self.series(below, figure))

    def forget(self, rows: list[str]) -> None:
        """As if these rows had not been measured yet."""
        self.records = [record for record in self.records if record.row not in rows]
        self.done = [step for step in self.done if step.partition(" ")[0] not in rows]

    def save(self, path: Path) -> None:
        """A reader sees the old file or the new one."""
        fresh = path.with_suffix(".tmp")
        # One record a line: it is read by people and compared by `git diff`.
        head = dataclasses.asdict(dataclasses.replace(self, records=[]))
        del head["records"]
        lines = [json.dumps(dataclasses.asdict(record)) for record in self.records]
        text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
        text += ',\n "records": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path) -> Result:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        plan = raw.pop("plan")
        for name in ("beside", "beside_rounds"):
            plan[name] = tuple(plan[name])
        systems = {name: About(**about) for name, about in raw.pop("systems").items()}
        records = [Record(**record) for record in raw.pop("records")]
        return cls(BenchmarkPlan(**plan), systems=systems, records=records, **raw)


def median(series: Series) -> float | None:
    return statistics.median(series.values()) if series else None


def ratio(above: Series, below: Series) -> float | None:
    """The median of the rounds' own ratios, since what disturbs a round disturbs both.

    Where one of them was measured in other rounds, it is the ratio of the medians.
    """
    if not above or not below or not all(below.values()):
        return None
    if above.keys() != below.keys():
        return statistics.median(above.values()) / statistics.median(below.values())
    return statistics.median([above[number] / below[number] for number in above])


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine(folder: Path) -> str:
    """What it is measured on, with the file system of `folder`."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, databases on {_file_system(folder)},"
        f" {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _file_system(folder: Path) -> str:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above, default=(0, "?"))[1]
