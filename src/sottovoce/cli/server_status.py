"""The state of a server in words, for `sottovoce server status`."""

from collections.abc import Iterator

from sottovoce.cli import output
from sottovoce.protocol.terms import TRIAL_SENTENCE
from sottovoce.server import ServerSettings
from sottovoce.server.problems import DROP_REASONS
from sottovoce.server.status import ServerStatus
from sottovoce.server.transaction import OPEN, Epoch, ProxyContact
from sottovoce.server.waiting import EpochWait
from sottovoce.service.watch import ProcessState


def describe_status(status: ServerStatus, settings: ServerSettings) -> Iterator[str]:
    """Yield lines about the state of the server, without `status.problems`."""
    yield from _describe_epoch(status)
    for epoch in reversed(status.last_epochs):
        drops = [
            f"{getattr(epoch, name):,} {reason}"
            for name, reason in DROP_REASONS.items()
            if getattr(epoch, name)
        ]
        tail = f"dropped: {', '.join(drops)}" if drops else "no reports were dropped"
        yield f"Epoch {epoch.epoch} counted {output.pluralize(epoch.reports, 'report')}; {tail}."
    yield _describe_training(status, settings)
    if status.start is not None:
        yield output.describe_start(status.start)
    terms = status.pending.training.terms
    if terms.accounts:
        yield "Reports need an account. The privacy promise holds for an account, not a device."
    if terms.trial:
        yield TRIAL_SENTENCE
    yield from _describe_catalogue(status)
    yield from _describe_keys(status)
    for name, contact in status.contacts.items():
        yield describe_contact(name, contact, status.now)
    if isinstance(status.running, ProcessState):
        yield output.describe_process(
            "This server", status.running.since, status.running.last, status.now
        )
    if status.disk.free is not None:
        yield f"{status.disk.free / 1e9:,.1f} GB are free on the disk of the database."
    if status.epoch is not None and status.pending.training.number != status.epoch.training:
        yield f"Training {status.pending.training.number} begins after this epoch."
    command = (
        "`sottovoce server backup FILE`"
        if settings.database.startswith("sqlite")
        else "`pg_dump --exclude-table-data=epoch_keys`"
    )
    yield (
        f"Back up the database ({command}), and in another place {settings.keys.name}, whenever "
        "the key changes."
    )


def describe_contact(name: str, contact: ProxyContact | None, now: float) -> str:
    """Return when a proxy last contacted the server, in words.

    Args:
        name: Name of the proxy.
        contact: Its last contact, if there was one.
        now: Unix seconds.
    """
    if contact is None:
        return f"Proxy {name} has not contacted the server yet."
    moment = output.format_moment(contact.last_contact, now)
    epoch = f"epoch {contact.epoch}" if contact.epoch else "no epoch"
    return f"Proxy {name} last contacted the server at {moment}, with {epoch}."


def _describe_epoch(status: ServerStatus) -> Iterator[str]:
    epoch, now = status.epoch, status.now
    if epoch is None or status.manifest is None:
        yield "No epoch yet: `sottovoce server run` opens the first one."
        return
    name = f"Epoch {epoch.epoch} of training {epoch.training}"
    if status.waiting is None:
        state = "asks for no reports" if epoch.closed_at is None else "is over"
        yield f"{name} {state}, since {output.format_moment(epoch.closed_at or epoch.opens, now)}."
    elif epoch.state == OPEN and now < epoch.closes:
        since = output.format_moment(epoch.opens, now)
        until = output.format_moment(epoch.closes, now)
        yield f"{name} is open since {since}; it closes at {until} at the earliest."
    elif epoch.state == OPEN:
        closes = output.format_moment(epoch.closes, now)
        yield f"{name} should have closed at {closes}, and is still open."
        yield from _describe_open(status.waiting, status.manifest.terms.min_clients, now)
    else:
        yield f"{name} is closed since {output.format_moment(epoch.closed_at or 0.0, now)}."
        yield from _describe_closed(status.waiting, epoch, now)


def _describe_open(waiting: EpochWait, min_crowd: int, now: float) -> Iterator[str]:
    crowd = output.count_people(min_crowd)
    if waiting.short:
        proxies = ", ".join(waiting.short)
        yield f"It waits for reports of {crowd} at each of these proxies: {proxies}."
    elif not waiting.has_crowd:
        yield f"It waits for reports of {crowd}: no proxy has as many."
    if waiting.silent:
        yield f"No contact in this epoch from these proxies: {', '.join(waiting.silent)}."
    if waiting.is_over:
        yield "It waits for nothing more: a worker closes it within seconds."
    else:
        yield f"It is closed at {output.format_moment(waiting.until, now)} in any case."
        yield "To close it now: `sottovoce server epoch close`"


def _describe_closed(waiting: EpochWait, epoch: Epoch, now: float) -> Iterator[str]:
    chunks = output.pluralize(epoch.chunks, "chunk")
    yield f"Counted so far: {output.pluralize(epoch.reports, 'report')} in {chunks}."
    if waiting.is_over:
        yield "It waits for nothing more: a worker updates the model within seconds."
    else:
        until = output.format_moment(waiting.until, now)
        yield (
            f"It waits for the reports of {', '.join(waiting.silent)}, until {until} at the latest."
        )


def _describe_training(status: ServerStatus, settings: ServerSettings) -> str:
    if status.epoch is None or status.manifest is None or status.training is None:
        return "The training has not learnt anything yet."
    epochs = output.pluralize(status.epoch.epochs_done, "epoch")
    text = f"Training {status.epoch.training} has learnt {status.training.kind} from {epochs}"
    if not settings.collect_reports:
        return f"{text}; nobody is asked for reports (collect_reports = false)."
    if status.is_endless:
        half_life = output.pluralize(status.training.settings.half_life, "epoch")
        return f"{text}; learning has no end (half-life {half_life})."
    left = status.manifest.epochs_left
    if not left:
        return f"{text}; the training is finished."
    return f"{text}; {left:,} {'is' if left == 1 else 'are'} left."


def _describe_catalogue(status: ServerStatus) -> Iterator[str]:
    pending, manifest = status.pending, status.manifest
    items = output.pluralize(pending.items, "item")
    limit = f"{pending.items_left:,} more may come in this training"
    yield f"Catalogue version {pending.version}: {items}, {limit}."
    if manifest is not None and manifest.catalogue != pending.catalogue.hash:
        when = "now" if status.is_listed else "as soon as a worker has signed it"
        yield f"Devices use it for lists {when}, and for reports from the next epoch on."
    yield f"Tags: {pending.catalogue.tags.format_kinds()}."


def _describe_keys(status: ServerStatus) -> Iterator[str]:
    keys = status.keys
    times = f"replaced {output.pluralize(keys.replaced, 'time')}"
    history = times if keys.replaced else "never replaced"
    if keys.created:
        history += f"; made {output.format_moment(keys.created, status.now)}"
    yield f"Verification key: {status.verification_key.hex()} ({history})."
    if keys.problem is None:
        yield "The keys file and the database belong together."
    if keys.is_newer:
        yield "The keys file has a newer key, which will sign from the next epoch on."
