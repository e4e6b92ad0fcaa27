"""Pictures: matplotlib if it is there, a whole file or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import MissingExtraError
from sottovoce.storage.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    # A service's commands have options for pictures and need no simulator.
    from sottovoce.simulation.evaluation.metrics import Interval


def import_figure() -> type[Figure]:
    """Of matplotlib, if it is there: better to miss it before an hour of work than after it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "pictures need matplotlib: pip install 'sottovoce[plot]'"
        ) from error
    return Figure


def draw_interval(
    axes: Any, points: Sequence[tuple[float, Interval]], alpha: float, **line: Any
) -> None:
    """A curve of means with their 95% intervals as a band of the same colour."""
    xs = [x for x, _ in points]
    means = [interval.mean for _, interval in points]
    low = [interval.mean - (interval.half_width or 0.0) for _, interval in points]
    high = [interval.mean + (interval.half_width or 0.0) for _, interval in points]
    axes.plot(xs, means, **line)
    axes.fill_between(xs, low, high, alpha=alpha, color=line["color"], linewidth=0)


def save_figure(
    path: Path,
    draw: Callable[[Figure], None],
    *also: Path,
    size: tuple[float, float] = (7, 4.2),
) -> None:
    """One picture of that size in inches, in the formats that the names say; `draw` fills it."""
    figure = import_figure()(figsize=size, layout="constrained")
    draw(figure)
    for each in (path, *also):
        drawn = BytesIO()
        figure.savefig(drawn, format=each.suffix.removeprefix(".") or "png", dpi=150)
        write_atomically(each, drawn.getvalue())
        figure.set_layout_engine("none")  # everything has its place now
