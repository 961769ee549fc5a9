"""What a branch has said so far, as a value: token ids that are settled and pieces that are not tokenized yet.

A context never changes; every operation returns a new one that shares the old one's parts. So a fork is a
reference, and a thread may tokenize a context while the loop goes on. ``prompts`` turns it into ``Prompt``s, ids
ready to run; ``Prompt.continued`` is the context after generated ids, which stay as they were sampled.

Two kinds: ``RawContext`` is plain text; ``ChatContext`` is messages, rendered by the model's chat template. Nothing
here schedules, generates or knows programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from radixrt.errors import ContextLengthExceeded, InvalidRequest
from radixrt.text.pieces import IdsPiece, Message, Piece, TextPiece
from radixrt.worker.runtime import Runtime, TokenizerProtocol

__all__ = ["ChatContext", "Context", "IdRope", "Prompt", "RawContext"]

_MAX_ROPE_DEPTH = 32


class IdRope:
    """An immutable sequence of token ids that shares its beginning with the one it was extended from."""

    __slots__ = ("_depth", "_own", "_parent", "length")

    def __init__(self, own: tuple[int, ...] = (), parent: IdRope | None = None) -> None:
        self._own = own
        self._parent = parent
        self._depth: int = 0 if parent is None else parent._depth + 1
        self.length: int = len(own) + (0 if parent is None else parent.length)

    @property
    def last(self) -> int | None:
        link: IdRope | None = self
        while link is not None and not link._own:
            link = link._parent
        return None if link is None else link._own[-1]

    def extended(self, ids: Sequence[int]) -> IdRope:
        if not ids:
            return self
        if self._depth >= _MAX_ROPE_DEPTH:
            return IdRope((*self.to_list(), *ids))
        return IdRope(tuple(ids), self if self.length else None)

    def to_list(self) -> list[int]:
        links: list[IdRope] = []
        link: IdRope | None = self
        while link is not None:
            links.append(link)
            link = link._parent
        ids: list[int] = []
        for part in reversed(links):
            ids.extend(part._own)
        return ids


class Prompt(msgspec.Struct, frozen=True):
    """A context as token ids: those settled before (``base``) and those made now (``new``).

    ``tail`` is the program text that the last tokens stand for, "" when the prompt ends otherwise: only these
    tokens may be cut off and generated again. ``rendered`` is what the ids stand for (chat only).
    """

    context: RawContext | ChatContext
    base: IdRope
    new: tuple[int, ...]
    tail: str = ""
    rendered: tuple[Piece, ...] = ()

    def ids(self, drop: int = 0) -> list[int]:
        """All ids but the last ``drop``, which must be among the new ones."""
        ids = self.base.to_list()
        ids.extend(self.new[: len(self.new) - drop])
        return ids

    def heal(self, tokenizer: TokenizerProtocol) -> tuple[int, bytes]:
        """(tokens to cut off, their bytes): what a continuation might have tokenized differently."""
        if not self.tail:
            return 0, b""
        ids = self.ids()
        # Never a token that stands, even in part, for something else than the tail; never the whole context.
        floor, room = len(ids), len(self.tail.encode())
        while floor > max(self.base.length, 1):
            size = _size(tokenizer, ids[floor - 1])
            if not 0 < size <= room:
                break
            floor, room = floor - 1, room - size
        count, cut = tokenizer.heal(ids, floor)
        if count and _text_of(cut) is None:
            return 0, b""
        return count, cut

    def continued(self, drop: int, ids: Sequence[int], cut: str, text: str, rest: str) -> Context:
        """The context after the last ``drop`` tokens were cut off and ``ids`` were appended.

        ``ids`` stand for ``cut`` (the text of the dropped tokens) + ``text``; ``rest`` follows as program text.
        """
        if not ids:
            return self.context.with_text(rest) if rest else self.context
        settled = self.base.extended(self.new[: len(self.new) - drop]).extended(ids)
        piece = IdsPiece(ids=tuple(ids), text=cut + text)
        after = (TextPiece(rest),) if rest else ()
        if isinstance(self.context, RawContext):
            return RawContext(ids=settled, pending=after)
        return self.context.continued(settled, self.rendered, cut, piece, after)


class RawContext(msgspec.Struct, frozen=True):
    """Plain text: settled ids, then pieces that are tokenized together when a node needs them."""

    ids: IdRope = IdRope()
    pending: tuple[Piece, ...] = ()

    def with_pieces(self, pieces: Iterable[Piece]) -> RawContext:
        return RawContext(self.ids, (*self.pending, *pieces))

    def with_text(self, text: str) -> RawContext:
        return self.with_pieces((TextPiece(text),)) if text else self

    def prompts(self, runtime: Runtime, extras: Sequence[str]) -> list[Prompt]:
        """Tokenize what is pending, once with each of ``extras`` behind it."""
        return [self._prompt(runtime, extra) for extra in extras]

    def _prompt(self, runtime: Runtime, extra: str) -> Prompt:
        tokenizer = runtime.tokenizer
        pieces = _merged((*self.pending, TextPiece(extra)))
        _check_size(pieces, runtime)
        base = self.ids
        if not base.length and not (pieces and isinstance(pieces[0], IdsPiece)):
            # A text opens with what the tokenizer puts there; ids given by the program are taken as they are.
            base = IdRope(tuple(tokenizer.prefix_ids))
        new = tuple(_encode(tokenizer, self.ids, pieces))
        if not base.length and not new:
            base = _beginning(tokenizer)
        return Prompt(context=self, base=base, new=new, tail=_tail(_merged(self.pending)))

    def settled(self, runtime: Runtime) -> Context:
        """The same content with every token settled that no continuation can change."""
        tokenizer = runtime.tokenizer
        pieces = _merged(self.pending)
        _check_size(pieces, runtime)
        opening = not self.ids.length
        front, rest = _stable_front(tokenizer, pieces, at_start=opening)
        if not front:
            return self
        base = self.ids
        if opening and not isinstance(front[0], IdsPiece):
            base = IdRope(tuple(tokenizer.prefix_ids))
        return RawContext(base.extended(_encode(tokenizer, self.ids, front)), rest)


class ChatContext(msgspec.Struct, frozen=True):
    """Messages. ``open_role`` and ``open_content`` are the message being written, if any.

    ``ids`` are the settled ids and ``seen`` the rendered pieces they stand for; while a new rendering begins
    with ``seen`` only the rest is tokenized, and when the template rewrites history everything is.
    """

    messages: tuple[Message, ...] = ()
    open_role: str | None = None
    open_content: tuple[Piece, ...] = ()
    ids: IdRope = IdRope()
    seen: tuple[Piece, ...] = ()

    def opened(self, role: str) -> ChatContext:
        return msgspec.structs.replace(self, open_role=role, open_content=())

    def closed(self) -> ChatContext:
        if self.open_role is None:
            raise InvalidRequest("there is no open role to close", param="role")
        message = Message(self.open_role, _merged(self.open_content))
        return msgspec.structs.replace(self, messages=(*self.messages, message), open_role=None, open_content=())

    def with_pieces(self, pieces: Iterable[Piece]) -> ChatContext:
        """Into the open message, which there must be."""
        return msgspec.structs.replace(self, open_content=(*self.open_content, *pieces))

    def with_text(self, text: str) -> ChatContext:
        return self.with_pieces((TextPiece(text),)) if text else self

    def prompts(self, runtime: Runtime, extras: Sequence[str]) -> list[Prompt]:
        """Render once, then tokenize with each of ``extras`` at the end of the open message."""
        if self.open_role is None:
            raise InvalidRequest(
                "generation outside a role: this branch is a chat, put it inside assistant(...)", param="role"
            )
        rendered = self._render(runtime)
        return [self._prompt(runtime.tokenizer, rendered, extra) for extra in extras]

    def _prompt(self, tokenizer: TokenizerProtocol, rendered: tuple[Piece, ...], extra: str) -> Prompt:
        whole = _merged((*rendered, TextPiece(extra)))
        rest = _after(whole, self.seen) if self.seen else None
        pieces, base = (whole, IdRope()) if rest is None else (rest, self.ids)
        new = tuple(_encode(tokenizer, base, pieces))
        return Prompt(context=self, base=base, new=new, tail=_tail(rendered), rendered=rendered)

    def settled(self, runtime: Runtime) -> Context:
        """The same content with the tokens settled that no continuation can change, where that can be told."""
        tokenizer = runtime.tokenizer
        rendered = self._render(runtime)
        front, _ = _stable_front(tokenizer, rendered, at_start=True)
        rest, whole = _after(front, self.seen), _after(rendered, self.seen)
        if not rest or not whole:
            return self
        ids = _encode(tokenizer, self.ids, rest)
        # The template's own text stands before the boundary too, so look whether it is one.
        if _encode(tokenizer, self.ids, whole)[: len(ids)] != ids:
            return self
        return msgspec.structs.replace(self, ids=self.ids.extended(ids), seen=front)

    def continued(
        self, settled: IdRope, rendered: tuple[Piece, ...], cut: str, piece: IdsPiece, after: tuple[Piece, ...]
    ) -> ChatContext:
        """After ``piece``, whose text begins with ``cut``, the former end of the program's own text."""
        content = _without_tail(_merged(self.open_content), cut)
        seen = _without_tail(rendered, cut)
        if content is None or seen is None:
            # The template changed the text's end, so it can't be told which part the ids replace.
            text = TextPiece(piece.text[len(cut) :])
            return msgspec.structs.replace(self, open_content=(*self.open_content, text, *after))
        return msgspec.structs.replace(
            self, open_content=(*content, piece, *after), ids=settled, seen=(*seen, piece)
        )

    def _render(self, runtime: Runtime) -> tuple[Piece, ...]:
        chat = runtime.tokenizer.chat
        if chat is None:
            raise InvalidRequest("this model has no chat template, so roles cannot be used", param="role")
        messages = list(self.messages)
        if self.open_role is not None:
            messages.append(Message(self.open_role, _merged(self.open_content)))
        _check_size([piece for message in messages for piece in message.content], runtime)
        return _merged(chat.render(messages, open_role=self.open_role))


