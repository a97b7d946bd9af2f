r"""The host that a web browser opens for a URL, and the reasons why a person could mistake it for another host.

Browsers repair URLs, each in its own way: `https://evil.example\@bank.example/` and `https:evil.example` open
evil.example, tabs and line breaks disappear, and `0x7f.1` is 127.0.0.1. A program that reads such a URL by the rules of
RFC 3986 shows a person another host than the browser opens. So this module accepts only URLs that all programs read in
the same way, and refuses the rest.

Spec:  RFC 3986, section 3.2; WHATWG URL Standard, section 4.4; RFC 3492 (Punycode); Unicode Technical Report 36
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Final

_URL: Final = re.compile(r"(https?)://([^/?#]*)(?:[/?#].*)?", re.IGNORECASE)
_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\]")
_PORT: Final = re.compile(r":([0-9]{1,5})\Z")


def browser_host(url: str) -> str:
    """Return the host of an http or https URL, in lower case. An IPv6 address loses its brackets.

    Raise ValueError if the URL is not http or https, or if programs could disagree about its host.
    """
    if "\\" in url or not url.isprintable() or " " in url:
        raise ValueError("a URL must have no backslash, space or hidden character, because browsers change them")
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("the URL must begin with https:// or http://, and have a host")
    authority = found[2]
    if "@" in authority:
        raise ValueError("the URL must have no user name before its host, because the name could look like the host")
    if not authority.isascii():
        raise ValueError("the host of the URL must be ASCII; write other letters in Punycode (xn--...)")
    host, port = _PORT.sub("", authority).lower(), _PORT.search(authority)
    if port is not None and int(port[1]) > 65535:
        raise ValueError("the URL must have a port of at most 65535")
    if not _HOST.fullmatch(host):
        raise ValueError("the URL must have a valid host, such as example.com")
    name = host.strip("[]")
    try:
        # browsers read a host that ends in a number, such as `0x7f.1`, as an IPv4 address
        if host.startswith("[") or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", name.rstrip(".").rpartition(".")[2]):
            ipaddress.ip_address(name)
    except ValueError:
        raise ValueError("the host of the URL must be a name or a complete IP address, such as 192.0.2.1") from None
    return name


def look_alike_warnings(host: str) -> tuple[str, ...]:
    """Return the reasons why a person could mistake a host, as `browser_host` returns it, for another host."""
    labels = [_decoded(label) for label in host.split(".")]
    shown = ".".join(labels)
    warnings = list[str]()
    if shown != host:
        warnings.append(
            f"the host has letters that can look like other letters (Punycode): browsers can show {shown!a}"
        )
    if any(len(_alphabets(label)) > 1 for label in labels):
        alphabets = sorted(_alphabets("".join(labels)))
        warnings.append(f"the host mixes letters of several alphabets: {', '.join(alphabets)}")
    return tuple(warnings)


def _decoded(label: str) -> str:
    """Return a part of a host between its dots, decoded from Punycode. Invalid Punycode stays as it is."""
    if not label.startswith("xn--"):
        return label
    try:
        return label.removeprefix("xn--").encode().decode("punycode")
    except UnicodeError:
        return label


def _alphabets(text: str) -> set[str]:
    """Return the alphabets of the letters, by the first words of their Unicode names, such as CYRILLIC."""
    return {unicodedata.name(letter, "UNKNOWN").split()[0] for letter in text if letter.isalpha()}
