"""One schema in a document, and the errors about it.

Whatever is refused has a place that can be found: a keyword is only named where a document spells it out. This
module does not know what a keyword means, nor how documents are read.
"""

from __future__ import annotations

from typing import Final

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.json_schema.keywords import KEYWORDS
from radixrt.grammar.json_schema.values import JsonValue

__all__ = ["Schema", "Scope"]

_NEVER_BLAMED: Final = frozenset(
    ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions", "type")
)

Scope = tuple[tuple[str, "Schema"], ...]  # by name of the anchor


class Schema:
    """One place in a document where a schema stands, reached in one scope. Equal only to itself.

    ``keywords`` is None for the two boolean schemas. ``pointer`` is the place as errors name it: a JSON
    pointer, behind the URI of its document for all but the main one. ``base`` is the URI its references are
    relative to. ``scope`` has, for each dynamic anchor, the first place that an evaluation came through.
    ``written`` are the keywords that stand in the document there, where those of the schema are made up.
    """

    __slots__ = ("base", "draft", "keywords", "pointer", "scope", "value", "written")

    def __init__(
        self,
        keywords: dict[str, JsonValue] | None,
        value: bool,
        pointer: str,
        base: str,
        draft: int,
        scope: Scope = (),
        written: dict[str, JsonValue] | None = None,
    ) -> None:
        self.keywords = keywords
        self.value = value
        self.pointer = pointer
        self.base = base
        self.draft = draft
        self.scope = scope
        self.written = keywords if written is None else written

    def __repr__(self) -> str:
        return f"Schema({self.pointer!r})"

    def refuse(self, keyword: str, why: str, *others: str) -> UnsupportedConstraint:
        """The error that says a keyword of this schema is beyond the engine: the first of these that it has.

        If it has none, since what asks for too much comes from another schema for the same value or was made up,
        the first keyword that asserts something stands for it.
        """
        written = self.written or {}
        known = (*(name for name in (keyword, *others) if name in written), *self._asserting())
        named = known[0] if known else keyword
        location = f"{self.pointer}/{named}" if known else self.pointer
        return UnsupportedConstraint(
            f"{named} at {location or 'the top'} is not supported: {why}",
            keyword=named,
            location=location,
            param="schema",
        )

    def reject(self, keyword: str, why: str) -> InvalidRequest:
        """The error that says a keyword of this schema is wrong."""
        return InvalidRequest(f"the schema is wrong at {self.pointer}/{keyword}: {why}", param="schema")

    def _asserting(self) -> list[str]:
        names = [name for name in self.written or {} if name in KEYWORDS]
        return [name for name in names if name not in _NEVER_BLAMED] or names
