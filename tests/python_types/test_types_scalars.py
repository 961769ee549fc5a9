"""Scalars: every text of the constraint is parsed into the type, and what the type writes is in the constraint."""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import pathlib
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import annotated_types as at
import pydantic
import pytest
from pydantic import Field

# pydantic warns that it cannot keep a person from changing read-only members.
pytestmark = pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")

D = decimal.Decimal
DT = datetime.datetime
UTC = datetime.UTC


class Trimmed(pydantic.BaseModel, str_strip_whitespace=True, str_min_length=1, str_to_lower=True):
    name: str


class Base64Bytes(pydantic.BaseModel, val_json_bytes="base64", ser_json_bytes="base64"):
    data: bytes


class HexBytes(pydantic.BaseModel, val_json_bytes="hex", ser_json_bytes="hex"):
    data: bytes


class PythonPattern(pydantic.BaseModel, regex_engine="python-re"):
    word: str = Field(pattern=r"^(?!no)\w+\b(?<!x)$")


# A type, and values of it that pydantic writes.
TABLE: list[tuple[Any, list[Any]]] = [
    (int, [0, -1, 10**30]),
    (Annotated[int, at.Interval(gt=-3, le=12), at.MultipleOf(3)], [0, 12]),
    (float, [0.0, 1.5, -2.5, 1e-7, 1e300]),
    (Annotated[float, Field(gt=0, lt=0.3)], [0.1, 0.29]),
    (Annotated[float, at.Ge(-1.5), at.Le(2)], [-1.5, 2.0, 0.001]),
    (pydantic.FiniteFloat, [1.5, -0.25]),
    (bool, [True]),
    (None, [None]),
    (str, ["", 'a"\\\n\u00e9\U0001f600']),
    (Annotated[str, Field(min_length=2, max_length=3)], ["ab", "a\u00e9\U0001f600"]),
    (Annotated[str, Field(pattern=r"^\d{3}-\w+$")], ["123-\u00e9_a", "\u0661\u0662\u0663-x"]),
    (Annotated[str, Field(pattern=r"(?i)b\S")], ["aB1"]),
    (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)], ["a b"]),
    (Annotated[str, pydantic.StringConstraints(to_upper=True)], ["A1"]),
    (Trimmed, [Trimmed(name="ab")]),
    (PythonPattern, [PythonPattern(word="ja")]),
    (bytes, [b"abc"]),
    (Annotated[bytes, Field(min_length=1, max_length=3)], [b"abc"]),
    (Base64Bytes, [Base64Bytes(data="_-_-"), Base64Bytes(data="AA==")]),
    (HexBytes, [HexBytes(data="00ff")]),
    (pydantic.Base64Bytes, [b"YWI="]),
    (pydantic.Base64UrlBytes, [b"YWI="]),
    (D, [D("1.50"), D("-0.001"), D(7), D("123456789012345678901234.5")]),
    (Annotated[D, Field(max_digits=5, decimal_places=2)], [D("999.99"), D("-0.1")]),
    (Annotated[D, Field(max_digits=3)], [D("0.001"), D("100"), D("-9.99")]),
    (Annotated[D, Field(decimal_places=1, ge=D("-2.5"), lt=10)], [D("-2.5"), D("9.9"), D(0)]),
    (Annotated[D, Field(gt=D("0.05"), le=D("120.5"))], [D("0.051"), D("120.50"), D("12")]),
    (Annotated[D, Field(gt=0)], [D("0.0001")]),
    (Annotated[D, Field(lt=D("-1.5"))], [D("-1.51"), D("-200")]),
    (Annotated[D, at.MultipleOf(D("0.25"))], []),
    (fractions.Fraction, [fractions.Fraction(1, 3), fractions.Fraction(-2)]),
    (complex, [1 + 2j, -0.5j]),
    (datetime.date, [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]),
    (
        Annotated[datetime.date, at.Ge(datetime.date(1999, 12, 31)), at.Lt(datetime.date(2001, 2, 1))],
        [datetime.date(2000, 1, 1)],
    ),
    (pydantic.PastDate, [datetime.date(2000, 1, 1)]),
    (pydantic.FutureDate, [datetime.date(2999, 1, 1)]),
    (DT, [DT(2024, 2, 29, 1, 2, 3), DT(1, 1, 1, tzinfo=UTC), DT(2000, 1, 1, 0, 0, 0, 5)]),
    (pydantic.AwareDatetime, [DT(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30)))]),
    (pydantic.NaiveDatetime, [DT(2024, 1, 1)]),
    (pydantic.PastDatetime, [DT(2000, 1, 1), DT(2000, 1, 1, tzinfo=UTC)]),
    (pydantic.FutureDatetime, [DT(2999, 1, 1)]),
    (
        Annotated[DT, at.Gt(DT(2020, 5, 17, 12, 30, 15, 250000)), at.Le(DT(2020, 5, 17, 12, 30, 16))],
        [DT(2020, 5, 17, 12, 30, 15, 250001)],
    ),
    (Annotated[DT, at.Ge(DT(2020, 1, 1, tzinfo=UTC))], [DT(2020, 1, 1, tzinfo=UTC)]),
    (datetime.time, [datetime.time(1, 2), datetime.time(1, 2, 3, 4, tzinfo=UTC)]),
    (
        Annotated[datetime.time, at.Ge(datetime.time(8)), at.Lt(datetime.time(17, 30))],
        [datetime.time(8), datetime.time(17, 29, 59)],
    ),
    (
        datetime.timedelta,
        [
            datetime.timedelta(days=400, seconds=5),
            datetime.timedelta(0),
            datetime.timedelta(seconds=-1.5),
            datetime.timedelta(days=365),
        ],
    ),
    (uuid.UUID, [uuid.UUID(int=5)]),
    (pydantic.UUID4, [uuid.UUID("550e8400-e29b-41d4-a716-446655440000")]),
    (pathlib.Path, [pathlib.Path("a/b")]),
    (ipaddress.IPv4Address, [ipaddress.IPv4Address("1.2.3.4")]),
    (ipaddress.IPv6Address, [ipaddress.IPv6Address("2001:db8::1")]),
    (ipaddress.IPv4Network, [ipaddress.IPv4Network("10.0.0.0/8"), ipaddress.IPv4Network("1.2.3.128/25")]),
    (ipaddress.IPv4Interface, [ipaddress.IPv4Interface("1.2.3.4/24")]),
    (ipaddress.IPv6Interface, [ipaddress.IPv6Interface("2001:db8::1/64"), ipaddress.IPv6Interface("::1")]),
    (pydantic.IPvAnyAddress, [ipaddress.IPv4Address("1.2.3.4")]),
    (
        pydantic.HttpUrl,
        [pydantic.HttpUrl("http://example.com/a?b=c#d"), pydantic.HttpUrl("https://u:p@1.2.3.4:8080")],
    ),
    (pydantic.AnyUrl, [pydantic.AnyUrl("ftp://example.com/x%20y")]),
    (pydantic.PostgresDsn, [pydantic.PostgresDsn("postgresql://u@h.example/db")]),
    (pydantic.ByteSize, [pydantic.ByteSize(5)]),
    (pydantic.SecretStr, []),
    (Annotated[pydantic.SecretStr, Field(min_length=2)], []),
    (pydantic.Secret[int], []),
]


