"""Shared by the tests of Python types: their constraint compiled over single bytes, and random texts of it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic
import pytest

from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary
from radixrt.python_types import UncheckedValidatorWarning, json_schema_of
from radixrt.python_types.portable import portable

END = 256
LONGEST = 1_500
WALKS = 40
# Bytes that bring a text to its end, taken half of the time: a walk that is fair to all would write for ever.
_CLOSING = (*b'"]}', END)


@dataclass
class Constrained:
    """A type, its grammar and its parser."""

    source: str
    grammar: CompiledGrammar
    parse: Callable[[str], Any]

    def takes(self, text: str) -> bool:
        return self.grammar.matches(text)

    def check_walks(self) -> None:
        """Texts that the masks let through are parsed; enough of the walks come to an end."""
        ended = 0
        for seed in range(WALKS):
            text = self.walk(seed)
            if text is not None:
                ended += 1
                try:
                    self.parse(text)
                except pydantic.ValidationError as error:
                    raise AssertionError(f"{text!r}: {error.errors()[0]['msg']}") from error
        assert ended >= WALKS // 4

    def check_written(self, kind: Any, values: list[Any]) -> None:
        """What pydantic writes for these values is let through, and read back."""
        for value in values:
            text = pydantic.TypeAdapter(portable(kind)).dump_json(value, by_alias=True).decode()
            assert self.takes(text), text
            self.parse(text)

    def walk(self, seed: int) -> str | None:
        """A random text that the masks let through; None where it does not end in time."""
        choose = random.Random(seed)
        matcher = self.grammar.matcher()
        row = np.zeros(-(-257 // 32), np.int32)
        written = bytearray()
        while len(written) < LONGEST:
            matcher.fill_mask(row)
            allowed = [token for token in range(257) if row[token >> 5] >> (token & 31) & 1]
            assert allowed, bytes(written)
            closing = [token for token in _CLOSING if token in allowed]
            ascii_only = [token for token in allowed if token < 128]
            token = choose.choice(closing if closing and choose.random() < 0.5 else ascii_only or allowed)
            if choose.random() < 0.05:
                token = choose.choice(allowed)
            assert matcher.accept(token)
            if token == END:
                return written.decode()
            written.append(token)
        return None


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    return Compiler(Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[END], special_ids=[]))


@pytest.fixture(scope="session")
def constrained(compiler: Compiler) -> Callable[[Any], Constrained]:
    """``constrained(type)`` is its grammar and parser; warnings about validators are for other tests."""

    def of(value: Any) -> Constrained:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncheckedValidatorWarning)
            source, parse = json_schema_of(value, param="schema")
        return Constrained(source, compiler.json_schema(source, whitespace="compact"), parse)

    return of
