"""What a part of a type asks for that no schema can say. Does not know where in a type it stands."""

from __future__ import annotations

import re

__all__ = ["Unserved", "identifier"]


class Unserved(ValueError):
    """``keyword`` is one word that programs may compare, the message says in words what cannot be served."""

    def __init__(self, keyword: str, words: str) -> None:
        super().__init__(words)
        self.keyword = keyword


def identifier(name: str) -> str:
    """The first identifier in a name: of a qualified one its class, of a generic one what it is made of."""
    found = re.search(r"[^\W\d]\w*", name)
    return "type" if found is None else found[0]
