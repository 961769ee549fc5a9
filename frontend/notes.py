"""Notes on exceptions that are not ours: where a person's own exception came up.

A program may raise one exception object many times, in many rows. Such an object keeps one note of each kind.
"""

from __future__ import annotations

__all__ = ["note"]


class _Note(str):
    """A note of ours, to be told from those of the person."""

    kind: str
    where: str


def note(error: BaseException, kind: str, where: str) -> None:
    """Say once on ``error`` where it came up; of an object that comes up elsewhere too, say that."""
    notes: list[str] = getattr(error, "__notes__", [])
    for place, other in enumerate(notes):
        if isinstance(other, _Note) and other.kind == kind:
            if other.where != where:
                notes[place] = _made(kind, other.where, f"{other.where}, and again elsewhere: it is one object")
            return
    error.add_note(_made(kind, where, where))


def _made(kind: str, where: str, text: str) -> _Note:
    made = _Note(text)
    made.kind, made.where = kind, where
    return made
