"""The arguments of a call as tagged parameters, one after the other, where a model does not write them as JSON.

    <parameter=city>
    Paris
    </parameter>
    <parameter=days>3</parameter>

A parameter whose schema is one of strings holds the text itself, up to the first closing tag; any other holds JSON.
Blanks (at most eight) may stand around values and between parameters. Parameters come in the order of the schema,
each at most once, and there are no others than the declared ones.

Only what has a meaning here is read: the object's ``properties`` and ``required``, and of a text its ``enum``,
``const``, ``pattern``, ``minLength`` and ``maxLength``. All else that is said of them is refused by JSON pointer,
while JSON values may have any schema. Blanks around a text do not count towards what is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from radixrt.errors import RadixrtError, UnsupportedConstraint
from radixrt.grammar.cfg import Symbol
from radixrt.grammar.free_text import FreeText
from radixrt.grammar.json_schema.compile import SchemaParts
from radixrt.grammar.json_schema.keywords import ANNOTATIONS
from radixrt.grammar.json_schema.values import JsonValue, pointer_to
from radixrt.grammar.regex import ecma_search
from radixrt.grammar.rx import Rx
from radixrt.grammar.structural_fields import Fields, blame, wrong
from radixrt.grammar.structural_pieces import Pieces
from radixrt.grammar.utf8 import ALL_CHARACTERS

__all__ = ["STYLES", "ParameterReader"]


class Style(NamedTuple):
    """How a parameter is written: ``{}`` is its name, a line break any blanks. ``json_begin``: if JSON differs."""

    begin: str
    end: str
    json_begin: str = ""


STYLES: Final = MappingProxyType(
    {
        "qwen_xml": Style("<parameter={}>", "</parameter>"),
        "minimax_xml": Style('<parameter name="{}">', "</parameter>"),
        "glm_xml": Style("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>"),
        "deepseek_xml": Style(
            '<｜DSML｜parameter name="{}" string="true">',
            "</｜DSML｜parameter>",
            '<｜DSML｜parameter name="{}" string="false">',
        ),
    }
)
_MAX_BLANKS: Final = 8
_MAX_REFERENCES: Final = 100
_OF_OBJECTS: Final = ANNOTATIONS | {
    "type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"
}  # fmt: skip
_OF_TEXTS: Final = ANNOTATIONS | {"type", "enum", "const", "pattern", "minLength", "maxLength"}


class ParameterReader:
    """Reads the schema of one call."""

    def __init__(self, pieces: Pieces, style: Style, schema: JsonValue, pointer: str) -> None:
        self._pieces = pieces
        self._builder = pieces.builder
        self._pool = pieces.pool
        self._style = style
        self._root = schema
        self._pointer = pointer
        self._parts: SchemaParts | None = None
        self._blanks = self._pool.repeat(self._pool.chars([(9, 10), (32, 32)]), 0, _MAX_BLANKS)

    def symbol(self) -> Symbol:
        """The parameters of the call."""
        fields = Fields(self._root, self._pointer)
        self._check_keywords(self._root, self._pointer, _OF_OBJECTS)
        if fields.text("type", "object") != "object":
            wrong(fields.at("type"), "parameters are described by an object")
        if fields.raw("additionalProperties", False) is not False:
            self._refuse("additionalProperties", self._pointer, "parameters are those that are declared")
        properties = fields.raw("properties", {})
        if not isinstance(properties, dict):
            wrong(fields.at("properties"), "expected an object")
        required = fields.texts("required", (), empty=True)
        for name in required:
            if name not in properties:
                wrong(fields.at("required"), f"{name!r} is not among the properties")
        parts = []
        for name, schema in properties.items():
            pointer = fields.at("properties") + pointer_to((name,))
            if not name or any(char in '<>"\n' for char in name):
                self._refuse("style", pointer, "such a name cannot be written in a tag")
            parameter = self._parameter(name, schema, pointer)
            parts.append(parameter if name in required else self._builder.opt(parameter))
        return self._builder.seq(*parts)

    def _parameter(self, name: str, schema: JsonValue, pointer: str) -> Symbol:
        builder, style = self._builder, self._style
        blanks, end = builder.terminal(self._blanks), builder.literal(style.end)
        ways = []
        for value, place in self._alternatives(schema, pointer):
            if _is_text(value):
                begin, content = style.begin, builder.terminal(self._text(value, place))
            else:
                begin = style.json_begin or style.begin
                content = builder.seq(blanks, self._json(value, place), blanks)
            pieces = [builder.literal(piece) for piece in begin.format(name).split("\n")]
            ways.append(builder.seq(*(part for piece in pieces for part in (blanks, piece)), content, end))
        return builder.alt(*ways)

    def _alternatives(self, schema: JsonValue, pointer: str) -> Iterator[tuple[JsonValue, str]]:
        """The schemas of which one must hold, each of texts alone or of other values alone."""
        todo = [(schema, pointer)]
        for _ in range(_MAX_REFERENCES):
            if not todo:
                return
            value, place = todo.pop()
            if not isinstance(value, dict):
                yield value, place
            elif isinstance(value.get("$ref"), str):
                self._check_keywords(value, place, ANNOTATIONS | {"$ref"})
                todo.append(self._referred(value["$ref"], place))
            elif isinstance(value.get("anyOf"), list):
                self._check_keywords(value, place, ANNOTATIONS | {"anyOf"})
                todo.extend((part, f"{place}/anyOf/{i}") for i, part in reversed([*enumerate(value["anyOf"])]))
            elif isinstance(value.get("type"), list):
                todo.extend(({**value, "type": kind}, place) for kind in reversed(value["type"]))
            else:
                if not value.keys() & {"type", "enum", "const"}:
                    self._check_keywords(value, place, ANNOTATIONS)
                yield from ((part, place) for part in _by_kind(value))
        self._refuse("$ref", pointer, f"more than {_MAX_REFERENCES} references and alternatives")

    def _referred(self, reference: str, place: str) -> tuple[JsonValue, str]:
        """What a reference within the schema refers to."""
        target, parts = self._root, reference.removeprefix("#/").split("/")
        for part in parts:
            name = part.replace("~1", "/").replace("~0", "~")
            if not reference.startswith("#/") or not isinstance(target, dict) or name not in target:
                self._refuse("$ref", place, "parameters refer to definitions of the same schema")
            target = target[name]
        return target, self._pointer + reference.removeprefix("#")

    def _text(self, schema: JsonValue, pointer: str) -> Rx:
        """The texts of a schema of strings that go on to the closing tag."""
        pool = self._pool
        outside = FreeText(pool, [self._style.end]).before(self._style.end)
        if not isinstance(schema, dict):
            return outside
        self._check_keywords(schema, pointer, _OF_TEXTS)
        fields = Fields(schema, pointer)
        terms = []
        for values in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
            if values is not None:
                terms.append(pool.one_of([value.encode() for value in values if isinstance(value, str)]))
        if fields.has("pattern"):
            try:
                terms.append(ecma_search(pool, fields.text("pattern"), self._pieces.limits))
            except RadixrtError as error:
                fields.blame(error, "pattern")
        low, high = fields.count("minLength", None) or 0, fields.count("maxLength", None)
        if high is not None and high < low:
            wrong(fields.at("maxLength"), "maxLength is below minLength")
        if low or high is not None:
            terms.append(pool.repeat(pool.chars(ALL_CHARACTERS), low, high))
        if not terms:
            return outside
        return pool.and_(outside, pool.concat(self._blanks, pool.and_(pool.text, *terms), self._blanks))

    def _json(self, schema: JsonValue, pointer: str) -> Symbol:
        """JSON under a part of the schema, as it stands there but for the types and values that are left."""
        left = {}
        if isinstance(schema, dict):
            left = {name: schema[name] for name in ("type", "enum") if name in schema}
        try:
            if self._parts is None:
                self._parts = SchemaParts(self._builder, self._root)
            return self._parts.symbol(pointer.removeprefix(self._pointer), left)
        except RadixrtError as error:
            blame(error, self._pointer)

    def _check_keywords(self, schema: dict[str, JsonValue], pointer: str, known: frozenset[str]) -> None:
        if not isinstance(schema, dict):
            wrong(pointer, "expected a schema that is an object")
        for keyword in schema:
            if keyword not in known:
                self._refuse(keyword, pointer, "it has no meaning for parameters that are not JSON")

    def _refuse(self, keyword: str, pointer: str, why: str) -> NoReturn:
        location = f"{pointer}{pointer_to((keyword,))}"
        raise UnsupportedConstraint(
            f"{keyword} at {location} is not supported: {why}", keyword=keyword, location=location, param="grammar"
        )


def _is_text(schema: JsonValue) -> bool:
    """Whether a schema of one kind is one of texts. Any value at all is any text, which is JSON too."""
    if not isinstance(schema, dict):
        return schema is True
    if "type" in schema:
        return bool(schema["type"] == "string")
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    return all(isinstance(value, str) for value in values)


def _by_kind(schema: dict[str, JsonValue]) -> list[JsonValue]:
    """A schema of given values as one of texts and one of others."""
    values = schema.get("enum")
    if not isinstance(values, list):
        return [schema]
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if not isinstance(value, str)]
    kind = schema.get("type")
    parts = [{**schema, "enum": texts}] if texts and kind in (None, "string") else []
    return [*parts, {**schema, "enum": others}] if others and kind != "string" else parts
