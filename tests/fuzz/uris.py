"""Target: the URIs of resources. All spellings of a URI lead to one decision, and no URI reads more than its scopes."""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote
from uuid import UUID

from mcp_ref import Server
from mcp_ref.basic.access import Access, AccessRefused, SubscribedResource, Subscriptions
from mcp_ref.features.caching import ResponseCache
from mcp_ref.features.resources import RegisteredTemplate, Resources
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.uri import canonical_uri, includes_uri
from tests.fuzz.spellings import other_spelling, random_uri


class _Level(IntEnum):
    ONE = 1


def _text(a: str = "", b: str | list[str] = "", q: str = "", f: str = "") -> str:
    return "text"


def _report(a: str = "report", v: str = "1", w: str = "", f: str = "") -> str:
    return "text"


def _integer(n: int, a: str = "db", v: int = 1) -> str:
    return "text"


def _float(n: float, a: str = "db", v: float = 2.5) -> str:
    return "text"


def _taking(kind: object) -> Callable[..., str]:
    """Return a function whose parameter `n` has a type."""

    def read(n: object, a: str = "db") -> str:
        return "text"

    read.__annotations__["n"] = kind
    return read


def _numbers(n: list[str], m: int = 1) -> str:
    return "text"


TEMPLATES: list[tuple[str, Callable[..., str]]] = [
    *((uri, _text) for uri in (
        "docs://{a}/{b}", "docs://{+a}", "docs://admin/{b}", "docs://{a}/keys", "docs://{a}{/b*}", "docs://{a}/{b}{?q}",
        "docs://{a}/{b}{#f}", "docs://open/{+b}", "notes://{a}", "notes://{+a}", "notes://{a}&{b}", "docs://r&d/{b}",
        "docs://r%26d/{b}", "docs://{a}/a%2Fb/{b}",
    )),
    *((uri, _report) for uri in (
        "docs://{+a}{?v,w}{#f}", "docs://report{?v}", "docs://report{?v,w}", "docs://{a}{?w,v}", "docs://report{#f}",
        "docs://{a}{;v,w}", "docs://report?v=1{&w}", "docs://report{/v}",
    )),
    ("item://db/{n}", _integer), ("item://{a}/{n}", _integer), ("item://{a}/{n}{?v}", _integer),
    ("item://{+a}/{n}{?v}", _float), ("item://{a}{/n}", _float), ("item://{a}/{n}", _taking(Decimal)),
    ("item://db/{n}", _taking(Decimal)), ("item://{a}{?n}", _taking(datetime)), ("item://db/{n}", _taking(UUID)),
    ("item://{a}/{n}", _taking(bool)), ("item://{a}/{n}", _taking(Literal[1, 2])), ("item://{a}/{n}", _taking(_Level)),
    ("item://{a}{?n}", _taking(bytes)), ("item://{a}/{+n}", _taking(PurePosixPath)),
    ("item://{a}{/n*}", _taking(set[str])), ("item://db{/n*}{?m}", _numbers),
]  # fmt: skip
MOMENT, ID = "2026-01-01T00:00:00Z", "123e4567-e89b-12d3-a456-42661417400a"
WITH_VALUES = [
    "docs://report", "docs://report?v=1", "docs://report?v=1&w=2", "docs://report#f", "docs://report?v=1#f",
    "docs://report;v=1;w=2", "docs://report/1", "docs://report?v=a%3Fb", "docs://report%3Fv=1", "item://db", "item://db/1",
    "item://db/2.5", "item://db/2.50", "item://db/0", "item://db/true", "item://db/1?v=1", "item://db/a/b",
    "item://db/100000000000000000000000", f"item://db?n={MOMENT}", f"item://db/{ID}", "item://db?n=YWI=",
]  # fmt: skip
OTHER_SPELLINGS = {
    "1": ["1.0", "01", "+1", "1e0", "10e-1", "%201", "1.", "-1", "true", "0.1e1"],
    "0": ["-0", "0.0", "-0.0", "0e9", "00"],
    "2.5": ["2.50", "25e-1", "02.5", "2.5e0"],
    "2.50": ["2.5", "25E-1"],
    "100000000000000000000000": ["1e23", "1E+23", "100000000000000000000000.0", "99999999999999991611392"],
    MOMENT: ["2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000Z"],
    ID: [ID.upper(), ID.replace("-", ""), f"{{{ID}}}"],
    "YWI=": ["YWJ=", "YWI", "YWI%3D"],
    "a/b": ["b/a", "a/b/a", "a//b", "a%2F.%2Fb"],
}
"""A value in a URI -> texts that some reader could take for the same value."""
ADDITIONS = [
    *("#", "#f", "#g", "?", "?w=2", "&w=2", "&", "&v=1", "?v=1", "#?v=1", "?w=2&v=1", "?x=1", "?m=1", "?v=1.0"),
    "/1",
]
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
    scheme = rng.choice(["", "docs", "item"])  # of all entries, or of none
    uris += rng.sample([uri for uri in WITH_VALUES if uri.startswith(scheme)], 3)
    functions = dict(rng.sample([each for each in TEMPLATES if each[0].startswith(scheme)], 7))
    for number, uri in enumerate([*uris, *functions]):
        scopes = {f"s{number}"} if rng.random() < 0.5 else set[str]()
        spelling = uri if "{" in uri else other_spelling(rng, uri)
        try:
            server.resources.add(spelling, functions.get(uri, lambda: "text"), scopes=scopes)
        except ValueError as error:
            assert "already registered" in str(error) or not spelling.isascii(), error
            continue
        if scopes:
            protected[uri] = f"s{number}"
    return server, protected


