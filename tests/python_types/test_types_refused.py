"""What has no exact constraint is refused at the call by name and field; a person's own validators are named."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import re
import typing
import warnings
import zoneinfo
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import annotated_types as at
import pydantic
import pytest
from pydantic import Field

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.output_types import output_type
from radixrt.python_types import UncheckedValidatorWarning, json_schema_of

T = TypeVar("T")


class Pair(enum.Enum):
    A = (1, 2)


class Color(enum.Enum):
    RED = "red"


class Numbers(enum.Enum):
    ONE = 1


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


def kind_of(value: Any) -> str:
    return "cat"


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


def tagged(choice: Any, tag: str) -> Any:
    return Annotated[choice, pydantic.Tag(tag)]


ONE_DAY = datetime.timedelta(days=1)
REFUSED: list[tuple[Any, str, str]] = [
    (Annotated[str, at.Predicate(str.islower)], "Predicate", "Predicate(str.islower)"),
    (Annotated[int, at.Not(bool)], "Predicate", "Predicate(bool)"),
    (Annotated[datetime.timedelta, at.Gt(ONE_DAY)], "gt", "gt of a timedelta"),
    (Annotated[fractions.Fraction, Field(ge=1)], "ge", "ge of a Fraction"),
    (pydantic.FilePath, "PathType", "PathType.validate_file"),
    (pydantic.NewPath, "PathType", "PathType.validate_new"),
    (pydantic.Json[int], "json", "json"),
    (pydantic.Base64Str, "EncodedStr", "EncodedStr.decode_str"),
    (pydantic.ImportString, "import_string", "import_string"),
    (pydantic.IPvAnyNetwork, "IPvAnyNetwork", "IPvAnyNetwork._validate"),
    (re.Pattern, "pattern_either_validator", "pattern_either_validator"),
    (zoneinfo.ZoneInfo, "validate_str_is_valid_iana_tz", "validate_str_is_valid_iana_tz"),
    (type[int], "int", "int"),
    (collections.abc.Hashable, "Hashable", "Hashable"),
    (Callable[[], int], "callable", "callable"),
    (Pair, "Enum", repr(Pair.A)),
    (Literal[Color.RED], "Literal", "Color.RED of a Literal"),
    (Literal[b"x"], "Literal", "b'x'"),
    (Annotated[int, pydantic.PlainValidator(even)], "PlainValidator", "even"),
    (
        Annotated[tagged(Cat, "cat") | tagged(Dog, "dog"), pydantic.Discriminator(kind_of)],
        "Discriminator",
        "Discriminator(kind_of)",
    ),
    (
        Annotated[str, Field(pattern="[a-z&&[^b]]")],
        "pattern",
        "pattern '[a-z&&[^b]]': an operation on classes at column 4",
    ),
    (Annotated[str, pydantic.StringConstraints(pattern=re.compile(r"(a)\1"))], "pattern", "a back-reference"),
    (set[list[int]], "set", "a set of list"),
    (set[Cat], "set", "a set of model"),
    (frozenset[Any], "set", "a set of any"),
    (Annotated[set[float], Field(min_length=2)], "min_length", "min_length of a set of float"),
    (dict[float, int], "keys", "keys of type float"),
    (dict[tuple[int, int], int], "keys", "keys of type tuple"),
    (dict[Literal[1, "a"], int], "keys", "keys of Literal, whose 1 is not read"),
    (dict[Numbers, int], "keys", "keys of Numbers, whose 1 is not read"),
    (dict[Pair, int], "keys", "keys of <Pair.A"),
    (dict[Annotated[int, Field(multiple_of=3)], int], "multiple_of", "multiple_of of keys"),
    (
        Annotated[
            datetime.datetime,
            at.Gt(datetime.datetime(2020, 1, 1)),
            at.Lt(datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)),
        ],
        "bounds",
        "bounds with and without an offset",
    ),
    (Annotated[decimal.Decimal, Field(gt=decimal.Decimal("0.12345678901234567891"))], "bound", "the bound"),
]


def refusal(kind: Any) -> UnsupportedConstraint:
    with pytest.raises(UnsupportedConstraint) as caught:
        json_schema_of(kind, param="schema")
    return caught.value


@pytest.mark.parametrize(("kind", "keyword", "name"), REFUSED, ids=[name[:40] for _, _, name in REFUSED])
def test_what_has_no_exact_schema_is_refused_by_name_and_field(kind: Any, keyword: str, name: str) -> None:
    alone = refusal(kind)
    assert name in str(alone)
    assert alone.param == "schema"
    assert alone.keyword == keyword
    assert keyword.isidentifier()

    inner = pydantic.create_model("Inner", field=(kind, ...))
    outer = pydantic.create_model("Outer", many=(list[inner], ...))  # type: ignore[valid-type]
    nested = refusal(outer)
    assert str(nested.location).startswith("Outer.many[].field")
    assert str(nested.location) in str(nested)
    assert nested.keyword == keyword


class Aliases(pydantic.BaseModel):
    a: int = Field(validation_alias=pydantic.AliasPath("x", 0))
    b: int = Field(validation_alias="x")


class Backwards(pydantic.BaseModel):
    a: int = Field(validation_alias=pydantic.AliasPath("x", -1))


class HiddenButNeeded(pydantic.BaseModel):
    a: pydantic.json_schema.SkipJsonSchema[int]


@pytest.mark.parametrize("kind", [Aliases, Backwards, HiddenButNeeded])
def test_fields_that_cannot_all_be_read_are_refused(kind: Any) -> None:
    assert refusal(kind).location


@pytest.mark.parametrize(
    "kind", [range, list[cast(Any, "NoSuchName")], object(), 5, print, functools.partial(even), Generic[T]]
)
def test_what_is_no_type_is_an_invalid_request(kind: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        json_schema_of(kind, param="type")
    assert caught.value.param == "type"
    assert not isinstance(caught.value, UnsupportedConstraint)


# --- validators ---------------------------------------------------------------------------------------------------


class Checked(pydantic.BaseModel):
    number: int
    twice: Annotated[int, pydantic.AfterValidator(even)]
    items: list[Annotated[str, pydantic.BeforeValidator(str)]] = []

    @pydantic.field_validator("number")
    @classmethod
    def is_small(cls, value: int) -> int:
        return value

    @pydantic.model_validator(mode="after")
    def is_whole(self) -> Checked:
        return self

    def model_post_init(self, context: Any, /) -> None:
        pass


@pydantic.dataclasses.dataclass
class Built:
    x: Annotated[int, pydantic.WrapValidator(lambda value, handler: handler(value))]

    def __post_init__(self) -> None:
        pass


class WithPrivate(pydantic.BaseModel):
    x: int
    _y: int = pydantic.PrivateAttr(default=1)


class WithValues(pydantic.BaseModel, use_enum_values=True):
    one: Color
    many: list[Numbers]
    keys: dict[Color, int]


def named(kind: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output_type(schema=kind)
    assert all(issubclass(entry.category, UncheckedValidatorWarning) for entry in caught)
    assert all(entry.filename == __file__ for entry in caught)
    return [part for entry in caught for part in str(entry.message).partition("fail them: ")[2].split("; ")]


def test_validators_of_a_person_are_named_once_each_where_the_type_is_given() -> None:
    assert sorted(named(Checked)) == [
        "Checked.items[]: str (before)",
        "Checked.number: Checked.is_small (after)",
        "Checked.twice: even (after)",
        "Checked: Checked.is_whole (after)",
        "Checked: Checked.model_post_init (after)",
    ]
    assert sorted(named(list[Built])) == ["list[].x: <lambda> (wrap)", "list[]: Built.__post_init__ (after)"]


@pytest.mark.parametrize(
    "kind",
    [
        WithPrivate,
        pathlib.Path,
        pydantic.SecretStr,
        pydantic.HttpUrl,
        collections.defaultdict[str, int],
        Annotated[typing.Sequence[int], at.Len(1, 2)],
        Annotated[int, pydantic.WithJsonSchema({"const": 4}), pydantic.AfterValidator(even)],
        WithValues,
    ],
)
def test_what_the_schema_says_whole_is_not_warned_of(kind: Any) -> None:
    assert named(kind) == []


def test_an_attribute_of_anything_else_is_a_validator_of_its_own() -> None:
    assert named(Annotated[str, pydantic.AfterValidator(operator.attrgetter("value"))]) != []
    assert named(Annotated[Color, pydantic.AfterValidator(operator.attrgetter("other"))]) != []


def test_a_schema_that_a_person_states_is_taken_at_its_word() -> None:
    stated = Annotated[re.Pattern, pydantic.WithJsonSchema({"type": "string", "pattern": "^a$"})]
    source, _ = json_schema_of(stated, param="schema")
    assert '"^a$"' in source


def test_a_validator_that_states_its_input_is_served_and_named() -> None:
    kind = Annotated[int, pydantic.PlainValidator(even, json_schema_input_type=Literal[2, 4])]
    assert named(kind) == ["int: even (plain)"]


def test_classes_are_closed_unless_they_allow_more(constrained: Callable[[Any], Any]) -> None:
    class Open(pydantic.BaseModel, extra="allow"):
        x: int

    class Closed(pydantic.BaseModel):
        x: int
        inner: Open

    found = constrained(Closed)
    assert found.takes('{"x":1,"inner":{"x":1,"y":2}}')
    assert not found.takes('{"x":1,"inner":{"x":1},"y":2}')


def test_a_choice_by_tag_needs_its_tag_though_it_has_a_default(constrained: Callable[[Any], Any]) -> None:
    class One(pydantic.BaseModel):
        kind: Literal["one"] = "one"

    class Two(pydantic.BaseModel):
        kind: Literal["two"] = "two"

    found = constrained(Annotated[One | Two, Field(discriminator="kind")])
    assert found.takes('{"kind":"two"}')
    assert not found.takes("{}")


def nested(depth: int) -> Any:
    kind: Any = int
    for _ in range(depth):
        kind = list[kind]
    return kind


def test_a_type_nested_too_deep_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        json_schema_of(nested(3_000), param="schema")
