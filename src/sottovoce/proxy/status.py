"""The state of a proxy, read from its folder and its server, even while the proxy runs."""

import shutil
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

from sottovoce.errors import ProtocolError, RefusedError, UnavailableError
from sottovoce.protocol import SignedManifest, fetch_manifest
from sottovoce.protocol.contact import Contact
from sottovoce.proxy.epoch_files import estimate_disk_bytes
from sottovoce.proxy.mirror import open_stored_manifest
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import FlushedEpoch, count_waiting_batches, open_snapshot
from sottovoce.proxy.upstream import Upstream, describe_clock_problem, describe_mismatch
from sottovoce.service.page import Page, read_panel
from sottovoce.service.tls import describe_expiring
from sottovoce.service.watch import ProcessState
from sottovoce.storage.files import describe_full_disk

# Seconds that a proxy may be late with its regular work before the operator is told.
GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class ServerProbe:
    """What the server answered when the status was read."""

    epoch: int | None = None
    """The epoch that the server publishes; None if it is unknown or not trusted."""
    opens: int | None = None
    """Opening time of this epoch in Unix seconds."""
    ahead: float | None = None
    """Seconds that the clock here is ahead of the server's; None if they were not compared."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProxyStatus:
    """What an operator should know about a proxy."""

    now: float
    free_bytes: int
    """Free bytes on the disk."""
    running: ProcessState | str
    """The state that the running proxy reports, or a message that says why there is none."""
    server: ServerProbe
    signed: SignedManifest | None = None
    """Manifest of the epoch that clients are shown; None before the first epoch."""
    is_over: bool = False
    """Whether the proxy has mixed, discarded or given up this epoch."""
    n_batches: int = 0
    """Batches that wait for the end of the epoch.

    Show the number only to the operator, because it would help an attacker.
    """
    min_crowd: int = 1
    """People that must report before the epoch is mixed."""
    unsettled: tuple[FlushedEpoch, ...] = ()
    """Epochs that have ended, but that the server has not confirmed yet."""
    expiring: str | None = None
    """A message that names the certificates to renew; None if no certificate expires soon."""
    max_per_address: int = 0
    """Batches that one address may send in an epoch; 0 for no limit."""
    panel_fits: bool = True
    """Whether the page has no panel, or one that was made for the current catalogue."""

    @classmethod
    def read(
        cls, settings: ProxySettings, upstream: Upstream, now: float, running: ProcessState | str
    ) -> Self:
        """Read the folder of a proxy and ask its server.

        Args:
            settings: The settings of the proxy.
            upstream: The server.
            now: Unix seconds.
            running: The state that the process reports, or a message why it reports none.
        """
        with open_snapshot(settings.folder) as tables:
            raw = tables.get_latest_manifest()
            signed = None if raw is None else open_stored_manifest(raw, settings.key)
            is_over = signed is not None and tables.is_flushed(signed.manifest.epoch)
            unsettled = tuple(tables.get_unsettled())
        epoch, min_crowd, panel_fits = None, settings.min_clients, True
        if signed is not None:
            epoch = signed.manifest.epoch
            min_crowd = settings.compute_min_crowd(signed.manifest.terms)
            # A later manifest may have a catalogue that the operator's panel was not made for.
            panel_fits = _fits_catalogue(settings.page, signed)
        return cls(
            now,
            shutil.disk_usage(settings.folder).free,
            running,
            # If the process gives no state, do not contact the server in its place: the server
            # would not notice that the process is silent.
            probe_server(
                upstream, settings.key, signed, now, contact=isinstance(running, ProcessState)
            ),
            signed,
            is_over,
            n_batches=0 if epoch is None else count_waiting_batches(settings.folder, epoch),
            min_crowd=min_crowd,
            unsettled=unsettled,
            expiring=describe_expiring(settings.certificates, now),
            max_per_address=settings.rate.per_epoch,
            panel_fits=panel_fits,
        )

    @property
    def needed_bytes(self) -> int:
        """Bytes of disk that the epoch still needs until its crowd has the required size."""
        if self.signed is None or self.is_over:
            return 0
        terms = self.signed.manifest.terms
        # The batches that wait need no more: they are stored, and the room to shuffle them is
        # reserved.
        missing = max(self.min_crowd - self.n_batches, 0)
        return estimate_disk_bytes(missing, terms.reports, terms.dummies)

    @cached_property
    def problems(self) -> list[str]:
        """Messages about all problems, for the operator; empty if there are none."""
        running = self.running
        problems = [running] if isinstance(running, str) else [*running.troubles]
        # A running proxy may report the same problem in the same words: list it once.
        others = [*self.server.problems, self.expiring, describe_full_disk(self.free_bytes)]
        problems += [text for text in others if text is not None and text not in problems]
        if self.signed is not None:
            delay = self._describe_delay(self.signed, is_explained=bool(problems))
            problems += [] if delay is None else [delay]
        return problems

    def _describe_delay(self, signed: SignedManifest, *, is_explained: bool) -> str | None:
        """Return why the epoch is late, or None if it is not.

        If there are several reasons, return only the first, because it causes the others.

        Args:
            signed: The manifest of the epoch.
            is_explained: Whether other problems may be the reason that too few people report.
        """
        manifest, now = signed.manifest, self.now
        epoch, server_epoch = manifest.epoch, self.server.epoch or manifest.epoch
        if server_epoch > epoch and now > (self.server.opens or 0) + GRACE_SECONDS:
            return (
                f"the server is at epoch {server_epoch}, and this proxy is at {epoch}: does it run?"
            )
        if manifest.public_key is None or self.is_over:
            return None
        # By the terms, the proxy ends the epoch at this time even without the server.
        if now > manifest.ends + GRACE_SECONDS:
            return f"epoch {epoch} is over and was not ended here: does the proxy run?"
        length = manifest.closes - manifest.opens
        # Wait as long as the epoch was open: until then it is normal that people are missing.
        if is_explained or self.n_batches >= self.min_crowd or now <= manifest.closes + length:
            return None
        address_hint = ""
        if self.max_per_address:
            limit = f"{self.max_per_address:,}"
            address_hint = f", or do more than {limit} come from one address (rate.per_epoch)"
        return (
            f"epoch {epoch} has waited for its crowd for longer than it was open: do fewer people "
            f"come than {self.min_crowd:,}, which terms and min_clients ask for{address_hint}?"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the status as the content of a JSON file."""
        content: dict[str, Any] = {
            "problems": self.problems,
            "batches": self.n_batches,
            "min_clients": self.min_crowd,
            "free_bytes": self.free_bytes,
            "needed_bytes": self.needed_bytes,
            "server": asdict(self.server),
            "running": asdict(self.running) if isinstance(self.running, ProcessState) else None,
            "not_handed_in": [
                {"epoch": e.epoch, "chunks": e.chunks, "delivered": e.delivered}
                for e in self.unsettled
            ],
            "panel_fits": self.panel_fits,
            "epoch": None,
        }
        if self.signed is not None:
            manifest = self.signed.manifest
            content["epoch"] = {
                "epoch": manifest.epoch,
                "opens": manifest.opens,
                "closes": manifest.closes,
                "ends": manifest.ends,
                "is_over": self.is_over,
                "training": manifest.terms.training.hex(),
            }
        return content


