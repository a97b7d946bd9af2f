"""Warnings for the user about the command and the variables that start a server, and about a URL.

Some environment variables make a program run other programs, or load other code. If a file that is not the user's own
sets one of these, consent to the start is not enough, so the host asks about each of them.

Threats:
    lookalike-url: A server or a file sends the user to an attacker's site by a URL that looks like that of a site which
        the user trusts. The user sees the true host of the URL, and a warning for each known trick.

Spec:  2026-07-28 client/elicitation#safe-url-handling (the specification does not define warnings about commands)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from ipaddress import ip_address

from ..lib.web_url import browser_host, look_alike_warnings
from ..transports import system
from .approval import Setting, quoted

_SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "fish", "cmd", "powershell", "pwsh", "busybox"}
_LAUNCHERS = {"env", "xargs", "nohup", "timeout", "nice", "setsid", "script", "watch", "find", "ssh"}

_DANGEROUS_VARIABLES = {
    "PATH|PATHEXT": "decides which programs a name such as node means",
    r"LD_.+|DYLD_.+|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|MALLOC_.+|(QT|GTK|GIO|GST|VK|LIBGL)_.+|APPINIT_DLLS":
        "can load other code into every program",
    # the names after `?!` are harmless, because they only choose an encoding, a buffer or a cache
    r"PYTHON(?!UNBUFFERED$|UTF8$|IOENCODING$|DONTWRITEBYTECODE$|HASHSEED$|FAULTHANDLER$|SAFEPATH$|NOUSERSITE$).*|"
    r"NODE_OPTIONS|NODE_PATH|NODE_COMPILE_CACHE|NODE_REPL_.+|ELECTRON_.+|PSMODULEPATH|COMPLUS_.+|ERL_.+|TCLLIBPATH|"
    r"BUN_.+|DENO_.+|RUBYOPT|RUBYLIB|GEM_.+|BUNDLE_.+|PERL5.+|PERL_.+|"
    r"_?JAVA_.*|JDK_JAVA_OPTIONS|CLASSPATH|LUA_.+|PHPRC|PHP_INI_SCAN_DIR|DOTNET_.+|CORECLR_.+|COR_.+|R_PROFILE.*|"
    r"PERLLIB|R_LIBS.*|JULIA_.+|TS_NODE_.+":
        "can make an interpreter run other code",
    r"BASH_.+|ENV|ZDOTDIR|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|SHELL|COMSPEC":
        "can make a shell run other commands",
    r"GIT_.+|.+_RSH|CC|CXX|CPP|LD|VIMINIT|EXINIT|SSH_ASKPASS|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|LESSOPEN|LESSCLOSE|"
    r"SUDO_ASKPASS|SYSTEMD_PAGER|.+_EXECUTABLE|.+_EXECUTABLE_PATH|CHROME_(PATH|BIN)":
        "can name a program that other programs start",
    r"npm_config_.+|YARN_.+|PNPM_.+|COREPACK_.+|UV_.+|PIP_.+|PIPX_.+|POETRY_.+|CONDA_.+|CARGO_.+|RUST.+|"
    r"GO(PROXY|FLAGS|SUMDB|NOSUMDB|PRIVATE|TOOLCHAIN|ENV|ROOT|PATH|BIN)|DOCKER_(HOST|CONFIG|CONTEXT|CERT_PATH|TLS.*)|"
    r"(BUILDKIT|CONTAINER)_HOST|VIRTUAL_ENV|(PYENV|RBENV|NODENV|ASDF|MISE|NVM|FNM|VOLTA|SDKMAN|PDM|RYE|HATCH|PIXI)_.+":
        "can decide from where programs and packages come",
    r"HTTPS?_PROXY|ALL_PROXY|FTP_PROXY|SSL_CERT_.+|REQUESTS_CA_BUNDLE|CURL_.+|NODE_EXTRA_CA_CERTS|"
    r"NODE_TLS_REJECT_UNAUTHORIZED|SSLKEYLOGFILE|OPENSSL_.+|HOSTALIASES|RES_OPTIONS|LOCALDOMAIN":
        "can lead the traffic, with its secrets, to another host",
    r"HOME|USERPROFILE|APPDATA|LOCALAPPDATA|XDG_CONFIG_.+|XDG_DATA_.+|SYSTEMROOT|WINDIR":
        "decides whose settings programs read",
    r"MAKEFILES|KUBECONFIG|.+_CONF(IG)?(_FILE|_PATH|_DIR)?|.+_(RC|OPTS|OPTIONS|ARGS|PRELOAD|PLUGINS?|COMMAND|CMD|HELPER|"
    r"HOOKS?|WRAPPER)|.*FLAGS|.+RC":
        "can make a program read other settings, which can name other programs",
}  # fmt: skip
"""The dangerous environment variables as regular expressions, each with the reason. Case is ignored, because Windows
ignores it, and programs such as npm and curl do so for some names."""

# so that a harmless name needs one match, not many
_ANY_DANGEROUS_VARIABLE = re.compile("|".join(_DANGEROUS_VARIABLES), re.IGNORECASE)

_SECRET_WORD_AT_END = re.compile(r".*(authorization|token|key|secret|password|passwd)", re.IGNORECASE)
_PLACE_WORD_AT_END = re.compile(r".*_(file|path|dir|folder|ur[il]|host|endpoint|address)", re.IGNORECASE)
_SECRET_WORD_ANYWHERE = re.compile(r"authorization|token|key|secret|passw", re.IGNORECASE)
_START_OF_PLACE = re.compile(r"(?:[A-Za-z]:|~|\.{1,2})[/\\]|\\\\|.*://", re.DOTALL)
_FIRST_FOLDER = re.compile(r"/+[^/]*")


def is_secret_name(name: str) -> bool:
    """Return True if a name ends in a word for a secret: `API_KEY`, but not `KEY_HELPER`, which may name a program."""
    return _SECRET_WORD_AT_END.fullmatch(name) is not None


def is_place(value: str) -> bool:
    """Return True if a text is a path or a URL, and so not a secret.

    A text that begins with `./`, `~/` or `https://`, for example, needs nothing else. Otherwise the file, or the first
    folder of an absolute path, such as `/home`, must exist, because a random key may contain slashes too.
    """
    if _START_OF_PLACE.match(value):
        return True
    first_folder = _FIRST_FOLDER.match(value)
    if first_folder is None:
        return os.path.exists(value)
    return os.path.exists(first_folder[0])


def may_be_secret(name: str) -> bool:
    """Return True if a variable or header may contain a secret, as `TOKEN` and `TOKEN_2` may, but not `TOKEN_FILE`."""
    return _SECRET_WORD_ANYWHERE.search(name) is not None and _PLACE_WORD_AT_END.fullmatch(name) is None


def variable_danger(name: str) -> str | None:
    """Return the reason why an environment variable is dangerous, or None."""
    if not _ANY_DANGEROUS_VARIABLE.fullmatch(name):
        return None
    if is_secret_name(name):  # `PIP_PASSWORD`, for example, only matches because of its prefix
        return None
    for pattern, reason in _DANGEROUS_VARIABLES.items():
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return reason
    return None


_NAMES_SOMETHING = re.compile(
    r"[/\\]|^[.~]|\.[A-Za-z]|[A-Za-z]:\d"  # a path, a URL, the name of a file or a host, a host and its port
    r"|[;|&`<>]|\$\("  # a command of a shell
)


def value_warnings(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Return a warning for each variable with a harmless name whose value names a file, an address or a command.

    The names alone are not enough, because no list of them is complete: `AWS_SHARED_CREDENTIALS_FILE` names a file
    whose settings run a program, and `GITHUB_API_URL` the address that gets a token.
    """
    names: dict[str, None] = {}  # a dict, because a variable can have several settings
    for setting in settings:
        names_something = setting.place == "variable" and _NAMES_SOMETHING.search(setting.value)
        if names_something and variable_danger(setting.name) is None:  # the host asks about a dangerous one anyway
            names[setting.name] = None
    effect = "names a file, an address or a command, which decides what a program reads or runs, or who gets secrets"
    return tuple(f"{quoted(name)} {effect}" for name in names)


