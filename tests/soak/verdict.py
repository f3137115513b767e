"""Whether a figure is flat: the end of a run beside its beginning. Pure reckoning, nothing is read.

The rule: the first sixth of a run is its warm-up. Of what follows, the median of the last tenth
must not be more than that of the first tenth times `ratio`, plus `allowance`. What falls is flat.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

WARM_UP = 1 / 6
PART = 1 / 10

Samples = Sequence[Mapping[str, float]]


class Rule(NamedTuple):
    """How much a figure may grow."""

    ratio: float
    allowance: float

    def limit(self, first: float) -> float:
        return first * self.ratio + self.allowance


RULES: dict[str, Rule] = {
    # Of the processes that live through the whole run. Memory first of all: what is lost per job is
    # little, so the rule is tight; what the allocator keeps varies by a few MiB.
    "worker: memory, MiB": Rule(1.05, 3),
    "worker: descriptors": Rule(1.25, 4),
    "worker: threads": Rule(1.25, 8),
    "load: memory, MiB": Rule(1.05, 3),
    "load: descriptors": Rule(1.25, 4),
    "load: threads": Rule(1.25, 8),
    # A count of what jobs cost. Few of them are claimed at a time, so it varies with the backlog.
    "statements per job": Rule(1.25, 0.3),
    "SQLite's instructions per job": Rule(1.25, 200),
    "index entries read per job": Rule(1.25, 10),
    "index pages read per job": Rule(1.25, 10),
    # On a busy machine a claim takes more jobs, and each costs less: what a claim reads tells that
    # from a cost that grows.
    "index entries read per claim": Rule(1.25, 10),
    "index pages read per claim": Rule(1.25, 10),
    # Tables go up and down with autovacuum, which an old snapshot holds up for a minute.
    "tables, MiB": Rule(1.25, 2),
    "indexes, MiB": Rule(1.25, 2),
    "dead rows": Rule(1.25, 10_000),
    "connections": Rule(1.25, 10),
    "connections idle in transaction": Rule(1.25, 3),
    "file, MiB": Rule(1.25, 1),
    "write-ahead log, MiB": Rule(1.25, 4),
    "rows of _jobs": Rule(1.25, 150),
    "rows of _history": Rule(1.25, 200),
    "rows of _chains": Rule(1.25, 200),
    "rows of _blockers": Rule(1.25, 100),
    "rows of _workers": Rule(1.25, 3),
    "rows of _bells": Rule(1.25, 50),
    "rows of _batches": Rule(1.25, 20),
    "rows of _clocks": Rule(1.0, 0),
    "rows of jobs": Rule(1.25, 150),
    "rows of history": Rule(1.25, 200),
    "rows of chains": Rule(1.25, 200),
    "rows of blockers": Rule(1.25, 100),
    "rows of workers": Rule(1.25, 3),
}
"""Figures that are judged, in the order of the table; others are information."""


class Finding(NamedTuple):
    """One figure at the beginning and at the end; `limit` is None where it is information only."""

    name: str
    first: float
    last: float
    limit: float | None

    @property
    def is_flat(self) -> bool:
        return self.limit is None or self.last <= self.limit

    @property
    def growth(self) -> str:
        """How many times the first the last is: a limit with an allowance may hide much."""
        return f"×{self.last / self.first:.2f}" if self.first else ""


def parts(samples: Samples, seconds: float) -> tuple[Samples, Samples]:
    """The samples of the first tenth after the warm-up, and those of the last."""
    begin = seconds * WARM_UP
    tenth = (seconds - begin) * PART
    first = [each for each in samples if begin <= each["at"] < begin + tenth]
    last = [each for each in samples if seconds - tenth <= each["at"] <= seconds]
    return first, last


def judge(samples: Samples, seconds: float) -> list[Finding]:
    """A finding for each figure that both parts have, the judged ones first."""
    first, last = parts(samples, seconds)
    measured = {name for sample in samples for name in sample} - {"at"}
    names = [name for name in RULES if name in measured]
    names += sorted(measured - set(names))
    found = []
    for name in names:
        before, after = _median(first, name), _median(last, name)
        if before is None or after is None:
            continue
        rule = RULES.get(name)
        limit = None if rule is None else rule.limit(before)
        found.append(Finding(name, before, after, limit))
    return found


def missing(samples: Samples, seconds: float, wanted: Sequence[str]) -> list[str]:
    """Those of the wanted figures that cannot be judged, since one of the parts has none."""
    told = {finding.name for finding in judge(samples, seconds)}
    return [name for name in wanted if name not in told]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def delays(probes: Sequence[tuple[float, float]], seconds: float) -> list[Finding]:
    """How long after they were added probe jobs started: information, since machines differ."""
    rows = [{"at": at, "delay": delay} for at, delay in probes]
    first, last = ([each["delay"] for each in part] for part in parts(rows, seconds))
    if not first or not last:
        return []
    return [
        Finding(
            f"pickup p{percent}, ms", percentile(first, percent), percentile(last, percent), None
        )
        for percent in (50, 99)
    ]


def table(findings: Sequence[Finding]) -> list[str]:
    """For people: one line for each figure."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = [f"{'':{width}}  {'first':>10}  {'last':>10}  {'growth':>8}  {'limit':>10}"]
    for finding in findings:
        limit = "" if finding.limit is None else shown(finding.limit)
        word = "" if finding.limit is None else "flat" if finding.is_flat else "GREW"
        lines.append(
            f"{finding.name:{width}}  {shown(finding.first):>10}  {shown(finding.last):>10}"
            f"  {finding.growth:>8}  {limit:>10}  {word}".rstrip()
        )
    return lines


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def _median(samples: Samples, name: str) -> float | None:
    values = [sample[name] for sample in samples if name in sample]
    return statistics.median(values) if values else None
