"""Keyword arguments in, checked sampling parameters and output types out.

Every place where a person writes ``temperature=0`` or ``schema=Card`` (a ``gen`` of a program, a single call of
an engine) comes through here, so that the same mistake gets the same error everywhere. This module does not
know what a constraint accepts: ``radixrt.grammar`` judges that, in the worker.
"""

from __future__ import annotations

import difflib
import json
import numbers
import re
import secrets
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from radixrt.api import MAX_SEED, Constraint, SamplingParams
from radixrt.errors import InvalidRequest
from radixrt.python_types import json_schema_of, literal_members
from radixrt.schema_source import schema_source

__all__ = [
    "CONSTRAINT_NAMES",
    "SAMPLING_NAMES",
    "OutputType",
    "check_choices",
    "check_flag",
    "check_priority",
    "check_salt",
    "check_text",
    "check_timeout",
    "fresh_seed",
    "output_type",
    "sampling_params",
    "sampling_values",
    "unknown_argument",
]

SAMPLING_NAMES: tuple[str, ...] = SamplingParams.__struct_fields__
CONSTRAINT_NAMES: tuple[str, ...] = ("regex", "schema", "choices", "grammar", "type")

# Plain numbers are bounded so that a model that likes digits still comes to an end; the values stay exact
# (an int fits 64 bits, a float is finite).
_INT_PATTERN = r"-?(0|[1-9][0-9]{0,17})"
_FLOAT_PATTERN = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?"
_LARGEST_MAX_TOKENS = 2**31 - 1
_LARGEST_TOKEN_ID = 2**31 - 1
_LARGEST_TIMEOUT_S = 1e9  # thirty years; locks cannot wait for much longer


# --- sampling ---------------------------------------------------------------------------------------------------


def sampling_params(values: Mapping[str, Any], *, where: str) -> SamplingParams:
    """Build the parameters from keyword arguments. None means absent; ``stop`` may be a string or several.

    Raises ``InvalidRequest`` whose ``param`` is the first argument that is unknown, of the wrong type or out of
    range. ``where`` opens the message, as in ``gen 'card'``.
    """
    params = _convert(_present(values, where), where)
    return _validated(params, where)


