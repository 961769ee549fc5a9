"""The text of a grammar, and errors that say where in it something is wrong."""

from __future__ import annotations

from typing import NoReturn

from radixrt.errors import InvalidRequest, RadixrtError, UnsupportedConstraint
from radixrt.grammar.limits import GrammarLimits

__all__ = ["GrammarText"]


class GrammarText:
    """A grammar in some notation. Places are offsets into ``text``; errors spell them ``line:column``, from 1."""

    def __init__(self, text: str, limits: GrammarLimits) -> None:
        if len(text) > limits.source_chars:
            raise UnsupportedConstraint(
                f"the grammar has more than {limits.source_chars} characters",
                keyword="source_chars",
                location=GrammarText.place_in(text, limits.source_chars),
                param="grammar",
            )
        self.text = text
        if text.startswith("\ufeff"):
            self.fail("the text begins with a byte order mark (U+FEFF), which is no part of a grammar", 0)

    def place(self, at: int) -> str:
        """``line:column`` of an offset."""
        return self.place_in(self.text, at)

    @staticmethod
    def place_in(text: str, at: int) -> str:
        """``line:column`` of an offset into a text."""
        return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"

    def fail(self, problem: str, at: int) -> NoReturn:
        """The text is no grammar."""
        raise InvalidRequest(f"not a grammar: {problem} at {self.place(at)}", param="grammar")

    def refuse(self, keyword: str, problem: str, at: int) -> NoReturn:
        """The grammar asks for what the engine does not do."""
        place = self.place(at)
        raise UnsupportedConstraint(f"{problem}, at {place}", keyword=keyword, location=place, param="grammar")

    def blame(self, error: RadixrtError, at: int) -> NoReturn:
        """Raise what went wrong in a part of the grammar (a pattern, a schema) as an error of the grammar."""
        problem = f"{error.message}, at {self.place(at)}"
        if isinstance(error, UnsupportedConstraint):
            raise UnsupportedConstraint(
                problem, keyword=error.keyword, location=self.place(at), param="grammar"
            ) from error
        raise InvalidRequest(f"not a grammar: {problem}", param="grammar") from error

    def checked(self, char: str, at: int) -> str:
        """A character that text can hold."""
        if "\ud800" <= char <= "\udfff":
            self.refuse("surrogate", f"the surrogate U+{ord(char):04X} cannot occur in text", at)
        return char
