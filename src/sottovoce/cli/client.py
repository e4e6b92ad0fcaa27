"""`sottovoce client`: a person's own side, on their own device; help loads nothing of it."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import platformdirs
import typer
from rich.table import Table

from sottovoce.characters import escape_control_characters
from sottovoce.cli import output
from sottovoce.cli.options import JsonFile, YesOption, make_group, make_option
from sottovoce.errors import SettingsError, StoreError
from sottovoce.privacy import format_epsilon

if TYPE_CHECKING:
    from sottovoce.client import Client, HttpProxy, Outlook, Reason, Recommendation, Status, Terms

for package in ("httpx", "cryptography"):  # as if they were imported here
    if find_spec(package) is None:
        raise ImportError(package, name=package)

app = make_group(
    "client",
    "Take part from this device, which computes its own lists.",
    "client status --json status.json",
)

SESSION = "SOTTOVOCE_SESSION"
"""The environment's: not an option, which anybody on this machine could read."""
LONG = 10.0
"""Seconds: a shorter wait is not announced."""
LEAST_SHARE = 0.005
"""A reason with no more would be shown as 0%."""
MOST_NAMED = 10
"""Ids that are listed where there may be thousands."""
LIMIT = "Most local epsilon that all reports together may ever cost."
Folder = Annotated[
    Path | None, make_option("The client's folder.", "in the user's data folder", "--folder")
]


def folder_of(given: Path | None) -> Path:
    """The one that was named, or the usual one."""
    return Path(platformdirs.user_data_dir("sottovoce")) / "client" if given is None else given


def opened(given: Path | None) -> Client:
    from sottovoce.client import Client

    return Client.open(folder_of(given))


@contextmanager
def connected(given: Path | None) -> Iterator[tuple[Client, HttpProxy]]:
    """The client, and the proxy that it talks to."""
    import httpx

    from sottovoce.client import HttpProxy

    with opened(given) as client, httpx.Client() as http:
        yield client, HttpProxy(http, client.proxy_url)


def typed(command: str, given: Path | None) -> str:
    """A command of this client, to be pasted: with its folder, where one was named."""
    where = "" if given is None else f" --folder {shlex.quote(str(given))}"
    return f"sottovoce client {command}{where}"


@app.command()
def init(
    *,
    proxy: Annotated[
        str, typer.Option(help="Address of the proxy, such as https://proxy.example.")
    ],
    key: Annotated[
        str, typer.Option(help="Verification key of the server: 64 hexadecimal digits.")
    ],
    limit: Annotated[float, typer.Option(help=LIMIT)],
    folder: Folder = None,
) -> None:
    """Set up a client: its proxy, the key it trusts, its limit.

    The limit is the sum of the epsilons of all reports. It bounds what anybody can learn from all
    that ever leaves this device, even if proxy and server work together. At the limit the client
    stops reporting; it still recommends.

    \b
    Example:
      sottovoce client init --proxy https://proxy.example --key 3b6a27bc...29 --limit 50
    """
    from sottovoce.client import Client

    where, trusted = folder_of(folder), parse_key(key)
    Client.create(where, proxy_url=proxy, verification_key=trusted, limit=limit).close()
    typer.echo(f"Client created in {where}.")
    typer.echo(f"Next: {typed('record ITEM...', folder)}, then: {typed('terms', folder)}")


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
        Path | None, typer.Option(help="Read the ids from this CSV file instead.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="Column of the CSV file that holds the ids.")
    ] = "item",
    times: Annotated[
        str | None,
        make_option("Column with the time: numbers or ISO dates.", "all at one moment", "--time"),
    ] = None,
    folder: Folder = None,
) -> None:
    """Record items that you have used. They stay on this device.

    The items recorded last count most for recommendations; recording an item again moves it to the
    end. All items of one call count as one moment. The order is kept, times are not, and neither is
    ever sent. Beyond 100,000 items the earliest are dropped.

    \b
    Examples:
      sottovoce client record 318 527
      sottovoce client record --csv watched.csv --column movieId --time timestamp
    """
    if bool(items) == (csv is not None):
        raise SettingsError("give either the ids of items or --csv FILE")
    if csv is None and times is not None:
        raise SettingsError("--time needs --csv FILE, whose column it names")
    with opened(folder) as client:
        new = client.record(items or []) if csv is None else client.record_csv(csv, column, times)
        found = client.get_status()
    typer.echo(f"New items: {new}")
    if not found.items:
        typer.echo("There is no catalogue here yet: whether it has them shows after a sync.")
    elif unknown := [item for item in found.unknown if csv is not None or item in (items or [])]:
        named = ", ".join(escape_control_characters(item) for item in unknown[:MOST_NAMED])
        more = f" and {len(unknown) - MOST_NAMED:,} more" * (len(unknown) > MOST_NAMED)
        typer.echo(f"Not in the catalogue here: {named}{more}. Kept: a later one may have them.")


