"""The URLs of authorization: the well-known ones, and those that a client refuses to trust, fetch or open."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from mcp_ref.basic.authorization.addresses import (
    MAX_OPENED_URL,
    MAX_URL,
    Reach,
    accepts_resource,
    authorization_base_url,
    browser_url,
    canonical_resource,
    check_fetchable,
    issuer_metadata_urls,
    may_connect,
    reach_of,
    resource_metadata_urls,
)

URL = "https://mcp.example/notes"
WELL_KNOWN = "https://mcp.example/.well-known/oauth-protected-resource"


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#resource-parameter-implementation-4",
    "2026-07-28/basic/authorization/index#canonical-server-uri-1,2,3",
    "2025-06-18..2025-11-25/basic/authorization#resource-parameter-implementation-4",
    "2025-06-18..2025-11-25/basic/authorization#canonical-server-uri-1,2,3",
)
@pytest.mark.parametrize(
    ("url", "resource"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("HTTPS://MCP.Example.COM/Mcp", "https://mcp.example.com/Mcp"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("https://mcp.example.com:443/", "https://mcp.example.com"),
        ("https://mcp.example.com:8443/server/mcp/", "https://mcp.example.com:8443/server/mcp/"),
        ("https://mcp.example.com/mcp?key=secret#x", "https://mcp.example.com/mcp"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
        ("https://b\xfccher.example/mcp", "https://xn--bcher-kva.example/mcp"),
    ],
)
def test_canonical_resource_is_lower_case_without_fragment_query_or_needless_slash(url: str, resource: str) -> None:
    assert canonical_resource(url) == resource


def test_errors_about_urls_of_a_peer_quote_no_query_and_no_credentials() -> None:
    for url in ("ftp://auth.example/?secret", "https://u:secret@auth.example/", "http://auth.example/?secret#secret"):
        for check in (browser_url, issuer_metadata_urls, lambda url: check_fetchable(url, URL)):
            with pytest.raises(ValueError) as caught:
                check(url)
            assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["mcp.example.com", "ftp://mcp.example.com", "https://u:p@mcp.example.com", "https://"])
def test_canonical_resource_of_another_url_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        canonical_resource(url)


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements-3",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-3",
)
def test_resource_metadata_urls_are_path_inserted_then_root() -> None:
    base = "https://example.com/.well-known/oauth-protected-resource"
    assert resource_metadata_urls("https://example.com/public/mcp") == (f"{base}/public/mcp", base)
    assert resource_metadata_urls("https://example.com/public/mcp/?a=b#c") == (f"{base}/public/mcp", base)
    assert resource_metadata_urls("https://example.com") == resource_metadata_urls("https://example.com/") == (base,)


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery-1,2,3",
    "2025-11-25/basic/authorization#authorization-server-metadata-discovery-1,2,3",
)
def test_issuer_metadata_urls_are_in_the_fixed_order() -> None:
    base = "https://auth.example.com"
    inserted = (
        f"{base}/.well-known/oauth-authorization-server/tenant1",
        f"{base}/.well-known/openid-configuration/tenant1",
        f"{base}/tenant1/.well-known/openid-configuration",
    )
    assert issuer_metadata_urls(f"{base}/tenant1") == issuer_metadata_urls(f"{base}/tenant1/") == inserted
    root = (f"{base}/.well-known/oauth-authorization-server", f"{base}/.well-known/openid-configuration")
    assert issuer_metadata_urls(base) == issuer_metadata_urls(f"{base}/") == root


@pytest.mark.parametrize(
    "issuer",
    [
        "https://a.example?x=y", "https://a.example#", "https://a.example/\nb", "javascript:alert(1)",
        "auth.example", "https://u@a.example", "https://a.example/" + "x" * MAX_URL, "https://$(id)/",
        "https://a.example\\@b.example",
    ],
)  # fmt: skip
def test_issuer_metadata_urls_of_an_invalid_issuer_is_an_error(issuer: str) -> None:
    with pytest.raises(ValueError) as caught:
        issuer_metadata_urls(issuer)
    assert len(str(caught.value)) < 500


@pytest.mark.spec("2025-03-26/basic/authorization#authorization-base-url-1,2")
def test_authorization_base_url_is_the_url_without_its_path() -> None:
    base = authorization_base_url("https://api.example.com/v1/mcp")
    assert base == "https://api.example.com"
    assert issuer_metadata_urls(base)[0] == "https://api.example.com/.well-known/oauth-authorization-server"


OWN_RESOURCES = [
    "https://mcp.example/team/notes", "https://mcp.example/team/notes/", "HTTPS://MCP.EXAMPLE:443/team/notes",
]  # fmt: skip
ANCESTORS = [
    "https://mcp.example/team", "https://mcp.example/team/", "https://mcp.example/", "https://mcp.example",
]  # fmt: skip
FOREIGN_RESOURCES = [
    "https://mcp.example/team/notes2", "https://mcp.example/team/note", "https://mcp.example/te",
    "https://mcp.example/team/notes/more", "https://mcp.example/team/Notes", "https://mcp.example/team/%6eotes",
    "https://mcp.example/team/../team/notes", "https://mcp.example/team/notes//", "https://mcp.example/team/notes#x",
    "https://mcp.example/team/notes#", "https://mcp.example/team/notes?x=y", "https://user@mcp.example/team/notes",
    "https://mcp.example.evil.example/team/notes", "https://mcp.example:8443/team/notes",
    "http://mcp.example/team/notes", "https://other.example/team/notes", " https://mcp.example/team/notes",
    "https://mcp.example/team/no\ntes", "mcp.example/team/notes", "",
]  # fmt: skip


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#resource-parameter-implementation-3",
    "2025-06-18..2025-11-25/basic/authorization#resource-parameter-implementation-3",
)
@pytest.mark.parametrize(
    ("resource", "own", "root"),
    [
        *((resource, True, True) for resource in OWN_RESOURCES),
        *((resource, False, True) for resource in ANCESTORS),
        *((resource, False, False) for resource in FOREIGN_RESOURCES),
    ],
)
@pytest.mark.attack("A2")
def test_accepts_resource_takes_the_url_and_from_the_root_document_its_ancestors(
    resource: str, own: bool, root: bool
) -> None:
    """Stop a server that claims another server's resource."""
    url = "https://mcp.example/team/notes"
    assert accepts_resource(resource, url, f"{WELL_KNOWN}/team/notes") is own
    assert accepts_resource(resource, url, "https://mcp.example/evil/metadata") is own
    assert accepts_resource(resource, url, f"{WELL_KNOWN}?x") is own
    assert accepts_resource(resource, url, "https://evil.example/.well-known/oauth-protected-resource") is own
    assert accepts_resource(resource, url, WELL_KNOWN) is root
    assert accepts_resource(resource, url, WELL_KNOWN.replace("https://mcp.example", "HTTPS://MCP.example:443")) is root


