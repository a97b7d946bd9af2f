"""Access tokens for the commands that take a URL: from an option, or from a sign-in in the browser.

The tokens of a sign-in are kept in the file of `FileStore`, so that the user signs in only once. Without a terminal, a
command does not wait for a user, but prints the command that signs in and ends with exit code 4.

A token is never an argument, because other users of the machine can list the arguments of all programs. Nor is a token
read from an environment variable unless an option names it, because then even a mistyped URL would get the token.
[2026-07-28 basic/authorization/security-considerations#token-theft]
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from urllib.parse import parse_qs, urlsplit

from ..basic.authorization.addresses import check_fetchable
from ..basic.authorization.client import Authorizer, Bearer
from ..basic.authorization.errors import SignInNeeded
from ..basic.authorization.loopback import open_in_browser
from ..basic.authorization.metadata import MAX_TOKEN
from ..basic.authorization.sign_in import AuthorizationCode, OpenBrowser
from ..basic.authorization.store import FileStore, MemoryStore
from . import UsageError
from .options import PROGRAM
from .person import has_terminal


def authorizer_for(url: str, options: argparse.Namespace) -> Authorizer | None:
    """Return the object that gets tokens for a URL, or None if the command sends none. Raise UsageError."""
    token = read_token(options)
    header_names = [header.partition(":")[0].strip().lower() for header in options.header]
    if token is None and "authorization" in header_names:
        return None  # the user has written the header that would have the token
    try:
        check_fetchable(url, url)  # a token must not travel over plain http to another machine
    except ValueError as error:
        if token is None:
            return None  # the server may work without a token
        raise UsageError(f"no token is sent to this server: {error}") from None
    if token is not None:
        return Bearer(token)
    try:
        store: MemoryStore = FileStore()
    except RuntimeError:  # the user has no home directory
        store = MemoryStore()
    return AuthorizationCode(store=store, open_browser=browser_for(url, options, store))


def environment_variable(option: str, name: str) -> str:
    """Return the value of an environment variable. Raise UsageError if it is not set."""
    if not os.environ.get(name):
        raise UsageError(f"{option} {name}: this environment variable is not set")
    return os.environ[name]


def read_token(options: argparse.Namespace) -> str | None:
    """Return the token of `--token-env` or `--token-file`, or None without these options. Raise UsageError."""
    if options.token_env is None and options.token_file is None:
        return None
    if options.token_env is not None:
        text = environment_variable("--token-env", options.token_env)
    elif options.token_file == "-":
        text = sys.stdin.readline(MAX_TOKEN + 2)
    else:
        try:
            with open(options.token_file, encoding="utf-8", errors="replace") as file:
                text = file.read(MAX_TOKEN + 2)
        except OSError as error:
            raise UsageError(f"--token-file {options.token_file}: {error.strerror}") from None
    token = text.strip()
    if len(token) > MAX_TOKEN or re.fullmatch("[!-~]+", token) is None:
        # do not quote the text, which may be a secret
        raise UsageError(f"the token must be 1 to {MAX_TOKEN} printable ASCII characters without spaces")
    return token


def browser_for(url: str, options: argparse.Namespace, store: MemoryStore) -> OpenBrowser:
    """Return a function that opens the page of a sign-in. Without a terminal, it raises SignInNeeded instead."""
    if has_terminal() and not options.no_browser:
        return open_in_browser

    async def refuse(sign_in_url: str) -> None:
        scopes, purpose = "", "sign in"
        stored = await AuthorizationCode(store=store).stored(url)
        if stored is not None:  # the sign-in has ended, or the server wants more scopes
            scopes = parse_qs(urlsplit(sign_in_url).query).get("scope", [""])[0]
            purpose = "sign in again" if set(scopes.split()) <= set(stored.scopes) else "sign in for more scopes"
        error = SignInNeeded(url)
        error.add_note(login_advice(url, scopes, purpose))
        raise error

    return refuse


def login_advice(url: str, scopes: str = "", purpose: str = "sign in") -> str:
    """Return a line with the command that signs in, and that asks for these scopes."""
    options = ["--scope", scopes] if scopes else []
    return f"{purpose} with: {PROGRAM} {shlex.join(['login', *options, url])}"
