"""`sottovoce client`: a person's own side, on their own device."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer
from rich.table import Table

from sottovoce.characters import visible
from sottovoce.cli import client_history, output
from sottovoce.cli.client_folder import Folder, folder_of, typed
from sottovoce.cli.options import JsonFile, group
from sottovoce.client import Client, HttpProxy
from sottovoce.client.timing import JITTER
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.privacy.account import shown
from sottovoce.protocol import Item
from sottovoce.protocol.strict import hexadecimal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.client import Outlook, Reason, Recommendation, Status, Terms

app = group(
    "client",
    "Take part from this device; recommendations are computed on it.",
    "client status --json status.json",
)

LONG = 10.0
"""Seconds: a shorter wait needs no word."""
LEAST_SHARE = 0.005
"""A reason with no more would be shown as 0%."""


@app.command()
def init(
    *,
    proxy: Annotated[
        str,
        typer.Option(metavar="URL", help="Address of the proxy, such as https://proxy.example."),
    ],
    key: Annotated[
        str, typer.Option(help="Verification key of the server: 64 hexadecimal digits.")
    ],
    limit: Annotated[
        float, typer.Option(help="Most local epsilon that all reports together may ever cost.")
    ],
    folder: Folder = None,
) -> None:
    """Set up a client: its proxy, the key it trusts, its lifetime limit.

    The limit is the sum of the epsilons of all reports. It bounds what anybody can learn from all
    that ever leaves this device, even if proxy and server work together. At the limit the client
    stops reporting; it still recommends.

    \b
    Example:
      sottovoce client init --proxy https://proxy.example --key 3b6a27bc...29 --limit 50
    """
    where = folder_of(folder)
    trusted = verification_key(key)
    Client.create(where, proxy_url=proxy, verification_key=trusted, limit=limit).close()
    typer.echo(f"Client created in {where}.")
    typer.echo(f"Next: {typed('record ITEM...', folder)}, then: {typed('terms', folder)}")


for command in (client_history.record, client_history.remove, client_history.history):
    app.command()(command)


@app.command()
def terms(*, folder: Folder = None, json: JsonFile = None) -> None:
    """Show what the server asks for now and what that promises. Nothing is sent or accepted.

    \b
    Example:
      sottovoce client terms
    """
    with Client.open(folder_of(folder)) as client, httpx.Client() as http:
        asked = client.asked(HttpProxy(http, client.proxy_url))
        known = client.status()
        outlook = None if known.problem else client.outlook(asked)
    accepted = known.terms
    output.results.print(_table(asked.in_words()))
    if outlook is not None:
        typer.echo(outlook.promise.sentence())
    typer.echo(_affordable(asked, known, outlook))
    if accepted is not None and not accepted.broken_by(asked):
        typer.echo("You have accepted these terms, or ones that allow more.")
    else:
        typer.echo(f"To accept exactly these terms: {typed(f'accept {asked.name}', folder)}")
    if json is not None:
        content = {"name": asked.name, **asked.as_dict(), **_as_fields(outlook)}
        output.write_json(json, content, private=True)


@app.command()
def accept(
    name: Annotated[str, typer.Argument(help="Name of the terms, as `terms` printed it.")],
    *,
    folder: Folder = None,
) -> None:
    """Accept the terms that `terms` showed. If they have changed, nothing is accepted.

    From then on this device refuses a server that asks for more in any point.

    \b
    Example:
      sottovoce client accept NAME
    """
    with Client.open(folder_of(folder)) as client, httpx.Client() as http:
        asked = client.asked(HttpProxy(http, client.proxy_url))
        if asked.name != name:
            raise SettingsError(
                f"{name} is not the name of the terms that the server asks for; nothing was "
                f"accepted. Show them, with their name: {typed('terms', folder)}"
            )
        client.accept(asked)
    typer.echo(f"Accepted. Take part with: {typed('sync', folder)}")


@app.command()
def sync(
    *,
    jitter: Annotated[
        float,
        typer.Option(
            help="Longest random delay before sending, in seconds. 0 leaves all waits out, which "
            "shows when this device woke up: only for tests and demos.",
            min=0,
            max=JITTER,
        ),
    ] = JITTER,
    folder: Folder = None,
    json: JsonFile = None,
) -> None:
    """Fetch the newest model and report to its epoch, once; running it again does no harm.

    It sends after a random delay of up to an hour, so the command may wait. If it is stopped,
    nothing is lost: the next `sync` goes on.

    \b
    Examples:
      sottovoce client sync
      sottovoce client sync --json synced.json
    """
    with Client.open(folder_of(folder)) as client, httpx.Client() as http:
        synced = client.sync(HttpProxy(http, client.proxy_url), jitter=jitter, sleep=_sleep)
        accepted = client.status().terms
    price = "" if accepted is None else f"; an epoch costs {shown(float(accepted.cost), 6)}"
    typer.echo(visible(synced.sentence))
    typer.echo(f"Spent so far: epsilon {synced.spent}; left: {synced.remaining}{price}.")
    if json is not None:
        output.write_json(json, asdict(synced), private=True)


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
    with Client.open(folder_of(folder)) as client:
        found, known = client.recommend(n), client.status()
    table = Table("item", "title", "because of")
    for each in found:
        reasons = ", ".join(_named(why) for why in each.because if why.share > LEAST_SHARE)
        table.add_row(output.plain(each.id), output.plain(each.title), output.plain(reasons))
    output.results.print(table)
    for line in _about_list(known, is_empty=not any(each.score for each in found)):
        output.messages.print(line)
    if json is not None:
        listed = {"recommendations": [_as_json(each) for each in found]}
        output.write_json(json, listed, private=True)


@app.command()
def status(*, folder: Folder = None, json: JsonFile = None) -> None:
    """Show what this client knows, what it has spent and which terms it accepted.

    \b
    Example:
      sottovoce client status --json status.json
    """
    with Client.open(folder_of(folder)) as client:
        found = client.status()
        accepted = found.terms
        outlook = None if accepted is None or found.problem else client.outlook(accepted)
    output.results.print(_table(_lines(found, typed("terms", folder))))
    if accepted is not None and outlook is not None:
        typer.echo(outlook.promise.sentence())
        typer.echo(_affordable(accepted, found, outlook))
    if json is not None:
        terms = {"terms": None if accepted is None else accepted.as_dict()}
        content = {**asdict(replace(found, terms=None)), **terms, **_as_fields(outlook)}
        output.write_json(json, content, private=True)


@app.command()
def pause(*, folder: Folder = None) -> None:
    """Stop reporting until `resume`. Recommending still works.

    \b
    Example:
      sottovoce client pause
    """
    with Client.open(folder_of(folder)) as client:
        client.pause()
    typer.echo("Paused: no reports leave this device. A sync still fetches new models.")


@app.command()
def resume(*, folder: Folder = None) -> None:
    """Report again, from the next sync on.

    \b
    Example:
      sottovoce client resume
    """
    with Client.open(folder_of(folder)) as client:
        client.pause(on=False)
    typer.echo("Resumed: the next sync reports again.")


@app.command()
def limit(
    epsilon: Annotated[
        float, typer.Argument(help="Most local epsilon that all reports together may ever cost.")
    ],
    *,
    folder: Folder = None,
) -> None:
    """Change the lifetime limit. What was spent stays spent; the ledger records the change.

    \b
    Example:
      sottovoce client limit 100
    """
    with Client.open(folder_of(folder)) as client:
        client.set_limit(epsilon)
    typer.echo(f"The lifetime limit is now epsilon {shown(epsilon, 6)}.")


@app.command()
def forget(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    folder: Folder = None,
) -> None:
    """Delete recorded items, the model and any unsent batch. The ledger stays.

    Reports that were sent cannot be taken back, so the record of their cost is kept. It names no
    item. To delete it too, remove the client's folder.

    \b
    Example:
      sottovoce client forget --yes
    """
    with Client.open(folder_of(folder)) as client:
        question = "Delete all recorded items, the model and any unsent batch?"
        output.confirm(question, typed("forget", folder), yes=yes)
        client.forget()
    typer.echo("Deleted. The ledger was kept: what was spent stays spent.")
    typer.echo(f"This device still takes part; to stop: {typed('pause', folder)}")


def _sleep(seconds: float) -> None:
    """Say how long, where somebody waits for it."""
    if seconds > LONG:
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))
        typer.echo(f"Waiting until {until} before sending, a moment drawn at random.")
        typer.echo("Ctrl-C stops it; nothing is lost, and the next sync goes on.")
    time.sleep(seconds)


def _affordable(asked: Terms, known: Status, outlook: Outlook | None) -> str:
    """What is left of the owner's own limit, in turns that are left under these terms."""
    price = f"An epoch costs epsilon {shown(float(asked.cost), 6)}."
    if outlook is None:
        return f"{price} The ledger is damaged, so nothing may be reported."
    text = (
        f"{price} Your limit of {known.limit}, of which {known.remaining} is left, allows "
        f"{outlook.within_limit} of the {outlook.turns_left} epochs left under these terms."
    )
    if outlook.within_limit == outlook.turns_left:
        return text
    return f"{text} It stops them there, at epsilon {shown(outlook.at_limit, 6)} in all."


