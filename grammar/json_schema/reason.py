"""Questions about shapes: is a given value inside, is a shape plainly empty, what may stand under a name.

``is_empty`` is a proof when it says yes and a shrug when it says no: what it misses, the grammar's own search
for unproductive rules finds later. ``admits`` is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.numbers import admits_number, is_empty_number
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    FiniteShape,
    Goal,
    NameRule,
    NumberShape,
    ObjectShape,
    Shape,
    SomeRule,
    StringShape,
    is_never,
    join_goals,
)
from radixrt.grammar.json_schema.values import TYPES, JsonType, JsonValue, type_of, value_key

__all__ = ["Reasoner"]

LOOK_DEPTH: Final = 4  # levels of children that a proof of emptiness looks at
MAX_LISTED: Final = 100  # values of an enum that are looked at one by one
LOOK_ITEMS: Final = 16  # required items that it looks at


def listed_values(goal: Goal) -> list[JsonValue] | None:
    """A few values beside which nothing can satisfy the goal, if a schema of it lists some."""
    for schema, holds in goal:
        if holds and schema.keywords is not None and (schema.draft > 7 or "$ref" not in schema.keywords):
            if "const" in schema.keywords:
                return [schema.keywords["const"]]
            values = schema.keywords.get("enum")
            if values is not None and len(values) <= MAX_LISTED:
                return list(values)
    return None


class Reasoner:
    """``expand`` gives the shapes of a goal; ``is_deep`` says that it is too busy for mere curiosity."""

    def __init__(
        self,
        languages: Languages,
        expand: Callable[[Goal, JsonType], tuple[Shape, ...]],
        is_deep: Callable[[], bool],
    ) -> None:
        self._languages = languages
        self._expand = expand
        self._is_deep = is_deep
        self._depth = 0
        self._string_languages: dict[StringShape, int] = {}
        self._empty_goals: dict[Goal, bool] = {}
        self._empty_strings: dict[StringShape, bool] = {}

    # --- strings --------------------------------------------------------------------------------------------

    def string_language(self, shape: Shape) -> int:
        """The language of a shape of strings, over the value's UTF-8."""
        languages = self._languages
        if isinstance(shape, FiniteShape):
            return languages.any_of(list(shape.values.values()))
        if not isinstance(shape, StringShape):
            raise TypeError("not a shape of strings")
        known = self._string_languages.get(shape)
        if known is None:
            parts = [*shape.languages]
            if shape.low or shape.high is not None:
                parts.append(languages.length(shape.low, shape.high))
            if shape.excluded:
                parts.append(languages.complement(languages.any_of(sorted(shape.excluded))))
            known = self._string_languages[shape] = languages.all_of(parts)
        return known

    # --- parts ----------------------------------------------------------------------------------------------

    def under_name(self, shape: ObjectShape, name: str) -> Goal:
        """What the value under ``name`` must be."""
        return join_goals(*(self._rule_under_name(rule, name) for rule in shape.rules))

    def _rule_under_name(self, rule: NameRule, name: str) -> Goal:
        if not rule.patterns:
            return rule.by_name.get(name, rule.additional)
        goals = [rule.by_name[name]] if name in rule.by_name else []
        goals.extend(goal for language, goal in rule.patterns if self._languages.has(language, name))
        return join_goals(*goals) if goals else rule.additional

    @staticmethod
    def at_index(shape: ArrayShape, index: int) -> Goal:
        """What item ``index`` must be, by the rules alone (not the counts)."""
        return join_goals(*(rule.prefix[index] if index < len(rule.prefix) else rule.rest for rule in shape.rules))

    # --- simplification -------------------------------------------------------------------------------------

    def simplified(self, shape: Shape) -> Shape:
        """The same values without rules that say what the others imply already.

        What the negation of a schema leaves are rules about one name; in a closed world of discriminators
        nearly all of them are implied ("kind is not b" where it is "a"), and shapes without them become equal.
        """
        if not isinstance(shape, ObjectShape) or len(shape.rules) < 2:
            return shape
        kept: list[NameRule | None] = list(shape.rules)
        for place, rule in enumerate(shape.rules):
            if rule.is_bare:
                kept[place] = None
                kept[place] = self._not_implied(rule, [other for other in kept if other is not None])
        return replace(shape, rules=tuple(rule for rule in kept if rule is not None))

    def _not_implied(self, rule: NameRule, others: Iterable[NameRule]) -> NameRule | None:
        """What a rule about one name says beyond the others; None if nothing."""
        name, goal = rule.named[0]
        known = join_goals(*(self._rule_under_name(other, name) for other in others))
        if not known:
            return rule
        left = tuple(
            (schema, holds)
            for schema, holds in goal
            if not self.is_empty_goal(join_goals(known, ((schema, not holds),)))
        )
        if len(left) == len(goal):
            return rule
        return replace(rule, named=((name, left),)) if left else None

    # --- membership -----------------------------------------------------------------------------------------

    def satisfies(self, goal: Goal, value: JsonValue) -> bool:
        return any(self.admits(shape, value) for shape in self._expand(goal, type_of(value)))

    def admits(self, shape: Shape, value: JsonValue) -> bool:
        """Whether a value of the shape's type is inside. Exact."""
        if isinstance(shape, FiniteShape):
            return value_key(value) in shape.values
        if isinstance(shape, NumberShape):
            return admits_number(shape, value)
        if isinstance(shape, StringShape):
            return self._admits_string(shape, value)
        if isinstance(shape, ArrayShape):
            return self._admits_array(shape, value)
        return self._admits_object(shape, value)

    def _admits_string(self, shape: StringShape, value: str) -> bool:
        if value in shape.excluded or len(value) < shape.low:
            return False
        if shape.high is not None and len(value) > shape.high:
            return False
        return all(self._languages.has(language, value) for language in shape.languages)

    def _admits_array(self, shape: ArrayShape, value: list[JsonValue]) -> bool:
        if len(value) < shape.low or (shape.high is not None and len(value) > shape.high):
            return False
        if shape.unique is not None or shape.repeats is not None:
            repeats = len({value_key(item) for item in value}) < len(value)
            if (shape.unique is not None and repeats) or (shape.repeats is not None and not repeats):
                return False
        if not all(self.satisfies(self.at_index(shape, index), item) for index, item in enumerate(value)):
            return False
        for count in shape.counts:
            found = sum(self.satisfies(count.goal, item) for item in value[count.start :])
            if found < count.low or (count.high is not None and found > count.high):
                return False
        return True

    def _admits_object(self, shape: ObjectShape, value: dict[str, JsonValue]) -> bool:
        if len(value) < shape.low or (shape.high is not None and len(value) > shape.high):
            return False
        if any(name not in value for name in shape.required):
            return False
        if not all(self._languages.has(language, name) for language in shape.names for name in value):
            return False
        if not all(self.satisfies(self.under_name(shape, name), part) for name, part in value.items()):
            return False
        return all(
            any(
                self._languages.has(some.language, name) and self.satisfies(some.goal, part)
                for name, part in value.items()
            )
            for some in shape.somes
        )

    def listed_names(self, shape: ObjectShape) -> list[str]:
        """The names whose values are listed, should they be there."""
        names = dict.fromkeys((*shape.required, *(name for rule in shape.rules for name in rule.by_name)))
        return [name for name in names if listed_values(self.under_name(shape, name)) is not None]

    def choices(self, shape: ObjectShape, name: str) -> frozenset[object] | None:
        """The keys of the values that may stand under a name, if they are listed."""
        goal = self.under_name(shape, name)
        values = listed_values(goal)
        if values is None:
            return None
        inside = (value for value in values if all(self.satisfies((part,), value) for part in goal))
        return frozenset(map(value_key, inside))

    # --- emptiness ------------------------------------------------------------------------------------------

    def is_empty_goal(self, goal: Goal) -> bool:
        """Whether nothing satisfies the goal, as far as a look of limited depth can prove."""
        if not goal:
            return False
        if is_never(goal):
            return True
        known = self._empty_goals.get(goal)
        if known is not None:
            return known
        if self._depth >= LOOK_DEPTH or self._is_deep():
            return False
        self._depth += 1
        try:
            values = listed_values(goal)
            if values is not None:
                empty = not any(all(self.satisfies((part,), value) for part in goal) for value in values)
            else:
                empty = all(all(map(self.is_empty, self._expand(goal, kind))) for kind in TYPES)
        except UnsupportedConstraint:
            return False  # whoever needs the goal itself will meet the reason again
        finally:
            self._depth -= 1
        if empty or self._depth == 0:
            self._empty_goals[goal] = empty
        return empty

    def is_empty(self, shape: Shape) -> bool:
        """Whether no value is inside, as far as a look of limited depth can prove."""
        if isinstance(shape, FiniteShape):
            return not shape.values
        if isinstance(shape, NumberShape):
            return is_empty_number(shape)
        if isinstance(shape, StringShape):
            return self._is_empty_string(shape)
        if isinstance(shape, ArrayShape):
            return self._is_empty_array(shape)
        return self._is_empty_object(shape)

    def _is_empty_string(self, shape: StringShape) -> bool:
        if shape.high is not None and shape.low > shape.high:
            return True
        if not shape.languages and not shape.excluded:
            return False
        known = self._empty_strings.get(shape)
        if known is None:
            known = self._empty_strings[shape] = self._languages.is_empty(self.string_language(shape))
        return known

    def _is_empty_array(self, shape: ArrayShape) -> bool:
        least = shape.low if shape.repeats is None else max(shape.low, 2)
        if (shape.high is not None and least > shape.high) or (shape.unique and shape.repeats):
            return True
        if any(self.is_empty_goal(self.at_index(shape, index)) for index in range(min(shape.low, LOOK_ITEMS))):
            return True
        return any(
            (count.high is not None and count.low > count.high)
            or (count.low > 0 and self.is_empty_goal(count.goal))
            for count in shape.counts
        )

    def _is_empty_object(self, shape: ObjectShape) -> bool:
        if shape.high is not None and max(shape.low, len(shape.required)) > shape.high:
            return True
        for name in shape.required:
            if not all(self._languages.has(language, name) for language in shape.names):
                return True
            if self.is_empty_goal(self.under_name(shape, name)):
                return True
        return any(self._is_unmeetable(some, shape) for some in shape.somes)

    def _is_unmeetable(self, some: SomeRule, shape: ObjectShape) -> bool:
        """Whether no member can be what a demand asks for: of a closed object, none of the names that it has."""
        if self.is_empty_goal(some.goal):
            return True
        closed = next((rule for rule in shape.rules if is_never(rule.additional) and not rule.patterns), None)
        return closed is not None and not any(
            self._languages.has(some.language, name)
            and not self.is_empty_goal(join_goals(self.under_name(shape, name), some.goal))
            for name in closed.by_name
        )
