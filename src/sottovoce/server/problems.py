"""Descriptions of problems of a service, for the log, /readyz, the metrics and `status`."""

from collections.abc import Mapping

from sottovoce.protocol.contact import describe_clock_skew
from sottovoce.server.epochs import is_in_future
from sottovoce.server.training import Training
from sottovoce.server.transaction import CLOSED, OPEN, Epoch, ProxyContact
from sottovoce.server.waiting import EpochWait

# A delay of a proxy is a problem only if it is longer than this.
PROXY_GRACE_SECONDS = 60.0
# Longer silence of a proxy is a problem, because a proxy makes contact at every tick.
MAX_SILENCE_SECONDS = 600.0
# Duplicates and undecodable reports are mentioned only if they are more than this share of the
# reports of an epoch.
MAX_DROPPED_SHARE = 0.01
# A catalogue is nearly full if less than this share of the room for new items that it had at the
# start of the training is left.
MIN_ROOM_SHARE = 1 / 3
# Why reports were dropped. A key is the field of `Epoch` that counts them; a value completes the
# sentence "12 reports ...".
DROP_REASONS = {
    "duplicates": "came twice",
    "undecodable": "could not be opened",
    "crowdless": "came from a proxy without a crowd",
    "capped": "were more of one kind than honest people send",
}


def find_problems(
    epoch: Epoch | None,
    wait: EpochWait | None,
    contacts: Mapping[str, ProxyContact | None],
    catalogue_problem: str | None,
    now: float,
    *,
    silent_since: float,
    watched_since: float = 0.0,
) -> dict[str, str | None]:
    """Return what is wrong with the latest epoch, the proxies and the catalogue, by name.

    Args:
        epoch: The latest epoch.
        wait: What the latest epoch waits for.
        contacts: The last contact with each proxy of the settings; None if there was none.
        catalogue_problem: The result of `describe_room` for the newest catalogue and training.
        now: Unix seconds.
        silent_since: When the silence of a proxy that never made contact began, in Unix seconds.
        watched_since: The silence of a proxy that made contact begins at its last contact, but not
            before this time.

    Returns:
        A text for each name, `proxy/NAME` for a proxy; None where nothing is wrong.
    """
    problems: dict[str, str | None] = {"catalogue": catalogue_problem, "future epoch": None}
    if epoch is not None and is_in_future(epoch, now):
        problems["future epoch"] = (
            f"epoch {epoch.epoch} opens in the future, so a clock was wrong when it was published, "
            f"or is now. `sottovoce server go-beyond {epoch.epoch}` lets all go on"
        )
    for name, contact in contacts.items():
        since = silent_since if contact is None else max(watched_since, contact.last_contact)
        problems[f"proxy/{name}"] = describe_proxy(name, contact, now - since)
    problems |= dict.fromkeys(("silent proxies", "crowd"))
    if epoch is None or wait is None or wait.is_over or now < wait.since + PROXY_GRACE_SECONDS:
        return problems
    if wait.silent:
        action = (
            "not said what they hold" if epoch.state == OPEN else "not handed in what they have"
        )
        problems["silent proxies"] = f"proxies that have {action}: {', '.join(wait.silent)}"
    has_no_crowd = wait.short or not wait.has_crowd
    if epoch.state == OPEN and has_no_crowd and now > 2 * epoch.closes - epoch.opens:
        problems["crowd"] = (
            f"epoch {epoch.epoch} has waited for its crowd for longer than it was open: do fewer "
            "people report than min_clients, or nobody at all?"
        )
    return problems


def describe_room(items: int, training: Training) -> str | None:
    """Return a warning if a catalogue is nearly full; None if it has room for more items.

    Args:
        items: Number of items in the catalogue.
        training: The training of the next epoch.
    """
    max_items = training.terms.max_items
    room, left = max_items - training.items, max_items - items
    if left >= MIN_ROOM_SHARE * room:
        return None
    return (
        f"the catalogue has {items:,} items, and the terms of training {training.number} allow "
        f"{max_items:,}: {left:,} more. Before it is full, begin a training with more room "
        "(`sottovoce server training begin`); devices ask their owners again"
    )


def describe_proxy(name: str, contact: ProxyContact | None, silent_seconds: float) -> str | None:
    """Return what is wrong with a proxy; None if nothing is.

    Args:
        name: Name of the proxy.
        contact: The last contact with it; None if there was none.
        silent_seconds: Seconds since the last contact.
    """
    if contact is None:
        if silent_seconds <= PROXY_GRACE_SECONDS:
            return None
        return f"proxy {name} has not contacted this server yet: does it run, and reach the server?"
    if silent_seconds > MAX_SILENCE_SECONDS:
        minutes = f"{MAX_SILENCE_SECONDS / 60:.0f} minutes"
        return f"proxy {name} has not contacted this server for {minutes}: does it run?"
    if contact.refusal:
        return f"proxy {name}: {contact.refusal}"
    if contact.has_duplicate:
        return (
            f"two processes use the secret of proxy {name}, and only the older one is accepted: "
            "stop one, or give each its own name and secret ([proxies])"
        )
    if contact.earlier_database:
        return (
            f"proxy {name} has another database ({contact.database}) than before "
            f"({contact.earlier_database}): batches that it acknowledged with the old one may wait "
            "there. Start it with its old folder. If it was set up again on purpose, this message "
            "ends with the epoch"
        )
    return describe_clock_skew(contact.clock_ahead, f"the clock of proxy {name}", "this server's")


def describe_idle_workers(epoch: Epoch, wait: EpochWait, then: float) -> str | None:
    """Describe an epoch that is ready but that no worker closes or applies; None if all is well.

    Args:
        epoch: The latest epoch.
        wait: What it waits for.
        then: Unix seconds in the past. An epoch that became ready after this time is no problem
            yet.
    """
    over_since = wait.until if epoch.state == CLOSED and wait.silent else wait.since
    if not wait.is_over or then < over_since:
        return None
    action = "closed" if epoch.state == OPEN else "applied"
    return (
        f"epoch {epoch.epoch} could be {action}, but no worker does it: check that a worker runs "
        "with the newest keys file, and read its log"
    )


def describe_dropped_reports(epoch: Epoch) -> list[str]:
    """Return sentences about an applied epoch that counted no reports, or dropped some."""
    if not epoch.reports:
        return [f"epoch {epoch.epoch} counted no reports"]
    # A few come from a proxy that repeats a chunk, or from one faulty client: that is usual.
    is_usual = epoch.duplicates + epoch.undecodable <= MAX_DROPPED_SHARE * epoch.reports
    ignored = ["duplicates", "undecodable"] if is_usual else []
    return [
        f"epoch {epoch.epoch}: {getattr(epoch, name):,} reports {reason}, and were dropped"
        for name, reason in DROP_REASONS.items()
        if getattr(epoch, name) and name not in ignored
    ]