def _as_fields(outlook: Outlook | None) -> dict[str, Any]:
    names = ("promise", "turns_left", "within_limit", "at_limit")
    return dict.fromkeys(names) if outlook is None else asdict(outlook)


def _table(lines: list[tuple[str, str]]) -> Table:
    table = Table("", "", show_header=False)
    for label, value in lines:
        table.add_row(label, output.plain(value))
    return table


def verification_key(text: str) -> bytes:
    """A server's key as people write it."""
    try:
        return hexadecimal(text.lower(), what="--key")
    except ProtocolError as error:
        said = f"--key: 64 hexadecimal digits, not {text!r:.80}"
        raise SettingsError(said) from error


def _as_json(each: Recommendation) -> dict[str, Any]:
    because = [_reason_as_json(reason) for reason in each.because]
    return {"id": each.id, "title": each.title, "score": each.score, "because": because}


def _reason_as_json(reason: Reason) -> dict[str, Any]:
    """As the browser's client has it."""
    what, share = reason.what, reason.share
    if isinstance(what, Item):
        return {"kind": "item", "id": what.id, "title": what.title, "share": share}
    return {"kind": "tag", "tag": what.kind, "name": what.name, "share": share}


def _about_list(known: Status, *, is_empty: bool) -> Iterator[str]:
    """What a list is made from; `is_empty`: nothing speaks for any item of it."""
    if not known.known:
        yield "None of your items is in the catalogue."
    if not known.reports_behind:
        is_empty = is_empty or not known.known
        by = "this is the catalogue's order" if is_empty else "lists go by tags alone"
        yield f"The model is young: no reports are behind it yet, and {by}."
        return
    if not known.known:
        yield "These are popular ones."
    if known.is_young:
        yield (
            f"The model is young: {known.reports_behind:,} reports are behind its last step, for "
            f"{known.items:,} items."
        )


