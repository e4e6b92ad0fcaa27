"""How a proxy stands, read from its folder: it may run meanwhile, and is not disturbed."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.exceptions import HTTPException

from sottovoce.characters import ensure_full_stop
from sottovoce.errors import (
    ClosedError,
    ConflictError,
    FullError,
    ProtocolError,
    RefusedError,
    StoreError,
    UnavailableError,
    UntrustedError,
    WrongEpochError,
)
from sottovoce.protocol import SignedManifest, fetch_manifest
from sottovoce.protocol.contact import Contact, allowed_clock_skew, describe_clock_skew
from sottovoce.proxy.epoch_files import estimate_disk_bytes
from sottovoce.proxy.forward import IS_IT_ONE, Upstream, own_manifest
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import Flush, count_waiting, looking
from sottovoce.service.connections import RejectionCounter
from sottovoce.service.page import Page, read_panel
from sottovoce.service.tls import describe_expiring
from sottovoce.service.watch import ProcessState

PATIENCE = 60.0
"""Seconds that a proxy has for what it does by itself."""
LEAST_FREE = 100_000_000
"""Bytes that should be free in any case: models, and the database's own log."""


@dataclass(frozen=True)
class Asked:
    """What the server says now."""

    epoch: int | None = None
    """That it publishes; None if that is not known, or not believed."""
    opens: int | None = None
    """When that epoch began."""
    ahead: float | None = None
    """Seconds that our clock is ahead of its own."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProxyStatus:
    now: float
    free: int
    """Bytes on the disk."""
    running: ProcessState | str
    """What the process says of itself, or why nothing is known of it."""
    server: Asked
    signed: SignedManifest | None = None
    """Of the epoch that clients are shown; None before the first."""
    is_over: bool = False
    """Whether that epoch was mixed, discarded or given up here."""
    batches: int = 0
    """That wait. This is the operator's own view: nobody else should know it."""
    least: int = 1
    """For so many the epoch waits."""
    unsettled: tuple[Flush, ...] = ()
    """Epochs that are mixed, and that the server has not confirmed."""
    expiring: tuple[str, ...] = ()
    """Certificates that must be renewed."""
    per_address: int = 0
    """Devices of one address that may send in an epoch; 0: all."""
    panel_fits: bool = True
    """Whether the page's panel, if there is one, is of the catalogue that clients are shown."""

    @classmethod
    def read(
        cls, settings: ProxySettings, upstream: Upstream, now: float, running: ProcessState | str
    ) -> Self:
        with looking(settings.folder) as tables:
            raw = tables.latest_manifest()
            signed = None if raw is None else own_manifest(raw, settings.key)
            is_over = signed is not None and tables.is_flushed(signed.manifest.epoch)
            unsettled = tuple(tables.unsettled())
        batches = 0 if signed is None else count_waiting(settings.folder, signed.manifest.epoch)
        free = shutil.disk_usage(settings.folder).free
        seen = ask(upstream, settings.key, signed, now, speaks=isinstance(running, ProcessState))
        terms = None if signed is None else signed.manifest.terms
        least = settings.least_clients if terms is None else settings.least_for(terms)
        fits = signed is None or _fits(settings.page, signed)
        old = tuple(describe_expiring(settings.certificates, now))
        each = settings.rate.per_epoch
        return cls(
            now, free, running, seen, signed, is_over, batches, least, unsettled, old, each, fits
        )

    @property
    def needed(self) -> int:
        """Bytes that this epoch still takes on the disk, at most, if just a crowd comes.

        What waits has its room: its shuffled reports are reserved.
        """
        if self.signed is None or self.is_over:
            return 0
        terms = self.signed.manifest.terms
        return estimate_disk_bytes(max(self.least - self.batches, 0), terms.reports, terms.dummies)

    @cached_property
    def problems(self) -> list[str]:
        """What an operator should look at; nothing where all is well."""
        found = [self.running] if isinstance(self.running, str) else [*self.running.troubles]
        found += [each for each in self.server.problems if each not in found]
        found += self.expiring
        if self.free < LEAST_FREE + self.needed:
            found.append(f"only {self.free / 1e6:,.0f} MB are free on the disk")
        late = [] if self.signed is None else self._behind(self.signed, graver=bool(found))
        return found + late

    def _behind(self, signed: SignedManifest, *, graver: bool) -> list[str]:
        """The first of these that holds: the others follow from it."""
        manifest, server = signed.manifest, self.server.epoch or signed.manifest.epoch
        epoch, asks = manifest.epoch, manifest.public_key is not None and not self.is_over
        too_few, length = self.batches < self.least, manifest.closes - manifest.opens
        many = f", or do more than {self.per_address:,} come from one address (rate.per_epoch)"
        causes = {
            f"the server is at epoch {server}, and this proxy is at {epoch}: does it run?": (
                server > epoch and self.now > (self.server.opens or 0) + PATIENCE
            ),
            f"epoch {epoch} is over and was not ended here: does the proxy run?": (
                asks and self.now > manifest.ends + PATIENCE
            ),
            f"epoch {epoch} has waited for its crowd for longer than it was open: do fewer people "
            f"come than {self.least:,}, which terms and least_clients ask for"
            f"{many * (self.per_address > 0)}?": (
                asks and too_few and not graver and self.now > manifest.closes + length
            ),
        }
        return [text for text, holds in causes.items() if holds][:1]

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "problems": self.problems,
            "batches": self.batches,
            "least_clients": self.least,
            "free_bytes": self.free,
            "needed_bytes": self.needed,
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
            m = self.signed.manifest
            found["epoch"] = {
                name: getattr(m, name) for name in ("epoch", "opens", "closes", "ends")
            }
            found["epoch"] |= {"is_over": self.is_over, "training": m.terms.training.hex()}
        return found


