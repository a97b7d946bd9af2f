"""The host of a URL: programs that repair URLs agree with `browser_host`, or it refuses the URL."""

from __future__ import annotations

import itertools
import random
from urllib.parse import urlsplit

import pytest

from mcp_ref.lib.web_url import browser_host, look_alike_warnings


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.COM/a?b#c", "example.com"),
        ("http://localhost:8000/mcp", "localhost"),
        ("https://a_b-c.example.", "a_b-c.example."),
        ("https://192.0.2.1:443", "192.0.2.1"),
        ("https://[2001:DB8::1]:8443/x", "2001:db8::1"),
        ("https://example.com/\u0430/@evil.example", "example.com"),
        ("https://example.com?@evil.example", "example.com"),
    ],
)
def test_browser_host_returns_the_host_in_lower_case(url: str, host: str) -> None:
    assert browser_host(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "", "https:", "https:a.example", "https:/a.example", "https:///a", "//a.example", "ftp://a",
        "javascript:alert(1)",
        "https://evil.example\\@bank.example/", "https://bank.example\\.evil.example/", "https://a.example/\\b",
        "https://user@a.example", "https://user:pass@a.example", "https://@a.example", "https://a.example:port/",
        "https://a.example:123456", "https://a.example:65536", "https://\u0430pple.com", "https://a\u3002example",
        "https://a\u00adb.example",
        "https://a\tb.example", "https://a.example/\n", "https://a.example/\x7f", "https://a b.example", "https://a%2eb",
        "https://2130706433/", "https://0x7f.1/", "https://127.1", "https://127.0.0.256", "https://0177.0.0.1",
        "https://1.2.3.4.", "https://[::1", "https://[1]", "https://[::1]x", "https://-a.example", "https://a..b",
    ],
)  # fmt: skip
def test_browser_host_refuses_a_url_that_programs_read_differently(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(a|the) (URL|host of the URL) must"):
        browser_host(url)


def test_browser_host_agrees_with_urlsplit_on_every_url_that_it_accepts() -> None:
    pieces = [
        *("https", "http", ":", "/", "//", "\\", "@", "a.example", "evil", ".", "[::1]", ":80", "?", "#"),
        *("%40", "1", "0x1"),
    ]
    rng, accepted = random.Random(7), 0
    for _ in range(20_000):
        url = "https://" * rng.randint(0, 1) + "".join(rng.choices(pieces, k=rng.randint(1, 6)))
        try:
            host = browser_host(url)
        except ValueError:
            continue
        accepted += 1
        assert urlsplit(url).hostname == host and "@" not in urlsplit(url).netloc
    assert accepted > 1000


def test_look_alike_warnings_show_punycode_and_mixed_alphabets() -> None:
    assert look_alike_warnings("example.com") == () == look_alike_warnings("2001:db8::1")
    [cyrillic] = look_alike_warnings("xn--80ak6aa92e.com")
    assert "Punycode" in cyrillic and r"\u0430" in cyrillic
    mixed = look_alike_warnings("xn--pple-43d.com")
    assert "CYRILLIC, LATIN" in mixed[1]
    assert all(look_alike_warnings("xn--" + "".join(bad)) is not None for bad in itertools.product("a-\xe9", repeat=3))