@app.command()
def forget(
    items: Annotated[list[str] | None, typer.Argument(help="Ids of recorded items.")] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All items, the model and any unsent batch.")
    ] = False,
    yes: YesOption = False,
    folder: Folder = None,
) -> None:
    """Delete recorded items from all files of this client.

    The disk may still have them where the files were, until it is written over: encrypt the disk.
    Reports that were sent cannot be taken back, and the ledger keeps what they cost. It names no
    item. A report that is ready still leaves, unless --all is given. To delete the ledger too,
    remove the client's folder.

    \b
    Examples:
      sottovoce client forget 318 527
      sottovoce client forget --all --yes
    """
    if bool(items) == everything:
        raise SettingsError("give either the ids of items or --all")
    with opened(folder) as client:
        if items:
            typer.echo(f"Removed items: {client.remove(items)}")
            return
        question = "Delete all recorded items, the model and any unsent batch?"
        output.confirm(question, typed("forget --all", folder), yes=yes)
        client.forget()
    typer.echo("Deleted. The ledger was kept: what was spent stays spent.")
    typer.echo(f"This device still takes part; to stop: {typed('set --pause', folder)}")


@app.command()
def terms(
    *,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Accept the terms of this name. If they have changed, nothing is."
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also show every number that would be accepted.")
    ] = False,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Show what the server asks for now and what that promises, or accept it. Nothing is sent.

    After --accept this device refuses a server that asks for more in any point.

    \b
    Examples:
      sottovoce client terms --details
      sottovoce client terms --accept NAME
    """
    with connected(folder) as (client, api):
        asked = client.fetch_terms(api)
        if accept is not None:
            if asked.name != accept:
                raise SettingsError(
                    f"{accept} is not the name of the terms that the server asks for; nothing was "
                    f"accepted. Show them, with their name: {typed('terms', folder)}"
                )
            client.accept(asked)
            typer.echo(f"Accepted. Take part with: {typed('sync', folder)}")
            return
        known = client.get_status()
        outlook = None if known.problem else client.compute_outlook(asked)
    if outlook is not None:
        typer.echo("\n".join(outlook.short))
    if details:
        figures = [] if outlook is None else outlook.promise.list_figures()
        output.results.print(output.make_table([*asked.describe(), *figures]))
    typer.echo(_affordable(asked, known, outlook))
    typer.echo(f"To stop: {typed('set --pause', folder)}")
    if known.terms is not None and not known.terms.list_worse_terms(asked):
        typer.echo("You have accepted these terms, or ones that allow more.")
    else:
        typer.echo(
            f"To accept exactly these terms: {typed(f'terms --accept {asked.name}', folder)}"
        )
    content = {"name": asked.name, **asked.as_dict(), **_as_fields(outlook)}
    output.write_json(json, content, private=True)


@app.command()
def sync(
    *,
    jitter: Annotated[
        float,
        typer.Option(
            help="Longest random delay before sending, in seconds. 0 leaves all waits out, which "
            "shows when this device woke up: only for tests and demos.",
            min=0,
            max=3_600,
        ),
    ] = 3_600,
    attest: Annotated[
        str | None,
        make_option(
            "Where the product says that you have an account, for services that need one: its "
            "address. Your session with it is in SOTTOVOCE_SESSION.",
            "no account",
        ),
    ] = None,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Fetch the newest model and report to its epoch, once; running it again does no harm.

    It sends after a random delay of up to an hour, so the command may wait. If it is stopped,
    nothing is lost: the next `sync` goes on.

    \b
    Example:
      sottovoce client sync
    """
    from sottovoce.client.http import make_attestation_fetcher

    with connected(folder) as (client, api):
        session = os.environ.get(SESSION, "")
        fetch = None if attest is None else make_attestation_fetcher(attest, session)
        synced = client.sync(api, jitter=jitter, sleep=_sleep, fetch_attestation=fetch)
        accepted = client.get_status().terms
    price = "" if accepted is None else f"; an epoch costs {_number(float(accepted.cost))}"
    spent, left = _number(synced.spent), _left(synced.remaining)
    typer.echo(escape_control_characters(synced.sentence))
    typer.echo(f"Spent so far: epsilon {spent}; left: {left}{price}.")
    output.write_json(json, asdict(synced), private=True)


