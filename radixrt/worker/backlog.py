"""Activities that wait for room: the nodes of accepted programs, held back rather than refused.

A program may ask for far more sequences at once than are worth ordering or holding in memory: forks of thousands,
thousands of samples. What waits here has cost nothing yet. This module does not know how much room there is.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Backlog"]

Owner = TypeVar("Owner")
Item = TypeVar("Item")


class Backlog(Generic[Owner, Item]):
    """The highest priority first; among equals one item of each owner in turn, so that no owner holds up others."""

    def __init__(self) -> None:
        # Owners in the order of their turns, the items of each in the order they came.
        self._lines: dict[int, dict[Owner, dict[Item, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, owner: Owner, item: Item, priority: int) -> None:
        self._lines.setdefault(priority, {}).setdefault(owner, {})[item] = None

    def discard(self, owner: Owner, item: Item, priority: int) -> None:
        """Forget an item, if it is here."""
        items = self._lines.get(priority, {}).get(owner)
        if items is not None:
            items.pop(item, None)
            self._tidy(owner, priority)

    def pop(self) -> tuple[Owner, Item]:
        """The next item. Raises ``KeyError`` when there is none."""
        if not self._lines:
            raise KeyError("nothing waits")
        priority = max(self._lines)
        line = self._lines[priority]
        owner = next(iter(line))
        items = line.pop(owner)
        item = next(iter(items))
        del items[item]
        line[owner] = items  # behind all others
        self._tidy(owner, priority)
        return owner, item

    def _tidy(self, owner: Owner, priority: int) -> None:
        line = self._lines[priority]
        if not line[owner]:
            del line[owner]
        if not line:
            del self._lines[priority]
