"""`sottovoce demo`: synthetic people teach a recommender, and one of them is recommended films."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.mechanism import Settings
from sottovoce.model import Histories
from sottovoce.simulation import FederatedMF, Plan
from sottovoce.simulation import simulate as run_simulation

if TYPE_CHECKING:
    from sottovoce.data import Interactions
    from sottovoce.simulation import Run


def demo(
    *,
    people: Annotated[int, typer.Option(min=2, help="How many synthetic viewers.")] = 4000,
    films: Annotated[int, typer.Option(min=10, help="Over so many real films.")] = 1000,
    viewer: Annotated[int, typer.Option(min=0, help="Whom to recommend to.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other people.")] = 0,
) -> None:
    """Train on synthetic people over real films, then recommend to one of them.

    \b
    Example:
      sottovoce demo --people 4000 --viewer 7
    """  # noqa: D301 - typer reads \b
    if viewer >= people:
        raise SettingsError(f"there is no viewer {viewer}: they are numbered 0..{people - 1}")
    data = synthetic_people(people, films, seed)
    plan = Plan(Settings.preset("loudest", seed=seed))
    label = f"{people:,} people, {films:,} films"
    per_epoch = plan.settings.epsilon * plan.settings.reports
    with output.EpochBar(label, plan.settings.epochs, per_epoch) as advance:
        run = run_simulation(data, plan, on_epoch=advance)
    _print_quality(run)
    _print_viewer(data, run, viewer)
    output.results.print(run.account.statement(), highlight=False, soft_wrap=True)


def _print_quality(run: Run) -> None:
    output.results.print(
        f"HR@10 {run.final['hr@10']:.3f} (recommending what everybody watches: "
        f"{run.popularity['hr@10']:.3f}, chance: 0.100). Nobody's history was collected.",
        highlight=False,
        soft_wrap=True,
    )


def _print_viewer(data: Interactions, run: Run, viewer: int) -> None:
    assert data.titles is not None
    own = Histories.from_lists([data.histories[viewer].tolist()], data.histories.n_items)
    model = FederatedMF.from_items(run.V, run.plan.settings)
    items, _ = model.recommend(viewer, own)
    popularity = data.histories.popularity()
    # The least watched of her films say most about her.
    seen = sorted(data.histories[viewer].tolist(), key=lambda i: int(popularity[i]))[: len(items)]
    table = Table(title=f"Viewer {viewer}, on her own device", title_justify="left")
    table.add_column(f"saw {len(own.indices)} films, such as", overflow="fold")
    table.add_column("is recommended", overflow="fold")
    for watched, recommended in zip(seen, items.tolist(), strict=False):
        table.add_row(str(data.titles[watched]), str(data.titles[recommended]))
    output.results.print(table)