@app.command()
def look(*, folder: Folder = None) -> None:
    """Fetch what is published, and report nothing: withdrawn items go from your lists.

    Run it by the clock, such as every minute; it begins at a whole ten seconds.

    \b
    Example:
      sottovoce client look
    """
    with connected(folder) as (client, api):
        client.look(api, sleep=_sleep)
        items = output.pluralize(len(client.list_catalogue()), "item")
        typer.echo(f"Epoch {client.get_status().epoch}; lists are made from {items}.")


@app.command()
def recommend(
    n: Annotated[int, typer.Option("--n", "-n", help="Number of recommendations.", min=1)] = 10,
    *,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Recommend items that are new to you; computed on this device, without the network.

    \b
    Example:
      sottovoce client recommend -n 5 --json recommended.json
    """
    with opened(folder) as client:
        found, known = [_as_json(each) for each in client.recommend(n)], client.get_status()
    table = Table("item", "title", "because of")
    for each in found:
        because = [why for why in each["because"] if why["share"] > LEAST_SHARE]
        told = (each["id"], each["title"], ", ".join(map(_named, because)))
        table.add_row(*map(output.escape_markup, told))
    output.results.print(table)
    for line in _about_list(known, is_empty=not any(each["score"] for each in found)):
        output.messages.print(line)
    output.write_json(json, {"recommendations": found}, private=True)


@app.command()
def status(
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Also list the recorded items, the latest last.")
    ] = False,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Show what this client knows, what it has spent and which terms it accepted.

    \b
    Examples:
      sottovoce client status --json status.json
      sottovoce client status --history
    """
    with opened(folder) as client:
        found = client.get_status()
        accepted = found.terms
        outlook = None if accepted is None or found.problem else client.compute_outlook(accepted)
        touched, titles = (client.list_touched(), _titles(client)) if history else ([], {})
    output.results.print(output.make_table(_lines(found, typed("terms", folder))))
    if accepted is not None and outlook is not None:
        typer.echo("\n".join([*outlook.short, _affordable(accepted, found, outlook)]))
    content = {
        **asdict(replace(found, terms=None)),
        "terms": None if accepted is None else accepted.as_dict(),
        **_as_fields(outlook),
    }
    if history:
        known = [(item, titles.get(item, "not in the catalogue here")) for item in touched]
        output.results.print(
            output.make_table((escape_control_characters(item), title) for item, title in known)
        )
        content["history"] = [{"id": item, "title": titles.get(item)} for item in touched]
    output.write_json(json, content, private=True)


@app.command("set")
def change(
    *,
    limit: Annotated[float | None, typer.Option(help=LIMIT)] = None,
    pause: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Stop reporting, or report again."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Pause or resume reporting, or change the limit.

    While it is paused, this device still fetches models and recommends. What was spent stays spent
    under any limit; the ledger records the change.

    \b
    Examples:
      sottovoce client set --pause
      sottovoce client set --limit 100
    """
    if limit is None and pause is None:
        raise SettingsError("give --pause, --resume or --limit EPSILON")
    with opened(folder) as client:
        if limit is not None:
            client.set_limit(limit)
            typer.echo(f"The limit is now epsilon {_number(limit)}.")
        if pause is not None:
            client.pause(on=pause)
            typer.echo(
                "Paused: no reports leave this device. A sync still fetches new models."
                if pause
                else "Resumed: the next sync reports again."
            )


def _sleep(seconds: float) -> None:
    """Say how long, where somebody waits for it."""
    if seconds > LONG:
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))
        typer.echo(f"Waiting until {until} before sending, a moment drawn at random.")
        typer.echo("Ctrl-C stops it; nothing is lost, and the next sync goes on.")
    time.sleep(seconds)


def _number(epsilon: float | None) -> str:
    """Every epsilon of these commands."""
    return "unknown" if epsilon is None else format_epsilon(epsilon, 6)


def _left(epsilon: float | None) -> str:
    """The same for what is left, which is never shown as more than it is."""
    return "unknown" if epsilon is None else f"{floor(epsilon * 1e5) / 1e5:g}"


def _affordable(asked: Terms, known: Status, outlook: Outlook | None) -> str:
    """What is left of the owner's own limit, in epochs that are left under these terms."""
    price = f"An epoch costs epsilon {_number(float(asked.cost))}."
    if outlook is None:
        return f"{price} The ledger is damaged, so nothing may be reported."
    text = (
        f"{price} Your limit of {_number(known.limit)}, of which {_left(known.remaining)} is "
        f"left, allows {outlook.within_limit} of the "
        f"{output.pluralize(outlook.turns_left, 'epoch')} left under these terms."
    )
    if outlook.within_limit == outlook.turns_left:
        return text
    return f"{text} It stops them there, at epsilon {_number(outlook.at_limit)} in all."


def _as_fields(outlook: Outlook | None) -> dict[str, Any]:
    names = ("promise", "turns_left", "within_limit", "at_limit", "short")
    return dict.fromkeys(names) if outlook is None else asdict(outlook)


def _titles(client: Client) -> dict[str, str]:
    """By id; none before the first sync."""
    try:
        return {item.id: item.title for item in client.list_catalogue()}
    except StoreError:
        return {}


def _as_json(each: Recommendation) -> dict[str, Any]:
    because = [_reason_as_json(reason) for reason in each.because]
    return {"id": each.id, "title": each.title, "score": each.score, "because": because}


def _reason_as_json(reason: Reason) -> dict[str, Any]:
    """As the browser's client has it."""
    from sottovoce.protocol import Item

    what, share = reason.what, reason.share
    if isinstance(what, Item):
        return {"kind": "item", "id": what.id, "title": what.title, "share": share}
    return {"kind": "tag", "tag": what.kind, "name": what.name, "share": share}


def _named(why: dict[str, Any]) -> str:
    name = why["title"] if why["kind"] == "item" else f"{why['tag']}: {why['name']}"
    return f"{name} ({why['share']:.0%})"


def _about_list(known: Status, *, is_empty: bool) -> Iterator[str]:
    """What a list is made from; `is_empty`: nothing speaks for any item of it."""
    if not known.in_catalogue:
        yield "None of your items is in the catalogue."
    if not known.reports_behind:
        is_empty = is_empty or not known.in_catalogue
        by = "this is the catalogue's order" if is_empty else "lists go by tags alone"
        yield f"The model is young: no reports are behind it yet, and {by}."
        return
    if not known.in_catalogue:
        yield "These are popular ones."
    if known.is_young:
        yield (
            f"The model is young: its last step rests on "
            f"{output.pluralize(known.reports_behind, 'report')}, for "
            f"{output.pluralize(known.items, 'item')}."
        )


def _lines(found: Status, to_see_them: str) -> Iterator[tuple[str, str]]:
    accepted = found.terms
    yield "proxy", found.proxy_url
    yield "epoch", "none yet" if found.epoch is None else str(found.epoch)
    if accepted is None:
        yield "terms", f"none accepted yet: {to_see_them}"
    else:
        reports = output.pluralize(accepted.reports, "report")
        agreed = (
            f"{accepted.mechanism}, {reports} of epsilon {_number(accepted.epsilon)} an epoch, "
            f"{found.epochs} of {output.pluralize(accepted.epochs, 'epoch')} so far, mixed with "
            f"those of at least {output.pluralize(accepted.least_clients, 'device')} and "
            f"{output.pluralize(accepted.dummies, 'random report')}"
        )
        yield "terms", agreed
    if found.pending_terms is not None:
        said = f"the server asks for other terms, and no batch is made: {to_see_them}"
        yield "a question waits", said
    yield "spent", found.problem or f"epsilon {_number(found.spent)} of {_number(found.limit)}"
    yield "reporting", "paused" if found.paused else "on"
    yield "batches", ", ".join(f"{n} {state}" for state, n in found.batches.items()) or "none"
    if found.epoch is None:  # before the first sync there is no catalogue
        yield "items", f"{found.interactions}; there is no catalogue yet"
    else:
        yield "items", f"{found.interactions}, {found.in_catalogue} of them in the catalogue"
        yield "not in the catalogue", ", ".join(found.unknown[:20]) or "none"