def command_warnings(argv: tuple[str, ...], folder: str, program: str | None = None) -> tuple[str, ...]:
    """Return the warnings about the command in a configuration file in `folder`. `program` is the absolute path of the
    command's program, if known."""
    path = argv[0] if argv else ""
    absolute = program or os.path.abspath(path)
    targets = (path, absolute, without_links(absolute))  # a link may have a harmless name
    names = {re.sub(r"\.(exe|cmd|bat)$", "", os.path.basename(target).lower()) for target in targets}
    found = []
    if names & _SHELLS:
        found.append("the command runs a shell, which can run any other program")
    if names & {"sudo", "doas", "su", "runas"}:
        found.append("the command runs with the rights of another user")
    if names & _LAUNCHERS:
        found.append("the command starts another program, which its arguments name")
    is_written_as_path = os.path.dirname(path) != ""  # otherwise it is a name such as `node`, found through PATH
    if is_written_as_path and not absolute.startswith((folder + os.sep, "/usr/")):
        found.append("the program lies outside the folder of the file")
    return tuple(found)


def without_links(path: str) -> str:
    """Return the true path of a file or folder."""
    try:
        return os.path.realpath(path)
    except ValueError:  # NUL or half of a surrogate pair, which the start reports
        return os.path.abspath(path)


