"""Shared by the tests of the JSON Schema front end: compiling without a model's vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from radixrt.grammar.compiled import CompiledGrammar
from radixrt.grammar.json_schema import json_schema_grammar
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.vocab import Vocabulary

BYTES: Final = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])


STEP_FUEL: Final = 5_000_000  # for whole texts


class Language:
    """The JSON texts of a schema."""

    def __init__(self, schema: Any, **options: Any) -> None:
        limits = options.pop("limits", GrammarLimits(step_fuel=STEP_FUEL))
        grammar = json_schema_grammar(schema, limits=limits, **options)
        self.compiled = CompiledGrammar(grammar, BYTES, limits, SharedRows(limits.shared_rows_bytes))

    def takes(self, text: str) -> bool:
        return self.compiled.matches(text)

    def takes_value(self, value: Any) -> bool:
        return self.takes(json.dumps(value, ensure_ascii=False))


@pytest.fixture
def compiled() -> Callable[..., Language]:
    """``compiled(schema, **options)`` is the language of a schema."""
    return Language
