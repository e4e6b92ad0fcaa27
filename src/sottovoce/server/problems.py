"""What may be wrong with a service: one list for the log, /readyz, the metrics and `status`."""

from collections.abc import Mapping

from sottovoce.protocol.contact import describe_clock_skew
from sottovoce.server.epochs import is_in_future
from sottovoce.server.transaction import CLOSED, OPEN, Epoch, ProxyContact
from sottovoce.server.waiting import EpochWait

# Time that proxies have for what they do by themselves.
PROXY_GRACE_SECONDS = 60.0
# A proxy that says nothing for this time should be looked at: it speaks at every tick.
MAX_SILENCE_SECONDS = 600.0
# Share of an epoch's reports that may be dropped before anyone should look.
MAX_DROPPED_SHARE = 0.01
# Why reports of an epoch were dropped, by the field of `Epoch` that counts them.
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
    now: float,
    *,
    silent_since: float,
    watched_since: float = 0.0,
) -> dict[str, str | None]:
    """Return what is wrong with the latest epoch and the proxies, by name.

    Args:
        epoch: The latest epoch.
        wait: What it waits for.
        contacts: The last contact with each proxy of the settings.
        now: Unix seconds.
        silent_since: Since when a proxy without any contact is silent.
        watched_since: When the caller began to watch: earlier silence does not count.

    Returns:
        A text for each name, `proxy/NAME` for a proxy; None where nothing is wrong.
    """
    problems: dict[str, str | None] = {"future epoch": None}
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
            "people report than least_clients, or nobody at all?"
        )
    return problems


def describe_proxy(name: str, contact: ProxyContact | None, silent_seconds: float) -> str | None:
    """Return what is wrong with a proxy, whose last contact was that long ago; None if nothing."""
    if contact is None:
        if silent_seconds <= PROXY_GRACE_SECONDS:
            return None
        return f"nothing was heard from proxy {name} yet: does it run, and reach this server?"
    if silent_seconds > MAX_SILENCE_SECONDS:
        minutes = f"{MAX_SILENCE_SECONDS / 60:.0f} minutes"
        return f"nothing was heard from proxy {name} for {minutes}: does it run?"
    if contact.refusal:
        return f"proxy {name}: {contact.refusal}"
    if contact.has_duplicate:
        return (
            f"two processes speak as proxy {name}, and only the older one is heard: stop one, or "
            "give each a name and a secret of its own ([proxies])"
        )
    if contact.earlier_database:
        return (
            f"proxy {name} has another database ({contact.database}) than before "
            f"({contact.earlier_database}): batches that it acknowledged with the old one may wait "
            "there. Start it with its old folder. If it was set up again on purpose, this ends "
            "with the epoch"
        )
    return describe_clock_skew(contact.clock_ahead, f"the clock of proxy {name}", "this server's")


def describe_idle_workers(epoch: Epoch, wait: EpochWait, then: float) -> str | None:
    """Return that no worker goes on, if the epoch waited for nothing even at that earlier time."""
    over_since = wait.until if epoch.state == CLOSED and wait.silent else wait.since
    if not wait.is_over or then < over_since:
        return None
    action = "closed" if epoch.state == OPEN else "applied"
    return (
        f"epoch {epoch.epoch} could be {action}, and no worker does it; does one run, with the "
        "newest keys file, and what does its log say?"
    )


def describe_dropped_reports(epoch: Epoch) -> list[str]:
    """Return what an operator should know about the reports of an applied epoch."""
    if not epoch.reports:
        return [f"epoch {epoch.epoch} came to nothing: no reports were counted"]
    # A proxy that repeats a chunk, or one strange client, is no reason to look.
    is_usual = epoch.duplicates + epoch.undecodable <= MAX_DROPPED_SHARE * epoch.reports
    ignored = ["duplicates", "undecodable"] if is_usual else []
    return [
        f"epoch {epoch.epoch}: {getattr(epoch, name):,} reports {reason}, and were dropped"
        for name, reason in DROP_REASONS.items()
        if getattr(epoch, name) and name not in ignored
    ]
