"""The content of a branch as its program wrote it: text and results in order, cut into messages by roles.

Waits for nothing itself: ``text_of`` is asked for the text of each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from radixrt.frontend.recording import Record

__all__ = ["Entry", "RoleMark", "messages", "plain_text"]


@dataclass(frozen=True, slots=True)
class RoleMark:
    """A message begins here, or with None ends."""

    role: str | None


Entry = str | Record | RoleMark


def messages(entries: Iterable[Entry], text_of: Callable[[Record], str]) -> list[dict[str, str]]:
    """The messages as ``{"role": ..., "content": ...}``. Empty for a program without roles.

    A message that is still open is among them once it has content.
    """
    found: list[dict[str, str]] = []
    role: str | None = None
    parts: list[str] = []
    for entry in entries:
        if isinstance(entry, RoleMark):
            if role is not None:
                found.append({"role": role, "content": "".join(parts)})
            role, parts = entry.role, []
        elif role is not None:
            parts.append(entry if isinstance(entry, str) else text_of(entry))
    if role is not None and any(parts):
        found.append({"role": role, "content": "".join(parts)})
    return found


def plain_text(entries: Iterable[Entry], text_of: Callable[[Record], str]) -> str:
    """The content in order; the contents of messages stand on lines of their own."""
    found: list[str] = []
    begun = False
    for entry in entries:
        if isinstance(entry, RoleMark):
            if entry.role is not None and begun:
                found.append("\n")
            begun = begun or entry.role is not None
        else:
            found.append(entry if isinstance(entry, str) else text_of(entry))
    return "".join(found)
