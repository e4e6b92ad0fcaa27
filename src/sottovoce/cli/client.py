"""`sottovoce client`: take part from this device.

Commands import the client only when they run, so that `--help` is fast.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import platformdirs
import typer
from rich.table import Table

from sottovoce.characters import escape_control_characters
from sottovoce.cli import output
from sottovoce.cli.client_text import (
    describe_list,
    describe_price,
    describe_reasons,
    describe_status,
    format_remaining,
    format_spent,
    outlook_to_dict,
    recommendation_to_dict,
)
from sottovoce.cli.options import JsonFile, YesOption, make_group, make_option
from sottovoce.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from sottovoce.client import Client, HttpProxy

# Commands import these packages only when they run. If one is missing, fail now, so that
# `LazyCommand` says how to install it.
for package in ("httpx", "cryptography"):
    if find_spec(package) is None:
        raise ImportError(package, name=package)

app = make_group(
    "client",
    "Take part from this device; recommendations are computed here.",
    "client status --json status.json",
)

# Environment variable with the owner's session at the product. It is no option, because everybody
# on this machine could read an option.
SESSION_VARIABLE = "SOTTOVOCE_SESSION"
# A wait of at least this many seconds is announced.
MIN_ANNOUNCED_SECONDS = 10.0
# Unknown ids that `record` lists, since a CSV file may have thousands.
MAX_IDS_LISTED = 10
LIMIT_HELP = "Largest local epsilon that all reports of this device together may cost."
Folder = Annotated[
    Path | None,
    make_option("Folder of the client's files.", "a folder in the user's data folder", "--folder"),
]


def _get_folder(folder: Path | None) -> Path:
    return Path(platformdirs.user_data_dir("sottovoce")) / "client" if folder is None else folder


def _open_client(folder: Path | None) -> Client:
    from sottovoce.client import Client

    return Client.open(_get_folder(folder))


@contextmanager
def _connect(folder: Path | None) -> Iterator[tuple[Client, HttpProxy]]:
    """Yield the client of a folder and its proxy."""
    import httpx

    from sottovoce.client import HttpProxy

    with _open_client(folder) as client, httpx.Client() as http:
        yield client, HttpProxy(http, client.proxy_url)


def _format_command(command: str, folder: Path | None) -> str:
    """Return a command line that can be pasted, with `--folder` if a folder was given."""
    option = "" if folder is None else f" --folder {shlex.quote(str(folder))}"
    return f"sottovoce client {command}{option}"


@app.command()
def init(
    *,
    proxy: Annotated[
        str, typer.Option(help="Address of the proxy, such as https://proxy.example.")
    ],
    key: Annotated[
        str, typer.Option(help="Verification key of the server: 64 hexadecimal digits.")
    ],
    limit: Annotated[float, typer.Option(help=LIMIT_HELP)],
    folder: Folder = None,
) -> None:
    """Set up a client: its proxy, the server's key and its limit.

    The limit is the largest sum of the epsilons of all reports. It bounds what anybody can learn
    from everything that leaves this device, even if proxy and server work together. At the limit
    the client stops reporting, and continues to recommend.

    \b
    Example:
      sottovoce client init --proxy https://proxy.example --key 3b6a27bc...29 --limit 50
    """
    from sottovoce.client import Client

    path = _get_folder(folder)
    Client.create(path, proxy_url=proxy, verification_key=parse_key(key), limit=limit).close()
    typer.echo(f"Client created in {path}.")
    record, terms = (_format_command(command, folder) for command in ("record ITEM...", "terms"))
    typer.echo(f"Next, record items: {record}")
    typer.echo(f"Then read the terms: {terms}")


def parse_key(text: str) -> bytes:
    """Parse the verification key of a server."""
    if not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise SettingsError(f"--key must be 64 hexadecimal digits, not {text!r:.80}")
    return bytes.fromhex(text)


@app.command()
def record(
    items: Annotated[
        list[str] | None, typer.Argument(help="Ids of items in the catalogue.")
    ] = None,
    *,
    csv: Annotated[
        Path | None, typer.Option(help="Read the ids from this CSV file, not from the arguments.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="Column of the CSV file that holds the ids.")
    ] = "item",
    times: Annotated[
        str | None,
        make_option(
            "Column of the CSV file with the times: numbers or ISO dates.",
            "all items at the same time",
            "--time",
        ),
    ] = None,
    folder: Folder = None,
) -> None:
    """Record items that you have used. The record stays on this device.

    The items recorded last count most for recommendations. Recording an item again moves it to the
    end. All items of one call have the same place in the order. The client stores the order but no
    times, and never sends either. It stores at most 100,000 items and drops the earliest.

    \b
    Examples:
      sottovoce client record 318 527
      sottovoce client record --csv watched.csv --column movieId --time timestamp
    """
    if bool(items) == (csv is not None):
        raise SettingsError("give either the ids of items or --csv FILE")
    if csv is None and times is not None:
        raise SettingsError("--time needs --csv FILE, whose column it names")
    with _open_client(folder) as client:
        new = client.record(items or []) if csv is None else client.record_csv(csv, column, times)
        status = client.get_status()
    typer.echo(f"New items: {new}")
    if not status.items:
        typer.echo("There is no catalogue on this device yet. Sync to see whether it has them.")
    elif unknown := [
        item for item in status.unknown_items if csv is not None or item in (items or [])
    ]:
        ids = ", ".join(escape_control_characters(item) for item in unknown[:MAX_IDS_LISTED])
        more = f" and {len(unknown) - MAX_IDS_LISTED:,} more" * (len(unknown) > MAX_IDS_LISTED)
        typer.echo(
            f"Not in the catalogue of this device: {ids}{more}. They are recorded: a later "
            "catalogue may have them."
        )


@app.command()
def forget(
    items: Annotated[list[str] | None, typer.Argument(help="Ids of recorded items.")] = None,
    *,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Delete all items, models and catalogues, and a batch that is not sent."
        ),
    ] = False,
    yes: YesOption = False,
    folder: Folder = None,
) -> None:
    """Delete recorded items from all files of this client.

    The deleted data may stay readable on the disk until they are overwritten: encrypt the disk.
    Reports that were sent cannot be taken back, and the ledger keeps their cost. The ledger names
    no item. Reports that are ready are still sent, unless --all is given. To delete the ledger as
    well, remove the client's folder.

    \b
    Examples:
      sottovoce client forget 318 527
      sottovoce client forget --all --yes
    """
    if bool(items) == everything:
        raise SettingsError("give either the ids of items or --all")
    with _open_client(folder) as client:
        if items:
            typer.echo(f"Removed items: {client.remove(items)}")
            return
        question = "Delete all recorded items, models and catalogues, and a batch that is not sent?"
        output.confirm(question, _format_command("forget --all", folder), yes=yes)
        client.forget()
        status = client.get_status()
    typer.echo("Deleted, except the ledger, which keeps the epsilon that was spent.")
    if status.terms is not None and not status.paused:
        stop = _format_command("set --pause", folder)
        typer.echo(f"This device still takes part; to stop: {stop}")


@app.command()
def terms(
    *,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Accept the terms that have this name, which `terms` shows. Fails if the server "
            "now asks for other terms.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="EPSILON", help="Your present limit, as shown with the terms; with --accept."
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also show all values of the terms.")
    ] = False,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Show the terms that the server asks for now and what they promise, or accept them.

    No report is sent. After --accept, this device stops reporting if the server asks for terms
    that are worse in any point.

    \b
    Examples:
      sottovoce client terms --details
      sottovoce client terms --accept NAME --limit 50
    """
    if (accept is None) != (limit is None):
        raise SettingsError(
            "give --accept and --limit together, as printed by: " + _format_command("terms", folder)
        )
    with _connect(folder) as (client, api):
        manifest = client.fetch_manifest(api)
        asked = manifest.terms
        if accept is not None and limit is not None:
            if asked.name != accept:
                raise SettingsError(
                    f"{accept} is not the name of the terms that the server asks for; nothing was "
                    f"accepted. Show them, with their name: {_format_command('terms', folder)}"
                )
            client.accept(asked, limit)
            typer.echo(f"Accepted. Take part with: {_format_command('sync', folder)}")
            return
        status = client.get_status()
        outlook = None if status.problem else client.compute_outlook(asked)
    content = {"name": asked.name, **asked.as_dict(), **outlook_to_dict(outlook)}
    output.write_json(json, content, private=True)
    if not manifest.needs_consent:
        typer.echo("The server asks for no reports, so nothing leaves this device.")
        return
    if outlook is not None:
        typer.echo("\n".join(outlook.summary))
    if details:
        figures = [] if outlook is None else outlook.promise.list_figures()
        output.results.print(output.make_table([*asked.describe(), *figures]))
    typer.echo(describe_price(asked, status, outlook))
    typer.echo(f"To stop: {_format_command('set --pause', folder)}")
    if status.terms is not None and not status.terms.list_worse_terms(asked):
        typer.echo("You have accepted these terms, or ones that allow more.")
    elif status.limit is not None:
        choice = f"terms --accept {asked.name} --limit {status.limit!r}"
        command = _format_command(choice, folder)
        typer.echo(f"To accept exactly these terms, up to this limit: {command}")


