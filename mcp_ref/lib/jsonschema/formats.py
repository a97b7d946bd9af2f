"""Formats: what `format` means where it is asserted. Validation 7.3.

Each is a function from a string to whether it is well formed. By its grammar, that is: nobody is asked whether a host
or a mailbox exists. Expressions here are written so that they cannot backtrack: each character can only go one way.

All of the standard's formats are here; but internationalised host names are held only to what the standard library
knows, IDNA 2003, which lacks the rules of 2008 about which characters may stand beside which.
"""

from __future__ import annotations

import re

from .expressions import PatternError
from .patterns import Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _matching(expression: str) -> Callable[[str], bool]:
    """A format that a regular expression describes in full. It is compiled when it is first used."""
    return lambda text: re.fullmatch(expression, text, re.ASCII) is not None


def is_date(text: str) -> bool:
    """RFC 3339 full-date, a day that there is."""
    found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text, re.ASCII)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def is_time(text: str) -> bool:
    """RFC 3339 full-time. A leap second is the last of a day in UTC."""
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))", text, re.ASCII)
    if found is None:
        return False
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    ahead, behind = int(found[5] or 0), int(found[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or ahead > 23 or behind > 59:
        return False
    offset = (ahead * 60 + behind) * (-1 if found[4] == "-" else 1)
    return second < 60 or (hour * 60 + minute - offset) % 1440 == 1439


def is_date_time(text: str) -> bool:
    """RFC 3339 date-time."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_duration(text: str) -> bool:
    """RFC 3339 appendix A: units in order, with none left out between two."""
    time = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
    date = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
    return re.fullmatch(rf"P(?:{date}(?:{time})?|{time}|\d+W)", text, re.ASCII) is not None


def is_hostname(text: str) -> bool:
    """RFC 1123 2.1: letters, digits and inner hyphens; and a name in Punycode must be one that can be read."""
    if len(text) > 253 or re.fullmatch(r"[a-zA-Z0-9.-]+", text) is None:
        return False
    return all(0 < len(label) < 64 and label[0] != "-" != label[-1] and _readable(label) for label in text.split("."))


def _readable(label: str) -> bool:
    if label[2:4] != "--":
        return True  # RFC 5891 4.2.3.1 keeps hyphens in third and fourth place for Punycode
    try:
        return label[:2].lower() == "xn" and is_idn_hostname(label.encode().decode("idna"))
    except UnicodeError:
        return False


def is_idn_hostname(text: str) -> bool:
    """RFC 5890, as far as IDNA 2003 goes."""
    if len(text) > 253 or re.search(r"(?:^|[.\u3002\uff0e\uff61])-|-(?:[.\u3002\uff0e\uff61]|$)", text):
        return False
    try:
        written = text.encode("idna").decode()
    except UnicodeError:
        return False
    return all(
        0 < len(label) < 64 and re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?", label) is not None
        for label in written.split(".")
    )


def is_ipv4(text: str) -> bool:
    """RFC 2673 3.2: four numbers without leading zeros, as RFC 6943 3.1.1 advises."""
    parts = text.split(".")
    return len(parts) == 4 and all(re.fullmatch(r"0|[1-9][0-9]{0,2}", part) and int(part) < 256 for part in parts)


def is_ipv6(text: str) -> bool:
    """RFC 4291 2.2, without a zone."""
    head, gap, tail = text.partition("::")
    if not re.fullmatch(r"[0-9a-fA-F:.]+", text) or "::" in tail or tail.startswith(":"):
        return False
    groups = [group for part in (head, tail) if part for group in part.split(":")]
    count = len(groups)
    if groups and "." in groups[-1] and (tail or not gap):
        if not is_ipv4(groups.pop()):
            return False
        count += 1  # it stands for two
    return all(re.fullmatch(r"[0-9a-fA-F]{1,4}", group) for group in groups) and (count < 8 if gap else count == 8)


_ATOM = r"[^@\x00-\x20\"(),:;<>\[\\\].\x7f]+"


def is_idn_email(text: str) -> bool:
    """RFC 6531: a mailbox, of which any part may be beyond ASCII."""
    local, at, domain = text.rpartition("@")
    if not at or len(local.encode(errors="replace")) > 64:
        return False
    quoted = re.fullmatch(r'"(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*"', local)
    if not quoted and not all(re.fullmatch(_ATOM, atom) for atom in local.split(".")):
        return False
    if domain.startswith("[") and domain.endswith("]"):  # RFC 5321 4.1.3: an address literal
        literal = domain[1:-1]
        return is_ipv6(literal[5:]) if literal[:5].lower() == "ipv6:" else is_ipv4(literal)
    return is_hostname(domain) if domain.isascii() else is_idn_hostname(domain)


def is_email(text: str) -> bool:
    """RFC 5321 4.1.2: a mailbox."""
    return text.isascii() and is_idn_email(text)


def is_iri_reference(text: str) -> bool:
    """RFC 3987, and with ASCII alone RFC 3986: an absolute or a relative reference."""
    if re.search(r"[\x00-\x20\"<>\\^`{|}\x7f]|%(?![0-9a-fA-F]{2})", text):
        return False
    rest, _, fragment = text.partition("#")
    rest, _, _query = rest.partition("?")
    scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", rest)
    rest = rest[scheme.end() :] if scheme else rest
    if "#" in fragment or (scheme is None and ":" in rest.partition("/")[0]):
        return False
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
        return not re.search(r"[\[\]]", rest) and _is_authority(authority)
    return not re.search(r"[\[\]]", text)


def _is_authority(text: str) -> bool:
    """RFC 3986 3.2: userinfo, host and port. Brackets are only for an address of six or later."""
    user, _, host = text.rpartition("@")
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|[^:\[\]]*)(?::[0-9]*)?", host)
    if found is None or re.search(r"[@\[\]]", user):
        return False
    literal = found[1]
    return literal is None or is_ipv6(literal) or bool(re.fullmatch(r"[vV][0-9a-fA-F]+\.[\w.~!$&'()*+,;=:-]+", literal))


def is_iri(text: str) -> bool:
    """RFC 3987: absolute, that is with a scheme."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text) is not None and is_iri_reference(text)


def is_uri(text: str) -> bool:
    """RFC 3986: absolute, that is with a scheme."""
    return text.isascii() and is_iri(text)


def is_uri_reference(text: str) -> bool:
    """RFC 3986 4.1."""
    return text.isascii() and is_iri_reference(text)


def is_uri_template(text: str) -> bool:
    """RFC 6570 2: literals, and expressions in braces."""
    char = r"(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})"
    name = rf"{char}+(?:\.{char}+)*(?::[1-9][0-9]{{0,3}}|\*)?"
    literal = r"[^\x00-\x20\"<>\\^`{|}%\x7f]|%[0-9a-fA-F]{2}"
    expression = r"\{[+#./;?&=,!@|]?" + name + "(?:," + name + r")*\}"
    return re.fullmatch(f"(?:{literal}|{expression})*", text) is not None


def is_regex(text: str) -> bool:
    """ECMA-262, as far as patterns.py reads it."""
    try:
        Pattern(text)
    except (PatternError, RecursionError):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "idn-email": is_idn_email,
    "hostname": is_hostname,
    "idn-hostname": is_idn_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "uri": is_uri,
    "uri-reference": is_uri_reference,
    "iri": is_iri,
    "iri-reference": is_iri_reference,
    "uri-template": is_uri_template,
    "uuid": _matching(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "json-pointer": _matching(r"(?:/(?:[^~/]|~[01])*)*"),
    "relative-json-pointer": _matching(r"(?:0|[1-9]\d*)(?:[+-][1-9]\d*)?(?:#|(?:/(?:[^~/]|~[01])*)*)"),
    "regex": is_regex,
}
