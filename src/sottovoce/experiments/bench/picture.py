"""Time against users, items and reports, on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.experiments.bench.growth import AXES
from sottovoce.experiments.figures import save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from sottovoce.experiments.bench.comparison import BenchResult
    from sottovoce.experiments.bench.growth import Growth


def draw_growth(result: BenchResult, path: Path) -> None:
    def draw(figure: Figure) -> None:
        for axes, axis in zip(figure.subplots(1, len(AXES)), AXES, strict=True):
            for growth in result.growth:
                if growth.axis == axis:
                    _draw_curve(axes, growth)
            axes.set_xlabel(axis)
            axes.set_ylabel("seconds of one epoch")
            axes.legend()
        name = result.data["name"]
        figure.suptitle(f"{name}, {result.threads} threads; slope 1: in proportion")

    save_figure(path, draw, size=(12, 4))


def _draw_curve(axes: Any, growth: Growth) -> None:
    sizes = [point.size for point in growth.points]
    seconds = [float(np.median(point.seconds)) for point in growth.points]
    label = f"{growth.mechanism}, slope {growth.slope.median:.2f}"
    axes.loglog(sizes, seconds, marker="o", label=label)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
