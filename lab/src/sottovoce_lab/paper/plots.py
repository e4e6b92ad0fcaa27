"""Curves, levels and bars that the experiments draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.cli.figures import draw_interval
from sottovoce.simulation.evaluation.metrics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METHOD_COLOURS = {
    "paper": "#b3402a",
    "paper-alpha": "#dd9c6b",
    "loudest": "#1b6ca8",
    "private-popularity": "#8a6fb0",
    "named-counts": "#5fa8a0",
    "named-als": "#d0679d",
    "dp-als": "#c2a02b",
    "dplcf": "#2e8b57",
    "mf": "#222222",
    "popularity": "#888888",
}
# Curves with at least this many points have no markers.
MIN_POINTS_WITHOUT_MARKERS = 12
# End of the axis of all panels with HR@10, so that experiments can be compared by eye.
MAX_HIT_RATIO_SHOWN = 0.85


def draw_curve(
    axes: Any, points: Sequence[tuple[float, Interval | None]], label: str, colour: str
) -> None:
    """Draw a curve through the points with a value, and their 95% intervals as a band."""
    computed = [(x, interval) for x, interval in points if interval is not None]
    marker = "o" if len(computed) < MIN_POINTS_WITHOUT_MARKERS else None
    if computed:
        draw_interval(axes, computed, 0.2, marker=marker, markersize=3, color=colour, label=label)


def draw_level(axes: Any, interval: Interval | None, label: str) -> None:
    """Draw a dashed line at the mean of a method that is not private and so has no budget."""
    if interval is not None:
        colour = METHOD_COLOURS["mf" if label == "MF-NP" else "popularity"]
        axes.axhline(interval.mean, linestyle="--", linewidth=1, color=colour, label=label)


def draw_crowd_panels(
    figure: Figure,
    users: Mapping[int, str],
    reports: Sequence[int],
    x_label: str,
    draw: Callable[[Any, int, int], None],
) -> None:
    """Draw HR@10 in a panel for each crowd and number of reports, with one legend.

    Args:
        figure: Where to draw.
        users: A label for each crowd; the key is its number of users.
        reports: Numbers of reports in an epoch.
        x_label: Label of the shared horizontal axis.
        draw: Called as `draw(axes, users, reports)` to fill one panel.
    """
    panels: Any = figure.subplots(len(reports), len(users), sharex=True, sharey=True, squeeze=False)
    for panel_row, k in zip(panels, reports, strict=True):
        for axes, crowd in zip(panel_row, users, strict=True):
            draw(axes, crowd, k)
            axes.set_title(f"{users[crowd]} users, k {k}", fontsize=9)
            axes.set(ylim=(0, MAX_HIT_RATIO_SHOWN))
            axes.grid(alpha=0.3)
    figure.supxlabel(x_label)
    figure.supylabel("HR@10")
    handles = panels[-1][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper")


def draw_bars(
    axes: Any,
    labels: Sequence[str],
    series: Mapping[str, Sequence[Interval | float | None]],
    colours: Sequence[str],
) -> None:
    """Draw horizontal bars in a group for each label; a missing value leaves a gap."""
    height = 0.8 / len(series)
    for index, (name, values) in enumerate(series.items()):
        positions = [row - 0.4 + (index + 0.5) * height for row in range(len(labels))]
        lengths = [value.mean if isinstance(value, Interval) else value or 0.0 for value in values]
        colour = colours[index % len(colours)]
        axes.barh(positions, lengths, height=height, label=name, color=colour)
    axes.set_yticks(range(len(labels)), labels)
    # Put the first label on top.
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
