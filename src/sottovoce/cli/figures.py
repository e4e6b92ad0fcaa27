"""Draw pictures with matplotlib, which is imported only here, and write their files atomically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import MissingExtraError
from sottovoce.storage.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    # Commands of services import this module, but must run without the simulator.
    from sottovoce.simulation.evaluation.metrics import Interval


def import_figure() -> type[Figure]:
    """Return matplotlib's `Figure`, or raise a `MissingExtraError`.

    Call this before long work, so that a missing matplotlib is noticed at once.
    """
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
    """Draw a curve of means, with a band of the same colour for their 95% intervals.

    Args:
        axes: The axes to draw on.
        points: Pairs of x and the interval at x.
        alpha: Opacity of the band.
        **line: Arguments of `plot`, with a `color`.
    """
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
    """Draw a picture and save it to one or more files.

    Args:
        path: A file, whose suffix names the format.
        draw: Draws on the figure.
        *more_paths: Further files of the same picture.
        size: Width and height in inches.
    """
    figure = import_figure()(figsize=size, layout="constrained")
    draw(figure)
    for file in (path, *more_paths):
        picture = BytesIO()
        figure.savefig(picture, format=file.suffix.removeprefix(".") or "png", dpi=150)
        write_atomically(file, picture.getvalue())
        # Keep the layout for the next file, so that all files show the same picture.
        figure.set_layout_engine("none")
