"""`sottovoce demo`: server, proxy, page and a few thousand invented people who report live."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import httpx
import typer

from sottovoce.cli import output
from sottovoce.cli.options import optional
from sottovoce.cli.system import (
    PANEL,
    PORT,
    CatalogueSource,
    StopSignal,
    free_port,
    is_free,
    make_system,
    running_system,
    write_ports,
    write_statement,
)
from sottovoce.client import HttpProxy
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.experiments.folders import new_folder
from sottovoce.experiments.live.learning_curve import LearningCurve, follow
from sottovoce.experiments.live.reader import PublicReader
from sottovoce.experiments.live.reporters import Reporters
from sottovoce.experiments.live.system_folder import LiveSystem, proxy_toml, server_toml, set_values
from sottovoce.privacy.account import shown
from sottovoce.protocol.panel import Panel
from sottovoce.training.planning import planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sottovoce.experiments.live.learning_curve import CurvePoint
    from sottovoce.model import Histories
    from sottovoce.training import Settings

PEOPLE, FILMS = 2000, 1000
EPSILON = 8.0
"""Of a report: for a given budget, few loud reports teach most (`sottovoce.training.planning`)."""
REPORTS = 8
"""Of a person in an epoch."""
FACTORS, RIDGE = 8, 0.5
"""Fewer factors and more ridge than the plan for such loud reports: a visitor chooses three films
and asks in the first epochs. With a ridge of 0.1, five of the ten films for three horror films are
horror after five epochs, with this one 8.6; HR@10 falls from 0.482 to 0.473, and popularity has
0.407 (means of seeds 1000 and 1001)."""
EPOCHS = 20
EPOCH_SECONDS = 12
"""At least: a page looks for news every five seconds, and sends five seconds after it has decided
to, so a visitor has a chance in each."""
BEAT_SECONDS = 0.1
"""Between two looks of either service: an epoch ends in a few of them."""
NOTICE = (
    "This is a demo. Everybody else who reports is invented, and so are the people that the model "
    "is tested on; the films are real. The budget is far larger than real people should be asked "
    "for: so small a crowd learns little from less."
)
TAGS = frozenset({"genre"})
"""Of the films. Which years people like is left to be learnt."""


@dataclass(frozen=True, eq=False)
class DemoPlan:
    """Who reports in the demo, and what is learnt from it."""

    histories: Histories
    epochs: int = EPOCHS
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @classmethod
    def invented(cls, people: int, films: int, seed: int, **changes: int) -> DemoPlan:
        return cls(synthetic_people(people, films, seed).histories, seed=seed, **changes)

    @property
    def source(self) -> CatalogueSource:
        data = f"synthetic:N={self.people},M={self.histories.n_items},seed={self.seed}"
        return CatalogueSource(data, tags=TAGS)

    @property
    def people(self) -> int:
        return self.histories.n_users

    @property
    def rows(self) -> list[list[int]]:
        return [self.histories[person].tolist() for person in range(self.people)]

    @cached_property
    def training(self) -> Settings:
        """Everybody takes part in every epoch, so that an epoch knows whom it waits for."""
        return planned(
            self.people,
            self.histories.n_items,
            history=self.histories.typical_length(),
            epsilon=EPSILON,
            reports=REPORTS,
            epochs=self.epochs,
            factors=FACTORS,
            ridge=RIDGE,
        )

    @property
    def cost(self) -> float:
        """What a person who takes part in all epochs spends."""
        return self.training.event(self.histories.n_items).pure

    def make(self, folder: Path, port: int) -> None:
        """Server and proxy, not running yet."""
        make_system(folder, self.source, lambda made: self._configure(made, port))

    def _configure(self, folder: Path, port: int) -> None:
        """Write both settings. An epoch ends when everybody has reported, however long it takes."""
        training = {("training", name): value for name, value in self.training.as_dict().items()}
        set_values(
            server_toml(folder),
            {
                ("", "epoch_seconds"): self.epoch_seconds,
                ("", "heartbeat"): BEAT_SECONDS,
                ("terms", "least_clients"): self.people,
                **training,
            },
        )
        set_values(
            proxy_toml(folder),
            {
                ("", "least_clients"): self.people,
                ("", "keep_models"): self.epochs + 1,
                ("", "poll_seconds"): BEAT_SECONDS,
                ("page", "notice"): NOTICE,
            },
        )
        write_ports(folder, port, free_port(port + 1))
        write_statement(folder, self.people)


def demo(
    *,
    people: Annotated[
        int, typer.Option(min=20, help="Number of invented people who report.")
    ] = PEOPLE,
    films: Annotated[
        int, typer.Option(min=30, help="Number of real films in the catalogue.")
    ] = FILMS,
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs; then the model is finished.")
    ] = EPOCHS,
    epoch_seconds: Annotated[
        int, typer.Option(min=1, help="Least length of an epoch in seconds.")
    ] = EPOCH_SECONDS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the invented people.")] = 0,
    port: Annotated[
        int | None,
        optional("Port of the page.", f"{PORT}, or the next free one", min=1, max=65_535),
    ] = None,
    folder: Annotated[
        Path | None, optional("New folder to keep everything in.", "a temporary folder")
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open the page in a browser, if there is a screen."
        ),
    ] = True,
) -> None:
    """Run the whole system on this machine, with a web page to take part in, until Ctrl-C.

    Starts a server, a proxy and thousands of invented people who report to it. The page recommends
    films on your own device and shows everything that leaves it. An epoch ends when all of these
    people have reported, so a slow machine takes longer and learns the same.

    \b
    Examples:
      sottovoce demo
      sottovoce demo --people 5000 --epoch-seconds 30 --no-browser
      sottovoce demo --folder here --port 9000
    """
    stop = StopSignal()
    port = _port(port)
    with new_folder(folder, "demo") as place:
        plan = DemoPlan.invented(people, films, seed, epochs=epochs, epoch_seconds=epoch_seconds)
        plan.make(place, port)
        if not stop():
            _run(place, plan, stop, browser=browser and can_open(os.environ, sys.platform))
    output.messages.print("Stopped.")


def can_open(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a window could appear in front of whoever started this.

    >>> can_open({"DISPLAY": ":0", "SSH_CONNECTION": "here there"}, "linux")
    False
    """
    if not sys.stdout.isatty() or "SSH_CONNECTION" in environment:
        return False
    return platform in ("darwin", "win32") or bool(
        environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    )


