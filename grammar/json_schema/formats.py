"""The formats of the specification as regular languages over the string's value.

Each is spelled as an ECMA-262 pattern that the whole value must match, plus patterns it must not match. Where
the standard behind a format is not regular or rests on tables, the language is a part of it that is certainly
right, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from radixrt.grammar.regex import ecma_search
from radixrt.grammar.rx import Pool, Rx

__all__ = ["FORMATS", "format_language"]


# --- dates and times (RFC 3339; the year 0000 is left out: most calendars have none) ---------------

_LEAP_YEAR: Final = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE: Final = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)
_OFFSET: Final = r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
# A leap second ends a UTC day; written with an offset it would have to be computed, so only UTC is taken.
_TIME: Final = rf"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?{_OFFSET}|23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00))"
_DURATION: Final = (
    r"P(?:\d+W|(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
    r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
)

# --- hosts and addresses ---------------------------------------------------------------------------

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

# --- mail (RFC 5321) -------------------------------------------------------------------------------

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_LOCAL: Final = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})"
_ADDRESS_LITERAL: Final = rf"\[(?:{_IPV4}|IPv6:{_IPV6})\]"
_ANY_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00A1-\uD7FF\uF900-\uFFEF-]+"
# --- URIs (RFC 3986, RFC 3987, RFC 6570) -----------------------------------------------------------

_UCS: Final = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    r"\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{E1000}-\u{EFFFD}"
)


def _reference(letters: str) -> tuple[str, str]:
    """The patterns of a URI with scheme and of a relative reference; ``letters`` are unreserved too."""
    escaped = "%[0-9A-Fa-f]{2}"
    unreserved = rf"A-Za-z0-9._~{letters}"
    delimiters = "!$&'()*+,;="
    char = rf"(?:[{unreserved}{delimiters}:@-]|{escaped})"
    colonless = rf"(?:[{unreserved}{delimiters}@-]|{escaped})"
    user = rf"(?:[{unreserved}{delimiters}:-]|{escaped})*"
    name = rf"(?:[{unreserved}{delimiters}-]|{escaped})*"
    future = rf"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~{delimiters}:-]+"
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
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}]|{escaped})"
    variable = r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?::[1-9][0-9]{0,2}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*"


# --- the rest --------------------------------------------------------------------------------------

_POINTER: Final = r"(?:/(?:[^~/]|~[01])*)*"
_RELATIVE_POINTER: Final = rf"(?:0|[1-9][0-9]?)(?:#|{_POINTER})"  # up to 99 levels


def _simple_regex() -> str:
    """Regular expressions are not a regular language: groups are taken up to three deep, without look-around."""
    single = r"(?:[^\\^$.|?*+()\[\]{}/\u0000-\u001F]|\\[dDwWsStnrfv0^$\\.*+?()\[\]{}|/]|\.)"
    member = r"(?:a-z|A-Z|0-9|a-f|A-F|[^\\\[\]^&|~\u0000-\u0020-]|\\[dws\\\]\[^-])"
    group = rf"(?:{single}|\[\^?{member}+\])"
    count = r"(?:[*+?]\??|\{[0-9]{1,2}\})?"
    for _ in range(3):
        branch = rf"\^?(?:{group}{count})*\$?"
        group = rf"(?:{single}|\[\^?{member}+\]|\((?:\?:)?{branch}(?:\|{branch})*\))"
    branch = rf"\^?(?:{group}{count})*\$?"
    return rf"{branch}(?:\|{branch})*"


def _all(pool: Pool, pattern: str) -> Rx:
    """Values that match as a whole."""
    return ecma_search(pool, f"^(?:{pattern})$")


def _dated(pattern: str) -> Callable[[Pool], Rx]:
    return lambda pool: pool.and_(_all(pool, pattern), pool.not_(ecma_search(pool, "^0000")))


def _whole(pattern: str) -> Callable[[Pool], Rx]:
    return lambda pool: _all(pool, pattern)


def _labels(pool: Pool, word: str, longest: int) -> Rx:
    """Labels of at most ``longest`` bytes, of letters and digits with single hyphens between them, joined by dots.

    Two hyphens in the third and fourth place are reserved, and which ``xn--`` labels are right rests on Unicode
    tables, so hyphens never stand side by side there. The lengths are met by intersection, which keeps the
    automaton deterministic.
    """
    label = pool.and_(
        _all(pool, rf"{word}+(?:-+{word}+)*"),
        pool.repeat(pool.any_byte, 1, longest),
        pool.not_(ecma_search(pool, "^..--")),
    )
    return pool.concat(label, pool.star(pool.concat(pool.literal(b"."), label)))


def _hostname(pool: Pool) -> Rx:
    return pool.and_(_labels(pool, "[A-Za-z0-9]", 63), pool.repeat(pool.any_byte, 1, 253))


def _idn_hostname(pool: Pool) -> Rx:
    """Labels of characters that every version of IDNA takes as they are, short enough for their ASCII form."""
    western = r"a-z0-9\u00E0-\u00F6\u00F8-\u00FF\u03B1-\u03C1\u03C3-\u03C9\u0430-\u044F"
    letters = rf"[{western}\u3041-\u3096\u4E00-\u9FA5\uAC00-\uD7A3]"
    return pool.and_(_labels(pool, letters, 36), pool.repeat(pool.any_byte, 1, 120))


def _mail(local: str, domain: Callable[[Pool], Rx]) -> Callable[[Pool], Rx]:
    def language(pool: Pool) -> Rx:
        host = pool.alt(domain(pool), _all(pool, _ADDRESS_LITERAL))
        before = pool.and_(_all(pool, local), pool.repeat(pool.any_byte, 1, 64))
        return pool.concat(before, pool.literal(b"@"), host)

    return language


FORMATS: Final[Mapping[str, Callable[[Pool], Rx]]] = MappingProxyType(
    {
        "date": _dated(_DATE),
        "date-time": _dated(rf"{_DATE}[Tt]{_TIME}"),
        "duration": _whole(_DURATION),
        "email": _mail(_LOCAL, _hostname),
        "hostname": _hostname,
        "idn-email": _mail(rf"{_ANY_ATOM}(?:\.{_ANY_ATOM})*", _idn_hostname),
        "idn-hostname": _idn_hostname,
        "ipv4": _whole(_IPV4),
        "ipv6": _whole(_IPV6),
        "iri": _whole(_IRI),
        "iri-reference": _whole(rf"(?:{_IRI}|{_IRI_RELATIVE})"),
        "json-pointer": _whole(_POINTER),
        "regex": _whole(_simple_regex()),
        "relative-json-pointer": _whole(_RELATIVE_POINTER),
        "time": _whole(_TIME),
        "uri": _whole(_URI),
        "uri-reference": _whole(rf"(?:{_URI}|{_RELATIVE})"),
        "uri-template": _whole(_uri_template()),
        "uuid": _whole(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    }
)


def format_language(pool: Pool, name: str) -> Rx:
    """The language of one of ``FORMATS``."""
    return FORMATS[name](pool)
