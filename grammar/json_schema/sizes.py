"""How many: strings of a finite language, values of a goal, counted where that takes little.

Where names or unique items come from few, a text can hold only so many of them. ``Sizes.values`` lists what can be
listed; ``Sizes.is_roomy`` says, of values that are endless, whether every beginning of one is the beginning of
endlessly many, so that no set of taken ones leaves a text without a way on.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Final

from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.members import Named, named_members, other_members
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
    is_never,
)
from radixrt.grammar.json_schema.values import TYPES, JsonType, JsonValue, value_key
from radixrt.grammar.rx import Pool, Rx
from radixrt.grammar.terms import INFINITE

__all__ = ["Sizes", "Values", "count_strings"]

MAX_LENGTH: Final = 4096  # bytes; languages with longer strings have more of them than any text has room for
MAX_TERMS: Final = 20_000  # derivatives that one count may look at
MAX_LISTED: Final = 2_000  # values of one goal that are listed
MAX_NAMES: Final = 12  # names of one object that are not declared
MAX_DEPTH: Final = 8  # arrays and objects inside one another whose values are listed

Values = dict[object, JsonValue]
"""Values by ``value_key``."""


def count_strings(pool: Pool, language: Rx) -> int | None:
    """The number of strings in a language; None: infinitely many, or too many to count in bounded work."""
    if pool.longest(language) == INFINITE or pool.longest(language) > MAX_LENGTH:
        return None
    counts: dict[Rx, int] = {}
    todo = [language]
    while todo:
        term = todo[-1]
        if term in counts:
            todo.pop()
            continue
        if len(todo) + len(counts) > MAX_TERMS:
            return None
        arcs = pool.arcs(term)
        missing = [target for _, target in arcs if target not in counts]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        counts[term] = pool.nullable(term) + sum(mask.bit_count() * counts[target] for mask, target in arcs)
    return counts[language]


class Sizes:
    """Sizes of goals. ``expand`` gives their shapes."""

    def __init__(
        self, languages: Languages, reasoner: Reasoner, expand: Callable[[Goal, JsonType], tuple[Shape, ...]]
    ) -> None:
        self._languages = languages
        self._reasoner = reasoner
        self._expand = expand

    # --- few values -------------------------------------------------------------------------------------------

    def values(self, goal: Goal, depth: int = 0) -> Values | None:
        """All values of a goal, if they are at most ``MAX_LISTED``, else None."""
        if depth > MAX_DEPTH:
            return None
        found: Values = {}
        if is_never(goal):
            return found
        for kind in TYPES:
            for shape in self._expand(goal, kind):
                part = self._of_shape(shape, depth)
                if part is None:
                    return None
                found.update(part)
        return found if len(found) <= MAX_LISTED else None

    def _of_shape(self, shape: Shape, depth: int) -> Values | None:
        if self._reasoner.is_empty(shape):
            return {}
        if isinstance(shape, FiniteShape):
            return shape.values
        if isinstance(shape, NumberShape):
            return self._numbers(shape)
        if isinstance(shape, StringShape):
            language = self._reasoner.string_language(shape)
            count = count_strings(self._languages.pool, language)
            if count is None or count > MAX_LISTED:
                return None
            return {value_key(text): text for text in self._words(language)}
        return self._arrays(shape, depth) if isinstance(shape, ArrayShape) else self._objects(shape, depth)

    @staticmethod
    def _numbers(shape: NumberShape) -> Values | None:
        if shape.low is None or shape.high is None:
            return None
        if shape.low == shape.high:
            return {value_key(shape.low): shape.low} if admits_number(shape, shape.low) else {}
        steps = [1] if shape.integral else sorted(shape.multiples)
        if not steps:
            return None
        step = steps[-1]
        first, last = ceil(shape.low / step), floor(shape.high / step)
        if last - first >= 16 * MAX_LISTED:
            return None
        numbers = (index * step for index in range(first, last + 1))
        return {value_key(number): number for number in numbers if admits_number(shape, number)}

    def _words(self, language: Rx) -> list[str]:
        """The strings of a finite language that has been counted."""
        pool = self._languages.pool
        found = []
        todo = [(b"", language)]
        while todo:
            word, term = todo.pop()
            if pool.nullable(term):
                found.append(word.decode())
            for mask, target in pool.arcs(term):
                if not pool.is_empty(target):
                    todo.extend((word + bytes((byte,)), target) for byte in range(256) if mask >> byte & 1)
        return found

    def _arrays(self, shape: ArrayShape, depth: int) -> Values | None:
        high = shape.high
        if high is None and shape.unique is not None:
            places = max((len(rule.prefix) for rule in shape.rules), default=0)
            last = self.values(self._reasoner.at_index(shape, places), depth + 1)
            high = None if last is None else places + len(last)
        if high is None:
            return None
        found: Values = {}
        rows: list[list[JsonValue]] = [[]]
        for place in range(high + 1):
            if place >= shape.low:
                found.update((value_key(row), row) for row in rows if self._reasoner.admits(shape, row))
            if place < high and rows:
                items = self.values(self._reasoner.at_index(shape, place), depth + 1)
                if items is None or len(rows) * len(items) > MAX_LISTED:
                    return None
                rows = [[*row, item] for row in rows for item in items.values()]
        return found

    def _objects(self, shape: ObjectShape, depth: int) -> Values | None:
        named = named_members(shape, self._languages, self._reasoner)
        if named is None:
            return {}
        for other in other_members(shape, self._languages):
            names = self._languages.few(other.language, MAX_NAMES)
            if names is None:
                return None
            named.extend(Named(name, other.goal, False) for name in names)
        rows: list[dict[str, JsonValue]] = [{}]
        for member in named:
            parts = self.values(member.goal, depth + 1)
            if parts is None or len(rows) * (len(parts) + 1) > MAX_LISTED:
                return None
            more = [{**row, member.name: part} for row in rows for part in parts.values()]
            rows = more if member.required else rows + more
        return {value_key(row): row for row in rows if self._reasoner.admits(shape, row)}

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
            return open_ and not any(self._reasoner.is_empty_goal(rule.rest) for rule in shape.rules)
        return (
            shape.high is None
            and not shape.names
            and not shape.somes
            and not any(self._reasoner.is_empty_goal(rule.additional) for rule in shape.rules)
            and not any(self._reasoner.is_empty_goal(goal) for rule in shape.rules for _, goal in rule.patterns)
        )
