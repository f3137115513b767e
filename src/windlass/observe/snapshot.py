"""The numbers of all metrics at one moment, in a form that can be added up and sent elsewhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec

from windlass.observe.metrics import Kind, Metric

Labels = tuple[str, ...]


class Bins(msgspec.Struct, array_like=True):
    """A histogram: for each bound how many values are not above it, then all, then their sum."""

    counts: list[int]
    total: int = 0
    sum: float = 0.0

    @classmethod
    def of(cls, metric: Metric) -> Bins:
        return cls([0] * len(metric.bounds))

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        for place in range(bisect_left(bounds, value), len(bounds)):
            self.counts[place] += 1
        self.total += 1
        self.sum += value

    def add_many(self, values: list[float], bounds: tuple[float, ...]) -> None:
        """The same for many, which may be sorted in their place."""
        if not self.add_alike(min(values), max(values), len(values), sum(values), bounds):
            values.sort()
            for place, bound in enumerate(bounds):
                self.counts[place] += bisect_right(values, bound)
            self.total += len(values)
            self.sum += sum(values)

    def add_alike(
        self, least: float, most: float, size: int, total: float, bounds: tuple[float, ...]
    ) -> bool:
        """Add so many values of which the least and the most are known, and their sum, if all fall
        into one bucket; else nothing, and False."""
        first = bisect_left(bounds, least)
        if first != bisect_left(bounds, most):
            return False
        for place in range(first, len(bounds)):
            self.counts[place] += size
        self.total += size
        self.sum += total
        return True

    def merge(self, other: Bins) -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.sum += other.sum

    def copy(self) -> Bins:
        return Bins(list(self.counts), self.total, self.sum)


class Snapshot(msgspec.Struct):
    """By metric's name and the values of its labels, in the order of their declaration."""

    counters: dict[str, dict[Labels, float]] = {}
    gauges: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, Bins]] = {}

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        kind = self.gauges if metric.kind is Kind.GAUGE else self.counters
        values = kind.setdefault(metric.name, {})
        values[labels] = values.get(labels, 0.0) + value

    def put_bins(self, metric: Metric, labels: Labels, bins: Bins) -> None:
        found = self.histograms.setdefault(metric.name, {}).setdefault(labels, Bins.of(metric))
        found.merge(bins)

    def merge(self, other: Snapshot, *, has_ended: bool = False) -> None:
        """Add another process's. Of one that has ended the gauges mean nothing."""
        pairs = [(self.counters, other.counters)]
        if not has_ended:
            pairs.append((self.gauges, other.gauges))
        for own, theirs in pairs:
            for name, values in theirs.items():
                mine = own.setdefault(name, {})
                for labels, value in values.items():
                    mine[labels] = mine.get(labels, 0.0) + value
        for name, histograms in other.histograms.items():
            there = self.histograms.setdefault(name, {})
            for labels, bins in histograms.items():
                if labels in there:
                    there[labels].merge(bins)
                else:
                    there[labels] = bins.copy()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode(figures: Snapshot) -> bytes:
    return _encoder.encode(figures)


def decode(data: bytes) -> Snapshot:
    """Raises msgspec.MsgspecError for what is none."""
    return _decoder.decode(data)


def added_up(parts: Iterable[Snapshot]) -> Snapshot:
    found = Snapshot()
    for part in parts:
        found.merge(part)
    return found
