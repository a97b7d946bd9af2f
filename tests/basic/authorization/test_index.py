"""The exchange in the docstring of `basic/authorization/` is true: the modules read and write its messages."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl

import mcp_ref.basic.authorization as page
from mcp_ref.basic.authorization.addresses import accepts_resource, issuer_metadata_urls, resource_metadata_urls
from mcp_ref.basic.authorization.authorization_code import SignIn, begin_sign_in, code_challenge, read_response
from mcp_ref.basic.authorization.challenges import token_challenge, write_challenge
from mcp_ref.basic.authorization.client_registration import OAuthClient
from mcp_ref.basic.authorization.metadata import (
    ClientMetadata,
    TokenResponse,
    parse_resource_metadata,
    parse_server_metadata,
)
from mcp_ref.jsonrpc.messages import JSON

URL = "https://mcp.example/notes"
TEXT = page.__doc__ or ""
STEPS = dict(re.findall(r"^([1-8])   (.*?)(?=^[1-8]   |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def _json(step: str, number: int = 0) -> dict[str, JSON]:
    """Return one of the JSON objects of a step."""
    found: list[dict[str, JSON]] = []
    text = " ".join(STEPS[step].split())
    while "{" in text:
        text = text[text.index("{") :]
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found[number]


def _query(step: str, begin: str) -> dict[str, str]:
    """Return the parameters that follow some text in a step."""
    joined = re.sub(r"\n +&", "&", STEPS[step])
    return dict(parse_qsl(re.split(r"\s", joined.split(begin)[1])[0], strict_parsing=True))


def test_exchange_finds_the_authorization_server() -> None:
    header = re.search(r'WWW-Authenticate: (.*?resource_metadata="[^"]*")', STEPS["1"], re.DOTALL)
    assert header is not None
    field = " ".join(header[1].split())
    challenge = token_challenge([field])
    assert challenge.scopes == ("notes:read",)
    document = challenge.resource_metadata
    assert document == resource_metadata_urls(URL)[0] and document.endswith(STEPS["2"].split()[1])
    assert field == write_challenge("Bearer", resource_metadata=document, scopes=["notes:read"])
    metadata = parse_resource_metadata(json.dumps(_json("2")).encode())
    assert accepts_resource(metadata.resource, URL, document)
    [issuer] = metadata.authorization_servers
    assert issuer_metadata_urls(issuer)[0].endswith(STEPS["3"].split()[1])
    assert parse_server_metadata(json.dumps(_json("3")).encode(), issuer, URL).code_challenge_methods_supported == (
        "S256",
    )


def test_exchange_registers_the_client() -> None:
    document = ClientMetadata("mcp_ref", ("http://127.0.0.1:4711/callback",), "notes:read").to_json()
    assert list(document.items()) == list(_json("4").items())
    assert OAuthClient.parse(json.dumps(_json("4", 1)).encode()).client_id == "c1"


def test_exchange_signs_in() -> None:
    metadata = parse_server_metadata(json.dumps(_json("3")).encode(), "https://auth.example", URL)
    begun = begin_sign_in(metadata, "c1", "http://127.0.0.1:4711/callback", URL, ["notes:read"])
    shown, token_request = _query("5", "/authorize?"), _query("7", "\n    ")
    built = dict(parse_qsl(begun.url.partition("?")[2])) | {name: shown[name] for name in ("state", "code_challenge")}
    assert list(built.items()) == list(shown.items())
    assert code_challenge(token_request["code_verifier"]) == shown["code_challenge"]
    assert token_request["resource"] == URL and token_request["redirect_uri"] == shown["redirect_uri"]
    sign_in = SignIn(begun.issuer, begun.promises_iss, begun.redirect_uri, begun.url, shown["state"], "v")
    query = STEPS["6"].split()[1].partition("?")[2]
    assert STEPS["5"].count(query) == 1
    assert read_response(sign_in, query) == token_request["code"]
    assert TokenResponse.parse(json.dumps(_json("7")).encode()).expires_in == 3600
