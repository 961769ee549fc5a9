"""Which goals have values at all: a count of names or items must not count what nothing can satisfy.

Most goals show it at a glance. Whether the others have values is only known when all rules are made: the emitter
then asks the grammar which symbols produce nothing, and if a count relied on one of those, all rules are made anew
with the goal known to be dead. A dead goal can make others dead, so this goes on until nothing is found; every
round finds a goal more, so there is an end.
"""

from __future__ import annotations

from collections.abc import Callable

from radixrt.errors import UnsupportedConstraint
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
from radixrt.grammar.json_schema.values import TYPES, JsonType

__all__ = ["Living"]


class Living:
    """One per compilation, over all its rounds. ``expand`` gives the shapes of a goal.

    ``doubted``: the goals that a count took to have values without proof.
    """

    def __init__(self, reasoner: Reasoner, expand: Callable[[Goal, JsonType], tuple[Shape, ...]]) -> None:
        self._reasoner = reasoner
        self._expand = expand
        self._dead: set[Goal] = set()
        self._sure: dict[Goal, bool] = {}
        self.doubted: dict[Goal, None] = {}

    def is_alive(self, goal: Goal) -> bool:
        """Whether some value satisfies the goal, as far as is known; what is not proved is noted."""
        if not goal:
            return True
        if is_never(goal) or goal in self._dead:
            return False
        if goal in self.doubted or self._is_sure(goal):
            return True
        if self._reasoner.is_empty_goal(goal):
            self._dead.add(goal)
            return False
        self.doubted[goal] = None
        return True

    def bury(self, goal: Goal) -> None:
        """Nothing satisfies the goal."""
        self._dead.add(goal)
        self.doubted.pop(goal, None)

    def _is_sure(self, goal: Goal) -> bool:
        known = self._sure.get(goal)
        if known is None:
            try:
                known = any(self._is_sure_shape(shape) for kind in TYPES for shape in self._expand(goal, kind))
            except UnsupportedConstraint:
                known = False  # whoever needs the goal itself will meet the reason again
            self._sure[goal] = known
        return known

    def _is_sure_shape(self, shape: Shape) -> bool:
        """Whether a glance shows a value inside that can also be spelled."""
        if isinstance(shape, FiniteShape):
            return any(value is None or isinstance(value, bool | str) for value in shape.values.values())
        if isinstance(shape, NumberShape):
            return shape.low is None and shape.high is None and not (shape.multiples or shape.non_multiples)
        if isinstance(shape, StringShape):
            return not self._reasoner.is_empty(shape)
        if isinstance(shape, ArrayShape):
            return not (shape.low or shape.repeats or any(count.low for count in shape.counts))
        return isinstance(shape, ObjectShape) and not (shape.low or shape.required or shape.somes)
