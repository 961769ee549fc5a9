"""Classes and containers: every text of the constraint is parsed, and what the type writes is in the constraint."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar, Union

import annotated_types as at
import pydantic
import pytest
import typing_extensions as te
from pydantic import Field

# pydantic warns that it cannot keep a person from changing read-only members.
pytestmark = pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")

D = decimal.Decimal
T = TypeVar("T")
UserId = NewType("UserId", int)
type_alias = te.TypeAliasType("type_alias", "list[type_alias] | int")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mood(enum.StrEnum):
    GOOD = "good"
    BAD = 'b"d'


class Mixed(enum.Enum):
    ONE = 1
    HALF = 0.5
    WORD = "w"
    NONE = None


class Right(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Names(pydantic.BaseModel):
    plain: int
    both: int = Field(alias="Both")
    read: int = Field(validation_alias="Read", serialization_alias="Read")
    first: int = Field(validation_alias=pydantic.AliasChoices("First", "second"), serialization_alias="First")


class Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        alias_generator=lambda name: name.title().replace("_", ""), populate_by_name=True
    )
    first_name: str
    last_name: str = "x"


class Paths(pydantic.BaseModel):
    city: str = Field(validation_alias=pydantic.AliasPath("address", "city"))
    street: str = Field(validation_alias=pydantic.AliasPath("address", "lines", 0))
    second: int = Field(5, validation_alias=pydantic.AliasPath("numbers", 1))


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(pydantic.BaseModel):
    kind: Literal["dog", "hound"] = "dog"
    name: str = Field("", alias="Name")


class Fish(pydantic.BaseModel):
    kind: Literal["fish"] = "fish"


class Circle(pydantic.BaseModel):
    shape: Literal["circle"] = Field(alias="Shape")
    radius: int


class Square(pydantic.BaseModel):
    shape: Literal[Mood.GOOD] = Field(Mood.GOOD, alias="Shape")


class Node(pydantic.BaseModel):
    value: int
    children: list[Node] = []


class Left(pydantic.BaseModel):
    right: Optional[RightSide] = None  # noqa: UP045


class RightSide(pydantic.BaseModel):
    left: Left | None = None


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]
    total: int


class Root(pydantic.RootModel[dict[str, list[int]]]):
    pass


class Loose(pydantic.BaseModel, extra="allow"):
    x: int


class LooseInts(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, int]
    x: str


class Strict(pydantic.BaseModel, extra="forbid", strict=True, frozen=True):
    a: int
    b: float
    c: datetime.date
    d: Color
    e: D
    f: frozenset[Color]
    g: tuple[int, str]
    h: uuid.UUID
    i: bytes
    j: pathlib.Path


class Computed(pydantic.BaseModel):
    x: int

    @pydantic.computed_field
    def twice(self) -> int:
        return 2 * self.x


class Hidden(pydantic.BaseModel):
    _secret: int = pydantic.PrivateAttr(default=1)
    left_out: int = Field(3, exclude=True)
    x: int


@dataclasses.dataclass
class Plain:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=1, init=False)


@pydantic.dataclasses.dataclass(kw_only=True)
class Rich:
    inner: Plain
    scale: dataclasses.InitVar[int] = 2
    size: Annotated[int, Field(gt=0)] = 1
    fixed: int = Field(5, init=False)


class Movie(typing.TypedDict, total=False):
    title: typing.Required[str]
    year: int


class Shelf(typing.TypedDict):
    movies: list[Movie]
    best: typing.NotRequired[Movie | None]
    next: typing.NotRequired[Shelf]


class Closed(te.TypedDict):
    x: te.ReadOnly[int]
    y: te.NotRequired[te.ReadOnly[str]]


class Point(NamedTuple):
    x: int
    y: float = 0.5


PETS = Annotated[Cat | Dog, Field(discriminator="kind")]
SHAPES = Annotated[Circle | Square, Field(discriminator="shape")]


# A type, and values of it that pydantic writes.
TABLE: list[tuple[Any, list[Any]]] = [
    (Color, list(Color)),
    (Level, list(Level)),
    (Mood, list(Mood)),
    (Mixed, list(Mixed)),
    (Right, [Right.READ, Right.READ | Right.RUN]),
    (Literal["a", 1, True, None, Mood.BAD, Level.HIGH], ["a", 1, True, None, Mood.BAD, Level.HIGH]),
    (Optional[int], [None, 1]),  # noqa: UP045
    (Union[int, str, list[bool]], [1, "a", [True]]),  # noqa: UP007
    (datetime.date | int | None, [datetime.date(2000, 1, 1), 5, None]),
    (list[int], [[], [1, 2]]),
    (Annotated[list[int], at.Len(1, 2)], [[1]]),
    (Annotated[Sequence[str], at.MinLen(1)], [["a"]]),
    (tuple[int, str], [(1, "a")]),
    (tuple[int, ...], [(), (1, 2)]),
    (tuple[()], [()]),
    (collections.deque[int], [collections.deque([1])]),
    (set[Color], [{Color.RED}, set()]),
    (frozenset[Literal[1, 2]], [frozenset({2})]),
    (set[int], [{1, 2}]),
    (set[float], [{0.5, 2.5}]),
    (Annotated[set[str], at.Len(2, 3)], [{"a", "b"}]),
    (Annotated[frozenset[tuple[datetime.date, int]], at.MinLen(2)], []),
    (Annotated[dict[int, int], at.Len(2, 3)], [{1: 1, 2: 2}]),
    (Iterable[int], []),
    (dict[str, int], [{"a": 1}]),
    (dict[str, Any], [{"a": [None, {"b": 1.5}]}]),
    (dict[int, bool], [{-5: True}]),
    (dict[bool, int], [{True: 1}]),
    (dict[Color, int], [{Color.RED: 1}]),
    (dict[Level, int], [{Level.LOW: 1}]),
    (dict[datetime.date, int], [{datetime.date(2000, 1, 1): 1}]),
    (dict[uuid.UUID, int], [{uuid.UUID(int=1): 1}]),
    (dict[Annotated[str, Field(pattern="^[a-z]{1,3}$")], int], [{"abc": 1}]),
    (dict[Literal["a", "b"], int], [{"a": 1}]),
    (Annotated[dict[str, int], at.MinLen(1)], [{"a": 1}]),
    (Mapping[int, str], [{1: "a"}]),
    (collections.Counter[str], [collections.Counter("ab")]),
    (collections.defaultdict[str, list[int]], [{"a": [1]}]),
    (collections.OrderedDict[str, int], [collections.OrderedDict(a=1)]),
    (UserId, [5]),
    (type_alias, [1, [1, [2]]]),
    (Point, [Point(1), Point(1, 2.5)]),
    (Plain, []),
    (Rich, []),
    (Movie, [{"title": "a"}, {"title": "a", "year": 1}]),
    (Shelf, [{"movies": [], "next": {"movies": []}}]),
    (Closed, [{"x": 1}]),
    (Names, [Names(plain=1, Both=2, Read=3, First=4)]),
    (Camel, [Camel(first_name="a")]),
    (Paths, []),
    (PETS, [Cat(lives=3), Dog(Name="x", kind="hound")]),
    (list[PETS], [[Cat(lives=3), Dog()]]),
    (SHAPES, [Circle(Shape="circle", radius=1), Square()]),
    (PETS | SHAPES, [Cat(lives=3), Square()]),
    (Annotated[PETS | Fish, Field(discriminator="kind")], [Fish(), Cat(lives=0)]),
    (Node, [Node(value=1, children=[Node(value=2)])]),
    (Left, [Left(right=RightSide(left=Left()))]),
    (Page[Cat], [Page[Cat](items=[Cat(lives=1)], total=1)]),
    (Root, [Root({"a": [1]})]),
    (Loose, [Loose(x=1, y="z")]),
    (LooseInts, [LooseInts(x="a", y=1)]),
    (
        Strict,
        [
            Strict(
                a=1,
                b=1.5,
                c=datetime.date(2000, 1, 1),
                d=Color.RED,
                e=D("1.5"),
                f=frozenset({Color.RED}),
                g=(1, "a"),
                h=uuid.UUID(int=1),
                i=b"a",
                j=pathlib.Path("x"),
            )
        ],
    ),
    (Computed, []),
    (Hidden, [Hidden(x=1)]),
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
        (set[int], ["[1,1]"]),
        (Annotated[set[str], at.MinLen(2)], ['["a"]', '["a","a"]']),
        (dict[int, int], ['{"01":1}', '{"+1":1}', '{"1.0":1}', '{"a":1}']),
        (dict[Level, int], ['{"3":1}', '{"LOW":1}']),
        (PETS, ['{"lives":1}', '{"kind":"dog","name":"x"}', '{"kind":"dog","lives":1}']),
        (Plain, ['{"x":1,"hidden":1}']),
        (Computed, ['{"x":1,"twice":2}']),
        (Paths, ['{"address":{"city":"a","lines":[]}}', '{"city":"a","street":"b"}']),
        (Names, ['{"plain":1,"both":2,"Read":3,"First":4}']),
        (Point, ["[]", "[1,2.5,3]"]),
        (tuple[int, ...], ["1", '["a"]']),
    ],
)
def test_what_parsing_would_refuse_or_drop_is_not_let_through(
    kind: Any, texts: list[str], constrained: Callable[[Any], Any]
) -> None:
    found = constrained(kind)
    assert [text for text in texts if found.takes(text)] == []
