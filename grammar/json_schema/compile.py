"""The way from a JSON Schema to a grammar, and the options of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar.cfg import Grammar, GrammarBuilder, Symbol
from radixrt.grammar.json_schema.documents import Library
from radixrt.grammar.json_schema.emit import Emitter
from radixrt.grammar.json_schema.expand import Expander
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.living import Living
from radixrt.grammar.json_schema.prepared import prepared_languages
from radixrt.grammar.json_schema.shapes import goal_of
from radixrt.grammar.json_schema.spacing import WHITESPACE, Spacing
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.limits import GrammarLimits

__all__ = ["KEY_ORDERS", "UNKNOWN_FORMATS", "SchemaParts", "json_schema_grammar", "json_schema_symbol"]

KEY_ORDERS: Final = ("schema", "any")
SCHEMA_FUEL: Final = 15  # about what handling one schema costs beside the pool, in its operations
UNKNOWN_FORMATS: Final = ("ignore", "refuse")


def json_schema_grammar(
    schema: Mapping[str, object] | bool | str,
    *,
    resources: Mapping[str, object] | None = None,
    whitespace: str | None = None,
    key_order: str | None = None,
    unknown_format: str | None = None,
    limits: GrammarLimits | None = None,
) -> Grammar:
    """The grammar of the JSON texts that are valid under ``schema``.

    Args:
        schema: a dict, a bool, or JSON text, whose key order is the order of the output.
        resources: schemas by absolute URI that ``$ref`` may name.
        whitespace: ``"flexible"`` (default) or ``"compact"``, see ``spacing``.
        key_order: ``"schema"`` (default): declared names in order, then required-only ones, then others; ``"any"``.
        unknown_format: ``"ignore"`` (default, as the specification says) or ``"refuse"``.

    Raises:
        InvalidRequest: the schema or an option is malformed; the message has a JSON pointer.
        UnsupportedConstraint: a keyword is beyond the engine; ``keyword`` and ``location`` say which and where.
        UnsatisfiableConstraint: no value is valid.
    """
    _check_option("whitespace", whitespace, WHITESPACE)
    _check_option("key_order", key_order, KEY_ORDERS)
    _check_option("unknown_format", unknown_format, UNKNOWN_FORMATS)
    try:
        return _grammar(schema, resources, whitespace, key_order, unknown_format, limits or GrammarLimits())
    except UnsatisfiableConstraint:
        raise UnsatisfiableConstraint("no JSON value is valid under the schema", param="schema") from None
    except UnsupportedConstraint as error:
        error.param = "schema"  # the limits know what ran out, not what for
        if error.location is None:
            error.location = ""
        raise


def _grammar(
    schema: Mapping[str, object] | bool | str,
    resources: Mapping[str, object] | None,
    whitespace: str | None,
    key_order: str | None,
    unknown_format: str | None,
    limits: GrammarLimits,
) -> Grammar:
    library = Library(schema, resources)
    languages = prepared_languages(library.formats, unknown_format or "ignore", limits.compile_fuel)
    languages.pool.spend(SCHEMA_FUEL * library.size)
    expander = Expander(library, languages)
    living = Living(expander.reasoner, expander.of_goal)
    while True:
        builder = GrammarBuilder(languages.pool)
        spacing = Spacing(languages.pool, whitespace or "flexible")
        emitter = _emitter(builder, library, expander, spacing, living, key_order, tracked=True)
        root = emitter.root(goal_of(library.meant(library.main)))
        dead = emitter.dead_goals()
        if not dead:
            return builder.build(root)._replace(tracks=emitter.tracks)
        for goal in dead:
            living.bury(goal)


def json_schema_symbol(
    builder: GrammarBuilder, schema: Mapping[str, object] | bool | str, *, key_order: str | None = None
) -> Symbol:
    """The JSON texts that are valid under ``schema``, as a part of another grammar.

    Options are the defaults of ``json_schema_grammar``, and so are the errors, but for a schema that no value
    satisfies: it is a symbol that produces nothing. What only the tracker of a text that is JSON from its first
    byte could hold is refused here, by its keyword; names that a schema does not declare may repeat, and the last
    value counts, as ``json.loads`` reads it.
    """
    return SchemaParts(builder, schema, key_order=key_order).symbol("", {})


class SchemaParts:
    """Parts of one schema as parts of another grammar, each as ``json_schema_symbol`` has the whole.

    References go from the whole, and so do the JSON pointers of errors.
    """

    def __init__(
        self,
        builder: GrammarBuilder,
        schema: Mapping[str, object] | bool | str,
        *,
        key_order: str | None = None,
    ) -> None:
        _check_option("key_order", key_order, KEY_ORDERS)
        self._library = Library(schema)
        languages, spacing = Languages(builder.pool, "ignore"), Spacing(builder.pool, "flexible")
        expander = Expander(self._library, languages)
        living = Living(expander.reasoner, expander.of_goal)
        self._emitter = _emitter(builder, self._library, expander, spacing, living, key_order, tracked=False)

    def symbol(self, pointer: str, keywords: Mapping[str, JsonValue]) -> Symbol:
        """The JSON under the schema at ``pointer``; ``keywords``, which hold no schemas, replace its own."""
        library = self._library
        return self._emitter.root(goal_of(library.meant(library.part(pointer, keywords))))


def _emitter(
    builder: GrammarBuilder,
    library: Library,
    expander: Expander,
    spacing: Spacing,
    living: Living,
    key_order: str | None,
    *,
    tracked: bool,
) -> Emitter:
    return Emitter(
        builder,
        expander,
        spacing,
        living,
        any_order=key_order == "any",
        tracked=tracked,
        marked=library.asserts("uniqueItems"),
    )


def _check_option(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise InvalidRequest(f"{name} must be one of {', '.join(known)}, not {value!r}", param=name)