def _opened(uri: str) -> str:
    """Return the file that a handler opens for a URI: a second, simpler implementation of decoding."""
    scheme, _, rest = unquote(re.split("[?#]", uri)[0]).partition(":")
    return scheme.lower() + ":" + posixpath.normpath("/" + rest.replace("\\", "/").lstrip("/"))


def _opened_on_windows(uri: str) -> str:
    """Return the file that a handler opens that ignores the user, and dots and spaces at the end of a segment."""
    first, *segments = _opened(uri).split("/")
    segments = [segment.rstrip(". ") for segment in segments]
    if segments:
        segments[0] = segments[0].rpartition("@")[2]
    return "/".join([first, *filter(None, segments)])


def check_uris(rng: random.Random) -> None:
    """Check the decisions about spellings of a URI, and about URIs that a handler decodes to a protected file."""
    server, protected = _policy(rng)
    known = [uri for uri in protected if "{" not in uri] or ["docs://admin/keys"]
    for _ in range(20):
        a_known = rng.choice(known)
        without_query = re.split("[?#]", a_known)[0]
        uri = rng.choice([random_uri(rng), a_known, without_query, "docs://admin/keys", rng.choice(WITH_VALUES)])
        _check_one(rng, server.resources, protected, uri)


def _subscribed(canonical: str, sent: str, access: Access | None) -> Subscriptions:
    subscriptions = Subscriptions(None)
    subscriptions.add(canonical, SubscribedResource(sent, access))
    return subscriptions


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
            update = resources.update_for(_subscribed(canonical, sent, access), canonical)
            expected = access is None or needed <= held
            assert (update is not None) == expected and (update is None or vars(update)["uri"] == sent), (sent, access)
        cache = ResponseCache()
        params: Object = {"uri": sent}
        cache.put("server", None, "resources/read", params, {"contents": [], "ttlMs": 1000, "cacheScope": "public"})
        cache.invalidate("server", "notifications/resources/updated", rng.choice(spellings))
        assert cache.get("server", None, "resources/read", params) is None
    above = canonical.rpartition("/")[0]
    if includes_uri(above, canonical):
        child = resources.update_for(_subscribed(above, above, _Caller(held)), canonical)
        assert (child is not None) == (needed <= held)


