"""`sottovoce server training` and `sottovoce server keys`: what devices must follow or agree to."""

from __future__ import annotations

from typing import Annotated

import typer

from sottovoce.cli import output
from sottovoce.cli.options import group
from sottovoce.cli.server_options import ConfigOption, YesOption, opened
from sottovoce.server.administration import begin_training, cancel_training
from sottovoce.server.succession import rotate_keys

training = group(
    "training",
    "Begin another training under the same service.",
    "server training begin --config my-server/server.toml",
)
keys = group(
    "keys",
    "Change the signing key; devices follow by themselves.",
    "server keys rotate --config my-server/server.toml",
)


@training.command()
def begin(
    config: ConfigOption,
    *,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin with a random model, not the last one.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Begin another training after the present epoch, as [training] and [terms] now say.

    The new training has its own id and terms. Devices keep recommending from the last model, ask
    their owners, and report again only if they agree.

    \b
    Example:
      sottovoce server training begin --config my-server/server.toml
    """
    if not yes:
        typer.confirm("Every device will ask its owner again. Begin another training?", abort=True)
    with opened(config) as (settings, store):
        begun = begin_training(store, settings, anew=anew)
    output.results.print(
        f"Training {begun.number}, {begun.terms.training.hex()}, follows the present epoch. "
        "Workers need no restart."
    )


@training.command()
def cancel(config: ConfigOption) -> None:
    """Cancel a training that was begun and has had no epoch yet.

    Also restore the previous settings in the file.

    \b
    Example:
      sottovoce server training cancel --config my-server/server.toml
    """
    with opened(config) as (_, store):
        number = cancel_training(store)
    output.results.print(f"Training {number} goes on.")


@keys.command()
def rotate(
    config: ConfigOption,
    *,
    newest_is_lost: Annotated[
        bool,
        typer.Option(
            "--newest-is-lost",
            help="The newest key was never used and is lost: go on with the one in the keys file.",
        ),
    ] = False,
) -> None:
    """Change the signing key. The old key signs the new one and is then deleted.

    Copy the keys file to all workers and restart them. Devices and proxies follow by themselves.
    Back up the new file before the next epoch is published: if it is lost, devices trust nothing
    more. A keys file without the newest key is refused: copy the newest file first.

    \b
    Example:
      sottovoce server keys rotate --config my-server/server.toml
    """
    with opened(config) as (settings, store):
        rotated = rotate_keys(store, settings.keys, newest_is_lost=newest_is_lost)
    output.results.print(
        f"{settings.keys} holds the new key: copy it to all workers and restart them. New devices "
        "may pin"
    )
    typer.echo(rotated.verification_key.hex())