def ask(
    upstream: Upstream,
    key: bytes,
    signed: SignedManifest | None,
    now: float,
    *,
    speaks: bool = True,
) -> Asked:
    """As a proxy does at every beat, if this is the last manifest that it has.

    Not in the name of one that should speak itself and does not: its silence would not show.
    """
    epoch, known = (0, None) if signed is None else (signed.manifest.epoch, signed.hash)
    newest = None if known is None else (epoch, known)
    found = Asked()
    try:
        trusted = key if signed is None else signed.key
        manifest = fetch_manifest(upstream, trusted, newest).manifest
        found = Asked(manifest.epoch, manifest.opens)
        if not speaks:
            return found
        answer = upstream.contact(Contact(epoch, known, None, now, process=None))
    except (ProtocolError, RefusedError) as error:
        return replace(found, problems=(at_odds(error, epoch),))
    except UnavailableError as error:
        return replace(found, problems=(str(error),))
    ahead = now - answer.time
    said = clocks_apart(ahead, signed)
    return replace(found, ahead=ahead, problems=() if said is None else (said,))


def at_odds(error: ProtocolError | RefusedError, epoch: int) -> str:
    """What an operator must know where the server and a proxy at this epoch do not go together."""
    said = f"{ensure_full_stop(str(error))} Nothing is taken until that is mended"
    if isinstance(error, ConflictError):
        said += (
            ": the server's database was set back. Its operator can let it go on: "
            f"`sottovoce server go-beyond {epoch}`"
        )
    elif isinstance(error, ProtocolError) and not isinstance(error, UntrustedError):
        said += IS_IT_ONE
    return said


def clocks_apart(ahead: float, signed: SignedManifest | None) -> str | None:
    """None: they are not."""
    said = describe_clock_skew(ahead, "this proxy's clock", "the server's")
    is_borne = abs(ahead) <= allowed_clock_skew(None if signed is None else signed.manifest)
    return said if said is None or is_borne else f"{said}. Nothing is taken until then"


def _fits(page: Page, signed: SignedManifest) -> bool:
    """Its rows are those of one catalogue, which the server's operator may change at any time."""
    if not page.serve or page.panel is None:
        return True
    return read_panel(page.panel)[0].catalogue == signed.manifest.catalogue


# Counts for the whole proxy: nothing about one batch, one address or one moment.

REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ProtocolError, "malformed"),
    (WrongEpochError, "wrong_epoch"),
    (ClosedError, "closed"),
    (RefusedError, "known"),
    (StoreError, "store"),
    (FullError, "full"),
    (UnavailableError, "unavailable"),
    (HTTPException, "http"),
)
OTHER, RATE = "disconnected", "rate"
SHUFFLED, EMPTY, DISCARDED, GIVEN_UP = "shuffled", "empty", "discarded", "given_up"
"""What becomes of an epoch: mixed; nobody came; too few came; the server went on without us."""
GAUGES = {
    "batches_waiting": "Batches held now",
    "epoch": "The epoch that clients are shown; 0 for none",
    "crowd": "Batches that the present epoch waits for",
    "overdue_seconds": "Seconds that the epoch waits beyond its end",
    "disk_free_bytes": "Free where the database lies",
    "beat_failures": "Beats in a row that failed",
    "certificate_seconds": "Until the first certificate expires; NaN: there is none",
    "clock_ahead_seconds": "Of this clock before the server's, when they were last compared",
    "barred": "1: nothing is taken, because it could not be counted",
}


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"sottovoce_proxy_{name}", about, registry=self._registry)
            for name, about in GAUGES.items()
        }
        self.accepted = self._counter("batches_accepted", "Batches on disk, resent ones included")
        self._refused = self._counter("batches_refused", "Batches turned away", "reason")
        self.flushes = self._counter("flushes", "Epochs ended", "outcome")
        self.forwarded = self._counter("reports_forwarded", "Confirmed; dummies are among them")
        self.lost = self._counter("reports_lost", "Too late for the server, dummies among them")
        about = "Manifests and shelves of the server refused"
        self.untrusted = self._counter("manifests_untrusted", about)
        self.turned_away = RejectionCounter("proxy", self._registry)
        for _, reason in (*REASONS, (Exception, OTHER), (Exception, RATE)):
            self._refused.labels(reason)
        for outcome in (SHUFFLED, EMPTY, DISCARDED, GIVEN_UP):
            self.flushes.labels(outcome)

    def refused(self, error: BaseException) -> None:
        reason = next((name for kind, name in REASONS if isinstance(error, kind)), OTHER)
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            reason = RATE
        self._refused.labels(reason).inc()

    def watch(self, **values: Callable[[], float]) -> None:
        """Numbers that are looked up when somebody asks."""
        for name, value in values.items():
            self._gauges[name].set_function(value)

    def notes(self) -> list[str]:
        """What an operator should know, and is no fault of the proxy."""
        name, reason = "sottovoce_proxy_batches_refused_total", {"reason": RATE}
        limited = self._registry.get_sample_value(name, reason) or 0
        about = "Batches refused for their address ([rate]) since the start"
        return [f"{about}: {limited:,.0f}"] if limited else []

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"sottovoce_proxy_{name}", about, labels, registry=self._registry)
