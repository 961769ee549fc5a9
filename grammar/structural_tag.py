"""Structural tags: free text with constrained parts, as servers take them in ``response_format``.

Two spellings are read, with the field names that vLLM and xgrammar document:

* ``{"structures": [{"begin", "schema", "end"}], "triggers": [...]}``: text in which triggers open structures;
* ``{"type": "structural_tag", "format": {...}}``: a tree of formats, each of which describes a piece of text.

Free text (``any_text``, and what is around triggered tags) goes on to the first trigger, end or exclusion that is
complete, see ``free_text.py``. So a tag's content never runs over its end. In a sequence, free text that excludes
what the next format begins with goes on to the first place of it. Special tokens are named by id or by spelling
(``token_symbols.py``). Nothing of a specification is dropped silently: a field or format that is not known is
refused by JSON pointer. What a schema, a pattern or a grammar means is their modules' business.

The formats with tags are in ``structural_tags.py``, those of tokens in ``structural_tokens.py``, calls with tagged
parameters in ``structural_parameters.py``, the others here. A specification is nested at most
``json_schema.values.MAX_DEPTH`` deep, so that they may recurse.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from radixrt.errors import InvalidRequest, RadixrtError, UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.ebnf import ebnf_symbol
from radixrt.grammar.json_schema import json_schema_symbol
from radixrt.grammar.json_schema.values import JsonValue, from_python, parse_json
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex import regex_term
from radixrt.grammar.structural_fields import Fields, wrong
from radixrt.grammar.structural_parameters import STYLES, ParameterReader
from radixrt.grammar.structural_pieces import NOTHING, Follow, Pieces
from radixrt.grammar.structural_tags import OpenedTag, TagFormats, leading_text
from radixrt.grammar.structural_tokens import TokenFormats
from radixrt.grammar.token_symbols import TokenSymbols

__all__ = ["structural_tag_symbol"]


def structural_tag_symbol(
    builder: GrammarBuilder, spec: Mapping[str, object] | str, limits: GrammarLimits, symbols: TokenSymbols
) -> Symbol:
    """The symbol of the texts that a structural tag (a dict, or JSON text) describes.

    Raises ``InvalidRequest`` for a malformed one and ``UnsupportedConstraint`` for what is beyond the engine, both
    with param ``grammar`` and a JSON pointer.
    """
    try:
        value = parse_json(spec) if isinstance(spec, str) else from_python(spec)
    except UnsupportedConstraint as error:
        raise UnsupportedConstraint(
            f"in the structural tag: {error.message}",
            keyword=error.keyword,
            location=error.location,
            param="grammar",
        ) from error
    except InvalidRequest as error:
        raise InvalidRequest(f"in the structural tag: {error.message}", param="grammar") from error
    pieces = Pieces(builder, limits, symbols)
    tags = TagFormats(pieces)
    TokenFormats(pieces, tags)
    TextFormats(pieces)
    fields = Fields(value, "")
    kind = fields.text("type", "structural_tag")
    if kind != "structural_tag":
        wrong(fields.at("type"), f"expected 'structural_tag', not {kind!r}")
    if fields.has("format"):
        symbol = pieces.format(fields.raw("format"), fields.at("format"))
    elif not fields.has("structures"):
        wrong("", "there is neither a field 'format' nor a field 'structures'")
    else:
        symbol = _structures(pieces, tags, fields)
    fields.done()
    return symbol


def _structures(pieces: Pieces, tags: TagFormats, fields: Fields) -> Symbol:
    """The older spelling: triggered tags around schemas."""
    found = []
    for item, pointer in fields.items("structures"):
        structure = fields.inner(item, pointer)
        end = pieces.builder.literal(structure.text("end"))
        content = pieces.builder.seq(_schema(pieces, structure, "schema", None), end)
        found.append(OpenedTag(structure.text("begin"), content, structure.at("begin")))
    if not found:
        wrong(fields.at("structures"), "there must be at least one structure")
    return tags.triggered(fields, found, (), NOTHING)


class TextFormats:
    """One piece of text, and pieces one after the other, repeated, or in place of one another."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._builder = pieces.builder
        pieces.formats.update(
            {
                "const_string": self._const_string,
                "json_schema": self._json_schema,
                "qwen_xml_parameter": lambda fields, follow: self._parameters(fields, "qwen_xml", follow),
                "regex": self._regex,
                "grammar": self._grammar,
                "any_text": self._any_text,
                "sequence": self._sequence,
                "or": self._or,
                "optional": lambda fields, follow: self._rounds(fields, follow, 0, 1),
                "star": lambda fields, follow: self._rounds(fields, follow, 0, None),
                "plus": lambda fields, follow: self._rounds(fields, follow, 1, None),
                "repeat": self._repeat,
            }
        )

    def _const_string(self, fields: Fields, follow: Follow) -> Symbol:
        return self._pieces.then(self._builder.literal(fields.text("value")), follow)

    def _json_schema(self, fields: Fields, follow: Follow) -> Symbol:
        style = fields.text("style", "json")
        if style != "json":
            return self._parameters(fields, style, follow)
        if not fields.flag("any_order"):
            return self._pieces.then(_schema(self._pieces, fields, "json_schema", None), follow)
        try:
            return self._pieces.then(_schema(self._pieces, fields, "json_schema", "any"), follow)
        except UnsupportedConstraint as error:
            if error.keyword == "key_order":  # this notation has another name for it
                error.keyword, error.location = "any_order", fields.at("any_order")
            raise

    def _parameters(self, fields: Fields, style: str, follow: Follow) -> Symbol:
        if style not in STYLES:
            fields.refuse("style", f"parameters are written as JSON or as {', '.join(STYLES)}")
        if fields.flag("any_order"):
            fields.refuse("any_order", "tagged parameters come in the order of the schema")
        schema = fields.raw("json_schema")
        reader = ParameterReader(self._pieces, STYLES[style], schema, fields.at("json_schema"))
        return self._pieces.then(reader.symbol(), follow)

    def _regex(self, fields: Fields, follow: Follow) -> Symbol:
        try:
            term = regex_term(self._pieces.pool, fields.text("pattern"), self._pieces.limits)
        except RadixrtError as error:
            fields.blame(error, "pattern")
        return self._pieces.then(self._builder.terminal(term), follow)

    def _grammar(self, fields: Fields, follow: Follow) -> Symbol:
        try:
            symbol = ebnf_symbol(self._builder, fields.text("grammar"), self._pieces.limits, self._pieces.symbols)
        except RadixrtError as error:
            fields.blame(error, "grammar")
        return self._pieces.then(symbol, follow)

    def _any_text(self, fields: Fields, follow: Follow) -> Symbol:
        fields.refuse("max_tokens", "how many tokens a text makes is not part of a grammar; max_chars is")
        return self._pieces.free(fields.texts("excludes", ()), follow, fields.count("max_chars", None))

    def _sequence(self, fields: Fields, follow: Follow) -> Symbol:
        items = list(fields.items("elements"))
        if not items:
            return self._pieces.then(self._builder.empty, follow)
        parts = []
        for (item, pointer), (following, _) in itertools.pairwise(items):
            parts.append(self._pieces.format(item, pointer, follow.inside(leading_text(following))))
        parts.append(self._pieces.format(*items[-1], follow))
        return self._builder.seq(*parts)

    def _or(self, fields: Fields, follow: Follow) -> Symbol:
        ways = [self._pieces.format(item, pointer, follow) for item, pointer in fields.items("elements")]
        if not ways:
            wrong(fields.at("elements"), "there must be at least one element")
        return self._builder.alt(*ways)

    def _repeat(self, fields: Fields, follow: Follow) -> Symbol:
        low, high = fields.count("min"), fields.count("max", low=-1)
        if low is None or high is None or -1 < high < low:
            wrong(fields.at("max"), "max is below min (-1 is without end)")
        return self._rounds(fields, follow, low, None if high == -1 else high)

    def _rounds(self, fields: Fields, follow: Follow, low: int, high: int | None) -> Symbol:
        """The last round is followed by the end, the others by the next round."""
        builder, pieces = self._builder, self._pieces
        content, pointer = fields.raw("content"), fields.at("content")
        inside = follow.inside()
        once = pieces.format(content, pointer, inside)
        if follow == inside:
            return builder.repeat(once, low, high)
        none = pieces.then(builder.empty, follow)
        if high == 0:
            return none
        others = builder.repeat(once, max(low - 1, 0), None if high is None else high - 1)
        some = builder.seq(others, pieces.format(content, pointer, follow))
        return builder.alt(some, none) if low == 0 else some


def _schema(pieces: Pieces, fields: Fields, name: str, key_order: str | None) -> Symbol:
    """The symbol of JSON under the schema in a field."""
    schema: JsonValue = fields.raw(name)
    if not isinstance(schema, dict | bool | str):
        wrong(fields.at(name), "expected a schema: an object, true or false, or either as JSON text")
    try:
        return json_schema_symbol(pieces.builder, schema, key_order=key_order)
    except RadixrtError as error:
        fields.blame(error, name)
