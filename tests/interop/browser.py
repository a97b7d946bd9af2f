"""The browser of a user who signs in and agrees on every page with a form. The tests give it to our client."""

import asyncio
import re
from html import unescape
from http.cookiejar import CookieJar
from typing import Final
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

from tests.interop.protected_notes import PASSWORD

TYPED: Final = {"login": "alice", "password": PASSWORD, "answer": "allow"}
MAX_PAGES = 5
"""Maximum number of pages of one sign-in."""


class Browser:
    """A browser with cookies."""

    def __init__(self) -> None:
        self.opened: list[dict[str, str]] = []
        """The parameters of the authorization requests."""
        self.last_page = ""
        self._open = build_opener(HTTPCookieProcessor(CookieJar())).open

    async def open(self, url: str) -> None:
        """Open a URL, and submit the forms of the pages until one has none: that of our client."""
        self.opened.append({name: value for name, [value] in parse_qs(urlsplit(url).query).items()})
        await asyncio.to_thread(self._visit, url)

    def _visit(self, url: str) -> None:
        body = None
        for _ in range(MAX_PAGES):
            with self._open(url, body, timeout=10) as page:
                self.last_page, url = page.read().decode(), page.url
            if (form := re.search(r"<form\b[^>]*", self.last_page)) is None:
                return
            fields = dict(re.findall(r'<input type="?hidden"? name="?(\w+)"? value="([^"]*)"', self.last_page))
            body = urlencode(TYPED | {name: unescape(value) for name, value in fields.items()}).encode()
            [action] = re.findall(r'action="?([^" >]+)', form[0])
            url = urljoin(url, unescape(action))
        raise AssertionError(f"more than {MAX_PAGES} pages: {url}")
