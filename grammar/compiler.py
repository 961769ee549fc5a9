"""From the text of a constraint to a compiled grammar, once per text.

``Compiler`` holds the vocabulary and a cache (``compile_cache``) and knows which front end reads what.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from radixrt.api import Constraint
from radixrt.errors import InvalidRequest, RadixrtError, UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.choices import choices_grammar
from radixrt.grammar.compile_cache import CompileCache
from radixrt.grammar.compiled import CompiledGrammar
from radixrt.grammar.ebnf import ebnf_symbol
from radixrt.grammar.grammar_store import GrammarStore
from radixrt.grammar.json_schema.values import from_python
from radixrt.grammar.json_tokens import JsonTokens
from radixrt.grammar.lark import lark_symbol
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.matcher import Encode
from radixrt.grammar.regex import regex_term
from radixrt.grammar.rules import Grammar, Symbol
from radixrt.grammar.rx import Pool, new_pool
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.token_symbols import TokenSymbols
from radixrt.grammar.vocab import Vocabulary

__all__ = ["Compiler"]

_Key = tuple[str | None, ...]
_Reader = Callable[[GrammarBuilder, str, GrammarLimits, TokenSymbols], Symbol]

_MAX_VALUES: Final = 500_000
"""In a schema or a structural tag that is given as Python objects."""
_PARAMS: Final[dict[str | None, str | None]] = {
    "regex": "regex",
    "ebnf": "grammar",
    "lark": "grammar",
    "structural_tag": "grammar",
    "json_schema": "schema",
    "choices": "choices",
    "any_text": None,
}
"""The argument that a constraint came in, by its kind."""
_POINTED: Final = ("json_schema", "structural_tag", "choices")
"""The kinds whose places are JSON pointers."""


class Compiler:
    """Compiles constraints for one vocabulary. Safe to use from several threads.

    ``encode`` gives the canonical tokens of a text in mid-sequence, without special tokens; with it
    ``Matcher.forced_tokens`` can force more than single-choice tokens. ``max_entries`` and ``max_bytes`` bound the
    cache; ``cache_dir``, if given, also keeps on disk what took long to compile (``grammar_store``). Every method
    raises ``InvalidRequest`` for what is malformed, ``UnsupportedConstraint`` for what cannot be represented
    exactly or costs too much, ``UnsatisfiableConstraint`` for what no text satisfies; ``param`` is the argument
    that the constraint came in: ``regex``, ``grammar``, ``schema``, ``choices``, or an option's name.
    """

    def __init__(
        self,
        vocab: Vocabulary,
        limits: GrammarLimits | None = None,
        *,
        encode: Encode | None = None,
        max_entries: int = 1024,
        max_bytes: int = 512 * 2**20,
        cache_dir: Path | None = None,
    ) -> None:
        _check_kinds(vocab, limits, encode, cache_dir)
        for name, bound in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if type(bound) is not int or bound < 0:
                raise InvalidRequest(f"{name} must be a whole number, not {bound!r}", param=name)
        self.vocab = vocab
        self.limits = (limits or GrammarLimits()).validated()
        self._encode = encode
        self._shared = SharedRows(self.limits.shared_rows_bytes)
        self._json_tokens = functools.cache(functools.partial(JsonTokens, vocab))
        self._cache = CompileCache(max_entries, max_bytes)
        self._store = None if cache_dir is None else GrammarStore(cache_dir, vocab, self.limits)

    # --- kinds of constraints ------------------------------------------------------------------------------------

    def regex(self, pattern: str) -> CompiledGrammar:
        """Texts that ``re.fullmatch(pattern, text)`` matches; the dialect is Python's."""
        self._check_text(pattern, "regex")

        def build() -> Grammar:
            builder = GrammarBuilder(pool := self._pool())
            return builder.build(builder.terminal(regex_term(pool, pattern, self.limits)))

        return self._cached(("regex", pattern), build)

    def choices(self, choices: Sequence[str]) -> CompiledGrammar:
        """One of these strings."""
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise InvalidRequest("choices must be a list of strings", param="choices")
        for index, choice in enumerate(choices):
            if not isinstance(choice, str):
                raise InvalidRequest(
                    f"choices must be strings, but choice {index} is a {type(choice).__name__}", param="choices"
                )
        texts = tuple(map(str.__str__, choices))  # of a subclass too, whatever it shows itself as
        return self._cached(("choices", *texts), lambda: choices_grammar(self._pool(), texts, self.limits))

    def ebnf(self, text: str) -> CompiledGrammar:
        """A context-free grammar in GBNF notation; it starts from the rule ``root``."""
        self._check_text(text, "grammar")
        return self._notation(("ebnf", text), ebnf_symbol)

    def json_schema(
        self,
        schema: Mapping[str, Any] | bool | str,
        resources: Mapping[str, Any] | str | None = None,
        whitespace: str | None = None,
        key_order: str | None = None,
        unknown_format: str | None = None,
    ) -> CompiledGrammar:
        """JSON texts that satisfy a schema (an object, a bool, or either as JSON text).

        ``resources`` maps URIs to schemas that ``$ref`` may name, or is the JSON text of such an object; the other
        options are those of ``radixrt.grammar.json_schema``, None stands for its defaults.
        """
        from radixrt.grammar.json_schema import json_schema_grammar

        if not isinstance(schema, Mapping | bool | str):
            raise InvalidRequest(
                f"schema must be an object, a boolean or JSON text, not {type(schema).__name__}", param="schema"
            )
        if resources is not None and not isinstance(resources, Mapping | str):
            raise InvalidRequest(
                f"resources must be a mapping from URIs to schemas, not {type(resources).__name__}",
                param="resources",
            )
        wrong = (
            None
            if isinstance(resources, str | None)
            else next((k for k in resources if not isinstance(k, str)), None)
        )
        if wrong is not None:
            raise InvalidRequest(f"the URI of a resource is a string, not {wrong!r}", param="resources")
        for name, option in (
            ("whitespace", whitespace),
            ("key_order", key_order),
            ("unknown_format", unknown_format),
        ):
            if not isinstance(option, str | None):
                raise InvalidRequest(f"{name} must be a string, not {type(option).__name__}", param=name)
        texts = _json_key(schema, "schema"), _json_key(resources, "resources")
        self._check_length(sum(map(len, texts)), "schema")
        return self._cached(
            ("json_schema", *texts, whitespace, key_order, unknown_format),
            lambda: json_schema_grammar(
                schema,
                resources=_documents(resources),
                whitespace=whitespace,
                key_order=key_order,
                unknown_format=unknown_format,
                limits=self.limits,
            ),
        )

    def lark(self, text: str) -> CompiledGrammar:
        """A context-free grammar in Lark notation; it starts from the rule ``start``."""
        self._check_text(text, "grammar")
        return self._notation(("lark", text), lark_symbol)

    def structural_tag(self, spec: Mapping[str, Any] | str) -> CompiledGrammar:
        """Free text with constrained parts: a structural tag (a dict, or JSON text), see ``structural_tag.py``."""
        from radixrt.grammar.structural_tag import structural_tag_symbol

        def build() -> Grammar:
            builder = GrammarBuilder(pool := self._pool())
            symbols = TokenSymbols(pool, self.vocab)
            return builder.build(structural_tag_symbol(builder, spec, self.limits, symbols))

        if not isinstance(spec, Mapping | str):
            raise InvalidRequest(
                f"a structural tag is a dict or JSON text, not {type(spec).__name__}", param="grammar"
            )
        text = _json_key(spec, "grammar")
        self._check_length(len(text), "grammar")
        return self._cached(("structural_tag", text), build)

    def any_text(self) -> CompiledGrammar:
        """Every text, the empty one included: no constraint, for a text that has nothing but a prefix to repeat.

        Once the prefix is read, a matcher of it allows every id of the vocabulary, special ones and padding too.
        """

        def build() -> Grammar:
            builder = GrammarBuilder(pool := self._pool())
            return builder.build(builder.terminal(pool.all))

        return self._cached(("any_text",), build, free=True)

    def compile(self, constraint: Constraint) -> CompiledGrammar:
        """Dispatch on ``constraint.kind``."""
        if not isinstance(constraint, Constraint):
            raise InvalidRequest(
                f"a constraint is a radixrt.api.Constraint, not {type(constraint).__name__}", param="constraint"
            )
        constraint.validated()
        if constraint.kind == "choices":
            return self.choices(constraint.choices)
        if constraint.kind == "json_schema":
            return self.json_schema(
                constraint.source,
                constraint.resources,
                whitespace=constraint.whitespace,
                key_order=constraint.key_order,
                unknown_format=constraint.unknown_format,
            )
        by_kind: dict[str, Callable[[Any], CompiledGrammar]] = {
            "regex": self.regex,
            "ebnf": self.ebnf,
            "lark": self.lark,
            "structural_tag": self.structural_tag,
        }
        return by_kind[constraint.kind](constraint.source)

    def _notation(self, key: _Key, read: _Reader) -> CompiledGrammar:
        """Compile a text that may name special tokens."""

        def build() -> Grammar:
            builder = GrammarBuilder(pool := self._pool())
            return builder.build(read(builder, str(key[1]), self.limits, TokenSymbols(pool, self.vocab)))

        return self._cached(key, build)

    def _pool(self) -> Pool:
        return new_pool(self.limits.compile_fuel, "compile_fuel")

    # --- the cache -----------------------------------------------------------------------------------------------

    def _check_text(self, text: str, param: str) -> None:
        if not isinstance(text, str):
            raise InvalidRequest(f"{param} must be a string, not {type(text).__name__}", param=param)
        self._check_length(len(text), param)

    def _check_length(self, chars: int, param: str) -> None:
        if chars > self.limits.source_chars:
            raise UnsupportedConstraint(
                f"{param} is longer than {self.limits.source_chars} characters",
                keyword="source_chars",
                location="" if param == "schema" else None,
                param=param,
            )

    def _cached(self, key: _Key, build: Callable[[], Grammar], free: bool = False) -> CompiledGrammar:
        """``key``: the kind of constraint, its text and its options, each a string or None."""
        # Sources may be megabytes long, and what is kept must not hold them: a digest stands for the text.
        digest = hashlib.sha256(repr(key).encode()).digest()
        return self._cache.get(digest, lambda: self._compiled(key, build, free))

    def _compiled(self, key: _Key, build: Callable[[], Grammar], free: bool) -> CompiledGrammar:
        try:
            return CompiledGrammar(
                build() if self._store is None or free else self._store.get(key, build),
                self.vocab,
                self.limits,
                self._shared,
                self._encode,
                free=free,
                json_tokens=self._json_tokens,
            )
        except RadixrtError as error:
            kind = str(key[0])
            if error.param is None:  # the passes know what is wrong, not which argument it came from
                error.param = _PARAMS[kind]
            if isinstance(error, UnsupportedConstraint) and error.location is None and kind in _POINTED:
                error.location = ""  # what costs too much is no part of it but the whole
            raise


