"""What waits for room: by priority, by turns, and gone without a trace when it is no longer wanted."""

from __future__ import annotations

import pytest

from radixrt.worker.backlog import Backlog


def drained(backlog: Backlog[str, int]) -> list[tuple[str, int]]:
    found = []
    while backlog:
        found.append(backlog.pop())
    return found


def test_owners_take_turns_and_each_keeps_its_order() -> None:
    backlog: Backlog[str, int] = Backlog()
    for item in range(4):
        backlog.add("large", item, 0)
    backlog.add("late", 10, 0)
    backlog.add("later", 20, 0)
    assert drained(backlog) == [("large", 0), ("late", 10), ("later", 20), ("large", 1), ("large", 2), ("large", 3)]
    with pytest.raises(KeyError):
        backlog.pop()


def test_priority_goes_before_turns() -> None:
    backlog: Backlog[str, int] = Backlog()
    for item, priority in enumerate((0, -5, 7, 0, 7)):
        backlog.add(f"p{priority}", item, priority)
    assert [item for _, item in drained(backlog)] == [2, 4, 0, 3, 1]


def test_what_is_discarded_leaves_nothing_behind() -> None:
    backlog: Backlog[str, int] = Backlog()
    for owner in ("a", "b"):
        for item in (1, 2):
            backlog.add(owner, item, 3)
    backlog.discard("a", 1, 3)
    backlog.discard("a", 2, 3)
    backlog.discard("a", 2, 3)
    backlog.discard("nobody", 1, 9)
    assert drained(backlog) == [("b", 1), ("b", 2)]
    backlog.add("a", 1, 3)
    backlog.discard("a", 1, 3)
    assert not backlog
    assert vars(backlog) == {"_lines": {}}
