"""What ``unevaluatedProperties`` and ``unevaluatedItems`` see: which names and items other keywords have evaluated.

A shape keeps every rule that contributed to it, so the evaluated names are those of its rules. Rules that come
from a schema that *fails* do not count; ``forget`` marks them so. Nothing here expands schemas.
"""

from __future__ import annotations

from dataclasses import replace

from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    FiniteShape,
    Goal,
    ItemRule,
    NameRule,
    ObjectShape,
    Shape,
    goal_of,
)

__all__ = ["forget", "with_unevaluated"]


def forget(shape: Shape) -> Shape:
    """The same values, with nothing counted as evaluated."""
    if isinstance(shape, ObjectShape):
        return replace(shape, rules=tuple(replace(rule, evaluates=False) for rule in shape.rules))
    if isinstance(shape, ArrayShape):
        rules = tuple(replace(rule, evaluates=False) for rule in shape.rules)
        return replace(shape, rules=rules, evaluated=())
    return shape


def with_unevaluated(shape: Shape, goal: Goal, origin: Schema, library: Library) -> Shape:
    """``shape`` where whatever is not evaluated satisfies ``goal``; afterwards everything counts as evaluated."""
    if isinstance(shape, ObjectShape):
        rules = [rule for rule in shape.rules if rule.evaluates]
        if any(rule.evaluates_rest for rule in rules):
            return shape
        names = dict.fromkeys(name for rule in rules for name, _ in rule.named)
        patterns = dict.fromkeys(language for rule in rules for language, _ in rule.patterns)
        last = NameRule(
            named=tuple((name, ()) for name in names),
            patterns=tuple((language, ()) for language in patterns),
            additional=goal,
            evaluates_rest=True,
        )
        return replace(shape, rules=(*shape.rules, last))
    if (
        isinstance(shape, FiniteShape)
        and goal
        and any(isinstance(v, list | dict) and v for v in shape.values.values())
    ):
        keyword = (
            "unevaluatedItems" if isinstance(next(iter(shape.values.values())), list) else "unevaluatedProperties"
        )
        raise origin.refuse(keyword, "beside const or enum it is not supported")
    if isinstance(shape, ArrayShape):
        item_rules = [rule for rule in shape.rules if rule.evaluates]
        if any(rule.evaluates_rest for rule in item_rules):
            return shape
        evaluated = max((len(rule.prefix) for rule in item_rules), default=0)
        rest = _either(goal, shape.evaluated, origin, library)
        return replace(shape, rules=(*shape.rules, ItemRule(((),) * evaluated, rest, evaluates_rest=True)))
    return shape


def _either(goal: Goal, evaluated: tuple[Goal, ...], origin: Schema, library: Library) -> Goal:
    """What an item must be: evaluated by a ``contains``, or as ``goal`` says."""
    parts = []
    for part in (*evaluated, goal):
        if not part:
            return ()
        schema = part[0][0]
        parts.append(schema.value if schema.keywords is None else schema.keywords)
    return goal if len(parts) == 1 else goal_of(library.derived({"anyOf": parts}, origin))
