"""The formats of the specification as regular languages over the string's value.

Each is spelled as an ECMA-262 pattern that the whole value must match, plus patterns it must not match. Where
the standard behind a format is not regular or rests on tables, the language is a part of it that is certainly
right, and says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from radixrt.grammar.json_schema.idn_labels import idn_hostname
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex import searching_term
from radixrt.grammar.regex_ast import Node
from radixrt.grammar.regex_ecma import parse_ecma
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
# RFC 6531 adds every character beyond ASCII.
_ANY_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10FFFF}-]+"
_ANY_QUOTED: Final = r'"(?:[ !#-\[\]-~\u0080-\u{10FFFF}]|\\[ -~])*"'
_ANY_LOCAL: Final = rf"(?:{_ANY_ATOM}(?:\.{_ANY_ATOM})*|{_ANY_QUOTED})"
# --- URIs (RFC 3986, RFC 3987, RFC 6570) -----------------------------------------------------------

_UCS: Final = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 0xE))
    + r"\u{E1000}-\u{EFFFD}"
)
_PRIVATE: Final = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"


def _reference(letters: str, private: str) -> tuple[str, str]:
    """The patterns of a URI with scheme and of a relative reference.

    ``letters`` are unreserved too; ``private`` may stand in a query.
    """
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
    tail = rf"(?:\?(?:{char}|[/?{private}])*)?(?:#(?:{char}|[/?])*)?"
    scheme = r"[A-Za-z][A-Za-z0-9+.-]*"
    uri = rf"{scheme}:(?://{authority}(?:/{char}*)*|{absolute}|{char}+(?:/{char}*)*|){tail}"
    relative = rf"(?://{authority}(?:/{char}*)*|{absolute}|{colonless}+(?:/{char}*)*|){tail}"
    return uri, relative


_URI, _RELATIVE = _reference("", "")
_IRI, _IRI_RELATIVE = _reference(_UCS, _PRIVATE)


def _uri_template() -> str:
    escaped = "%[0-9A-Fa-f]{2}"
    literal = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{escaped})"
    char = rf"(?:[A-Za-z0-9_]|{escaped})"
    variable = rf"{char}+(?:\.{char}+)*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*"


# --- the rest --------------------------------------------------------------------------------------

_POINTER: Final = r"(?:/(?:[^~/]|~[01])*)*"
_RELATIVE_POINTER: Final = rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})"


@functools.lru_cache(maxsize=64)
def _tree(pattern: str) -> Node:
    """The patterns of this module are read once."""
    return parse_ecma(pattern, GrammarLimits())


def _search(pool: Pool, pattern: str) -> Rx:
    return searching_term(pool, _tree(pattern))


def _all(pool: Pool, pattern: str) -> Rx:
    """Values that match as a whole."""
    return _search(pool, f"^(?:{pattern})$")


def _dated(pattern: str) -> Callable[[Pool], Rx]:
    return lambda pool: pool.and_(_all(pool, pattern), pool.not_(_search(pool, "^0000")))


def _whole(pattern: str) -> Callable[[Pool], Rx]:
    return lambda pool: _all(pool, pattern)


def _label(pool: Pool) -> Rx:
    """A label in ASCII: letters and digits with hyphens between them, 63 bytes at most.

    Two hyphens in the third and fourth place are reserved, and which ``xn--`` labels are right is not regular, so
    hyphens never stand side by side there. The lengths are met by intersection, which keeps the automaton
    deterministic.
    """
    return pool.and_(
        _all(pool, "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"),
        pool.repeat(pool.any_byte, 1, 63),
        pool.not_(_search(pool, "^..--")),
    )


def _hostname(pool: Pool) -> Rx:
    label = _label(pool)
    name = pool.concat(label, pool.star(pool.concat(pool.literal(b"."), label)))
    return pool.and_(name, pool.repeat(pool.any_byte, 1, 253))


def _idn_hostname(pool: Pool) -> Rx:
    return idn_hostname(pool, _label(pool))


def _regex(pool: Pool) -> Rx:
    """Regular expressions are not a regular language: groups are taken up to three deep.

    Only what ECMAScript and the usual other dialects have in common, as a validator may read either.
    """
    single = _all(
        pool,
        r"[^\\^$.|?*+()\[\]{}/\u0000-\u001F]|\\[dDwWsStnrfv0^$\\.*+?()\[\]{}|/]|\\(?:x|u00)[0-9A-Fa-f]{2}|\."
        r"|\[\^?(?:a-z|A-Z|0-9|a-f|A-F|[^\\\[\]^&|~\u0000-\u0020-]|\\[dws\\\]\[^-])+\]",
    )
    count = _all(pool, r"(?:(?:[*+?]|\{[0-9]{1,2},?\})\??)?")
    start, end, bar = pool.opt(pool.literal(b"^")), pool.opt(pool.literal(b"$")), pool.literal(b"|")
    opening, looking = _all(pool, r"\((?:\?:)?"), _all(pool, r"\(\?[=!]")
    unit, edge = single, _all(pool, r"\\[bB]")
    for _ in range(3):
        branch = pool.concat(start, pool.star(pool.alt(pool.concat(unit, count), edge)), end)
        branches = pool.concat(branch, pool.star(pool.concat(bar, branch)))
        unit = pool.alt(single, pool.concat(opening, branches, pool.literal(b")")))
        edge = pool.alt(edge, pool.concat(looking, branches, pool.literal(b")")))
    branch = pool.concat(start, pool.star(pool.alt(pool.concat(unit, count), edge)), end)
    return pool.concat(branch, pool.star(pool.concat(bar, branch)))


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
        "idn-email": _mail(_ANY_LOCAL, _idn_hostname),
        "idn-hostname": _idn_hostname,
        "ipv4": _whole(_IPV4),
        "ipv6": _whole(_IPV6),
        "iri": _whole(_IRI),
        "iri-reference": _whole(rf"(?:{_IRI}|{_IRI_RELATIVE})"),
        "json-pointer": _whole(_POINTER),
        "regex": _regex,
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
