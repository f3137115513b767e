"""The picture of the page: a bar for each system, drain and cycle, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Result
from benchmarks.systems.base import System

PANELS = (("drain1", "drain, 1 process, jobs/s"), ("cycle", "cycle, jobs/s"))
OWN, PEER = "#1f5f8b", "#b8b8b8"


def draw(result: Result, systems: Sequence[System], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ran = [system.name for system in systems if system.name in result.samples][::-1]
    panels = [panel for panel in PANELS if any(result.median(name, panel[0]) for name in ran)]
    if not panels:
        return
    figure, axes = pyplot.subplots(
        *(1, len(panels)), figsize=(9, 0.6 + 0.36 * len(ran)), sharey=True, squeeze=False
    )
    for axis, (name, title) in zip(axes[0], panels, strict=True):
        values = [result.median(system, name) or 0.0 for system in ran]
        colours = [OWN if system == ran[-1] else PEER for system in ran]
        bars = axis.barh(ran, values, color=colours)
        axis.bar_label(bars, [f"{value:,.0f}" for value in values], padding=3, fontsize=8)
        axis.set_xscale("log")
        axis.set_xlim(100, max([*values, 1_000.0]) * 4)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)
