"""The branches of one fork, together: a sequence of states with reads that give a list."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

from radixrt.api import MAX_BRANCHES
from radixrt.errors import InvalidRequest

if TYPE_CHECKING:
    from radixrt.frontend.expressions import Expression
    from radixrt.frontend.state import Branch

__all__ = ["Branches", "fork_keys"]


def fork_keys(n_or_keys: int | Iterable[Any]) -> tuple[Any, ...]:
    """The keys of a fork. Raises ``InvalidRequest`` for no branch at all and for keys that repeat."""
    if isinstance(n_or_keys, int) and not isinstance(n_or_keys, bool):
        if not 1 <= n_or_keys < MAX_BRANCHES:
            raise InvalidRequest(f"fork takes 1 to {MAX_BRANCHES - 1} branches", param="n_or_keys")
        return tuple(range(n_or_keys))
    if isinstance(n_or_keys, bool | str | bytes | set | frozenset) or not isinstance(n_or_keys, Iterable):
        raise InvalidRequest(
            f"fork takes a number or a list of keys, not {type(n_or_keys).__name__}", param="n_or_keys"
        )
    keys = tuple(itertools.islice(n_or_keys, MAX_BRANCHES))  # an endless iterable ends here
    if not 1 <= len(keys) < MAX_BRANCHES:
        raise InvalidRequest(f"fork takes 1 to {MAX_BRANCHES - 1} keys", param="n_or_keys")
    seen: set[Any] = set()
    for key in keys:
        try:
            repeated = key in seen
        except TypeError:
            raise InvalidRequest(f"the fork key {key!r} is not hashable", param="n_or_keys") from None
        if repeated:
            raise InvalidRequest(f"the fork key {key!r} stands twice", param="n_or_keys")
        seen.add(key)
    return keys


class Branches(Sequence["Branch"]):
    """What ``s.fork`` returns. A number picks a branch; a name gives the list of its values in branch order."""

    def __init__(self, branches: Iterable[Branch]) -> None:
        self._branches = tuple(branches)

    @overload
    def __getitem__(self, place: int) -> Branch: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Branch]: ...
    @overload
    def __getitem__(self, place: str) -> list[Any]: ...
    def __getitem__(self, place: int | slice | str) -> Any:
        if isinstance(place, str):
            return [branch[place] for branch in self._branches]
        return self._branches[place]

    def __setitem__(self, place: int, branch: Branch) -> None:
        """The second half of ``b[0] += ...``, after which Python puts the branch back where it was."""
        if self._branches[place] is not branch:
            raise InvalidRequest("a branch cannot be replaced by something else", param="branches")

    def __len__(self) -> int:
        return len(self._branches)

    def __iter__(self) -> Iterator[Branch]:
        return iter(self._branches)

    def __iadd__(self, value: Expression | str) -> Self:
        """Append the same to every branch."""
        for branch in self._branches:
            branch += value
        return self

    def branch(self, key: Any) -> Branch:
        """The branch with this key."""
        for branch in self._branches:
            if branch.key == key:
                return branch
        raise InvalidRequest(f"no branch has the key {key!r}", param="key")

    async def read(self, name: str) -> list[Any]:
        """``b[name]`` for ``async def`` programs."""
        return [await branch.read(name) for branch in self._branches]

    async def wait(self) -> None:
        """Wait for everything in every branch so far."""
        for branch in self._branches:
            await branch.wait()

    def cancel(self) -> None:
        """Cancel every branch."""
        for branch in self._branches:
            branch.cancel()

    def __repr__(self) -> str:
        return f"<Branches {[branch.key for branch in self._branches]}>"
