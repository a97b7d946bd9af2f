"""browser.py PASSWORD URL: the browser of a user who signs in at the authorization server of the examples, and agrees.

It goes where the authorization server redirects it, which is the program that opened the URL.
"""

import re
import sys
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, build_opener, urlopen


class NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        """Follow no redirect: the opener then raises HTTPError."""


def consent(url: str, password: str) -> str:
    """Sign in. Return the URL to which the authorization server redirects the browser."""
    with urlopen(url, timeout=10) as page:
        [ticket] = re.findall('name=ticket value="([^"]+)"', page.read().decode())
    form = urlencode({"ticket": ticket, "password": password, "answer": "allow"}).encode()
    try:
        build_opener(NoRedirect).open(url.partition("?")[0], form, timeout=10)
    except HTTPError as redirect:
        return str(redirect.headers["Location"])
    raise AssertionError("no redirect to the client")


if __name__ == "__main__":
    with urlopen(consent(sys.argv[2], sys.argv[1]), timeout=10) as last_page:
        last_page.read()
