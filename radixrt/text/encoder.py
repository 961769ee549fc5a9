"""Plain text to ids, by an encoder that knows no control token, and the search for control tokens in literals.

``PlainEncoder`` wraps the ``tokenizers`` package. From its vocabulary every control token is taken out, so that no
path through it (a merge, a whole-word look-up, a Unigram piece) yields one, whatever the text spells.
``ControlSplitter`` finds control tokens where they are allowed. Neither knows about messages or templates.
"""

from __future__ import annotations

import enum
import re
import secrets
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.text.definition import AddedToken, TokenizerDefinition

if TYPE_CHECKING:
    from tokenizers import Tokenizer as BackendTokenizer

__all__ = ["ControlMatch", "ControlSplitter", "PlainEncoder", "RunStart"]

_PROBE = "Az 09.,\t\n<>é你🎉\x00 don't"
CACHE_CHARS = 4 << 20  # characters of run text that are remembered, and
CACHE_RUNS = 4096  # the most runs
# Python counts the four ASCII separators as whitespace, Unicode's White_Space property does not.
_NOT_SPACE = frozenset("\x1c\x1d\x1e\x1f")
_WORD_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"})


class RunStart(enum.Enum):
    """What stands before a run of plain text; it decides about the dummy prefix."""

    OPENING = "opening"  # nothing: the run opens the sequence
    AFTER_CONTROL = "after_control"  # a control token
    CONTINUING = "continuing"  # other tokens of the same text: never a dummy prefix


class PlainEncoder:
    """Encodes runs of text. Thread-safe; the latest runs are remembered."""

    def __init__(self, definition: TokenizerDefinition) -> None:
        self._source = definition.source
        spec = definition.spec
        base = _backend(_plain_spec(definition), definition.source)
        layout = [token for token in definition.added if not token.is_control]
        opening = (spec.get("normalizer"), spec.get("pre_tokenizer"))
        self._backends: dict[RunStart, BackendTokenizer] = {}
        built: list[tuple[tuple[Any, Any], BackendTokenizer]] = []
        for start in RunStart:
            ends = (_prefixed(opening[0], start), _prefixed(opening[1], start))
            same = next((backend for known, backend in built if known == ends), None)
            if same is None:
                same = _variant(base, ends, layout, definition.source)
                built.append((ends, same))
            self._backends[start] = same
        self.has_dummy_prefix = len(built) > 1
        self._cache: OrderedDict[tuple[int, str], tuple[int, ...]] = OrderedDict()
        self._cached_chars = 0
        self._lock = threading.Lock()

    def encode(self, text: str, start: RunStart) -> tuple[int, ...]:
        """The ids of a run. Raises ``InvalidRequest`` for a lone surrogate."""
        if not text:
            return ()
        backend = self._backends[start]
        key = (id(backend), text)
        with self._lock:
            ids = self._cache.get(key)
            if ids is not None:
                self._cache.move_to_end(key)
                return ids
        _check_encodable(text)
        ids = tuple(backend.encode(text, add_special_tokens=False).ids)
        self._remember(key, ids)
        return ids

    def _remember(self, key: tuple[int, str], ids: tuple[int, ...]) -> None:
        size = len(key[1])
        if size > CACHE_CHARS // 4:
            return
        with self._lock:
            if key not in self._cache:
                self._cache[key] = ids
                self._cached_chars += size
            while len(self._cache) > CACHE_RUNS or self._cached_chars > CACHE_CHARS:
                (_, text), _ = self._cache.popitem(last=False)
                self._cached_chars -= len(text)


def _check_encodable(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"the text has a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start}: "
            "it is not valid Unicode",
            param="text",
        ) from error


# --- building the backend --------------------------------------------------------------------------------------


def _plain_spec(definition: TokenizerDefinition) -> dict[str, Any]:
    """The tokenizer.json of an encoder that cannot produce a control token."""
    model = dict(definition.spec["model"])
    control = {token.id for token in definition.added if token.is_control}
    if model["type"] == "Unigram":
        hidden = _unreachable()
        model["vocab"] = [
            [f"{hidden}{index}", score] if index in control or index == model.get("unk_id") else [piece, score]
            for index, (piece, score) in enumerate(model["vocab"])
        ]
    else:
        _hide_from_merges(model, control)
        model["vocab"] |= {token.content: token.id for token in definition.added if not token.is_control}
        model["dropout"] = None
    return {"version": "1.0", "added_tokens": [], "model": model}


def _hide_from_merges(model: dict[str, Any], control: set[int]) -> None:
    vocab: dict[str, int] = model["vocab"]
    hidden = {spelling for spelling, index in vocab.items() if index in control}
    model["vocab"] = {spelling: index for spelling, index in vocab.items() if spelling not in hidden}
    unknown = model.get("unk_token")
    if unknown is not None and unknown in vocab:
        # It still stands for characters the vocabulary lacks, but text that spells it must not reach it.
        model["vocab"].pop(unknown, None)
        hidden.add(unknown)
        model["unk_token"] = _unreachable()
        model["vocab"][model["unk_token"]] = vocab[unknown]
    if hidden:
        pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
        model["merges"] = [
            [left, right]
            for left, right in pairs
            if not (left in hidden or right in hidden or left + right in hidden)
        ]


def _unreachable() -> str:
    """A spelling that no text contains but by guessing 128 random bits."""
    return f"\x00{secrets.token_hex(16)}\x00"


