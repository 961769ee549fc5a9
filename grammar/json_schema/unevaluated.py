"""What ``unevaluatedProperties`` and ``unevaluatedItems`` see: which names and items other keywords have evaluated.

A shape keeps every rule that contributed to it, so the evaluated names are those of its rules. Rules that come
from a schema that *fails* do not count; ``forget`` marks them so. Nothing here expands schemas.
"""

from __future__ import annotations

from dataclasses import replace

from radixrt.grammar.json_schema.documents import Schema
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.shapes import ArrayShape, FiniteShape, Goal, ItemRule, NameRule, ObjectShape, Shape

__all__ = ["forget", "with_unevaluated"]


def forget(shape: Shape) -> Shape:
    """The same values, with nothing counted as evaluated."""
    if isinstance(shape, ArrayShape | ObjectShape):
        return replace(shape, rules=tuple(replace(rule, evaluates=False) for rule in shape.rules))  # type: ignore[arg-type]
    return shape


def with_unevaluated(shape: Shape, goal: Goal, origin: Schema, languages: Languages) -> Shape:
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
        if shape.counts and goal:
            raise origin.refuse("unevaluatedItems", "beside contains it is not supported")
        item_rules = [rule for rule in shape.rules if rule.evaluates]
        if any(rule.evaluates_rest for rule in item_rules):
            return shape
        evaluated = max((len(rule.prefix) for rule in item_rules), default=0)
        return replace(shape, rules=(*shape.rules, ItemRule(((),) * evaluated, goal, evaluates_rest=True)))
    return shape
