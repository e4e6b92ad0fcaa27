"""What all commands of `sottovoce bench` that time epochs are told about people and rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import output
from sottovoce.cli.options import optional
from sottovoce.data import load, parse_columns

if TYPE_CHECKING:
    from sottovoce.data import Interactions

SYNTHETIC = "synthetic:N=4000,M=1000,seed=0"
QUICK_USERS, QUICK_ROUNDS, QUICK_SAMPLE = 1000, 2, 20

Repeats = Annotated[
    int, typer.Option("--repeats", help="Number of rounds; each runs every contender once.", min=1)
]
ReferenceUsers = Annotated[
    int,
    typer.Option(
        "--reference-users",
        help="People for whom the numpy reference runs; its time is extrapolated to all.",
        min=1,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help=f"Take at most {QUICK_USERS:,} people and {QUICK_ROUNDS} rounds."),
]
RayWorkers = Annotated[
    int | None,
    optional("Ray worker processes, one core each.", "as many as threads", "--ray-workers", min=1),
]


def rounds(repeats: int, *, quick: bool) -> int:
    return min(repeats, QUICK_ROUNDS) if quick else repeats


def mechanisms_given(mechanism: list[str] | None) -> dict[str, Any]:
    """For a plan, which has all of them unless some are named."""
    return {"mechanisms": tuple(mechanism)} if mechanism else {}


def read_people(
    source: str, columns: str | None, min_interactions: int, seed: int, *, quick: bool
) -> Interactions:
    data = load(source, parse_columns(columns)).filter(min_interactions)
    if quick and data.histories.n_users > QUICK_USERS:
        data = data.subset(users=QUICK_USERS, seed=seed)
    return data


def people_in_words(data: dict[str, Any]) -> str:
    return (
        f"{output.plain(data['name'])}: {data['users']:,} users x {data['items']:,} items, "
        f"{data['interactions']:,} interactions."
    )