def _port(wanted: int | None) -> int:
    if wanted is None:
        return free_port(PORT)
    if not is_free(wanted):
        raise SettingsError(
            f"port {wanted} is taken: name another one with --port, or leave --port out"
        )
    return wanted


def _run(folder: Path, plan: DemoPlan, stop: StopSignal, *, browser: bool) -> None:
    system = LiveSystem.read(folder)
    panel = Panel.decode((folder / "proxy" / PANEL).read_bytes())
    with ExitStack() as stack:
        # Their processes take a while to begin, too: they wait for the proxy meanwhile.
        reporters = Reporters(system.proxy, system.key, plan.rows)
        stack.enter_context(reporters)
        children = stack.enter_context(running_system(folder, system, stop, quiet=True))
        stack.callback(reporters.terminate)
        if stop():
            return
        children[0].lower_priority()
        _print_start(system.proxy, plan)
        if browser:
            webbrowser.open(system.proxy)
        http = stack.enter_context(httpx.Client(trust_env=False))
        reader = PublicReader(HttpProxy(http, system.proxy), system.key)
        checks = [*(child.check for child in children), reporters.check]
        for point in follow(LearningCurve(reader, panel), checks, stop):
            _print_epoch(point, plan)


def _print_start(address: str, plan: DemoPlan) -> None:
    typer.echo(f"The page: {address}")
    typer.echo(
        f"Running: a server, a proxy and {plan.people:,} invented people. The films are real; what "
        "these people have seen is made up."
    )
    typer.echo(
        f"Each of them sends {REPORTS} noisy reports in each of {plan.epochs} epochs. An epoch "
        "ends when all have, however fast this machine is."
    )
    typer.echo(
        f"Privacy: epsilon {EPSILON:g} a report, {shown(plan.cost, 6)} in all. That is far too "
        "much for real people, but so small a crowd learns little from less. They also send at "
        "once; a real device waits for a random moment."
    )
    typer.echo(
        "HR@10: how often a film that was held back is among the first ten of a hundred, for "
        "invented test people. Popularity: the same for what most people have seen, with the same "
        "genres."
    )
    typer.echo("Ctrl-C stops all of it.")


def _print_epoch(point: CurvePoint, plan: DemoPlan) -> None:
    typer.echo(
        f"epoch {point.learnt:>2}/{plan.epochs}  {point.seconds:.0f} s each  "
        f"HR@10 {point.quality:.3f}  popularity {point.popularity:.3f}  {_stage(point, plan)}"
    )
    if point.finished:
        typer.echo("The model is finished. The page stays up until Ctrl-C.")


def _stage(point: CurvePoint, plan: DemoPlan) -> str:
    if point.finished:
        return "done"
    left = ceil((plan.epochs - point.learnt) * point.seconds / 60)
    young = point.popularity is not None and point.quality <= point.popularity
    return ("young: not above popularity yet; " if young else "") + f"about {left} min left"
