"""Draw the learning curves of several `sottovoce simulate --json` files in one picture.

python benchmarks/learning_curves.py OUT.png "label=run.json" "other label=run2.json" ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

COLOURS = ("#8a8a8a", "#1b6ca8", "#c8442e", "#2e8b57")


def curve(path: Path) -> tuple[list[int], list[float], list[float], list[float]]:
    """Epochs, mean HR@10, and the least and largest of the seeds."""
    content = json.loads(path.read_text())
    runs = content.get("runs") or [content]
    points = [
        [record["hr@10"] for record in records]
        for records in zip(*(r["epochs"] for r in runs), strict=True)
    ]
    epochs = [record["epoch"] for record in content["epochs"]]
    return (
        epochs,
        [sum(p) / len(p) for p in points],
        [min(p) for p in points],
        [max(p) for p in points],
    )


def main(out: str, *named: str) -> None:
    """One line for each file."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    popular = None
    for colour, argument in zip(COLOURS, named, strict=False):
        label, _, path = argument.rpartition("=")
        epochs, means, low, high = curve(Path(path))
        axes.plot(epochs, means, marker=".", color=colour, label=label)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.2, linewidth=0)
        popular = json.loads(Path(path).read_text()).get("popularity")
    if popular:
        axes.axhline(popular["hr@10"], color="black", linestyle=":", label="popularity")
    axes.set(xlabel="epoch", ylabel="HR@10, 99 negatives")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0.1)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(out, dpi=140)


if __name__ == "__main__":
    main(*sys.argv[1:])
