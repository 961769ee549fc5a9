"""The normal form: a schema is, for each JSON type, a union of shapes, and a shape is a conjunction of assertions.

Conjunction is exact because a shape keeps its parts side by side: intersecting two shapes joins their lists,
and only the question "what must the value under this name be?" combines them. Children are *goals*,
conjunctions of schemas that hold or fail, so nothing is expanded before somebody asks for it. Shapes are plain
data; ``expand`` makes them, ``reason`` asks questions about them, the emitters turn them into grammar.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeVar

from radixrt.grammar.json_schema.documents import Schema
from radixrt.grammar.json_schema.values import JsonType, JsonValue, Number, value_key

__all__ = [
    "ANY_SHAPE",
    "ArrayShape",
    "Blame",
    "CountRule",
    "FiniteShape",
    "Goal",
    "ItemRule",
    "NameRule",
    "NumberShape",
    "ObjectShape",
    "Shape",
    "SomeRule",
    "StringShape",
    "finite",
    "goal_of",
    "is_inside",
    "is_never",
    "join_goals",
    "meet",
]

Goal = tuple[tuple[Schema, bool], ...]  # every schema must hold (True) or fail (False); () is any value
Blame = tuple[Schema, str]  # the schema and the keyword of it that a refusal names


def goal_of(schema: Schema, holds: bool = True) -> Goal:
    """The goal of one schema; a schema that trivially holds leaves nothing to ask."""
    if schema.keywords is None:
        return () if schema.value is holds else ((_NEVER, True),)
    if not schema.keywords:
        return () if holds else ((_NEVER, True),)
    return ((schema, holds),)


_NEVER: Final = Schema(None, False, "", "", 0)


def join_goals(*goals: Goal) -> Goal:
    """The conjunction, in order of first appearance."""
    asking = [goal for goal in goals if goal]
    if len(asking) < 2:
        return asking[0] if asking else ()
    joined: dict[tuple[Schema, bool], None] = {}
    for goal in asking:
        joined.update(dict.fromkeys(goal))
    if (_NEVER, True) in joined:
        return ((_NEVER, True),)
    return tuple(joined)


def is_never(goal: Goal) -> bool:
    """Whether the goal is the one that nothing satisfies, spelled so."""
    return len(goal) == 1 and goal[0][0] is _NEVER


@dataclass(frozen=True, slots=True)
class FiniteShape:
    """One of these values, by ``value_key``, in the order of the schema.

    ``beside`` is kept where an unevaluated keyword asks what the rules for the values have evaluated.
    """

    values: dict[object, JsonValue]
    beside: Shape | None = None


@dataclass(frozen=True, slots=True)
class NumberShape:
    """A number. ``integral`` None: either; bounds are inclusive unless ``open``; excluded by value."""

    integral: bool | None = None
    low: Number | None = None
    low_open: bool = False
    high: Number | None = None
    high_open: bool = False
    multiples: frozenset[Decimal] = frozenset()
    non_multiples: frozenset[Decimal] = frozenset()
    excluded: frozenset[Decimal] = frozenset()
    origin: Schema | None = None  # the schema to blame for a multiple that cannot be represented


@dataclass(frozen=True, slots=True)
class StringShape:
    """A string in all ``languages`` (regular expressions over the value's UTF-8), with bounds in code points."""

    languages: frozenset[int] = frozenset()
    low: int = 0
    high: int | None = None
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ItemRule:
    """Item i satisfies ``prefix[i]``, further ones ``rest``. ``evaluates``: they count as evaluated."""

    prefix: tuple[Goal, ...] = ()
    rest: Goal = ()
    evaluates: bool = True
    evaluates_rest: bool = False


@dataclass(frozen=True, slots=True)
class CountRule:
    """Of the items from ``start`` on, ``low`` to ``high`` satisfy ``goal`` (``fails`` is its negation)."""

    goal: Goal
    fails: Goal
    start: int = 0
    low: int = 1
    high: int | None = None
    blame: Blame | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ArrayShape:
    rules: tuple[ItemRule, ...] = ()
    low: int = 0
    high: int | None = None
    counts: tuple[CountRule, ...] = ()
    unique: Schema | None = None  # the schema that says uniqueItems
    evaluated: tuple[Goal, ...] = ()  # of ``contains``: items that satisfy one of these count as evaluated
    repeats: Schema | None = None  # the schema whose uniqueItems must fail


@dataclass(frozen=True, slots=True)
class NameRule:
    """One ``properties``/``patternProperties``/``additionalProperties`` group: what the value under a name must be.

    ``evaluates``: whether unevaluatedProperties sees the names as evaluated, ``evaluates_rest``: the additional
    ones too. ``late``: it holds under a condition, so its names come behind those of the other groups.
    """

    named: tuple[tuple[str, Goal], ...] = ()
    patterns: tuple[tuple[int, Goal], ...] = ()
    additional: Goal = ()
    evaluates: bool = True
    evaluates_rest: bool = False
    late: bool = False
    origin: Schema | None = field(default=None, compare=False)
    by_name: dict[str, Goal] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", dict(self.named))
        object.__setattr__(self, "_hash", hash((self.named, self.patterns, self.additional)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_bare(self) -> bool:
        """Whether all it says is what the value under one name must be."""
        return len(self.named) == 1 and not (self.evaluates or self.patterns or self.additional)


@dataclass(frozen=True, slots=True)
class SomeRule:
    """At least one member whose name is in ``language`` and whose value satisfies ``goal``."""

    language: int
    goal: Goal
    blame: Blame | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectShape:
    rules: tuple[NameRule, ...] = ()
    required: tuple[str, ...] = ()
    low: int = 0
    high: int | None = None
    names: tuple[int, ...] = ()  # languages every name is in
    somes: tuple[SomeRule, ...] = ()
    origin: Schema | None = None
    low_blame: Blame | None = field(default=None, compare=False)  # what demands ``low``
    high_blame: Blame | None = field(default=None, compare=False)


Shape = FiniteShape | NumberShape | StringShape | ArrayShape | ObjectShape


def finite(values: list[JsonValue]) -> FiniteShape:
    return FiniteShape(_keyed(values))


def _keyed(values: list[JsonValue]) -> dict[object, JsonValue]:
    keyed: dict[object, JsonValue] = {}
    for value in values:
        keyed.setdefault(value_key(value), value)
    return keyed


ANY_SHAPE: Final[dict[JsonType, Shape]] = {
    "null": finite([None]),
    "boolean": finite([True, False]),
    "number": NumberShape(),
    "string": StringShape(),
    "array": ArrayShape(),
    "object": ObjectShape(),
}


# --- conjunction -----------------------------------------------------------------------------------------------

_Structural = TypeVar("_Structural", NumberShape, StringShape, ArrayShape, ObjectShape)


def meet(left: _Structural, right: _Structural) -> _Structural:
    """The conjunction of two shapes of one type. Finite ones are intersected by asking ``reason.admits``."""
    if isinstance(left, NumberShape) and isinstance(right, NumberShape):
        return _meet_numbers(left, right)
    if isinstance(left, StringShape) and isinstance(right, StringShape):
        return StringShape(
            languages=left.languages | right.languages,
            low=max(left.low, right.low),
            high=_least(left.high, right.high),
            excluded=left.excluded | right.excluded,
        )
    if isinstance(left, ArrayShape) and isinstance(right, ArrayShape):
        return ArrayShape(
            rules=_joined(left.rules, right.rules),
            low=max(left.low, right.low),
            high=_least(left.high, right.high),
            counts=_joined(left.counts, right.counts),
            unique=left.unique or right.unique,
            repeats=left.repeats or right.repeats,
            evaluated=_joined(left.evaluated, right.evaluated),
        )
    if isinstance(left, ObjectShape) and isinstance(right, ObjectShape):
        return ObjectShape(
            rules=_joined_rules(left.rules, right.rules),
            required=_joined(left.required, right.required),
            low=max(left.low, right.low),
            high=_least(left.high, right.high),
            names=_joined(left.names, right.names),
            somes=_joined(left.somes, right.somes),
            origin=left.origin or right.origin,
            low_blame=left.low_blame if left.low >= right.low else right.low_blame,
            high_blame=left.high_blame if _least(left.high, right.high) == left.high else right.high_blame,
        )
    raise TypeError("shapes of different types have no conjunction")


_Item = TypeVar("_Item")


def _joined(left: tuple[_Item, ...], right: tuple[_Item, ...]) -> tuple[_Item, ...]:
    if not left or not right:
        return left or right
    return tuple(dict.fromkeys(left + right))


def _joined_rules(left: tuple[NameRule, ...], right: tuple[NameRule, ...]) -> tuple[NameRule, ...]:
    """All rules; of those that only speak of one name, one for each name."""
    if not left or not right:
        return left or right
    joined: dict[object, NameRule] = {}
    for rule in left + right:
        key = (rule.named[0][0], rule.late) if rule.is_bare else rule
        known = joined.get(key)
        if known is None:
            joined[key] = rule
        elif known is not rule and rule.is_bare:
            name, goal = rule.named[0]
            joined[key] = replace(rule, named=((name, join_goals(known.named[0][1], goal)),))
    return tuple(joined.values())


def _least(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return left if right is None else right
    return min(left, right)


def _meet_numbers(left: NumberShape, right: NumberShape) -> NumberShape:
    # Two demands that contradict each other (an integer, not an integer) leave the empty interval 1..0.
    contradiction = left.integral is not None and right.integral is not None and left.integral is not right.integral
    if contradiction:
        return NumberShape(low=1, high=0)
    met = replace(
        left,
        integral=right.integral if left.integral is None else left.integral,
        multiples=left.multiples | right.multiples,
        non_multiples=left.non_multiples | right.non_multiples,
        excluded=left.excluded | right.excluded,
        origin=left.origin or right.origin,
    )
    if right.low is not None and (
        met.low is None or right.low > met.low or (right.low == met.low and right.low_open)
    ):
        met = replace(met, low=right.low, low_open=right.low_open)
    if right.high is not None and (
        met.high is None or right.high < met.high or (right.high == met.high and right.high_open)
    ):
        met = replace(met, high=right.high, high_open=right.high_open)
    return met


# --- inclusion -------------------------------------------------------------------------------------------------


def is_inside(inner: Shape, outer: Shape) -> bool:
    """Whether ``inner`` makes every demand that ``outer`` makes; no proof beyond that is attempted."""
    if inner is outer:
        return True
    if isinstance(inner, FiniteShape) and isinstance(outer, FiniteShape):
        return inner.values.keys() <= outer.values.keys()
    if isinstance(inner, StringShape) and isinstance(outer, StringShape):
        return _within(inner, outer) and inner.languages >= outer.languages and inner.excluded >= outer.excluded
    if isinstance(inner, ArrayShape) and isinstance(outer, ArrayShape):
        return (
            _within(inner, outer)
            and set(inner.rules) >= set(outer.rules)
            and set(inner.counts) >= set(outer.counts)
            and (outer.unique is None or inner.unique is not None)
            and (outer.repeats is None or inner.repeats is not None)
        )
    if isinstance(inner, ObjectShape) and isinstance(outer, ObjectShape):
        return (
            _within(inner, outer)
            and set(inner.required) >= set(outer.required)
            and _has_rules(inner.rules, outer.rules)
            and set(inner.names) >= set(outer.names)
            and set(inner.somes) >= set(outer.somes)
        )
    return inner == outer


def _has_rules(inner: tuple[NameRule, ...], outer: tuple[NameRule, ...]) -> bool:
    missing = set(outer).difference(inner)
    if not missing:
        return True
    said = {rule.named[0][0]: rule.named[0][1] for rule in inner if rule.is_bare}
    return all(rule.is_bare and set(rule.named[0][1]) <= set(said.get(rule.named[0][0], ())) for rule in missing)


_Sized = StringShape | ArrayShape | ObjectShape


def _within(inner: _Sized, outer: _Sized) -> bool:
    return inner.low >= outer.low and (outer.high is None or (inner.high is not None and inner.high <= outer.high))
