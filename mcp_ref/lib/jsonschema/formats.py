"""The formats that the keyword `format` can name. For each format, a function checks the syntax of a string.

The regular expressions go straight to `re`, so they are written to backtrack only a little (patterns.py explains the
danger). The format `regex` checks a regular expression, and does not run it.

Spec:  Validation 7.3
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .expressions import PatternError
from .patterns import Pattern

MAX_REGEX_LENGTH = 10_000
"""Maximum length of a regular expression in an instance, in characters. The format `regex` fails for longer texts."""


def _regex_check(expression: str) -> Callable[[str], bool]:
    """Return a function that checks strings with a regular expression, which `re` compiles only when it is needed."""
    return lambda text: re.fullmatch(expression, text, re.ASCII) is not None


def is_date(text: str) -> bool:
    """Return True for a full-date of RFC 3339 that exists in the calendar."""
    found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text, re.ASCII)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    is_leap_year = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days_of_months = (31, 29 if is_leap_year else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return 1 <= month <= 12 and 1 <= day <= days_of_months[month - 1]


def is_time(text: str) -> bool:
    """Return True for a full-time of RFC 3339. A leap second must be the last second of a day in UTC."""
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])(\d\d):(\d\d))", text, re.ASCII)
    if found is None:
        return False
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    offset_hour, offset_minute = int(found[5] or 0), int(found[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or offset_hour > 23 or offset_minute > 59:
        return False
    offset_minutes = offset_hour * 60 + offset_minute
    if found[4] == "-":
        offset_minutes = -offset_minutes
    minutes_of_day = 24 * 60
    utc_minute = (hour * 60 + minute - offset_minutes) % minutes_of_day
    return second < 60 or utc_minute == minutes_of_day - 1


def is_date_time(text: str) -> bool:
    """Return True for a date-time of RFC 3339."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_hostname(text: str) -> bool:
    """Return True for a host name (RFC 1123 2.1). Each label that begins with `xn--` must be valid Punycode."""
    if len(text) > 253 or re.fullmatch(r"[a-zA-Z0-9.-]+", text) is None:
        return False
    labels = text.split(".")
    return all(0 < len(each) < 64 and each.strip("-") == each and _is_plain_or_punycode(each) for each in labels)


def _is_plain_or_punycode(label: str) -> bool:
    # RFC 5891 4.2.3.1: a label with hyphens in the third and fourth place, as in `xn--`, must be Punycode
    if label[2:4] != "--":
        return True
    try:
        return label[:2].lower() == "xn" and is_idn_hostname(label.encode().decode("idna"))
    except UnicodeError:
        return False


def is_idn_hostname(text: str) -> bool:
    """Return True for an internationalised host name (RFC 5890, with the rules of IDNA 2003)."""
    labels = re.split(r"[.\u3002\uff0e\uff61]", text)  # the full stop, and three East Asian ones (RFC 3490 3.1)
    if len(text) > 253 or any(label.strip("-") != label for label in labels):
        return False
    try:
        # DEVIATION: Python's standard library has IDNA 2003. The rules of IDNA 2008 are not checked.
        written = text.encode("idna").decode()
    except UnicodeError:
        return False
    form = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
    return all(re.fullmatch(form, label) for label in written.split("."))  # `encode` refuses labels that are too long


def is_ipv4(text: str) -> bool:
    """Return True for an IPv4 address (RFC 2673 3.2), without leading zeros (RFC 6943 3.1.1)."""
    parts = text.split(".")
    return len(parts) == 4 and all(re.fullmatch(r"0|[1-9][0-9]{0,2}", part) and int(part) < 256 for part in parts)


def is_ipv6(text: str) -> bool:
    """Return True for an IPv6 address (RFC 4291 2.2) without a zone."""
    before, gap, after = text.partition("::")
    groups = [group for part in (before, after) if part for group in part.split(":")]
    count = len(groups)
    ends_with_gap = bool(gap) and not after
    # the last group can be an IPv4 address; in `1.2.3.4::` it is not at the end of the text, so it fails below
    if groups and "." in groups[-1] and not ends_with_gap:
        if not is_ipv4(groups.pop()):
            return False
        count += 1  # an IPv4 address counts as two groups
    has_right_count = count < 8 if gap else count == 8  # `::` stands for at least one group of zeros
    return has_right_count and all(re.fullmatch(r"[0-9a-fA-F]{1,4}", group) for group in groups)


_EMAIL_ATOM = r"[^@\x00-\x20\"(),:;<>\[\\\].\x7f]+"


