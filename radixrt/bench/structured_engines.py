"""The engines that ``radixrt bench structured`` runs: ours and the peers, behind one small face.

An engine compiles a JSON Schema; of a compiled one a ``Text`` is begun for each document. ``Text.fill`` and
``Text.accept`` are the engine's own calls with nothing in between, since they are what is timed. A peer that is not
installed says so. Installing xgrammar without CUDA: ``pip install --no-deps xgrammar apache-tvm-ffi`` beside the
torch that is there already; it must not pull in its own.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from radixrt.bench.structured_vocabularies import BenchVocabulary
from radixrt.errors import InvalidRequest, UnsatisfiableConstraint
from radixrt.grammar import Compiler

__all__ = ["PEERS", "Engine", "Missing", "Refused", "Text", "open_engine"]

PEERS: Final = ("llguidance", "xgrammar", "outlines-core")
_PACKAGES: Final = {"llguidance": "llguidance", "xgrammar": "xgrammar", "outlines-core": "outlines_core"}


class Missing(Exception):
    """A peer that is not installed."""


class Refused(Exception):
    """An engine does not take a schema; the text is its reason, as short as it can be counted by."""


@dataclass
class Text:
    """One text under a compiled schema. ``row`` holds the mask (uint32 words) that the last ``fill()`` wrote."""

    row: npt.NDArray[np.uint32]
    fill: Callable[[], object]
    accept: Callable[[int], bool]


class Engine(Protocol):
    """A constrained-decoding engine over one vocabulary, in one thread."""

    name: str
    version: str

    def compile(self, schema: Any) -> Callable[[], Text]:
        """What begins texts under ``schema``; ``Refused`` where the engine does not take it."""
        ...


def open_engine(name: str, bench: BenchVocabulary, options: dict[str, str]) -> Engine:
    """``radixrt`` or one of ``PEERS``. ``options`` are those of ``Compiler.json_schema``, for ours alone."""
    if name == "radixrt":
        return Radixrt(bench, options)
    kinds: dict[str, Callable[[BenchVocabulary, Any], Engine]] = {
        "llguidance": LlGuidance,
        "xgrammar": XGrammar,
        "outlines-core": OutlinesCore,
    }
    if name not in kinds:
        raise InvalidRequest(f"no peer {name!r}; there are {', '.join(PEERS)}", param="peers")
    try:
        package = importlib.import_module(_PACKAGES[name])
    except ImportError as error:
        raise Missing(f"{name} is not installed ({error})") from error
    return kinds[name](bench, package)


class Radixrt:
    """Ours, as the scheduler calls it."""

    name = "radixrt"

    def __init__(self, bench: BenchVocabulary, options: dict[str, str]) -> None:
        self.version = importlib.metadata.version("radixrt")
        self.compiler = Compiler(bench.vocab, encode=bench.encode)
        self._words = bench.vocab.words
        self._options: dict[str, Any] = dict(options)

    def compile(self, schema: Any) -> Callable[[], Text]:
        try:
            grammar = self.compiler.json_schema(schema, **self._options)
        except UnsatisfiableConstraint as error:
            raise Refused("unsatisfiable") from error
        except InvalidRequest as error:
            raise Refused(str(getattr(error, "keyword", None) or error.code)) from error

        def begin() -> Text:
            matcher = grammar.matcher()
            row = np.zeros(self._words, np.int32)
            return Text(row.view(np.uint32), partial(matcher.fill_mask, row), matcher.accept)

        return begin


class LlGuidance:
    """llguidance's matcher. Every text is a copy of one that has read nothing, so lexer states are shared."""

    name = "llguidance"

    def __init__(self, bench: BenchVocabulary, package: Any) -> None:
        self.version = importlib.metadata.version("llguidance")
        self._package = package
        self._words = bench.vocab.words
        self.tokenizer = package.LLTokenizer(package.TokenizerWrapper(_PlainTokenizer(bench)))

    def matcher(self, schema: Any) -> Any:
        """An ``LLMatcher`` at the start of a text."""
        matchers = self._package.LLMatcher
        try:
            matcher = matchers(self.tokenizer, matchers.grammar_from_json_schema(json.dumps(schema)))
        except ValueError as error:
            raise Refused(_first_words(error)) from error
        if matcher.get_error():
            raise Refused(_first_words(matcher.get_error()))
        return matcher

    def compile(self, schema: Any) -> Callable[[], Text]:
        first = self.matcher(schema)

        def begin() -> Text:
            matcher = first.deep_copy()
            row = np.zeros(self._words, np.uint32)
            fill = partial(matcher.unsafe_compute_mask_ptr, row.ctypes.data, row.nbytes)
            return Text(row, fill, matcher.consume_token)

        return begin


class _PlainTokenizer:
    """What llguidance asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, bench: BenchVocabulary) -> None:
        vocab = bench.vocab
        self.eos_token_id = vocab.eos_ids[0]
        self.tokens = [token or b"<unused %d>" % i for i, token in enumerate(vocab.tokens)]
        self.special_token_ids = [i for i, token in enumerate(vocab.tokens) if token is None]
        self._encode = bench.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode("utf-8", "replace"))


class XGrammar:
    """xgrammar with one compile thread, its cache off, and the specification's open objects (strict_mode off)."""

    name = "xgrammar"

    def __init__(self, bench: BenchVocabulary, package: Any) -> None:
        import torch

        self.version = importlib.metadata.version("xgrammar")
        self._package = package
        self._from_numpy = torch.from_numpy
        vocab = bench.vocab
        info = package.TokenizerInfo(
            [token or b"" for token in vocab.tokens],
            package.VocabType.RAW,
            vocab_size=vocab.size,
            stop_token_ids=list(vocab.eos_ids),
        )
        self._words = vocab.words
        self._compiler = package.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema: Any) -> Callable[[], Text]:
        try:
            grammar = self._compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
        except RuntimeError as error:
            raise Refused(_first_words(error)) from error

        def begin() -> Text:
            matcher = self._package.GrammarMatcher(grammar)
            row = np.zeros((1, self._words), np.int32)
            fill = partial(matcher.fill_next_token_bitmask, self._from_numpy(row))
            return Text(row[0].view(np.uint32), fill, matcher.accept_token)

        return begin


class OutlinesCore:
    """outlines-core: a schema becomes a regular expression, that an index of the whole vocabulary."""

    name = "outlines-core"

    def __init__(self, bench: BenchVocabulary, package: Any) -> None:
        self.version = importlib.metadata.version("outlines_core")
        self._package = package
        self._words = bench.vocab.words
        table: dict[bytes, list[int]] = {}
        for i, token in enumerate(bench.vocab.tokens):
            if token:
                table.setdefault(token, []).append(i)
        self._vocabulary = package.Vocabulary(bench.vocab.eos_ids[0], table)

    def compile(self, schema: Any) -> Callable[[], Text]:
        try:
            pattern = self._package.json_schema.build_regex_from_schema(json.dumps(schema))
            index = self._package.Index(pattern, self._vocabulary)
        except (ValueError, RuntimeError, TypeError, OverflowError) as error:
            raise Refused(_first_words(error)) from error

        def begin() -> Text:
            guide = self._package.Guide(index)
            row = np.zeros(self._words, np.uint32)

            def accept(token: int) -> bool:
                if not guide.accepts_tokens([token]):
                    return False
                guide.advance(token, False)
                return True

            return Text(row, partial(guide.write_mask_into, row.ctypes.data, row.size, 4), accept)

        return begin


def _first_words(error: object) -> str:
    """The part of a peer's message that says what kind of thing it refuses."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:60]
