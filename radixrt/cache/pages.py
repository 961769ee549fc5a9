"""The pool of KV slots, handed out in pages.

A *slot* holds the keys and values of one token in every layer; a *page* is ``page_size`` neighbouring slots.
The pool knows which pages are free and nothing else: who holds the others (a sequence or the radix tree) and
what is in them is their affair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["PagePool"]

Slots = NDArray[np.int32]


class PagePool:
    """A stack of free pages over ``total_slots`` slots (rounded down to whole pages).

    Raises ``ValueError`` when not even one page fits.
    """

    def __init__(self, total_slots: int, page_size: int = 1) -> None:
        if page_size < 1 or total_slots < page_size:
            raise ValueError(f"a pool of {total_slots} slots has no page of {page_size}")
        self.page_size = page_size
        self.total_pages = total_slots // page_size
        # The stack is filled downwards so that the first pages handed out are the first of the pool.
        self._stack = np.arange(self.total_pages - 1, -1, -1, dtype=np.int32)
        self._n_free = self.total_pages
        self._is_free = np.ones(self.total_pages, bool)
        self._offsets = np.arange(page_size, dtype=np.int32)

    @property
    def total(self) -> int:
        """Slots in the pool."""
        return self.total_pages * self.page_size

    @property
    def free_slots(self) -> int:
        return self._n_free * self.page_size

    def pages_for(self, n_tokens: int) -> int:
        """Pages that hold ``n_tokens`` tokens."""
        return -(-n_tokens // self.page_size)

    def alloc(self, n_slots: int) -> Slots | None:
        """Take whole pages for ``n_slots`` slots; the caller owns them until it frees or gives them away.

        Returns all their slots, page by page: int32 ``[pages_for(n_slots) * page_size]``. Returns None, and
        takes nothing, when too few are free.
        """
        n_pages = self.pages_for(n_slots)
        if n_pages > self._n_free:
            return None
        rest = self._n_free - n_pages
        pages = self._stack[rest : self._n_free][::-1].copy()
        self._n_free = rest
        self._is_free[pages] = False
        if self.page_size == 1:
            return pages
        return (pages[:, None] * np.int32(self.page_size) + self._offsets).ravel()

    def free(self, slots: Slots) -> None:
        """Take back whole pages, given as all their slots in the order ``alloc`` returned them.

        Raises ``RuntimeError``, and changes nothing, for a page that is free already, given twice, not of
        this pool or not whole: a bug of the caller that would otherwise corrupt somebody's context later.
        """
        if len(slots) == 0:
            return
        pages = self._pages_of(slots)
        if int(pages.min()) < 0 or int(pages.max()) >= self.total_pages:
            raise RuntimeError("freeing a slot that is not in the pool")
        if self._is_free[pages].any():
            raise RuntimeError(f"double free of page {int(pages[self._is_free[pages]][0])}")
        self._is_free[pages] = True
        n_free = self._n_free + len(pages)
        if n_free > self.total_pages or (len(pages) > 1 and len(np.unique(pages)) != len(pages)):
            self._is_free[pages] = False
            raise RuntimeError("a page is freed twice in one call")
        self._stack[self._n_free : n_free] = pages[::-1]
        self._n_free = n_free

    def free_pages(self) -> NDArray[np.int32]:
        """The free pages, for invariant checks: a copy."""
        return self._stack[: self._n_free].copy()

    def _pages_of(self, slots: Slots) -> NDArray[np.int32]:
        if self.page_size == 1:
            return slots
        if len(slots) % self.page_size:
            raise RuntimeError(f"{len(slots)} slots are not whole pages of {self.page_size}")
        rows = slots.reshape(-1, self.page_size)
        pages = rows[:, 0] // np.int32(self.page_size)
        if not np.array_equal(rows, pages[:, None] * np.int32(self.page_size) + self._offsets):
            raise RuntimeError("the slots are not whole pages")
        return pages
