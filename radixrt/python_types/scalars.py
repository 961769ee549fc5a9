"""The JSON Schema of the types that are written as one number or one string, from pydantic's core schema of them.

Where a parser is stricter than the nearest keyword, the schema is narrowed until it takes no text that the parser
refuses or shortens. A limit that has no counterpart raises ``Unserved`` with its name. This module does not know
fields, classes or JSON Schemas of other types.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from radixrt.python_types import texts
from radixrt.python_types.patterns import ecma_pattern
from radixrt.python_types.ranges import decimal_bound
from radixrt.python_types.unserved import Unserved

__all__ = ["SCALARS"]

_BOUNDS: Final = MappingProxyType(
    {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
)
_LARGEST_FLOAT: Final = 1.7976931348623157e308
_EXACT_DIGITS: Final = 15  # of a JSON number, which pydantic reads as a float before it makes a Decimal of it
_WHOLE_DIGITS: Final = 28  # as many as a Decimal context works with
_PLACES_OF_NUMBERS: Final = 4  # more decimal places are written in a string
_TRIMMED: Final = r"^(?:[^\s\u0085](?:[\s\S]*[^\s\u0085])?)?$"
_DAY: Final = datetime.timedelta(days=1)

Core = Mapping[str, Any]


def _present(schema: Core, *names: str) -> dict[str, Any]:
    return {name: schema[name] for name in names if schema.get(name) is not None}


# --- numbers ----------------------------------------------------------------------------------------------------


def integer(schema: Core, config: Core) -> dict[str, Any]:
    """An ``int`` within its bounds."""
    found: dict[str, Any] = {"type": "integer"}
    for name, bound in _present(schema, *_BOUNDS).items():
        if not (isinstance(bound, float) and math.isinf(bound)):
            found[_BOUNDS[name]] = _plain(bound)
    if schema.get("multiple_of") is not None:
        found["multipleOf"] = _plain(schema["multiple_of"])
    return found


def _plain(bound: Any) -> int | float:
    """A bound as JSON holds it, exactly."""
    if isinstance(bound, int):
        return int(bound)
    if bound == int(bound):
        return int(bound)
    if Decimal(bound) != Decimal(repr(float(bound))) and not isinstance(bound, float):
        raise Unserved("bound", f"the bound {bound}, which no float holds exactly,")
    return float(bound)


def number(schema: Core, config: Core) -> dict[str, Any]:
    """A ``float``. Bounds that exclude their own value move to the next float, for digits beyond a float round."""
    found: dict[str, Any] = {"type": "number"}
    low, high = -math.inf, math.inf
    for name, bound in _present(schema, *_BOUNDS).items():
        value = float(bound)
        if name == "ge":
            low = max(low, value)
        elif name == "gt":
            low = max(low, math.nextafter(value, math.inf))
        elif name == "le":
            high = min(high, value)
        else:
            high = min(high, math.nextafter(value, -math.inf))
    if not schema.get("allow_inf_nan", config.get("allow_inf_nan", True)):
        low, high = max(low, -_LARGEST_FLOAT), min(high, _LARGEST_FLOAT)
    if low > -math.inf:
        found["minimum"] = low
    if high < math.inf:
        found["maximum"] = high
    if schema.get("multiple_of") is not None:
        found["multipleOf"] = _plain(schema["multiple_of"])
    return found


def decimal(schema: Core, config: Core) -> dict[str, Any]:
    """A ``Decimal``: a JSON number of at most 15 digits, which a float holds exactly, or a string of any."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    bounds = _present(schema, *_BOUNDS)
    if schema.get("multiple_of") is not None:
        return _decimal_number(bounds, _EXACT_DIGITS, _PLACES_OF_NUMBERS, schema["multiple_of"])
    conditions = [
        f"^{decimal_bound(Decimal(bound), above=name in ('ge', 'gt'), strictly=name in ('gt', 'lt'))}$"
        for name, bound in bounds.items()
    ]
    in_string = _with_patterns(texts.whole(_decimal_text(digits, places)), conditions)
    return {"anyOf": [*_decimal_numbers(bounds, digits, places), in_string]}