Context = RawContext | ChatContext


def _beginning(tokenizer: TokenizerProtocol) -> IdRope:
    if tokenizer.bos_id is None:
        raise InvalidRequest("the prompt is empty, and this model has no token that begins a text", param="prompt")
    return IdRope((tokenizer.bos_id,))


def _encode(tokenizer: TokenizerProtocol, before: IdRope, pieces: Sequence[Piece]) -> list[int]:
    """The ids of ``pieces`` as they follow ``before``; some tokenizers look at the token in front."""
    if not pieces:
        return []
    last = before.last
    if last is None:
        return tokenizer.encode(pieces, at_start=True)
    return tokenizer.encode([IdsPiece(ids=(last,), text=""), *pieces], at_start=False)[1:]


def _merged(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Neighbouring texts of one kind become one piece; empty texts vanish."""
    merged: list[Piece] = []
    texts: list[str] = []
    literal = False

    def close() -> None:
        if texts:
            merged.append(TextPiece("".join(texts), literal))
            texts.clear()

    for piece in pieces:
        if isinstance(piece, IdsPiece):
            close()
            if piece.ids:
                merged.append(piece)
            continue
        if piece.text and piece.literal != literal:
            close()
            literal = piece.literal
        if piece.text:
            texts.append(piece.text)
    close()
    return tuple(merged)


def _tail(pieces: Sequence[Piece]) -> str:
    last = pieces[-1] if pieces else None
    return last.text if isinstance(last, TextPiece) and not last.literal else ""


def _after(pieces: tuple[Piece, ...], seen: tuple[Piece, ...]) -> tuple[Piece, ...] | None:
    """What follows ``seen`` in ``pieces``; None if ``pieces`` do not begin with it."""
    if not seen:
        return pieces
    if len(pieces) < len(seen) or pieces[: len(seen) - 1] != seen[:-1]:
        return None
    last, same = seen[-1], pieces[len(seen) - 1]
    rest = pieces[len(seen) :]
    if last == same:
        return rest
    if isinstance(last, IdsPiece) or isinstance(same, IdsPiece) or last.literal != same.literal:
        return None
    if not same.text.startswith(last.text):
        return None
    return (TextPiece(same.text[len(last.text) :], same.literal), *rest)


def _without_tail(pieces: tuple[Piece, ...], cut: str) -> tuple[Piece, ...] | None:
    """``pieces`` without the text ``cut`` at their end; None if program text does not end so."""
    if not cut:
        return pieces
    last = pieces[-1] if pieces else None
    if not isinstance(last, TextPiece) or last.literal or not last.text.endswith(cut):
        return None
    return _merged((*pieces[:-1], TextPiece(last.text[: -len(cut)])))


def _stable_front(
    tokenizer: TokenizerProtocol, pieces: tuple[Piece, ...], *, at_start: bool
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Split ``pieces`` at the last place where no continuation can change the tokens before it.

    Such a place is the end of given ids, and inside program text the boundary that the tokenizer names; inside
    a template's text, where the spelling of control tokens counts, none is looked for.
    """
    for index in range(len(pieces) - 1, -1, -1):
        piece = pieces[index]
        if isinstance(piece, IdsPiece):
            return pieces[: index + 1], pieces[index + 1 :]
        if piece.literal:
            continue
        stable = tokenizer.stable_prefix(piece.text, at_start=at_start and index == 0)
        if stable > 0:
            rest = TextPiece(piece.text[stable:])
            front = (*pieces[:index], TextPiece(piece.text[:stable]))
            return front, _merged((rest, *pieces[index + 1 :]))
    return (), pieces


def _check_size(pieces: Sequence[Piece], runtime: Runtime) -> None:
    """Refuse a text that is too long whatever its tokens are, before time goes into tokenizing it."""
    limit = runtime.info.context_length
    size = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece))
    needed = -(-size // runtime.longest_token)
    if needed > limit:
        raise ContextLengthExceeded(
            f"a text of {size} characters has at least {needed} tokens; the model's context holds {limit}",
            needed=needed,
            limit=limit,
        )


def _size(tokenizer: TokenizerProtocol, token: int) -> int:
    return len(tokenizer.token_bytes(token) or b"")


def _text_of(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
