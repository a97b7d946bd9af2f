"""Target: the URIs of resources. All spellings of a URI lead to one decision, and no URI reads more than its scopes."""

from __future__ import annotations

import posixpath
import random
import re
from urllib.parse import unquote

from mcp_ref import Server
from mcp_ref.basic.access import Access, AccessRefused, SubscribedResource, Subscriptions
from mcp_ref.features.caching import ResponseCache
from mcp_ref.features.resources import Resources
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.uri import canonical_uri, includes_uri
from tests.fuzz.spellings import other_spelling, random_uri

TEMPLATES = [
    "docs://{a}/{b}", "docs://{+a}", "docs://admin/{b}", "docs://{a}/keys", "docs://{a}{/b*}", "docs://{a}/{b}{?q}",
    "docs://{a}/{b}{#f}", "docs://open/{+b}", "notes://{a}", "notes://{+a}", "notes://{a}&{b}", "docs://r&d/{b}",
    "docs://r%26d/{b}", "docs://{a}/a%2Fb/{b}",
]  # fmt: skip
FRAGMENTS = [
    "%2F", "%5C", "//", "/", "%26", "&", "?", "#", "%3F", "/.", "..", "%2E", "%25", "@", ":", "A", "/x%2F..", "%5B",
    "]",
]  # fmt: skip


class _Caller(Access):
    """A caller that has some scopes."""

    def __init__(self, held: frozenset[str]) -> None:
        self.held = held

    def refusal_for(self, scopes: object) -> AccessRefused | None:
        assert isinstance(scopes, frozenset)
        return None if scopes <= self.held else AccessRefused(403, "")


def _policy(rng: random.Random) -> tuple[Server, dict[str, str]]:
    """Return a server with random resources and templates, and the scope of each protected one."""
    server, protected = Server("s"), dict[str, str]()
    uris = [uri for uri in (random_uri(rng) for _ in range(6)) if uri.startswith(("docs", "notes"))]
    for number, uri in enumerate([*uris, *rng.sample(TEMPLATES, 5)]):
        scopes = {f"s{number}"} if rng.random() < 0.5 else set[str]()
        spelling = uri if "{" in uri else other_spelling(rng, uri)
        try:
            server.resources.add(spelling, _handler, scopes=scopes)
        except ValueError as error:
            assert "already registered" in str(error) or not spelling.isascii(), error
            continue
        if scopes:
            protected[uri] = f"s{number}"
    return server, protected


def _handler(a: str = "", b: str | list[str] = "", q: str = "", f: str = "") -> str:
    """Serve any resource or template."""
    return "text"


def _opened(uri: str) -> str:
    """Return the file that a handler opens for a URI: a second, simpler implementation of decoding."""
    scheme, _, rest = unquote(re.split("[?#]", uri)[0]).partition(":")
    return scheme.lower() + ":" + posixpath.normpath("/" + rest.replace("\\", "/").lstrip("/"))


def check_uris(rng: random.Random) -> None:
    """Check the decisions about spellings of a URI, and about URIs that a handler decodes to a protected file."""
    server, protected = _policy(rng)
    known = [uri for uri in protected if "{" not in uri] or ["docs://admin/keys"]
    for _ in range(20):
        _check_one(rng, server.resources, protected, rng.choice([random_uri(rng), *known, "docs://admin/keys"]))


def _check_one(rng: random.Random, resources: Resources, protected: dict[str, str], uri: str) -> None:
    for _ in range(5):
        _check_no_bypass(resources, protected, _changed(rng, uri))
    spellings = [uri, *(other_spelling(rng, uri) for _ in range(4))]
    canonical = canonical_uri(uri)
    assert canonical is not None
    decisions = [_decision(resources, each) for each in spellings]
    assert decisions == [decisions[0]] * len(spellings), (spellings, decisions)
    needed = resources.access.scopes_of(uri)
    held = frozenset(scope for scope in sorted(needed) if rng.random() < 0.5)
    for sent in spellings:
        assert canonical_uri(sent) == canonical, (sent, canonical)
        for access in (None, _Caller(held)):
            update = resources.update_for(Subscriptions(None, {canonical: SubscribedResource(sent, access)}), canonical)
            expected = access is None or needed <= held
            assert (update is not None) == expected and (update is None or vars(update)["uri"] == sent), (sent, access)
        cache = ResponseCache()
        params: Object = {"uri": sent}
        cache.put("server", None, "resources/read", params, {"contents": [], "ttlMs": 1000, "cacheScope": "public"})
        cache.invalidate("server", "notifications/resources/updated", rng.choice(spellings))
        assert cache.get("server", None, "resources/read", params) is None
    above = canonical.rpartition("/")[0]
    if includes_uri(above, canonical):
        child = resources.update_for(Subscriptions(None, {above: SubscribedResource(above, _Caller(held))}), canonical)
        assert (child is not None) == (needed <= held)


def _changed(rng: random.Random, uri: str) -> str:
    """Return a URI of which some characters are replaced by fragments, or escaped."""
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(uri))
        inserted = rng.choice([*FRAGMENTS, *[f"%{ord(uri[at]) % 128:02x}"] * 9])
        uri = uri[:at] + inserted + uri[at + rng.randrange(2) :]
    return uri


def _decision(resources: Resources, uri: str) -> object:
    """Return all that a server decides about a URI."""
    found = resources._find(uri)
    about = None if found is None else (found[0].description, found[1])
    return about, resources.access.scopes_of(uri), resources.accepts_subscription(uri), resources.variables_of(uri)


def _check_no_bypass(resources: Resources, protected: dict[str, str], uri: str) -> None:
    """Check that a URI that is served needs the scope of each protected resource whose file its handler opens."""
    if resources._find(uri) is None:
        return
    canonical = canonical_uri(uri)
    assert canonical is not None
    for guarded, scope in protected.items():
        if "{" not in guarded and _opened(canonical) == _opened(canonical_uri(guarded) or ""):
            no_query = "?" not in guarded and "#" not in guarded
            assert not no_query or scope in resources.access.scopes_of(uri), (uri, guarded, scope)
        if guarded == "docs://admin/{b}" and re.fullmatch("docs:/admin/[^/]+", _opened(canonical)):
            assert scope in resources.access.scopes_of(uri), (uri, guarded)
