"""The rules for URLs, redirects and proxies. tests/lib/http/test_client.py tests them on the wire."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from mcp_ref.lib.http.origin import find_proxy, origin_of, proxy_credentials, public_url, redirect_target

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "origin", "host_header"),
    [
        ("http://A.example", ("http", "a.example", 80), "a.example"),
        ("http://a.example:443/b?c", ("http", "a.example", 443), "a.example:443"),
        ("https://a.example:443/!~", ("https", "a.example", 443), "a.example"),
        ("https://[::1]:80/", ("https", "::1", 80), "[::1]:80"),
        ("http://b\xfccher.example", ("http", "xn--bcher-kva.example", 80), "xn--bcher-kva.example"),
    ],
)
def test_origin_has_the_port_of_its_scheme_and_the_ascii_name(
    url: str, origin: tuple[str, str, int], host_header: str
) -> None:
    assert origin_of(url) == origin
    assert str(origin_of(url)) == host_header


@pytest.mark.parametrize(
    ("url", "error"),
    [
        (f"http://{SECRET}:{SECRET}@a.example/", "the URL contains credentials, which logs would show: send them in a"),
        (f"http://{SECRET}@a.example/", "the URL contains credentials"),
        (f"http://:{SECRET}@a.example/", "the URL contains credentials"),
        ("http://a.example:x/", "invalid URL: the host or port cannot be parsed"),
        ("http://[::1/", "invalid URL: the host or port cannot be parsed"),
        ("file:///etc/passwd", "the URL must begin with http:// or https:// and a host: 'file:///etc/passwd'"),
        ("ftp://a.example/", "the URL must begin with http:// or https:// and a host: 'ftp://a.example/'"),
        ("https:///b", "the URL must begin with http:// or https:// and a host: 'https:///b'"),
        ("http://a.example/a b", "the URL contains characters that must be percent-encoded: 'http://a.example/a b'"),
        ("http://a.example/\xe9", "the URL contains characters that must be percent-encoded"),
        ("http://a.example/?\x7f", "the URL contains characters that must be percent-encoded"),
    ],
)
def test_unusable_url_is_an_error_also_as_the_target_of_a_redirect(url: str, error: str) -> None:
    with pytest.raises(ValueError) as caught:
        origin_of(url)
    assert str(caught.value).startswith(error) and SECRET not in repr(caught.value)
    with pytest.raises(ValueError) as caught:
        redirect_target("http://a.example/", url)
    assert str(caught.value).startswith("the server redirects to an unusable URL: ")


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("http://a.example/x/a", "../b?c", "http://a.example/b?c"),
        ("http://a.example/", "http://a.example:80/b", "http://a.example:80/b"),
        ("http://a.example/", "https://a.example/", "https://a.example/"),
        ("http://a.example/", "https://a.example:444/", None),
        ("http://a.example:81/", "https://a.example/", None),
        ("https://a.example/", "http://a.example/", None),
        ("http://a.example/", "https://b.example/", None),
        ("http://a.example/", "//a.example:81/", None),
        ("http://127.0.0.1/", "http://localhost/", None),
    ],
)
def test_redirect_must_stay_within_its_origin_except_to_https(url: str, location: str, target: str | None) -> None:
    if target is not None:
        assert redirect_target(url, location) == target
        return
    with pytest.raises(
        ValueError, match=r"^the server redirects to another origin; if you trust that URL, use it: 'http"
    ):
        redirect_target(url, location)


@pytest.mark.parametrize(
    ("url", "exceptions", "is_direct"),
    [
        ("http://mcp.example.test", "", False),
        ("https://mcp.example.test", "", True),  # only http has a proxy
        ("http://mcp.example.test", "*", True),
        ("http://mcp.example.test", "mcp.example.test", True),
        ("http://mcp.EXAMPLE.test", "MCP.Example.test", True),
        ("http://mcp.example.test", "example.test", True),
        ("http://mcp.example.test", ".example.test", True),
        ("http://mcp.example.test", "*.example.test", True),
        ("http://mcp.example.test", "ample.test", False),
        ("http://mcp.example.test", "x.example.test", False),
        ("http://mcp.example.test", "other.test, mcp.example.test", True),
        ("http://mcp.example.test", "other.test mcp.example.test", True),
        ("http://mcp.example.test", "example.test:80", True),
        ("http://mcp.example.test", "example.test:81", False),
        ("http://mcp.example.test", "example.test:81,example.test", True),
        ("http://mcp.example.test", ",,", False),
        ("http://[2001:db8::1]", "2001:db8::1", True),
        ("http://127.0.0.1", "", True),
        ("http://127.0.0.2", "", False),
        ("http://localhost", "", True),
        ("http://LOCALHOST", "", True),
        ("http://[::1]", "", True),
    ],
)
def test_proxy_is_not_used_for_loopback_and_the_hosts_of_no_proxy(url: str, exceptions: str, is_direct: bool) -> None:
    proxy = find_proxy(origin_of(url), {"http": "http://proxy.test", "no": exceptions})
    assert proxy == (None if is_direct else urlsplit("http://proxy.test"))


@pytest.mark.parametrize(
    ("url", "port", "credentials"),
    [
        ("proxy.test:1", 1, []),
        ("http://proxy.test", None, []),
        ("http://us%65r:p%40ss-word@proxy.test:3128", 3128, ["Proxy-Authorization: Basic dXNlcjpwQHNzLXdvcmQ="]),
        ("user@proxy.test", None, ["Proxy-Authorization: Basic dXNlcjo="]),
    ],
)
def test_proxy_url_may_omit_its_scheme_and_have_credentials(url: str, port: int | None, credentials: list[str]) -> None:
    proxy = find_proxy(origin_of("http://a.example"), {"http": url})
    assert proxy is not None and (proxy.hostname, proxy.port) == ("proxy.test", port)
    assert proxy_credentials(proxy) == credentials


@pytest.mark.parametrize(
    "url",
    ["socks5://user:s3cret@127.0.0.1:1080", "https://user:s3cret@127.0.0.1:3128", "http://user:s3cret#x@127.0.0.1:1",
     "http://user:s3cret@127.0.0.1:s3cret", "http://[user:s3cret", "http://user:s3cret@", "127.0.0.1:0"],
)  # fmt: skip
def test_proxy_url_that_is_unusable_is_an_error_without_the_password(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        find_proxy(origin_of("http://a.example"), {"http": url})
    assert str(caught.value) == "the URL of the proxy for http must have the form http://host:port"
    assert SECRET not in repr(caught.value.__cause__)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@a.example:1/b?c=d", "https://a.example:1/b"),
        ("http://[::1/b", "http://[::1/b"),
        ("http://[u@::1/b", "the server's URL"),
        ("http://[::1/b?c=d", "the server's URL"),
        ("http://[::1/\x1b", "the server's URL"),
    ],
)
def test_public_url_has_no_credentials_and_query_even_if_it_is_invalid(url: str, shown: str) -> None:
    assert public_url(url) == shown