def _decimal_numbers(bounds: dict[str, Any], digits: int | None, places: int | None) -> list[dict[str, Any]]:
    exact = _EXACT_DIGITS if digits is None else min(digits, _EXACT_DIGITS)
    finest = _PLACES_OF_NUMBERS if places is None else min(places, _PLACES_OF_NUMBERS)
    if digits is None or places is not None:
        # With both limits the places count among the digits even where they are not used.
        whole = exact - (finest if digits is None else min(places or 0, exact))
        return [_decimal_number(bounds, whole + finest, finest)]
    # Each place fewer is a digit more in front of the point.
    return [_decimal_number(bounds, exact, taken) for taken in range(min(finest, exact) + 1)]


def _decimal_number(
    bounds: dict[str, Any], digits: int, places: int, multiple: Decimal | None = None
) -> dict[str, Any]:
    """Numbers of so many digits, of which so many stand behind the point, within the bounds."""
    found: dict[str, Any] = {"type": "number", "multipleOf": _plain(Decimal(1).scaleb(-places))}
    if multiple is not None:
        found["multipleOf"] = _plain(Decimal(multiple))
    largest = Decimal("9" * max(digits, 1)).scaleb(-places) if digits else Decimal(0)
    limits = {"minimum": -largest, "maximum": largest}
    for name, bound in bounds.items():
        value = Decimal(bound)
        keyword = _BOUNDS[name]
        if name in ("gt", "lt"):
            limits[keyword] = value
        else:
            limits[keyword] = max(limits[keyword], value) if name == "ge" else min(limits[keyword], value)
    return {**found, **{keyword: _plain(value) for keyword, value in limits.items()}}


def _decimal_text(digits: int | None, places: int | None) -> str:
    """Without exponent and needless zeros, within the limits of digits and places."""
    if digits is None:
        return "-?" + _digits(_WHOLE_DIGITS, _WHOLE_DIGITS if places is None else places)
    if places is not None:
        return "-?" + _digits(max(digits - places, 0), min(places, digits))
    return "-?(?:" + "|".join(_digits(digits - taken, taken) for taken in range(digits + 1)) + ")"


def _digits(whole: int, places: int) -> str:
    before = "0" if whole == 0 else f"(?:0|[1-9][0-9]{{0,{whole - 1}}})"
    return before if places == 0 else rf"{before}(?:\.[0-9]{{1,{places}}})?"


def fraction(schema: Core, config: Core) -> dict[str, Any]:
    """A ``Fraction`` as ``numerator/denominator``."""
    if bounds := _present(schema, *_BOUNDS):
        name = next(iter(bounds))
        raise Unserved(name, f"{name} of a Fraction")
    return texts.whole(texts.FRACTION)


def complex_number(schema: Core, config: Core) -> dict[str, Any]:
    """A ``complex`` as Python writes it, without brackets."""
    return texts.whole(texts.COMPLEX)


# --- strings ----------------------------------------------------------------------------------------------------


def string(schema: Core, config: Core) -> dict[str, Any]:
    """A ``str`` that keeps its limits and that no option of its type would shorten or change in case (of ASCII)."""
    found: dict[str, Any] = {"type": "string"}
    for name, keyword in (("min_length", "minLength"), ("max_length", "maxLength")):
        limit = schema.get(name, config.get("str_" + name))
        if limit:
            found[keyword] = limit
        elif limit == 0 and name == "max_length":
            found[keyword] = 0
    patterns = []
    if schema.get("pattern") is not None:
        engine = schema.get("regex_engine", config.get("regex_engine", "rust-regex"))
        try:
            patterns.append(ecma_pattern(schema["pattern"], python=engine == "python-re"))
        except ValueError as error:
            raise Unserved("pattern", f"pattern {schema['pattern']!r}: {error}") from None
    options = {
        "strip_whitespace": _TRIMMED,
        "to_lower": "^[^A-Z]*$",
        "to_upper": "^[^a-z]*$",
        "ascii_only": r"^[\u0000-\u007F]*$",
    }
    for name, pattern in options.items():
        if schema.get(name, config.get("str_" + name)):
            patterns.append(pattern)
    return _with_patterns(found, patterns)


def _with_patterns(found: dict[str, Any], patterns: list[str]) -> dict[str, Any]:
    if len(patterns) == 1 and "pattern" not in found:
        found["pattern"] = patterns[0]
    elif patterns:
        found["allOf"] = [{"pattern": pattern} for pattern in patterns]
    return found