def probe_server(
    upstream: Upstream,
    key: bytes,
    signed: SignedManifest | None,
    now: float,
    *,
    contact: bool = True,
) -> ServerProbe:
    """Send the server the requests that a proxy sends at every tick.

    Args:
        upstream: The server.
        key: The verification key of the settings.
        signed: The newest manifest that the proxy has.
        now: Unix seconds.
        contact: Whether to send a contact as well, which shows the server that the proxy runs.
    """
    epoch, manifest_hash = (0, None) if signed is None else (signed.manifest.epoch, signed.hash)
    newest = None if manifest_hash is None else (epoch, manifest_hash)
    probe = ServerProbe()
    try:
        # The key that signed the last manifest may have replaced the key in the settings.
        trusted_key = key if signed is None else signed.key
        manifest = fetch_manifest(upstream, trusted_key, newest).manifest
        probe = ServerProbe(manifest.epoch, manifest.opens)
        if not contact:
            return probe
        # Name no process. Another name than that of the running proxy would make the server report
        # a second proxy with the same secret.
        reply = upstream.contact(Contact(epoch, manifest_hash, None, now, process=None))
    except (ProtocolError, RefusedError) as error:
        return replace(probe, problems=(describe_mismatch(error, epoch),))
    except UnavailableError as error:
        return replace(probe, problems=(str(error),))
    ahead = now - reply.time
    problem = describe_clock_problem(ahead, signed)
    return replace(probe, ahead=ahead, problems=() if problem is None else (problem,))


def _fits_catalogue(page: Page, signed: SignedManifest) -> bool:
    """Return whether the page has no panel, or one for the catalogue of the manifest."""
    if not page.serve or page.panel is None:
        return True
    return read_panel(page.panel)[0].catalogue == signed.manifest.catalogue
