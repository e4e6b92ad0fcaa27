"""`sottovoce client`: a person's own side, on their own device."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import platformdirs
import typer
from rich.markup import escape
from rich.table import Table

from sottovoce.cli import output
from sottovoce.client import Client, HttpProxy
from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from sottovoce.client import Recommendation, Status

app = typer.Typer(
    name="client",
    help="Take part from this device, and get recommendations that are computed on it.",
    no_args_is_help=True,
    add_completion=False,
)

Folder = Annotated[
    Path | None,
    typer.Option(help="Where the client lives; else a folder among the user's own data."),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result to this file as well.")]


@app.command()
def init(
    *,
    proxy: Annotated[str, typer.Option(help="The proxy's address, https://HOST.")],
    key: Annotated[str, typer.Option(help="The server's verification key, 64 hexadecimal digits.")],
    limit: Annotated[
        float,
        typer.Option(help="Epsilon that all reports of a lifetime may cost, locally, together."),
    ],
    folder: Folder = None,
) -> None:
    """Begin a client: whom to speak to, whom to believe, how much may ever be said.

    The limit bounds what anybody can learn from all that ever leaves this device, even if proxy and
    server join forces: the sum of the epsilons of all reports. At the limit reporting stops;
    recommending goes on.

    \b
    Example:
      sottovoce client init --proxy https://proxy.example --key 3b6a27bc...29 --limit 50
    """  # noqa: D301 - typer reads \b
    where = _folder(folder)
    Client.create(where, proxy_url=proxy, verification_key=_key(key), limit=limit).close()
    typer.echo(f"A client was begun in {where}. Tell it what you like: sottovoce client record")


@app.command()
def record(
    items: Annotated[
        list[str] | None, typer.Argument(help="Items, by their names in the catalogue.")
    ] = None,
    *,
    csv: Annotated[
        Path | None, typer.Option(help="A CSV file with a column of items instead.")
    ] = None,
    column: Annotated[str, typer.Option(help="The column's name in the CSV file.")] = "item",
    folder: Folder = None,
) -> None:
    """Remember what you touched. It stays on this device.

    \b
    Examples:
      sottovoce client record 318 527
      sottovoce client record --csv watched.csv --column movieId
    """  # noqa: D301 - typer reads \b
    if bool(items) == (csv is not None):
        raise SettingsError("name items, or a file with --csv: one of the two")
    with Client.open(_folder(folder)) as client:
        new = client.record(items or []) if csv is None else client.record_csv(csv, column)
    typer.echo(f"{new} new")


@app.command()
def sync(
    *,
    jitter: Annotated[
        float, typer.Option(help="Wait a random time up to so many seconds before sending.", min=0)
    ] = 0.0,
    accept_new_terms: Annotated[
        bool, typer.Option("--accept-new-terms", help="Agree to what the server asks for now.")
    ] = False,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Fetch the newest model and take part in its epoch, at most once. Repeat it at will.

    \b
    Examples:
      sottovoce client sync
      sottovoce client sync --jitter 600 --json synced.json
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client, httpx.Client() as http:
        synced = client.sync(
            HttpProxy(http, client.proxy_url), jitter=jitter, accept_new_terms=accept_new_terms
        )
    typer.echo(synced.sentence)
    typer.echo(f"Spent so far: epsilon {synced.spent}; left: {synced.remaining}.")
    if json is not None:
        output.write_json(json, asdict(synced))


@app.command()
def recommend(
    n: Annotated[int, typer.Option("--n", "-n", help="How many.", min=1)] = 10,
    *,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Recommend what you have not touched yet; computed here, nobody is asked.

    \b
    Example:
      sottovoce client recommend -n 5 --json recommended.json
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        found = client.recommend(n)
    table = Table("item", "title", "because of")
    for each in found:
        reason = "" if each.because is None else each.because.title
        table.add_row(escape(each.id), escape(each.title), escape(reason))
    output.results.print(table)
    if json is not None:
        output.write_json(json, {"recommendations": [_as_json(each) for each in found]})


@app.command()
def status(*, folder: Folder = None, json: Json = None) -> None:
    """Say where this client stands: what it knows, what it has spent, what it agreed to.

    \b
    Example:
      sottovoce client status --json status.json
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        found = client.status()
    table = Table("", "", show_header=False)
    for label, value in _lines(found):
        table.add_row(label, escape(value))
    output.results.print(table)
    if json is not None:
        output.write_json(json, asdict(found))


@app.command()
def pause(*, folder: Folder = None) -> None:
    """Stop reporting: nothing leaves until `resume`. Recommending goes on.

    \b
    Example:
      sottovoce client pause
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        client.pause()
    typer.echo("Paused: nothing leaves this device.")


@app.command()
def resume(*, folder: Folder = None) -> None:
    """Go on reporting with the next sync.

    \b
    Example:
      sottovoce client resume
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        client.pause(on=False)
    typer.echo("Reporting goes on with the next sync.")


@app.command()
def limit(
    epsilon: Annotated[float, typer.Argument(help="Of a lifetime, locally, in all.")],
    *,
    folder: Folder = None,
) -> None:
    """Set another lifetime limit; what was spent stays spent, and the change is on the record.

    \b
    Example:
      sottovoce client limit 100
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        client.set_limit(epsilon)
    typer.echo(f"All reports of a lifetime together may cost {epsilon:g} from now on.")


@app.command()
def forget(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question.")] = False,
    folder: Folder = None,
) -> None:
    """Delete what you touched, the model, and any batch on its way; the ledger stays.

    What was spent stays spent: reports that left cannot be called back, so the record of them is
    kept. It holds no item. To delete that too, remove the folder.

    \b
    Example:
      sottovoce client forget --yes
    """  # noqa: D301 - typer reads \b
    with Client.open(_folder(folder)) as client:
        if not yes:
            _agree()
        client.forget()
    typer.echo("Forgotten. The ledger was kept: what was spent stays spent.")


def _folder(given: Path | None) -> Path:
    return Path(platformdirs.user_data_dir("sottovoce")) / "client" if given is None else given


def _agree() -> None:
    if not sys.stdin.isatty():
        raise SettingsError("nothing was deleted; to delete, say: sottovoce client forget --yes")
    if not typer.confirm("Delete everything that this client knows?", err=True):
        raise SettingsError("nothing was deleted")


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError(f"a verification key is 64 hexadecimal digits, not {text!r:.80}")
    return key


def _as_json(each: Recommendation) -> dict[str, Any]:
    because = None if each.because is None else {"id": each.because.id, "title": each.because.title}
    return {"id": each.id, "title": each.title, "score": each.score, "because": because}


def _lines(found: Status) -> list[tuple[str, str]]:
    """The status as people read it."""
    terms, batches = found.terms, found.batches
    budget = found.problem or f"epsilon {found.spent} of {found.limit}"
    agreed = "those of the first manifest will be pinned"
    if terms is not None:
        agreed = (
            f"{terms.mechanism}, {terms.reports} reports of epsilon {terms.epsilon} an epoch, "
            f"hidden among at least {terms.least_clients} people"
        )
    return [
        ("proxy", found.proxy_url),
        ("epoch", "none yet" if found.epoch is None else str(found.epoch)),
        ("terms", agreed),
        ("spent", budget),
        ("reporting", "paused" if found.paused else "on"),
        ("batches", ", ".join(f"{n} {state}" for state, n in batches.items()) or "none"),
        ("items", f"{found.interactions}, {found.known} of them in the catalogue"),
        ("not in the catalogue", ", ".join(found.unknown[:20]) or "none"),
    ]