def test_accepts_resource_compares_a_query_with_that_of_the_url() -> None:
    assert accepts_resource(f"{URL}?tenant=1", f"{URL}?tenant=1", WELL_KNOWN)
    assert accepts_resource(URL, f"{URL}?tenant=1", WELL_KNOWN)
    assert not accepts_resource(f"{URL}?tenant=2", f"{URL}?tenant=1", WELL_KNOWN)


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#communication-security-2",
    "2025-06-18..2025-11-25/basic/authorization#communication-security-2",
    "2025-03-26/basic/authorization#security-considerations-4",
)
@pytest.mark.parametrize(
    ("url", "from_internet", "from_loopback"),
    [
        ("https://auth.example/token", True, True),
        ("http://auth.example/token", False, False),
        ("http://127.0.0.1:9000/token", False, True),
        ("http://localhost/token", False, True),
        ("http://[::1]:9000/token", False, True),
        ("http://127.0.0.1.evil.example/token", False, False),
        ("http://169.254.169.254/latest", False, False),
        ("https://auth.example/token#x", False, False),
        ("https://u:p@auth.example/token", False, False),
        ("file:///etc/passwd", False, False),
        ("//auth.example/token", False, False),
        ("https://auth.example/ token", False, False),
        ("https://auth.example/" + "x" * MAX_URL, False, False),
    ],
)
@pytest.mark.attack("A7")
def test_check_fetchable_allows_https_and_between_programs_of_one_machine_http(
    url: str, from_internet: bool, from_loopback: bool
) -> None:
    for server, allowed in (
        (URL, from_internet),
        ("http://mcp.example/", from_internet),
        ("http://127.0.0.1/mcp", from_loopback),
    ):
        try:
            check_fetchable(url, server)
        except ValueError as error:
            assert not allowed and len(str(error)) < 500
        else:
            assert allowed


