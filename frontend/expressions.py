"""What a program appends: text, tokens, generation, selection, messages of a role, and sequences of these.

An expression is an immutable description. Everything that can be checked without a model is checked when it is
made, so that the traceback shows the line that is wrong. Nothing here knows programs, branches or engines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from radixrt.api import ROLE_NAME, SELECT_METHODS, Constraint, SelectMethod
from radixrt.arguments import (
    SAMPLING_NAMES,
    check_choices,
    check_text,
    sampling_params,
    sampling_values,
    unknown_argument,
)
from radixrt.errors import InvalidRequest
from radixrt.output_types import CONSTRAINT_NAMES, OutputType, output_type

__all__ = [
    "Expression",
    "Gen",
    "Role",
    "Select",
    "Series",
    "Text",
    "Tokens",
    "as_expression",
    "assistant",
    "check_role",
    "gen",
    "role",
    "select",
    "system",
    "text",
    "tokens",
    "user",
]


class Expression:
    """Base of all expressions. ``+`` puts them, and strings, one after the other."""

    __slots__ = ()

    def __add__(self, other: Expression | str) -> Series:
        return Series((*_items(self), *_items(as_expression(other))))

    def __radd__(self, other: Expression | str) -> Series:
        return Series((*_items(as_expression(other)), *_items(self)))

    def __format__(self, spec: str) -> NoReturn:
        raise InvalidRequest(
            f"a {type(self).__name__.lower()} cannot stand in an f-string; join it with +", param="text"
        )


@dataclass(frozen=True, slots=True)
class Text(Expression):
    text: str

    __format__ = Expression.__format__


@dataclass(frozen=True, slots=True)
class Tokens(Expression):
    tokens: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Gen(Expression):
    """``own`` holds the sampling arguments given to this gen; the program's defaults fill in the rest."""

    name: str
    own: Mapping[str, Any] = field(default_factory=dict)
    output: OutputType | None = None
    heal: bool | None = None


@dataclass(frozen=True, slots=True)
class Select(Expression):
    name: str
    choices: tuple[str, ...]
    method: SelectMethod


@dataclass(frozen=True, slots=True)
class Role(Expression):
    role: str
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Series(Expression):
    items: tuple[Expression, ...]


def _items(expression: Expression) -> tuple[Expression, ...]:
    return expression.items if isinstance(expression, Series) else (expression,)


