"""What may stand in an object of a given shape: its declared names in order, and a division of all other names.

Conjunction meets here: the value under a name must satisfy what *every* group of properties, pattern properties
and additional properties says about it. Nothing here knows how it is spelled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import Goal, ObjectShape, is_never, join_goals
from radixrt.grammar.rx import Rx

__all__ = ["Named", "Other", "named_members", "other_members"]

MAX_CELLS: Final = 64  # ways in which patterns may overlap


class Named(NamedTuple):
    """A member with a name of its own."""

    name: str
    goal: Goal
    required: bool


class Other(NamedTuple):
    """Any name in a language (over its value), with what its value must be."""

    language: Rx
    goal: Goal


class _Cell(NamedTuple):
    inside: tuple[Rx, ...]
    goal: Goal
    matched: bool  # by a pattern of the group being looked at


def named_members(shape: ObjectShape, languages: Languages, reasoner: Reasoner) -> list[Named] | None:
    """The declared and the required names, in that order; None if a required one cannot be there."""
    required = frozenset(shape.required)
    found = []
    for name in _declared(shape):
        goal = reasoner.under_name(shape, name)
        if is_never(goal) or not all(languages.has(language, name) for language in shape.names):
            if name in required:
                return None
            continue
        found.append(Named(name, goal, name in required))
    return found


def other_members(shape: ObjectShape, languages: Languages) -> list[Other]:
    """All names beyond the declared and required ones, divided by what their values must be."""
    start = [*shape.names]
    declared = list(_declared(shape))
    if declared:
        start.append(languages.complement(languages.any_of(declared)))
    cells = [_Cell(tuple(start), (), False)]
    for rule in shape.rules:
        for pattern, goal in rule.patterns:
            cells = _divided(cells, pattern, goal, languages)
            if len(cells) > MAX_CELLS:
                raise _too_many(shape)
        cells = [
            _Cell(cell.inside, cell.goal if cell.matched else join_goals(cell.goal, rule.additional), False)
            for cell in cells
        ]
        cells = [cell for cell in cells if not is_never(cell.goal)]
    by_goal: dict[Goal, list[Rx]] = {}
    for cell in cells:
        by_goal.setdefault(cell.goal, []).append(languages.all_of(cell.inside))
    return [Other(languages.union(parts), goal) for goal, parts in by_goal.items()]


def _declared(shape: ObjectShape) -> dict[str, None]:
    rules = sorted(shape.rules, key=lambda rule: rule.late)
    names = dict.fromkeys(name for rule in rules for name, _ in rule.named)
    names.update(dict.fromkeys(shape.required))
    return names


def _divided(cells: list[_Cell], pattern: Rx, goal: Goal, languages: Languages) -> list[_Cell]:
    divided = []
    outside = languages.complement(pattern)
    for cell in cells:
        for part in (
            _Cell((*cell.inside, pattern), join_goals(cell.goal, goal), True),
            _Cell((*cell.inside, outside), cell.goal, cell.matched),
        ):
            if not languages.is_empty(languages.all_of(part.inside)):
                divided.append(part)
    return divided


def _too_many(shape: ObjectShape) -> UnsupportedConstraint:
    rule = max(shape.rules, key=lambda rule: len(rule.patterns))
    why = f"the patterns overlap in more than {MAX_CELLS} ways"
    if rule.origin is None:
        return UnsupportedConstraint(f"patternProperties: {why}", keyword="patternProperties", param="schema")
    return rule.origin.refuse("patternProperties", why, "unevaluatedProperties")