def sampling_values(values: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Check arguments one by one and return those that are present, as ``sampling_params`` takes them.

    For defaults that are merged with others later: rules between two arguments are not applied yet.
    """
    present = _present(values, where)
    _convert(present, where)
    for name, value in present.items():
        _validated(_convert({"max_tokens": _LARGEST_MAX_TOKENS, name: value}, where), where)
    return present


def unknown_argument(name: str, known: Iterable[str], *, where: str) -> InvalidRequest:
    """The error for an argument that nobody takes, with the nearest name that somebody does."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InvalidRequest(f"{where}: unknown argument {name!r}{hint}", param=name)


def _present(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name not in SAMPLING_NAMES:
            raise unknown_argument(name, SAMPLING_NAMES, where=where)
        if value is not None:
            try:
                found[name] = _plain(name, value)
            except InvalidRequest as error:
                raise InvalidRequest(f"{where}: {error.message}", param=name) from None
    return found


def _plain(name: str, value: Any) -> Any:
    """Bring what people pass to what the struct holds: numpy numbers, one stop string, ids as text keys."""
    if name == "stop":
        texts = (value,) if isinstance(value, str) else value
        if not isinstance(texts, list | tuple):
            return texts
        return tuple(check_text(text, param="stop") if isinstance(text, str) else text for text in texts)
    if name == "logit_bias" and isinstance(value, Mapping):
        biases = {_token_id(name, token): _number(bias) for token, bias in value.items()}
        if len(biases) < len(value):
            raise InvalidRequest("logit_bias names a token twice", param=name)
        return biases
    if name == "stop_token_ids" and isinstance(value, list | tuple):
        return tuple(_token_id(name, token) for token in value)
    return _number(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def _token_id(name: str, token: Any) -> Any:
    """JSON has only text keys, so in ``logit_bias`` the decimal spelling of an id is an id."""
    if name == "logit_bias" and isinstance(token, str) and token.isascii() and token.isdecimal():
        token = int(token) if len(token) < 11 else _LARGEST_TOKEN_ID + 1
    token = _number(token)
    if isinstance(token, int) and token > _LARGEST_TOKEN_ID:
        raise InvalidRequest(f"{name}: {token} is not a token id", param=name)
    return token


def _convert(values: dict[str, Any], where: str) -> SamplingParams:
    try:
        return msgspec.convert(values, SamplingParams)
    except msgspec.ValidationError:
        for name, value in values.items():
            _convert_one(name, value, where)
        raise


def _convert_one(name: str, value: Any, where: str) -> None:
    try:
        msgspec.convert({name: value}, SamplingParams)
    except msgspec.ValidationError as error:
        reason = str(error).replace(" - at `$." + name, " - at `" + name)
        raise InvalidRequest(f"{where}: {name}: {reason}", param=name) from error


def _validated(params: SamplingParams, where: str) -> SamplingParams:
    try:
        return params.validated()
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error.message}", param=error.param) from None


# --- what every call takes beside sampling: the terms on which it runs ------------------------------------------


def check_timeout(value: Any, *, where: str) -> float | None:
    """Seconds, above 0 and finite; None means no limit. Raises ``InvalidRequest`` with ``param="timeout"``."""
    seconds = _number(value)
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise _wrong_kind("timeout", "a number of seconds", value, where)
    if not 0 < seconds <= _LARGEST_TIMEOUT_S:
        raise InvalidRequest(
            f"{where}: timeout must be above 0 and at most {_LARGEST_TIMEOUT_S:.0f} seconds", param="timeout"
        )
    return float(seconds)


def check_priority(value: Any, *, where: str) -> int:
    """A whole number of 32 bits, greater first; None is 0. Raises ``InvalidRequest`` with ``param="priority"``."""
    priority = 0 if value is None else _number(value)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise _wrong_kind("priority", "a whole number", value, where)
    if not -(2**31) <= priority < 2**31:
        raise InvalidRequest(f"{where}: priority must fit 32 bits", param="priority")
    return priority


def check_salt(value: Any, *, where: str) -> str | None:
    """Text, or None. Raises ``InvalidRequest`` with ``param="salt"``."""
    if value is not None and not isinstance(value, str):
        raise _wrong_kind("salt", "text", value, where)
    return None if value is None else check_text(value, param="salt")


def check_flag(value: Any, name: str, *, where: str) -> bool | None:
    """True, False or None. Raises ``InvalidRequest`` with ``param=name``."""
    if value is not None and not isinstance(value, bool):
        raise _wrong_kind(name, "True or False", value, where)
    return value


def fresh_seed() -> int:
    """A seed for a call that was given none."""
    return secrets.randbits(MAX_SEED.bit_length())


def _wrong_kind(name: str, kind: str, value: Any, where: str) -> InvalidRequest:
    return InvalidRequest(f"{where}: {name} must be {kind}, not {_kind(value)}", param=name)


# --- text -------------------------------------------------------------------------------------------------------


def check_text(text: str, *, param: str) -> str:
    """Return ``text``, or raise ``InvalidRequest`` when it holds half a surrogate pair and so has no UTF-8."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"{param}: character {error.start} is a lone surrogate, which is not text", param=param
            ) from None
    return text


def check_choices(choices: Any) -> tuple[str, ...]:
    """Return the choices as a tuple: at least one, all non-empty strings, no two alike.

    Raises ``InvalidRequest`` with ``param="choices"``.
    """
    if isinstance(choices, str | bytes | set | frozenset) or not isinstance(choices, Iterable):
        raise InvalidRequest(
            f"choices must be a list of strings in a fixed order, not {_kind(choices)}", param="choices"
        )
    found = tuple(choices)
    if not found:
        raise InvalidRequest("choices must hold at least one string", param="choices")
    seen: set[str] = set()
    for place, choice in enumerate(found):
        if not isinstance(choice, str):
            raise InvalidRequest(f"choices[{place}] must be a string, not {_kind(choice)}", param="choices")
        if not choice:
            raise InvalidRequest(f"choices[{place}] is empty", param="choices")
        if choice in seen:
            raise InvalidRequest(f"choices[{place}] repeats {choice!r}", param="choices")
        seen.add(check_text(choice, param="choices"))
    return found


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


# --- output types -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputType:
    """What a constrained output must look like, and what its text becomes.

    ``argument`` is the name of the keyword argument it came from, for errors. ``parse`` takes a complete text and
    returns the value. A type with validators of its own may still refuse it; then its own exception
    (``pydantic.ValidationError``) comes through.
    """

    constraint: Constraint
    parser: Callable[[str], Any] = str
    argument: str = ""

    def parse(self, text: str) -> Any:
        return self.parser(text)


def output_type(
    *,
    regex: str | re.Pattern[str] | Constraint | None = None,
    schema: Any = None,
    choices: Iterable[str] | Constraint | None = None,
    grammar: str | Constraint | None = None,
    type: Any = None,
) -> OutputType | None:
    """The one constraint among the arguments, or None when all are None.

    - ``regex``: the whole output matches the pattern. The value is the text.
    - ``schema``: JSON. A JSON Schema (dict, text or bool) gives what ``json.loads`` makes of the output; a
      pydantic model, dataclass, TypedDict, Enum, Literal or other type gives an instance of that type.
    - ``choices``: one of these strings.
    - ``grammar``: EBNF text. The value is the text.
    - ``type``: a value of this type written as JSON, except that the strings of a Literal or Enum stand without
      quotes. ``int`` has at most 18 digits; ``float`` is finite.

    A ``Constraint`` of a fitting kind is taken as it is (its options included). Raises ``InvalidRequest`` naming
    both when two are given, or naming the one that is wrong.
    """
    given = {
        name: value
        for name, value in zip(CONSTRAINT_NAMES, (regex, schema, choices, grammar, type), strict=True)
        if value is not None
    }
    if not given:
        return None
    if len(given) > 1:
        names = " and ".join(given)
        raise InvalidRequest(f"{names} exclude each other: give exactly one constraint", param=list(given)[1])
    [(name, value)] = given.items()
    found = _from_constraint(name, value) if isinstance(value, Constraint) else _READERS[name](value)
    return replace(found, argument=name)


_KINDS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "regex": ("regex",),
        "schema": ("json_schema",),
        "choices": ("choices",),
        "grammar": ("ebnf", "lark", "structural_tag"),
        "type": (),
    }
)


def _from_constraint(name: str, constraint: Constraint) -> OutputType:
    if constraint.kind not in _KINDS[name]:
        raise InvalidRequest(f"{name}= does not take a constraint of kind {constraint.kind!r}", param=name)
    if constraint.kind == "choices":
        check_choices(constraint.choices)
    return OutputType(constraint, json.loads if constraint.kind == "json_schema" else str)


def _read_regex(value: Any) -> OutputType:
    if isinstance(value, re.Pattern):
        # Flags change what a pattern means and have no place in a Constraint; inline flags do.
        if value.flags != re.UNICODE or not isinstance(value.pattern, str):
            raise InvalidRequest("regex: give a text pattern without flags, or write them inline", param="regex")
        value = value.pattern
    if not isinstance(value, str):
        raise InvalidRequest(f"regex must be a string, not {_kind(value)}", param="regex")
    return OutputType(Constraint(kind="regex", source=check_text(value, param="regex")))


def _read_choices(value: Any) -> OutputType:
    return OutputType(Constraint(kind="choices", choices=check_choices(value)))


def _read_grammar(value: Any) -> OutputType:
    if not isinstance(value, str):
        raise InvalidRequest(f"grammar must be EBNF text, not {_kind(value)}", param="grammar")
    if not value.strip():
        raise InvalidRequest("grammar is empty", param="grammar")
    return OutputType(Constraint(kind="ebnf", source=check_text(value, param="grammar")))


def _read_type(value: Any) -> OutputType:
    if value is int:
        return OutputType(Constraint(kind="regex", source=_INT_PATTERN), int)
    if value is float:
        return OutputType(Constraint(kind="regex", source=_FLOAT_PATTERN), float)
    if value is bool:
        return OutputType(Constraint(kind="choices", choices=("true", "false")), json.loads)
    if isinstance(value, str):
        raise InvalidRequest(f"type must be a type, not the text {value!r}", param="type")
    members = literal_members(value)
    if members is None:
        return _from_type(value, "type")
    by_text: dict[str, Any] = {}
    for text, member in members:
        if text in by_text:
            raise InvalidRequest(f"type: two values of {value!r} are spelled {text!r}", param="type")
        by_text[text] = member
    try:
        choices = check_choices(tuple(by_text))
    except InvalidRequest as error:
        raise InvalidRequest(f"type: {error.message}", param="type") from None
    return OutputType(Constraint(kind="choices", choices=choices), by_text.__getitem__)


def _read_schema(value: Any) -> OutputType:
    if isinstance(value, str | bool | Mapping):
        try:
            source = schema_source(check_text(value, param="schema") if isinstance(value, str) else value)
        except ValueError as error:
            raise InvalidRequest(str(error), param="schema") from None
        return OutputType(Constraint(kind="json_schema", source=check_text(source, param="schema")), json.loads)
    return _from_type(value, "schema")


def _from_type(value: Any, param: str) -> OutputType:
    source, parser = json_schema_of(value, param=param)
    return OutputType(Constraint(kind="json_schema", source=source), parser)


_READERS: Mapping[str, Callable[[Any], OutputType]] = types.MappingProxyType(
    {
        "regex": _read_regex,
        "schema": _read_schema,
        "choices": _read_choices,
        "grammar": _read_grammar,
        "type": _read_type,
    }
)
