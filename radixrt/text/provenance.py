"""Which characters of a rendered template came from messages, however it cut and joined them.

A ``Mask`` replaces every character of the messages by a stand-in, a character that occurs nowhere else. The
template gets ``MaskedText``, which holds both: its methods (``split``, ``strip``, ``in``, ``startswith``, ``==``)
look at the real characters, its value is the stand-ins. So a template decides as it would on the real text, and
each character of its output tells where it came from. Characters of ids pieces have stand-ins of their own, one
for each place, so that a piece that came through whole is recognised. This module knows no Jinja and no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from radixrt.text.pieces import IdsPiece, Piece, TextPiece

__all__ = ["Mask", "MaskedText"]

# Planes 15 and 16 are private use, 4 to 13 unassigned; the last two of each plane are no characters.
_STAND_INS = (
    range(0xF0000, 0xFFFFE),
    range(0x100000, 0x10FFFE),
    *(range(p << 16, (p << 16) + 0xFFFE) for p in range(4, 14)),
)


class Mask:
    """The stand-ins of one rendering.

    ``avoid`` are the characters that the template itself may write. Characters in ``transparent`` stand for
    themselves, as the template's own would; a template can then see them where it looks at nothing else.
    """

    MARK = "\ufffd"

    def __init__(self, avoid: Iterable[str], transparent: str = "") -> None:
        self._transparent = frozenset(transparent)
        avoided = frozenset(avoid)
        self._free: Iterator[str] = (
            chr(code) for block in _STAND_INS for code in block if chr(code) not in avoided
        )
        self._stand_in: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._pieces: dict[str, tuple[IdsPiece, str]] = {}

    def text(self, text: str) -> MaskedText:
        """Text whose spellings have no power."""
        return MaskedText(text, "".join(map(self._of, text)), self)

    def mark(self) -> MaskedText:
        """One character that the rendered text can be searched for."""
        return MaskedText(self.MARK, self._new(self.MARK), self)

    def pieces(self, pieces: Sequence[Piece]) -> MaskedText:
        """The content of a message. Ids that stand for no text cannot be told apart and are left out."""
        real: list[str] = []
        masked: list[str] = []
        for piece in _joined(pieces):
            if isinstance(piece, IdsPiece):
                stand_ins = "".join(map(self._new, piece.text))
                if stand_ins and stand_ins[0] in self._real:
                    self._pieces[stand_ins[0]] = (piece, stand_ins)
            else:
                stand_ins = piece.text if piece.literal else "".join(map(self._of, piece.text))
            real.append(piece.text)
            masked.append(stand_ins)
        return MaskedText("".join(real), "".join(masked), self)

    def unmask(self, masked: str) -> str:
        return "".join(self._real.get(char, char) for char in masked)

    def split(self, masked: str) -> list[Piece]:
        """The pieces of a rendered text: what is not masked is literal."""
        found: list[Piece] = []
        run: list[str] = []
        literal = True

        def end_run() -> None:
            if run:
                found.append(TextPiece("".join(run), literal=literal))
                run.clear()

        at = 0
        while at < len(masked):
            char = masked[at]
            whole = self._pieces.get(char)
            if whole is not None and masked.startswith(whole[1], at):
                end_run()
                found.append(whole[0])
                at += len(whole[1])
                continue
            real = self._real.get(char)
            if (real is None) is not literal:
                end_run()
                literal = real is None
            run.append(char if real is None else real)
            at += 1
        end_run()
        return found

    def _of(self, char: str) -> str:
        stand_in = self._stand_in.get(char)
        if stand_in is None:
            stand_in = self._stand_in[char] = self._new(char)
        return stand_in

    def _new(self, char: str) -> str:
        """A stand-in of its own; when all are given away, the shared one of this character."""
        if char in self._transparent:
            return char
        stand_in = next(self._free, None)
        if stand_in is None:
            return self._stand_in.get(char, char)
        self._real[stand_in] = char
        return stand_in


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, ids that stand for no text joined to the ids beside them, so that they stay with them."""
    found: list[Piece] = []
    for piece in pieces:
        before = found[-1] if found else None
        if isinstance(piece, IdsPiece) and isinstance(before, IdsPiece) and not (piece.text and before.text):
            found[-1] = IdsPiece(before.ids + piece.ids, before.text + piece.text)
        else:
            found.append(piece)
    return found