def _check_kinds(vocab: object, limits: object, encode: object, cache_dir: object) -> None:
    for name, value, is_right, kind in (
        ("vocab", vocab, isinstance(vocab, Vocabulary), "a Vocabulary"),
        ("limits", limits, isinstance(limits, GrammarLimits | None), "GrammarLimits"),
        ("encode", encode, encode is None or callable(encode), "a function from text to token ids"),
        ("cache_dir", cache_dir, isinstance(cache_dir, str | os.PathLike | None), "a path"),
    ):
        if not is_right:
            raise InvalidRequest(f"{name} must be {kind}, not {type(value).__name__}", param=name)


def _json_key(value: Any, param: str) -> str:
    """A text that two JSON values share exactly when they are written alike (key order matters)."""
    if isinstance(value, str):
        return "text:" + value
    _check_size(value, param)
    try:
        return json.dumps(value, default=_plain)
    except TypeError as error:
        raise InvalidRequest(f"{param} is not JSON: {error}", param=param) from error
    except (ValueError, RecursionError):  # an integer of thousands of digits, or nested deeper than is allowed
        pass
    try:
        return json.dumps(from_python(value), default=_plain)
    except RadixrtError as error:
        error.param = param
        raise


def _plain(item: object) -> object:
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, Decimal):
        return f"\ud800{item}"  # a lone surrogate is in no schema
    raise TypeError(f"{type(item).__name__} is no kind of value that JSON has")


def _documents(resources: Mapping[str, Any] | str | None) -> Mapping[str, Any] | None:
    if not isinstance(resources, str):
        return resources
    from radixrt.grammar.json_schema.values import parse_json

    try:
        found = parse_json(resources)
    except RadixrtError as error:
        error.param = "resources"
        raise
    if not isinstance(found, dict):
        raise InvalidRequest("resources is a JSON object: schemas by their URIs", param="resources")
    return found


def _check_size(value: Any, param: str) -> None:
    """Refuse an object that holds itself, or one part so often that to write it down would take for ever."""
    todo, count = [value], 0
    while todo:
        item = todo.pop()
        if isinstance(item, dict | list | tuple | Mapping):
            todo.extend(item.values() if isinstance(item, Mapping) else item)
            count += len(item)
            if count > _MAX_VALUES:
                raise UnsupportedConstraint(
                    f"{param} has more than {_MAX_VALUES} values", keyword="size", param=param
                )
