"""The picture of the page: a bar for each system, drain and cycle, on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Result
from benchmarks.systems import BARE, WINDLASS

PANELS = (("drain1", "drain, 1 process, jobs/s"), ("cycle", "cycle, jobs/s"))
OWN, LIMIT, PEER = "#1f5f8b", "#8fb8d0", "#b8b8b8"


def draw(result: Result, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ran = [
        name for name in result.systems if any(result.series(name, panel[0]) for panel in PANELS)
    ][::-1]
    panels = [panel for panel in PANELS if any(result.median(name, panel[0]) for name in ran)]
    if not panels:
        return
    figure, axes = pyplot.subplots(
        *(1, len(panels)), figsize=(9, 0.6 + 0.36 * len(ran)), sharey=True, squeeze=False
    )
    for axis, (name, title) in zip(axes[0], panels, strict=True):
        values = [result.median(system, name) or 0.0 for system in ran]
        colours = [{WINDLASS.name: OWN, BARE.name: LIMIT}.get(system, PEER) for system in ran]
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
