"""Keys of dicts: each name that is let through is read back as a key, whatever its type, or the type is refused."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Optional

import pydantic
import pytest
from pydantic import Field

from radixrt.errors import UnsupportedConstraint


class Words(enum.Enum):
    A = "a"
    ONE = "1"


class Numbers(enum.Enum):
    A = 1
    B = 2


class Mixed(enum.Enum):
    R = "r"
    G = 2


class Half(enum.Enum):
    A = 0.5


class Nothing(enum.Enum):
    A = None


class Yes(enum.Enum):
    A = True


class Ints(enum.IntEnum):
    A = 1
    B = -2


class Texts(enum.StrEnum):
    A = "x"
    B = 'q"uote'


class OldTexts(str, enum.Enum):  # noqa: UP042  # as people wrote before there was a StrEnum
    A = "x"


class Floats(float, enum.Enum):
    A = 0.5
    B = 2.0


class Bits(enum.IntFlag):
    A = 1
    B = 2
    C = 4


class Flags(enum.Flag):
    A = 1
    B = 2


class Twice(enum.Enum):
    A = "a"
    B = "a"
    C = "c"


class Guessing(enum.Enum):
    A = "a"
    B = 2

    @classmethod
    def _missing_(cls, value: object) -> Guessing:
        return cls.A


UserId = NewType("UserId", int)
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Words, Numbers, Mixed, Half, Nothing, Yes, Ints, Texts, OldTexts, Floats, Bits, Flags, Twice, Guessing),
        *(int, bool, float, str, bytes, complex, datetime.date, datetime.datetime, datetime.time),
        *(datetime.timedelta, uuid.UUID, decimal.Decimal, fractions.Fraction, pathlib.Path),
        *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
        *(pydantic.HttpUrl, pydantic.SecretStr, pydantic.ByteSize, UserId),
    )
} | {
    "any": Any,
    "literal": Literal["a", "1"],
    "literal of ints": Literal[1, 2],
    "literal of both": Literal[1, "a"],
    "literal of texts": Literal[Texts.A],
    "literal of members": Literal[Texts.A, Ints.A],
    "literal of true": Literal[True],
    "base 64": pydantic.Base64Bytes,
    "above 0": pydantic.PositiveInt,
    "from 3": Annotated[int, Field(ge=3)],
    "between": Annotated[int, Field(gt=-12, lt=105)],
    "below -7": Annotated[int, Field(le=-7)],
    "multiple": Annotated[int, Field(multiple_of=3)],
    "pattern": Annotated[str, Field(pattern="^[a-z]{1,3}$")],
    "lengths": Annotated[str, Field(min_length=2, max_length=3)],
    "stripped": Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)],
    "lower": Annotated[str, pydantic.StringConstraints(to_lower=True)],
    "optional": Optional[datetime.date],  # noqa: UP045
    "int or str": int | str,
    "int or date": int | datetime.date,
    "enum or uuid": Ints | uuid.UUID,
    "bool or int": bool | int,
    "from the left": Annotated[int | str, Field(union_mode="left_to_right")],
    "tuple": tuple[int, int],
    "frozenset": frozenset[int],
    "aware": pydantic.AwareDatetime,
    "past": pydantic.PastDate,
    "after 2020": Annotated[datetime.date, Field(gt=datetime.date(2020, 1, 1))],
    "checked int": Annotated[int, pydantic.AfterValidator(lambda value: value)],
    "checked before": Annotated[int, pydantic.BeforeValidator(lambda value: value)],
    "strict int": Annotated[int, Field(strict=True)],
    "strict enum": Annotated[Ints, Field(strict=True)],
    "strict date": Annotated[datetime.date, Field(strict=True)],
}
REFUSED = {
    *("Numbers", "Mixed", "Half", "Nothing", "Flags", "Guessing"),
    *("float", "complex", "Decimal", "Fraction", "ByteSize", "tuple", "frozenset", "multiple"),
    *("literal of ints", "literal of both", "literal of members"),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("form", ["dict", "Counter", "values"])
def test_every_name_that_is_let_through_is_read(name: str, form: str, constrained: Callable[[Any], Any]) -> None:
    class Values(pydantic.BaseModel, use_enum_values=True):
        inner: dict[KINDS[name], int]  # type: ignore[valid-type]

    kind = {"dict": dict[KINDS[name], int], "Counter": collections.Counter[KINDS[name]], "values": Values}[form]  # type: ignore[valid-type]
    if name in REFUSED:
        with pytest.raises(UnsupportedConstraint) as caught:
            constrained(kind)
        assert caught.value.keyword in ("keys", "multiple_of")
        assert str(caught.value.location).endswith("{key}")
        return
    constrained(kind).check_walks()


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (Words, ["a", "1"], ["A", "2", ""]),
        (Ints, ["1", "-2"], ["0", "A"]),
        (Yes, ["true"], ["false", "1"]),
        (Floats, ["0.5", "2.0"], ["0.50", "3"]),
        (Bits, ["1", "2", "4"], ["8"]),
        (Annotated[int, Field(ge=3)], ["3", "10", "999"], ["2", "-3", "03", "3.0"]),
        (Annotated[int, Field(gt=-12, lt=105)], ["-11", "0", "104"], ["-12", "105", "-0"]),
        (Annotated[int, Field(lt=0)], ["-1", "-99"], ["0", "1"]),
    ],
)
def test_names_of_keys(kind: Any, taken: list[str], refused: list[str], constrained: Callable[[Any], Any]) -> None:
    found = constrained(dict[kind, int])
    assert [name for name in taken if not found.takes(json.dumps({name: 1}, separators=(",", ":")))] == []
    assert [name for name in refused if found.takes(json.dumps({name: 1}, separators=(",", ":")))] == []
