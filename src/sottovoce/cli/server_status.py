"""`sottovoce server status`: how a service stands, in words."""

from __future__ import annotations

import shlex
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from sottovoce.cli import output
from sottovoce.cli.options import JsonFile  # noqa: TC001 - typer reads the annotations
from sottovoce.cli.server_options import ConfigOption  # noqa: TC001 - typer reads the annotations
from sottovoce.errors import SettingsError
from sottovoce.server import ServerSettings, ServerStore
from sottovoce.server.status import DROPPED, ServerStatus
from sottovoce.server.store import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.server.store import Epoch
    from sottovoce.server.waiting import Waiting


def status(config: ConfigOption, *, json_file: JsonFile = None) -> None:
    """Show the state of the service: epoch, what it waits for, counted reports, keys, catalogue.

    Reads only the database; no worker needs to run. Exit code 0: all is well; 1: something needs
    attention, and the output says what; 2: the state cannot be read.

    \b
    Example:
      sottovoce server status --config my-server/server.toml
    """
    settings = ServerSettings.read(config)
    _check_there(settings.database)
    with closing(ServerStore(settings.database)) as store:
        found = ServerStatus.read(store, settings, time.time())
    output.say_status(lines(found, settings, config), found, json_file)


def lines(found: ServerStatus, settings: ServerSettings, config: Path) -> Iterator[str]:
    """All but what needs attention."""
    yield from _epoch(found)
    yield from (_counted(epoch) for epoch in reversed(found.last))
    yield _learning(found)
    yield from _catalogue(found)
    yield from _keys(found)
    if found.epoch is not None and found.chosen.training.number != found.epoch.training:
        yield f"Training {found.chosen.training.number} begins after this epoch."
    yield _backup_advice(settings, config)


def _check_there(database: str) -> None:
    """SQLite would make an empty file."""
    url = make_url(database)
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise SettingsError(f"{url.database}: there is no such database")


def _epoch(found: ServerStatus) -> Iterator[str]:
    epoch, now = found.epoch, found.now
    if epoch is None or found.manifest is None:
        yield "No epoch yet: `sottovoce server run` opens the first."
        return
    name = f"Epoch {epoch.epoch} of training {epoch.training}"
    if found.waiting is None:
        over = "asks for no reports" if epoch.closed_at is None else "is over"
        yield f"{name} {over}, since {output.moment(epoch.closed_at or epoch.opens, now)}."
    elif epoch.state == OPEN and now < epoch.closes:
        since, until = output.moment(epoch.opens, now), output.moment(epoch.closes, now)
        yield f"{name} is open since {since}; it closes at {until} at the earliest."
    elif epoch.state == OPEN:
        yield f"{name} is open; its time was over at {output.moment(epoch.closes, now)}."
        yield from _open(found.waiting, found.manifest.terms.least_clients, now)
    else:
        yield f"{name} is closed since {output.moment(epoch.closed_at or 0.0, now)}."
        yield from _closed(found.waiting, epoch, now)


def _open(waiting: Waiting, least: int, now: float) -> Iterator[str]:
    if waiting.short:
        yield f"It waits for a crowd of {output.people(least)} at {', '.join(waiting.short)}."
    elif not waiting.has_crowd:
        yield f"It waits for a crowd of {output.people(least)}: no proxy has one."
    if waiting.silent:
        yield f"It has heard nothing from {', '.join(waiting.silent)}."
    if waiting.is_over:
        yield "It waits for nothing: a worker closes it with its next beat."
    else:
        yield f"It is closed at {output.moment(waiting.until, now)} in any case."


def _closed(waiting: Waiting, epoch: Epoch, now: float) -> Iterator[str]:
    yield f"{epoch.reports:,} reports in {epoch.chunks:,} chunks were counted so far."
    if waiting.is_over:
        yield "It waits for nothing: a worker applies it with its next beat."
    else:
        until = output.moment(waiting.until, now)
        yield f"It waits for {', '.join(waiting.silent)} to hand in, until {until} at the latest."


def _counted(epoch: Epoch) -> str:
    dropped = [
        f"{getattr(epoch, name):,} {why}" for name, why in DROPPED.items() if getattr(epoch, name)
    ]
    tail = f"; dropped: {', '.join(dropped)}" if dropped else "; none were dropped"
    return f"Epoch {epoch.epoch} counted {epoch.reports:,} reports{tail}."


def _learning(found: ServerStatus) -> str:
    if found.epoch is None or found.manifest is None or found.training is None:
        return "Nothing was learnt yet."
    done = output.counted(found.epoch.epochs_done, "epoch")
    learnt = f"Training {found.epoch.training} has learnt from {done}"
    if found.is_endless:
        half = found.training.settings.half_life
        return f"{learnt}; learning has no end (half-life {output.counted(half, 'epoch')})."
    if not found.manifest.epochs_left:
        return f"{learnt}; the training is finished."
    return f"{learnt}; {found.manifest.epochs_left:,} are left."


def _catalogue(found: ServerStatus) -> Iterator[str]:
    chosen, manifest = found.chosen, found.manifest
    most = f"at most {chosen.training.terms.most_items:,} in this training"
    if manifest is None:
        yield f"Catalogue version {chosen.version}: {chosen.items:,} items, {most}."
        return
    yield f"Catalogue version {manifest.catalogue_version}: {manifest.items:,} items, {most}."
    if manifest.catalogue_version != chosen.version:
        yield f"Version {chosen.version}, {chosen.items:,} items, follows with the next epoch."


def _keys(found: ServerStatus) -> Iterator[str]:
    times = found.keys.replaced
    replaced = "never replaced" if not times else f"replaced {output.counted(times, 'time')}"
    yield f"Verification key: {found.verification_key.hex()} ({replaced})."
    if found.keys.problem is None:
        yield "Keys file and database belong together."
    if found.keys.is_newer:
        yield "The keys file has a newer key, which signs from the next epoch on."


def _backup_advice(settings: ServerSettings, config: Path) -> str:
    how = (
        f"`sottovoce server backup --config {shlex.quote(str(config))} FILE`"
        if settings.database.startswith("sqlite")
        else "`pg_dump --exclude-table-data=epoch_keys`"
    )
    return f"Back up the database ({how}) and {settings.keys.name} (once for each key) apart."