def as_expression(value: object) -> Expression:
    """Return what ``s += value`` appends. Only strings and expressions are something to append."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return text(value)
    raise InvalidRequest(
        f"cannot append {_shown(value)} to a program: only text and expressions such as gen(...); "
        "write str(...) for the text of a value",
        param="text",
    )


def _shown(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def text(content: str) -> Text:
    """Ordinary text: the spelling of a control token in it has no power."""
    if not isinstance(content, str):
        raise InvalidRequest(f"text takes a string, not {_shown(content)}", param="text")
    return Text(check_text(content, param="text"))


def tokens(*ids_or_spellings: int | str) -> Tokens:
    """Tokens by id or by the exact spelling in the vocabulary, control tokens included."""
    if not ids_or_spellings:
        raise InvalidRequest("tokens takes at least one token", param="tokens")
    for token in ids_or_spellings:
        if isinstance(token, bool) or not isinstance(token, int | str) or token == "":
            raise InvalidRequest(f"a token is an id or a spelling, not {token!r}", param="tokens")
        if isinstance(token, int) and not 0 <= token < 2**31:
            raise InvalidRequest(f"{token} is not a token id", param="tokens")
        if isinstance(token, str):
            check_text(token, param="tokens")
    return Tokens(ids_or_spellings)


def gen(
    name: str | None = None,
    *,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    stop: str | Iterable[str] | None = None,
    stop_token_ids: Iterable[int] | None = None,
    regex: str | re.Pattern[str] | Constraint | None = None,
    schema: Any = None,
    choices: Iterable[str] | Constraint | None = None,
    grammar: str | Mapping[str, Any] | Constraint | None = None,
    type: Any = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    presence_penalty: float | None = None,
    frequency_penalty: float | None = None,
    repetition_penalty: float | None = None,
    logit_bias: Mapping[int, float] | None = None,
    ignore_eos: bool | None = None,
    seed: int | None = None,
    n: int | None = None,
    logprobs: int | None = None,
    prompt_logprobs: int | None = None,
    heal: bool | None = None,
    **unknown: Any,
) -> Gen:
    """Generate text and call it ``name``.

    At most one of ``regex``, ``schema``, ``choices``, ``grammar`` and ``type`` constrains it (see
    ``radixrt.output_types.output_type``); the value of a constrained gen is the parsed output. Arguments that are
    None come from ``run(...)`` or the defaults of ``SamplingParams``. ``n`` above 1 gives a list and ends its
    branch. ``heal`` lets the model redo the last tokens of the text before; None decides by the context.
    """
    given = dict(locals())
    where = _named("gen", name)
    for argument in unknown:
        raise unknown_argument(argument, (*SAMPLING_NAMES, *CONSTRAINT_NAMES, "heal"), where=where)
    own = sampling_values({key: given[key] for key in SAMPLING_NAMES}, where=where)
    if "max_tokens" in own:
        sampling_params(own, where=where)
    refuse_zero_max_tokens(own, where)
    if heal is not None and not isinstance(heal, bool):
        raise InvalidRequest(f"{where}: heal must be True, False or None", param="heal")
    try:
        output = output_type(regex=regex, schema=schema, choices=choices, grammar=grammar, type=type)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error.message}", param=error.param) from error.__cause__
    return Gen(str(name), own, output, heal)


def refuse_zero_max_tokens(values: Mapping[str, Any], where: str) -> None:
    """A gen of a program exists for its output; a prefill alone has a meaning only for single calls."""
    if values.get("max_tokens") == 0:
        raise InvalidRequest(f"{where}: max_tokens must be at least 1 in a program", param="max_tokens")


def select(
    name: str | None = None,
    choices: Iterable[str] | None = None,
    method: SelectMethod = "token_length_normalized",
    **unknown: Any,
) -> Select:
    """Score every choice as the continuation, append the best and call it ``name``. Ties go to the first."""
    where = _named("select", name)
    for argument in unknown:
        raise unknown_argument(argument, ("choices", "method"), where=where)
    if method not in SELECT_METHODS:
        raise InvalidRequest(
            f"{where}: method must be one of {', '.join(SELECT_METHODS)}, not {method!r}", param="method"
        )
    try:
        checked = check_choices(choices)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error.message}", param="choices") from None
    return Select(str(name), checked, method)


def _named(verb: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"{verb} takes a name, a string that is not empty, as first argument", param="name")
    check_text(name, param="name")
    return f"{verb} {name!r}"


def role(role: str, *content: Expression | str) -> Role:
    """One message of any role that the model's chat template knows."""
    check_role(role)
    items = tuple(item for part in content for item in _items(as_expression(part)))
    for item in items:
        if isinstance(item, Role):
            raise InvalidRequest(
                f"a message of role {item.role!r} cannot stand inside one of {role!r}", param="role"
            )
    return Role(role, items)


def check_role(role: object) -> str:
    if not isinstance(role, str) or not ROLE_NAME.fullmatch(role):
        raise InvalidRequest(
            f"a role is 1 to 64 letters, digits, '_', '-', '.' and blanks, not {str(role)[:80]!r}", param="role"
        )
    return role


def system(*content: Expression | str) -> Role:
    """A system message."""
    return role("system", *content)


def user(*content: Expression | str) -> Role:
    """A user message."""
    return role("user", *content)


def assistant(*content: Expression | str) -> Role:
    """An assistant message; usually holds a ``gen`` or ``select``."""
    return role("assistant", *content)