def _named(reason: Reason) -> str:
    what = reason.what
    name = what.title if isinstance(what, Item) else f"{what.kind}: {what.name}"
    return f"{name} ({reason.share:.0%})"


def _lines(found: Status, to_see_them: str) -> list[tuple[str, str]]:
    batches, accepted = found.batches, found.terms
    budget = found.problem or f"epsilon {found.spent} of {found.limit}"
    agreed = f"none accepted yet: {to_see_them}"
    if accepted is not None:
        agreed = (
            f"{accepted.mechanism}, {accepted.reports} reports of epsilon {accepted.epsilon} an "
            f"epoch, {found.epochs} of {accepted.epochs} epochs so far, mixed with those of at "
            f"least {accepted.least_clients} devices"
        )
    return [
        ("proxy", found.proxy_url),
        ("epoch", "none yet" if found.epoch is None else str(found.epoch)),
        ("terms", agreed),
        *_question(found.asked, to_see_them),
        ("spent", budget),
        ("reporting", "paused" if found.paused else "on"),
        ("batches", ", ".join(f"{n} {state}" for state, n in batches.items()) or "none"),
        *_items(found),
    ]


def _question(asked: str | None, to_see_them: str) -> list[tuple[str, str]]:
    if asked is None:
        return []
    said = f"the server asks for other terms, and nothing is sent: {to_see_them}"
    return [("a question waits", said)]


def _items(found: Status) -> list[tuple[str, str]]:
    """Before the first sync there is no catalogue that they could be in."""
    if found.epoch is None:
        return [("items", f"{found.interactions}; there is no catalogue yet")]
    return [
        ("items", f"{found.interactions}, {found.known} of them in the catalogue"),
        ("not in the catalogue", ", ".join(found.unknown[:20]) or "none"),
    ]
