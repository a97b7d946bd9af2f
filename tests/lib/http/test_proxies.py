"""`TrustedProxies`: the address of a client behind proxies, and clients that forge it."""

from __future__ import annotations

import pytest

from mcp_ref.lib.http.message import Headers, HttpRequest
from mcp_ref.lib.http.proxies import TrustedProxies

PROXY, CLIENT, FORGED = "10.0.0.5", "203.0.113.7", "198.51.100.1"
XFF, FORWARDED = "X-Forwarded-For", "Forwarded"
TRUSTED = ["10.0.0.0/8", "2001:db8:1::/48", "::1"]


def client_of(peer: str | None, *headers: tuple[str, str]) -> str | None:
    """Return the client's address in a request that the trusted proxies have passed on."""
    request = HttpRequest("POST", "/mcp", "", Headers(headers), b"", None if peer is None else (peer, 4711))
    TrustedProxies(TRUSTED).set_client(request)
    return request.client[0] if request.client is not None else None


@pytest.mark.parametrize(
    ("name", "value", "client"),
    [
        (XFF, CLIENT, CLIENT),
        (XFF, f"{FORGED}, {CLIENT}", CLIENT),
        (XFF, f"{FORGED}, {CLIENT}, 10.9.9.9,10.0.0.6", CLIENT),
        (XFF, f"{CLIENT}:4711", CLIENT),
        (XFF, "2001:db8::7", "2001:db8::7"),
        (XFF, "[2001:db8::7]:4711", "2001:db8::7"),
        (XFF, f"::ffff:{CLIENT}", CLIENT),
        (XFF, "10.0.0.8, 10.0.0.6", "10.0.0.8"),
        (FORWARDED, f"for={CLIENT};proto=https;by=10.0.0.5", CLIENT),
        (FORWARDED, f'For="{CLIENT}:80" , for = "[2001:db8:1::2]"', CLIENT),
        (FORWARDED, f'for={FORGED}, host="a;for={FORGED};b";for={CLIENT}', CLIENT),
        (FORWARDED, f'for={CLIENT};host="a, for={FORGED}, b"', CLIENT),
    ],
)
def test_set_client_reads_the_last_untrusted_address(name: str, value: str, client: str) -> None:
    for peer in (PROXY, f"::ffff:{PROXY}", "2001:db8:1::9"):
        assert client_of(peer, (name, value)) == client
    first, comma, last = value.rpartition(",")
    if comma and '"' not in value:
        assert client_of(PROXY, (name, first), (name, last)) == client


@pytest.mark.attack("forged-address")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(XFF, "unknown")],
        [(XFF, f"{FORGED}, unknown, 10.0.0.6")],
        [(XFF, "")],
        [(XFF, f"{FORGED},")],
        [(XFF, "1.2.3"), (FORWARDED, "for=1.2.3")],
        [(FORWARDED, "proto=https")],
        [(FORWARDED, f"for={FORGED}, for=_hidden")],
        [(FORWARDED, f'for={FORGED}, for="')],
        [(FORWARDED, f"for={FORGED}, by=10.0.0.1")],
        [(XFF, CLIENT), (FORWARDED, f"for={FORGED}")],
        [(XFF, FORGED), (FORWARDED, f"for={CLIENT}")],
        [(XFF, CLIENT), (FORWARDED, "")],
    ],
)
def test_set_client_keeps_the_proxy_if_the_headers_name_no_certain_client(headers: list[tuple[str, str]]) -> None:
    assert client_of(PROXY, *headers) == PROXY


@pytest.mark.attack("forged-address")
def test_set_client_believes_nobody_but_trusted_proxies() -> None:
    for peer in (CLIENT, "11.0.0.1", "2001:db8:2::1", None):
        assert client_of(peer, (XFF, FORGED)) == peer
        assert client_of(peer, (FORWARDED, f"for={FORGED}")) == peer


def test_set_client_uses_two_headers_that_agree() -> None:
    assert client_of(PROXY, (XFF, f"{FORGED}, {CLIENT}"), (FORWARDED, f"for={CLIENT}")) == CLIENT


def test_trusted_proxies_refuses_a_text_that_is_not_a_network() -> None:
    with pytest.raises(ValueError, match=r"proxy\.example"):
        TrustedProxies(["proxy.example"])
    with pytest.raises(ValueError, match="host bits"):
        TrustedProxies(["10.0.0.5/8"])
    with pytest.raises(TypeError, match=r"list of addresses, such as \['10.0.0.5'\]"):
        TrustedProxies("10.0.0.5")
