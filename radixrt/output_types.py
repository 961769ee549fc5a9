"""What constrains an output, and what its text becomes: ``schema=Card``, ``regex="[0-9]+"``, ``grammar=...``.

Every place where a person writes one (a ``gen`` of a program, a single call of an engine) comes through here. This
module does not know what a constraint accepts: ``radixrt.grammar`` judges that, in the worker.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from radixrt.api import Constraint
from radixrt.arguments import check_choices, check_text, kind_of
from radixrt.errors import InvalidRequest
from radixrt.python_types import json_schema_of, literal_members
from radixrt.schema_source import json_source, schema_source

__all__ = ["CONSTRAINT_NAMES", "OutputType", "output_type"]

CONSTRAINT_NAMES: tuple[str, ...] = ("regex", "schema", "choices", "grammar", "type")

# Plain numbers are bounded so that a model that likes digits still comes to an end; the values stay exact
# (an int fits 64 bits, a float is finite).
_INT_PATTERN = r"-?(0|[1-9][0-9]{0,17})"
_FLOAT_PATTERN = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?"


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
    grammar: str | Mapping[str, Any] | Constraint | None = None,
    type: Any = None,
) -> OutputType | None:
    """The one constraint among the arguments, or None when all are None.

    - ``regex``: the whole output matches the pattern. The value is the text.
    - ``schema``: JSON. A JSON Schema (dict, text or bool) gives what ``json.loads`` makes of the output; a
      pydantic model, dataclass, TypedDict, Enum, Literal or other type gives an instance of that type.
    - ``choices``: one of these strings.
    - ``grammar``: EBNF text, or a structural tag (a dict). The value is the text.
    - ``type``: a value of this type written as JSON, except that the strings of a Literal or Enum stand without
      quotes. ``int`` has at most 18 digits; ``float`` is finite.

    A ``Constraint`` of a fitting kind is taken as it is: it is the way to another notation and to the options of a
    schema. Raises ``InvalidRequest`` naming both when two are given, or naming the one that is wrong.
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
    constraint.validated()
    if constraint.kind not in _KINDS[name]:
        home = next(argument for argument, kinds in _KINDS.items() if constraint.kind in kinds)
        raise InvalidRequest(
            f"{name}= does not take a constraint of kind {constraint.kind!r}; {home}= does", param=name
        )
    if constraint.kind == "choices":
        check_choices(constraint.choices)
    for field in ("source", "resources", "whitespace", "key_order", "unknown_format"):
        check_text(getattr(constraint, field) or "", param=field)
    if constraint.kind == "json_schema":
        schema_source(constraint.source)
        return OutputType(constraint, json.loads)
    return OutputType(constraint)


def _read_regex(value: Any) -> OutputType:
    if isinstance(value, re.Pattern):
        # Flags change what a pattern means and have no place in a Constraint; inline flags do.
        if value.flags != re.UNICODE or not isinstance(value.pattern, str):
            raise InvalidRequest("regex: give a text pattern without flags, or write them inline", param="regex")
        value = value.pattern
    if not isinstance(value, str):
        raise InvalidRequest(f"regex must be a string, not {kind_of(value)}", param="regex")
    return OutputType(Constraint(kind="regex", source=check_text(value, param="regex")))


def _read_choices(value: Any) -> OutputType:
    return OutputType(Constraint(kind="choices", choices=check_choices(value)))


def _read_grammar(value: Any) -> OutputType:
    if isinstance(value, Mapping):
        if "structures" not in value and "format" not in value:
            raise InvalidRequest("grammar: a structural tag has 'format' or 'structures'", param="grammar")
        source = json_source(value, param="grammar")
        return OutputType(Constraint(kind="structural_tag", source=check_text(source, param="grammar")))
    if not isinstance(value, str):
        raise InvalidRequest(
            f"grammar must be EBNF text, a structural tag (a dict) or a Constraint, not {kind_of(value)}",
            param="grammar",
        )
    if not value.strip():
        raise InvalidRequest("grammar is empty", param="grammar")
    if "::=" not in value:  # every rule of EBNF has it
        raise InvalidRequest(
            "grammar is not EBNF: no rule has the form name ::= body; "
            "Lark's notation goes as rx.Constraint(kind='lark', source=...)",
            param="grammar",
        )
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
        source = schema_source(check_text(value, param="schema") if isinstance(value, str) else value)
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
