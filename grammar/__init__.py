"""Text of a constraint in, allowed-token bitmask out.

    vocab = Vocabulary.from_tokenizer(tokenizer)
    grammar = Compiler(vocab).regex(r"[0-9]{3}-[0-9]{4}")
    matcher = grammar.matcher()
    matcher.fill_mask(row); matcher.accept(token)

Works on bytes throughout and needs neither torch nor a tokenizer library.
"""

from __future__ import annotations

from radixrt.grammar.batch import fill_masks
from radixrt.grammar.compiled import CompiledGrammar
from radixrt.grammar.compiler import Compiler
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.matcher import Matcher
from radixrt.grammar.vocab import Vocabulary

__all__ = ["CompiledGrammar", "Compiler", "GrammarLimits", "Matcher", "Vocabulary", "fill_masks"]
