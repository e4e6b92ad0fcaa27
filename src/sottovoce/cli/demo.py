"""`sottovoce demo`: server, proxy, page and a few thousand invented people who report live."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import httpx
import typer

from sottovoce.cli import output
from sottovoce.cli.system import (
    HOST,
    PANEL,
    PORT,
    Source,
    Stop,
    both_running,
    free_port,
    is_free,
    make,
    write_statement,
)
from sottovoce.client import HttpProxy
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.experiments.live.learning_curve import Curve, follow
from sottovoce.experiments.live.reader import PublicReader
from sottovoce.experiments.live.reporters import Reporters, epoch_length
from sottovoce.experiments.live.standing import Standing, change, proxy_toml, server_toml
from sottovoce.protocol.panel import Panel
from sottovoce.training import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sottovoce.experiments.live.learning_curve import Point
    from sottovoce.model import Histories

PRESET = "loudest"
REPORTS = 20
"""k. With epsilon 2.5 and 3,000 people the model passes popularity after about four epochs."""
EPOCHS = 20
EPOCH_SECONDS = 20
"""At least, so that a visitor has a chance in each."""
MOST = 0.9
"""Of the people: with fewer, an epoch was too short for this machine."""
SLOW = "A larger --epoch-seconds gives them longer"


@dataclass(frozen=True, eq=False)
class Show:
    """How large, and at what pace."""

    histories: Histories
    """Of everybody who reports."""
    epochs: int
    epoch_seconds: int
    seed: int

    @property
    def data(self) -> str:
        """Their name as a data set."""
        return f"synthetic:N={self.people},M={self.histories.n_items},seed={self.seed}"

    @property
    def people(self) -> int:
        """How many report."""
        return self.histories.n_users

    @property
    def rows(self) -> list[list[int]]:
        """What each of them touched."""
        return [self.histories[person].tolist() for person in range(self.people)]

    def fitting(self) -> Show:
        """With longer epochs, if this machine needs them."""
        settings = Settings.preset(PRESET, reports=REPORTS)
        needed = ceil(epoch_length(self.rows, self.histories.n_items, settings))
        return replace(self, epoch_seconds=max(self.epoch_seconds, needed))

    def settle(self, folder: Path, port: int) -> None:
        """To the settings of both. Epochs end by the clock: so a visitor knows how long she has."""
        server_port, least = free_port(port + 1), max(1, self.people // 2)
        change(
            server_toml(folder),
            {
                ("", "epoch_seconds"): self.epoch_seconds,
                ("", "least_clients"): least,
                ("training", "reports"): REPORTS,
                ("training", "epochs"): self.epochs,
                ("listen", "port"): server_port,
            },
        )
        change(
            proxy_toml(folder),
            {
                ("", "server"): f"http://{HOST}:{server_port}",
                ("", "least_clients"): least,
                ("", "keep_models"): self.epochs + 1,
                ("listen", "port"): port,
            },
        )
        write_statement(folder, self.people)


def demo(
    *,
    people: Annotated[int, typer.Option(min=20, help="How many invented people report.")] = 3000,
    films: Annotated[int, typer.Option(min=30, help="Over so many real films.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Until the model is finished.")] = EPOCHS,
    epoch_seconds: Annotated[
        int | None,
        typer.Option(
            min=2, help=f"Length of each; {EPOCH_SECONDS}, or what all people need on this machine."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other people.")] = 0,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help=f"Of the page; {PORT}, or the next that is free."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep everything in this new folder; else in a temporary one."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, if there is a screen.")
    ] = True,
) -> None:
    """Run the whole system here, with a page to take part in, until Ctrl-C.

    A server, a proxy and thousands of invented people who report to it, live and at a visible pace.
    The page recommends films on your own device and shows everything that leaves it.

    \b
    Examples:
      sottovoce demo
      sottovoce demo --people 5000 --epoch-seconds 40 --no-browser
      sottovoce demo --folder here --port 9000
    """  # noqa: D301 - typer reads \b
    stop = Stop()
    port = _port(port)
    with _place(folder) as place:
        histories = synthetic_people(people, films, seed).histories
        show = Show(histories, epochs, epoch_seconds or EPOCH_SECONDS, seed)
        if epoch_seconds is None:
            show = show.fitting()
        make(place, Source(show.data, preset=PRESET), lambda made: show.settle(made, port))
        if not stop():
            _run(place, show, stop, browser=browser and can_open(os.environ, sys.platform))
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
        raise SettingsError(f"port {wanted} is taken: name another one with --port, or none")
    return wanted


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """A temporary one is gone afterwards; one that was asked for must be new."""
    if folder is None:
        try:
            made = tempfile.TemporaryDirectory(prefix="sottovoce-demo-")
        except OSError as error:
            raise SettingsError(f"no temporary folder can be made: {error}") from error
        with made as temporary:
            yield Path(temporary)
        return
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder")
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder} is not empty: the demo begins in a new folder")
    yield folder


def _run(folder: Path, show: Show, stop: Stop, *, browser: bool) -> None:
    standing = Standing.read(folder)
    panel = Panel.decode((folder / "proxy" / PANEL).read_bytes())
    with ExitStack() as stack:
        # Their processes take a while to begin, too: they wait for the proxy meanwhile.
        reporters = Reporters(standing.proxy, standing.key, show.rows)
        stack.enter_context(reporters)
        children = stack.enter_context(both_running(folder, standing, stop, quiet=True))
        stack.callback(reporters.terminate)
        if stop():
            return
        children[0].lower_priority()
        _tell(standing.proxy, show)
        if browser:
            webbrowser.open(standing.proxy)
        http = stack.enter_context(httpx.Client(trust_env=False))
        reader = PublicReader(HttpProxy(http, standing.proxy), standing.key)
        checks = [*(child.check for child in children), reporters.check]
        for point in follow(Curve(reader, panel, show.histories), checks, stop):
            _tell_point(point, show)


def _tell(address: str, show: Show) -> None:
    typer.echo(f"The page: {address}")
    typer.echo(
        f"{show.people:,} invented people report to it, each {REPORTS} noisy bits in every one of "
        f"{show.epochs} epochs of {show.epoch_seconds} seconds."
    )
    typer.echo(
        "Choose films that you have seen: what is recommended is computed in your browser, and "
        "everything that leaves it is shown."
    )
    typer.echo("Ctrl-C stops all of it.")


def _tell_point(point: Point, show: Show) -> None:
    """One line for each epoch."""
    if not point.people:
        typer.echo(f"epoch {point.epoch} was discarded: too few came in time. {SLOW}")
        return
    left = (show.epochs - point.learnt) * point.seconds / 60
    typer.echo(
        f"epoch {point.learnt:>2}/{show.epochs}  {point.people:>6,} people  HR@10 "
        f"{point.quality:.3f} (popularity {point.popularity:.3f})  about {ceil(left)} min left"
    )
    if point.people < MOST * show.people:
        typer.echo(f"Not everybody came in time. {SLOW}")
    if point.finished:
        typer.echo("The model is finished. The page stays up until Ctrl-C.")
