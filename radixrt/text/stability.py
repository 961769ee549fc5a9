"""Places in a text where its tokens cannot depend on what comes later.

Two things tie a token to later text: the cut into words, which looks a few characters ahead, and merges across the
place. The candidates here are places where every known cut into words has a boundary whatever follows (before
the single blank of `` word``, or between characters of a script written without blanks); that no token reaches
across is asked of the vocabulary. Nothing here tokenizes: the caller compares the ids on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["stable_cuts"]

LOOK_BACK = 512  # characters searched from the end
LOOK_AHEAD = 2  # characters right of a cut that must be there
CONTEXT = 64  # characters on either side that a token across the cut could use


def stable_cuts(text: str, crosses: Callable[[str, str], bool]) -> Iterator[int]:
    """Yield the candidate cuts, the last one first. ``crosses`` tells whether a token may lie across two texts."""
    for cut in range(len(text) - LOOK_AHEAD, max(0, len(text) - LOOK_BACK), -1):
        before, after, second = text[cut - 1], text[cut], text[cut + 1]
        if not (_starts_word(before, after, second) or (_is_unspaced(before) and _is_unspaced(after))):
            continue
        if not crosses(text[max(0, cut - CONTEXT) : cut], text[cut : cut + CONTEXT]):
            yield cut


def _starts_word(before: str, after: str, second: str) -> bool:
    """A single blank or line break between two visible characters."""
    return after in " \n" and not second.isspace() and not before.isspace()


def _is_unspaced(char: str) -> bool:
    """Han, kana and the like: scripts in which a word needs no blank before it."""
    return "\u3041" <= char <= "\u30ff" or "\u3400" <= char <= "\u4dbf" or "\u4e00" <= char <= "\u9fff"
