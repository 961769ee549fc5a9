"""Compiled grammars on disk: what took long to compile once is read by the next process.

A file is found by a digest of all that its grammar depends on: the constraint and its options, the limits, the
vocabulary (grammars may name its tokens), the versions of this package and of the format. Failures are not kept.
"""

from __future__ import annotations

import array
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from radixrt import __version__
from radixrt.errors import RadixrtError
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.private_folder import PrivateFolder
from radixrt.grammar.rules import Grammar
from radixrt.grammar.rx import new_pool
from radixrt.grammar.stored_grammar import FORMAT, read_grammar, written_grammar
from radixrt.grammar.vocab import Vocabulary
from radixrt.kernels.cpu.machine import LeftRecursion
from radixrt.kernels.cpu.terms import NativePool

__all__ = ["GrammarStore"]

_FOLDER: Final = "grammar"
_WORTH_KEEPING: Final = GrammarLimits().compile_fuel // 100  # a few milliseconds; to open a file takes 0.1


class GrammarStore:
    """The sub-folder ``grammar`` of ``cache_dir``, which is made private to this user.

    Raises ``InvalidRequest`` (``cache_dir``) where it cannot be.
    """

    def __init__(self, cache_dir: Path, vocab: Vocabulary, limits: GrammarLimits) -> None:
        self._folder = PrivateFolder(Path(cache_dir) / _FOLDER, param="cache_dir")
        self._limits = limits
        common = [FORMAT, __version__, sys.byteorder, msgspec.to_builtins(limits), _digest_of(vocab)]
        self._common = hashlib.sha256(json.dumps(common).encode())

    def get(self, key: tuple[object, ...], build: Callable[[], Grammar]) -> Grammar:
        """The grammar of ``key``, read or built, and then kept if that was worth it."""
        name = self._name_of(key)
        if name is None:
            return build()
        found = self._read(name)
        if found is not None:
            return found
        grammar = build()
        pool = grammar.pool
        if isinstance(pool, NativePool) and self._limits.compile_fuel - pool.fuel_left >= _WORTH_KEEPING:
            left = pool.fuel_left
            content = written_grammar(grammar)
            pool.refill(left, pool.limit)
            if content is not None:
                self._folder.save(name, content)
        return grammar

    def _name_of(self, key: tuple[object, ...]) -> str | None:
        if not all(part is None or isinstance(part, str) for part in key):
            return None  # malformed, as the front end will say
        digest = self._common.copy()
        digest.update(json.dumps(key).encode())
        return digest.hexdigest()

    def _read(self, name: str) -> Grammar | None:
        pool = new_pool(self._limits.compile_fuel, "compile_fuel")
        content = self._folder.load(name) if isinstance(pool, NativePool) else None
        if content is None or not isinstance(pool, NativePool):
            return None
        try:
            return read_grammar(content, pool)
        except (ValueError, RadixrtError, LeftRecursion) as error:
            self._folder.complain(name, f"it holds no grammar: {error}")
            return None


def _digest_of(vocab: Vocabulary) -> str:
    """A digest of the tokens and their names."""
    digest = hashlib.sha256()
    tokens = [token or b"" for token in vocab.tokens]
    digest.update(array.array("q", map(len, tokens)).tobytes())
    digest.update(b"".join(tokens))
    names = [vocab.size, list(vocab.eos_ids), sorted(vocab.special_ids), sorted(vocab.special_names.items())]
    digest.update(json.dumps(names).encode())
    return digest.hexdigest()