def is_own_file(path: str, folder: str) -> bool:
    """Return True if only the user and the administrator can have written a file.

    Somebody else may have written a file below the working directory or `folder` (the `${workspaceFolder}`), or in a
    project (see `_is_in_project`). The same is assumed of a file whose owner cannot be read, such as a missing one.
    """
    try:
        is_elsewhere = not _is_below(path, (folder, os.getcwd())) and not _is_in_project(path)
        return is_elsewhere and not system.SYSTEM.is_shared(path)
    except OSError:
        return False


def _is_in_project(path: str) -> bool:
    """Return True if a file is in a repository, or if its folder (not the home) contains the working directory."""
    home = os.path.realpath(os.path.expanduser("~"))
    for start in (os.path.abspath(path), os.path.realpath(path)):
        folder = os.path.dirname(start)
        while folder not in (home, os.path.dirname(folder)):  # a root is its own parent
            if any(os.path.exists(os.path.join(folder, name)) for name in _VERSION_CONTROL):
                return True
            folder = os.path.dirname(folder)
    own_folder = os.path.dirname(os.path.realpath(path))
    return own_folder != home and _is_below(os.getcwd(), (own_folder,))


_VERSION_CONTROL = (".git", ".hg", ".svn", ".jj")


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Return True if a path lies in one of the folders, as written or with links resolved."""
    spellings = (os.path.abspath(path), os.path.realpath(path))
    for folder in folders:
        for parent in (os.path.abspath(folder), os.path.realpath(folder)):
            # `/` does not count, because every path lies below it
            if parent != os.sep and any(spelling.startswith(os.path.join(parent, "")) for spelling in spellings):
                return True
    return False


def url_warnings(url: str | None) -> tuple[str, ...]:
    """Return the reasons to distrust a URL. [2026-07-28 client/elicitation#safe-url-handling]"""
    if url is None:
        return ()
    try:
        host = browser_host(url)
    except ValueError as error:
        return (f"the URL is invalid: {error}",)
    found = [] if url.lower().startswith("https:") else ["the URL does not use https"]
    try:
        ip_address(host)
    except ValueError:
        return (*found, *look_alike_warnings(host))
    return (*found, "the host is an address without a name")