REACHES = {
    Reach.INTERNET: [
        "93.184.216.34", "2606:4700::1111", "64:ff9b::8.8.8.8",
    ],
    Reach.PRIVATE_NETWORK: [
        "10.0.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.5", "fd00::1", "64:ff9b::10.0.0.1",
    ],
    Reach.THIS_MACHINE: [
        "127.0.0.1", "127.9.9.9", "::1", "2002:7f00:1::",
    ],
    Reach.NOWHERE: [
        "0.0.0.0", "::", "169.254.169.254", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255", "fec0::1",
        "192.0.2.1", "::ffff:10.0.0.1", "::ffff:93.184.216.34", "64:ff9b::169.254.169.254", "2001::1",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("reach", "address"), [(reach, each) for reach, some in REACHES.items() for each in some])
def test_reach_of_an_address_is_its_kind_of_network(address: str, reach: Reach) -> None:
    assert reach_of(address) is reach


def test_reach_of_a_name_is_an_error() -> None:
    with pytest.raises(ValueError):
        reach_of("localhost")


@pytest.mark.attack("A7")
def test_may_connect_lets_no_server_lead_further_inside() -> None:
    """Stop a server on the internet whose metadata name an address of the client's own network."""
    internet, private, loopback = "93.184.216.34", "10.0.0.5", "127.0.0.1"
    for address in (private, loopback, "169.254.169.254", "::ffff:10.0.0.1", "::1", "0.0.0.0", "100.64.0.1", "fd00::1"):
        assert not may_connect(address, internet)
    assert may_connect("1.1.1.1", internet) and may_connect("1.1.1.1", loopback)
    assert may_connect("10.0.0.6", private) and may_connect("10.0.0.6", loopback) and may_connect("::1", loopback)
    assert not may_connect(loopback, private)
    for server in (internet, private, loopback, "169.254.1.1", "::ffff:127.0.0.1"):
        assert not may_connect("169.254.169.254", server)
        assert may_connect(server, server)
    assert not may_connect(loopback, "::ffff:127.0.0.1")
    assert not may_connect("0.0.0.0", "0.0.0.0") and not may_connect("::", "::")


def test_may_connect_with_private_networks_allows_those_alone() -> None:
    internet = "93.184.216.34"
    assert may_connect("10.0.0.5", internet, private_networks=True)
    assert not may_connect("127.0.0.1", internet, private_networks=True)
    assert not may_connect("169.254.169.254", internet, private_networks=True)
    assert may_connect("127.0.0.1", "127.0.0.2", private_networks=True)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JavaScript://auth.example/%0aalert(1)", "file:///etc/passwd", "data:text/html,x",
        "vbscript:x", "http://auth.example/authorize", "-x", "--app=https://auth.example", "\\\\evil\\share", "",
        "https://", "https:///x", "https://u:p@auth.example/", "https://auth.example/a\nb",
        "https://auth.example/a\tb", "https://auth.example/a b", "https://auth.example/\x00",
        "https://$(id).example/", "https://a`id`.example/", 'https://a"b.example/',
        "https://auth.example\\@evil.example/", "https://auth.example/#x", "https://auth.example/" + "x" * 2**20,
        "https://auth.example/\u202e", "https://auth.example:99999/", "ms-settings:x", "https://a|b.example/",
    ],
)  # fmt: skip
@pytest.mark.attack("A5")
def test_browser_url_of_a_dangerous_url_is_an_error(url: str) -> None:
    """Stop an authorization endpoint that is a script, a file, an option, or another machine's plain http."""
    begin = time.process_time()
    with pytest.raises(ValueError) as caught:
        browser_url(url)
    assert len(str(caught.value)) < 500 and time.process_time() - begin < 1


HOSTILE_PATH = "https://auth.example/a'b\"c`id`$(id);d&e|f<g>h!i*j,k^l{m}[n]@o:p?x=$(id)&y=`id`|\"'&z=%41+%zz&w"
REBUILT = (
    "https://auth.example/a%27b%22c%60id%60%24%28id%29%3Bd%26e%7Cf%3Cg%3Eh%21i%2Aj%2Ck%5El%7Bm%7D%5Bn%5D%40o%3Ap"
    "?x=%24%28id%29&y=%60id%60%7C%22%27&z=%41+%25zz&w"
)


@pytest.mark.attack("A5")
def test_browser_url_encodes_all_characters_that_a_shell_could_act_on() -> None:
    assert browser_url(HOSTILE_PATH) == REBUILT
    assert browser_url(REBUILT) == REBUILT
    assert browser_url("HTTPS://AUTH.example:443") == "https://auth.example"
    assert browser_url("http://127.0.0.1:9000/authorize?a=b") == "http://127.0.0.1:9000/authorize?a=b"
    assert browser_url("https://auth.example/a%2Fb/~c-d._e") == "https://auth.example/a%2Fb/~c-d._e"
    assert browser_url("https://auth.example/?" + "x" * 5000).endswith("xxx")
    with pytest.raises(ValueError, match=str(MAX_OPENED_URL)):
        browser_url("https://auth.example/?" + "x" * MAX_OPENED_URL)


@pytest.mark.skipif(sys.platform == "win32", reason="the test runs sh")
@pytest.mark.attack("A5")
def test_browser_url_in_double_quotes_of_a_shell_stays_itself() -> None:
    shown = subprocess.run(["sh", "-c", f'printf %s "{REBUILT}"'], capture_output=True, timeout=10, check=True)
    assert shown.stdout.decode() == REBUILT
