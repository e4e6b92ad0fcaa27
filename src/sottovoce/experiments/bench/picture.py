"""Time against users, items and reports, on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import MissingExtraError
from sottovoce.experiments.bench.growth import AXES

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.experiments.bench.growth import Growth
    from sottovoce.experiments.bench.running import BenchResult


def draw_growth(result: BenchResult, path: Path) -> None:
    """Write a picture of the growth curves; all of the file or none of it."""
    figure = figure_class()(figsize=(12, 4), layout="constrained")
    for axes, axis in zip(figure.subplots(1, len(AXES)), AXES, strict=True):
        for growth in result.growth:
            if growth.axis == axis:
                _draw_curve(axes, growth)
        axes.set_xlabel(axis)
        axes.set_ylabel("seconds of one epoch")
        axes.legend()
    name = result.data["name"]
    figure.suptitle(f"{name}, {result.threads} threads; slope 1: in proportion")
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format="png", dpi=120)
    part.replace(path)


def figure_class() -> Any:
    """matplotlib's, if it is there."""
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingExtraError(
            "--plot needs matplotlib, which is not installed: pip install 'sottovoce[plot]'"
        ) from missing
    return Figure


def _draw_curve(axes: Any, growth: Growth) -> None:
    sizes = [point.size for point in growth.points]
    seconds = [float(np.median(point.seconds)) for point in growth.points]
    label = f"{growth.mechanism}, slope {growth.slope.median:.2f}"
    axes.loglog(sizes, seconds, marker="o", label=label)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
