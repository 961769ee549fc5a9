"""Why a valid document is not taken: another order of members, another spelling of a number, or neither.

A grammar fixes how a value is written, so a valid document can be refused for its writing alone. The answer is
found by writing the value again under the grammar itself, member by member and with a matcher for each attempt: if
some order or spelling is taken, that was the cause. The search is bounded in steps; where it finds nothing the
refusal counts as wrong. It needs a vocabulary in which every byte is a token of its own id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from radixrt.grammar import CompiledGrammar, Matcher, Vocabulary

__all__ = ["byte_vocabulary", "cause_of_refusal"]

_STEPS: Final = 20_000
_Orders = list[dict[str, int]]
"""Names of members with their places, one mapping for each declaration."""
_Pending = tuple[tuple[str, Any], Any] | None
"""What is still to be written: a linked list of (kind, content), the next first."""


def byte_vocabulary() -> Vocabulary:
    """Every byte is a token; 256 ends the text."""
    return Vocabulary([*(bytes([i]) for i in range(256)), None], [256])


def cause_of_refusal(grammar: CompiledGrammar, any_order: CompiledGrammar | None, schema: Any, value: Any) -> str:
    """``spelling``, ``key_order``, ``key_order+spelling``; ``rejected`` where no writing of ``value`` is taken.

    ``any_order`` takes the members of objects in any order, those of given values aside; else orders are searched.
    """
    known = _declared(schema)
    if _is_taken(grammar, value, known, orders=False, spellings=True):
        return "spelling"
    for cause, spellings in (("key_order", False), ("key_order+spelling", True)):
        if any_order is not None and _is_taken(any_order, value, known, orders=False, spellings=spellings):
            return cause
        if _is_taken(grammar, value, known, orders=True, spellings=spellings):
            return cause
    return "rejected"


def _is_taken(grammar: CompiledGrammar, value: Any, known: _Orders, orders: bool, spellings: bool) -> bool:
    """Whether some writing of ``value`` is taken: depth first, members in a declared order first."""
    todo: list[tuple[Matcher, _Pending]] = [(grammar.matcher(), (("value", value), None))]
    for _ in range(_STEPS):
        if not todo:
            return False
        matcher, pending = todo.pop()
        if pending is None:
            if matcher.is_accepting:
                return True
            continue
        (kind, content), rest = pending
        options = list(_written(kind, content, rest, known, orders, spellings))
        for text, after in reversed(options):
            branch = matcher.copy() if len(options) > 1 else matcher
            if all(map(branch.accept, text.encode())):
                todo.append((branch, after))
    return False


def _written(
    kind: str, content: Any, rest: _Pending, known: _Orders, orders: bool, spellings: bool
) -> Iterator[tuple[str, _Pending]]:
    """What may be written next: a text, and what is pending after it."""
    if kind == "items":
        items, first = content
        if items:
            yield "" if first else ", ", (("value", items[0]), (("items", (items[1:], False)), rest))
        else:
            yield "]", rest
    elif kind == "members":
        members, first = content
        if not members:
            yield "}", rest
            return
        names = _likely_order(members, known) if orders else [next(iter(members))]
        for name in names:
            others = {other: member for other, member in members.items() if other != name}
            written = ("" if first else ", ") + json.dumps(name, ensure_ascii=False) + ": "
            yield written, (("value", members[name]), (("members", (others, False)), rest))
    elif isinstance(content, dict):
        yield "{", (("members", (content, True)), rest)
    elif isinstance(content, list):
        yield "[", (("items", (content, True)), rest)
    else:
        for text in _spellings(content) if spellings else (json.dumps(content, ensure_ascii=False),):
            yield text, rest


def _declared(schema: Any) -> _Orders:
    """The names of every ``properties`` and ``required`` in a schema, in their order."""
    found: list[dict[str, int]] = []
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            properties, required = value.get("properties"), value.get("required")
            names = [*(properties if isinstance(properties, dict) else ())]
            names += [name for name in (required if isinstance(required, list) else ()) if isinstance(name, str)]
            found.append({name: place for place, name in enumerate(dict.fromkeys(names))})
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found


def _likely_order(members: Mapping[str, Any], known: _Orders) -> list[str]:
    """The names of ``members`` as the declaration that has most of them orders them, others last."""
    best = max(known, key=lambda order: len(order.keys() & members.keys()), default={})
    return sorted(members, key=lambda name: best.get(name, len(best)))


def _spellings(value: Any) -> list[str]:
    """Ways to write a value that is neither an array nor an object."""
    found = [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, int | float) and not isinstance(value, bool) and "n" not in found[0].lower():
        exact = Decimal(found[0])
        if abs(exact.adjusted()) <= 400:
            plain = f"{exact:f}"
            short = plain.rstrip("0").rstrip(".") if "." in plain else plain
            found += [plain, short, "0" if short in ("-0", "") else short, short + ".0", f"{exact:e}"]
    elif isinstance(value, str):
        found.append(json.dumps(value))
    return list(dict.fromkeys(found))