def is_idn_email(text: str) -> bool:
    """Return True for an email address, which can contain characters outside ASCII (RFC 6531)."""
    local, at, domain = text.rpartition("@")
    if not at or len(local.encode(errors="replace")) > 64:
        return False
    quoted = re.fullmatch(r'"(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*"', local)
    if not quoted and not all(re.fullmatch(_EMAIL_ATOM, atom) for atom in local.split(".")):
        return False
    if domain.startswith("[") and domain.endswith("]"):  # RFC 5321 4.1.3: an address literal
        literal = domain[1:-1]
        return is_ipv6(literal[5:]) if literal[:5].lower() == "ipv6:" else is_ipv4(literal)
    return is_hostname(domain) if domain.isascii() else is_idn_hostname(domain)


def is_iri_reference(text: str) -> bool:
    """Return True for an absolute or relative IRI (RFC 3987)."""
    if re.search(r"[\x00-\x20\"<>\\^`{|}\x7f]|%(?![0-9a-fA-F]{2})", text):
        return False
    without_fragment, _, fragment = text.partition("#")
    without_query, _, query = without_fragment.partition("?")
    scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", without_query)
    path = without_query[scheme.end() :] if scheme else without_query
    if "#" in fragment:
        return False
    if scheme is None and ":" in path.partition("/")[0]:  # such as `1a:b`, whose start would be an invalid scheme
        return False
    if path.startswith("//"):
        authority, _, path = path[2:].partition("/")
        if not _is_authority(authority):
            return False
    return not re.search(r"[\[\]]", path + query + fragment)  # only an authority can have brackets (RFC 3986 3.2.2)


def _is_authority(text: str) -> bool:
    """Return True for userinfo, host and port (RFC 3986 3.2). Only an IP address literal can have brackets."""
    user, _, host = text.rpartition("@")
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|[^:\[\]]*)(?::[0-9]*)?", host)
    if found is None or re.search(r"[@\[\]]", user):
        return False
    literal = found[1]
    if literal is None or is_ipv6(literal):
        return True
    return re.fullmatch(r"[vV][0-9a-fA-F]+\.[\w.~!$&'()*+,;=:-]+", literal) is not None  # a future version of IP


def is_iri(text: str) -> bool:
    """Return True for an IRI with a scheme (RFC 3987)."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text) is not None and is_iri_reference(text)


def _ascii_check(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a check that also refuses all characters outside ASCII (RFC 3986, RFC 5321 4.1.2)."""
    return lambda text: text.isascii() and check(text)


def is_regex(text: str) -> bool:
    """Return True for a regular expression that patterns.py accepts, with at most `MAX_REGEX_LENGTH` characters."""
    if len(text) > MAX_REGEX_LENGTH:
        return False
    try:
        Pattern(text)
    except (PatternError, RecursionError):
        return False
    return True


# RFC 3339 appendix A: a duration names units in order and skips no unit between two others (not `PT1H1S`).
_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION_DATE = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
# RFC 6570 2: a URI template consists of literals and of variables in braces.
_URI_VARIABLE = r"(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})+(?:\.(?:[a-zA-Z0-9_]|%[0-9a-fA-F]{2})+)*(?::[1-9][0-9]{0,3}|\*)?"
_URI_LITERAL = r"[^\x00-\x20\"<>\\^`{|}%\x7f]|%[0-9a-fA-F]{2}"

FORMATS: dict[str, Callable[[str], bool]] = {
    "date": is_date, "time": is_time, "date-time": is_date_time,
    "duration": _regex_check(rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d+W)"),
    "email": _ascii_check(is_idn_email), "idn-email": is_idn_email,
    "hostname": is_hostname, "idn-hostname": is_idn_hostname, "ipv4": is_ipv4, "ipv6": is_ipv6,
    "uri": _ascii_check(is_iri), "uri-reference": _ascii_check(is_iri_reference),
    "iri": is_iri, "iri-reference": is_iri_reference, "regex": is_regex,
    "uri-template": _regex_check(rf"(?:{_URI_LITERAL}|\{{[+#./;?&=,!@|]?{_URI_VARIABLE}(?:,{_URI_VARIABLE})*\}})*"),
    "uuid": _regex_check(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "json-pointer": _regex_check(r"(?:/(?:[^~/]|~[01])*)*"),
    "relative-json-pointer": _regex_check(r"(?:0|[1-9]\d*)(?:[+-][1-9]\d*)?(?:#|(?:/(?:[^~/]|~[01])*)*)"),
}  # fmt: skip
"""The checks of all formats, by name."""
