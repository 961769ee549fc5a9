"""Conversations to pieces, by the model's own chat template.

The result is, character for character, what ``transformers`` renders, but each character knows whether the template
or a message wrote it: only the template's own text may spell control tokens. Tokens are not this module's business;
it is told which control tokens a text spells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from radixrt.api import ROLE_NAME
from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.text.pieces import Message, Piece, TextPiece
from radixrt.text.provenance import Mask
from radixrt.text.sandbox import Budget, BudgetExceeded, TemplateEnvironment

__all__ = ["ChatTemplate"]

MAX_TEMPLATE_CHARS = 1 << 18
# Work that one rendering may do: a share for the template and one for each message and character of input.
_STEPS, _STEPS_PER_MESSAGE = 300_000, 1_000
_CHARS, _CHARS_PER_MESSAGE, _CHARS_PER_CHAR = 16 << 20, 64 << 10, 64
_JSON_ESCAPES = '"\\' + "".join(map(chr, range(0x20)))  # characters that JSON writes otherwise
_RESERVED = frozenset({"messages", "add_generation_prompt"})

# What code of a template can raise besides Jinja's own errors.
_TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """One model's template. Thread-safe.

    ``variables`` are the template's own (bos_token and the like), ``control_spellings`` gives the ids of the
    control tokens that a literal text spells, in order. Raises ``ModelLoadError`` for a template that does not
    parse or reaches for what no template may.
    """

    def __init__(
        self,
        source_text: str,
        *,
        variables: Mapping[str, str],
        control_spellings: Callable[[str], list[int]],
        source: str = "chat template",
    ) -> None:
        if len(source_text) > MAX_TEMPLATE_CHARS:
            raise ModelLoadError(
                f"{source}: the chat template has more than {MAX_TEMPLATE_CHARS} characters", param=source
            )
        self.source_text = source_text
        self._variables = dict(variables)
        self._control_spellings = control_spellings
        self._environment = TemplateEnvironment()
        try:
            with self._environment.spending(Budget(_STEPS, _CHARS)):
                self._template = self._environment.from_string(source_text)
        except (jinja2.TemplateError, RecursionError, SyntaxError, ValueError, MemoryError) as error:
            line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise ModelLoadError(
                f"{source}: the chat template cannot be used{line}: {error}", param=source
            ) from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        open_role: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Piece]:
        """The pieces of a conversation.

        ``open_role`` None: the finished conversation. ``"assistant"``: the conversation up to the generation
        prompt, then the content so far of the last message when it is the assistant's. Another role: up to the end
        of the content of the last message, which has that role or else is an empty one added here. ``kwargs`` are
        further variables of the template.

        An ids piece survives where the template wrote all its text unchanged; otherwise its text does, as text.
        Raises ``InvalidRequest`` for a role that is none, for what the template refuses (its own words are in the
        message) and for an open role that the template does not write at once.
        """
        extra = _checked_kwargs(kwargs)
        for message in messages:
            _check_role(message.role)
        if open_role is None:
            return self._pieces(messages, extra, generation=False)
        _check_role(open_role)
        is_open = bool(messages) and messages[-1].role == open_role
        if open_role == "assistant":
            before = messages[:-1] if is_open else messages
            content = messages[-1].content if is_open else ()
            return [*self._pieces(before, extra, generation=True), *content]
        if not is_open:
            messages = [*messages, Message(open_role, ())]
        return self._pieces(messages, extra, generation=False, open_end=True)

    # --- rendering -----------------------------------------------------------------------------------------------

    def _pieces(
        self, messages: Sequence[Message], extra: Mapping[str, Any], *, generation: bool, open_end: bool = False
    ) -> list[Piece]:
        texts = [_text(message) for message in messages]
        if open_end:
            texts[-1] += Mask.MARK
        plain = self._run(messages, texts, extra, generation)
        if open_end:
            plain = _before_mark(plain, Mask.MARK, messages[-1].role)
        spelled: list[int] | None = None
        for transparent in ("", _JSON_ESCAPES):
            mask = Mask(avoid={*self.source_text, *"".join(self._variables.values())}, transparent=transparent)
            masked = self._run_masked(messages, extra, mask, generation=generation, open_end=open_end)
            if masked is None:
                continue
            if mask.unmask(masked) == plain:
                return mask.split(masked)
            # The template rewrote the text of a message (as JSON, say). That does no harm when the control tokens
            # that the result spells are exactly those that the template wrote around masked text.
            spelled = self._control_spellings(plain) if spelled is None else spelled
            if spelled == self._own_spellings(mask.split(masked)):
                return [TextPiece(plain, literal=True)]
        raise InvalidRequest(
            "the chat template rewrites the text of a message so that control tokens spelled in it cannot be told "
            "from the template's own",
            param="messages",
        )

    def _own_spellings(self, pieces: Sequence[Piece]) -> list[int]:
        """The control tokens that the literals among ``pieces`` spell."""
        literals = [piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.literal]
        return [index for text in literals for index in self._control_spellings(text)]

    def _run_masked(
        self, messages: Sequence[Message], extra: Mapping[str, Any], mask: Mask, *, generation: bool, open_end: bool
    ) -> str | None:
        """Render masked texts; None when the template needs real ones to render at all."""
        contents = [mask.pieces(message.content) for message in messages]
        mark = mask.mark()
        if open_end:
            contents[-1] = contents[-1] + mark
        try:
            masked = self._run(
                messages, contents, {name: _masked(value, mask) for name, value in extra.items()}, generation
            )
        except InvalidRequest:
            return None
        return _before_mark(masked, mark.value, messages[-1].role) if open_end else masked

    def _run(
        self, messages: Sequence[Message], contents: Sequence[str], extra: Mapping[str, Any], generation: bool
    ) -> str:
        size = sum(map(len, contents))
        budget = Budget(
            _STEPS + _STEPS_PER_MESSAGE * len(messages),
            _CHARS + _CHARS_PER_MESSAGE * len(messages) + _CHARS_PER_CHAR * size,
        )
        variables: dict[str, Any] = {"tools": None, "documents": None, **self._variables, **extra}
        variables["messages"] = [
            {"role": message.role, "content": content} for message, content in zip(messages, contents, strict=True)
        ]
        variables["add_generation_prompt"] = generation
        parts: list[str] = []
        try:
            with self._environment.spending(budget):
                for part in self._template.generate(variables):
                    budget.charge(0, len(part))
                    parts.append(part)
        except _TEMPLATE_FAULTS as error:
            raise _refusal(error, messages) from error
        return "".join(parts)


def _refusal(error: BaseException, messages: Sequence[Message]) -> InvalidRequest:
    roles = ", ".join(message.role for message in messages[:16]) + (", ..." if len(messages) > 16 else "")
    about = f"for messages of the roles [{roles}]"
    if isinstance(error, BudgetExceeded):
        return InvalidRequest(f"the chat template was stopped {about}: {error}", param="messages")
    if type(error) is jinja2.TemplateError:
        return InvalidRequest(f"the chat template refuses {about}: {error}", param="messages")
    kind = type(error).__name__
    return InvalidRequest(f"the chat template fails {about}: {kind}: {error}", param="messages")


def _before_mark(rendered: str, mark: str, role: str) -> str:
    """Cut a rendering at the end of the open content."""
    if mark not in rendered:
        raise InvalidRequest(f"the chat template does not write an open {role!r} message by itself", param="role")
    return rendered[: rendered.rindex(mark)]


# --- input -----------------------------------------------------------------------------------------------------


def _text(message: Message) -> str:
    return "".join(piece.text for piece in message.content)


def _check_role(role: str) -> None:
    if not ROLE_NAME.fullmatch(role):
        raise InvalidRequest(
            f"{role[:80]!r} is not a role: 1 to 64 letters, digits, '_', '-', '.' and blanks",
            param="role",
        )


def _checked_kwargs(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in kwargs or {}:
        if name in _RESERVED:
            raise InvalidRequest(f"the template variable {name!r} cannot be given", param="chat_template_kwargs")
    return {name: _plain(value) for name, value in (kwargs or {}).items()}


def _plain(value: Any) -> Any:
    """A copy of JSON-like data; a template must not see objects with methods of their own."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise InvalidRequest(
        f"template variables are plain data, not {type(value).__name__}", param="chat_template_kwargs"
    )


def _masked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask.text(value)
    if isinstance(value, Mapping):
        # Keys too: a template that writes JSON writes them, and a masked key is found like the real one.
        return {mask.text(key): _masked(item, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, mask) for item in value]
    return value