def _changed(rng: random.Random, uri: str) -> str:
    """Return a URI with another spelling of its values, more parts, and some characters escaped or replaced."""
    for value, others in OTHER_SPELLINGS.items():
        if rng.random() < 0.5 and re.search(f"[/=]{re.escape(value)}(?![0-9.])", uri):
            uri = uri.replace(value, rng.choice(others))
    if rng.random() < 0.5:
        uri += rng.choice(ADDITIONS)
    if rng.random() < 0.1:
        uri = uri.replace("?", rng.choice(["%3F", "%3f", "%23"]), 1)
    if rng.random() < 0.1:
        uri = uri.replace("://", rng.choice(["://x@", "://x%40", "://%20/", "://./"]), 1)
    if rng.random() < 0.5:
        return uri
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
    """Check that a served URI needs the scope of all that is protected and that its handler can take it for."""
    if (found := resources._find(uri)) is None:
        return
    canonical = canonical_uri(uri)
    assert canonical is not None
    needed = resources.access.scopes_of(uri)
    for guarded, scope in protected.items():
        if "{" in guarded:
            literal = re.search(r"\?v=1", guarded) is None or {"v=1"} <= set(re.split("[?&#]", canonical)[1:])
            is_guarded = (
                literal and re.fullmatch(_paths_of(guarded.replace("?v=1", "")), _opened(canonical)) is not None
            )
        else:
            spellings = canonical, canonical.replace("%3F", "?", 1).replace("%23", "#", 1)
            is_guarded = any(_opens_same(each, canonical_uri(guarded) or "") for each in spellings)
            is_guarded = is_guarded or _is_same_call(*found, guarded)
        assert not is_guarded or scope in needed, (uri, guarded, scope)


def _opens_same(uri: str, guarded: str) -> bool:
    """Return True if both URIs have the same file, and the first has all parts of the other's query and fragment."""
    parts, guarded_parts = _parts(uri), _parts(guarded)
    return _opened(guarded) in (_opened(uri), _opened_on_windows(uri)) and guarded_parts <= parts


def _parts(uri: str) -> set[str]:
    rest = re.split("[?#]", uri + "?", maxsplit=1)[1]
    return set(re.split("[?&#;]", rest)) - {""}


def _is_same_call(served: object, arguments: dict[str, object], guarded: str) -> bool:
    """Return True if the function that serves a URI gets equal arguments for a guarded one with fewer parts."""
    if not isinstance(served, RegisteredTemplate):
        return False
    guarded_arguments = served.arguments(canonical_uri(guarded) or "")
    if guarded_arguments is None:
        return False
    defaults = {each.name: each.default for each in served.signature.parameters if not each.required}
    optional = {name for names in re.findall("{[?&#]([^}]*)}", served.matcher.template) for name in names.split(",")}
    compared = {name for name in {**defaults, **arguments} if name not in optional or name in guarded_arguments}
    one, other = {**defaults, **arguments}, {**defaults, **guarded_arguments}
    return all(name in one and one[name] == other.get(name) for name in compared)


def _paths_of(template: str) -> str:
    """Return the regular expression of the files that belong to a template: a simpler implementation of matching.

    A variable ends at the next slash, unless it is the last part. The path alone decides: a query can be incomplete.
    """
    path = re.split(r"\{[?#&]", template)[0].replace("://", ":/", 1)
    pattern, one_segment = "", "[^/;]+" if "{;" in path else "[^/]+"
    for piece in re.split(r"(\{[^}]*\})", path):
        if piece[:1] != "{":
            pattern += re.escape(unquote(piece))
        elif piece == "{;v,w}":
            pattern += "(;v=[^/;]*)?(;w=[^/;]*)?"
        elif piece[1] == "/":
            pattern += "(/.+)?" if "*" in piece else "(/[^/]+)?"
        else:
            pattern += ".+" if piece[1] == "+" and path.endswith(piece) else one_segment
    return pattern
