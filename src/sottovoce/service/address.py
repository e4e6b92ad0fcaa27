"""Whom an address stands for. Addresses are held in memory and nowhere else."""

from __future__ import annotations

import ipaddress


def network_of(address: str) -> str | int:
    """What one household has: an IPv4 address, or the first 56 bits of an IPv6 address.

    >>> network_of("203.0.113.7")
    '203.0.113.7'
    >>> network_of("2001:db8::1") == network_of("2001:db8::ffff")
    True
    >>> network_of("::ffff:203.0.113.7")
    '203.0.113.7'
    """
    if ":" not in address:
        return address
    try:
        known = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(known.ipv4_mapped) if known.ipv4_mapped else int(known) >> 72
