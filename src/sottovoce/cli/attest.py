"""`sottovoce attest`: a small backend that says who has an account."""

from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from sottovoce.cli.options import HostOption, make_group, make_option
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol.strict import parse_hex
from sottovoce.service.attest import PATH, Attester, build_attester, read_sessions, read_text
from sottovoce.service.logs import start_logging

app = make_group(
    "attest",
    "Say who has an account, as a product's backend does.",
    "attest run attest.json --sessions sessions.txt",
)

KeysFile = Annotated[Path, typer.Argument(help="File with the keys, from `sottovoce attest init`.")]


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="File to write the keys to; must be a new one.")],
    *,
    key: Annotated[
        str, typer.Option(help="The service's first verification key: 64 hexadecimal digits.")
    ],
) -> None:
    """Draw the keys of a backend, and print the line for the proxy's settings.

    \b
    Example:
      sottovoce attest init attest.json --key 3b6a27bc...29
    """
    try:
        parse_hex(key, what="--key")
    except ProtocolError as error:
        raise SettingsError(str(error)) from error
    attester = Attester.new(key)
    attester.write(file)
    typer.echo(f"Keys written to {file}; keep it secret. For the proxy's settings (proxy.toml):")
    typer.echo(f'accounts_key = "{attester.verification_key}"')


@app.command()
def run(
    file: KeysFile,
    *,
    sessions: Annotated[
        Path | None,
        make_option(
            "Text file, a line for each session: its token and its account.",
            "every name is believed: for toys",
        ),
    ] = None,
    origin: Annotated[
        list[str] | None, make_option("Site whose pages may ask; may be repeated.", "none")
    ] = None,
    page: Annotated[
        Path | None, make_option("HTML file to show at /: a shop to try accounts with.", "none")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on.")] = 8070,
) -> None:
    """Give an attestation to those who show a session, until Ctrl-C.

    Devices ask with `POST /attest` and `Authorization: Bearer SESSION`.

    \b
    Example:
      sottovoce attest run attest.json --sessions sessions.txt --origin https://shop.example
    """
    start_logging()
    known = None if sessions is None else read_sessions(sessions)
    shop = None if page is None else read_text(page)
    served = build_attester(Attester.read(file), known, tuple(origin or ()), page=shop)
    if known is None:
        typer.echo("Every name is believed: this is a toy.", err=True)
    typer.echo(f"Attesting at http://{host}:{port}{PATH}", err=True)
    uvicorn.run(served, host=host, port=port, access_log=False, log_config=None)
