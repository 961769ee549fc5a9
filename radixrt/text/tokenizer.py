"""Text to ids and back, with control tokens only where they are meant.

Only template literals (``TextPiece.literal``) and pieces of ids produce control tokens; every other text is encoded
by an encoder that has none. Where no text spells a control token the ids are those of the model's own tokenizer.
A ``Tokenizer`` is immutable and may be shared by threads. It knows nothing about messages; ``chat`` does.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.text.chat_template import ChatTemplate
from radixrt.text.definition import TokenizerDefinition
from radixrt.text.encoder import ControlSplitter, PlainEncoder, RunStart
from radixrt.text.folder import definition_from_folder
from radixrt.text.gguf_vocabulary import definition_from_gguf
from radixrt.text.pieces import IdsPiece, Piece, TextPiece
from radixrt.text.stability import stable_cuts
from radixrt.text.vocabulary import ByteIndex, is_byte_level, spaces_are_visible, token_bytes

__all__ = ["Tokenizer", "load_tokenizer"]

MAX_HEALED_TOKENS = 4
STABILITY_TRIALS = 16  # candidate cuts that are encoded before giving up
STABILITY_WINDOW = 2048  # characters at the end of a text in which a stable cut is looked for


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer of a ``.gguf`` file (the first part of a split one) or of a model folder.

    Raises ``ModelLoadError`` that names the file for anything missing, damaged or of an unsupported kind.
    """
    if path.is_dir():
        return Tokenizer(definition_from_folder(path))
    if path.suffix == ".gguf":
        return Tokenizer(definition_from_gguf(path))
    raise ModelLoadError(f"{path}: neither a folder nor a .gguf file", param=str(path))


