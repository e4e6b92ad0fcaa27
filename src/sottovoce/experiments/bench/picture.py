"""Time against users, items and reports; efficiency against threads; the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.experiments.bench.growth import AXES
from sottovoce.experiments.bench.scaling import KINDS
from sottovoce.experiments.figures import save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from sottovoce.experiments.bench.comparison import BenchResult
    from sottovoce.experiments.bench.growth import Growth
    from sottovoce.experiments.bench.roofline import KernelPoint, RooflineResult
    from sottovoce.experiments.bench.scaling import Scaling, ScalingResult


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


def draw_scaling(result: ScalingResult, path: Path) -> None:
    def draw(figure: Figure) -> None:
        for axes, kind in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS, strict=True):
            for scaling in result.scalings:
                if scaling.kind == kind:
                    _draw_efficiency(axes, scaling)
            axes.axhline(1.0, color="grey", linewidth=0.8)
            axes.set(title=f"{kind} scaling", xlabel="threads or processes", ylabel="efficiency")
            axes.set_ylim(bottom=0)
            axes.legend()
        figure.suptitle(f"{result.data['name']}; 1: each does as much as one alone")

    save_figure(path, draw, size=(10, 4))


def _draw_efficiency(axes: Any, scaling: Scaling) -> None:
    found = [point.efficiency for point in scaling.points]
    counts = [point.count for point in scaling.points]
    middle = np.array([each.median for each in found])
    below = middle - [each.low for each in found]
    above = [each.high for each in found] - middle
    label = f"{scaling.mechanism}, {scaling.over}"
    axes.errorbar(counts, middle, (below, above), marker="o", capsize=3, label=label)
    axes.set_xticks(counts)


def draw_roofline(result: RooflineResult, path: Path) -> None:
    """Roofs of the machine, and each kernel from no table in a cache (left) to every one."""

    def draw(figure: Figure) -> None:
        axes, limits = figure.subplots(), result.limits
        lows, highs = zip(*(each.intensity for each in result.kernels), strict=True)
        xs = np.geomspace(min(*lows, 0.1) / 2, 2 * max(highs), 200)
        for label, peak, line in (
            ("float32", limits.float32, "-"),
            ("float64", limits.float64, "--"),
            ("float32, fused", limits.fused, ":"),
        ):
            axes.loglog(xs, np.minimum(xs * limits.copy, peak), line, color="grey", label=label)
        for each in result.kernels:
            _draw_kernel(axes, each)
        axes.set(xlabel="operations for each byte through memory", ylabel="operations a second")
        figure.legend(loc="outside right center", fontsize="small")
        axes.set_title(f"{result.data['name']}, {result.threads} threads; bars: attainable")

    save_figure(path, draw, size=(8, 4.2))


def _draw_kernel(axes: Any, each: KernelPoint) -> None:
    low, high = each.intensity
    rate = each.operations_per_second.median
    (line,) = axes.plot([low, high], [rate, rate], marker="o", label=each.kernel)
    axes.plot([high], [each.attainable.median], marker="_", color=line.get_color(), markersize=14)
