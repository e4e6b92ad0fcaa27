"""Which addresses a device may speak to."""

from __future__ import annotations

from urllib.parse import urlsplit

from sottovoce.errors import SettingsError
from sottovoce.protocol.address import is_this_machine


def checked_url(url: str) -> str:
    """The address without a slash at its end: https, or http to this machine itself.

    >>> checked_url("https://proxy.example/")
    'https://proxy.example'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(f"the proxy's address {url!r} cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError(f"the proxy's address must be https://HOST, not {url!r}")
    if parts.scheme == "http" and not is_this_machine(host):
        raise SettingsError(
            f"{url!r} is not encrypted: anyone on the way would see who takes part; use https "
            "(http is for this machine alone: localhost, 127.0.0.0/8, ::1)"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Any of these could tell one device from another in every request.
        raise SettingsError("the proxy's address must have no user name, password, ? or #")
    return url.rstrip("/")
