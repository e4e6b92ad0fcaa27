"""Pictures by matplotlib, which is needed only for them; a file is written whole or not at all."""

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
    """Return matplotlib's `Figure`. Call it before long work, so that its lack shows at once."""
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
    """Draw a curve of means with their 95% intervals as a band of the same colour."""
    xs = [x for x, _ in points]
    means = [interval.mean for _, interval in points]
    low = [interval.mean - (interval.half_width or 0.0) for _, interval in points]
    high = [interval.mean + (interval.half_width or 0.0) for _, interval in points]
    axes.plot(xs, means, **line)
    axes.fill_between(xs, low, high, alpha=alpha, color=line["color"], linewidth=0)


def save_figure(
    path: Path,
    draw: Callable[[Figure], None],
    *more_paths: Path,
    size: tuple[float, float] = (7, 4.2),
) -> None:
    """Save a picture of this size in inches, in the formats that the suffixes of the paths name."""
    figure = import_figure()(figsize=size, layout="constrained")
    draw(figure)
    for each_path in (path, *more_paths):
        picture = BytesIO()
        figure.savefig(picture, format=each_path.suffix.removeprefix(".") or "png", dpi=150)
        write_atomically(each_path, picture.getvalue())
        # Do not lay it out again for the next format.
        figure.set_layout_engine("none")