def _name(entry: Any) -> str:
    return str(getattr(entry, "__name__", entry)).replace("typing.", "")[:60]


@pytest.mark.parametrize(("kind", "values"), TABLE, ids=[_name(kind) for kind, _ in TABLE])
def test_what_is_let_through_is_parsed_and_what_is_written_is_let_through(
    kind: Any, values: list[Any], constrained: Callable[[Any], Any]
) -> None:
    found = constrained(kind)
    found.check_walks()
    found.check_written(kind, values)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            DT,
            [
                '"2024-01-01T00:00:00.1234567Z"',
                '"2023-02-29T00:00:00"',
                '"0000-01-01T00:00:00"',
                '"2024-01-01T23:59:60Z"',
            ],
        ),
        (pydantic.AwareDatetime, ['"2024-01-01T00:00:00"']),
        (datetime.time, ['"24:00:00"', '"01:02"', '"01:02:03.1234567"']),
        (datetime.timedelta, ['"P1M"', '"P9999999999D"', '"PT1.1234567S"', '"P"', '"PT"']),
        (datetime.date, ['"2023-02-29"', '"2023-13-01"']),
        (pydantic.PastDate, ['"9999-01-01"']),
        (pydantic.FutureDate, ['"2000-01-01"']),
        (Annotated[float, Field(gt=0)], ["0", "1e-400", "-1"]),
        (Annotated[float, Field(lt=0.3)], ["0.3", "0.29999999999999999999999"]),
        (pydantic.FiniteFloat, ["1e400"]),
        (D, ["0.1234567890123456789", "1e400", '"NaN"']),
        (Annotated[D, Field(max_digits=3)], ["12.34", "1000", '"12.34"', "0.0001"]),
        (Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)], ['" "', '"a "']),
        (Annotated[bytes, Field(max_length=3)], ['"\u00e9\u00e9"']),
        (Base64Bytes, ['"A"', '"AB=="', '"A+=="']),
        (pydantic.UUID4, ['"550e8400-e29b-11d4-a716-446655440000"', '"550e8400-e29b-41d4-c716-446655440000"']),
        (ipaddress.IPv4Network, ['"1.2.3.4/24"', '"1.2.3.4/33"']),
        (
            pydantic.HttpUrl,
            ['"http://a.b:70000"', '"http://1.2.3.400"', '"ftp://a.b"', '"http://xn--a.b"', '"http:///a"'],
        ),
        (pydantic.SecretStr, ["1"]),
    ],
)
def test_what_parsing_would_refuse_or_shorten_is_not_let_through(
    kind: Any, texts: list[str], constrained: Callable[[Any], Any]
) -> None:
    found = constrained(kind)
    assert [text for text in texts if found.takes(text)] == []


def test_addresses_of_mail(constrained: Callable[[Any], Any]) -> None:
    pytest.importorskip("email_validator")
    found = constrained(pydantic.EmailStr)
    found.check_walks()
    found.check_written(pydantic.EmailStr, ["a@b.com", "john.f.doe+x@mail.example.org"])
    assert not found.takes('"a@b.test"')