class MaskedText(str):
    """A text whose value is stand-ins and whose methods look at the characters they stand for."""

    __slots__ = ("_mask", "_real")
    _mask: Mask
    _real: str

    def __new__(cls, real: str, masked: str, mask: Mask) -> MaskedText:
        self = super().__new__(cls, masked)
        self._real = real
        self._mask = mask
        return self

    @property
    def value(self) -> str:
        """The stand-ins, as a plain text."""
        return str.__str__(self)

    def _slice(self, start: int, stop: int) -> MaskedText:
        return MaskedText(self._real[start:stop], self.value[start:stop], self._mask)

    # Comparison and search

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._real == _real(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: str) -> bool:
        return self._real < _real(other)

    def __le__(self, other: str) -> bool:
        return self._real <= _real(other)

    def __gt__(self, other: str) -> bool:
        return self._real > _real(other)

    def __ge__(self, other: str) -> bool:
        return self._real >= _real(other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __contains__(self, other: object) -> bool:
        return isinstance(other, str) and _real(other) in self._real

    # Parts

    def __getitem__(self, key: SupportsIndex | slice) -> MaskedText:
        return MaskedText(self._real[key], self.value[key], self._mask)

    def __iter__(self) -> Iterator[str]:
        return (self._slice(at, at + 1) for at in range(len(self)))

    def __add__(self, other: str) -> MaskedText:
        return MaskedText(self._real + _real(other), self.value + _value(other), self._mask)

    def __radd__(self, other: str) -> MaskedText:
        return MaskedText(_real(other) + self._real, _value(other) + self.value, self._mask)

    def __mul__(self, times: SupportsIndex) -> MaskedText:
        return MaskedText(self._real * times, self.value * times, self._mask)

    __rmul__ = __mul__

    def strip(self, chars: str | None = None, /) -> MaskedText:
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> MaskedText:
        return self._slice(len(self) - len(self._real.lstrip(_argument(chars))), len(self))

    def rstrip(self, chars: str | None = None, /) -> MaskedText:
        return self._slice(0, len(self._real.rstrip(_argument(chars))))

    def removeprefix(self, prefix: str, /) -> MaskedText:
        return self._slice(len(self) - len(self._real.removeprefix(_real(prefix))), len(self))

    def removesuffix(self, suffix: str, /) -> MaskedText:
        return self._slice(0, len(self._real.removesuffix(_real(suffix))))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Any]:
        return self._located(self._real.split(_argument(sep), maxsplit), gap=len(sep or ""))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Any]:
        return self._located(self._real.rsplit(_argument(sep), maxsplit), gap=len(sep or ""))

    def splitlines(self, keepends: bool = False) -> list[Any]:
        return self._located(self._real.splitlines(keepends))

    def partition(self, sep: str, /) -> tuple[Any, Any, Any]:
        return tuple(self._located(self._real.partition(_real(sep))))  # type: ignore[return-value]

    def rpartition(self, sep: str, /) -> tuple[Any, Any, Any]:
        return tuple(self._located(self._real.rpartition(_real(sep))))  # type: ignore[return-value]

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> MaskedText:
        real_old = _real(old)
        if not real_old:
            return self._mask.text(self._real.replace(real_old, _real(new), count))
        parts = self._located(self._real.split(real_old, count), gap=len(real_old))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + new + part
        return whole

    def join(self, items: Iterable[str], /) -> MaskedText:
        whole: MaskedText | None = None
        for item in items:
            text = item if isinstance(item, MaskedText) else MaskedText(_real(item), _value(item), self._mask)
            whole = text if whole is None else whole + self + text
        return MaskedText("", "", self._mask) if whole is None else whole

    def _located(self, parts: Iterable[str], gap: int = 0) -> list[MaskedText]:
        """The parts of the real text as parts of this one: in order, at least ``gap`` characters apart."""
        found = []
        at = 0
        for part in parts:
            at = self._real.index(part, at)
            found.append(self._slice(at, at + len(part)))
            at += len(part) + gap
        return found


def _real(text: str) -> str:
    return text._real if isinstance(text, MaskedText) else text


def _value(text: str) -> str:
    return text.value if isinstance(text, MaskedText) else text


def _argument(text: str | None) -> str | None:
    return None if text is None else _real(text)


def _on_real(name: str) -> Callable[..., Any]:
    """A method of ``str`` on the real text; a text that it makes is masked as text of the message."""

    def method(self: MaskedText, *args: Any, **kwargs: Any) -> Any:
        args = tuple(_real(value) if isinstance(value, str) else value for value in args)
        result = getattr(self._real, name)(*args, **kwargs)
        return self._mask.text(result) if isinstance(result, str) else result

    method.__name__ = name
    return method


for _name in dir(str):
    if not _name.startswith("_") and _name not in vars(MaskedText):
        setattr(MaskedText, _name, _on_real(_name))
del _name
