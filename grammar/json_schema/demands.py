"""Which names a demand for some member (``SomeRule``) singles out among those that are not declared.

Nothing here knows how objects are spelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.members import Named, Other
from radixrt.grammar.json_schema.shapes import ObjectShape, SomeRule
from radixrt.grammar.json_schema.sizes import count_strings

__all__ = ["singled_out"]

MAX_FEW: Final = 8  # names taken one by one; objects have a state for every subset of them


def singled_out(
    shape: ObjectShape, others: Sequence[Other], languages: Languages
) -> tuple[list[Named], list[Other]]:
    """Names that only a demand tells from others, where it has few: taken one by one, so that it cannot lose them
    all.

    What is left of the other names meets a demand by endlessly many names, or by none.
    """
    few: list[Named] = []
    for some in shape.somes:
        rest: list[Other] = []
        for other in others:
            shared = languages.all_of((other.language, some.language))
            if languages.is_empty(shared) or count_strings(languages.pool, shared) is None:
                rest.append(other)
                continue
            names = languages.few(shared, MAX_FEW - len(few))
            if names is None:
                raise _too_many_names(shape, some)
            few.extend(Named(name, other.goal, False) for name in names)
            left = languages.all_of((other.language, languages.complement(some.language)))
            if not languages.is_empty(left):
                rest.append(Other(left, other.goal))
        others = rest
    return few, list(others)


def _too_many_names(shape: ObjectShape, some: SomeRule) -> UnsupportedConstraint:
    why = f"its negation asks for a member out of more than {MAX_FEW} names that are not declared"
    if some.blame is not None:
        schema, keyword = some.blame
        return schema.refuse(keyword, why)
    if shape.origin is not None:
        return shape.origin.refuse("propertyNames", why)
    return UnsupportedConstraint(f"propertyNames: {why}", keyword="propertyNames", param="schema")
