"""How values that JSON has no type for are spelled as strings: patterns (ECMA-262, searched) of what parsers take.

Each language is a part of what pydantic's parser reads that loses nothing: no digits that would be cut off, no
dates that do not exist, no numbers out of range. What pydantic writes for a value is inside, wherever its own
reader takes it.
Sources: RFC 3339 (dates and times), ISO 8601-2 (durations), the URL Standard (hosts, ports), RFC 5321 (addresses),
RFC 4648 (base 64), RFC 9562 (UUID). This module does not know pydantic.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from radixrt.python_types.ranges import any_of, fixed_bound, fraction_bound
from radixrt.python_types.unserved import Unserved

__all__ = [
    "BASE64",
    "BASE64_URL",
    "COMPLEX",
    "DURATION",
    "EMAIL",
    "FRACTION",
    "HEX",
    "IPV4_INTERFACE",
    "IPV4_NETWORK",
    "IPV6_INTERFACE",
    "date_bounds",
    "datetime_bounds",
    "datetime_text",
    "time_text",
    "url_text",
    "uuid_text",
    "whole",
]


def whole(pattern: str) -> dict[str, Any]:
    """A string that the pattern matches from end to end."""
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


# --- dates, times, durations ------------------------------------------------------------------------------------

_LEAP_YEAR: Final = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY: Final = (
    r"(?!0000)(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    rf"|{_LEAP_YEAR}-02-29)"
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_PART: Final = r"(?:\.[0-9]{1,6})?"
_OFFSET: Final = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"


def _zone(constraint: str | int | None) -> str:
    """The offset from UTC: free, demanded, forbidden, or one number of seconds."""
    if constraint is None:
        return f"{_OFFSET}?"
    if constraint == "aware":
        return _OFFSET
    if constraint == "naive":
        return ""
    minutes, seconds = divmod(abs(int(constraint)), 60)
    if seconds or minutes >= 24 * 60:
        raise Unserved("tz_constraint", f"an offset of {constraint} seconds, which is not of hours and minutes,")
    sign = "-" if int(constraint) < 0 else "[+]"
    return "(?:Z|[+-]00:00)" if minutes == 0 else f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def datetime_text(zone: str | int | None) -> str:
    """A date that exists, ``T``, the time of day with at most six digits of a second, the offset."""
    return f"{_DAY}T{_CLOCK}{_PART}{_zone(zone)}"


def time_text(zone: str | int | None) -> str:
    """The time of day; seconds are always written."""
    return f"{_CLOCK}{_PART}{_zone(zone)}"


def date_bounds(bounds: dict[str, datetime.date]) -> list[str]:
    """Patterns for dates that keep ``gt``, ``ge``, ``lt`` and ``le``."""
    return [
        "^"
        + fixed_bound(bound.isoformat(), above=name in ("gt", "ge"), equal=None if name in ("gt", "lt") else "")
        + "$"
        for name, bound in bounds.items()
    ]


def datetime_bounds(bounds: dict[str, datetime.datetime] | dict[str, datetime.time]) -> list[str]:
    """Patterns for times, all without offset or all in UTC, that keep the bounds.

    They say nothing of what stands behind the seconds and their fraction.
    """
    found = []
    for name, bound in bounds.items():
        if isinstance(bound, datetime.datetime) and bound.tzinfo is not None:
            bound = bound.astimezone(datetime.UTC)
        text, _, fraction = bound.replace(tzinfo=None).isoformat(timespec="microseconds").partition(".")
        above, strictly = name in ("gt", "ge"), name in ("gt", "lt")
        rest = fraction_bound(fraction, above=above, strictly=strictly)
        equal = None if rest is None else rf"{rest}(?![.0-9])"
        found.append("^" + fixed_bound(text, above=above, equal=equal))
    return found


# Days stay below the 999,999,999 that fit. A year is 365 of them to pydantic, which writes years and never months.
_SECONDS: Final = rf"[0-9]{{1,9}}{_PART}S"
_TIME_PARTS: Final = rf"T(?:[0-9]{{1,6}}H(?:[0-9]{{1,6}}M)?(?:{_SECONDS})?|[0-9]{{1,6}}M(?:{_SECONDS})?|{_SECONDS})"
_DAYS: Final = r"(?:(?:[0-9]{1,6}Y)?[0-9]{1,8}D|[0-9]{1,6}Y)"
DURATION: Final = rf"-?P(?:[0-9]{{1,7}}W|{_DAYS}(?:{_TIME_PARTS})?|{_TIME_PARTS})"

# --- numbers in strings -----------------------------------------------------------------------------------------

_UNSIGNED: Final = r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?"
COMPLEX: Final = rf"-?{_UNSIGNED}(?:j|[+-]{_UNSIGNED}j)?"
FRACTION: Final = r"-?(?:0|[1-9][0-9]{0,39})(?:/[1-9][0-9]{0,39})?"

# --- bytes ------------------------------------------------------------------------------------------------------


def _base64(two: str) -> str:
    """Groups of four; the bits that padding leaves over are zero."""
    digit = f"[A-Za-z0-9{two}]"
    return rf"(?:{digit}{{4}})*(?:{digit}[AQgw]==|{digit}{{2}}[AEIMQUYcgkosw048]=)?"


BASE64: Final = _base64("+/")
BASE64_URL: Final = _base64("_-")
HEX: Final = r"(?:[0-9a-f]{2})*"


def uuid_text(version: int | None) -> str:
    """Lower case, as ``str(uuid)`` writes it; a version also fixes the variant."""
    digits = "[0-9a-f]"
    middle = f"{digits}{{4}}-{digits}{{4}}" if version is None else f"{version:x}{digits}{{3}}-[89ab]{digits}{{3}}"
    return f"{digits}{{8}}-{digits}{{4}}-{middle}-{digits}{{12}}"


# --- networks ---------------------------------------------------------------------------------------------------

_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
IPV4_INTERFACE: Final = rf"{_IPV4}(?:/(?:3[0-2]|[12]?[0-9]))?"


_GROUP: Final = "[0-9a-f]{1,4}"


def _ipv6() -> str:
    """Eight groups, lower case; one run of zero groups may be ``::``."""
    choices = [rf"(?:{_GROUP}:){{7}}{_GROUP}", rf"(?:{_GROUP}(?::{_GROUP}){{0,6}})?::"]
    choices += [
        rf"(?:{_GROUP}(?::{_GROUP}){{0,{6 - after}}})?::{_GROUP}(?::{_GROUP}){{{after - 1}}}"
        for after in range(1, 7)
    ]
    choices.append(rf"::{_GROUP}(?::{_GROUP}){{6}}")
    return any_of(choices)


IPV6_INTERFACE: Final = rf"{_ipv6()}(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"


def _ipv4_network() -> str:
    """An address whose bits behind the prefix are zero."""
    choices = [rf"{_IPV4}(?:/32)?"]
    for prefix in range(32):
        octets, bits = divmod(prefix, 8)
        parts = [_OCTET] * octets
        if bits:
            parts.append(any_of([str(value) for value in range(0, 256, 1 << (8 - bits))]))
        parts += ["0"] * (4 - len(parts))
        choices.append(r"\.".join(parts) + f"/{prefix}")
    return any_of(choices)


IPV4_NETWORK: Final = _ipv4_network()

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label starts with a letter, or the host would be read as a number; labels of Punycode rest on tables.
_HOST: Final = rf"(?:{_IPV4}|(?!xn--)(?:(?!xn--){_LABEL}\.){{0,8}}(?!xn--)[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?)"
_PORT: Final = r"(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_USER: Final = r"(?:[A-Za-z0-9._~-]+(?::[A-Za-z0-9._~-]*)?@)?"
_PATH: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})*"


def url_text(schemes: list[str] | None) -> str:
    """``scheme://user:password@host:port/path?query#fragment``; any scheme, or one of those."""
    scheme = (
        r"[a-z][a-z0-9+.-]{0,30}"
        if schemes is None
        else any_of([name.replace("+", r"\+").replace(".", r"\.") for name in schemes])
    )
    return rf"{scheme}://{_USER}{_HOST}(?::{_PORT})?(?:/{_PATH})?(?:\?{_PATH})?(?:#{_PATH})?"


# Domains that are reserved for special use (RFC 6761 and later) are no addresses.
EMAIL: Final = (
    r"(?=[^@]{1,64}@)[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@"
    rf"(?:(?!..--){_LABEL}\.){{1,3}}"
    r"(?!(?:arpa|invalid|local|localhost|onion|test)$)[a-z]{2,24}"
)
