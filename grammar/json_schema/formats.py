"""The formats of the specification as regular languages over the string's value.

Each is spelled as an ECMA-262 pattern that the whole value must match, plus patterns it must not match. Where the standard behind
a format is not regular or rests on tables, the language is a part of it that is certainly right, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from radixrt.grammar.regex import ecma_search
from radixrt.grammar.rx import Pool, Rx

__all__ = ["FORMATS", "format_language"]


class Format(NamedTuple):
    pattern: str
    but_not: tuple[str, ...] = ()
    longest: int | None = None  # characters


# --- dates and times (RFC 3339; the year 0000 is left out: most calendars have none) --------------------------------

_LEAP_YEAR: Final = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE: Final = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)
_OFFSET: Final = r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
# A leap second ends a UTC day; written with an offset it would have to be computed, so only UTC is taken.
_TIME: Final = rf"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?{_OFFSET}|23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00))"
_NO_YEAR: Final = r"^0000"
_DURATION: Final = (
    r"P(?:\d+W|(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
    r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
)

# --- hosts and addresses --------------------------------------------------------------------------------------------

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME: Final = rf"{_LABEL}(?:\.{_LABEL})*"
# Labels with two hyphens in the third and fourth place are reserved; which xn-- labels are right needs Unicode tables.
_RESERVED_LABEL: Final = r"(?:^|\.)[A-Za-z0-9-]{2}--"
_ALL_DIGITS_END: Final = r"(?:^|\.)[0-9]+$"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    """RFC 4291: eight groups, one run of zero groups may be ``::``, the last two may be an IPv4 address."""
    group = "[0-9A-Fa-f]{1,4}"
    last = f"(?:{group}:{group}|{_IPV4})"
    choices = [f"(?:{group}:){{6}}{last}", f"::(?:{group}:){{5}}{last}"]
    for before in range(1, 6):  # groups before the "::", at most; after it there are 5 - before and the last two
        choices.append(f"(?:(?:{group}:){{0,{before - 1}}}{group})?::(?:{group}:){{{5 - before}}}{last}")
    choices.append(f"(?:(?:{group}:){{0,5}}{group})?::{group}")
    choices.append(f"(?:(?:{group}:){{0,6}}{group})?::")
    return "(?:" + "|".join(choices) + ")"


_IPV6: Final = _ipv6()

# --- mail (RFC 5321) ------------------------------------------------------------------------------------------------

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_MAIL_DOMAIN: Final = rf"(?:{_HOSTNAME}|\[(?:{_IPV4}|IPv6:{_IPV6})\])"
_EMAIL: Final = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@{_MAIL_DOMAIN}"
_ANY_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00A1-\uD7FF\uF900-\uFFEF-]+"
# Labels of letters that every version of IDNA allows as they are, short enough for their ASCII form.
_IDN_LABEL: Final = (
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"|[a-z0-9\u00E0-\u00F6\u00F8-\u00FF\u03B1-\u03C1\u03C3-\u03C9\u0430-\u044F\u3041-\u3096\u4E00-\u9FA5\uAC00-\uD7A3]{1,12})"
)
_IDN_HOSTNAME: Final = rf"{_IDN_LABEL}(?:\.{_IDN_LABEL})*"

# --- URIs (RFC 3986, RFC 3987, RFC 6570) ------------------------------------------------------------------------------

_UCS: Final = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{E1000}-\u{EFFFD}"
)


def _reference(letters: str) -> tuple[str, str]:
    """The patterns of a URI with scheme and of a relative reference, over unreserved characters plus ``letters``."""
    escaped = "%[0-9A-Fa-f]{2}"
    unreserved = rf"A-Za-z0-9._~{letters}"
    delimiters = "!$&'()*+,;="
    char = rf"(?:[{unreserved}{delimiters}:@-]|{escaped})"
    colonless = rf"(?:[{unreserved}{delimiters}@-]|{escaped})"
    user = rf"(?:[{unreserved}{delimiters}:-]|{escaped})*"
    name = rf"(?:[{unreserved}{delimiters}-]|{escaped})*"
    future = rf"v[0-9A-Fa-f]+\.[A-Za-z0-9._~{delimiters}:-]+"
    authority = rf"(?:{user}@)?(?:\[(?:{_IPV6}|{future})\]|{name})(?::[0-9]*)?"
    absolute = rf"/(?:{char}+(?:/{char}*)*)?"
    tail = rf"(?:\?(?:{char}|[/?])*)?(?:#(?:{char}|[/?])*)?"
    scheme = r"[A-Za-z][A-Za-z0-9+.-]*"
    uri = rf"{scheme}:(?://{authority}(?:/{char}*)*|{absolute}|{char}+(?:/{char}*)*|){tail}"
    relative = rf"(?://{authority}(?:/{char}*)*|{absolute}|{colonless}+(?:/{char}*)*|){tail}"
    return uri, relative


_URI, _RELATIVE = _reference("")
_IRI, _IRI_RELATIVE = _reference(_UCS)


def _uri_template() -> str:
    escaped = "%[0-9A-Fa-f]{2}"
    literal = rf"(?:[!#$&(-;=?-\[\]_a-z~{_UCS}]|{escaped})"
    part = rf"(?:[A-Za-z0-9_]|{escaped})"
    variable = rf"{part}(?:\.?{part})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*"


# --- the rest -------------------------------------------------------------------------------------------------------

_POINTER: Final = r"(?:/(?:[^~/]|~[01])*)*"
_RELATIVE_POINTER: Final = rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})"


def _simple_regex() -> str:
    """Regular expressions are not a regular language: groups are taken up to three deep, without look-around."""
    single = r"(?:[^\\^$.|?*+()\[\]{}/\u0000-\u001F]|\\[dDwWsStnrfv0^$\\.*+?()\[\]{}|/]|\.)"
    member = r"(?:[^\\\[\]^&|~\u0000-\u0020-]|\\[dws\\\]\[^-])"
    group = rf"(?:{single}|\[\^?{member}+\])"
    count = r"(?:[*+?]\??|\{[0-9]{1,2}\})?"
    for _ in range(3):
        branch = rf"\^?(?:{group}{count})*\$?"
        group = rf"(?:{single}|\[\^?{member}+\]|\((?:\?:)?{branch}(?:\|{branch})*\))"
    branch = rf"\^?(?:{group}{count})*\$?"
    return rf"{branch}(?:\|{branch})*"


FORMATS: Final[dict[str, Callable[[], Format]]] = {
    "date": lambda: Format(_DATE, (_NO_YEAR,)),
    "date-time": lambda: Format(rf"{_DATE}[Tt]{_TIME}", (_NO_YEAR,)),
    "duration": lambda: Format(_DURATION),
    "email": lambda: Format(_EMAIL, (rf"@.*{_RESERVED_LABEL}",), longest=254),
    "hostname": lambda: Format(_HOSTNAME, (_RESERVED_LABEL,), longest=253),
    "idn-email": lambda: Format(rf"{_ANY_ATOM}(?:\.{_ANY_ATOM})*@{_IDN_HOSTNAME}", (_RESERVED_LABEL,), longest=254),
    "idn-hostname": lambda: Format(_IDN_HOSTNAME, (_RESERVED_LABEL,), longest=120),
    "ipv4": lambda: Format(_IPV4),
    "ipv6": lambda: Format(_IPV6),
    "iri": lambda: Format(_IRI),
    "iri-reference": lambda: Format(rf"(?:{_IRI}|{_IRI_RELATIVE})"),
    "json-pointer": lambda: Format(_POINTER),
    "regex": lambda: Format(_simple_regex()),
    "relative-json-pointer": lambda: Format(_RELATIVE_POINTER),
    "time": lambda: Format(_TIME),
    "uri": lambda: Format(_URI),
    "uri-reference": lambda: Format(rf"(?:{_URI}|{_RELATIVE})"),
    "uri-template": lambda: Format(_uri_template()),
    "uuid": lambda: Format(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
}


def format_language(pool: Pool, name: str) -> Rx:
    """The language of one of ``FORMATS``."""
    format_ = FORMATS[name]()
    parts = [ecma_search(pool, f"^(?:{format_.pattern})$")]
    parts.extend(pool.not_(ecma_search(pool, pattern)) for pattern in format_.but_not)
    if format_.longest is not None:
        parts.append(pool.repeat(pool.any_byte, 0, format_.longest))
    return pool.and_(*parts)
