"""Merge neighbouring text of a branch into one node, so that it is tokenized as one piece and sent once.

Knows nothing about tokens: which neighbours stand side by side is all that counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from radixrt.api import Node, TextNode

__all__ = ["merge_text"]


def merge_text(nodes: Sequence[Node]) -> list[Node]:
    """Return ``nodes`` with runs of text of the same branch in one node, under the id of the first.

    Branches are independent between a fork and a join, both of which are nodes of their own in the branches
    they touch, so moving a text forward to its neighbour in the same branch changes nothing.
    """
    merged: list[Node] = []
    texts: dict[int, list[str]] = {}  # place in merged -> the pieces that stand there
    last: dict[int, int] = {}  # branch -> place of its last node
    for node in nodes:
        place = last.get(node.branch)
        if isinstance(node, TextNode) and place is not None and place in texts:
            texts[place].append(node.text)
            continue
        last[node.branch] = len(merged)
        if isinstance(node, TextNode):
            texts[len(merged)] = [node.text]
        merged.append(node)
    for place, pieces in texts.items():
        if len(pieces) > 1:
            merged[place] = msgspec.structs.replace(merged[place], text="".join(pieces))
    return merged
