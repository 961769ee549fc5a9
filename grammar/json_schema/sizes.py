"""How many: strings of a finite language, values of a goal, counted where that takes little.

Where names or unique items come from few, a text can hold only so many of them. ``Sizes.values`` lists what can be
listed, and tells what has too many values to run out (``MANY``) from what it cannot tell (``UNSURE``);
``Sizes.is_roomy`` says, of values that are endless, whether every beginning of one is the beginning of
endlessly many, so that no set of taken ones leaves a text without a way on.

Not known here: exact numbers beyond ``MAX_LISTED``. An array that holds so many unique items could run out of them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Final

from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.living import Living
from radixrt.grammar.json_schema.members import Named, Other, named_members, other_members
from radixrt.grammar.json_schema.numbers import admits_number
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    FiniteShape,
    Goal,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
    join_goals,
)
from radixrt.grammar.json_schema.values import TYPES, JsonType, JsonValue, value_key
from radixrt.grammar.rx import Pool, Rx

__all__ = ["Extent", "Sizes", "Values", "count_strings"]

MAX_TERMS: Final = 20_000  # derivatives that one count may look at
MAX_LISTED: Final = 2_000  # values of one goal that are listed
MAX_NAMES: Final = 12  # names of one object that are not declared
MAX_DEPTH: Final = 24  # arrays and objects inside one another whose values are listed

Values = dict[object, JsonValue]
"""Values by ``value_key``."""


class Extent(Enum):
    """How many values there are that are not listed."""

    MANY = "more than are listed"
    UNSURE = "perhaps few, perhaps many"


def count_strings(pool: Pool, language: Rx) -> int | None:
    """The number of strings in a language; None: infinitely many, or too many to count in bounded work."""
    count = string_extent(pool, language)
    return None if isinstance(count, Extent) else count


def string_extent(pool: Pool, language: Rx) -> int | Extent:
    """The number of strings in a language; ``MANY``: infinitely many.

    How long the strings of an intersection may be is not known beforehand, so whether they are finitely many shows
    when the derivatives come back to one that they came from.
    """
    counts: dict[Rx, int] = {}
    path: set[Rx] = set()
    todo = [language]
    while todo:
        term = todo[-1]
        if term in counts:
            todo.pop()
            continue
        if len(todo) + len(counts) > MAX_TERMS:
            return Extent.UNSURE
        arcs = [(mask, target) for mask, target in pool.arcs(term) if not pool.is_empty(target)]
        missing = [target for _, target in arcs if target not in counts]
        if missing:
            path.add(term)
            if not path.isdisjoint(missing):
                return Extent.MANY
            todo.extend(missing)
            continue
        todo.pop()
        path.discard(term)
        counts[term] = pool.nullable(term) + sum(mask.bit_count() * counts[target] for mask, target in arcs)
    return counts[language]


def has_many_strings(pool: Pool, language: Rx) -> bool:
    """Whether a language has more than ``MAX_LISTED`` strings, if one walk through it shows as many branches."""
    found, term = 0, language
    for _ in range(MAX_TERMS):
        live = [(mask.bit_count(), target) for mask, target in pool.arcs(term) if not pool.is_empty(target)]
        found += pool.nullable(term) + sum(count for count, _ in live) - 1
        if found > MAX_LISTED or not live:
            break
        term = max(live, key=lambda arc: pool.longest(arc[1]))[1]
    return found > MAX_LISTED


class Sizes:
    """Sizes of goals. ``expand`` gives their shapes."""

    def __init__(
        self,
        languages: Languages,
        reasoner: Reasoner,
        expand: Callable[[Goal, JsonType], tuple[Shape, ...]],
        living: Living,
    ) -> None:
        self._languages = languages
        self._reasoner = reasoner
        self._expand = expand
        self._living = living
        self._known: dict[Goal, Values | Extent] = {}
        self._open: set[Goal] = set()

    def is_alive(self, goal: Goal) -> bool:
        """Whether a goal has values, as far as is known."""
        return self._living.is_alive(goal)

    # --- few values -------------------------------------------------------------------------------------------

    def values(self, goal: Goal) -> Values | Extent:
        """All values of a goal, if they are at most ``MAX_LISTED``."""
        known = self._known.get(goal)
        if known is not None:
            return known
        if not self._living.is_alive(goal):
            return {}
        if goal in self._open:
            return Extent.MANY  # values that hold values of their own kind
        if len(self._open) > MAX_DEPTH:
            return Extent.UNSURE
        self._open.add(goal)
        try:
            found = self._union([self._of_shape(shape) for kind in TYPES for shape in self._expand(goal, kind)])
        finally:
            self._open.discard(goal)
        self._known[goal] = found
        if not self._open:  # what was too deep inside another goal may be within reach by itself
            for other in [other for other, extent in self._known.items() if extent == Extent.UNSURE]:
                del self._known[other]
        return found

    @staticmethod
    def _union(parts: list[Values | Extent]) -> Values | Extent:
        for extent in (Extent.MANY, Extent.UNSURE):
            if extent in parts:
                return extent
        found: Values = {}
        for part in parts:
            if isinstance(part, dict):
                found.update(part)
        return found if len(found) <= MAX_LISTED else Extent.MANY

    def _of_shape(self, shape: Shape) -> Values | Extent:
        if self._reasoner.is_empty(shape):
            return {}
        if isinstance(shape, FiniteShape):
            return shape.values
        if isinstance(shape, NumberShape):
            return _numbers(shape)
        if isinstance(shape, StringShape):
            return self._strings(self._reasoner.string_language(shape))
        return self._arrays(shape) if isinstance(shape, ArrayShape) else self._objects(shape)

    def _strings(self, language: Rx) -> Values | Extent:
        pool = self._languages.pool
        if has_many_strings(pool, language):
            return Extent.MANY
        count = string_extent(pool, language)
        if isinstance(count, Extent):
            return count
        if count > MAX_LISTED:
            return Extent.MANY
        found: Values = {}
        todo = [(b"", language)]
        while todo:
            word, term = todo.pop()
            if pool.nullable(term):
                text = word.decode()
                found[value_key(text)] = text
            for mask, target in pool.arcs(term):
                if not pool.is_empty(target):
                    todo.extend((word + bytes((byte,)), target) for byte in range(256) if mask >> byte & 1)
        return found

    # --- arrays -----------------------------------------------------------------------------------------------

    def _arrays(self, shape: ArrayShape) -> Values | Extent:
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        items = [self.values(self._reasoner.at_index(shape, place)) for place in range(places + 1)]
        high = min((place for place, values in enumerate(items) if values == {}), default=shape.high)
        if shape.high is not None and (high is None or high > shape.high):
            high = shape.high
        if high is None:
            longest = self._longest(shape, items[-1], places)
            if isinstance(longest, Extent):
                return longest
            high = longest
        if shape.low > high:
            return {}
        found: Values = {}
        rows: list[list[JsonValue]] = [[]]
        for place in range(high + 1):
            if place >= shape.low:
                found.update((value_key(row), row) for row in rows if self._reasoner.admits(shape, row))
            if not rows or place == high:
                break
            values = items[min(place, places)]
            if isinstance(values, Extent):
                later = items[min(place + 1, places) :] if shape.low > place + 1 else []
                free = shape.unique is None or all(extent == Extent.MANY for extent in later)
                return self._unlisted(shape, free) if values == Extent.MANY else values
            if len(rows) * len(values) > MAX_LISTED << 4:
                return self._unlisted(shape, shape.unique is None)
            rows = [
                [*row, item]
                for row in rows
                for item in values.values()
                if shape.unique is None or value_key(item) not in set(map(value_key, row))
            ]
            if len(rows) > MAX_LISTED:
                return self._unlisted(shape, shape.unique is None or place + 1 >= shape.low)
        return found if len(found) <= MAX_LISTED else Extent.MANY

    def _longest(self, shape: ArrayShape, rest: Values | Extent, places: int) -> int | Extent:
        """How long an array can become that no keyword bounds; an extent where there is no end."""
        if shape.unique is not None:
            if isinstance(rest, dict):
                return places + len(rest)
            return self._unlisted(shape, places == 0) if rest == Extent.MANY else rest
        goal = self._reasoner.at_index(shape, places)
        capped = [count for count in shape.counts if count.high is not None]
        left = self.values(join_goals(goal, *(count.fails for count in capped)))
        if left == {}:
            start = max([places, *(count.start for count in capped)])
            return start + sum(count.high or 0 for count in capped)
        return Extent.MANY if left != Extent.UNSURE else left

    def _unlisted(self, shape: ArrayShape, free: bool) -> Extent:
        """What there is of arrays of which one place has many values (or all together), where rules and bounds
        leave them ``free``.
        """
        if not shape.counts:
            return Extent.MANY if free and shape.repeats is None else Extent.UNSURE
        goal, lows = self._reasoner.at_index(shape, 0), [count for count in shape.counts if count.low]
        if shape.repeats is not None or any(rule.prefix for rule in shape.rules) or len(lows) > 1:
            return Extent.UNSURE
        # One item meets what the array must contain, another one is any of the many that count nowhere.
        spare = join_goals(goal, *(count.fails for count in shape.counts if count.high is not None))
        met = all(count.low == 1 and self.values(join_goals(goal, count.goal)) != {} for count in lows)
        most = max(shape.low, len(lows) + 1)
        room = shape.high is None or shape.high >= most
        return Extent.MANY if met and room and self.values(spare) == Extent.MANY else Extent.UNSURE

    # --- objects ----------------------------------------------------------------------------------------------

    def _objects(self, shape: ObjectShape) -> Values | Extent:
        named = named_members(shape, self._languages, self._reasoner)
        if named is None:
            return {}
        required = [member for member in named if member.required]
        if not all(self._living.is_alive(member.goal) for member in required):
            return {}
        others = [other for other in other_members(shape, self._languages) if self._living.is_alive(other.goal)]
        named = [member for member in named if self._living.is_alive(member.goal)]
        if shape.high is not None and len(required) >= shape.high:
            if len(required) > shape.high:
                return {}
            named, others = required, []
        parts = {member.name: self.values(member.goal) for member in named}
        if any(parts[member.name] == {} for member in required):
            return {}
        several = self._names(shape, others)
        if isinstance(several, Extent):
            return several
        for member in several:
            parts[member.name] = self.values(member.goal)
        return self._rows(shape, [*named, *several], parts)

    def _names(self, shape: ObjectShape, others: list[Other]) -> list[Named] | Extent:
        """The names that are not declared, if they are few."""
        found: list[Named] = []
        for other in others:
            names = self._languages.few(other.language, MAX_NAMES)
            if names is None:
                bounded = shape.somes or shape.high is not None or shape.low
                if has_many_strings(self._languages.pool, other.language):
                    bounded = shape.somes and shape.high is not None
                return Extent.UNSURE if bounded else Extent.MANY
            found.extend(Named(name, other.goal, False) for name in names)
        return found

    def _rows(self, shape: ObjectShape, members: list[Named], parts: dict[str, Values | Extent]) -> Values | Extent:
        rows: list[dict[str, JsonValue]] = [{}]
        unsure = False
        for member in members:
            values = parts[member.name]
            if isinstance(values, Extent):
                if values == Extent.MANY and self._is_free(shape, member) and len(members) >= shape.low:
                    return values
                unsure = True
                continue
            if len(rows) * (len(values) + (not member.required)) > MAX_LISTED:
                if not (shape.somes or shape.low or shape.high is not None):
                    return Extent.MANY
                unsure = True
                continue
            more = [{**row, member.name: part} for row in rows for part in values.values()]
            rows = more if member.required else rows + more
        if unsure:
            return Extent.UNSURE
        return {value_key(row): row for row in rows if self._reasoner.admits(shape, row)}

    def _is_free(self, shape: ObjectShape, member: Named) -> bool:
        """Whether a member keeps its many values whatever the object demands of some member."""
        goals = [some.goal for some in shape.somes if self._languages.has(some.language, member.name)]
        if len(goals) < len(shape.somes):
            return False
        return not goals or self.values(join_goals(member.goal, *goals)) == Extent.MANY

    # --- room -------------------------------------------------------------------------------------------------

    def is_roomy(self, goal: Goal) -> bool:
        """Whether no beginning of a value of ``goal`` could run out of ends, that of a literal aside."""
        return all(self._is_roomy_shape(shape) for kind in TYPES for shape in self._expand(goal, kind))

    def _is_roomy_shape(self, shape: Shape) -> bool:
        if isinstance(shape, FiniteShape):
            return all(value is None or isinstance(value, bool) for value in shape.values.values())
        if isinstance(shape, NumberShape):
            # Another digit is always another number, unless the bound is on the other side.
            above = shape.high is None and (shape.low is None or shape.low >= 0)
            return above and not (shape.multiples or shape.non_multiples)
        if isinstance(shape, StringShape):
            return shape.high is None and not shape.languages
        if isinstance(shape, ArrayShape):
            open_ = shape.high is None and not shape.counts and shape.unique is None and not shape.repeats
            places = max((len(rule.prefix) for rule in shape.rules), default=0)
            return open_ and not self._is_dead(self._reasoner.at_index(shape, places))
        goals = [goal for rule in shape.rules for goal in (rule.additional, *(goal for _, goal in rule.patterns))]
        return (
            shape.high is None
            and not (shape.names or shape.somes or any(map(self._is_dead, goals)))
            and not any(self._is_dead(other.goal) for other in other_members(shape, self._languages))
        )

    def _is_dead(self, goal: Goal) -> bool:
        return not self._living.is_alive(goal)


def _numbers(shape: NumberShape) -> Values | Extent:
    steps = [Fraction(step) for step in shape.multiples] + ([Fraction(1)] if shape.integral else [])
    step = _common_multiple(steps) if steps else None
    if step is not None and any((step / Fraction(other)).denominator == 1 for other in shape.non_multiples):
        return {}
    if shape.low is None or shape.high is None:
        return Extent.MANY
    if shape.low == shape.high:
        return {value_key(shape.low): shape.low} if admits_number(shape, shape.low) else {}
    if step is None:
        return Extent.MANY
    first, last = ceil(Fraction(shape.low) / step), floor(Fraction(shape.high) / step)
    # Of the multiples of a step, each further divisor that it does not have itself spares half at least.
    if last - first >= MAX_LISTED << (len(shape.non_multiples) + 1):
        return Extent.MANY if len(shape.excluded) < MAX_LISTED else Extent.UNSURE
    numbers = (_number(index * step) for index in range(first, last + 1))
    found: Values = {value_key(number): number for number in numbers if admits_number(shape, number)}
    return found if len(found) <= MAX_LISTED else Extent.MANY


def _common_multiple(steps: list[Fraction]) -> Fraction:
    scale = lcm(*(step.denominator for step in steps))
    return Fraction(lcm(*(int(step * scale) for step in steps)), scale)


def _number(value: Fraction) -> int | Decimal:
    """A multiple of decimals as a number."""
    if value.denominator == 1:
        return int(value)
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    return Decimal((int(value < 0), tuple(map(int, str(abs(int(value * 10**places))))), -places))