def _prefixed(component: Any, start: RunStart) -> Any:
    """The normalizer or pre-tokenizer as it acts on a run that starts this way."""
    if start is RunStart.OPENING or not isinstance(component, Mapping):
        return component
    kind = component.get("type")
    continuing = start is RunStart.CONTINUING
    if kind == "Prepend" and continuing:
        return None
    if kind == "ByteLevel" and continuing and component.get("add_prefix_space"):
        return {**component, "add_prefix_space": False}
    if kind == "Metaspace":
        scheme = component.get("prepend_scheme") or ("always" if component.get("add_prefix_space") else "never")
        if continuing or scheme == "first":
            # add_prefix_space is the older name; the two must not contradict each other.
            rest = {key: value for key, value in component.items() if key != "add_prefix_space"}
            return {**rest, "prepend_scheme": "never"}
        return component
    for key in ("normalizers", "pretokenizers"):
        if kind == "Sequence" and key in component:
            parts = [_prefixed(part, start) for part in component[key]]
            return {**component, key: [part for part in parts if part is not None]}
    return component


def _backend(spec: Mapping[str, Any], source: str) -> BackendTokenizer:
    from tokenizers import Tokenizer

    with _faults_named(source):
        return Tokenizer.from_str(msgspec.json.encode(spec).decode("utf-8"))


@contextmanager
def _faults_named(source: str) -> Iterator[None]:
    """The package reports every fault of a definition as a bare Exception, or panics, which is not even one."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ModelLoadError(f"{source}: not a usable tokenizer: {error}", param=source) from error
        raise


def _variant(
    base: BackendTokenizer, ends: tuple[Any, Any], layout: Sequence[AddedToken], source: str
) -> BackendTokenizer:
    """A backend that shares the model of ``base`` and has this normalizer and pre-tokenizer."""
    from tokenizers import AddedToken as BackendToken
    from tokenizers import Tokenizer

    empty = {"type": "BPE", "vocab": {}, "merges": []}
    parts = _backend({"version": "1.0", "normalizer": ends[0], "pre_tokenizer": ends[1], "model": empty}, source)
    backend = Tokenizer(base.model)
    if parts.normalizer is not None:
        backend.normalizer = parts.normalizer
    if parts.pre_tokenizer is not None:
        backend.pre_tokenizer = parts.pre_tokenizer
    backend.add_tokens(
        [
            BackendToken(
                token.content,
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized,
            )
            for token in layout
        ]
    )
    with _faults_named(source):
        # Some faults show only when text is encoded.
        backend.encode(_PROBE, add_special_tokens=False)
    for token in layout:
        if backend.token_to_id(token.content) != token.id:
            raise ModelLoadError(f"{source}: the added token {token.content!r} has no id of its own", param=source)
    return backend


# --- control tokens in literal text ------------------------------------------------------------------------------


class ControlMatch(msgspec.Struct, frozen=True):
    """A control token that takes the characters ``start:stop``, swallowed whitespace included."""

    id: int
    start: int
    stop: int


class ControlSplitter:
    """Finds control tokens by their spelling: leftmost first, the longest of those that start there."""

    def __init__(self, added: Sequence[AddedToken]) -> None:
        control = [token for token in added if token.is_control]
        self._passes: list[tuple[re.Pattern[str], dict[str, AddedToken]]] = []
        for normalized in (False, True):
            tokens = {token.content: token for token in control if token.normalized is normalized}
            if tokens:
                longest_first = sorted(tokens, key=len, reverse=True)
                self._passes.append((re.compile("|".join(map(re.escape, longest_first))), tokens))

    def spellings(self, text: str) -> list[int]:
        """The ids of the control tokens that all of ``text`` would yield as one literal, in order."""
        return [match.id for match in self.split(text, [(0, len(text))])]

    def split(self, text: str, literal: Sequence[tuple[int, int]]) -> list[ControlMatch]:
        """The control tokens whose spelling lies inside one of the ``literal`` spans, in order, disjoint."""
        found: list[ControlMatch] = []
        for pattern, tokens in self._passes:
            gaps = _gaps(found, len(text))
            new = [match for low, high in gaps for match in _scan(text, low, high, literal, pattern, tokens)]
            found = sorted([*found, *new], key=lambda match: match.start)
        return found


def _gaps(matches: Sequence[ControlMatch], length: int) -> Iterator[tuple[int, int]]:
    at = 0
    for match in matches:
        yield at, match.start
        at = match.stop
    yield at, length


def _scan(
    text: str,
    low: int,
    high: int,
    literal: Sequence[tuple[int, int]],
    pattern: re.Pattern[str],
    tokens: Mapping[str, AddedToken],
) -> Iterator[ControlMatch]:
    end = low  # where the last match stopped
    for first, last in literal:
        for match in pattern.finditer(text, max(first, low), min(last, high)):
            start, stop = match.span()
            token = tokens[match.group()]
            if start < end:
                continue
            if token.single_word and (
                (start > low and _is_word(text[start - 1])) or (stop < high and _is_word(text[stop]))
            ):
                continue
            if token.lstrip:
                while start > end and _is_space(text[start - 1]):
                    start -= 1
            if token.rstrip:
                while stop < high and _is_space(text[stop]):
                    stop += 1
            yield ControlMatch(token.id, start, stop)
            end = stop


def _is_space(char: str) -> bool:
    return char.isspace() and char not in _NOT_SPACE


def _is_word(char: str) -> bool:
    """The regular-expression class of word characters, as Unicode defines it: marks count, fractions do not."""
    return unicodedata.category(char) in _WORD_CATEGORIES or char in "\u200c\u200d"
