"""The content of the next manifest: training, catalogue, and the progress of the training."""

from dataclasses import dataclass
from typing import Self

from sottovoce.errors import ProtocolError, SettingsError, StoreError
from sottovoce.protocol import Catalogue, Manifest
from sottovoce.server.training import Training
from sottovoce.server.transaction import Transaction
from sottovoce.training.start import Provenance, Start


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training has come."""

    epochs: int
    """Number of epochs whose reports went into the model."""
    reports: int
    """Number of reports in the last of these epochs."""


NO_PROGRESS = TrainingProgress(0, 0)


@dataclass(frozen=True)
class PendingConfig:
    """What the operator has chosen for the next epoch."""

    training: Training
    catalogue: Catalogue
    version: int
    """The version of the catalogue."""

    @classmethod
    def read(cls, transaction: Transaction) -> Self:
        """Read the configuration from the database."""
        training, newest = transaction.find_training(), transaction.find_catalogue()
        if training is None or newest is None:
            raise StoreError("the database is not set up: `sottovoce server init` does it")
        return cls(training, load_catalogue(transaction, newest.sha256), newest.version)

    @property
    def items(self) -> int:
        """The number of items in the catalogue."""
        return len(self.catalogue.items)

    @property
    def items_left(self) -> int:
        """The number of items that the catalogue may still get; negative if it has too many."""
        return self.training.terms.max_items - self.items

    def check(self, start: Provenance | None = None) -> None:
        """Raise a `SettingsError` if no valid manifest can have this configuration.

        Args:
            start: Provenance of the public start of a training that begins.
        """
        # Any keys will do here: only the sizes and bounds of the manifest are checked.
        tokens = (bytes(32), None) if self.training.terms.accounts else (None, None)
        try:
            manifest = self.make_manifest(
                NO_PROGRESS,
                1,
                bytes(32),
                (bytes(32), bytes(32)),
                1.0,
                bytes(32),
                tokens,
                start,
                opens=0,
                closes=1,
            )
            # Devices decode the manifest, and decoding checks all bounds.
            Manifest.decode(manifest.encode())
        except ProtocolError as error:
            raise SettingsError(
                f"no device could take part: {error}; begin another training for this catalogue"
            ) from error

    def make_manifest(
        self,
        progress: TrainingProgress,
        epoch: int,
        model: bytes,
        patches: tuple[bytes | None, bytes | None],
        ridge: float,
        public_key: bytes | None,
        tokens: tuple[bytes | None, bytes | None],
        start: Provenance | None,
        *,
        opens: int,
        closes: int,
    ) -> Manifest:
        """Return the manifest of an epoch.

        Args:
            progress: Progress of the training.
            epoch: Number of the epoch.
            model: SHA-256 of the model.
            patches: SHA-256 of the patches to the model and to the catalogue, if any.
            ridge: Regularization of the user equations.
            public_key: Key with which devices seal reports; None to ask for no reports.
            tokens: Public keys of the tokens of this epoch and of the next one, if any.
            start: Provenance of the public start that is in the model, if one is.
            opens: Unix seconds from which on devices may report.
            closes: Unix seconds until which the epoch stays open in any case.
        """
        return Manifest(
            epoch=epoch,
            terms=self.training.make_terms(self.items),
            items=self.items,
            alpha=self.training.settings.alpha,
            regularization=ridge,
            model=model,
            model_patch=patches[0],
            catalogue=self.catalogue.hash,
            catalogue_patch=patches[1],
            public_key=public_key,
            token_key=tokens[0],
            next_token_key=tokens[1],
            opens=opens,
            closes=closes,
            epochs_left=self.training.count_epochs_left(progress.epochs),
            reports_behind=progress.reports,
            start=start,
        )


def load_start(transaction: Transaction, training: Training) -> Start | None:
    """Read the public start of a training from the database; None if it has none."""
    content = training.start and transaction.find_file(training.start, "start")
    return Start.decode(content) if content else None


def load_catalogue(transaction: Transaction, sha256: bytes) -> Catalogue:
    """Read a catalogue from the database by its SHA-256."""
    return Catalogue.decode(transaction.find_file(sha256, "catalogue") or b"")