class Tokenizer:
    """The tokenizer of one model.

    ``vocab_size`` is that of the model, gaps and padding included. ``prefix_ids`` is what stands before a raw
    prompt (BOS for Llama); encoding never adds it. ``eos_ids`` are all the ids that end a text or a turn.
    """

    def __init__(self, definition: TokenizerDefinition) -> None:
        self._encoder = PlainEncoder(definition)
        self._splitter = ControlSplitter(definition.added)
        self._visible_spaces = spaces_are_visible(definition.spec) and not is_byte_level(definition.spec)
        vocab = _model_vocab(definition)
        self._bytes = token_bytes(definition, vocab)
        self._spellings: dict[int, str] = {index: text for text, index in vocab.items()}
        self._ids: dict[str, int] = dict(vocab)
        for token in definition.added:
            self._spellings[token.id] = token.content
            self._ids[token.content] = token.id
        self._control_ids = frozenset(token.id for token in definition.added if token.is_control)
        self.vocab_size = definition.size
        self.bos_id = definition.bos_id
        self.eos_ids = definition.eos_ids
        self.prefix_ids = definition.prefix_ids
        self.special_ids = frozenset(token.id for token in definition.added if token.special)
        self.chat: ChatTemplate | None = None
        if definition.template is not None:
            self.chat = ChatTemplate(
                definition.template,
                variables=definition.variables,
                control_spellings=self._splitter.spellings,
                source=definition.source,
            )

    # --- text to ids -------------------------------------------------------------------------------------------

    def encode(self, pieces: Sequence[Piece], *, at_start: bool) -> list[int]:
        """The ids of ``pieces``. Neighbouring texts are encoded as one; ids stay as they are.

        ``at_start`` says that the first piece opens the sequence, so that a dummy prefix is due where the model has
        one. BOS is never added. Raises ``InvalidRequest`` for lone surrogates and for ids outside the vocabulary.
        """
        ids: list[int] = []
        start = RunStart.OPENING if at_start else RunStart.CONTINUING
        for is_ids, group in itertools.groupby(pieces, key=lambda piece: isinstance(piece, IdsPiece)):
            if is_ids:
                ids.extend(
                    self._checked(index for piece in group if isinstance(piece, IdsPiece) for index in piece.ids)
                )
                after_control = bool(ids) and ids[-1] in self._control_ids
                start = RunStart.AFTER_CONTROL if after_control else RunStart.CONTINUING
            else:
                ids.extend(self._encode_texts([piece for piece in group if isinstance(piece, TextPiece)], start))
        return ids

    def encode_text(self, text: str, *, at_start: bool = False) -> list[int]:
        """The ids of plain text: no spelling in it has power."""
        return list(self._encoder.encode(text, RunStart.OPENING if at_start else RunStart.CONTINUING))

    def _encode_texts(self, pieces: Sequence[TextPiece], start: RunStart) -> Iterator[int]:
        text = "".join(piece.text for piece in pieces)
        at = 0
        for match in self._splitter.split(text, _literal_spans(pieces)):
            yield from self._encoder.encode(text[at : match.start], start)
            yield match.id
            at, start = match.stop, RunStart.AFTER_CONTROL
        yield from self._encoder.encode(text[at:], start)

    def _checked(self, ids: Iterator[int]) -> Iterator[int]:
        for index in ids:
            if not 0 <= index < self.vocab_size:
                raise InvalidRequest(
                    f"token id {index} is outside the vocabulary of {self.vocab_size}", param="tokens"
                )
            yield index

    # --- ids to text -------------------------------------------------------------------------------------------

    def decode(self, ids: Sequence[int], *, skip_special: bool = True, at_start: bool = False) -> str:
        """The text of ``ids``; bytes that are not UTF-8 become U+FFFD.

        ``at_start`` drops the dummy prefix of a text that was encoded with it. Without ``skip_special`` special
        tokens appear as they are spelled.
        """
        data = b"".join(self.visible_bytes(index, skip_special=skip_special) for index in self._checked(iter(ids)))
        if at_start and self.has_dummy_prefix and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", errors="replace")

    def visible_bytes(self, index: int, *, skip_special: bool = True) -> bytes:
        """What a token adds to a text, as bytes: nothing for unused ids and, when skipped, special ones."""
        data = self._bytes[index] if 0 <= index < self.vocab_size else None
        if data is None and not skip_special and index in self.special_ids:
            return self._spellings[index].encode("utf-8")
        return data or b""

    def token_bytes(self, index: int, /) -> bytes | None:
        """The bytes of a token that can be part of a text; None for special, unused and padding ids."""
        return self._bytes[index] if 0 <= index < self.vocab_size else None

    def token_text(self, index: int, /) -> str:
        """A token for display: its bytes with replacement characters, or the spelling of a special token."""
        data = self.token_bytes(index)
        return self._spellings.get(index, "") if data is None else data.decode("utf-8", errors="replace")

    def tokens(self) -> list[bytes | None]:
        """``token_bytes`` of all ``vocab_size`` ids."""
        return list(self._bytes)

    def id_of(self, spelling: str, /) -> int | None:
        """The id of the token with exactly this spelling in the vocabulary, special tokens included."""
        return self._ids.get(spelling)

    @property
    def has_dummy_prefix(self) -> bool:
        """Whether a text that opens a sequence is encoded as if a space stood before it."""
        return self._encoder.has_dummy_prefix

    # --- seams -------------------------------------------------------------------------------------------------

    def stable_prefix(self, text: str, *, at_start: bool) -> int:
        """How many characters of plain ``text`` have tokens that no continuation can change.

        With k the result, the ids of ``text[:k]`` and of ``text[k:]`` with any continuation are together those of
        the whole. Near the end for ordinary prose; 0 when no such place is found.
        """
        offset = max(0, len(text) - STABILITY_WINDOW)
        opening = at_start and offset == 0
        window = text[offset:]
        whole = self.encode_text(window, at_start=opening)
        for cut in itertools.islice(stable_cuts(window, self._crosses), STABILITY_TRIALS):
            head = self.encode_text(window[:cut], at_start=opening)
            if whole[: len(head)] == head and self.encode_text(window[cut:]) == whole[len(head) :]:
                return offset + cut
        return 0

    def _crosses(self, left: str, right: str) -> bool:
        if self._visible_spaces:
            left, right = left.replace("▁", " "), right.replace("▁", " ")
        return self._index.crosses(left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))

    def heal(self, ids: Sequence[int], floor: int) -> tuple[int, bytes]:
        """How many tokens to cut off the end of ``ids``, and their bytes, so that sampling may choose them anew.

        The most tokens, at most four and none below index ``floor``, whose bytes some longer token starts with;
        special tokens are never cut. ``(0, b"")`` when no token could extend the end.
        """
        best = (0, b"")
        tail = b""
        for count in range(1, min(MAX_HEALED_TOKENS, len(ids) - floor) + 1):
            data = self.token_bytes(ids[-count])
            if data is None or ids[-count] in self._control_ids:
                break
            tail = data + tail
            if self._index.extends(tail):
                best = (count, tail)
        return best

    @functools.cached_property
    def _index(self) -> ByteIndex:
        return ByteIndex(self._bytes)


def _model_vocab(definition: TokenizerDefinition) -> dict[str, int]:
    model = definition.spec["model"]
    if model["type"] == "Unigram":
        return {piece: index for index, (piece, _) in enumerate(model["vocab"])}
    return dict(model["vocab"])


def _literal_spans(pieces: Sequence[TextPiece]) -> list[tuple[int, int]]:
    """The maximal spans of literal text in the concatenation of ``pieces``."""
    spans: list[tuple[int, int]] = []
    at = 0
    for literal, group in itertools.groupby(pieces, key=lambda piece: piece.literal):
        size = sum(len(piece.text) for piece in group)
        if literal and size:
            if spans and spans[-1][1] == at:
                spans[-1] = (spans[-1][0], at + size)
            else:
                spans.append((at, at + size))
        at += size
    return spans
