"""What the pictures share: colours, curves with their intervals, horizontal lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.cli.figures import draw_interval
from sottovoce.simulation.evaluation import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = {
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


def lines(
    axes: Any, points: Sequence[tuple[float, Interval | None]], label: str, colour: str
) -> None:
    """A curve through the points that are known, with their 95% intervals as a band."""
    known = [(x, interval) for x, interval in points if interval is not None]
    marker = "o" if len(known) < 12 else None
    if known:
        draw_interval(axes, known, 0.2, marker=marker, markersize=3, color=colour, label=label)


def level(axes: Any, interval: Interval | None, label: str) -> None:
    if interval is not None:
        colour = COLOURS["mf" if label == "MF-NP" else "popularity"]
        axes.axhline(interval.mean, linestyle="--", linewidth=1, color=colour, label=label)


def crowd_panels(
    figure: Figure,
    users: Sequence[int],
    reports: Sequence[int],
    x_label: str,
    draw: Callable[[Any, int, int], None],
) -> None:
    """HR@10 in a panel for each crowd and k, filled by `draw(axes, users, k)`; one legend."""
    panels: Any = figure.subplots(len(reports), len(users), sharex=True, sharey=True, squeeze=False)
    for row, k in zip(panels, reports, strict=True):
        for axes, crowd in zip(row, users, strict=True):
            draw(axes, crowd, k)
            axes.set_title(f"{crowd:,} users, k {k}", fontsize=9)
            axes.set(ylim=(0, 0.85))
            axes.grid(alpha=0.3)
    figure.supxlabel(x_label)
    figure.supylabel("HR@10")
    handles = panels[-1][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper")


def bars(
    axes: Any,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    colours: Sequence[str],
) -> None:
    """Horizontal, a group for each label, from the top down; what is not known leaves a gap."""
    height = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        at = [row - 0.4 + (place + 0.5) * height for row in range(len(labels))]
        lengths = [0.0 if value is None else value for value in values]
        axes.barh(at, lengths, height=height, label=name, color=colours[place % len(colours)])
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
