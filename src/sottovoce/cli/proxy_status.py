"""`sottovoce proxy status`: how a proxy stands, in words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sottovoce.cli import output
from sottovoce.cli.options import JsonFile  # noqa: TC001 - typer reads the annotations
from sottovoce.cli.proxy_options import ConfigOption  # noqa: TC001 - typer reads the annotations
from sottovoce.proxy import ProxySettings, connect
from sottovoce.proxy.status import ProxyStatus
from sottovoce.service import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.protocol import SignedManifest


def status(config: ConfigOption, *, json_file: JsonFile = None) -> None:
    """Show the state of the proxy: epoch, crowd, what is not handed in yet, server, disk.

    Reads its folder, whether it runs or not, and asks the server. Only for the proxy's operator:
    the number of waiting batches would help an attacker. Exit code 0: all is well; 1: something
    needs attention, and the output says what; 2: the state cannot be read.

    \b
    Example:
      sottovoce proxy status --config my-proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    http, upstream = connect(settings)
    with http:
        found = ProxyStatus.read(settings, upstream, time.time())
    output.say_status(lines(found, settings), found, json_file)


def lines(found: ProxyStatus, settings: ProxySettings) -> Iterator[str]:
    """All but what needs attention."""
    if found.signed is None:
        yield "No epoch yet: the proxy waits for the server's first."
    else:
        yield from _epoch(found, found.signed)
    for each in found.unsettled:
        yield (
            f"Not handed in yet: {each.reports:,} reports of epoch {each.epoch}; the server has "
            f"{each.delivered:,} of {each.chunks:,} chunks."
        )
    if found.server.epoch is not None:
        yield f"The server answers at {settings.server}, with epoch {found.server.epoch}."
    if not found.panel_fits:
        yield (
            "The page's panel is of another catalogue than this epoch: whoever opens the page now "
            "sees no curve. Make one for this catalogue (docs/operations.md)."
        )
    yield (
        f"{found.free / 1e9:,.1f} GB are free in {settings.folder}; mixing this epoch takes about "
        f"{found.needed / 1e6:,.3g} MB."
    )
    yield "There is nothing to back up: a copy would keep what mixing is meant to destroy."


def _epoch(found: ProxyStatus, signed: SignedManifest) -> Iterator[str]:
    manifest, now = signed.manifest, found.now
    name = f"Epoch {manifest.epoch} of training {manifest.terms.training.hex()}"
    since, until = output.moment(manifest.opens, now), output.moment(manifest.closes, now)
    if manifest.public_key is None:
        yield f"{name} asks for no reports, since {since}: the training is finished."
        return
    if found.is_over:
        yield f"{name} is over here; the next one comes from the server."
        return
    if now < manifest.closes:
        yield f"{name} is open since {since}; it closes at {until} at the earliest."
    else:
        ends = output.moment(manifest.ends, now)
        yield f"{name} is open; its time was over at {until}. It is discarded at {ends}."
    yield f"{found.batches:,} batches wait; a crowd is {found.least:,}."
    if signed.statements:
        yield f"The server's key was replaced {len(signed.statements)} times since its first."
