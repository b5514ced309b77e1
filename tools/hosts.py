"""What the names of hosts mean."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Nearness(IntEnum):
    """How near a host is, by its name alone: what is nearer trusts this machine more."""

    ANYWHERE = 0
    PRIVATE_NETWORK = 1
    THIS_MACHINE = 2


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def nearness(host: str) -> Nearness:
    """Return how near a host is. Addresses of the link count as this machine: clouds tell their
    machines secrets there. Nothing is looked up."""
    if is_loopback(host.rstrip(".").lower()):
        return Nearness.THIS_MACHINE
    address = _address(host.rstrip("."))
    if address is None or address.is_global:
        return Nearness.ANYWHERE
    near = address.is_loopback or address.is_link_local or address.is_unspecified
    return Nearness.THIS_MACHINE if near else Nearness.PRIVATE_NETWORK


def _address(host: str) -> Address | None:
    """Return the address that a host is written as, in every way the system understands (R31)."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            return address.ipv4_mapped or address.sixtofour or address
        return address
    with suppress(ValueError):
        return ipaddress.IPv4Address(_numbers(host.split(".")))
    return None


def _numbers(parts: Sequence[str]) -> int:
    """Return the number of an IPv4 address in parts: the last one stands for all bytes that are
    left, and each may be octal or hexadecimal (2130706433, 0x7f.1). Raises ValueError."""
    *first, last = [int(part, _base(part)) for part in parts]
    left = 4 - len(first)
    if left < 1 or any(not 0 <= number < 256 for number in first) or not 0 <= last < 1 << 8 * left:
        raise ValueError(parts)
    return last + sum(number << 8 * (3 - place) for place, number in enumerate(first))


def _base(part: str) -> int:
    if part[:2].lower() == "0x":
        return 16
    return 8 if part.startswith("0") and part != "0" else 10