def octets(schema: Core, config: Core) -> dict[str, Any]:
    """``bytes`` as their text, or as base 64 or hexadecimal digits where the type says so."""
    coding = config.get("val_json_bytes", "utf8")
    limits = _present(schema, "min_length", "max_length")
    if coding != "utf8":
        if limits:
            name = next(iter(limits))
            raise Unserved(name, f"{name} of bytes in {coding}")
        return texts.whole(texts.HEX if coding == "hex" else texts.BASE64_URL)
    found: dict[str, Any] = {"type": "string"}
    if limits:
        # The limits count bytes, the keywords characters; in ASCII they are the same.
        found["pattern"] = r"^[\u0000-\u007F]*$"
        found |= {
            {"min_length": "minLength", "max_length": "maxLength"}[name]: limit for name, limit in limits.items()
        }
    return found


def uuid(schema: Core, config: Core) -> dict[str, Any]:
    """A ``UUID`` with hyphens, in lower case."""
    return texts.whole(texts.uuid_text(schema.get("version")))


def url(schema: Core, config: Core) -> dict[str, Any]:
    """A URL with a host: names in ASCII, ports that exist."""
    found = texts.whole(texts.url_text(schema.get("allowed_schemes")))
    if schema.get("max_length") is not None:
        found["maxLength"] = schema["max_length"]
    return found


# --- dates and times --------------------------------------------------------------------------------------------


def date(schema: Core, config: Core) -> dict[str, Any]:
    """A ``date``. One in the past is before today; one in the future two days ahead, for parsing may be late."""
    bounds = _present(schema, *_BOUNDS)
    found = {"type": "string", "format": "date"}
    now = schema.get("now_op")
    conditions = texts.date_bounds(bounds)
    if now is not None:
        today = datetime.date.today()
        conditions += texts.date_bounds({"lt": today} if now == "past" else {"gt": today + _DAY})
    return _with_patterns(found, conditions)


def moment(schema: Core, config: Core) -> dict[str, Any]:
    """A ``datetime``, with or without offset unless its type says which.

    Beside a bound without offset it has none, beside one with an offset it is in UTC. One in the past or future is
    so by two days, whatever the offset.
    """
    bounds = _present(schema, *_BOUNDS)
    zone = schema.get("tz_constraint")
    conditions = texts.datetime_bounds(bounds)
    if bounds:
        aware = {bound.tzinfo is not None for bound in bounds.values()}
        if len(aware) == 2 or zone not in (None, "aware" if True in aware else "naive"):
            raise Unserved("bounds", "bounds with and without an offset")
        zone = 0 if True in aware else "naive"
    if schema.get("now_op") is not None:
        today = datetime.datetime.now(datetime.UTC).date()
        past = schema["now_op"] == "past"
        limit = {"lt": today - _DAY} if past else {"gt": today + 3 * _DAY}
        conditions += [pattern.removesuffix("$") for pattern in texts.date_bounds(limit)]
    return _with_patterns(texts.whole(texts.datetime_text(zone)), conditions)


def clock_time(schema: Core, config: Core) -> dict[str, Any]:
    """A ``time`` of day; beside a bound it has no offset."""
    bounds = _present(schema, *_BOUNDS)
    zone = schema.get("tz_constraint")
    if not bounds:
        return texts.whole(texts.time_text(zone))
    if zone == "aware" or any(bound.tzinfo is not None for bound in bounds.values()):
        raise Unserved("bounds", "bounds of a time with an offset")
    return _with_patterns(texts.whole(texts.time_text("naive")), texts.datetime_bounds(bounds))


def duration(schema: Core, config: Core) -> dict[str, Any]:
    """A ``timedelta`` as an ISO 8601 duration, short of the range's end."""
    if bounds := _present(schema, *_BOUNDS):
        name = next(iter(bounds))
        raise Unserved(name, f"{name} of a timedelta")
    return texts.whole(texts.DURATION)


SCALARS: Final = MappingProxyType(
    {
        "int": integer,
        "float": number,
        "decimal": decimal,
        "fraction": fraction,
        "complex": complex_number,
        "str": string,
        "bytes": octets,
        "uuid": uuid,
        "url": url,
        "multi-host-url": url,
        "date": date,
        "datetime": moment,
        "time": clock_time,
        "timedelta": duration,
    }
)
