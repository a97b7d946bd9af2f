"""The address of a client behind reverse proxies, such as nginx: the proxy names it in a header of the request.

Behind a proxy, every connection comes from the proxy, so that a limit for each client would count all clients as one,
and a log would show one address. Each proxy therefore adds the address of its own client to a header:

    X-Forwarded-For: 203.0.113.7, 10.0.0.5                     a list; the last entry is the newest
    Forwarded: for=203.0.113.7;proto=https, for="[2001:db8::1]:4711"

Since any client can send these headers too, only the entries that our own proxies have added are true, which are the
last ones. So the list is read from its end, and the first address outside of the trusted networks is the client:

    connection from 10.0.0.5 (trusted)
    X-Forwarded-For: 1.2.3.4, 203.0.113.7, 10.0.0.9            10.0.0.9 is trusted; 203.0.113.7 is the client,
                                                               which has written 1.2.3.4 itself

A proxy usually sets one of the headers, and passes the other on as the client sent it. So if both are present, they
must name the same client. If they do not, or if an entry is not an address, the client is unknown, and the address
stays that of the proxy.

Threats:
    forged-address: A client evades its limits, and forges the addresses in the log, by sending these headers itself.
        The server reads only entries that trusted proxies have added, and ignores headers that contradict each other.

Spec:  RFC 7239, sections 4, 5.2, 6, 8.1
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from .message import Headers, HttpRequest

UNKNOWN_PORT: Final = 0
"""The port of a client whose address comes from a header, because a header rarely names it and nothing needs it."""

# Possessive quantifiers (`++`, `*+`) never try a shorter match, so they store no position for each character.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^",;]+|[,;]')
"""A part of the header `Forwarded`: a quoted text, a text without quotes and separators, or a separator."""
_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5}")
"""An address in brackets, perhaps with a port, or an IPv4 address with a port."""


class TrustedProxies:
    """The networks of the proxies whose headers are believed.

    Args:
        networks: Addresses and networks, such as "10.0.0.0/8", "::1" or "192.0.2.5".

    Raises:
        ValueError: A text is not an address or a network.
    """

    def __init__(self, networks: Collection[str]) -> None:
        if isinstance(networks, str):
            raise TypeError(f"trusted_proxies must be a list of addresses, such as [{networks!r}], not one text")
        try:
            self._networks = [ip_network(each) for each in networks]
        except ValueError as error:
            raise ValueError(f"a trusted proxy is an IP address, or a network such as 10.0.0.0/8: {error}") from None

    def set_client(self, request: HttpRequest) -> None:
        """Set `request.client` to the client that the trusted proxies name. Without a trusted proxy, do nothing."""
        peer = request.client[0] if request.client is not None else ""
        if not self._trusts(_address_in(peer)):
            return
        lists = (_forwarded(request.headers), _x_forwarded_for(request.headers))
        clients = {self._first_untrusted(entries) for entries in lists if entries is not None}
        if len(clients) != 1:
            return  # the request has none of the headers, or they name different clients
        client = clients.pop()
        if client is not None:
            request.client = (str(client), UNKNOWN_PORT)

    def _first_untrusted(self, entries: Iterator[str]) -> IPv4Address | IPv6Address | None:
        """Return the first address outside of the trusted networks, or None if an entry before it is not an address.

        `entries` begin with the last entry of the header.
        """
        address = None
        for entry in entries:
            address = _address_in(entry)
            if not self._trusts(address):
                break
        return address  # if all are trusted, the last of them: the farthest proxy has sent the request itself

    def _trusts(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _forwarded(headers: Headers) -> Iterator[str] | None:
    """Return the values of `for` in `Forwarded`, the last one first; "" for an element without it."""
    values = headers.get_all("forwarded")
    return reversed(_values_of_for(",".join(values))) if values else None


def _values_of_for(text: str) -> list[str]:
    """Return the value of `for` in each element of a `Forwarded` header, and "" for an element without it.

    A comma ends an element, and a semicolon a pair `name=value` in an element. A malformed end of the text becomes "".
    """
    values = [""]  # the last one is that of the current element
    pair = ""  # the current pair, as far as it is read
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:  # a quotation mark without an end
            return [*values, ""]
        position = token.end()
        is_separator = token[0] in ",;"
        if not is_separator:
            pair += token[0]
        if is_separator or position == len(text):  # the end of a pair
            name, _, value = pair.partition("=")
            if name.strip().lower() == "for":
                values[-1] = value.strip().strip('"')
            pair = ""
        if token[0] == ",":  # the end of an element
            values.append("")
    return values


def _x_forwarded_for(headers: Headers) -> Iterator[str] | None:
    """Return the addresses in `X-Forwarded-For`, the last one first."""
    values = headers.get_all("x-forwarded-for")
    if not values:
        return None
    entries = ",".join(values).split(",")
    return (entry.strip() for entry in reversed(entries))


def _address_in(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in a text, which can also have a port, or None. Return ::ffff:192.0.2.5 as 192.0.2.5."""
    found = _WITH_PORT.fullmatch(text)
    if found is not None:
        text = found[1] or found[2]
    try:
        address = ip_address(text.partition("%")[0])  # without the network interface in `fe80::1%eth0`
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