@app.command()
def sync(
    *,
    jitter: Annotated[
        float,
        typer.Option(
            help="Longest random delay before reports are sent, in seconds. With 0 they are sent "
            "at once, which reveals when this device is in use: only for tests and demos.",
            min=0,
            max=3_600,
        ),
    ] = 3_600,
    attest: Annotated[
        str | None,
        make_option(
            "Address at which the product confirms your account, for services that need one. Put "
            "your session with the product in the environment variable SOTTOVOCE_SESSION.",
            "no account",
        ),
    ] = None,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Fetch the latest model, and report to its epoch unless this device has done so.

    Reports are sent after a random delay of up to an hour, so the command may wait. If it is
    stopped, nothing is lost: the next `sync` continues.

    \b
    Example:
      sottovoce client sync
    """
    from sottovoce.client.http import make_attestation_fetcher

    with _connect(folder) as (client, api):
        session = os.environ.get(SESSION_VARIABLE, "")
        fetch = None if attest is None else make_attestation_fetcher(attest, session)
        result = client.sync(api, jitter=jitter, sleep=_sleep, fetch_attestation=fetch)
        accepted = client.get_status().terms
    price = "" if accepted is None else f"; an epoch costs {format_spent(float(accepted.cost))}"
    spent, remaining = format_spent(result.spent), format_remaining(result.remaining)
    typer.echo(escape_control_characters(result.sentence))
    typer.echo(f"Spent so far: epsilon {spent}; left: {remaining}{price}.")
    output.write_json(json, asdict(result), private=True)


@app.command()
def look(*, folder: Folder = None) -> None:
    """Fetch the latest model and catalogue without reporting; drops retired items from your lists.

    Run it at regular times, such as every minute. It begins at the next multiple of ten seconds.

    \b
    Example:
      sottovoce client look
    """
    with _connect(folder) as (client, api):
        client.look(api, sleep=_sleep)
        items = output.pluralize(len(client.list_catalogue()), "item")
        typer.echo(f"The latest epoch is {client.get_status().epoch}; the catalogue has {items}.")


@app.command()
def recommend(
    n: Annotated[int, typer.Option("--n", "-n", help="Number of recommendations.", min=1)] = 10,
    *,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Recommend items that you have not recorded. Computed on this device, without the network.

    \b
    Example:
      sottovoce client recommend -n 5 --json recommended.json
    """
    with _open_client(folder) as client:
        items = [recommendation_to_dict(item) for item in client.recommend(n)]
        status = client.get_status()
    table = Table("item", "title", "because of")
    for item in items:
        cells = (item["id"], item["title"], describe_reasons(item))
        table.add_row(*map(output.escape_markup, cells))
    output.results.print(table)
    for line in describe_list(status, has_reasons=any(item["score"] for item in items)):
        output.messages.print(line)
    output.write_json(json, {"recommendations": items}, private=True)


@app.command("status")
def show_status(
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Also list the recorded items, from first to last.")
    ] = False,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Show the state of this client: model, spent epsilon, accepted terms and recorded items.

    \b
    Examples:
      sottovoce client status --json status.json
      sottovoce client status --history
    """
    with _open_client(folder) as client:
        status = client.get_status()
        accepted = status.terms
        outlook = None if accepted is None or status.problem else client.compute_outlook(accepted)
        touched, titles = (client.list_touched(), _get_titles(client)) if history else ([], {})
    rows = describe_status(status, _format_command("terms", folder))
    output.results.print(output.make_table(rows))
    if accepted is not None and outlook is not None:
        typer.echo("\n".join([*outlook.summary, describe_price(accepted, status, outlook)]))
    content = {
        **asdict(replace(status, terms=None)),
        "terms": None if accepted is None else accepted.as_dict(),
        **outlook_to_dict(outlook),
    }
    if history:
        rows = (
            (escape_control_characters(item), titles.get(item, "not in the catalogue here"))
            for item in touched
        )
        output.results.print(output.make_table(rows))
        content["history"] = [{"id": item, "title": titles.get(item)} for item in touched]
    output.write_json(json, content, private=True)


@app.command("set")
def change(
    *,
    limit: Annotated[float | None, typer.Option(help=LIMIT_HELP)] = None,
    pause: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Stop reporting, or start it again."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Pause or resume reporting, or change the limit.

    While reporting is paused, this device still fetches models and recommends. A new limit does not
    change the epsilon that is already spent. The ledger records the change.

    \b
    Examples:
      sottovoce client set --pause
      sottovoce client set --limit 100
    """
    if limit is None and pause is None:
        raise SettingsError("give --pause, --resume or --limit EPSILON")
    with _open_client(folder) as client:
        if limit is not None:
            client.set_limit(limit)
            typer.echo(f"The limit is now epsilon {format_spent(limit)}.")
        if pause is not None:
            client.pause(on=pause)
            typer.echo(
                "Paused: no reports leave this device. A sync still fetches new models."
                if pause
                else "Resumed: reports may leave again with the next sync."
            )


def _sleep(seconds: float) -> None:
    """Sleep, and announce it if the wait is long."""
    if seconds > MIN_ANNOUNCED_SECONDS:
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))
        typer.echo(f"Waiting until {until}, a random time, before reports are sent.")
        typer.echo("Ctrl-C stops the command; nothing is lost, and the next sync continues.")
    time.sleep(seconds)


def _get_titles(client: Client) -> dict[str, str]:
    """Return the titles of the catalogue's items by id; none before the first sync."""
    try:
        # Without a catalogue, the history is shown without titles.
        return {item.id: item.title for item in client.list_catalogue()}
    except StoreError:
        return {}
