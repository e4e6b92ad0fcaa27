"""`sottovoce demo`: server, proxy, page and a few thousand invented people who report live."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from sottovoce.experiments.live.reporters import Reporters, epoch_length
from sottovoce.experiments.live.system_folder import LiveSystem, proxy_toml, server_toml, set_values
from sottovoce.protocol.panel import Panel
from sottovoce.training import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sottovoce.experiments.live.learning_curve import CurvePoint
    from sottovoce.model import Histories

PRESET = "loudest"
REPORTS = 20
"""k. With epsilon 2.5 and 3,000 people the model alone passes popularity after about four epochs;
where both have tags, after about sixteen."""
EPOCHS = 20
EPOCH_SECONDS = 20
"""At least, so that a visitor has a chance in each."""
MOST = 0.9
"""Of the people: for so many an epoch waits, however slow this machine is."""


@dataclass(frozen=True, eq=False)
class DemoPlan:
    """Who reports in the demo, and how long it takes."""

    histories: Histories
    epochs: int
    epoch_seconds: int
    seed: int

    @property
    def data(self) -> str:
        return f"synthetic:N={self.people},M={self.histories.n_items},seed={self.seed}"

    @property
    def people(self) -> int:
        return self.histories.n_users

    @property
    def rows(self) -> list[list[int]]:
        return [self.histories[person].tolist() for person in range(self.people)]

    def with_enough_time(self) -> DemoPlan:
        """The same with longer epochs, if this machine needs them."""
        settings = Settings.preset(PRESET, reports=REPORTS)
        needed = ceil(epoch_length(self.rows, self.histories.n_items, settings))
        return replace(self, epoch_seconds=max(self.epoch_seconds, needed))

    def configure(self, folder: Path, port: int) -> None:
        """Write both settings. Epochs are long enough that they end by the clock, as a rule."""
        least = int(MOST * self.people)
        set_values(
            server_toml(folder),
            {
                ("", "epoch_seconds"): self.epoch_seconds,
                ("terms", "least_clients"): least,
                ("training", "reports"): REPORTS,
                ("training", "epochs"): self.epochs,
                ("training", "half_life"): 0.0,
            },
        )
        set_values(
            proxy_toml(folder),
            {("", "least_clients"): least, ("", "keep_models"): self.epochs + 1},
        )
        write_ports(folder, port, free_port(port + 1))
        write_statement(folder, self.people)


def demo(
    *,
    people: Annotated[
        int, typer.Option(min=20, help="Number of invented people who report.")
    ] = 3000,
    films: Annotated[
        int, typer.Option(min=30, help="Number of real films in the catalogue.")
    ] = 1000,
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs; then the model is finished.")
    ] = EPOCHS,
    epoch_seconds: Annotated[
        int | None,
        optional(
            "Least length of an epoch in seconds.",
            f"{EPOCH_SECONDS}, or what this machine needs",
            min=2,
        ),
    ] = None,
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
    films on your own device and shows everything that leaves it.

    \b
    Examples:
      sottovoce demo
      sottovoce demo --people 5000 --epoch-seconds 40 --no-browser
      sottovoce demo --folder here --port 9000
    """  # noqa: D301 - typer reads \b
    stop = StopSignal()
    port = _port(port)
    with new_folder(folder, "demo") as place:
        histories = synthetic_people(people, films, seed).histories
        plan = DemoPlan(histories, epochs, epoch_seconds or EPOCH_SECONDS, seed)
        if epoch_seconds is None:
            plan = plan.with_enough_time()
        make_system(
            place,
            CatalogueSource(plan.data, preset=PRESET),
            lambda made: plan.configure(made, port),
        )
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
        for point in follow(LearningCurve(reader, panel, plan.histories), checks, stop):
            _print_epoch(point, plan)


def _print_start(address: str, plan: DemoPlan) -> None:
    typer.echo(f"The page: {address}")
    typer.echo(
        f"{plan.people:,} invented people report to it, each {REPORTS} noisy bits in every one of "
        f"{plan.epochs} epochs of {plan.epoch_seconds} seconds or more: an epoch waits for its "
        "crowd. They send at once, without the jitter of a real device: for demos and tests."
    )
    typer.echo(
        "Choose films that you have seen: what is recommended is computed in your browser, and "
        "everything that leaves it is shown."
    )
    typer.echo("Ctrl-C stops all of it.")


def _print_epoch(point: CurvePoint, plan: DemoPlan) -> None:
    left = (plan.epochs - point.learnt) * point.seconds / 60
    typer.echo(
        f"epoch {point.learnt:>2}/{plan.epochs}  {point.people:>6,} people  HR@10 "
        f"{point.quality:.3f} (popularity with these tags, not private: {point.popularity:.3f})  "
        f"about {ceil(left)} min left"
    )
    if point.finished:
        typer.echo("The model is finished. The page stays up until Ctrl-C.")
