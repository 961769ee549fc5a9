"""Keyword arguments in, checked sampling parameters and terms of a call out.

Every place where a person writes ``temperature=0`` (a ``gen`` of a program, a single call of an engine) comes
through here, so that the same mistake gets the same error everywhere. Constraints are ``radixrt.output_types``.
"""

from __future__ import annotations

import difflib
import numbers
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from radixrt.api import MAX_SEED, SamplingParams
from radixrt.errors import InvalidRequest

__all__ = [
    "SAMPLING_NAMES",
    "check_choices",
    "check_flag",
    "check_priority",
    "check_salt",
    "check_text",
    "check_timeout",
    "fresh_seed",
    "kind_of",
    "sampling_params",
    "sampling_values",
    "unknown_argument",
]

SAMPLING_NAMES: tuple[str, ...] = SamplingParams.__struct_fields__

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
    return InvalidRequest(f"{where}: {name} must be {kind}, not {kind_of(value)}", param=name)


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
            f"choices must be a list of strings in a fixed order, not {kind_of(choices)}", param="choices"
        )
    found = tuple(choices)
    if not found:
        raise InvalidRequest("choices must hold at least one string", param="choices")
    seen: set[str] = set()
    for place, choice in enumerate(found):
        if not isinstance(choice, str):
            raise InvalidRequest(f"choices[{place}] must be a string, not {kind_of(choice)}", param="choices")
        if not choice:
            raise InvalidRequest(f"choices[{place}] is empty", param="choices")
        if choice in seen:
            raise InvalidRequest(f"choices[{place}] repeats {choice!r}", param="choices")
        seen.add(check_text(choice, param="choices"))
    return found


def kind_of(value: Any) -> str:
    """The type of a wrong argument, as errors name it."""
    return "None" if value is None else type(value).__name__
