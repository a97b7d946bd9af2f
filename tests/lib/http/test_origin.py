"""URLs in errors and logs. tests/lib/http/test_client.py has the tests of origins and proxies."""

from __future__ import annotations

import pytest

from mcp_ref.lib.http.origin import public_url


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
