"""Shared by the tests of the JSON Schema front end: compiling without a model's vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from radixrt.grammar.json_schema import json_schema_grammar
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.machine import DEAD, Machine

STEP_FUEL = 5_000_000


class Language:
    """The JSON texts of a schema, byte by byte."""

    def __init__(self, schema: Any, **options: Any) -> None:
        grammar = json_schema_grammar(schema, **options)
        self.pool = grammar.pool
        self.machine = Machine(grammar, GrammarLimits())

    def takes(self, text: str) -> bool:
        self.pool.fuel.refill(STEP_FUEL, "step_fuel")
        state = self.machine.run(self.machine.start, text.encode())
        return state != DEAD and self.machine.is_accepting(state)

    def takes_value(self, value: Any) -> bool:
        return self.takes(json.dumps(value, ensure_ascii=False))

    def next_bytes(self, state: int) -> list[int]:
        self.pool.fuel.refill(STEP_FUEL, "step_fuel")
        return [byte for byte in range(256) if self.machine.step(state, byte) != DEAD]


@pytest.fixture
def compiled() -> Callable[..., Language]:
    """``compiled(schema, **options)`` is the language of a schema."""
    return Language
